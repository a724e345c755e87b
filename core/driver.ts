/**
 * The contract between the queue and a store: all that the author of a driver reads.
 *
 * A driver keeps jobs in the four states of ARCHITECTURE.md and moves them between those, each move atomic. Times are
 * passed in: every `now` is a {@linkcode Moment}, and every delay counts from it. It never calls a handler, never
 * retries a job by itself and holds no settings of the queue. `tests/conformance.ts` runs every method against it.
 *
 * @example What a worker asks of a store
 * ```ts
 * import type { Driver } from "@x/queue/driver";
 * import { SqliteDriver } from "@x/queue/drivers/sqlite";
 * import assert from "node:assert/strict";
 *
 * const driver: Driver = new SqliteDriver({ database: ":memory:" });
 * const now = Date.now();
 * await driver.push([{ name: "mail", payload: "{}", queue: "default", priority: 0, delay: 0 }], now);
 * const queues = [{ queue: "default", limit: 1 }];
 * const { jobs } = await driver.reserve({ queues, limit: 1, prefetch: 0, now, retryAfter: 90_000 });
 * assert.deepEqual(jobs.map(({ name, attempt }) => [name, attempt]), [["mail", 1]]);
 * assert.equal(await driver.complete(jobs[0]), true);
 * await driver.close();
 * ```
 *
 * @module
 */

/**
 * A point in time: epoch milliseconds where the caller has a clock of its own, as a test has; `null` is the present by
 * the store's clock, so that machines whose clocks differ agree on what is due.
 */
export type Moment = number | null;

/** A job to be stored. */
export interface NewJob {
  /** The name of its job type: not empty, no line break. */
  readonly name: string;
  /** The text that its handler gets, byte for byte. */
  readonly payload: string;
  /** The queue that it goes to. */
  readonly queue: string;
  /** Higher is reserved first within a queue. */
  readonly priority: number;
  /** Not to be reserved before so many milliseconds have passed; 0 for at once. */
  readonly delay: number;
  /** Where it was dispatched, as a `traceparent` of W3C Trace Context, to come with each reservation. Left out where nobody traces. */
  readonly trace?: string;
}

/** A job to be stored once, however often it is pushed. */
export interface KeyedJob extends NewJob {
  /** What the caller calls it: a second push of this key within a day stores nothing. `null` for a job without. */
  readonly key: string | null;
}

/** What became of a {@linkcode KeyedJob}. */
export interface Pushed {
  /** The id of the job: of the one stored before, where the key was known. */
  readonly id: string;
  /** Whether it was stored now. */
  readonly created: boolean;
}

/** A job that a worker holds. Its `token` is new with every reservation: it tells a settlement from a stale one. */
export interface Reservation {
  /** The job. */
  readonly id: string;
  /** The name of its job type. */
  readonly name: string;
  /** The stored text. */
  readonly payload: string;
  /** Which attempt this is, counted when it was reserved: 1 on the first. */
  readonly attempt: number;
  /** The queue that it came from, and goes back to. */
  readonly queue: string;
  /** Its priority, kept through retries. */
  readonly priority: number;
  /** Proves that the holder still holds it. */
  readonly token: string;
  /** Whether it was cancelled while an earlier attempt had it: it is to be failed, and not run. Left out where it was not. */
  readonly cancelled?: true;
  /** How long it had been due by then, in milliseconds; left out where the store does not know, as Redis of a job that ran before. */
  readonly waited?: number;
  /** What came with it as {@linkcode NewJob.trace}; left out where nothing did, or where that was not asked for. */
  readonly trace?: string;
}

/** What a worker asks for. */
export interface ReserveRequest {
  /** The queues to look at, in this order: the next one only after those before it gave less than was asked for. */
  readonly queues: readonly QueueShare[];
  /** How many jobs at most. */
  readonly limit: number;
  /** How many more, beyond `limit`, of jobs that never ran: they wait in the worker for a free slot. */
  readonly prefetch: number;
  /** The present. */
  readonly now: Moment;
  /** A reservation at least this old, in milliseconds, is abandoned: its job is ready again. */
  readonly retryAfter: number;
  /** Whether the `trace` of each job is wanted, where it costs the store a question of its own. Left out where it is not. */
  readonly traces?: true;
}

