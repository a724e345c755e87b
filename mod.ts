/**
 * Background jobs for Deno, Bun and Node: one import, at least once, on an embedded SQLite file.
 *
 * An app names its handlers, dispatches jobs by name, and a worker runs them after the response. A failed attempt is
 * retried after 10 s, 60 s, then 300 s; a job that is out of tries stands in `failed_jobs` until somebody retries or
 * forgets it.
 *
 * @example
 * ```ts
 * import { type Job, Queue } from "@x/queue";
 * import assert from "node:assert/strict";
 *
 * const made: number[] = [];
 * const queue = new Queue({
 *   database: ":memory:",
 *   jobs: {
 *     thumbnail: (job: Job<{ id: number }>) => void made.push(job.data.id),
 *   },
 * });
 *
 * await queue.dispatch("thumbnail", { id: 7 });
 * await queue.work({ stopWhenEmpty: true });
 * assert.deepEqual(made, [7]);
 * await queue.close();
 * ```
 *
 * @module
 */
export { Queue } from "./core/queue.ts";
export type {
  DatabaseConnection,
  DelayedPage,
  DispatchArguments,
  DispatchEntry,
  QueueOptions,
  Workers,
  WorkOptions,
} from "./core/queue.ts";
export type { ClearOptions, ClearProgress } from "./core/clear.ts";
export type { FailedIds, FailedPage, MoveOptions, MoveProgress } from "./core/failed.ts";
export { QueueError, type QueueErrorCode } from "./core/errors.ts";
export type {
  Database,
  DataOf,
  DataOfJob,
  Dispatched,
  DispatchOptions,
  FailedHook,
  Handler,
  Job,
  JobDefinition,
  JobOptions,
  Jobs,
} from "./core/job.ts";
// The registry wants a comment on each name that stands in an export of its own, too: these are those of ./driver.
export type {
  /** An attempt that failed. */
  AttemptRecord,
  /** What became of a job that was cancelled. */
  Cancelled,
  /** What the workers of a store are told, by whatever process. */
  Controls,
  /** A job that is not due yet. */
  DelayedJob,
  /** A store of jobs. */
  Driver,
  /** Which failed jobs. */
  FailedFilter,
  /** What one step found. */
  FailedFound,
  /** A job in `failed_jobs`. */
  FailedJob,
  /** A step through the failed jobs, in the order of their ids. */
  FailedSearch,
  /** Which failed jobs. */
  FailedSelection,
  /** Why a job ended in `failed_jobs`. */
  Failure,
  /** What somebody found who looked whether all is well. */
  Finding,
  /** A job to be stored once, however often it is pushed. */
  KeyedJob,
  /** What hears of pushes, from `Driver.listen` on. */
  Listener,
  /** A point in time. */
  Moment,
  /** A failed job that was moved or deleted. */
  Moved,
  /** A job to be stored. */
  NewJob,
  /** Which queues are paused. */
  Paused,
  /** How far a handler says that it is. */
  Progress,
  /** What became of a `KeyedJob`. */
  Pushed,
  /** How many jobs of one queue are in each state. */
  QueueCounts,
  /** A queue, and how many jobs to take from it at most. */
  QueueShare,
  /** How to give back a job that is to run again. */
  Release,
  /** A job that a worker holds. */
  Reservation,
  /** What a worker got. */
  Reserved,
  /** What a worker asks for. */
  ReserveRequest,
  /** A job that a worker runs. */
  RunningJob,
  /** A job that is not done and has not failed, as its store has it. */
  StoredJob,
  /** The names of jobs that wait on a queue. */
  WaitingNames,
  /** A worker, as its store knows it. */
  WorkerInfo,
  /** What a worker says of itself. */
  WorkerReport,
} from "./core/driver.ts";
export { Discard, Snooze } from "./core/steering.ts";
export type { Duration, DurationRecord } from "./core/duration.ts";
export {
  DEFAULT_DATABASE,
  DEFAULT_GRACE,
  type Environment,
  type RedisSettings,
  type SettingOptions,
  VARIABLES,
} from "./core/config.ts";
export type { EventJob, QueueEvents, QueueListener, ReleaseReason, WorkEvent } from "./core/events.ts";
export type { JobDetail, JobHolder, Reason, ReasonCode } from "./core/find.ts";
export { loadJobs } from "./core/isolate/jobs_module.ts";
export type { ProcessesOptions } from "./core/isolate/options.ts";
export { serveJobs } from "./core/isolate/serve.ts";
export type { Log } from "./core/log.ts";
export type { FailedOutcome, Outcome } from "./core/attempt.ts";
export type { AttemptEnd, Meter, Telemetry } from "./core/telemetry.ts";
export { checkQueueSelection, type QueueSelection } from "./core/shares.ts";
