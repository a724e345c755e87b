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
export type {
  AttemptRecord,
  Cancelled,
  Controls,
  DelayedJob,
  Driver,
  FailedFilter,
  FailedFound,
  FailedJob,
  FailedSearch,
  FailedSelection,
  Failure,
  Finding,
  KeyedJob,
  Listener,
  Moment,
  Moved,
  NewJob,
  Paused,
  Progress,
  Pushed,
  QueueCounts,
  QueueShare,
  Release,
  Reservation,
  Reserved,
  ReserveRequest,
  RunningJob,
  StoredJob,
  WaitingNames,
  WorkerInfo,
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
