/**
 * One measurement in a process of its own: `<runtime> bench/redis/child.ts '<task as JSON>'` prints its result as JSON.
 *
 * @module
 */
import { writeSync } from "node:fs";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { payload, payloads } from "../subject.ts";
import type { Place, RedisSubject } from "./subject.ts";

/** What to measure, of which queue, where. */
export type RedisTask =
  & { readonly subject: string; readonly place: Place; readonly jobs: number }
  & ({ readonly kind: "dispatch" | "bulk" | "start" } | {
    readonly kind: "process";
    readonly concurrency: number;
  });

/** How many jobs come before those that count, as a part of these. */
export const WARM_UP: number = 1 / 3;

if (import.meta.main) {
  const task = JSON.parse(process.argv[2]) as RedisTask;
  const { default: open } = await import(`./subjects/${task.subject}.ts`);
  const subject = await open(task.place) as RedisSubject;
  writeSync(1, JSON.stringify({ figure: await measure(subject, task) }) + "\n");
  process.exit(0); // some leave timers behind
}

/** Jobs a second; of `start`, the median of milliseconds. */
async function measure(subject: RedisSubject, task: RedisTask): Promise<number> {
  const { jobs } = task;
  switch (task.kind) {
    case "dispatch": {
      for (let id = 0; id < jobs * WARM_UP; id++) await subject.dispatch(payload(id));
      const start = performance.now();
      for (let id = 0; id < jobs; id++) await subject.dispatch(payload(id));
      return jobs / (performance.now() - start) * 1000;
    }
    case "bulk": {
      const lot = payloads(500);
      for (let stored = 0; stored < jobs * WARM_UP; stored += lot.length) await subject.dispatchMany(lot);
      const start = performance.now();
      for (let stored = 0; stored < jobs; stored += lot.length) await subject.dispatchMany(lot);
      return jobs / (performance.now() - start) * 1000;
    }
    case "process": {
      let rate = NaN;
      for (const count of [Math.ceil(jobs * WARM_UP), jobs]) {
        for (let stored = 0; stored < count; stored += 500) {
          await subject.dispatchMany(payloads(Math.min(500, count - stored)));
        }
        const start = performance.now();
        const work = await subject.work(count, task.concurrency);
        await work.done;
        rate = count / (performance.now() - start) * 1000;
        await work.stop();
      }
      const left = await subject.left();
      if (left !== 0) throw new Error(`${left} of ${jobs} jobs were not worked off`);
      return rate;
    }
    case "start": {
      const took: number[] = [];
      let sent = 0;
      await subject.hear(() => took.push(performance.now() - sent));
      await sleep(1500);
      for (let id = 0; id < jobs; id++) {
        sent = performance.now();
        await subject.dispatch(payload(id));
        await sleep(10 + Math.random() * 20);
      }
      if (took.length < jobs) throw new Error(`${took.length} of ${jobs} started`);
      return took.sort((a, b) => a - b)[Math.floor(took.length / 2)];
    }
  }
}
