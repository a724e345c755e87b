/** Bull, its defaults but that done jobs are removed, as ours are. Bulk is `addBulk`. */
import { requirePeer } from "../../peers.ts";
import { countdown, type Payload } from "../../subject.ts";
import type { Place, RedisSubject } from "../subject.ts";

export default async function open(place: Place): Promise<RedisSubject> {
  const Bull = requirePeer("bull");
  const opts = { removeOnComplete: true };
  const make = () => new Bull("bench", { redis: place });
  const queue = make();
  await queue.isReady();
  return {
    dispatch: (data) => queue.add(data, opts),
    dispatchMany: (data: readonly Payload[]) => queue.addBulk(data.map((one) => ({ data: one, opts }))),
    work(jobs, concurrency) {
      const { tick, done } = countdown(jobs);
      const worker = make();
      worker.process(concurrency, async () => {});
      worker.on("completed", tick);
      return { done, stop: () => worker.close() };
    },
    async hear(started) {
      const worker = make();
      worker.process(1, (job: { data: Payload }) => {
        started(job.data);
        return Promise.resolve();
      });
      await worker.isReady();
      return { stop: () => worker.close() };
    },
    async left() {
      const { waiting, active, delayed } = await queue.getJobCounts();
      return waiting + active + delayed;
    },
    close: () => queue.close(),
  };
}
