/**
 * This library, as an app uses it: a path, its defaults (WAL, synchronous=NORMAL, no prefetch), one worker in the process.
 * Bulk is `dispatchMany`. Work ends with `stopWhenEmpty`, once everything is settled.
 */
import { Queue } from "../../mod.ts";
import type { Payload, Subject, Variant } from "../subject.ts";

export default function open(file: string, { synchronous, prefetch }: Variant = {}): Subject {
  const jobs = { bench: (): void => {} };
  const queue = new Queue({ jobs, database: file, synchronous, env: {} });
  return {
    dispatch: (data) => queue.dispatch("bench", data),
    dispatchMany: (data: readonly Payload[]) => queue.dispatchMany(data.map((one) => ["bench", one])),
    work: (_jobs, concurrency) => ({
      done: queue.work({ concurrency, prefetch, stopWhenEmpty: true }),
      stop: () => {},
    }),
    left: () => queue.waiting(),
    close: () => queue.close(),
  };
}
