/**
 * The worker: reserves jobs into free slots, runs them, settles them, and stops when told to.
 *
 * It is driven by events, not by a loop: a finished job, the bell, a due time and the poll each lead to `#pump`,
 * which asks the driver for as many jobs as there are free slots. What a turn settles and what it reserves go to the
 * driver in the same turn, so that they can share a transaction.
 *
 * @module
 */
import { setImmediate } from "node:timers";
import { Attempt, type Outcome } from "./attempt.ts";
import type { Driver, Listener, Moment, Reservation } from "./driver.ts";
import { QueueError } from "./errors.ts";
import { LeaseKeeper } from "./lease.ts";
import type { Log } from "./log.ts";
import type { JobType } from "./registry.ts";
import type { Shares } from "./shares.ts";
import { watchStrays } from "./strays.ts";
import { after } from "./timer.ts";

/** A change in a job's life, as a worker saw it. */
export interface WorkEvent {
  /**
   * `started`: its handler begins. `completed`: done and stored. `released`: failed, to run again. `failed`: out of
   * tries, now in `failed_jobs`. `lost`: its lease was lost, so that its outcome was not stored.
   */
  readonly type: "started" | "completed" | "released" | "failed" | "lost";
  /** The job. */
  readonly job: {
    readonly id: string;
    readonly name: string;
    readonly queue: string;
    readonly attempt: number;
    readonly tries: number;
  };
  /** How long the handler ran, in milliseconds; not at `started`. */
  readonly duration?: number;
  /** What went wrong, at `released` and `failed`. */
  readonly error?: string;
  /** Milliseconds until the next attempt, at `released`. */
  readonly retryIn?: number;
}

/** What a worker works with. */
export interface WorkerParts {
  readonly driver: Driver;
  readonly types: ReadonlyMap<string, JobType>;
  readonly tries: number;
  readonly backoff: readonly number[];
  readonly retryAfter: number;
  readonly log: Log;
}

/** How a worker works. */
export interface WorkerOptions {
  readonly concurrency: number;
  readonly shares: Shares;
  /** How many jobs to hold beyond the free slots, at most. */
  readonly prefetch: number;
  readonly stopWhenEmpty: boolean;
  readonly maxJobs: number;
  readonly maxTime: number | null;
  /** Stops reserving; running jobs finish. */
  readonly signal?: AbortSignal;
  /** Stops at once: running jobs are aborted and handed back. */
  readonly forceSignal?: AbortSignal;
  readonly onEvent?: (event: WorkEvent) => void;
}

/** How long an idle worker goes without looking, whatever the bell says, in milliseconds. */
const POLL = 1000;

/** The first and the longest wait after a store error, in milliseconds. */
const BACK_OFF = [100, 10_000];

/** A batch that lasts longer than this, in milliseconds, makes prefetching shrink; a shorter one makes it grow. */
const QUICK_BATCH = 10;

/** How long a stopping worker goes on trying to store outcomes while the store fails, in milliseconds. */
const SETTLE_DEADLINE = 10_000;

/** How long handing back may take when the worker must stop at once, in milliseconds. */
const FORCE_DEADLINE = 2000;

/** How long after a job started it is still suspected of a stray error, in milliseconds. */
const SUSPECT = 1000;

/** Runs jobs until it is stopped. */
export class Worker {
  readonly #parts: WorkerParts;
  readonly #options: WorkerOptions;
  readonly #leases: LeaseKeeper;
  readonly #running = new Set<Attempt>();
  /** Reserved, waiting for a slot. */
  readonly #waiting: Reservation[] = [];
  #settling = 0;
  #started = 0;
  #reserving = false;
  #refilling = false;
  #again = false;
  #stopping = false;
  #forced = false;
  #stoppedAt = 0;
  #cancelWake: (() => void) | null = null;
  #cancelForce: (() => void) | null = null;
  #pausedUntil = 0;
  #failures = 0;
  /** How many to prefetch next, and when the present batch came. */
  #ahead = 0;
  #batchAt = 0;
  #discoveredAt = 0;
  /** Whether the store may have queues that `queues()` did not name last time. */
  #newQueues = true;
  #listener: Listener | null = null;
  #last: Attempt | null = null;
  #lastAt = -Infinity;
  #done!: () => void;

  constructor(parts: WorkerParts, options: WorkerOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#leases = new LeaseKeeper(parts.driver, parts.retryAfter, Date.now, () => null, parts.log);
  }