/** A queue, and how many jobs to take from it at most. One queue may stand in a request twice. */
export interface QueueShare {
  /** The queue's name. */
  readonly queue: string;
  /** How many jobs at most. */
  readonly limit: number;
}

/** What a worker got. */
export interface Reserved {
  /** The jobs, in the order in which they should run. */
  readonly jobs: readonly Reservation[];
  /** In how many milliseconds it is worth asking again, as the next delayed job of these queues is due; `null` when unknown, or there is none. */
  readonly nextIn: number | null;
  /** `false` where the driver knows that the store has no queue that `queues()` did not name last time; else left out. */
  readonly newQueues?: boolean;
  /** As in {@linkcode Controls}: told with every reservation, so that an idle worker asks for nothing else. */
  readonly restarts: number;
}

/**
 * Hears what became of a settlement: one of both, once, and not before the call that asked for it has returned; nothing where
 * that has thrown. Neither throws.
 */
export interface Settlement {
  /** It is stored, or (`false`) nothing was changed, as the job was no longer held. */
  stored(done: boolean): void;
  /** It failed: whether it is stored is not known. */
  failed(error: unknown): void;
}

/** An attempt that failed. */
export interface AttemptRecord {
  /** Which one: 1 on the first run, and on the first after an operator's retry. */
  readonly attempt: number;
  /** When the handler began, in epoch milliseconds of the worker's clock. */
  readonly startedAt: number;
  /** How long it ran, in milliseconds. */
  readonly duration: number;
  /** Whose it was: `host:pid` of the worker. */
  readonly worker: string;
  /** What went wrong, in 1,024 characters at most. */
  readonly error: string;
  /** Its stack, where it has one, in 4,096 characters at most. */
  readonly stack: string | null;
  /** When an operator had the job run again after this attempt, in epoch milliseconds; left out where nobody did. */
  readonly retriedAt?: number;
}

/** How to give back a job that is to run again. */
export interface Release {
  /** Not to be reserved before so many milliseconds have passed; `null` leaves it as it was, so that the job keeps its place. */
  readonly delay: number | null;
  /** Whether the attempt stays counted; `false` where the handler never ran, or the worker stopped, or it snoozed. */
  readonly counted: boolean;
  /** The attempt that failed, to be kept with the job; left out where none did. */
  readonly record?: AttemptRecord;
}

/** Why a job ended in `failed_jobs`. */
export interface Failure {
  /** The last error, in one line or more. */
  readonly error: string;
  /** Its stack, where it has one. */
  readonly stack: string | null;
  /** When, in epoch milliseconds. */
  readonly failedAt: number;
  /** The attempt that ended it, to be kept with the job; left out where it is not known. */
  readonly record?: AttemptRecord;
}

/** A job in `failed_jobs`. */
export interface FailedJob {
  /** What `retry` and `forget` take. */
  readonly id: string;
  /** The name of its job type. */
  readonly name: string;
  /** The stored text. */
  readonly payload: string;
  /** The queue that a retry puts it back on. */
  readonly queue: string;
  /** The priority that a retry gives it. */
  readonly priority: number;
  /** How many attempts it had; `null` where another program failed it. */
  readonly attempts: number | null;
  /** The last error. */
  readonly error: string;
  /** Its stack, where it has one. */
  readonly stack: string | null;
  /** When it failed, in epoch milliseconds, to the second. */
  readonly failedAt: number;
  /**
   * Its attempts that failed, in their order, also those before an operator's retry: the first 20, and the last 20. An
   * attempt whose worker died has none, so that its number is missing. Empty where another program failed it.
   */
  readonly history: readonly AttemptRecord[];
}

/** A failed job that was moved or deleted. */
export interface Moved {
  /** Its id in `failed_jobs`. */
  readonly id: string;
  /** The name of its job type. */
  readonly name: string;
}

/** Which failed jobs: all that is given must be so. What is left out, or `undefined`, does not matter. */
export interface FailedFilter {
  /** The name of their job type. */
  readonly name?: string;
  /** The queue that they failed on. */
  readonly queue?: string;
  /** They failed then or later: epoch milliseconds, of which the store keeps whole seconds. */
  readonly since?: number;
  /** They failed before: epoch milliseconds, of which the store keeps whole seconds. */
  readonly before?: number;
  /** It stands in their error, in capitals or small letters. */
  readonly text?: string;
}

