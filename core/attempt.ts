/**
 * One attempt: runs the handler of a reserved job and decides what becomes of the job.
 *
 * @module
 */
import { backoffAfter } from "./backoff.ts";
import { describe, stackOf } from "./describe.ts";
import type { Reservation } from "./driver.ts";
import { QueueError } from "./errors.ts";
import type { Database, Job } from "./job.ts";
import { decodePayload } from "./payload.ts";
import type { JobType } from "./registry.ts";
import { show } from "./show.ts";
import { steeringOf } from "./steering.ts";
import { tracedTo } from "./strays.ts";
import { after } from "./timer.ts";

/** A failed attempt. */
export interface FailedOutcome {
  /** `release`: it has tries left. `fail`: it goes to `failed_jobs`. */
  readonly verdict: "release" | "fail";
  /** The error, as it is stored and logged. */
  readonly problem: string;
  /** Its stack, where it has one. */
  readonly stack: string | null;
  /** Milliseconds until the next attempt; 0 where there is none. */
  readonly retryIn: number;
  /** Whether the handler threw a `Discard`; else left out. */
  readonly discarded?: true;
}

/** What becomes of the job. Plain data: it may come from another process. */
export type Outcome =
  | { readonly verdict: "complete" }
  | FailedOutcome
  | {
    /** The handler threw a `Snooze`: again later, and the attempt is not spent. */
    readonly verdict: "snooze";
    /** What it gave as a reason; `null` without one. */
    readonly reason: string | null;
    /** Milliseconds until the next attempt. */
    readonly retryIn: number;
  }
  | {
    /** It ended for no fault of its own, as its worker stops: the job keeps its place, and the attempt is not spent. */
    readonly verdict: "handBack";
    /** What ended it, where that was not a stop. */
    readonly problem?: string;
  };

/** What holds for job types that do not say otherwise. */
export interface Defaults {
  /** Attempts in total. */
  readonly tries: number;
  /** Milliseconds until the next attempt, after each. */
  readonly backoff: readonly number[];
}

/** Takes a handler's word of how far it is: a fraction from 0 to 1, and a note or `null`. Never throws. */
export type Report = (fraction: number, note: string | null) => void;

/** How many characters of a note are kept. */
const LONGEST_NOTE = 1000;

/** How long a handler may take to return once its timeout aborted its signal, in milliseconds. */
const TIMEOUT_GRACE = 5000;

/** A signal that is made when somebody asks for it: most handlers of short jobs never do. */
class LazySignal {
  #controller: AbortController | null = null;
  /** Why it was aborted: the first reason counts. */
  reason: QueueError | null = null;

  get(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.reason !== null) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  abort(reason: QueueError): void {
    if (this.reason !== null) return;
    this.reason = reason;
    this.#controller?.abort(reason);
  }
}

/** The job as its handler sees it. */
class RunningJob implements Job {
  readonly id: string;
  readonly name: string;
  readonly payload: string;
  readonly attempt: number;
  readonly tries: number;
  readonly queue: string;
  readonly priority: number;
  readonly #signal: LazySignal;
  readonly #database: () => unknown;
  readonly #report: Report;
  #data: { value: unknown } | null = null;

  constructor(
    held: Reservation,
    tries: number,
    signal: LazySignal,
    database: () => unknown,
    report: Report,
  ) {
    this.id = held.id;
    this.name = held.name;
    this.payload = held.payload;
    this.attempt = held.attempt;
    this.tries = tries;
    this.queue = held.queue;
    this.priority = held.priority;
    this.#signal = signal;
    this.#database = database;
    this.#report = report;
  }

  get data(): unknown {
    this.#data ??= { value: decodePayload(this.payload) };
    return this.#data.value;
  }

  get signal(): AbortSignal {
    return this.#signal.get();
  }

  get db(): Database {
    return this.#database() as Database;
  }

  /** Bound, so that a handler can take it out of its job, as it can the others. */
  get progress(): Job["progress"] {
    return (fraction, note) => this.#say(fraction, note);
  }

  #say(fraction: number, note?: string): void {
    if (typeof fraction !== "number" || !(fraction >= 0 && fraction <= 1)) {
      throw new QueueError("CONFIG", `fraction=${show(fraction)}: expected a number from 0 to 1`);
    }
    if (note !== undefined && typeof note !== "string") {
      throw new QueueError("CONFIG", `note=${show(note)}: expected text`);
    }
    this.#report(fraction, note?.slice(0, LONGEST_NOTE).toWellFormed() ?? null);
  }
}

/** One attempt at a job: its handler runs in this process, or in a child. */
export interface Attempt {
  /** The reservation. */
  readonly held: Reservation;
  /** The job, as events and logs name it. */
  readonly job: Pick<Job, "id" | "name" | "queue" | "attempt" | "tries">;
  /** Whether the handler will run: not where there is none, or where its tries were spent by workers that died. */
  readonly runs: boolean;
  /** Where the handler outlived its timeout and the grace: settles once it has returned. Never rejects. */
  readonly overrun: Promise<void> | null;
  /** Tells the handler, or the hook, to end early. Only the first reason counts. */
  abort(reason: QueueError): void;
  /** Runs the handler and resolves with the outcome; the handler may still run where `overrun` is set. Never rejects. */
  run(): Promise<Outcome>;
  /** Runs the job type's `failed` hook, once the outcome is stored. `null`: it has none. Rejects with what that throws. */
  failed(outcome: FailedOutcome): Promise<void> | null;
}

