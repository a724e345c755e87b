/**
 * Asks the store how the queue is, for all viewers at once: one round a second while somebody looks, and otherwise one a
 * minute, for the charts.
 *
 * @module
 */
import { type Paused, type Progress, type QueueCounts, QueueError } from "../mod.ts";
import type { WorkerInfo } from "../mod.ts";
import { History, type Point, RANGES } from "./history.ts";
import type { DashboardQueue } from "./settings.ts";

/** How long from one round to the next, in milliseconds, while somebody looks. */
const EVERY = 1000;

/** While nobody does. */
const SELDOM = 60_000;

/** A store that is slow, as where it counts millions of jobs, is asked less often: this share of the time at most. */
const SHARE = 0.1;

/** How long after a round that failed, at most. */
const LONGEST_PAUSE = 10_000;

/** How many queues and workers a state has at most, and of how many running jobs the progress is asked for. */
const MOST = 200;

/** A queue, as the page gets it. */
export interface QueueState extends Omit<QueueCounts, "oldest"> {
  /** How long its oldest ready job has been waiting, in milliseconds. */
  readonly wait: number | null;
  /** Whether it is paused by its name. */
  readonly paused: boolean;
}

/** A worker, as the page gets it. */
export interface WorkerState extends Omit<WorkerInfo, "running"> {
  /** Jobs per second, between its last two reports. */
  readonly rate: number;
  /** What it runs, and how far that says it is. */
  readonly running: readonly (WorkerInfo["running"][number] & { readonly progress: Progress | null })[];
}

/** All that is seen in a round. */
export interface State {
  /** When, in epoch milliseconds. */
  readonly at: number;
  /** The queues, by name. */
  readonly queues: readonly QueueState[];
  /** Whether every queue is paused. */
  readonly paused: boolean;
  /** The workers, the oldest first. */
  readonly workers: readonly WorkerState[];
  /** How many more of each there are. */
  readonly more: { readonly queues: number; readonly workers: number };
  /** Jobs of all queues in each state, and per second. */
  readonly total: {
    readonly ready: number;
    readonly delayed: number;
    readonly reserved: number;
    readonly failed: number;
    readonly wait: number | null;
    readonly rate: number;
  };
  /** The last points of the chart. */
  readonly points: readonly Point[];
}

/** What a viewer gets: a state, or why there is none. */
export type Seen = { readonly state: State } | { readonly trouble: string; readonly over: boolean };

/** What a worker had done when it was last heard of. */
interface Heard {
  readonly seenAt: number;
  readonly processed: number;
  readonly rate: number;
}

/** The one who asks. */
export class Collector {
  readonly history: History = new History();
  readonly #queue: DashboardQueue;
  readonly #viewers = new Set<(seen: Seen) => void>();
  readonly #heard = new Map<string, Heard>();
  #last: Seen | null = null;
  #lastRound: { at: number; failed: number } | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #asking = false;
  #over = false;
  #failures = 0;

  constructor(queue: DashboardQueue) {
    this.#queue = queue;
    this.#wait(SELDOM);
  }

