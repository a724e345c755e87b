/**
 * Why a worker in one process has no thread of its own for leases: what one could do, and what it could not, by
 * programs that show it. The answer is `processes`; see "Processes" in ARCHITECTURE.md.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { inFolder } from "./folder.ts";
import { type Program, withPrograms } from "./process.ts";
import { until } from "./until.ts";

const LEASE = 400;

/** Whether another worker gets the job at the end of its first lease, while the program's handler blocks. */
async function isTaken(program: Program, database: string): Promise<boolean> {
  const [, id] = await program.says("blocks");
  const driver = new SqliteDriver({ database });
  const leasedUntil = async () => (await driver.find(id as string, null, LEASE))!.leasedUntil!;
  try {
    const end = await leasedUntil();
    // Twice as long as a lease, or less where somebody renews: a machine that stands still makes no difference.
    await until(async () => Date.now() > end + LEASE || await leasedUntil() > end, "a renewal, or the end");
    const { jobs } = await driver.reserve({
      queues: [{ queue: "default", limit: 1 }],
      limit: 1,
      prefetch: 0,
      now: end,
      retryAfter: LEASE,
    });
    return jobs.length > 0;
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
        const file = join(folder, "enough");
        const program = start("lease_thread", { database, thread, block: file });
        assert.equal(await isTaken(program, database), !thread);
        writeFileSync(file, "");
        // A thread renews for ever, but nobody can end the job: what would abort it waits behind it.
        assert.deepEqual(await program.says("blocked"), ["blocked", false]);
      })
    ));
}

test("a thread cannot renew what lies in memory, as its connection is to another database", () =>
  withPrograms(async (start) => {
    const program = start("lease_thread", { database: ":memory:", thread: true, block: "/" });
    assert.deepEqual(await program.says("renews"), ["renews", false]);
  }));
