/**
 * The queue, as an app sees it.
 *
 * @module
 */
import { resolve } from "node:path";
import { setImmediate } from "node:timers";
import { LocalAttempt } from "./attempt.ts";
import { type ClearOptions, clearWaiting } from "./clear.ts";
import {
  atLeastOne,
  type Environment,
  MOST_WORKERS,
  processEnvironment,
  readSettings,
  refuseUnknown,
  type SettingOptions,
  type Settings,
  wholeNumber,
} from "./config.ts";
import { describe } from "./describe.ts";
import type {
  Cancelled,
  DelayedJob,
  Driver,
  FailedFilter,
  FailedJob,
  Finding,
  KeyedJob,
  Moved,
  NewJob,
  Paused,
  Progress,
  QueueCounts,
  WorkerInfo,
} from "./driver.ts";
import { type Duration, toMilliseconds } from "./duration.ts";
import { QueueError } from "./errors.ts";
import {
  announceStoreFailed,
  Listeners,
  type QueueEvents,
  type QueueListener,
  type WorkEvent,
} from "./events.ts";
import { examine } from "./examine.ts";
import {
  countFailed,
  type FailedIds,
  type FailedPage,
  moveFailed,
  type MoveOptions,
  readFailed,
} from "./failed.ts";
import { findJob, type JobDetail } from "./find.ts";
import type { HandlersDatabase } from "./isolate/messages.ts";
import { planProcesses, type ProcessesOptions, type ProcessesPlan } from "./isolate/options.ts";
import type { Pool } from "./isolate/pool.ts";
import type { DataOf, Dispatched, DispatchOptions, Jobs } from "./job.ts";
import { type Log, safeLog } from "./log.ts";
import { encodePayload } from "./payload.ts";
import { checkPriority, checkQueue, DEFAULT_QUEUE, type JobType, readJobs } from "./registry.ts";
import { type QueueSelection, Shares } from "./shares.ts";
import { show } from "./show.ts";
import type { Meter, Telemetry } from "./telemetry.ts";
import { runOnce, Worker, type WorkerOptions, type WorkerParts } from "./worker.ts";

/** An open SQLite connection of the app's, by its shape. */
export interface DatabaseConnection {
  /** Compiles one statement. */
  prepare(sql: string): unknown;
  /** Runs SQL text. */
  exec(sql: string): unknown;
  /** Closes it: the app's to call. */
  close(): unknown;
}

/** What a {@linkcode Queue} is made of. All but `jobs` may be left out: the environment and the defaults fill in. */
export interface QueueOptions<J extends Jobs = Jobs> extends SettingOptions {
  /** The job types, by name. */
  jobs: J;
  /**
   * Where jobs are stored: a path (its folder is made), `":memory:"`, or the app's own open connection of
   * `node:sqlite`, `bun:sqlite`, `better-sqlite3` or `@db/sqlite`, which stays the app's to close. Default:
   * `DB_DATABASE`, or `storage/database.sqlite`.
   */
  database?: string | DatabaseConnection;
  /** A driver of your own, instead of the one that the settings choose. The queue closes it. */
  driver?: Driver;
  /** Where the queue's own lines go. Default: standard error, by `console`. */
  log?: Log;
  /** Read instead of the process's environment. */
  env?: Environment;
}

/** How {@linkcode Queue.work} works. */
export interface WorkOptions {
  /** Stops the worker: it reserves no more, and what runs has the `grace`. */
  signal?: AbortSignal;
  /** Stops it at once: the signals of running jobs are aborted, and the jobs handed back without spending an attempt. */
  forceSignal?: AbortSignal;
  /**
   * How long running jobs may take after a stop. Then their signals are aborted; a second later, those that still run
   * are handed back without spending an attempt, and the worker ends: 3 s after the grace at the latest, whatever the
   * store does; its `processes`, where it has some, 3 s later. Default: `QUEUE_GRACE`, or 30 s.
   */
  grace?: Duration;
  /** How many jobs run at a time, 1 to 10,000. Default: 1, or one in each of the `processes`. */
  concurrency?: number;
  /**
   * Runs the handlers in child processes, which use several cores, and can be killed: a handler that does not end when
   * its `timeout` aborts it, or that crashes its process, costs that job and no other. Default: in this process.
   */
  processes?: ProcessesOptions;
  /** Which queues, in strict order or by weight. Default: every queue in the store, equally. */
  queues?: QueueSelection;
  /**
   * How many jobs to reserve beyond the free slots, at most 1,000, as long as handlers are quick: faster for very
   * short jobs, at the price that other processes cannot take them meanwhile. Default: 0.
   */
  prefetch?: number;
  /**
   * Stops once nothing is due and nothing runs. A store that has failed for 30 s ends it, too: it then rejects with that
   * error, as nobody knows what is due. Default: `false`.
   */
  stopWhenEmpty?: boolean;
  /** Stops after this many jobs. Default: no limit. */
  maxJobs?: number;
  /** Stops after this time. Default: no limit. */
  maxTime?: Duration;
  /** Whether failed attempts get a line in the log, as in the original; not, where `onEvent` shows them. Default: `true`. */
  logFailures?: boolean;
  /** Hears of every job that starts and ends here. */
  onEvent?: (event: WorkEvent) => unknown;
}

