/**
 * The worker: reserves jobs into free slots, runs them, settles them, and stops when told to.
 *
 * It is driven by events, not by a loop: a finished job, the bell, a due time and the poll each lead to `#pump`,
 * which asks the driver for as many jobs as there are free slots. What a turn settles and what it reserves go to the
 * driver in the same turn, so that they can share a transaction.
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { setImmediate } from "node:timers";
import type { Attempt, FailedOutcome, Outcome } from "./attempt.ts";
import { Bag, type Bagged } from "./bag.ts";
import { ControlKeeper, type ControlParts } from "./controls.ts";
import { describe, oneLine } from "./describe.ts";
import type { AttemptRecord, Driver, Listener, Moment, Reservation, Settlement } from "./driver.ts";
import { QueueError } from "./errors.ts";
import {
  announce,
  announceReserved,
  announceStoreFailed,
  announceUnstarted,
  type Audience,
  type Listeners,
  SETTLED,
  type WorkEvent,
} from "./events.ts";
import { instant, type Lease, LeaseKeeper } from "./lease.ts";
import type { Log } from "./log.ts";
import { Presence, type Running } from "./presence.ts";
import { recordOf } from "./record.ts";
import type { Shares } from "./shares.ts";
import { Countdown } from "./stopping.ts";
import type { Telemetry } from "./telemetry.ts";
import { Suspects, watchStrays } from "./strays.ts";
import { after } from "./timer.ts";

/** How many more handlers may start, where those run in other processes. */
export interface Slots {
  /** How many now. */
  readonly free: number;
  /** Whether there will be none for a while: what was reserved and has not started is better off elsewhere. */
  readonly stalled: boolean;
  /** Called when either changes. */
  onChange: (() => void) | null;
}

/** What a worker works with. Who makes its attempts, and where their handlers run, is not the worker's affair. */
export interface WorkerParts extends ControlParts {
  /** Left out where only `concurrency` limits how many run. */
  readonly slots?: Slots;
  /** The job types that have a handler. */
  readonly names: () => readonly string[];
  /** Hears of what workers do. */
  readonly events: Listeners;
  /** What traces attempts at this time; `null` where nobody does. */
  readonly telemetry: () => Telemetry | null;
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
  /** How long running jobs may take after a stop, in milliseconds. */
  readonly grace: number;
  /** Stops reserving; running jobs have the grace. */
  readonly signal?: AbortSignal;
  /** Stops at once: running jobs are aborted and handed back. */
  readonly forceSignal?: AbortSignal;
  readonly onEvent?: (event: WorkEvent) => unknown;
  readonly logFailures: boolean;
  /** Whether it ends when the workers of the store are told to restart. */
  readonly restarts: boolean;
}

/** How long an idle worker goes without looking, whatever the bell says, in milliseconds. */
const POLL = 1000;

/** The first and the longest wait after a store error, in milliseconds. */
const BACK_OFF = [100, 10_000];

/**
 * How many handlers are started in one turn, where the store can bring the next ones meanwhile: with short jobs, store and
 * worker are busy at the same time.
 */
const SLICE = 16;

/** How long jobs may start one after another in one turn of the event loop, in milliseconds: others wait for theirs. */
const BURST = 5;

/** How much work to prefetch, in milliseconds, judged by how long the last handlers took. */
const AHEAD = 10;

/** How long a stopping worker goes on trying to store outcomes while the store fails, in milliseconds. */
const SETTLE_DEADLINE = 10_000;

/** How long one that ends when nothing is due goes on while the store does not say what is, in milliseconds. */
const EMPTY_DEADLINE = 30_000;

