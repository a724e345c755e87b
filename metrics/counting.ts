/**
 * What a process counts of its jobs, its workers and the store's errors, as its queue tells of them.
 *
 * @module
 */
import type { AttemptEnd, Dispatched, Meter, NewJob, QueueEvents, Reservation } from "../mod.ts";
import type { MeasuredQueue } from "./measured_queue.ts";
import { JobSeries, Values } from "./series.ts";

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
export class Counting implements Meter {
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
  #last: JobSeries | null = null;
  readonly #removes: (() => void)[] = [];

  /** Listens from now on. */
  constructor(queue: MeasuredQueue) {
    // The supervisor of child processes knows no job types: then any name will do, up to the most.
    this.#names = new Values(queue.names.length === 0 ? null : queue.names);
    this.#removes.push(
      queue.measure(this),
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

  /** Counts what was stored; a duplicate was before. */
  dispatched(jobs: readonly NewJob[], stored: readonly Dispatched[]): void {
    for (let at = 0; at < jobs.length; at++) {
      if (!stored[at].duplicate) this.#of(jobs[at]).dispatched++;
    }
  }

  /** Counts how long jobs had been due, where that is known. */
  reserved(jobs: readonly Reservation[]): void {
    for (const held of jobs) {
      if (held.waited === undefined) continue;
      const series = this.#of(held);
      const seconds = held.waited / 1000;
      series.wait.observe(seconds);
      if (this.recorder !== null) this.recorder.wait(series, seconds);
    }
  }

  /** Counts an attempt. */
  ended(job: { readonly queue: string; readonly name: string }, how: AttemptEnd, duration: number): void {
    const series = this.#of(job);
    const seconds = duration / 1000;
    series.attempts[how]++;
    series.run.observe(seconds);
    if (this.recorder !== null) this.recorder.run(series, seconds);
    this.progress++;
  }

  #of({ queue, name }: { readonly queue: string; readonly name: string }): JobSeries {
    // Mostly it is of the same kind as the one before.
    const last = this.#last;
    if (last !== null && last.queue === queue && last.name === name) return last;
    const label = this.queues.of(queue);
    let byName = this.#series.get(label);
    if (byName === undefined) this.#series.set(label, byName = new Map());
    const named = this.#names.of(name);
    let series = byName.get(named);
    if (series === undefined) byName.set(named, series = new JobSeries(label, named));
    return this.#last = series;
  }

  #working(workers: number, slots: number): void {
    this.here.workers += workers;
    this.here.slots += slots;
  }
}