/** Workers that {@linkcode Queue.start} started. */
export interface Workers {
  /**
   * Stops reserving, and resolves once the running jobs have finished, or were handed back after the grace: 3 s later
   * than that at the latest.
   */
  stop(): Promise<void>;
}

/** The payload and options of a dispatch: the payload may be left out where its type allows `undefined`. */
export type DispatchArguments<Data> = undefined extends Data ? [payload?: Data, options?: DispatchOptions]
  : [payload: Data, options?: DispatchOptions];

/** One entry of {@linkcode Queue.dispatchMany}. */
export type DispatchEntry<J extends Jobs> = {
  [Name in keyof J & string]: readonly [name: Name, ...rest: DispatchArguments<DataOf<J[Name]>>];
}[keyof J & string];

/** Which delayed jobs. */
export interface DelayedPage {
  /** Those of this queue. Default: of every one. */
  queue?: string;
  /** How many at most, 1 to 1,000. Default: 100. */
  limit?: number;
}

/**
 * A queue of background jobs.
 *
 * Jobs are delivered at least once: a job that was accepted runs until it is done or stands in `failed_jobs`, also
 * when a worker dies during it. So handlers must bear being run again.
 *
 * @example
 * ```ts
 * import { type Job, Queue } from "@x/queue";
 * import assert from "node:assert/strict";
 *
 * const sent: string[] = [];
 * const queue = new Queue({
 *   database: ":memory:",
 *   jobs: {
 *     mail: (job: Job<{ to: string }>) => void sent.push(job.data.to),
 *   },
 * });
 *
 * await queue.dispatch("mail", { to: "you@example.com" });
 * await queue.work({ stopWhenEmpty: true });
 * assert.deepEqual(sent, ["you@example.com"]);
 * await queue.close();
 * ```
 *
 * @typeParam J The map of jobs, from which names and payloads are checked.
 */
export class Queue<const J extends Jobs = Jobs> {
  readonly #settings: Settings;
  readonly #types: ReadonlyMap<string, JobType>;
  readonly #log: Log;
  readonly #events: Listeners;
  readonly #options: QueueOptions<J>;
  #telemetry: Telemetry | null = null;
  #driver: Driver | null = null;
  #loading: Promise<Driver> | null = null;
  /** What `close` waits for: workers, which it stops, and single runs. */
  readonly #working = new Set<{ stop(): void; ended: Promise<unknown> }>();
  #closed = false;

  /**
   * Checks the settings and the jobs. Nothing is opened until the first call.
   *
   * @param options The jobs, and what differs from the environment.
   * @throws {QueueError} `CONFIG` for a setting that cannot work, naming it.
   */
  constructor(options: QueueOptions<J>) {
    if (typeof options !== "object" || options === null) {
      throw new QueueError("CONFIG", "expected options with the jobs: new Queue({ jobs: { … } })");
    }
    refuseUnknown(options, OPTIONS, "options");
    this.#options = options;
    this.#settings = readSettings(options, options.env ?? processEnvironment());
    this.#types = readJobs(options.jobs, this.#settings);
    this.#log = safeLog(options.log);
    this.#events = new Listeners(this.#log);
    if (options.driver !== undefined) this.#driver = checkDriver(options);
  }

