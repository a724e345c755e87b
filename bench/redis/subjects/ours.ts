/** This library with `connection: "redis"` and its defaults. Bulk is `dispatchMany`. */
import { type Job, Queue } from "../../../mod.ts";
import type { Payload } from "../../subject.ts";
import type { Place, RedisSubject } from "../subject.ts";

export default function open({ host, port }: Place, prefetch: number = 0): RedisSubject {
  let started: (data: Payload) => void = () => {};
  let heard = false;
  const queue = new Queue({
    jobs: { bench: (job: Job<Payload>) => void (heard && started(job.data)) },
    database: ":memory:",
    connection: "redis",
    redis: { url: `redis://${host}:${port}`, prefix: "bench:" },
    env: {},
  });
  return {
    dispatch: (data) => queue.dispatch("bench", data),
    dispatchMany: (data: readonly Payload[]) => queue.dispatchMany(data.map((one) => ["bench", one])),
    work: (_jobs, concurrency) => ({
      done: queue.work({ concurrency, prefetch, stopWhenEmpty: true }),
      stop: () => {},
    }),
    hear(listener) {
      heard = true;
      started = listener;
      const workers = queue.start(1);
      return Promise.resolve({ stop: () => workers.stop() });
    },
    left: () => queue.waiting(),
    close: () => queue.close(),
  };
}
