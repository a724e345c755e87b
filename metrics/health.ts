/**
 * Whether a queue is worked: ready, stuck or down, and why.
 *
 * @module
 */
import type { QueueCounts } from "../mod.ts";
import type { FailedLook, Look } from "./store.ts";

/** How a queue is. */
export interface Health {
  /**
   * `down`: the store does not answer. `stuck`: jobs have been due for longer than the bound, and in all that time
   * nothing moved. `ready`: neither.
   */
  readonly status: "ready" | "stuck" | "down";
  /** Why, in sentences; empty where it is ready. */
  readonly reasons: readonly string[];
  /** How many jobs are due, in queues that are not paused; `null` where the store does not say. */
  readonly ready: number | null;
  /** How many workers there are, in every process on the store; `null` where it does not say. */
  readonly workers: number | null;
  /** For how long nothing has moved, in seconds, as far as this process has seen: no job was taken, settled or failed. */
  readonly still: number;
}

/** What moves in one queue. */
type Seen = Pick<QueueCounts, "ready" | "reserved" | "failed" | "oldest">;

/** Watches whether jobs are worked: by this process, which is told of each, or by others, by what changes in the store. */
export class Watch {
  readonly #stuckAfter: number;
  readonly #progress: () => number;
  #worked: number;
  #seen: ReadonlyMap<string, Seen> = new Map();
  /** Since when there have been due jobs, by queue, in epoch milliseconds: for stores that do not know. */
  #dueSince: ReadonlyMap<string, number> = new Map();
  /** How many jobs each worker had run. */
  #processed: ReadonlyMap<string, number> = new Map();
  #movedAt = Date.now();

  /**
   * @param stuckAfter The bound, in milliseconds.
   * @param progress How many attempts ended in this process.
   */
  constructor(stuckAfter: number, progress: () => number) {
    this.#stuckAfter = stuckAfter;
    this.#progress = progress;
    this.#worked = progress();
  }

  /** Takes note of what the store said. */
  saw(look: Look | FailedLook): void {
    if ("error" in look) return;
    const seen = new Map(look.counts.map((counts): [string, Seen] => [counts.queue, counts]));
    const processed = new Map(look.workers.map(({ id, processed }) => [id, processed]));
    if (hasMoved(this.#seen, seen) || haveWorked(this.#processed, processed)) this.#movedAt = look.at;
    this.#processed = processed;
    this.#seen = seen;
    this.#dueSince = new Map(
      unpaused(look).filter(({ ready }) => ready > 0).map(({ queue }) => [
        queue,
        this.#dueSince.get(queue) ?? look.at,
      ]),
    );
  }

  /** How the queue is, by the last look. */
  health(look: Look | FailedLook): Health {
    const worked = this.#progress();
    if (worked !== this.#worked) {
      this.#worked = worked;
      this.#movedAt = look.at;
    }
    const still = Math.max(0, look.at - this.#movedAt);
    if ("error" in look) {
      return { status: "down", reasons: [look.error], ready: null, workers: null, still: still / 1000 };
    }
    const due = unpaused(look).filter(({ ready }) => ready > 0);
    const late = due.map(({ queue, ready, oldest }) => ({
      queue,
      ready,
      for: look.at - (oldest ?? this.#dueSince.get(queue) ?? look.at),
    })).filter((one) => one.for > this.#stuckAfter);
    const isStuck = late.length > 0 && still > this.#stuckAfter;
    return {
      status: isStuck ? "stuck" : "ready",
      reasons: isStuck
        ? late.map((one) =>
          `${one.queue}: ${one.ready} ${
            one.ready === 1 ? "job has" : "jobs have"
          } been due, the oldest for ` +
          `${seconds(one.for)} s, and nothing has moved for ${seconds(still)} s (${workersOf(look)})`
        )
        : [],
      ready: due.reduce((sum, { ready }) => sum + ready, 0),
      workers: look.workers.length,
      still: still / 1000,
    };
  }
}

function unpaused({ counts, paused }: Look): readonly QueueCounts[] {
  return paused.all ? [] : counts.filter(({ queue }) => !paused.queues.includes(queue));
}

/** Whether a worker must have done something in between. That jobs were dispatched, or came to be due, is nothing. */
function hasMoved(before: ReadonlyMap<string, Seen>, now: ReadonlyMap<string, Seen>): boolean {
  for (const [queue, then] of before) {
    const { ready = 0, reserved = 0, failed = 0, oldest = null } = now.get(queue) ?? {};
    if (ready < then.ready || reserved > then.reserved || failed > then.failed) return true;
    if (then.oldest !== null && (oldest === null || oldest > then.oldest)) return true;
  }
  return false;
}

/** Whether a worker says that it has run jobs since. */
function haveWorked(before: ReadonlyMap<string, number>, now: ReadonlyMap<string, number>): boolean {
  return [...now].some(([id, processed]) => processed > (before.get(id) ?? 0));
}

function workersOf({ workers }: Look): string {
  return workers.length === 0
    ? "no workers"
    : workers.length === 1
    ? "1 worker"
    : `${workers.length} workers`;
}

function seconds(milliseconds: number): number {
  return Math.round(milliseconds / 1000);
}
