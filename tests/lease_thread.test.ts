/**
 * Why a worker in one process has no thread of its own for leases: what one could do, and what it could not, by
 * programs that show it. The answer is `processes`; see "Processes" in ARCHITECTURE.md.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { inFolder } from "./folder.ts";
import { type Program, withPrograms } from "./process.ts";
import { until } from "./until.ts";

const REQUEST = {
  queues: [{ queue: "default", limit: 1 }],
  limit: 1,
  prefetch: 0,
  now: null,
  retryAfter: 400,
};

/** Whether another worker gets the job before the program's handler has ended. */
async function isTaken(program: Program, database: string): Promise<boolean> {
  await program.says("blocks");
  const driver = new SqliteDriver({ database });
  try {
    return await until(async () => {
      if ((await driver.reserve(REQUEST)).jobs.length > 0) return "taken";
      return program.all("blocked").length > 0 && "kept";
    }, "the job to be taken or done") === "taken";
  } finally {
    await driver.close();
  }
}

for (const thread of [false, true]) {
  const who = thread ? "a thread renews is kept" : "the event loop should renew is taken by another worker";
  test(`the lease of a handler that blocks, which ${who}`, () =>
    inFolder((folder) =>
      withPrograms(async (start) => {
        const database = join(folder, "queue.sqlite");
        const program = start("lease_thread", { database, thread, block: 3000 });
        assert.equal(await isTaken(program, database), !thread);
        // A thread renews for ever, but nobody can end the job: what would abort it waits behind it.
        assert.deepEqual(await program.says("blocked"), ["blocked", false]);
      })
    ));
}

test("a thread cannot renew what lies in memory, as its connection is to another database", () =>
  withPrograms(async (start) => {
    const program = start("lease_thread", { database: ":memory:", thread: true, block: 1 });
    assert.deepEqual(await program.says("renews"), ["renews", false]);
  }));