  /** Works until a signal or a limit stops it and what it holds is settled. */
  async run(): Promise<void> {
    const { signal, forceSignal, maxTime } = this.#options;
    const finished = new Promise<void>((resolve) => this.#done = resolve);
    const stop = () => this.stop();
    const force = () => this.#force();
    this.#listener = this.#parts.driver.listen(() => this.#hear());
    const trust = watchStrays({ log: this.#parts.log, suspects: () => this.#suspects() });
    const cancelTime = maxTime === null ? () => {} : after(maxTime, stop);
    signal?.addEventListener("abort", stop);
    forceSignal?.addEventListener("abort", force);
    try {
      if (forceSignal?.aborted) force();
      else if (signal?.aborted) stop();
      else this.#pump();
      await finished;
    } finally {
      signal?.removeEventListener("abort", stop);
      forceSignal?.removeEventListener("abort", force);
      cancelTime();
      this.#cancelWake?.();
      this.#cancelForce?.();
      this.#leases.close();
      this.#listener.close();
      trust();
    }
  }

  /** The bell rang: whether this worker looks for jobs now. */
  #hear(): boolean {
    if (this.#stopping || this.#free() === 0 || this.#waiting.length > 0) return false;
    if (this.#pausedUntil > Date.now()) return false;
    this.#pump();
    return true;
  }

  #pump(): void {
    this.#cancelWake?.();
    this.#cancelWake = null;
    this.#startWaiting();
    if (this.#stopping) return this.#finish();
    const free = this.#free();
    if (free === 0 || this.#waiting.length > 0) return;
    if (this.#reserving) {
      this.#again = true;
      return;
    }
    const pause = this.#pausedUntil - Date.now();
    if (pause > 0) return this.#wakeIn(pause);
    // Now and then also while the known queues never run dry, so that a new one does not starve.
    const look = this.#options.shares.everything && this.#newQueues &&
      Date.now() - this.#discoveredAt >= POLL;
    if (look) this.#discover(() => this.#pump());
    else this.#reserve(free);
  }

  #free(): number {
    return Math.min(this.#options.concurrency - this.#running.size, this.#options.maxJobs - this.#started);
  }

  #startWaiting(): void {
    while (this.#waiting.length > 0 && this.#free() > 0 && !this.#stopping) {
      const next = this.#waiting.shift()!;
      // Its lease ran out here, as after the process was suspended: whoever holds it now runs it.
      if (this.#leases.holds(next)) this.#start(next);
      else this.#leases.drop(next);
    }
  }

  // Reserving

  #reserve(limit: number): void {
    const { driver, retryAfter } = this.#parts;
    const now = Date.now();
    const prefetch = this.#adaptPrefetch(now);
    this.#reserving = true;
    this.#again = false;
    driver.reserve({
      queues: this.#options.shares.divide(limit + prefetch),
      limit,
      prefetch,
      now: null,
      retryAfter,
    }).then(
      ({ jobs, nextIn, newQueues }) => {
        this.#reserving = false;
        this.#failures = 0;
        this.#newQueues = newQueues !== false;
        for (const job of jobs) this.#leases.hold(job, now);
        this.#waiting.push(...jobs);
        if (this.#stopping) return this.#handBackWaiting();
        this.#startWaiting();
        if (this.#again || jobs.length >= limit) this.#pump();
        else this.#rest(nextIn, jobs.length);
      },
      (error) => {
        this.#reserving = false;
        this.#backOff(error);
      },
    );
  }

  /** Doubles while a batch drains quickly and halves otherwise, from 8 up to the option's bound. */
  #adaptPrefetch(now: number): number {
    const most = Math.min(this.#options.prefetch, this.#options.maxJobs - this.#started - 1);
    const quick = now - this.#batchAt < QUICK_BATCH;
    this.#batchAt = now;
    this.#ahead = quick ? Math.max(8, this.#ahead * 2) : Math.floor(this.#ahead / 2);
    this.#ahead = Math.max(0, Math.min(most, this.#ahead));
    return this.#ahead;
  }

  /** Fewer jobs came than there are slots: waits for the bell, the next due time, or the poll. */
  #rest(nextIn: number | null, got: number): void {
    this.#wakeIn(Math.min(POLL, nextIn ?? POLL));
    this.#listener?.rest();
    if (got > 0) return;
    if (!this.#options.shares.everything || !this.#newQueues) return this.#maybeEmpty();
    this.#discover((added) => added || this.#again || this.#stopping ? this.#pump() : this.#maybeEmpty());
  }

  /** Looks for queues that this worker has not met. */
  #discover(then: (added: boolean) => void): void {
    this.#reserving = true;
    this.#discoveredAt = Date.now();
    this.#parts.driver.queues().then(
      (names) => {
        this.#reserving = false;
        then(this.#options.shares.discover(names));
      },
      (error) => {
        this.#reserving = false;
        this.#backOff(error);
      },
    );
  }

  #maybeEmpty(): void {
    if (this.#options.stopWhenEmpty && this.#running.size === 0 && this.#settling === 0) this.stop();
  }

  #wakeIn(delay: number): void {
    this.#cancelWake?.();
    this.#cancelWake = after(Math.max(1, Math.ceil(delay)), () => this.#pump());
  }

  /** A store error never ends a worker. */
  #backOff(error: unknown): void {
    this.#parts.log.error((error as Error).message);
    this.#pausedUntil = Date.now() + waitAfter(this.#failures++);
    this.#pump();
  }

  // Running

  #start(held: Reservation): void {
    const { types, tries, backoff, driver } = this.#parts;
    const type = types.get(held.name);
    const attempt = new Attempt(held, type, type?.tries ?? tries, driver.database);
    this.#started++;
    this.#running.add(attempt);
    this.#last = attempt;
    this.#lastAt = Date.now();
    this.#leases.started(attempt);
    this.#emit("started", attempt);
    const startedAt = performance.now();
    attempt.run(type?.backoff ?? backoff).then((outcome) => {
      const duration = performance.now() - startedAt;
      // The slot first: what is scheduled before the settlement can share its transaction.
      if (attempt.overrun === null) this.#ended(attempt);
      else attempt.overrun.then(() => this.#ended(attempt));
      if (!this.#forced) this.#settle(attempt, outcome, duration);
    });
  }

  /** Frees the slot. Handlers that end in the same turn are refilled by one reservation. */
  #ended(attempt: Attempt): void {
    this.#running.delete(attempt);
    if (this.#refilling) return;
    this.#refilling = true;
    setImmediate(() => {
      this.#refilling = false;
      if (this.#started >= this.#options.maxJobs && this.#running.size === 0) this.stop();
      else this.#pump();
    });
  }

  #suspects(): Attempt[] {
    if (this.#running.size > 0) return [...this.#running];
    return this.#last !== null && Date.now() - this.#lastAt < SUSPECT ? [this.#last] : [];
  }

  // Settling

  async #settle(attempt: Attempt, outcome: Outcome, duration: number): Promise<void> {
    const { held } = attempt;
    this.#settling++;
    // Held until the outcome is stored, however long the store fails.
    this.#leases.finished(held);
    logOutcome(this.#parts.log, held, outcome);
    for (let failures = 0;; failures++) {
      try {
        const stored = await settle(this.#parts.driver, held, outcome, null);
        if (stored) this.#emit(EVENTS[outcome.verdict], attempt, duration, outcome);
        else this.#lost(attempt, duration);
        break;
      } catch (error) {
        if (!this.#mayTryAgain()) {
          this.#parts.log.error(
            `${(error as Error).message} (the outcome of ${label(held)} was not stored: it will run again)`,
          );
          break;
        }
        if (failures === 0) {
          this.#parts.log.error(`${(error as Error).message} (while storing the outcome of ${label(held)})`);
        }
        await new Promise<void>((resolve) => after(waitAfter(failures), resolve));
      }
    }
    this.#leases.drop(held);
    this.#settling--;
    if (this.#stopping) this.#finish();
    else if (this.#options.stopWhenEmpty) this.#pump();
  }

  #mayTryAgain(): boolean {
    return !this.#stopping || (!this.#forced && Date.now() - this.#stoppedAt < SETTLE_DEADLINE);
  }

  #lost(attempt: Attempt, duration: number): void {
    this.#parts.log.warn(
      `queue: ${
        label(attempt.held)
      } lost its lease during attempt ${attempt.attempt}: the outcome was not stored`,
    );
    this.#emit("lost", attempt, duration);
  }

  #emit(type: WorkEvent["type"], attempt: Attempt, duration?: number, outcome?: Outcome): void {
    const { onEvent } = this.#options;
    if (onEvent === undefined) return;
    const { id, name, queue, attempt: number, tries } = attempt;
    const event: WorkEvent = {
      type,
      job: { id, name, queue, attempt: number, tries },
      ...(duration === undefined ? {} : { duration }),
      ...(outcome === undefined || outcome.verdict === "complete" ? {} : { error: outcome.problem }),
      ...(outcome?.verdict === "release" ? { retryIn: outcome.retryIn } : {}),
    };
    try {
      onEvent(event);
    } catch (error) {
      this.#parts.log.error(`queue: a listener of ${type} events threw: ${error}`);
    }
  }

  // Stopping

  /** Reserves no more; `run` resolves once what runs has finished and is settled. */
  stop(): void {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#stoppedAt = Date.now();
    this.#cancelWake?.();
    this.#handBackWaiting();
  }

  /** Aborts what runs and gives everything back, without spending the attempts. */
  #force(): void {
    if (this.#forced) return;
    this.#forced = true;
    this.#settling++;
    this.stop();
    const reason = new QueueError("STOPPED", "the worker was told to stop at once");
    for (const attempt of this.#running) {
      attempt.abort(reason);
      this.#handBack(attempt.held);
    }
    // Where the store does not answer, the leases end by themselves.
    this.#cancelForce = after(FORCE_DEADLINE, () => this.#done());
    this.#settling--;
    this.#finish();
  }

  #handBackWaiting(): void {
    for (const held of this.#waiting.splice(0)) this.#handBack(held);
    this.#finish();
  }

  async #handBack(held: Reservation): Promise<void> {
    this.#settling++;
    this.#leases.drop(held);
    try {
      await this.#parts.driver.release(held, { delay: null, counted: false }, null);
    } catch (error) {
      // Its lease ends by itself; only the attempt stays counted.
      this.#parts.log.error(`${(error as Error).message} (while handing back ${label(held)})`);
    }
    this.#settling--;
    this.#finish();
  }

  #finish(): void {
    const idle = this.#forced || (this.#running.size === 0 && !this.#refilling);
    if (this.#stopping && idle && !this.#reserving && this.#settling === 0) this.#done();
  }
}

const EVENTS = { complete: "completed", release: "released", fail: "failed" } as const;

/**
 * Runs the next job that is due at `now`, if there is one. Settles at that same `now`, so that a test with a clock of
 * its own sees exact backoffs.
 */
export async function runOnce(parts: WorkerParts, shares: Shares, now: Moment): Promise<boolean> {
  const { driver, types, tries, backoff, retryAfter, log } = parts;
  const next = () => driver.reserve({ queues: shares.divide(1), limit: 1, prefetch: 0, now, retryAfter });
  let [held] = (await next()).jobs;
  if (held === undefined && shares.everything && shares.discover(await driver.queues())) {
    [held] = (await next()).jobs;
  }
  if (held === undefined) return false;
  const type = types.get(held.name);
  const attempt = new Attempt(held, type, type?.tries ?? tries, driver.database);
  const began = performance.now();
  const passed = () => performance.now() - began;
  const leases = new LeaseKeeper(driver, retryAfter, passed, () => now === null ? null : now + passed(), log);
  leases.hold(held, 0);
  leases.started(attempt);
  const trust = watchStrays({ log, suspects: () => [attempt] });
  try {
    const outcome = await attempt.run(type?.backoff ?? backoff);
    leases.finished(held);
    logOutcome(log, held, outcome);
    if (!await settle(driver, held, outcome, now)) {
      log.warn(
        `queue: ${label(held)} lost its lease during attempt ${held.attempt}: the outcome was not stored`,
      );
    }
    return true;
  } finally {
    leases.close();
    trust();
  }
}

/** The original's two lines. */
function logOutcome(log: Log, held: Reservation, outcome: Outcome): void {
  if (outcome.verdict === "release") {
    log.warn(`queue: job ${held.name} failed (attempt ${held.attempt}), retrying: ${outcome.problem}`);
  } else if (outcome.verdict === "fail") {
    log.error(`queue: job ${held.name} failed after ${held.attempt} attempts: ${outcome.problem}`);
  }
}

function settle(driver: Driver, held: Reservation, outcome: Outcome, now: Moment): Promise<boolean> {
  switch (outcome.verdict) {
    case "complete":
      return driver.complete(held);
    case "release":
      return driver.release(held, { delay: outcome.retryIn, counted: true }, now);
    case "fail":
      return driver.fail(held, { error: outcome.problem, stack: outcome.stack, failedAt: now ?? Date.now() });
  }
}

function label(held: Reservation): string {
  return `job ${held.name} (id ${held.id})`;
}

/** The wait after the nth store error in a row, in milliseconds. */
function waitAfter(failures: number): number {
  return Math.min(BACK_OFF[0] * 2 ** failures, BACK_OFF[1]);
}
