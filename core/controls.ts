/**
 * How a worker obeys what operators tell it by the store: it ends at a restart, and aborts jobs that were cancelled. And
 * how it passes on how far its jobs say that they are. Pauses are the store's affair: it reserves nothing that is paused.
 *
 * @module
 */
import type { Attempt, FailedOutcome, Outcome, Report } from "./attempt.ts";
import { Bag, type Bagged } from "./bag.ts";
import { describe } from "./describe.ts";
import type { Driver, Progress, Reservation } from "./driver.ts";
import { QueueError } from "./errors.ts";
import type { Log } from "./log.ts";
import { after } from "./timer.ts";

/** What the keeper works with. */
export interface ControlParts {
  readonly driver: Driver;
  /** Makes an attempt, which says by `report` how far its handler is. */
  readonly attempt: (held: Reservation, report: Report) => Attempt;
  /** How long a lease lasts, in milliseconds. */
  readonly retryAfter: number;
  readonly log: Log;
}

/** How often a worker asks what it is told while jobs run, in milliseconds. Idle, it hears of it as it looks for jobs. */
const LOOK_EVERY = 1000;

/** How long a handler may take to return once its job was cancelled, in milliseconds. */
const CANCEL_GRACE = 5000;

/** How often a job's progress is stored at most, in milliseconds. */
const REPORT_EVERY = 1000;

/** What becomes of a cancelled job whose handler did not finish. */
const CANCELLED: Outcome = { verdict: "fail", problem: "cancelled", stack: null, retryIn: 0 };

/** Keeps one worker to what it is told. */
export class ControlKeeper {
  readonly #parts: ControlParts;
  readonly #restart: () => void;
  readonly #running = new Bag<ControlledAttempt>();
  /** How many restarts there were when this worker heard of them first; `null` before. */
  #restarts: number | null = null;
  #cancelLook: (() => void) | null = null;
  /** Whether the last look failed: a store that is down is logged once. */
  #failing = false;
  #closed = false;
  readonly #reports: ReportLog;
  readonly #keeping: Keeping = {
    reporter: (held) => new Reporter(held, this.#parts.driver, this.#parts.retryAfter, this.#reports),
    ended: (attempt) => this.#running.delete(attempt),
  };

  /** @param restart Called when workers that run by now are to end. */
  constructor(parts: ControlParts, restart: () => void) {
    this.#parts = parts;
    this.#restart = restart;
    this.#reports = new ReportLog(parts.log);
  }