  /** Until when the work of all workers is known, in epoch milliseconds. */
  get known(): number {
    const seen = [...this.#heard.values()].map(({ seenAt }) => seenAt);
    return seen.length === 0 ? Infinity : Math.min(...seen);
  }

  /** Calls `viewer` with each round's findings, at first with the last ones where there are some; returns what ends that. */
  watch(viewer: (seen: Seen) => void): () => void {
    this.#viewers.add(viewer);
    if (this.#viewers.size > 1 && this.#last !== null) viewer(this.#last);
    else if (this.#over) viewer(this.#last!);
    else if (!this.#asking) this.#round();
    return () => {
      this.#viewers.delete(viewer);
      if (this.#viewers.size === 0 && !this.#asking && !this.#over) this.#wait(SELDOM);
    };
  }

  /** Looks again at once, as something was changed here. */
  look(): void {
    if (this.#viewers.size > 0 && !this.#asking && !this.#over) this.#round();
  }

  #wait(milliseconds: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    const timer = this.#timer = setTimeout(() => this.#round(), milliseconds);
    // It keeps no process alive. Older versions of Deno have numbers here.
    if (typeof timer === "object") timer.unref();
  }

  async #round(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#asking = true;
    const started = performance.now();
    try {
      this.#tell({ state: await this.#ask() });
      this.#failures = 0;
    } catch (error) {
      this.#over = error instanceof QueueError && error.code === "CLOSED";
      this.#failures++;
      this.#tell({ trouble: error instanceof Error ? error.message : String(error), over: this.#over });
    }
    this.#asking = false;
    if (this.#over) return;
    const took = performance.now() - started;
    const every = this.#viewers.size === 0 ? SELDOM : Math.max(EVERY, took / SHARE);
    const pause = Math.min(LONGEST_PAUSE, EVERY * 2 ** Math.min(this.#failures, 10));
    this.#wait(Math.max(0, (this.#failures > 0 ? Math.max(pause, every) : every) - took));
  }

  #tell(seen: Seen): void {
    this.#last = seen;
    for (const viewer of [...this.#viewers]) viewer(seen);
  }

  async #ask(): Promise<State> {
    const [counts, paused, workers] = await Promise.all([
      this.#queue.counts(),
      this.#queue.paused(),
      this.#queue.workers(),
    ]);
    const shown = workers.slice(0, MOST);
    const progress = await this.#progress(shown);
    const now = Date.now();
    const queues = withPaused(counts, paused, now);
    const rates = this.#hear(workers);
    const total = sum(queues, rates);
    this.#note(total, now);
    return {
      at: now,
      queues: queues.slice(0, MOST),
      paused: paused.all,
      workers: shown.map((worker) => ({
        ...worker,
        rate: rates.get(worker.id) ?? 0,
        running: worker.running.map((job) => ({ ...job, progress: progress.get(job.id) ?? null })),
      })),
      more: {
        queues: Math.max(0, queues.length - MOST),
        workers: Math.max(0, workers.length - MOST),
      },
      total,
      points: this.history.points({ ...RANGES["15m"], span: 30 }, now, this.known),
    };
  }

  /** How far the running jobs are: asked in one turn, which is one transaction or one round trip. */
  async #progress(workers: readonly WorkerInfo[]): Promise<Map<string, Progress>> {
    const ids = workers.flatMap(({ running }) => running.map(({ id }) => id)).slice(0, MOST);
    const found = await Promise.all(ids.map((id) => this.#queue.progress(id)));
    return new Map(ids.flatMap((id, index) => {
      const progress = found[index];
      return progress === null ? [] : [[id, progress] as const];
    }));
  }

  /** Counts what workers have done since they were last heard of, and returns how quick each is. */
  #hear(workers: readonly WorkerInfo[]): Map<string, number> {
    const first = this.#lastRound === null;
    for (const { id, seenAt, startedAt, processed } of workers) {
      // What was done before the first look happened at no time that is known.
      const before = this.#heard.get(id) ??
        { seenAt: first ? seenAt : Math.min(startedAt, seenAt), processed: first ? processed : 0, rate: 0 };
      if (seenAt <= before.seenAt && processed === before.processed) {
        this.#heard.set(id, before);
        continue;
      }
      const done = Math.max(0, processed - before.processed);
      this.history.count("done", done, before.seenAt, seenAt);
      this.#heard.set(id, { seenAt, processed, rate: done / Math.max(1, (seenAt - before.seenAt) / 1000) });
    }
    const here = new Set(workers.map(({ id }) => id));
    for (const id of this.#heard.keys()) if (!here.has(id)) this.#heard.delete(id);
    return new Map([...this.#heard].map(([id, { rate }]) => [id, rate]));
  }

  /** What failed is what there are more of: retried and forgotten ones count for nothing. */
  #note(total: State["total"], now: number): void {
    const { ready, delayed, reserved, failed, wait } = total;
    const last = this.#lastRound;
    if (last !== null) this.history.count("failed", failed - last.failed, last.at, now);
    this.history.note({ ready, delayed, running: reserved, wait }, now);
    this.#lastRound = { at: now, failed };
  }
}

function withPaused(counts: readonly QueueCounts[], paused: Paused, now: number): QueueState[] {
  const known = new Set(counts.map(({ queue }) => queue));
  const others = paused.queues.filter((queue) => !known.has(queue))
    .map((queue) => ({ queue, ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null }));
  return [...counts, ...others]
    .map(({ oldest, ...one }) => ({
      ...one,
      wait: oldest === null ? null : Math.max(0, now - oldest),
      paused: paused.queues.includes(one.queue),
    }))
    .sort((a, b) => a.queue < b.queue ? -1 : 1);
}

function sum(queues: readonly QueueState[], rates: ReadonlyMap<string, number>): State["total"] {
  const total = { ready: 0, delayed: 0, reserved: 0, failed: 0, wait: null as number | null, rate: 0 };
  for (const one of queues) {
    total.ready += one.ready;
    total.delayed += one.delayed;
    total.reserved += one.reserved;
    total.failed += one.failed;
    if (one.wait !== null) total.wait = Math.max(total.wait ?? 0, one.wait);
  }
  for (const rate of rates.values()) total.rate += rate;
  return total;
}
