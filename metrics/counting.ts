/**
 * What a process counts of its jobs, its workers and the store's errors, as its queue tells of them.
 *
 * @module
 */
import type { QueueEvents } from "../mod.ts";
import type { MeasuredQueue } from "./measured_queue.ts";
import { type AttemptOutcome, JobSeries, Values } from "./series.ts";

/** Hears of each duration besides, in seconds. */
export interface Recorder {
  /** An attempt has ended, whose handler ran for so long. */
  run(series: JobSeries, seconds: number): void;
  /** A worker took a job that had been due for so long. */
  wait(series: JobSeries, seconds: number): void;
}

/** What could not be done, where the store failed. `look`: what this process asked to know for its metrics. */
export type StoreFailure = QueueEvents["storeFailed"]["during"] | "look";

/** How often a process heard of what. */
export class Counting {
  readonly queues: Values = new Values(null);
  readonly storeErrors: Record<StoreFailure, number> = {
    dispatch: 0,
    reserve: 0,
    settle: 0,
    extend: 0,
    look: 0,
  };
  /** How many workers this process has, and how many jobs they run at a time. */
  readonly here = { workers: 0, slots: 0 };
  /** How many attempts ended here: it stands still where nothing does. */
  progress = 0;
  recorder: Recorder | null = null;
  readonly #names: Values;
  readonly #series = new Map<string, Map<string, JobSeries>>();
  readonly #removes: (() => void)[] = [];

  /** Listens from now on. */
  constructor(queue: MeasuredQueue) {
    // The supervisor of child processes knows no job types: then any name will do, up to the most.
    this.#names = new Values(queue.names.length === 0 ? null : queue.names);
    this.#removes.push(
      queue.on("dispatched", ({ job, duplicate }) => {
        if (!duplicate) this.#of(job).dispatched++;
      }),
      queue.on("reserved", ({ job, waited }) => {
        if (waited === null) return;
        const series = this.#of(job);
        series.wait.observe(waited / 1000);
        this.recorder?.wait(series, waited / 1000);
      }),
      queue.on("completed", ({ job, duration }) => this.#ended(job, "completed", duration)),
      queue.on("failed", ({ job, duration }) => this.#ended(job, "failed", duration)),
      queue.on("lost", ({ job, duration }) => this.#ended(job, "lost", duration)),
      queue.on("released", ({ job, why, duration }) => {
        // One that never began was no attempt.
        if (duration !== null) this.#ended(job, why === "failed" ? "released" : why, duration);
      }),
      queue.on("storeFailed", ({ during }) => void this.storeErrors[during]++),
      queue.on("workerStarted", ({ concurrency }) => this.#working(1, concurrency)),
      queue.on("workerStopped", ({ concurrency }) => this.#working(-1, -concurrency)),
    );
  }

  /** All that was counted so far, by queue and name. */
  *series(): Iterable<JobSeries> {
    for (const byName of this.#series.values()) yield* byName.values();
  }

  /** Hears no more. */
  close(): void {
    for (const remove of this.#removes) remove();
  }

  #ended(job: { queue: string; name: string }, outcome: AttemptOutcome, duration: number): void {
    const series = this.#of(job);
    series.attempts[outcome]++;
    series.run.observe(duration / 1000);
    this.recorder?.run(series, duration / 1000);
    this.progress++;
  }

  #of(job: { readonly queue: string; readonly name: string }): JobSeries {
    const queue = this.queues.of(job.queue);
    const name = this.#names.of(job.name);
    let byName = this.#series.get(queue);
    if (byName === undefined) this.#series.set(queue, byName = new Map());
    let series = byName.get(name);
    if (series === undefined) byName.set(name, series = new JobSeries(queue, name));
    return series;
  }

  #working(workers: number, slots: number): void {
    this.here.workers += workers;
    this.here.slots += slots;
  }
}