  /**
   * Opens the store now, rather than at the first call, so that a start-up fails early.
   *
   * @throws {QueueError} `DB` when it cannot be opened, `CONFIG` for a `database` that is none.
   */
  async open(): Promise<void> {
    await (await this.#load()).open();
  }

  /**
   * Stores a job for `name`'s handler, to run as soon as a worker is free. Once the promise resolves, the job is
   * durable.
   *
   * @param name One of the `jobs`.
   * @param rest The payload: a string is stored as it is, anything else as JSON. Then options.
   * @throws {QueueError} `UNKNOWN` when no job has that name; `PAYLOAD` when the payload cannot be stored; `CONFIG`
   * for options that cannot work; `DB` when the store fails: then nothing was stored.
   */
  async dispatch<Name extends keyof J & string>(
    name: Name,
    ...rest: DispatchArguments<DataOf<J[Name]>>
  ): Promise<Dispatched> {
    const job = this.#newJob(name, rest[0], rest[1]);
    const driver = this.#driver ?? await this.#load();
    try {
      let dispatched: Dispatched;
      if (this.#telemetry !== null) [dispatched] = await this.#storeTraced(driver, [job], [rest[1]]);
      else if (rest[1]?.id === undefined) dispatched = { id: (await driver.push([job], null))[0] };
      else [dispatched] = await this.#pushOnce(driver, [keyed(job, rest[1])]);
      this.#announce([job], [dispatched]);
      return dispatched;
    } catch (error) {
      announceStoreFailed(this.#events, "dispatch", error);
      throw error;
    }
  }

  /**
   * Stores a job that runs no sooner than `delay` from now.
   *
   * @example
   * ```ts
   * import { Queue } from "@x/queue";
   *
   * const queue = new Queue({ database: ":memory:", jobs: { remind: () => {} } });
   * await queue.dispatchLater("remind", { user: 7 }, { minutes: 5 });
   * await queue.close();
   * ```
   *
   * @throws {QueueError} As {@linkcode dispatch}.
   */
  dispatchLater<Name extends keyof J & string>(
    name: Name,
    payload: DataOf<J[Name]>,
    delay: Duration,
    options: DispatchOptions = {},
  ): Promise<Dispatched> {
    const rest = [payload, { ...options, delay }] as unknown as DispatchArguments<DataOf<J[Name]>>;
    return this.dispatch(name, ...rest);
  }

  /**
   * Stores many jobs, all or none, in one transaction.
   *
   * @param entries `[name, payload, options]` of each.
   * @returns Their ids, in the same order.
   * @throws {QueueError} As {@linkcode dispatch}, and then none is stored.
   */
  async dispatchMany(entries: Iterable<DispatchEntry<J>>): Promise<Dispatched[]> {
    const jobs: NewJob[] = [];
    const options: (DispatchOptions | undefined)[] = [];
    for (const [name, payload, how] of entries) {
      jobs.push(this.#newJob(name, payload, how));
      options.push(how);
    }
    const driver = this.#driver ?? await this.#load();
    try {
      const dispatched = this.#telemetry === null
        ? await this.#store(driver, jobs, options)
        : await this.#storeTraced(driver, jobs, options);
      this.#announce(jobs, dispatched);
      return dispatched;
    } catch (error) {
      announceStoreFailed(this.#events, "dispatch", error);
      throw error;
    }
  }

  async #store(
    driver: Driver,
    jobs: readonly NewJob[],
    options: readonly (DispatchOptions | undefined)[],
  ): Promise<Dispatched[]> {
    if (options.every((how) => how?.id === undefined)) {
      return (await driver.push(jobs, null)).map((id) => ({ id }));
    }
    return await this.#pushOnce(driver, jobs.map((job, index) => keyed(job, options[index])));
  }

  #storeTraced(
    driver: Driver,
    jobs: readonly NewJob[],
    options: readonly (DispatchOptions | undefined)[],
  ): Promise<Dispatched[]> {
    return this.#telemetry!.dispatch(jobs, (traced) => this.#store(driver, traced, options));
  }

  #announce(jobs: readonly NewJob[], dispatched: readonly Dispatched[]): void {
    for (const meter of this.#events.meters) meter.dispatched(jobs, dispatched);
    if (this.#events.quiet || !this.#events.has("dispatched")) return;
    dispatched.forEach(({ id, duplicate = false }, index) => {
      const { name, queue } = jobs[index];
      this.#events.emit({ type: "dispatched", job: { id, name, queue }, duplicate });
    });
  }

  async #pushOnce(driver: Driver, jobs: KeyedJob[]): Promise<Dispatched[]> {
    const pushed = await driver.pushOnce(jobs, null);
    return pushed.map(({ id, created }) => created ? { id } : { id, duplicate: true });
  }

  /**
   * Runs the next job that is due at `now`, if there is one. A failure is retried or moved to `failed_jobs`, not
   * thrown. Tests call it with a clock of their own.
   *
   * @param now Epoch milliseconds or a date. Default: the present, by the store's clock.
   * @returns Whether there was a job.
   * @throws {QueueError} `DB` when the store fails.
   */
  async workOnce(now?: number | Date): Promise<boolean> {
    const at = now === undefined ? null : Number(now);
    if (at !== null && !Number.isFinite(at)) {
      throw new QueueError("CONFIG", `now=${now}: expected epoch milliseconds or a date`);
    }
    const stopping = new AbortController();
    const run = async (): Promise<boolean> => {
      const parts = await this.#parts();
      await parts.driver.open();
      const stop = { signal: stopping.signal, grace: this.#settings.grace };
      return runOnce(parts, new Shares(undefined, this.#ownQueues()), at, stop);
    };
    return await this.#track(run(), () => stopping.abort());
  }

  /**
   * Runs jobs until a signal or a limit stops it. A store error does not end it: it is logged, and tried again after
   * 100 ms at first and 10 s at most; for 30 s where it is to stop when nothing is due.
   *
   * @throws {QueueError} `CONFIG` for options that cannot work; `DB` or `REDIS` when the store cannot be opened, or does
   * not say whether something is due.
   */
  async work(options: WorkOptions = {}): Promise<void> {
    await this.#run(this.#checkWork(options), true);
  }

  #checkWork(options: WorkOptions): WorkerOptions & { plan: ProcessesPlan | null } {
    refuseUnknown(options, WORK_OPTIONS, "options");
    const { signal, forceSignal, onEvent, stopWhenEmpty, logFailures } = options;
    expect("signal", signal, signal === undefined || isSignal(signal), "an AbortSignal");
    expect("forceSignal", forceSignal, forceSignal === undefined || isSignal(forceSignal), "an AbortSignal");
    expect("onEvent", onEvent, onEvent === undefined || typeof onEvent === "function", "a function");
    expect(
      "stopWhenEmpty",
      stopWhenEmpty,
      ["boolean", "undefined"].includes(typeof stopWhenEmpty),
      "true or false",
    );
    expect(
      "logFailures",
      logFailures,
      ["boolean", "undefined"].includes(typeof logFailures),
      "true or false",
    );
    const { processes } = options;
    const plan = processes === undefined ? null : planProcesses(processes, options.concurrency);
    return {
      plan,
      shares: new Shares(options.queues, this.#ownQueues()),
      concurrency: wholeNumber("concurrency", options.concurrency, plan?.count ?? 1, 1, MOST_WORKERS),
      prefetch: wholeNumber("prefetch", options.prefetch, 0, 0, 1000),
      maxJobs: wholeNumber("maxJobs", options.maxJobs, Infinity, 1),
      maxTime: options.maxTime === undefined
        ? null
        : atLeastOne(toMilliseconds(options.maxTime, "maxTime"), "maxTime"),
      grace: options.grace === undefined ? this.#settings.grace : toMilliseconds(options.grace, "grace"),
      stopWhenEmpty: stopWhenEmpty ?? false,
      logFailures: logFailures ?? true,
      restarts: true,
      signal,
      forceSignal,
      onEvent,
    };
  }

  #run(options: WorkerOptions & { plan: ProcessesPlan | null }, openFirst: boolean): Promise<void> {
    let worker: Worker | null = null;
    const stopping = new AbortController();
    const run = async (): Promise<void> => {
      const parts = await this.#parts();
      if (openFirst) await this.#open(parts.driver, [stopping.signal, options.signal, options.forceSignal]);
      if (stopping.signal.aborted) return;
      const work = async (withSlots: WorkerParts): Promise<void> => {
        worker = new Worker(withSlots, options);
        await worker.run();
      };
      if (options.plan === null) return await work(parts);
      const signals = [stopping.signal, options.signal, options.forceSignal].filter((one) =>
        one !== undefined
      );
      await this.#withPool(options.plan, openFirst, AbortSignal.any(signals), async (pool) => {
        await work({ ...parts, attempt: pool.attempt, slots: pool, names: () => pool.names });
      });
    };
    return this.#track(run(), () => {
      stopping.abort();
      worker?.stop();
    });
  }

  /** Opens the store, until one of the signals is aborted: a stop waits for no store. */
  async #open(driver: Driver, signals: readonly (AbortSignal | undefined)[]): Promise<void> {
    const opening = driver.open();
    const given = signals.filter((signal) => signal !== undefined);
    let stop!: () => void;
    const stopped = new Promise<void>((resolve) => stop = resolve);
    for (const signal of given) {
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop);
    }
    try {
      const left = await Promise.race([opening, stopped.then(() => true)]);
      if (left) opening.catch((error) => this.#log.error(describe(error)));
    } finally {
      for (const signal of given) signal.removeEventListener("abort", stop);
    }
  }

