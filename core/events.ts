/**
 * What a queue tells those who listen: what became of jobs and workers of this process.
 *
 * @module
 */
import type { Attempt, Outcome } from "./attempt.ts";
import { describe } from "./describe.ts";
import type { Reservation } from "./driver.ts";
import { QueueError, type QueueErrorCode } from "./errors.ts";
import type { Log } from "./log.ts";
import { show } from "./show.ts";
import type { Meter } from "./telemetry.ts";

/** A job, as events name it. */
export interface EventJob {
  /** The job. */
  readonly id: string;
  /** The name of its job type. */
  readonly name: string;
  /** Its queue. */
  readonly queue: string;
  /** 1 on the first run. */
  readonly attempt: number;
  /** How many attempts it gets in total. */
  readonly tries: number;
}

/**
 * Why a job went back to its queue: its handler failed, or threw a `Snooze`, or was stopped: as the worker stops, or as its
 * process ended for another job's sake.
 */
export type ReleaseReason = "failed" | "snoozed" | "stopped";

/** What a listener of each event gets. Durations are milliseconds. */
export interface QueueEvents {
  /** The store has accepted a job. */
  dispatched: {
    readonly type: "dispatched";
    readonly job: Pick<EventJob, "id" | "name" | "queue">;
    /** Whether an earlier dispatch with the same `id` option had stored it. */
    readonly duplicate: boolean;
  };
  /** A worker holds a job; it may wait there for a free slot. */
  reserved: {
    readonly type: "reserved";
    readonly job: Omit<EventJob, "tries">;
    /** How long it had been due by then; `null` where the store does not know. */
    readonly waited: number | null;
  };
  /** A handler begins. */
  started: { readonly type: "started"; readonly job: EventJob };
  /** A job is done, and that is stored. */
  completed: {
    readonly type: "completed";
    readonly job: EventJob;
    /** How long the handler ran. */
    readonly duration: number;
  };
  /** A job went back, to run again. */
  released: {
    readonly type: "released";
    /** Without `tries` where its handler never began. */
    readonly job: Omit<EventJob, "tries"> & Partial<EventJob>;
    /** Only `failed` spends the attempt. */
    readonly why: ReleaseReason;
    /** When it may run again; 0 for at once. */
    readonly retryIn: number;
    /** How long the handler ran; `null` where it never began. */
    readonly duration: number | null;
    /** What went wrong, or the reason of a `Snooze`; `null` where there is none. */
    readonly error: string | null;
  };
  /** A job is in `failed_jobs`. */
  failed: {
    readonly type: "failed";
    readonly job: EventJob;
    /** How long the handler ran. */
    readonly duration: number;
    /** What is stored as its error. */
    readonly error: string;
  };
  /** A job's lease was lost, so that its outcome was not stored. */
  lost: {
    readonly type: "lost";
    readonly job: EventJob;
    /** How long the handler ran. */
    readonly duration: number;
  };
  /** A call of the store failed. The queue tries again by itself, save at a dispatch, which rejects. */
  storeFailed: {
    readonly type: "storeFailed";
    /** What could not be done: store jobs, take some, store an outcome, or renew a lease. */
    readonly during: "dispatch" | "reserve" | "settle" | "extend";
    /** What went wrong. */
    readonly error: string;
  };
  /** A worker begins. */
  workerStarted: {
    readonly type: "workerStarted";
    /** How many jobs it runs at a time. */
    readonly concurrency: number;
  };
  /** A worker has ended. */
  workerStopped: {
    readonly type: "workerStopped";
    /** How many jobs it ran at a time. */
    readonly concurrency: number;
    /** How many attempts it started. */
    readonly jobs: number;
  };
}

