/** The command line as one file, as `deno task bundle` makes it, away from this repository and on each runtime. */
import assert from "node:assert/strict";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { run } from "../../scripts/command.ts";
import { findRuntime, root } from "../../scripts/runtimes.ts";
import { noRedis, RedisServer } from "../redis_server.ts";
import { type Command, Place } from "./place.ts";
import { PLAIN_JOBS, tour } from "./tour.ts";

/** Where a runtime is. */
function path(name: "deno" | "bun"): string {
  const found = findRuntime(name);
  if (typeof found === "string") throw new Error(found);
  return found.path;
}

const RUNTIMES = {
  Deno: [path("deno"), "run", "-A"],
  Bun: [path("bun")],
  Node: [process.execPath],
} as const;

/** Runs `use` in a folder with the file and a module of jobs, and with the command that starts it. */
async function withBundle(
  runtime: readonly [string, ...string[]],
  use: (place: Place, queue: Command) => Promise<void>,
): Promise<void> {
  // Nothing is on the PATH: what it starts, it starts by its path.
  const place = new Place("");
  try {
    copyFileSync(join(root, "dist", "queue.mjs"), join(place.path, "queue.mjs"));
    place.write({ "jobs.ts": PLAIN_JOBS });
    await use(place, [...runtime, "queue.mjs"]);
  } finally {
    await place.remove();
  }
}

describe("the command line as one file", { concurrency: true }, () => {
  let server: RedisServer | null = null;

  before(async () => {
    const { why, output } = await run(path("deno"), ["task", "bundle"], { seconds: 120, output: "keep" });
    assert.equal(why, undefined, output);
    if (!noRedis) server = await RedisServer.start();
  });
  after(() => server?.stop());

  for (const [name, runtime] of Object.entries(RUNTIMES)) {
    it(`works on ${name} without the package`, () =>
      withBundle(runtime, (place, queue) => tour(place, queue, name as keyof typeof RUNTIMES)));

    it(`works on ${name} with Redis`, { skip: noRedis }, () =>
      withBundle(runtime, async (place, queue) => {
        const env = {
          QUEUE_CONNECTION: "redis",
          QUEUE_FAILED: "redis",
          REDIS_URL: server!.url,
          REDIS_PREFIX: `${name}:`,
        };
        await place.run([...queue, "queue:dispatch", "greet", '{"name":"Ada"}'], 0, env);
        await place.run([...queue, "queue:work", "--stop-when-empty"], 0, env);
        assert.equal(place.read("Ada.txt"), `${name}\n`);
      }));
  }

  it("has what logs and traces need", () =>
    withBundle(RUNTIMES.Node, async (place, queue) => {
      await place.run([...queue, "queue:dispatch", "greet", '{"name":"Ada"}']);
      const env = { QUEUE_OTEL: "1" };
      const { stdout } = await place.run([...queue, "queue:work", "--once", "--log=json"], 0, env);
      const events = stdout.trim().split("\n").map((line) => JSON.parse(line).properties.event);
      assert.ok(events.includes("completed"), stdout);
    }));

  it("says what is missing", () =>
    withBundle(RUNTIMES.Node, async (place, queue) => {
      const { stderr } = await place.run([...queue, "queue:work", "--jobs=nowhere.ts"], 2);
      assert.match(stderr, /jobs module .*nowhere\.ts .*no such file/);
      const nowhere = { QUEUE_CONNECTION: "redis", QUEUE_FAILED: "redis", REDIS_URL: "redis://127.0.0.1:1" };
      await place.run([...queue, "queue:status"], 1, nowhere);
    }));
});
