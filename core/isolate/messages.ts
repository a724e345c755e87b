/**
 * What a worker and its child processes tell each other: every message there is. They cross as JSON, in arrays, in the
 * order in which they were sent. What the code of a job sends over the same channel is told apart by its envelope.
 *
 * @module
 */
import type { FailedOutcome, Outcome } from "../attempt.ts";
import type { Reservation } from "../driver.ts";
import type { QueueErrorCode } from "../errors.ts";
import type { JobType, TypeSettings } from "../registry.ts";

/** A job type as it crosses: all but its functions. */
export interface JobFacts extends Omit<JobType, "handle" | "failed"> {
  readonly name: string;
  /** Whether it has a handler. */
  readonly runs: boolean;
  /** Whether it has a `failed` hook. */
  readonly hooks: boolean;
}

/** The file that a child opens for `job.db`. */
export interface HandlersDatabase {
  readonly path: string;
  readonly synchronous: "normal" | "full";
}

/** What a child needs to know before it can run anything. */
export interface Begin {
  readonly type: "begin";
  /** The URL of the jobs module; `null` where the program brings its jobs. */
  readonly module: string | null;
  /** What holds for job types that do not say otherwise. */
  readonly settings: TypeSettings;
  /** `null` where the database is not a file. */
  readonly database: HandlersDatabase | null;
  /** Whether it is to report how much memory it has. */
  readonly reportMemory: boolean;
}

/** What a worker tells a child. `run` is a number that the worker gives each attempt. */
export type ToChild =
  | Begin
  | {
    readonly type: "run";
    readonly run: number;
    readonly held: Reservation;
    /** For the job's `failed` hook, what that gets; `null` for its handler. */
    readonly failed: FailedOutcome | null;
  }
  | {
    readonly type: "abort";
    readonly run: number;
    readonly code: QueueErrorCode;
    /** Without the prefix that every error of the queue has. */
    readonly why: string;
  }
  /** Finish what runs, and exit. */
  | { readonly type: "end" };

/** What a child tells its worker. */
export type FromChild =
  /** Its program has loaded, and takes `begin`. */
  | { readonly type: "hello" }
  | { readonly type: "ready"; readonly types: readonly JobFacts[] }
  /** It cannot run jobs, and exits. */
  | { readonly type: "unable"; readonly why: string }
  /** Their handlers are called next: sent, and written, before that. */
  | { readonly type: "started"; readonly runs: readonly number[] }
  | {
    readonly type: "progress";
    readonly run: number;
    readonly fraction: number;
    readonly note: string | null;
  }
  /** A hook that did not throw is `complete`. */
  | { readonly type: "ended"; readonly run: number; readonly outcome: Outcome }
  | { readonly type: "log"; readonly level: "warn" | "error"; readonly line: string }
  /** Resident memory, in bytes. */
  | { readonly type: "memory"; readonly bytes: number };

/** What crosses: a library in a child may say something to whoever started it, too, as `process.send({ type: "ready" })`. */
export interface Envelope<Message> {
  readonly "@x/queue": readonly Message[];
}

/** Puts messages into one. */
export function enclose<Message>(messages: readonly Message[]): Envelope<Message> {
  return { "@x/queue": messages };
}

/** The messages in what came over the channel; none where it is not of the queue. */
export function messagesIn<Message>(received: unknown): readonly Message[] {
  if (typeof received !== "object" || received === null) return [];
  return (received as Partial<Envelope<Message>>)["@x/queue"] ?? [];
}