  /** Runs `use` with child processes, and ends those after it. Only who wants some loads what starts them. */
  async #withPool(
    plan: ProcessesPlan,
    insist: boolean,
    stopped: AbortSignal,
    use: (pool: Pool) => Promise<void>,
  ): Promise<void> {
    const { Pool } = await import("./isolate/pool.ts");
    const pool = new Pool({
      plan,
      settings: this.#settings,
      database: this.#handlersDatabase(),
      log: this.#log,
    });
    const stop = (): void => void pool.close();
    stopped.addEventListener("abort", stop);
    try {
      if (stopped.aborted) return;
      await pool.open(insist);
      stopped.removeEventListener("abort", stop);
      if (!stopped.aborted) await use(pool);
    } finally {
      stopped.removeEventListener("abort", stop);
      await pool.close();
    }
  }

  /** What child processes open for `job.db`. */
  #handlersDatabase(): HandlersDatabase | null {
    const { database = this.#settings.database, driver } = this.#options;
    if (driver !== undefined || typeof database !== "string" || database === ":memory:") return null;
    return { path: resolve(database), synchronous: this.#settings.synchronous };
  }

  #track<Result>(ended: Promise<Result>, stop: () => void): Promise<Result> {
    const entry = { stop, ended };
    this.#working.add(entry);
    const forget = (): void => void this.#working.delete(entry);
    ended.then(forget, forget);
    return ended;
  }

  /**
   * Works in the background of the app, until `stop()`.
   *
   * @param workers How many jobs run at a time. Default: `QUEUE_WORKERS`: 1, or 0 in production, where `queue:work`
   * runs as a service of its own. With 0 nothing starts, and a line says so if jobs are waiting.
   * A store that cannot be opened yet is logged and tried again, as any store error. It ends with its app:
   * {@linkcode restart} does not reach it.
   * @throws {QueueError} `CONFIG` for options that cannot work.
   */
  start(
    workers: number = this.#settings.workers,
    options: Omit<WorkOptions, "signal" | "concurrency"> = {},
  ): Workers {
    const concurrency = wholeNumber("workers", workers, 1, 0, MOST_WORKERS);
    refuseUnknown(
      options,
      WORK_OPTIONS.filter((key) => key !== "signal" && key !== "concurrency"),
      "options",
    );
    const stopping = new AbortController();
    const checked = this.#checkWork({
      ...options,
      concurrency: Math.max(options.processes?.count ?? 1, concurrency),
      signal: stopping.signal,
    });
    if (concurrency === 0) {
      const warned = this.#warnOfWaiting();
      return { stop: () => warned };
    }
    const ended = this.#run({ ...checked, restarts: false }, false).catch((error) =>
      this.#log.error(describe(error))
    );
    return {
      stop: () => {
        stopping.abort();
        return ended;
      },
    };
  }

  /**
   * Puts failed jobs back on their queues with no attempts counted, each in one step; many in bounded steps, one after
   * another. What fails again meanwhile is not retried again.
   *
   * @example The failures of an outage
   * ```ts
   * import { Queue } from "@x/queue";
   * import assert from "node:assert/strict";
   *
   * const mail = () => {
   *   throw new Error("upstream 503");
   * };
   * const queue = new Queue({ database: ":memory:", tries: 1, jobs: { mail }, log: { warn() {}, error() {} } });
   * await queue.dispatchMany([["mail"], ["mail"]]);
   * await queue.work({ stopWhenEmpty: true });
   *
   * const outage = { name: "mail", text: "503", since: Date.now() - 3_600_000 };
   * assert.equal(await queue.countFailed(outage), 2);
   * assert.equal((await queue.retry(outage)).length, 2);
   * await queue.close();
   * ```
   *
   * @param which An id, several, `"all"`, or a filter: all that it names must be so.
   * @returns The id and name of each one that was there; empty when there was none.
   * @throws {QueueError} `CONFIG` for a filter that names nothing, or cannot be meant; `DB` when the store fails: what
   * was moved before stays moved.
   */
  async retry(which: FailedIds | FailedFilter, options: MoveOptions = {}): Promise<Moved[]> {
    const driver = await this.#load();
    return await moveFailed(driver, which, options, (selection) => driver.retry(selection, null));
  }

  /**
   * Deletes failed jobs for good.
   *
   * @param which As in {@linkcode retry}.
   * @returns The id and name of each one that was there; empty when there was none.
   * @throws {QueueError} As {@linkcode retry}.
   */
  async forget(which: FailedIds | FailedFilter, options: MoveOptions = {}): Promise<Moved[]> {
    const driver = await this.#load();
    return await moveFailed(driver, which, options, (selection) => driver.forget(selection));
  }

  /**
   * A page of failed jobs, of all or of those that match, in the order of their ids. A search looks at all of them in
   * bounded steps until the page is full.
   *
   * @throws {QueueError} `CONFIG` for a limit or a filter that cannot work, `DB` when the store fails.
   */
  async failed(page: FailedPage = {}): Promise<FailedJob[]> {
    return await readFailed(await this.#load(), page);
  }

  /**
   * How many failed jobs match.
   *
   * @param filter All that it names must be so. Left out, all failed jobs count.
   * @throws {QueueError} As {@linkcode failed}.
   */
  async countFailed(filter: FailedFilter = {}): Promise<number> {
    return await countFailed(await this.#load(), filter, this.#settings.retryAfter);
  }

  /**
   * Removes waiting jobs for good: those that are ready or delayed, of a queue or of all, in bounded steps; never one
   * that runs, or whose lease has ended. What is dispatched meanwhile is not counted in.
   *
   * @returns How many there were.
   * @throws {QueueError} `CONFIG` for what is no queue's name, `DB` when the store fails: what was removed stays removed.
   */
  async clear(options: ClearOptions = {}): Promise<number> {
    return await clearWaiting(await this.#load(), options, this.#settings.retryAfter);
  }

  /**
   * All that is known of one job, wherever it stands: its attempts, who runs it, and why it is not running.
   *
   * @example
   * ```ts
   * import { Queue } from "@x/queue";
   * import assert from "node:assert/strict";
   *
   * const queue = new Queue({ database: ":memory:", jobs: { mail: () => {} } });
   * const { id } = await queue.dispatchLater("mail", { to: "ada" }, { hours: 1 });
   * await queue.pause("default");
   * const job = await queue.find(id);
   * assert.equal(job?.state, "delayed");
   * assert.deepEqual(job.reasons.map(({ code }) => code), ["delayed", "paused", "noWorker"]);
   * await queue.close();
   * ```
   *
   * @param id What `dispatch` returned, or what {@linkcode failed} shows.
   * @returns `null` where there is no such job, as where it is done. On Redis, where a job has no index, it is looked for.
   * @throws {QueueError} `DB` when the store fails.
   */
  async find(id: string | number): Promise<JobDetail | null> {
    return await findJob(await this.#load(), String(id), this.#settings.retryAfter);
  }

  /**
   * Looks whether all is well: the store, its workers, and the jobs that wait for them.
   *
   * @returns What was looked at, each with what to do about it where something is.
   * @throws {QueueError} `DB` when the store cannot be read.
   */
  async examine(): Promise<Finding[]> {
    return await examine(await this.#load(), this.#settings.retryAfter);
  }

  /**
   * How many jobs each queue has in each state.
   *
   * @throws {QueueError} `DB` when the store fails.
   */
  async counts(): Promise<QueueCounts[]> {
    return (await this.#load()).counts(null, this.#settings.retryAfter);
  }

  /**
   * The delayed jobs that are due next, the next one first: dispatched for later, or waiting for another attempt.
   *
   * @example
   * ```ts
   * import { Queue } from "@x/queue";
   * import assert from "node:assert/strict";
   *
   * const queue = new Queue({ database: ":memory:", jobs: { remind: () => {} } });
   * await queue.dispatchLater("remind", { user: 7 }, { days: 2 });
   * await queue.dispatchLater("remind", { user: 8 }, { days: 1 });
   * const [next, ...others] = await queue.delayed();
   * assert.deepEqual([next.id, next.attempts, others.length], ["2", 0, 1]);
   * await queue.close();
   * ```
   *
   * @throws {QueueError} `CONFIG` for a queue or a limit that cannot work, `DB` when the store fails.
   */
  async delayed(page: DelayedPage = {}): Promise<DelayedJob[]> {
    refuseUnknown(page, ["queue", "limit"], "options");
    const queue = page.queue === undefined ? null : checkQueue(page.queue, "queue");
    const limit = wholeNumber("limit", page.limit, 100, 1, 1000);
    return await (await this.#load()).delayed(queue, limit, null);
  }

  /**
   * How many jobs are stored and not yet done or failed: ready, delayed or reserved.
   *
   * @throws {QueueError} `DB` when the store fails.
   */
  async waiting(): Promise<number> {
    return (await this.#load()).waiting();
  }

  /**
   * The workers of this store, in whatever process, that were heard of within the last 30 s, the oldest first. Each says
   * what it runs when that changes, a second later at most; a worker that ends takes itself off the list.
   *
   * @example
   * ```ts
   * import { Queue } from "@x/queue";
   * import assert from "node:assert/strict";
   *
   * const queue = new Queue({
   *   database: ":memory:",
   *   jobs: {
   *     look: async (): Promise<void> => {
   *       const [worker] = await queue.workers();
   *       assert.deepEqual([worker.concurrency, worker.names], [1, ["look"]]);
   *     },
   *   },
   * });
   * await queue.dispatch("look");
   * await queue.work({ stopWhenEmpty: true });
   * assert.deepEqual([await queue.workers(), await queue.failed()], [[], []]);
   * await queue.close();
   * ```
   *
   * @throws {QueueError} `DB` when the store fails.
   */
  async workers(): Promise<WorkerInfo[]> {
    return await (await this.#load()).workers(null);
  }

  /**
   * Holds a queue, or all: no worker of this store starts a job of it until it is resumed. What runs finishes.
   *
   * @param queue Its name. Left out, every queue, also those that come later.
   * @returns Whether it was not paused before.
   * @throws {QueueError} `CONFIG` for what is no queue's name, `DB` when the store fails.
   */
  async pause(queue?: string): Promise<boolean> {
    const name = queue === undefined ? null : checkQueue(queue, "queue");
    return await (await this.#load()).pause(name);
  }

  /**
   * Lets the workers go on with a queue, or with all.
   *
   * @param queue Its name: lifts the pause of that name, and not one of all queues. Left out, lifts every pause.
   * @returns Whether there was such a pause.
   * @throws {QueueError} As {@linkcode pause}.
   */
  async resume(queue?: string): Promise<boolean> {
    const name = queue === undefined ? null : checkQueue(queue, "queue");
    return await (await this.#load()).resume(name);
  }

  /**
   * Which queues are paused.
   *
   * @throws {QueueError} `DB` when the store fails.
   */
  async paused(): Promise<Paused> {
    return (await (await this.#load()).controls()).paused;
  }

  /**
   * Tells every worker of this store that runs by now to take nothing new, finish what runs and end, within about 2 s
   * where it is idle. Workers of {@linkcode start}, inside an app, go on: they end with it.
   *
   * @throws {QueueError} `DB` when the store fails.
   */
  async restart(): Promise<void> {
    await (await this.#load()).restart();
  }

  /**
   * Removes a waiting job; tells the worker of a running one, in whatever process, to abort its `job.signal` with the
   * reason `CANCELLED`, within about 2 s. If its handler then throws, or does not return within 5 s, the job is in
   * `failed_jobs` with the error `cancelled`.
   *
   * @param id What `dispatch` returned.
   * @returns `"removed"` or `"cancelling"`; `null` where there is no such job, as where it is done or has failed.
   * @throws {QueueError} `DB` when the store fails.
   */
  async cancel(id: string | number): Promise<Cancelled | null> {
    return await (await this.#load()).cancel(String(id));
  }

  /**
   * How far a running job said that it is, by {@linkcode Job.progress}.
   *
   * @param id What `dispatch` returned.
   * @returns `null` where it does not run, or has said nothing.
   * @throws {QueueError} `DB` when the store fails.
   */
  async progress(id: string | number): Promise<Progress | null> {
    return await (await this.#load()).progress(String(id));
  }

  /**
   * Hears of what this process does with jobs. What a listener throws, or rejects with, is logged and changes nothing.
   *
   * @example
   * ```ts
   * import { Queue } from "@x/queue";
   * import assert from "node:assert/strict";
   *
   * const queue = new Queue({ database: ":memory:", jobs: { mail: () => {} } });
   * const seen: string[] = [];
   * queue.on("dispatched", ({ job }) => seen.push(`dispatched ${job.name}`));
   * const remove = queue.on("completed", ({ job }) => seen.push(`completed ${job.name}`));
   * await queue.dispatch("mail");
   * await queue.work({ stopWhenEmpty: true });
   * remove();
   * assert.deepEqual(seen, ["dispatched mail", "completed mail"]);
   * await queue.close();
   * ```
   *
   * @param event Which; see {@linkcode QueueEvents}.
   * @param listener Called with each, as it happens.
   * @param options A signal that removes the listener when it is aborted.
   * @returns What removes the listener.
   * @throws {QueueError} `CONFIG` for an event that there is not, or a listener that is no function.
   */
  on<Event extends keyof QueueEvents>(
    event: Event,
    listener: QueueListener<Event>,
    options: { signal?: AbortSignal } = {},
  ): () => void {
    refuseUnknown(options, ["signal"], "options");
    const { signal } = options;
    expect("signal", signal, signal === undefined || isSignal(signal), "an AbortSignal");
    const take = this.#events.add(event, listener);
    const remove = (): void => {
      take();
      signal?.removeEventListener("abort", remove);
    };
    if (signal?.aborted) take();
    else signal?.addEventListener("abort", remove);
    return remove;
  }

  /**
   * Has what this process does counted, from now on. `metrics(queue)` calls it.
   *
   * @returns What ends that.
   */
  measure(meter: Meter): () => void {
    this.#events.meters = [...this.#events.meters, meter];
    return () => {
      this.#events.meters = this.#events.meters.filter((one) => one !== meter);
    };
  }

  /** The names of its job types. */
  get names(): string[] {
    return [...this.#types.keys()];
  }

  /**
   * Has each dispatch and each attempt of this process traced, from the next one on. `metrics(queue, { openTelemetry })`
   * calls it.
   *
   * @returns What ends that.
   * @throws {QueueError} `CONFIG` where the queue is traced already.
   */
  trace(telemetry: Telemetry): () => void {
    if (this.#telemetry !== null) throw new QueueError("CONFIG", "telemetry: the queue is traced already");
    this.#telemetry = telemetry;
    return () => {
      if (this.#telemetry === telemetry) this.#telemetry = null;
    };
  }

  /**
   * Stops its workers, as their `signal` does, and then closes what the queue opened: within their grace, 3 s, and 2 s
   * more for what is still under way, whatever the store does.
   */
  async close(): Promise<void> {
    this.#closed = true;
    for (const { stop } of this.#working) stop();
    await Promise.allSettled([...this.#working].map(({ ended }) => ended));
    await this.#loading?.catch(() => {});
    // What was called before goes first: it may be waiting for the driver to load, too.
    await new Promise((resolve) => setImmediate(resolve));
    await this.#driver?.close();
  }

  /** As {@linkcode close}, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #load(): Promise<Driver> {
    if (this.#closed) throw new QueueError("CLOSED", "the queue is closed");
    if (this.#driver !== null) return this.#driver;
    this.#loading ??= this.#choose();
    return this.#driver = await this.#loading;
  }

  /** Only the driver in use is loaded. */
  async #choose(): Promise<Driver> {
    const { database = this.#settings.database } = this.#options;
    if (this.#settings.connection === "redis") {
      const { redis, failed } = this.#settings;
      const { RedisDriver } = await import("../drivers/redis.ts");
      return new RedisDriver({ ...redis, failed, database, log: this.#log });
    }
    const { SqliteDriver } = await import("../drivers/sqlite.ts");
    return new SqliteDriver({ database, synchronous: this.#settings.synchronous, log: this.#log });
  }

  async #parts(): Promise<WorkerParts> {
    const driver = await this.#load();
    return {
      driver,
      attempt: (held, report) =>
        new LocalAttempt(held, this.#types.get(held.name), this.#settings, () => driver.database, report),
      names: () => [...this.#types].filter(([, { handle }]) => handle !== null).map(([name]) => name),
      retryAfter: this.#settings.retryAfter,
      events: this.#events,
      telemetry: () => this.#telemetry,
      log: this.#log,
    };
  }

  #ownQueues(): Set<string> {
    return new Set([DEFAULT_QUEUE, ...[...this.#types.values()].map((type) => type.queue)]);
  }

  #newJob(name: string, payload: unknown, options: DispatchOptions = {}): NewJob {
    const type = this.#types.get(name);
    if (type === undefined) throw new QueueError("UNKNOWN", `no job handler named ${show(name)}`);
    refuseUnknown(options, DISPATCH_OPTIONS, "options");
    return {
      name,
      payload: encodePayload(name, payload, this.#settings.maxPayload),
      queue: options.queue === undefined ? type.queue : checkQueue(options.queue, "queue"),
      priority: checkPriority(options.priority, "priority", type.priority),
      delay: options.delay === undefined ? 0 : toMilliseconds(options.delay, "delay"),
    };
  }

  async #warnOfWaiting(): Promise<void> {
    try {
      const waiting = await this.waiting();
      if (waiting === 0) return;
      this.#log.warn(
        `queue: QUEUE_WORKERS=0 and ${waiting} ${
          waiting === 1 ? "job is" : "jobs are"
        } waiting: run queue:work as a service of its own`,
      );
    } catch (error) {
      this.#log.error(describe(error));
    }
  }
}

function keyed(job: NewJob, options: DispatchOptions | undefined): KeyedJob {
  return { ...job, key: options?.id === undefined ? null : checkId(options.id) };
}

/** The app's driver, which brings its own database with it. */
function checkDriver({ driver, database, synchronous, connection }: QueueOptions): Driver {
  expect("driver", driver, typeof driver?.reserve === "function", "an object as core/driver.ts describes it");
  for (const [name, value] of Object.entries({ database, synchronous, connection })) {
    expect(name, value, value === undefined, "nothing beside a driver, which has its own");
  }
  return driver!;
}

function expect(setting: string, value: unknown, fine: boolean, expected: string): void {
  if (!fine) throw new QueueError("CONFIG", `${setting}=${show(value)}: expected ${expected}`);
}

function isSignal(value: unknown): boolean {
  return value instanceof AbortSignal;
}

/** An id of the caller's own: text of any kind, but short, as it becomes a key in the store. */
function checkId(id: unknown): string {
  if (typeof id !== "string" || id === "" || id.length > 200 || id.includes("\0") || !id.isWellFormed()) {
    throw new QueueError("CONFIG", `id=${show(id)}: expected text of 1 to 200 characters`);
  }
  return id;
}

const OPTIONS = [
  "jobs",
  "database",
  "driver",
  "log",
  "env",
  "connection",
  "redis",
  "failed",
  "tries",
  "retryAfter",
  "grace",
  "workers",
  "backoff",
  "timeout",
  "maxPayload",
  "synchronous",
];

const DISPATCH_OPTIONS = ["delay", "queue", "priority", "id"];

const WORK_OPTIONS = [
  "signal",
  "forceSignal",
  "grace",
  "concurrency",
  "processes",
  "queues",
  "prefetch",
  "stopWhenEmpty",
  "maxJobs",
  "maxTime",
  "logFailures",
  "onEvent",
];
