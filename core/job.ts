/**
 * What an app's author writes against: the job that a handler sees, and how a job type is described.
 *
 * @module
 */
import type { Duration } from "./duration.ts";

/** The part of an app's SQLite connection that every supported library has; see {@linkcode Job.db}. */
export interface Database {
  /** Runs SQL text that returns nothing. */
  exec(sql: string): unknown;
  /** Compiles one statement. */
  prepare(sql: string): {
    /** Runs it for its effect. */
    run(...parameters: unknown[]): unknown;
    /** Runs it and returns the first row, or `undefined` (`null` in `bun:sqlite`). */
    get(...parameters: unknown[]): unknown;
    /** Runs it and returns every row. */
    all(...parameters: unknown[]): unknown[];
  };
}

/**
 * One attempt at a job, as its handler sees it.
 *
 * @typeParam Data What {@linkcode Job.data} holds.
 * @typeParam Db The app's own connection type, where it brought one.
 */
export interface Job<Data = unknown, Db = Database> {
  /** What `dispatch` returned. */
  readonly id: string;
  /** The name it was dispatched under. */
  readonly name: string;
  /** The stored text: the string that was dispatched, or the JSON of anything else. */
  readonly payload: string;
  /**
   * The payload, parsed as JSON; what is no JSON is its own text. So a string that was dispatched comes as it is only in
   * `payload`: `data` of `"007"` is 7. A date comes as text, as JSON has none.
   */
  readonly data: Data;
  /** 1 on the first run, 2 on the first retry, and so on. */
  readonly attempt: number;
  /** How many attempts the job gets in total. */
  readonly tries: number;
  /** The queue that it was dispatched to. */
  readonly queue: string;
  /** Its priority; higher runs first. */
  readonly priority: number;
  /**
   * Aborted when the attempt should end early: its `timeout` passed, its lease was lost, somebody cancelled it, or the
   * worker stops and its grace is over. The reason is a `QueueError` whose code says which.
   */
  readonly signal: AbortSignal;
  /** The app's database: the connection that the queue was given, or one that it opened for handlers. */
  readonly db: Db;
  /**
   * Says how far the handler is, to be read by `queue.progress(id)` in any process until the attempt ends. The latest
   * word is stored, at most once a second; where the store fails, that is logged, and the handler goes on.
   *
   * @param fraction From 0 to 1.
   * @param note A word to go with it, of which 1,000 characters are kept.
   * @throws {QueueError} `CONFIG` for what is no such fraction, or no text.
   */
  progress(fraction: number, note?: string): void;
}

/**
 * Runs one attempt: returning (or resolving) means done, throwing (or rejecting) means that the attempt failed, unless
 * what it throws is a `Discard` or a `Snooze`.
 * Delivery is at least once, so a handler must bear being run again.
 */
// deno-lint-ignore no-explicit-any -- `any` lets a map hold handlers of different payloads
export type Handler<Data = any, Db = any> = (job: Job<Data, Db>) => unknown;

/**
 * Runs once after a job came to stand in `failed_jobs`, in the process that stored that: `job` as its last attempt had
 * it, with a `signal` of its own, and an error whose message is the stored one. Its `cause` is what the handler threw,
 * where that is known. What it throws is logged, and changes nothing.
 */
// deno-lint-ignore no-explicit-any -- as above
export type FailedHook<Data = any, Db = any> = (job: Job<Data, Db>, error: Error) => unknown;

/** A job type with settings of its own; those left out are the queue's. */
// deno-lint-ignore no-explicit-any -- as above
export interface JobOptions<Data = any, Db = any> {
  /** Runs it. Left out where jobs are only dispatched and another program has the handler. */
  handle?: Handler<Data, Db>;
  /** Runs after the job came to stand in `failed_jobs`; its own `job.signal` is aborted after the `timeout`. Default: nothing. */
  failed?: FailedHook<Data, Db>;
  /** Attempts in total, at least 1. Default: the queue's `tries` (3). */
  tries?: number;
  /** How long to wait before the second, third and later attempts; the last entry repeats. Default: 10, 60, 300 s. */
  backoff?: Duration | readonly Duration[];
  /** How long one attempt may take before its signal is aborted and it counts as failed. Default: no limit. */
  timeout?: Duration;
  /** The queue that it is dispatched to. Default: `"default"`. */
  queue?: string;
  /** Higher runs first within a queue; a whole number from −100 to 100. Default: 0. */
  priority?: number;
}

/** A job type: its handler, or its settings with the handler among them. */
// deno-lint-ignore no-explicit-any -- as above
export type JobDefinition<Data = any, Db = any> = Handler<Data, Db> | JobOptions<Data, Db>;

/** The job types of an app, by name. */
export type Jobs = Readonly<Record<string, JobDefinition>>;

/** What the handler of a job type takes as `job.data`. */
export type DataOf<Definition> = Definition extends (job: infer J) => unknown ? DataOfJob<J>
  : Definition extends { handle?: (job: infer J) => unknown } ? DataOfJob<J>
  : unknown;

/** What a job has as `data`. */
export type DataOfJob<J> = unknown extends J ? unknown
  : J extends { readonly data: infer Data } ? Data
  : unknown;

/** How one dispatch differs from what its job type says. */
export interface DispatchOptions {
  /** Runs no sooner than this from now. Default: at once. */
  delay?: Duration;
  /** The queue that it goes to. Default: the job type's. */
  queue?: string;
  /** Its priority. Default: the job type's. */
  priority?: number;
  /**
   * What you call this dispatch: a second one with the same text within a day stores nothing. Give one where a dispatch
   * must bear being repeated, as after an error by which it is not known whether it was stored.
   */
  id?: string;
}

/** A job that was stored. */
export interface Dispatched {
  /** Names the job from now on, in the logs, on the command line and in `failed_jobs`. */
  readonly id: string;
  /** `true` where an earlier dispatch with the same `id` option stored it; else left out. */
  readonly duplicate?: true;
}