/** A step through the failed jobs, in the order of their ids. */
export interface FailedSearch {
  /** Which ones. */
  readonly filter: FailedFilter;
  /** Only ids after this one, in the order of the search; `null` from the start. */
  readonly after: string | null;
  /** None above this id; `null` for all. */
  readonly until: string | null;
  /** Whether the highest id comes first. */
  readonly reverse: boolean;
  /** How many ids at most. */
  readonly limit: number;
}

/** What one step found. */
export interface FailedFound {
  /** The ids of those that match, in the order of the search. */
  readonly ids: readonly string[];
  /** How many it looked at. */
  readonly looked: number;
  /** After which id the next step goes on; `null` where nothing is left. */
  readonly next: string | null;
}

/** Which failed jobs: those named, or a page of all of them in the order of their ids. */
export type FailedSelection =
  | {
    readonly ids: readonly string[];
    /** Of these, only those that match it at that moment. */
    readonly filter?: FailedFilter;
  }
  | {
    /** Only ids after this one; `null` from the start. */
    readonly after: string | null;
    /** How many at most. */
    readonly limit: number;
  };

/** How many jobs of one queue are in each state. */
export interface QueueCounts {
  /** The queue's name. */
  readonly queue: string;
  /** Due, and waiting for a worker. Expired reservations count here: the next worker takes them. */
  readonly ready: number;
  /** Not due yet: dispatched for later, or waiting for a retry. */
  readonly delayed: number;
  /** Held by a worker. */
  readonly reserved: number;
  /** Ended in `failed_jobs`. */
  readonly failed: number;
  /**
   * Since when the longest waiting ready job has been due, in epoch milliseconds; `null` when none is ready, or the store
   * does not know. On Redis the ready ones that ran before are passed over.
   */
  readonly oldest: number | null;
}

/** A job that is not due yet. */
export interface DelayedJob {
  /** The job. */
  readonly id: string;
  /** The name of its job type. */
  readonly name: string;
  /** Its queue. */
  readonly queue: string;
  /** Its priority. */
  readonly priority: number;
  /** How many attempts it has had. */
  readonly attempts: number;
  /** In how many milliseconds it is due. */
  readonly dueIn: number;
}

/** Which queues are paused: their jobs are not reserved. */
export interface Paused {
  /** Whether every queue is, whatever its name. */
  readonly all: boolean;
  /** Those that are paused by name, sorted. */
  readonly queues: readonly string[];
}

/** What the workers of a store are told, by whatever process. */
export interface Controls {
  /** How many restarts were asked for, ever: a worker that sees more than at its start finishes, and ends. */
  readonly restarts: number;
  /** Which queues are paused. */
  readonly paused: Paused;
  /** The ids of cancelled jobs that were held by a worker at that time; some may not be any more. */
  readonly cancelled: readonly string[];
}

/** What became of a job that was cancelled: a waiting one is removed; one that is held, its worker is told. */
export type Cancelled = "removed" | "cancelling";

/** How far a handler says that it is. */
export interface Progress {
  /** From 0 to 1. */
  readonly fraction: number;
  /** What it says besides, where it does. */
  readonly note: string | null;
  /** When it said so, in epoch milliseconds. */
  readonly at: number;
}

/** A job that a worker runs. */
export interface RunningJob {
  /** The job. */
  readonly id: string;
  /** The name of its job type. */
  readonly name: string;
  /** Its queue. */
  readonly queue: string;
  /** Which attempt this is: 1 on the first run. */
  readonly attempt: number;
  /** When the handler began, in epoch milliseconds of the worker's clock. */
  readonly since: number;
}

/** What a worker says of itself. */
export interface WorkerReport {
  /** Tells this worker from every other one that ever was. */
  readonly id: string;
  /** The name of its machine; `"unknown"` where its runtime may not tell. */
  readonly host: string;
  /** Its process. */
  readonly pid: number;
  /** When it began, in epoch milliseconds of its own clock. */
  readonly startedAt: number;
  /** The queues that it takes jobs from; `null`: every one. */
  readonly queues: readonly string[] | null;
  /** How many jobs it runs at a time. */
  readonly concurrency: number;
  /** The job types that it has a handler for; the first 1,000 in the order of their names. */
  readonly names: readonly string[];
  /** How many attempts have ended here. */
  readonly processed: number;
  /** How many of its slots are taken. */
  readonly busy: number;
  /** What it runs: the 100 that have run longest. */
  readonly running: readonly RunningJob[];
  /** The version of this library. */
  readonly version: string;
}