/** An attempt whose handler runs in this process. */
export class LocalAttempt implements Attempt {
  readonly held: Reservation;
  readonly job: Job;
  readonly #type: JobType | undefined;
  readonly #backoff: readonly number[];
  readonly #database: () => unknown;
  readonly #report: Report;
  readonly #signal = new LazySignal();
  /** Of the hook, whose time begins when the handler's is over. */
  #hookSignal: LazySignal | null = null;
  /** What the handler threw. */
  #thrown: ErrorOptions | null = null;
  /** What was thrown for it, as it outlived its timeout. */
  #timeout: Error | null = null;
  overrun: Promise<void> | null = null;

  /**
   * @param held The reservation.
   * @param type Its job type; `undefined` where the app has none of that name.
   * @param defaults The queue's own tries and backoff.
   * @param database Opens the app's database for a handler that asks for it.
   * @param report Takes the handler's word of how far it is.
   */
  constructor(
    held: Reservation,
    type: JobType | undefined,
    defaults: Defaults,
    database: () => unknown,
    report: Report,
  ) {
    this.held = held;
    this.job = new RunningJob(held, type?.tries ?? defaults.tries, this.#signal, database, report);
    this.#report = report;
    this.#type = type;
    this.#database = database;
    this.#backoff = type?.backoff ?? defaults.backoff;
  }

  get runs(): boolean {
    return Boolean(this.#type?.handle) && this.job.attempt <= this.job.tries;
  }

  abort(reason: QueueError): void {
    // What listens to the signal is the job's, and so are its errors.
    tracedTo(this.job, () => {
      this.#signal.abort(reason);
      this.#hookSignal?.abort(reason);
    });
  }

  async run(): Promise<Outcome> {
    const { attempt, tries, name } = this.job;
    // A worker died during each attempt so far.
    if (attempt > tries) {
      return this.#failed(`reserved ${attempt - 1} times without finishing`, null);
    }
    const handle = this.#type?.handle;
    if (!handle) return this.#failed(`no handler named ${JSON.stringify(name)}`, null);
    try {
      const timeout = this.#type!.timeout;
      const result = tracedTo(this.job, () => handle(this.job));
      if (timeout === null) await result;
      else await this.#within(timeout, result);
      return { verdict: "complete" };
    } catch (error) {
      return this.#judge(error);
    }
  }

  failed({ problem, stack }: FailedOutcome): Promise<void> | null {
    const hook = this.#type?.failed;
    if (!hook) return null;
    const signal = this.#hookSignal = new LazySignal();
    const job = new RunningJob(this.held, this.job.tries, signal, this.#database, this.#report);
    const error = new Error(problem, this.#thrown ?? {});
    error.stack = stack ?? `Error: ${problem}`;
    const timeout = this.#type!.timeout;
    const late = () => tracedTo(job, () => signal.abort(hookTimeout(timeout!)));
    const cancel = timeout === null ? () => {} : after(timeout, late);
    return tracedTo(job, async () => {
      try {
        await hook(job, error);
      } finally {
        cancel();
      }
    });
  }

  /** What the handler threw decides, save where the worker stops: then it may have thrown because of that. */
  #judge(thrown: unknown): Outcome {
    const steering = steeringOf(thrown);
    if (steering?.kind === "snooze") {
      return { verdict: "snooze", reason: steering.reason || null, retryIn: steering.delay };
    }
    // Not by its class: a proxy throws when asked for it.
    if (thrown !== this.#timeout) this.#thrown = { cause: thrown };
    if (steering !== null) {
      const { reason } = steering;
      return { verdict: "fail", problem: reason, stack: stackOf(thrown), retryIn: 0, discarded: true };
    }
    if (this.#signal.reason?.code === "STOPPED") return { verdict: "handBack" };
    return this.#failed(describe(thrown), stackOf(thrown));
  }

  async #within(timeout: number, result: unknown): Promise<void> {
    const handler = Promise.resolve(result);
    const late = new QueueError("TIMEOUT", `the attempt timed out after ${seconds(timeout)}`);
    let timedOut = false;
    let cancel = () => {};
    const graceOver = new Promise<void>((resolve) => {
      cancel = after(timeout, () => {
        timedOut = true;
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
      // What the handler throws because of the abort is not the cause of the failure; nor may a job that hangs snooze
      // for ever. That no further try can help is worth knowing all the same.
      if (!timedOut || steeringOf(error)?.kind === "discard") throw error;
    } finally {
      cancel();
    }
    if (timedOut) throw this.#timeout = new Error(`timed out after ${seconds(timeout)}`);
  }

  #failed(problem: string, stack: string | null): FailedOutcome {
    const { attempt, tries } = this.job;
    const last = attempt >= tries;
    return {
      verdict: last ? "fail" : "release",
      problem,
      stack,
      retryIn: last ? 0 : backoffAfter(attempt, this.#backoff),
    };
  }
}

function hookTimeout(timeout: number): QueueError {
  return new QueueError("TIMEOUT", `the failed hook timed out after ${seconds(timeout)}`);
}

function seconds(milliseconds: number): string {
  return `${milliseconds / 1000} s`;
}