/** Runs jobs until it is stopped. */
export class Worker {
  readonly #parts: WorkerParts;
  readonly #options: WorkerOptions;
  readonly #leases: LeaseKeeper;
  readonly #overlap: number;
  readonly #audience: Audience;
  readonly #countdown: Countdown;
  readonly #controls: ControlKeeper;
  readonly #presence: Presence;
  readonly #running = new Bag<Run>();
  /** Those whose `failed` hook runs: they take a slot, too. */
  readonly #hooks = new Set<Attempt>();
  /** Reserved, waiting for a slot. */
  readonly #waiting: Lease[] = [];
  #settling = 0;
  /** Whether what follows from settlements is about to be done. */
  #following = false;
  readonly #bookkeeping: Bookkeeping = {
    settled: (end, stored) => {
      const { events, onEvent } = this.#audience;
      // A driver tells of it in the context of whoever asked it for something first.
      if (stored && events.quiet && events.meters.length === 0 && onEvent === undefined) this.#forget(end);
      else this.#outside(() => this.#settled(end, stored));
      this.#afterSettlingMany();
    },
    failed: (end, error) =>
      this.#outside(() => {
        const { run: { attempt: { held } }, outcome } = end;
        const store = () => settle(this.#parts.driver, held, outcome, undefined, null);
        this.#settleOne(end, store, () => Promise.reject(error));
      }),
  };
  /** End the waits of outcomes that the store refused. */
  readonly #settlingWaits = new Set<() => void>();
  #started = 0;
  /** How many calls of `reserve` are under way, and for how many jobs. */
  #reserving = 0;
  #asked = 0;
  #discovering = false;
  #refilling = false;
  /** How many more jobs may start in this turn of the event loop as others end, and until when. */
  #burst = 0;
  #burstEnds = -Infinity;
  #again = false;
  #stopping = false;
  /** Since when, in milliseconds of `performance.now()`. */
  #stoppedAt = Infinity;
  /** Why what runs was aborted by a stop. */
  #aborted: QueueError | null = null;
  #forced = false;
  /** After a store error: nothing is asked of the store until the wait is over. */
  #paused = false;
  #cancelWake: (() => void) | null = null;
  #failures = 0;
  /** Since when the store has failed, in milliseconds of `performance.now()`. */
  #failingSince = Infinity;
  /** Why it ends without knowing whether all is done. */
  #fault: QueueError | null = null;
  /** How long handlers take, in milliseconds: a mean in which the last ones weigh most. */
  #pace = Infinity;
  #ahead = 0;
  #discoveredAt = -Infinity;
  /** Whether the store may have queues that `queues()` did not name last time. */
  #newQueues = true;
  #listener: Listener | null = null;
  readonly #suspects = new Suspects();
  #done!: () => void;
  /** Settles when a stop waits for nothing any more. */
  #giveUp!: () => void;
  readonly #over: Promise<void> = new Promise((resolve) => this.#giveUp = resolve);
  /** Runs what a dispatch or another job set off outside of their async contexts, which are not those of the next job. */
  readonly #outside: <Result>(run: () => Result) => Result = AsyncLocalStorage.snapshot();

  constructor(parts: WorkerParts, options: WorkerOptions) {
    this.#parts = parts;
    this.#options = options;
    this.#overlap = parts.driver.overlap ?? 1;
    this.#leases = new LeaseKeeper(
      parts.driver,
      parts.retryAfter,
      () => null,
      parts.log,
      (error) => announceStoreFailed(parts.events, "extend", error),
    );
    this.#audience = { events: parts.events, onEvent: options.onEvent, log: parts.log };
    this.#controls = new ControlKeeper(parts, () => this.#restart());
    this.#presence = new Presence({
      driver: parts.driver,
      log: parts.log,
      concurrency: options.concurrency,
      queues: options.shares.names,
      names: parts.names,
      running: () => this.#running.items,
      busy: () => this.#running.size + this.#hooks.size,
      isFailing: () => this.#paused || this.#failures > 0,
    });
    this.#countdown = new Countdown(options.grace, {
      abort: (reason, late) => this.#abortRunning(reason, late),
      force: () => this.#handBackRunning(),
      over: () => {
        this.#giveUp();
        this.#done();
      },
    });
  }

  /**
   * Works until a signal or a limit stops it and what it holds is settled.
   *
   * @throws {QueueError} Where it is to stop when nothing is due, and the store does not say what is.
   */
  async run(): Promise<void> {
    const { signal, forceSignal, maxTime } = this.#options;
    const { slots } = this.#parts;
    const finished = new Promise<void>((resolve) => this.#done = resolve);
    const stop = () => this.stop();
    const force = () => this.#force();
    const cancelTime = maxTime === null ? () => {} : after(maxTime, () => this.#leave());
    const ignoreStrays = watchStrays({
      log: this.#parts.log,
      suspects: () => this.#suspects.with(this.#running.items.map(({ attempt }) => attempt.job)),
    });
    const { events } = this.#parts;
    const { concurrency } = this.#options;
    if (events.has("workerStarted")) events.emit({ type: "workerStarted", concurrency });
    try {
      this.#listener = this.#parts.driver.listen(() => this.#outside(() => this.#hear()));
      if (slots !== undefined) slots.onChange = () => this.#outside(() => this.#slotsChanged());
      signal?.addEventListener("abort", stop);
      forceSignal?.addEventListener("abort", force);
      if (forceSignal?.aborted) force();
      else if (signal?.aborted) stop();
      else {
        this.#presence.begin();
        this.#pump();
      }
      await finished;
    } finally {
      signal?.removeEventListener("abort", stop);
      forceSignal?.removeEventListener("abort", force);
      cancelTime();
      this.#cancelWake?.();
      this.#leases.close();
      this.#controls.close();
      this.#listener?.close();
      if (slots !== undefined) slots.onChange = null;
      ignoreStrays();
      await this.#presence.leave(this.#over);
      this.#countdown.cancel();
      if (events.has("workerStopped")) {
        events.emit({ type: "workerStopped", concurrency, jobs: this.#started });
      }
    }
    if (this.#fault !== null) throw this.#fault;
  }

  #slotsChanged(): void {
    if (this.#parts.slots?.stalled) this.#handBackWaiting();
    this.#pump();
  }

  /** The bell rang: whether this worker looks for jobs now. */
  #hear(): boolean {
    if (this.#stopping || this.#paused || this.#free() <= 0 || this.#waiting.length > 0) return false;
    this.#pump();
    return true;
  }

  #pump(): void {
    if (!this.#paused) this.#cancelWake?.();
    this.#startWaiting();
    if (this.#stopping) return this.#finish();
    if (this.#free() <= 0) return;
    const free = this.#free() - this.#asked - this.#waiting.length;
    if (free <= 0 || this.#discovering || this.#reserving >= this.#overlap) {
      this.#again = true;
      return;
    }
    if (this.#paused) return;
    // Now and then also while the known queues never run dry, so that a new one does not starve.
    const look = this.#options.shares.everything && this.#newQueues &&
      performance.now() - this.#discoveredAt >= POLL;
    if (look) this.#discover(() => this.#pump());
    else this.#reserve(free);
  }

  /** How many more may run; less than none where hooks took slots that were given away meanwhile. */
  #free(): number {
    const { concurrency, maxJobs } = this.#options;
    const taken = this.#running.size + this.#hooks.size;
    const slots = this.#parts.slots?.free ?? Infinity;
    return Math.min(concurrency - taken, maxJobs - this.#started, slots);
  }

  #startWaiting(): void {
    let most = this.#overlap > 1 ? SLICE : Infinity;
    while (this.#waiting.length > 0 && this.#free() > 0 && !this.#stopping) {
      if (most-- === 0) {
        setImmediate(() => this.#pump());
        return;
      }
      this.#startNext();
    }
  }

  #startNext(): void {
    const next = this.#waiting.shift()!;
    const now = instant();
    if (this.#leases.holds(next, now)) this.#start(next, now.monotonic);
    // Its lease ran out here, as after the process was suspended. Where nobody took it meanwhile, it was not run.
    else this.#handBack(next);
  }

  // Reserving

  #reserve(limit: number): void {
    const { driver, retryAfter } = this.#parts;
    const { shares } = this.#options;
    const since = instant();
    const prefetch = this.#reserving > 0 ? 0 : this.#adaptPrefetch(limit);
    this.#reserving++;
    this.#asked += limit;
    this.#again = false;
    this.#leases.catchUp();
    const queues = shares.divide(limit + prefetch);
    driver.reserve({
      queues,
      limit,
      prefetch,
      now: null,
      retryAfter,
      ...this.#parts.telemetry() === null ? {} : TRACED,
    }).then(
      ({ jobs, nextIn, newQueues, restarts }) => {
        this.#reserving--;
        this.#asked -= limit;
        this.#failures = 0;
        this.#newQueues = newQueues !== false;
        shares.took(queues, jobs);
        for (const job of jobs) this.#waiting.push(this.#leases.hold(job, since));
        announceReserved(this.#audience, jobs);
        this.#controls.heard(restarts);
        if (this.#stopping) return this.#handBackWaiting();
        this.#startWaiting();
        if (this.#again || jobs.length >= limit) this.#pump();
        else this.#rest(nextIn, jobs.length);
      },
      (error) => {
        this.#reserving--;
        this.#asked -= limit;
        shares.forget(queues);
        this.#backOff(error);
      },
    );
  }

  /** As many as run in a moment, at the pace of the last handlers; at most double what it was. */
  #adaptPrefetch(limit: number): number {
    const { prefetch, concurrency, maxJobs } = this.#options;
    const most = Math.min(prefetch, maxJobs - this.#started - limit, Math.max(8, this.#ahead * 2));
    this.#ahead = Math.max(0, Math.min(most, Math.floor(AHEAD * concurrency / this.#pace)));
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
    this.#discovering = true;
    this.#discoveredAt = performance.now();
    this.#parts.driver.queues().then(
      (names) => {
        this.#discovering = false;
        then(this.#options.shares.discover(names));
      },
      (error) => {
        this.#discovering = false;
        this.#backOff(error);
      },
    );
  }

  #maybeEmpty(): void {
    const busy = this.#running.size + this.#hooks.size + this.#settling + this.#reserving > 0;
    if (this.#options.stopWhenEmpty && !busy) this.#leave();
  }

  #wakeIn(delay: number): void {
    // After an error of another reservation that was under way: that wait is the next to end, and goes on.
    if (this.#paused) return;
    this.#cancelWake?.();
    this.#cancelWake = after(Math.max(1, Math.ceil(delay)), () => this.#pump());
  }

  /** A store error never ends a worker; a store that was closed for good does. */
  #backOff(error: unknown): void {
    if (!this.#paused) this.#parts.log.error(describe(error));
    announceStoreFailed(this.#parts.events, "reserve", error);
    if (isClosed(error)) {
      this.stop();
      return this.#finish();
    }
    if (this.#failures === 0) this.#failingSince = performance.now();
    this.#endUnknowing(this.#failingSince, error);
    // Of several that were under way, the first one has told of it.
    if (this.#paused) {
      if (this.#stopping) this.#finish();
      return;
    }
    this.#paused = true;
    this.#cancelWake?.();
    this.#cancelWake = after(waitAfter(this.#failures++), () => this.#resume());
    if (this.#stopping) this.#finish();
  }

  /** Whoever waits for the end of a worker that stops when nothing is due waits no longer for a store that fails. */
  #endUnknowing(failingSince: number, cause: unknown): void {
    if (!this.#options.stopWhenEmpty || isClosed(cause)) return;
    if (performance.now() - failingSince < EMPTY_DEADLINE) return;
    const code = cause instanceof QueueError ? cause.code : "DB";
    const said = describe(cause).replace(/^queue: /, "");
    const why = `the store has failed for ${EMPTY_DEADLINE / 1000} s, so whether a job is due is not known`;
    this.#fault ??= new QueueError(code, `${why}: ${said}`, { cause });
    this.stop();
  }

  #resume(): void {
    this.#paused = false;
    this.#pump();
  }

  // Running

  #start(lease: Lease, startedAt: number): void {
    const attempt = this.#controls.attempt(lease.reservation);
    const run: Run = { attempt, lease, startedAt, place: 0 };
    lease.attempt = attempt;
    this.#started++;
    this.#running.add(run);
    this.#presence.began();
    this.#suspects.began(attempt.job, startedAt);
    if (attempt.runs) announce(this.#audience, "started", attempt);
    this.#outside(() => runTraced(attempt, this.#parts)).then((outcome) => {
      const duration = performance.now() - startedAt;
      this.#pace = this.#pace === Infinity ? duration : this.#pace + (duration - this.#pace) / 8;
      // The slot first: what is scheduled before the settlement can share its transaction.
      if (attempt.overrun === null) this.#ended(run);
      else attempt.overrun.then(() => this.#ended(run));
      // Handed back already: what the handler does counts for nothing.
      if (this.#forced) return;
      const stopped = outcome.verdict === "handBack" && outcome.problem === undefined;
      if (stopped) this.#handBack(lease, attempt, duration);
      else if (outcome.verdict === "complete") this.#complete(run, outcome, duration);
      else this.#settle({ run, outcome, duration });
      this.#startAnother(startedAt + duration);
    });
  }

  /** With short jobs that were prefetched, one turn of the event loop, and one message to the store, does for many. */
  #startAnother(now: number): void {
    if (this.#waiting.length === 0 || this.#burst <= 0 || now >= this.#burstEnds) return;
    this.#burst--;
    if (this.#free() > 0 && !this.#stopping) this.#startNext();
  }

  /** Frees the slot. Handlers that end in the same turn are refilled by one reservation. */
  #ended(run: Run): void {
    this.#running.delete(run);
    this.#suspects.ended(run.attempt.job);
    this.#presence.ended();
    if (this.#refilling) return;
    this.#refilling = true;
    this.#burst = SLICE;
    this.#burstEnds = performance.now() + BURST;
    setImmediate(() => {
      this.#refilling = false;
      const enough = this.#started >= this.#options.maxJobs && this.#running.size === 0;
      if (enough && !this.#stopping) this.#leave();
      else this.#pump();
    });
  }

  // Settling

  /** Most jobs end so. */
  #complete(run: Run, outcome: Outcome, duration: number): void {
    const { driver } = this.#parts;
    if (driver.completeFor === undefined) return this.#settle({ run, outcome, duration });
    this.#settling++;
    this.#leases.finished(run.lease);
    const done = new Done(run, outcome, duration, this.#bookkeeping);
    try {
      driver.completeFor(run.lease.reservation, done);
    } catch (error) {
      done.failed(error);
    }
  }

  #settle(end: End): void {
    const { run: { attempt: { held }, lease }, outcome, duration } = end;
    this.#settling++;
    // Held until the outcome is stored, however long the store fails.
    this.#leases.finished(lease);
    if (this.#options.logFailures) logOutcome(this.#parts.log, held, outcome);
    const record = recordOf(held, outcome, duration, null);
    this.#settleOne(end, () => settle(this.#parts.driver, held, outcome, record, null));
  }

  /** Tries again until the outcome is stored. @param first The first try, where that was another. */
  async #settleOne(
    end: End,
    store: () => Promise<boolean>,
    first: () => Promise<boolean> = store,
  ): Promise<void> {
    const { held } = end.run.attempt;
    let failingSince = Infinity;
    let stored: boolean | null = null;
    for (let failures = 0; stored === null; failures++) {
      try {
        stored = await (failures === 0 ? first : store)();
      } catch (error) {
        announceStoreFailed(this.#parts.events, "settle", error);
        failingSince = Math.min(failingSince, performance.now());
        this.#endUnknowing(failingSince, error);
        if (!isClosed(error) && !this.#givesUp(failingSince)) {
          if (failures === 0) {
            this.#parts.log.error(`${describe(error)} (while storing the outcome of ${label(held)})`);
          }
          await this.#waitToSettle(waitAfter(failures));
          if (!this.#forced) continue;
        }
        this.#parts.log.error(
          `${describe(error)} (the outcome of ${label(held)} was not stored: it will run again)`,
        );
        break;
      }
    }
    this.#settled(end, stored);
    this.#afterSettling();
  }

  /** @param stored Whether its outcome was; `null` where that is not known. */
  #settled(end: End, stored: boolean | null): void {
    const { run: { attempt }, outcome, duration } = end;
    try {
      if (stored === true) this.#stored(attempt, duration, outcome);
      else if (stored === false) this.#lost(attempt, duration);
    } catch (error) {
      // Of what counts or logs: it must hold up neither this job nor those that a driver tells of after it.
      this.#parts.log.error(`${describe(error)} (while telling of the end of ${label(attempt.held)})`);
    }
    this.#forget(end);
  }

  #forget({ run: { lease } }: End): void {
    this.#leases.drop(lease);
    this.#settling--;
  }

  /** Once for all that a driver tells at a time, and when it is done with that. */
  #afterSettlingMany(): void {
    if (this.#following) return;
    this.#following = true;
    this.#outside(() =>
      queueMicrotask(() => {
        this.#following = false;
        this.#afterSettling();
      })
    );
  }

  #afterSettling(): void {
    if (this.#stopping) this.#finish();
    else if (this.#options.stopWhenEmpty) this.#pump();
  }

  /** Whether a worker that stops has tried for long enough to store an outcome. */
  #givesUp(failingSince: number): boolean {
    return this.#forced ||
      this.#stopping && performance.now() - Math.max(this.#stoppedAt, failingSince) >= SETTLE_DEADLINE;
  }

  /** Waits before the next try, unless the stop is forced meanwhile. */
  #waitToSettle(delay: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        cancel();
        this.#settlingWaits.delete(end);
        resolve();
      };
      const cancel = after(delay, end);
      this.#settlingWaits.add(end);
    });
  }

  #stored(attempt: Attempt, duration: number, outcome: Outcome): void {
    announce(this.#audience, SETTLED[outcome.verdict], attempt, duration, outcome);
    if (outcome.verdict === "fail") this.#runHook(attempt, outcome);
  }

  #lost(attempt: Attempt, duration?: number): void {
    this.#parts.log.warn(lostLine(attempt.held));
    announce(this.#audience, "lost", attempt, duration);
  }

  #runHook(attempt: Attempt, outcome: FailedOutcome): void {
    const running = this.#outside(() => runHook(attempt, outcome, this.#parts));
    if (running === null) return;
    this.#hooks.add(attempt);
    // It began after the grace: it has the rest of the time that is given to react.
    if (this.#aborted !== null) attempt.abort(this.#aborted);
    running.then(() => {
      this.#hooks.delete(attempt);
      this.#pump();
    });
  }

  // Stopping

  /** Reserves no more; `run` resolves once what runs has finished and is settled, or was handed back after the grace. */
  stop(): void {
    this.#countdown.begin();
    this.#leave();
  }

  /** Reserves no more; what runs may take as long as it does. */
  #leave(): void {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#stoppedAt = performance.now();
    this.#cancelWake?.();
    this.#handBackWaiting();
  }

  /** The store tells its workers to restart: whoever started this one starts the next. */
  #restart(): void {
    if (!this.#options.restarts || this.#stopping) return;
    this.#parts.log.warn("queue: told to restart: ending after the running jobs");
    this.stop();
  }

  /** Aborts what runs and gives everything back, without spending the attempts. */
  #force(): void {
    this.#countdown.force();
  }

  #abortRunning(reason: QueueError, late: boolean): void {
    this.#aborted = reason;
    const { size, items } = this.#running;
    if (late && size > 0) {
      this.#parts.log.warn(`${reason.message}: ${size === 1 ? "1 job is" : `${size} jobs are`} aborted`);
    }
    for (const attempt of [...items.map(({ attempt }) => attempt), ...this.#hooks]) attempt.abort(reason);
  }

  #handBackRunning(): void {
    this.#forced = true;
    this.#settling++;
    this.#leave();
    for (const end of this.#settlingWaits) end();
    const now = performance.now();
    for (const run of [...this.#running.items]) {
      // One that outlived its timeout was settled then.
      if (run.attempt.overrun === null) this.#handBack(run.lease, run.attempt, now - run.startedAt);
    }
    this.#settling--;
    this.#finish();
  }

  #handBackWaiting(): void {
    for (const lease of this.#waiting.splice(0)) this.#handBack(lease);
    this.#finish();
  }

  async #handBack(lease: Lease, attempt?: Attempt, duration?: number): Promise<void> {
    const { reservation: held } = lease;
    this.#settling++;
    this.#leases.drop(lease);
    try {
      const done = await settle(this.#parts.driver, held, { verdict: "handBack" }, undefined, null);
      if (attempt === undefined) { if (done) announceUnstarted(this.#audience, held); }
      else if (done) announce(this.#audience, "handedBack", attempt, duration);
      else this.#lost(attempt, duration);
    } catch (error) {
      // Its lease ends by itself; only the attempt stays counted.
      announceStoreFailed(this.#parts.events, "settle", error);
      this.#parts.log.error(`${describe(error)} (while handing back ${label(held)})`);
    }
    this.#settling--;
    this.#finish();
  }

  #finish(): void {
    const idle = this.#forced || (this.#running.size === 0 && this.#hooks.size === 0 && !this.#refilling);
    const asking = this.#discovering || this.#reserving > 0;
    if (this.#stopping && idle && !asking && this.#settling === 0) this.#done();
  }
}

/** An attempt that runs. */
interface Run extends Running, Bagged {
  readonly lease: Lease;
}

/** How an attempt ended. */
interface End {
  readonly run: Run;
  readonly outcome: Outcome;
  /** How long it ran, in milliseconds. */
  readonly duration: number;
}

/** What settlements need of their worker. */
interface Bookkeeping {
  settled(end: End, stored: boolean): void;
  failed(end: End, error: unknown): void;
}

/** The end of a job that is done. */
class Done implements End, Settlement {
  readonly run: Run;
  readonly outcome: Outcome;
  readonly duration: number;
  readonly #bookkeeping: Bookkeeping;

  constructor(run: Run, outcome: Outcome, duration: number, bookkeeping: Bookkeeping) {
    this.run = run;
    this.outcome = outcome;
    this.duration = duration;
    this.#bookkeeping = bookkeeping;
  }

  stored(done: boolean): void {
    this.#bookkeeping.settled(this, done);
  }

  failed(error: unknown): void {
    this.#bookkeeping.failed(this, error);
  }
}

/** Asks for the traces of jobs. */
const TRACED = { traces: true } as const;

/** Runs an attempt, within its span where somebody traces. Never rejects. */
function runTraced(attempt: Attempt, { telemetry }: WorkerParts): Promise<Outcome> {
  const traced = telemetry();
  if (traced === null || !attempt.runs) return attempt.run();
  const { id, name, queue, attempt: number, tries } = attempt.job;
  return traced.attempt(
    { id, name, queue, attempt: number, tries, trace: attempt.held.trace },
    () => attempt.run(),
  );
}

/** Runs the job type's `failed` hook; `null` where it has none. Never rejects. */
function runHook(
  attempt: Attempt,
  outcome: FailedOutcome,
  { driver, log }: WorkerParts,
): Promise<void> | null {
  const running = attempt.failed(outcome);
  if (running === null) return null;
  const giveBack = driver.lend?.(attempt.held);
  return running.catch((error) => {
    log.error(`queue: the failed hook of ${label(attempt.held)} threw: ${describe(error)}`);
  }).finally(giveBack);
}

/**
 * Runs the next job that is due at `now`, if there is one. Settles at that same `now`, so that a test with a clock of
 * its own sees exact backoffs.
 *
 * @param stop What begins a stop: as with a worker, the job then has the grace.
 */
export async function runOnce(
  parts: WorkerParts,
  shares: Shares,
  now: Moment,
  stop: { readonly signal: AbortSignal; readonly grace: number },
): Promise<boolean> {
  const { driver, retryAfter, log } = parts;
  const traced = parts.telemetry() === null ? {} : TRACED;
  const next = () =>
    driver.reserve({ queues: shares.divide(1), limit: 1, prefetch: 0, now, retryAfter, ...traced });
  let [held] = (await next()).jobs;
  if (held === undefined && shares.everything && shares.discover(await driver.queues())) {
    [held] = (await next()).jobs;
  }
  if (held === undefined) return false;
  const controls = new ControlKeeper(parts, () => {});
  announceReserved(parts, [held]);
  const attempt = controls.attempt(held);
  const since = instant();
  const moment = () => now === null ? null : now + performance.now() - since.monotonic;
  const leases = new LeaseKeeper(
    driver,
    retryAfter,
    moment,
    log,
    (error) => announceStoreFailed(parts.events, "extend", error),
  );
  const lease = leases.hold(held, since);
  lease.attempt = attempt;
  const ignoreStrays = watchStrays({ log, suspects: () => [attempt.job] });
  let force!: (outcome: Outcome) => void;
  let giveUp!: (late: true) => void;
  const forced = new Promise<Outcome>((resolve) => force = resolve);
  const over = new Promise<true>((resolve) => giveUp = resolve);
  const countdown = new Countdown(stop.grace, {
    abort: (reason) => attempt.abort(reason),
    force: () => force({ verdict: "handBack" }),
    over: () => giveUp(true),
  });
  const begin = () => countdown.begin();
  const run = async (): Promise<void> => {
    if (attempt.runs) announce(parts, "started", attempt);
    const outcome = await Promise.race([runTraced(attempt, parts), forced]);
    const duration = performance.now() - since.monotonic;
    leases.finished(lease);
    logOutcome(log, held, outcome);
    if (!await settle(driver, held, outcome, recordOf(held, outcome, duration, now), now)) {
      log.warn(lostLine(held));
      return announce(parts, "lost", attempt, duration);
    }
    announce(parts, SETTLED[outcome.verdict], attempt, duration, outcome);
    if (outcome.verdict === "fail") await Promise.race([runHook(attempt, outcome, parts), forced]);
  };
  try {
    stop.signal.addEventListener("abort", begin);
    if (stop.signal.aborted) begin();
    if (await Promise.race([run(), over])) {
      log.error(
        `queue: stopped before the outcome of ${label(held)} was stored: it runs again when its lease ends`,
      );
    }
    return true;
  } finally {
    controls.close();
    stop.signal.removeEventListener("abort", begin);
    countdown.cancel();
    leases.close();
    ignoreStrays();
  }
}

/** The original's two lines, and one for a job that its handler discarded. */
function logOutcome(log: Log, held: Reservation, outcome: Outcome): void {
  if (outcome.verdict !== "release" && outcome.verdict !== "fail") return;
  // A message of several lines must not pass for lines of ours.
  const problem = oneLine(outcome.problem);
  const name = oneLine(held.name);
  if (outcome.discarded) {
    log.error(`queue: job ${name} was discarded (attempt ${held.attempt}): ${problem}`);
  } else if (outcome.verdict === "release") {
    log.warn(`queue: job ${name} failed (attempt ${held.attempt}), retrying: ${problem}`);
  } else {
    log.error(`queue: job ${name} failed after ${held.attempt} attempts: ${problem}`);
  }
}

function settle(
  driver: Driver,
  held: Reservation,
  outcome: Outcome,
  record: AttemptRecord | undefined,
  now: Moment,
): Promise<boolean> {
  switch (outcome.verdict) {
    case "complete":
      return driver.complete(held);
    case "release":
      return driver.release(held, { delay: outcome.retryIn, counted: true, record }, now);
    case "snooze":
      return driver.release(held, { delay: outcome.retryIn, counted: false }, now);
    case "handBack":
      return driver.release(held, { delay: null, counted: false }, now);
    case "fail":
      return driver.fail(held, {
        error: outcome.problem,
        stack: outcome.stack,
        failedAt: now ?? Date.now(),
        record,
      });
  }
}

function lostLine(held: Reservation): string {
  return `queue: ${label(held)} lost its lease during attempt ${held.attempt}: the outcome was not stored`;
}

function isClosed(error: unknown): boolean {
  return error instanceof QueueError && error.code === "CLOSED";
}

function label(held: Reservation): string {
  return `job ${oneLine(held.name)} (id ${held.id})`;
}

/** The wait after the nth store error in a row, in milliseconds. */
function waitAfter(failures: number): number {
  return Math.min(BACK_OFF[0] * 2 ** failures, BACK_OFF[1]);
}