/** A worker, as its store knows it. */
export interface WorkerInfo extends WorkerReport {
  /** When it said so, in epoch milliseconds by the clock of the store. */
  readonly seenAt: number;
}

/** A job that is not done and has not failed, as its store has it. */
export interface StoredJob {
  /** The job. */
  readonly id: string;
  /** The name of its job type. */
  readonly name: string;
  /** The stored text. */
  readonly payload: string;
  /** Its queue. */
  readonly queue: string;
  /** Its priority. */
  readonly priority: number;
  /** Where it stands; one whose lease is over is ready. */
  readonly state: "ready" | "delayed" | "reserved";
  /** Attempts so far, the one that runs counted. */
  readonly attempts: number;
  /** Since when it has been due, or when it will be, in epoch milliseconds; `null` where the store does not know. */
  readonly dueAt: number | null;
  /** When its lease ends, or ended, in epoch milliseconds; `null` where no worker has it. */
  readonly leasedUntil: number | null;
  /** Whether it was cancelled while a worker had it. */
  readonly cancelled: boolean;
  /** How many jobs of its queue come before it, 1,000 at most; `null` where it is in no line. */
  readonly ahead: number | null;
  /** Its attempts that failed, as in {@linkcode FailedJob}. */
  readonly history: readonly AttemptRecord[];
}

/** The names of jobs that wait on a queue. */
export interface WaitingNames {
  /** The queue's name. */
  readonly queue: string;
  /** The names, sorted, each once. */
  readonly names: readonly string[];
}

/** What somebody found who looked whether all is well. */
export interface Finding {
  /** What was looked at, in a word or two. */
  readonly what: string;
  /** `ok`; `warn`: it works, and deserves a look; `bad`: jobs do not run, or may be lost. */
  readonly level: "ok" | "warn" | "bad";
  /** What is the case. */
  readonly found: string;
  /** What to do about it; `null` where nothing is to be done. */
  readonly remedy: string | null;
}

/** What hears of pushes, from {@linkcode Driver.listen} on. */
export interface Listener {
  /** Says that the listener has nothing to do: the next push, from any process, wakes it or another one that rests. */
  rest(): void;
  /** Stops listening. */
  close(): void;
}

/**
 * A store of jobs. Every method rejects with a `QueueError` when the store fails (`DB`, `REDIS`) or the
 * driver was closed (`CLOSED`), and then nothing was changed, save where a message says "may have been stored".
 */
