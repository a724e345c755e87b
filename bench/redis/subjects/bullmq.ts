/** BullMQ, its defaults but that done jobs are removed, as ours are. Bulk is `addBulk`. */
import { requirePeer } from "../../peers.ts";
import { countdown, type Payload } from "../../subject.ts";
import type { Place, RedisSubject } from "../subject.ts";

export default async function open(place: Place): Promise<RedisSubject> {
  const { Queue, Worker } = requirePeer("bullmq");
  const connection = { ...place, maxRetriesPerRequest: null };
  const opts = { removeOnComplete: true };
  const queue = new Queue("bench", { connection });
  await queue.waitUntilReady();
  return {
    dispatch: (data) => queue.add("bench", data, opts),
    dispatchMany: (data: readonly Payload[]) =>
      queue.addBulk(data.map((one) => ({ name: "bench", data: one, opts }))),
    work(jobs, concurrency) {
      const { tick, done } = countdown(jobs);
      const worker = new Worker("bench", async () => {}, { connection, concurrency });
      worker.on("completed", tick);
      return { done, stop: () => worker.close() };
    },
    async hear(started) {
      const worker = new Worker("bench", (job: { data: Payload }) => {
        started(job.data);
        return Promise.resolve();
      }, { connection });
      await worker.waitUntilReady();
      return { stop: () => worker.close() };
    },
    async left() {
      const counts = await queue.getJobCounts("waiting", "active", "delayed", "paused");
      return Object.values(counts as Record<string, number>).reduce((sum, count) => sum + count, 0);
    },
    close: () => queue.close(),
  };
}
