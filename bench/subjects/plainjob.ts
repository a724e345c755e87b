/**
 * plainjob on `bun:sqlite` under Bun, on better-sqlite3 under Node. Its worker takes one job after another, so a
 * concurrency of N is N workers on one connection. Bulk is `addMany`. It logs every step at debug level to the
 * console: the log is off here. Its own pragmas: WAL, synchronous=NORMAL.
 */
import { createRequire } from "node:module";
import { peer, PEERS } from "../peers.ts";
import { countdown, type Payload, type Subject } from "../subject.ts";

const log = { debug() {}, info() {}, warn() {}, error: console.error };

export default async function open(file: string): Promise<Subject> {
  const { better, bun, defineQueue, defineWorker, JobStatus } = await peer("plainjob/dist/plainjob.js");
  let connection;
  if ("Bun" in globalThis) {
    const { Database } = await import("bun:sqlite" as string);
    connection = bun(new Database(file, { create: true, strict: true }));
  } else {
    const Database = createRequire(new URL("package.json", PEERS))("better-sqlite3");
    connection = better(new Database(file));
  }
  const queue = defineQueue({ connection, logger: log });
  return {
    dispatch: (data) => queue.add("bench", data),
    dispatchMany: (data: readonly Payload[]) => queue.addMany("bench", data),
    work(jobs, concurrency) {
      const { tick, done } = countdown(jobs);
      const options = { queue, logger: log, onCompleted: tick };
      const workers = Array.from(
        { length: concurrency },
        () => defineWorker("bench", async () => {}, options),
      );
      for (const worker of workers) worker.start();
      return { done, stop: () => Promise.all(workers.map((worker) => worker.stop())) };
    },
    left: () =>
      queue.countJobs({ status: JobStatus.Pending }) + queue.countJobs({ status: JobStatus.Processing }),
    close: () => queue.close(),
  };
}
