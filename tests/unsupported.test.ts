import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { unsupported } from "../cli/runtime.ts";

test("this runtime will do", () => {
  assert.equal(unsupported(process.versions), null);
});

test("a Node that is too old is named, with what is expected", () => {
  const { engines } = JSON.parse(readFileSync(join(import.meta.dirname!, "..", "package.json"), "utf8"));
  const oldest = engines.node.replace(/^>=/, "").replace(/\.0$/, "");
  for (const node of ["20.20.2", "18.0.0", "22.17.1"]) {
    assert.equal(unsupported({ node }), `Node ${node}: expected ${oldest} or newer`);
  }
  for (const node of [`${oldest}.0`, "23.0.0", "24.21.0"]) assert.equal(unsupported({ node }), null);
});

test("what Deno and Bun say of Node counts for nothing", () => {
  assert.equal(unsupported({ node: "20.11.1", deno: "2.9.6" }), null);
  assert.equal(unsupported({ node: "20.11.1", bun: "1.4.5" }), null);
});