export interface Driver {
  /** Connects and makes what is missing, once; any other method does so by itself. */
  open(): Promise<void>;
  /** The app's database, for `job.db`; only after `open`. A driver may open it when it is first asked for. */
  readonly database: unknown;
  /**
   * Says that the `failed` hook of a job that was settled uses `database`, until the returned function is called. For a
   * driver that looks after what is left open there; others leave it out.
   */
  lend?(held: Reservation): () => void;
  /**
   * How many calls of `reserve` a worker may have under way at once. More than 1 helps a store that works on one while
   * the worker runs what another brought. Default: 1.
   */
  readonly overlap?: number;
  /** Stores jobs, all or none, and returns their ids in the same order once they are durable. */
  push(jobs: readonly NewJob[], now: Moment): Promise<string[]>;
  /** As `push`, but a job whose key is known is not stored again. For jobs whose push must bear being repeated. */
  pushOnce(jobs: readonly KeyedJob[], now: Moment): Promise<Pushed[]>;
  /** Takes due jobs (and expired ones) of queues that are not paused, counts their attempt, and holds them under a new token. */
  reserve(request: ReserveRequest): Promise<Reserved>;
  /** Renews what is still held, as if reserved at `now`, and returns those (the same objects) that no longer are. */
  extend(held: readonly Reservation[], now: Moment): Promise<Reservation[]>;
  /** Forgets a job that is done; `false`, and nothing changed, where it is no longer held. */
  complete(held: Reservation): Promise<boolean>;
  /**
   * As `complete`, but tells an object: a promise costs a worker more than the rest of a short job's settlement. A driver
   * that leaves it out is asked by `complete`.
   */
  completeFor?(held: Reservation, settlement: Settlement): void;
  /** Gives a job back, to run again; `false`, and nothing changed, where it is no longer held. */
  release(held: Reservation, how: Release, now: Moment): Promise<boolean>;
  /** Moves a job to `failed_jobs` in one step; `false`, and nothing changed, where it is no longer held. */
  fail(held: Reservation, why: Failure): Promise<boolean>;
  /**
   * Calls `wake` soon after jobs were stored, by any process on this store, once for each `rest()` at least. `wake`
   * answers whether the listener looks for jobs now; where it does not, a driver that wakes one listener only wakes
   * another one instead. A hint, not a promise: workers poll besides.
   */
  listen(wake: () => boolean): Listener;
  /** The queues that have jobs to be reserved now or later, in any order; a store may also name some that had. */
  queues(): Promise<string[]>;
  /** How many jobs each queue has in each state; queues without any are left out. */
  counts(now: Moment, retryAfter: number): Promise<QueueCounts[]>;
  /** The delayed jobs of a queue or, where it is `null`, of all that are due next, the next one first. */
  delayed(queue: string | null, limit: number, now: Moment): Promise<DelayedJob[]>;
  /** How many jobs are ready, delayed or reserved, in all queues: cheap enough to be asked for often. */
  waiting(): Promise<number>;
  /** Failed jobs in the order of their ids. */
  failed(selection: FailedSelection): Promise<FailedJob[]>;
  /**
   * Looks for failed jobs: at a bounded number of them, however few match, without their payloads in memory, and
   * without keeping others from the store for long.
   */
  findFailed(search: FailedSearch): Promise<FailedFound>;
  /** Puts failed jobs back with no attempts counted, each in one step, and returns those that were there. */
  retry(selection: FailedSelection, now: Moment): Promise<Moved[]>;
  /** Deletes failed jobs and returns those that were there. */
  forget(selection: FailedSelection): Promise<Moved[]>;
  /**
   * Removes up to `limit` waiting jobs, ready or delayed, of a queue or, where it is `null`, of all; never one that is
   * held, whether its lease has ended or not. Answers how many: fewer than `limit` where no more are left.
   */
  clear(queue: string | null, limit: number): Promise<number>;
  /** Pauses one queue, or all where it is `null`: from now on, nothing of it is reserved. `false` where it was. */
  pause(queue: string | null): Promise<boolean>;
  /** Lifts the pause of one queue or, where it is `null`, every pause, and wakes workers. `false` where there was none. */
  resume(queue: string | null): Promise<boolean>;
  /** Counts a restart: every worker that has been told of fewer is to end. */
  restart(): Promise<void>;
  /**
   * Removes a waiting job; of one that is held, remembers that it was cancelled until it is settled or retried.
   * `null`, and nothing changed, where there is no such job, as where it has failed.
   */
  cancel(id: string): Promise<Cancelled | null>;
  /** What workers are told: cheap enough to be asked for each second. */
  controls(): Promise<Controls>;
  /**
   * Keeps how far a job is, until it is settled, another attempt begins, or `life` milliseconds have passed at least
   * since this, or since its lease was renewed; `false`, and nothing changed, where it is no longer held.
   */
  report(held: Reservation, how: Omit<Progress, "at">, life: number, now: Moment): Promise<boolean>;
  /** How far the job said that it is; `null` where it does not run, or has said nothing. */
  progress(id: string): Promise<Progress | null>;
  /**
   * Keeps what a worker says of itself, in place of what it said before, for `life` milliseconds; and forgets workers
   * whose time is over.
   */
  beat(worker: WorkerReport, life: number, now: Moment): Promise<void>;
  /** Forgets a worker that has ended; nothing where it is not known. */
  leave(id: string): Promise<void>;
  /** The workers whose time is not over, in the order in which they began; of more than 1,000 that many. */
  workers(now: Moment): Promise<WorkerInfo[]>;
  /** A job that is not done and has not failed; `null` where there is none of that id. A store may have to look for it. */
  find(id: string, now: Moment, retryAfter: number): Promise<StoredJob | null>;
  /** The names of the first `limit` jobs, or a few more, that wait on each of these queues. */
  waitingNames(queues: readonly string[], limit: number): Promise<WaitingNames[]>;
  /** Looks whether the store is fit for jobs: can be written, keeps what it is given, agrees on the time. */
  examine(now: Moment, retryAfter: number): Promise<Finding[]>;
  /** Finishes what is under way, for 2 s at most, and lets go of what the driver opened itself. */
  close(): Promise<void>;
}
