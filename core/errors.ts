/**
 * The one error class of the queue.
 *
 * @module
 */

/**
 * What kind of failure a {@linkcode QueueError} is.
 *
 * | code | meaning |
 * |---|---|
 * | `UNKNOWN` | no handler has this name: nothing would ever run the job |
 * | `CONFIG` | a setting, option or argument cannot work |
 * | `PAYLOAD` | the payload cannot be stored: not JSON, not text, or too large |
 * | `DB` | the database failed |
 * | `REDIS` | Redis failed or could not be reached |
 * | `CLOSED` | the queue was closed before the call |
 * | `LEASE_LOST` | reason of an aborted `job.signal`: another worker may hold the job now |
 * | `TIMEOUT` | reason of an aborted `job.signal`: the attempt ran longer than its `timeout` |
 * | `CANCELLED` | reason of an aborted `job.signal`: somebody cancelled the job |
 * | `STOPPED` | reason of an aborted `job.signal`: the worker stops, and its grace is over, or it has none |
 */
export type QueueErrorCode =
  | "UNKNOWN"
  | "CONFIG"
  | "PAYLOAD"
  | "DB"
  | "REDIS"
  | "CLOSED"
  | "LEASE_LOST"
  | "TIMEOUT"
  | "CANCELLED"
  | "STOPPED";

/**
 * Every error that the queue throws or rejects with.
 *
 * @example
 * ```ts
 * import { Queue, QueueError } from "@x/queue";
 * import assert from "node:assert/strict";
 *
 * const queue = new Queue({ database: ":memory:", jobs: { mail: () => {} } });
 * try {
 *   // @ts-expect-error the name is checked by the compiler, too
 *   await queue.dispatch("mial", {});
 * } catch (error) {
 *   assert(error instanceof QueueError);
 *   assert.equal(error.code, "UNKNOWN");
 *   assert.equal(error.message, 'queue: no job handler named "mial"');
 * }
 * await queue.close();
 * ```
 */
export class QueueError extends Error {
  /** What kind of failure this is. */
  readonly code: QueueErrorCode;

  /**
   * Makes an error whose message starts with `queue: `.
   *
   * @param code What kind of failure it is.
   * @param why What went wrong, without the prefix.
   * @param options The error that caused it, as `cause`.
   */
  constructor(code: QueueErrorCode, why: string, options?: ErrorOptions) {
    super(`queue: ${why}`, options);
    this.name = "QueueError";
    this.code = code;
  }
}
