/**
 * What a thread that renews leases could do for a handler that blocks the event loop, and what it could not: holds a
 * job, blocks until there is a file, and says what became of the timeout that it had set before.
 */
import { existsSync } from "node:fs";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import type { Reservation } from "../../core/driver.ts";
import { SqliteDriver } from "../../drivers/sqlite.ts";

const LEASE = 400;

/** Renews in a thread, on a connection of its own, and tells of the first renewal whether the job was still held. */
async function renew({ database, held }: { database: string; held: Reservation }): Promise<void> {
  const driver = new SqliteDriver({ database });
  await driver.open();
  const lost = await driver.extend([held], null);
  parentPort!.postMessage(lost.length === 0);
  setInterval(() => driver.extend([held], null), LEASE / 4);
}

async function hold(): Promise<void> {
  // Not in the thread, which has no options.
  const { options, say } = await import("./say.ts");
  const { database, thread, block } = options;
  const driver = new SqliteDriver({ database });
  await driver.open();
  const job = { name: "block", payload: "null", queue: "default", priority: 0, delay: 0 };
  await driver.push([job], null);
  const queues = [{ queue: "default", limit: 1 }];
  const { jobs: [held] } = await driver.reserve({
    queues,
    limit: 1,
    prefetch: 0,
    now: null,
    retryAfter: LEASE,
  });
  if (thread) {
    const worker = new Worker(new URL(import.meta.url), { workerData: { database, held } });
    say("renews", await new Promise((resolve) => worker.once("message", resolve)));
  }
  let timedOut = false;
  setTimeout(() => timedOut = true, 100);
  say("blocks", held.id);
  for (const since = performance.now(); !existsSync(block) || performance.now() - since < 200;);
  say("blocked", timedOut);
}

if (isMainThread) hold();
else renew(workerData);
