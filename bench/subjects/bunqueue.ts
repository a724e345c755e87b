/**
 * bunqueue embedded in the process, under Bun, with `durable: true` on every job: without it a crash can lose what was
 * accepted in the last 10 ms. Bulk is `addBulk`. Its own pragmas: WAL, synchronous=NORMAL.
 */
import { peer } from "../peers.ts";
import { countdown, type Payload, type Subject } from "../subject.ts";

const durable = { durable: true };

export default async function open(file: string): Promise<Subject> {
  const { Queue, Worker, shutdownManager } = await peer("bunqueue/dist/client/index.js");
  const queue = new Queue("bench", { embedded: true, dataPath: file });
  return {
    dispatch: (data) => queue.add("bench", data, durable),
    dispatchMany: (data: readonly Payload[]) =>
      queue.addBulk(data.map((one) => ({ name: "bench", data: one, opts: durable }))),
    work(jobs, concurrency) {
      const { tick, done } = countdown(jobs);
      const worker = new Worker("bench", async () => {}, { embedded: true, concurrency });
      worker.on("completed", tick);
      return { done, stop: () => worker.close() };
    },
    async left() {
      const { waiting, active, delayed } = await queue.getJobCounts();
      return waiting + active + delayed;
    },
    close: () => shutdownManager(),
  };
}
