/** Bee-Queue, its defaults but that done jobs are removed, as ours are. Bulk is `saveAll`. */
import { requirePeer } from "../../peers.ts";
import { countdown, type Payload } from "../../subject.ts";
import type { Place, RedisSubject } from "../subject.ts";

export default async function open(place: Place): Promise<RedisSubject> {
  const Bee = requirePeer("bee-queue");
  const settings = { redis: place, removeOnSuccess: true };
  const queue = new Bee("bench", { ...settings, isWorker: false, getEvents: false });
  await queue.ready();
  return {
    dispatch: (data) => queue.createJob(data).save(),
    dispatchMany: (data: readonly Payload[]) => queue.saveAll(data.map((one) => queue.createJob(one))),
    work(jobs, concurrency) {
      const { tick, done } = countdown(jobs);
      const worker = new Bee("bench", { ...settings, getEvents: false });
      worker.process(concurrency, async () => {});
      worker.on("succeeded", tick);
      return { done, stop: () => worker.close() };
    },
    async hear(started) {
      const worker = new Bee("bench", { ...settings, getEvents: false });
      worker.process(1, (job: { data: Payload }) => {
        started(job.data);
        return Promise.resolve();
      });
      await worker.ready();
      return { stop: () => worker.close() };
    },
    async left() {
      const { waiting, active, delayed } = await queue.checkHealth();
      return waiting + active + delayed;
    },
    close: () => queue.close(),
  };
}
