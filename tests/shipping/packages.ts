/**
 * The packages of JSR that an app may bring: `@db/sqlite` as its database, `@iuioiua/redis` as its client of Redis. The
 * contract of drivers is run on each, by Deno. Run by `deno task ok packages`.
 *
 * Both come from JSR, and `@db/sqlite` loads a library from GitHub besides, unless `DENO_SQLITE_PATH` names one. What
 * cannot be reached is skipped.
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { run } from "../../scripts/command.ts";
import { findRuntime } from "../../scripts/runtimes.ts";
import { noRedis } from "../redis_server.ts";

const runtime = findRuntime("deno");
const noDeno = typeof runtime === "string" && runtime;
const jsr = process.env.JSR_URL ?? "https://jsr.io/";

/** Why a URL cannot be had, in the few seconds that a test may wait for that. */
async function unreachable(url: string): Promise<string | false> {
  try {
    const { ok, status } = await fetch(url, { method: "HEAD", signal: AbortSignal.timeout(3000) });
    return !ok && `${url} answers ${status}`;
  } catch (error) {
    const { cause, message } = error as Error;
    return `${url} cannot be reached: ${cause instanceof Error ? cause.message : message}`;
  }
}

async function onDeno(program: string): Promise<void> {
  const { path } = runtime as Exclude<typeof runtime, string>;
  // Deno's own lock file knows nothing of JSR, and must not.
  const args = ["test", "--allow-all", "--no-check", "--no-lock", join("tests", "shipping", program)];
  const env = { ...process.env, NO_COLOR: "1" };
  const { why, output } = await run(path, args, { env, seconds: 300, output: "keep" });
  assert.equal(why, undefined, output);
  const passed = Number(/^ok \| (\d+) passed/m.exec(output)?.[1]);
  assert.ok(passed > 100, output);
}

const noDbSqlite = noDeno || await unreachable(new URL("@db/sqlite/meta.json", jsr).href) ||
  (process.env.DENO_SQLITE_PATH === undefined && await unreachable("https://github.com/denodrivers/sqlite3"));
test(
  "a queue keeps its contract on a connection of @db/sqlite",
  { skip: noDbSqlite },
  () => onDeno("db_sqlite.ts"),
);

const noClient = noDeno || noRedis || await unreachable(new URL("@iuioiua/redis/meta.json", jsr).href);
test(
  "a queue keeps its contract by clients of @iuioiua/redis",
  { skip: noClient },
  () => onDeno("iuioiua_redis.ts"),
);
