/**
 * One attempt: runs the handler of a reserved job and decides what becomes of the job.
 *
 * @module
 */
import { backoffAfter } from "./backoff.ts";
import type { Reservation } from "./driver.ts";
import { QueueError } from "./errors.ts";
import type { Database, Job } from "./job.ts";
import { decodePayload } from "./payload.ts";
import type { JobType } from "./registry.ts";
import { tracedTo } from "./strays.ts";
import { after } from "./timer.ts";

/** What becomes of the job. */
export type Outcome =
  | { readonly verdict: "complete" }
  | {
    readonly verdict: "release" | "fail";
    /** The error, as it is stored and logged. */
    readonly problem: string;
    /** Its stack, where it has one. */
    readonly stack: string | null;
    /** Milliseconds until the next attempt; 0 where there is none. */
    readonly retryIn: number;
  };

/** How long a handler may take to return once its timeout aborted its signal, in milliseconds. */
const TIMEOUT_GRACE = 5000;

/** A job while it runs. */
export class Attempt implements Job {
  readonly held: Reservation;
  readonly id: string;
  readonly name: string;
  readonly payload: string;
  readonly attempt: number;
  readonly tries: number;
  readonly queue: string;
  readonly priority: number;
  readonly db: Database;
  readonly #type: JobType | undefined;
  #data: { value: unknown } | null = null;
  /** Made when somebody asks for it: most handlers of short jobs never do. */
  #controller: AbortController | null = null;
  #abortReason: QueueError | null = null;
  /** Where the handler outlived its timeout and the grace: settles once it has returned. Never rejects. */
  overrun: Promise<void> | null = null;

  /**
   * @param held The reservation.
   * @param type Its job type; `undefined` where the app has none of that name.
   * @param tries Attempts in total.
   * @param db The app's database.
   */
  constructor(held: Reservation, type: JobType | undefined, tries: number, db: unknown) {
    this.held = held;
    this.id = held.id;
    this.name = held.name;
    this.payload = held.payload;
    this.attempt = held.attempt;
    this.tries = tries;
    this.queue = held.queue;
    this.priority = held.priority;
    this.db = db as Database;
    this.#type = type;
  }

  get data(): unknown {
    this.#data ??= { value: decodePayload(this.payload) };
    return this.#data.value;
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#abortReason !== null) this.#controller.abort(this.#abortReason);
    }
    return this.#controller.signal;
  }

  /** Tells the handler to end early. Only the first reason counts. */
  abort(reason: QueueError): void {
    if (this.#abortReason !== null) return;
    this.#abortReason = reason;
    this.#controller?.abort(reason);
  }

  /** Runs the handler and resolves with the outcome; the handler may still run where `overrun` is set. Never rejects. */
  async run(backoff: readonly number[]): Promise<Outcome> {
    if (this.attempt > this.tries) {
      // A worker died during each attempt so far.
      return this.#failed(`reserved ${this.attempt - 1} times without finishing`, null, backoff);
    }
    const handle = this.#type?.handle;
    if (!handle) return this.#failed(`no handler named ${JSON.stringify(this.name)}`, null, backoff);
    try {
      const timeout = this.#type!.timeout;
      const result = tracedTo(this, () => handle(this));
      if (timeout === null) await result;
      else await this.#within(timeout, result);
      return { verdict: "complete" };
    } catch (error) {
      return this.#failed(describe(error), stackOf(error), backoff);
    }
  }

  async #within(timeout: number, result: unknown): Promise<void> {
    const handler = Promise.resolve(result);
    const late = new QueueError("TIMEOUT", `the attempt timed out after ${seconds(timeout)}`);
    let cancel = () => {};
    const graceOver = new Promise<void>((resolve) => {
      cancel = after(timeout, () => {
        this.abort(late);
        cancel = after(TIMEOUT_GRACE, () => {
          this.overrun = handler.then(() => {}, () => {});
          resolve();
        });
      });
    });
    try {
      await Promise.race([handler, graceOver]);
    } catch (error) {
      // What the handler throws because of the abort is not the cause of the failure.
      if (this.#abortReason !== late) throw error;
    } finally {
      cancel();
    }
    if (this.#abortReason === late) throw new Timeout(`timed out after ${seconds(timeout)}`);
  }

  #failed(problem: string, stack: string | null, backoff: readonly number[]): Outcome {
    const last = this.attempt >= this.tries;
    return {
      verdict: last ? "fail" : "release",
      problem,
      stack,
      retryIn: last ? 0 : backoffAfter(this.attempt, backoff),
    };
  }
}

/** Why a timed-out attempt failed; its message alone says it. */
class Timeout extends Error {
  override name = "Error";
}

/** Errors are kept for people: what is longer than this is cut. */
const LONGEST_TEXT = 16_384;

function describe(error: unknown): string {
  return bounded(messageOf(error));
}

function messageOf(error: unknown): string {
  try {
    if (!(error instanceof Error)) {
      return typeof error === "string" ? error : `threw ${JSON.stringify(error) ?? String(error)}`;
    }
    if (error.name === "Error" || error.name === "") return error.message || "Error";
    return error.message === "" ? error.name : `${error.name}: ${error.message}`;
  } catch {
    return "threw something that cannot be shown";
  }
}

/** The stack, and that of each cause. */
function stackOf(error: unknown): string | null {
  const parts: string[] = [];
  let current = error;
  for (let depth = 0; depth < 5 && current instanceof Error; depth++) {
    parts.push(String(current.stack ?? current));
    current = current.cause;
  }
  return parts.length === 0 ? null : bounded(parts.join("\ncaused by: "));
}

function bounded(text: string): string {
  const clean = text.replaceAll("\0", "\uFFFD").toWellFormed();
  return clean.length <= LONGEST_TEXT ? clean : `${clean.slice(0, LONGEST_TEXT).toWellFormed()}…`;
}

function seconds(milliseconds: number): string {
  return `${milliseconds / 1000} s`;
}
