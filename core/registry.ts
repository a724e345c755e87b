/**
 * The job types of an app, checked once and with every setting filled in.
 *
 * @module
 */
import { atLeastOne, refuseUnknown, type Settings, toBackoff, wholeNumber } from "./config.ts";
import { toMilliseconds } from "./duration.ts";
import { QueueError } from "./errors.ts";
import { show } from "./show.ts";
import type { FailedHook, Handler, JobDefinition, JobOptions, Jobs } from "./job.ts";

/** A job type with every setting filled in. Durations are milliseconds. */
export interface JobType {
  readonly handle: Handler | null;
  readonly failed: FailedHook | null;
  readonly tries: number;
  readonly backoff: readonly number[];
  readonly timeout: number | null;
  readonly queue: string;
  readonly priority: number;
}

/** What holds for job types that do not say otherwise. */
export type TypeSettings = Pick<Settings, "tries" | "backoff" | "timeout">;

/** The queue of jobs that name none, as every job of the original is. */
export const DEFAULT_QUEUE = "default";

const OPTIONS = ["handle", "failed", "tries", "backoff", "timeout", "queue", "priority"];

/**
 * Reads an app's map of jobs.
 *
 * @throws {QueueError} `CONFIG`, naming the job and the setting at fault.
 */
export function readJobs(jobs: Jobs, settings: TypeSettings): Map<string, JobType> {
  if (!isPlain(jobs)) {
    throw new QueueError(
      "CONFIG",
      `jobs=${show(jobs)}: expected a plain object of handlers by name`,
    );
  }
  return new Map(
    Object.entries(jobs).map(([name, definition]) => [name, readJob(name, definition, settings)]),
  );
}

function readJob(name: string, definition: JobDefinition, settings: TypeSettings): JobType {
  checkName(name);
  const options: JobOptions = typeof definition === "function" ? { handle: definition } : definition;
  const at = `jobs.${name}`;
  if (!isPlain(options)) {
    throw new QueueError(
      "CONFIG",
      `${at} is ${describeType(options)}: expected a function, or an object with handle`,
    );
  }
  refuseUnknown(options, OPTIONS, at);
  for (const part of ["handle", "failed"] as const) {
    const value = options[part];
    if (value !== undefined && typeof value !== "function") {
      throw new QueueError("CONFIG", `${at}.${part} is ${describeType(value)}: expected a function`);
    }
  }
  return {
    handle: options.handle ?? null,
    failed: options.failed ?? null,
    tries: wholeNumber(`${at}.tries`, options.tries, settings.tries, 1),
    backoff: options.backoff === undefined ? settings.backoff : toBackoff(options.backoff, `${at}.backoff`),
    timeout: options.timeout === undefined
      ? settings.timeout
      : atLeastOne(toMilliseconds(options.timeout, `${at}.timeout`), `${at}.timeout`),
    queue: options.queue === undefined ? DEFAULT_QUEUE : checkQueue(options.queue, `${at}.queue`),
    priority: checkPriority(options.priority, `${at}.priority`, 0),
  };
}

/** The original keeps a job's name on the first line of a Redis member, so a name is one line. */
function checkName(name: string): void {
  if (name === "" || /[\r\n\0]/.test(name) || !name.isWellFormed()) {
    throw new QueueError(
      "CONFIG",
      `the job name ${JSON.stringify(name)}: expected one line of text, not empty`,
    );
  }
}

/**
 * A queue's name, which must also stand in `--queue=high:3,low:1`.
 *
 * @throws {QueueError} `CONFIG` for an empty or long one, white space, a comma, colon or asterisk.
 */
export function checkQueue(queue: unknown, setting: string): string {
  if (typeof queue !== "string" || !/^[^\s,:*\0]{1,100}$/u.test(queue) || !queue.isWellFormed()) {
    throw new QueueError(
      "CONFIG",
      `${setting}=${
        show(queue)
      }: expected a name of 1 to 100 characters without spaces, commas, colons or asterisks`,
    );
  }
  return queue;
}

/**
 * A priority. The range is small so that looking at each in turn is cheap.
 *
 * @throws {QueueError} `CONFIG` outside −100 to 100.
 */
export function checkPriority(priority: number | undefined, setting: string, fallback: number): number {
  return wholeNumber(setting, priority, fallback, -100, 100);
}

/** An object that is no array, Map or the like. A module namespace has no prototype. */
function isPlain(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.prototype.toString.call(value) === "[object Object]" || Object.getPrototypeOf(value) === null;
}

function describeType(value: unknown): string {
  return value === null
    ? "null"
    : Array.isArray(value)
    ? "an array"
    : value instanceof Map
    ? "a Map"
    : typeof value;
}