  /** Makes the attempt at a job, which somebody may cancel. */
  attempt(held: Reservation): Attempt {
    const attempt = new ControlledAttempt(held, this.#parts, this.#keeping);
    this.#running.add(attempt);
    this.#arm();
    return attempt;
  }

  /** Takes note of how many restarts there were. */
  heard(restarts: number): void {
    const known = this.#restarts ?? restarts;
    this.#restarts = restarts;
    if (restarts > known) this.#restart();
  }

  /** Looks no more, and passes nothing on. */
  close(): void {
    this.#closed = true;
    this.#cancelLook?.();
    for (const attempt of [...this.#running.items]) attempt.letGo();
  }

  #arm(): void {
    if (this.#cancelLook !== null || this.#closed) return;
    this.#cancelLook = after(LOOK_EVERY, () => void this.#look());
  }

  async #look(): Promise<void> {
    if (this.#running.size > 0) {
      try {
        const { restarts, cancelled } = await this.#parts.driver.controls();
        this.#failing = false;
        this.heard(restarts);
        if (cancelled.length > 0) this.#cancel(new Set(cancelled));
      } catch (error) {
        if (!this.#failing && !this.#closed) {
          this.#parts.log.error(`${describe(error)} (while asking what workers are told)`);
        }
        this.#failing = true;
      }
    }
    this.#cancelLook = null;
    if (this.#running.size > 0) this.#arm();
  }

  #cancel(ids: ReadonlySet<string>): void {
    for (const attempt of [...this.#running.items]) if (ids.has(attempt.held.id)) attempt.cancel();
  }
}

/** What the attempts of one keeper need of it. */
interface Keeping {
  reporter(held: Reservation): Reporter;
  ended(attempt: ControlledAttempt): void;
}

/** An attempt that somebody may cancel: what its handler throws then is no reason to try again. */
class ControlledAttempt implements Attempt, Bagged {
  readonly held: Reservation;
  place = 0;
  readonly #inner: Attempt;
  readonly #keeping: Keeping;
  /** Most handlers report nothing. */
  #reporter: Reporter | null = null;
  #cancelled = false;
  #over = false;
  #overrun: Promise<void> | null = null;
  #running: Promise<Outcome> | null = null;
  #resolve: ((outcome: Outcome) => void) | null = null;
  #cancelGrace: (() => void) | null = null;

  constructor(held: Reservation, parts: ControlParts, keeping: Keeping) {
    this.held = held;
    this.#inner = parts.attempt(held, (fraction, note) => this.#report({ fraction, note }));
    this.#keeping = keeping;
  }

  get job(): Attempt["job"] {
    return this.#inner.job;
  }

  get runs(): boolean {
    return !this.held.cancelled && this.#inner.runs;
  }

  get overrun(): Promise<void> | null {
    return this.#overrun ?? this.#inner.overrun;
  }

  abort(reason: QueueError): void {
    this.#inner.abort(reason);
  }

  failed(outcome: FailedOutcome): Promise<void> | null {
    return this.#inner.failed(outcome);
  }

  /** Tells the handler to end early, and settles without it where it does not. */
  cancel(): void {
    if (this.#cancelled) return;
    this.#cancelled = true;
    this.#cancelGrace = after(CANCEL_GRACE, () => this.#giveUp());
    this.abort(new QueueError("CANCELLED", `job ${this.held.name} (id ${this.held.id}) was cancelled`));
  }

  run(): Promise<Outcome> {
    if (this.held.cancelled) {
      this.letGo();
      return Promise.resolve(CANCELLED);
    }
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#running = this.#inner.run();
      this.#running.then((outcome) => {
        this.letGo();
        resolve(this.#cancelled && outcome.verdict !== "complete" ? CANCELLED : outcome);
      });
    });
  }

  #giveUp(): void {
    this.#overrun = this.#running!.then(() => this.#inner.overrun).then(() => {});
    this.letGo();
    this.#resolve!(CANCELLED);
  }

  /** Takes the handler's word of how far it is, unless it comes after its end. */
  #report(how: Omit<Progress, "at">): void {
    if (this.#over) return;
    this.#reporter ??= this.#keeping.reporter(this.held);
    this.#reporter.report(how);
  }

  /** Nothing more is passed on to its handler, nor from it. */
  letGo(): void {
    this.#over = true;
    this.#cancelGrace?.();
    this.#reporter?.end();
    this.#keeping.ended(this);
  }
}

/** Logs that progress cannot be stored: once, however many jobs report while the store is down. */
class ReportLog {
  readonly #log: Log;
  #failing = false;

  constructor(log: Log) {
    this.#log = log;
  }

  succeeded(): void {
    this.#failing = false;
  }

  failed(error: unknown, held: Reservation): void {
    if (!this.#failing) {
      this.#log.error(`${describe(error)} (while storing the progress of job ${held.name}, id ${held.id})`);
    }
    this.#failing = true;
  }
}

/** Stores how far a job says that it is: at once, then at most each second, the latest word. */
class Reporter {
  readonly #held: Reservation;
  readonly #driver: Driver;
  /** How long the store keeps it at least, in milliseconds; a renewed lease renews that. */
  readonly #life: number;
  readonly #log: ReportLog;
  #latest: Omit<Progress, "at"> | null = null;
  #stored = true;
  #writing = false;
  #writtenAt = -Infinity;
  #cancelWrite: (() => void) | null = null;
  #over = false;

  constructor(held: Reservation, driver: Driver, life: number, log: ReportLog) {
    this.#held = held;
    this.#driver = driver;
    this.#life = life;
    this.#log = log;
  }

  /** Takes the handler's word. */
  report(how: Omit<Progress, "at">): void {
    if (this.#over) return;
    this.#latest = how;
    this.#stored = false;
    this.#schedule();
  }

  /** Stores nothing more: the job is being settled. */
  end(): void {
    this.#over = true;
    this.#cancelWrite?.();
  }

  #schedule(): void {
    if (this.#over || this.#stored || this.#writing || this.#cancelWrite !== null) return;
    const wait = this.#writtenAt + REPORT_EVERY - performance.now();
    if (wait <= 0) return void this.#write(this.#latest!);
    this.#cancelWrite = after(wait, () => {
      this.#cancelWrite = null;
      this.#schedule();
    });
  }

  async #write(how: Omit<Progress, "at">): Promise<void> {
    this.#writing = true;
    this.#stored = true;
    this.#writtenAt = performance.now();
    try {
      // Where it is not held any more, the lease keeper tells the handler.
      if (!await this.#driver.report(this.#held, how, this.#life, null)) this.end();
      this.#log.succeeded();
    } catch (error) {
      this.#stored = false;
      if (!this.#over) this.#log.failed(error, this.#held);
    }
    this.#writing = false;
    this.#schedule();
  }
}
