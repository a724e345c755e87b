/**
 * One measurement in a process of its own: `<runtime> bench/child.ts '<task as JSON>'` prints its result as JSON.
 *
 * @module
 */
import { writeSync } from "node:fs";
import process from "node:process";
import { payload, payloads, type Subject, type Variant } from "./subject.ts";

/** What to measure. */
export type Measurement =
  | { readonly kind: "dispatch"; readonly jobs: number }
  | { readonly kind: "bulk"; readonly jobs: number; readonly lot: number }
  | {
    readonly kind: "process";
    readonly jobs: number;
    readonly concurrency: number;
    readonly warmUp: number;
  };

/** Of which queue; `file` is a database that does not exist yet. */
export type SubjectTask = Measurement & {
  readonly subject: string;
  readonly file: string;
  readonly variant?: Variant;
};

/** Jobs per second. */
export interface Rate {
  readonly rate: number;
}

if (import.meta.main) {
  const task = JSON.parse(process.argv[2]) as SubjectTask;
  const { default: open } = await import(`./subjects/${task.subject}.ts`);
  const subject = await open(task.file, task.variant) as Subject;
  const result = await measure(subject, task);
  writeSync(1, JSON.stringify(result) + "\n");
  await subject.close();
  process.exit(0); // some leave timers behind
}

async function measure(subject: Subject, task: SubjectTask): Promise<Rate> {
  switch (task.kind) {
    case "dispatch": {
      for (let id = 0; id < 200; id++) await subject.dispatch(payload(id));
      return await rateOf(task.jobs, async () => {
        for (let id = 0; id < task.jobs; id++) await subject.dispatch(payload(id));
      });
    }
    case "bulk": {
      const lot = payloads(task.lot);
      await subject.dispatchMany(lot);
      return await rateOf(task.jobs, async () => {
        for (let stored = 0; stored < task.jobs; stored += task.lot) await subject.dispatchMany(lot);
      });
    }
    case "process": {
      let elapsed = NaN;
      for (const jobs of [task.warmUp, task.jobs]) {
        for (let stored = 0; stored < jobs; stored += 500) {
          await subject.dispatchMany(payloads(Math.min(500, jobs - stored)));
        }
        const start = performance.now();
        const work = await subject.work(jobs, task.concurrency);
        await work.done;
        elapsed = performance.now() - start;
        await work.stop();
      }
      const left = await subject.left();
      if (left !== 0) throw new Error(`${task.subject}: ${left} of ${task.jobs} jobs were not worked off`);
      return { rate: task.jobs / elapsed * 1000 };
    }
  }
}

async function rateOf(jobs: number, work: () => Promise<void>): Promise<Rate> {
  const start = performance.now();
  await work();
  return { rate: jobs / (performance.now() - start) * 1000 };
}