/** A change in a job's life, as a worker saw it. */
export interface WorkEvent {
  /**
   * `started`: its handler begins. `completed`: done and stored. `released`: failed, to run again. `snoozed`: its
   * handler threw a `Snooze`, to run again. `failed`: out of tries or discarded, now in `failed_jobs`. `handedBack`: the
   * worker stops, or killed its process for another job's sake, to run again. `lost`: its lease was lost, so that its outcome was not stored.
   */
  readonly type: "started" | "completed" | "released" | "snoozed" | "failed" | "handedBack" | "lost";
  /** The job. */
  readonly job: EventJob;
  /** How long the handler ran, in milliseconds; not at `started`. */
  readonly duration?: number;
  /** What went wrong, at `released`, `failed` and, unless the worker stops, `handedBack`; the reason of a `Snooze` that has one. */
  readonly error?: string;
  /** Milliseconds until the next attempt, at `released` and `snoozed`. */
  readonly retryIn?: number;
}

/** Hears of one kind of event. What it throws, or rejects with, is logged and changes nothing. */
export type QueueListener<Event extends keyof QueueEvents> = (event: QueueEvents[Event]) => unknown;

/** What comes with each job, several times. */
const OF_JOBS: readonly (keyof QueueEvents)[] = [
  "dispatched",
  "reserved",
  "started",
  "completed",
  "released",
  "failed",
  "lost",
];

const NAMES: readonly (keyof QueueEvents)[] = [...OF_JOBS, "storeFailed", "workerStarted", "workerStopped"];

type AnyListener = (event: never) => unknown;

/** The listeners of a queue. Without any, an event costs a look whether there is one. */
export class Listeners {
  readonly #log: Log;
  /** Those that count; replaced, as the lists are. */
  meters: readonly Meter[] = [];
  /**
   * Whether nobody hears any event of a job: then that is all that is asked for each. Metrics listen to other events, and
   * to look for a list by the name of its event four times a job cost as much as the counting.
   */
  quiet = true;
  /** Replaced, not changed, so that one who leaves during an event disturbs nobody. */
  readonly #lists: { [Event in keyof QueueEvents]?: readonly AnyListener[] } = {};

  /** @param log Gets what listeners throw. */
  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * Adds a listener.
   *
   * @returns What removes it.
   * @throws {QueueError} `CONFIG` for an event that there is not, or a listener that is no function.
   */
  add<Event extends keyof QueueEvents>(event: Event, listener: QueueListener<Event>): () => void {
    if (!NAMES.includes(event)) {
      throw new QueueError("CONFIG", `event=${show(event)}: expected one of ${NAMES.join(", ")}`);
    }
    if (typeof listener !== "function") {
      throw new QueueError("CONFIG", `listener=${show(listener)}: expected a function`);
    }
    // One of its own, so that a function that was added twice is removed once.
    const entry: AnyListener = (payload) => listener(payload);
    this.#lists[event] = [...this.#lists[event] ?? [], entry];
    this.quiet = this.#isQuiet();
    return () => {
      const left = this.#lists[event]?.filter((one) => one !== entry) ?? [];
      if (left.length > 0) this.#lists[event] = left;
      else delete this.#lists[event];
      this.quiet = this.#isQuiet();
    };
  }

  #isQuiet(): boolean {
    return !OF_JOBS.some((event) => this.has(event));
  }

  /** Whether anybody would hear it: asked before an event is made up. */
  has(event: keyof QueueEvents): boolean {
    return this.#lists[event] !== undefined;
  }

  /** Tells it, in the order in which listeners were added. */
  emit(event: QueueEvents[keyof QueueEvents]): void {
    for (const listener of this.#lists[event.type] ?? []) {
      tell(this.#log, listener as (payload: typeof event) => unknown, event);
    }
  }
}

/** Who hears of what a worker does. */
export interface Audience {
  /** The queue's listeners. */
  readonly events: Listeners;
  /** The worker's own. */
  readonly onEvent?: (event: WorkEvent) => unknown;
  readonly log: Log;
}

/** What a settled outcome is told as. */
export const SETTLED: { readonly [Verdict in Outcome["verdict"]]: WorkEvent["type"] } = {
  complete: "completed",
  release: "released",
  snooze: "snoozed",
  fail: "failed",
  handBack: "handedBack",
};

