/** What can be known of the workflows without running them: that what they call is there. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { downloads } from "../scripts/release.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, ".github", "workflows");
const workflows = readdirSync(folder).map((file) =>
  [file, readFileSync(join(folder, file), "utf8")] as const
);
const { tasks } = JSON.parse(readFileSync(join(root, "deno.json"), "utf8")) as {
  tasks: Record<string, string>;
};

function read(file: string): string {
  return readFileSync(join(folder, file), "utf8");
}

/** The jobs of a workflow, each as its text. */
function jobs(text: string): Map<string, string> {
  const [, all] = text.split(/^jobs:\n/m);
  return new Map(
    [...all.matchAll(/^ {2}(\w+):\n((?: {4}.*\n|\n| {2}#.*\n)*)/gm)].map(([, name, body]) => [name, body]),
  );
}

/** What the steps run: one line, or a block. */
function commands(text: string): string[] {
  return [...text.matchAll(/^( *)(?:- )?run: (?:[|>]-?\n((?:\1 {2,}.*\n|\n)+)|(.*))/gm)]
    .map(([, , block, line]) => block ?? line);
}

describe("the workflows", () => {
  it("are those of CI and of a release", () => {
    assert.deepEqual(workflows.map(([file]) => file).sort(), ["ci.yml", "release.yml"]);
    assert.deepEqual([...jobs(read("ci.yml")).keys()], ["ok", "binary", "suite", "redis"]);
    assert.deepEqual([...jobs(read("release.yml")).keys()], ["check", "binary", "tarball", "publish"]);
  });

  for (const [file, text] of workflows) {
    it(`${file} runs tasks and files that exist`, () => {
      const run = commands(text).join("\n");
      const named = [...run.matchAll(/\bdeno task ([\w:-]+)/g)].map(([, task]) => task);
      assert.ok(named.length > 1, "some tasks were found");
      assert.deepEqual(named.filter((task) => !(task in tasks)), []);
      const files = [...run.matchAll(/(?<![\w/])(?:\.ci|scripts|tests|examples)\/[\w./-]+/g)].map(([path]) =>
        path
      );
      assert.ok(files.length > 0, "some files were found");
      assert.deepEqual(files.filter((path) => !existsSync(join(root, path))), []);
    });

    it(`${file} takes actions of a major version`, () => {
      const uses = [...text.matchAll(/^ *- uses: (.*)$/gm)].map(([, action]) => action);
      assert.ok(uses.length > 3);
      assert.deepEqual(uses.filter((action) => !/^[\w.-]+\/[\w.-]+@v\d+$/.test(action)), []);
      assert.equal(text.match(/\buses:/g)?.length, uses.length, "each was seen");
    });

    it(`${file} may read alone, in bounded time, and one run at a time`, () => {
      assert.match(text, /^permissions:\n {2}contents: read\n\n/m);
      assert.match(text, /^concurrency:\n {2}group: /m);
      for (const [name, body] of jobs(text)) assert.match(body, /^ {4}timeout-minutes: \d+$/m, name);
      const writes = [...jobs(text)].filter(([, body]) => /: write\b/.test(body)).map(([name]) => name);
      assert.deepEqual(writes, file === "release.yml" ? ["publish"] : [], "only what publishes may write");
    });

    it(`${file} puts nothing that others may name into a command`, () => {
      const inserted = commands(text).flatMap((command) => [...command.matchAll(/\$\{\{\s*(.*?)\s*\}\}/g)]);
      const allowed = /^(matrix|runner)\./;
      assert.deepEqual(inserted.map(([, what]) => what).filter((what) => !allowed.test(what)), []);
    });
  }

  it("test each runtime on each system", () => {
    const suite = jobs(read("ci.yml")).get("suite")!;
    assert.match(suite, /os: \[ubuntu-latest, macos-latest, windows-latest\]/);
    assert.match(suite, /runtime: \[deno, bun, node\]/);
    assert.match(suite, /deno task test \$\{\{ matrix\.runtime \}\}/);
  });

  it("run every test with a Redis on Redis 7, 8 and Valkey", () => {
    const redis = jobs(read("ci.yml")).get("redis")!;
    const images = [...redis.matchAll(/- image: (.*)/g)].map(([, image]) => image);
    assert.deepEqual(images, ["redis:7", "redis:8", "valkey/valkey:8"]);
    const command = commands(redis).find((run) => run.includes("deno task test"))!;
    const filters = command.split("--\n")[1].trim().split(/\s+/);
    const files = readdirSync(join(root, "tests"), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".test.ts"))
      .filter((file) => /\bnoRedis\b/.test(readFileSync(join(root, "tests", file), "utf8")))
      .filter((file) => basename(file) !== "workflows.test.ts");
    assert.ok(files.length > 10);
    const left = files.filter((file) => !filters.some((part) => join("tests", file).includes(part)));
    assert.deepEqual(left, []);
  });

  it("make a binary for each target that is released", () => {
    const binary = jobs(read("release.yml")).get("binary")!;
    const targets = [...binary.matchAll(/^ +target: (.*)$/gm)].map(([, target]) => target).sort();
    assert.match(binary, /target: windows-x64\n +end: \.exe\n/);
    const wanted = downloads("1.2.3").filter((name) => !name.endsWith(".tgz"));
    assert.deepEqual(
      targets.map((target) => `queue-${target}`),
      wanted.map((name) => name.replace(".exe", "")),
    );
  });

  it("publish only what was checked", () => {
    const release = jobs(read("release.yml"));
    assert.match(release.get("check")!, /deno task release check "\$GITHUB_REF_NAME"[^]*bash \.ci\/run/);
    for (const name of ["binary", "tarball"]) assert.match(release.get(name)!, /^ {4}needs: check$/m);
    assert.match(release.get("publish")!, /^ {4}needs: \[binary, tarball\]$/m);
    const run = commands(release.get("publish")!).join("\n");
    const order = [
      "release checksums",
      "deno publish",
      "release notes",
      "gh release create",
      "--draft=false",
    ];
    const places = order.map((step) => run.indexOf(step));
    assert.deepEqual(places, [...places].sort((a, b) => a - b));
    assert.equal(places.includes(-1), false);
  });
});