/** Why a job went back, by how the worker tells it. */
const RELEASED: { readonly [Type in WorkEvent["type"]]?: ReleaseReason } = {
  released: "failed",
  snoozed: "snoozed",
  handedBack: "stopped",
};

/** Tells of an attempt; `duration` and `outcome` where there are some. */
export function announce(
  { events, onEvent, log }: Audience,
  type: WorkEvent["type"],
  attempt: Attempt,
  duration?: number,
  outcome?: Outcome,
): void {
  if (type !== "started") { for (const meter of events.meters) meter.ended(attempt.job, type, duration!); }
  if (onEvent === undefined && events.quiet) return;
  const why = RELEASED[type];
  const name = why === undefined ? type as Exclude<typeof type, "snoozed" | "handedBack"> : "released";
  const heard = events.has(name);
  if (onEvent === undefined && !heard) return;
  const { id, queue, attempt: number, tries } = attempt.job;
  const job = { id, name: attempt.job.name, queue, attempt: number, tries };
  const error = outcome === undefined ? null : errorOf(outcome);
  const again = outcome?.verdict === "release" || outcome?.verdict === "snooze";
  if (onEvent !== undefined) {
    tell(log, onEvent, {
      type,
      job,
      ...(duration === undefined ? {} : { duration }),
      ...(error === null ? {} : { error }),
      ...(again ? { retryIn: outcome.retryIn } : {}),
    });
  }
  if (!heard) return;
  if (why !== undefined) {
    const retryIn = again ? outcome.retryIn : 0;
    events.emit({ type: "released", job, why, retryIn, duration: duration ?? null, error });
  } else if (name === "failed") events.emit({ type: name, job, duration: duration!, error: error! });
  else if (name === "started") events.emit({ type: name, job });
  else if (name !== "released") events.emit({ type: name, job, duration: duration! });
}

/** Tells that these were reserved. */
export function announceReserved({ events }: Audience, held: readonly Reservation[]): void {
  for (const meter of events.meters) meter.reserved(held);
  if (events.quiet || !events.has("reserved")) return;
  for (const one of held) events.emit({ type: "reserved", job: named(one), waited: one.waited ?? null });
}

/** Tells that a call of the store failed; that the queue was closed is no failure. */
export function announceStoreFailed(
  events: Listeners,
  during: QueueEvents["storeFailed"]["during"],
  error: unknown,
): void {
  if (!events.has("storeFailed")) return;
  if (error instanceof QueueError && !STORE_CODES.includes(error.code)) return;
  events.emit({ type: "storeFailed", during, error: describe(error) });
}

/** The codes of a store that failed. */
const STORE_CODES: readonly QueueErrorCode[] = ["DB", "REDIS"];

/** Tells that this one was handed back without having begun. */
export function announceUnstarted({ events }: Audience, held: Reservation): void {
  if (!events.has("released")) return;
  events.emit({
    type: "released",
    job: named(held),
    why: "stopped",
    retryIn: 0,
    duration: null,
    error: null,
  });
}

function named({ id, name, queue, attempt }: Reservation): Omit<EventJob, "tries"> {
  return { id, name, queue, attempt };
}

function errorOf(outcome: Outcome): string | null {
  switch (outcome.verdict) {
    case "complete":
      return null;
    case "handBack":
      return outcome.problem ?? null;
    case "snooze":
      return outcome.reason;
    default:
      return outcome.problem;
  }
}

/** Calls a listener, whose failure is logged. */
export function tell<Event extends { readonly type: string }>(
  log: Log,
  listener: (event: Event) => unknown,
  event: Event,
): void {
  const complain = (error: unknown): void => {
    log.error(`queue: a listener of ${event.type} events threw: ${describe(error)}`);
  };
  try {
    const result = listener(event);
    if (isThenable(result)) Promise.resolve(result).catch(complain);
  } catch (error) {
    complain(error);
  }
}

function isThenable(value: unknown): boolean {
  return typeof value === "object" && value !== null && "then" in value;
}
