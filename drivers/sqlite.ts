/**
 * The default driver: jobs in a SQLite file, in the original's tables.
 *
 * @example
 * ```ts
 * import { Queue } from "@x/queue";
 * import { SqliteDriver } from "@x/queue/drivers/sqlite";
 *
 * const driver = new SqliteDriver({ database: ":memory:", synchronous: "full" });
 * const queue = new Queue({ driver, jobs: { mail: () => {} } });
 * await queue.dispatch("mail", { to: "you@example.com" });
 * await queue.close();
 * ```
 *
 * @module
 */
import { dirname } from "node:path";
import type {
  Cancelled,
  Controls,
  DelayedJob,
  Driver,
  FailedFound,
  FailedJob,
  FailedSearch,
  FailedSelection,
  Failure,
  Finding,
  KeyedJob,
  Listener,
  Moment,
  Moved,
  NewJob,
  Progress,
  Pushed,
  QueueCounts,
  Release,
  Reservation,
  Reserved,
  ReserveRequest,
  Settlement,
  StoredJob,
  WaitingNames,
  WorkerInfo,
  WorkerReport,
} from "../core/driver.ts";
import { QueueError } from "../core/errors.ts";
import { toText, withRecord } from "./history.ts";
import { Bell } from "./sqlite/bell.ts";
import { adapt, type Connection, isConnection, openFile, refuseOtherRows } from "./sqlite/connection.ts";
import {
  cancelJob,
  countRestart,
  pauseQueue,
  readControls,
  readProgress,
  resumeQueue,
  toProgress,
} from "./sqlite/controls.ts";
import { countJobs, countWaiting } from "./sqlite/counts.ts";
import { nextDelayed, waitingQueues } from "./sqlite/delayed.ts";
import { lookAtDatabase, ofWriting, tryToWrite } from "./sqlite/examine.ts";
import { clearJobs } from "./sqlite/clear.ts";
import { explainFault } from "./sqlite/explain.ts";
import {
  FailedJobs,
  findFailed,
  forgetFailed,
  insertFailed,
  retryFailed,
  selectFailed,
} from "./sqlite/failed_jobs.ts";
import {
  identityOf,
  isWritable,
  makeFolder,
  type Warn,
  warnOfJournal,
  warnOfNetwork,
  warnOfVersion,
} from "./sqlite/file.ts";
import { findJob, namesOfWaiting } from "./sqlite/find.ts";
import { HandlersConnection, pragmasOf } from "./sqlite/handlers.ts";
import { CLOSE_DEADLINE, TransactionWatch, unlocked } from "./sqlite/lock.ts";
import { availableAt, insertOnce, insertPushes, toRow } from "./sqlite/push.ts";
import { Reserving } from "./sqlite/reserve.ts";
import { rowIds } from "./sqlite/row_id.ts";
import { migrate } from "./sqlite/schema.ts";
import { deleteDone, deleteHeld, fence, HELD, historyOf } from "./sqlite/settle.ts";
import { Turn } from "./sqlite/turn.ts";
import { forgetWorker, keepWorker, readWorkers } from "./sqlite/workers.ts";

/** What a {@linkcode SqliteDriver} works on. */
export interface SqliteOptions {
  /**
   * A path, whose folder is made, or `":memory:"`; or an open connection of `node:sqlite`, `bun:sqlite`,
   * `better-sqlite3` or `@db/sqlite`, which stays the app's to configure and to close.
   */
  database: unknown;
  /** `"normal"` (default) survives a crash of the process, `"full"` a power cut too. A connection of the app's has its own. */
  synchronous?: "normal" | "full";
  /** Gets a line where the file's surroundings are unsafe, or an open transaction keeps the queue waiting. */
  log?: { warn(line: string): void };
}

const OPTIONS = ["database", "synchronous", "log"];

/** How often an idle worker gives free pages back, in milliseconds, and how many: about 4 ms of work. */
const TIDY_EVERY = 1000;
const TIDY_PAGES = 256;

/** How many jobs one transaction moves or removes at most, of those that were named or are cleared. */
const LOT = 500;

/** Jobs in SQLite. */
export class SqliteDriver implements Driver {
  readonly #options: SqliteOptions;
  readonly #warn: Warn;
  readonly #watch: TransactionWatch;
  readonly #turn: Turn;
  readonly #reserving = new Reserving();
  #opening: Promise<Connection> | null = null;
  #connection: Connection | null = null;
  /** For a file that this driver opened. */
  #handlers: HandlersConnection | null = null;
  #bell: Bell = new Bell(null);
  /** The file that is open, to notice when its name leads elsewhere; `null` for `:memory:`. */
  #file: { path: string; identity: string } | null = null;
  #tidiedAt = -Infinity;
  readonly #listeners = new Map<() => boolean, Listener>();
  #closing: Promise<void> | null = null;
  /** By when what is pending is given up, in milliseconds of `performance.now()`. */
  #leaveAt = Infinity;

  /**
   * Checks the options. Nothing is opened until the first call.
   *
   * @param options What to work on.
   * @throws {QueueError} `CONFIG` for an option that cannot work, as a `database` that is neither a path nor a connection.
   */
  constructor(options: SqliteOptions) {
    checkOptions(options);
    this.#options = options;
    this.#warn = (line) => options.log?.warn(line);
    this.#watch = new TransactionWatch(this.#warn);
    this.#turn = new Turn({
      connect: () => this.#open(),
      verify: () => this.#verifyFile(),
      refused: () => this.#reopenWritable(),
      watch: this.#watch,
      stored: () => this.#bell.ring(),
      leaveAt: () => this.#leaveAt,
      explain: (error) => this.#explain(error),
    });
  }

  /** The app's own connection, or one on the file that this driver opened, which is not the queue's. */
  get database(): unknown {
    return this.#handlers === null ? this.#connection?.raw : this.#handlers.get();
  }

  /** Lets the hook have transactions of its own on the handlers' connection, and ends one that it leaves open. */
  lend(held: Reservation): () => void {
    this.#handlers?.began([held]);
    return () => this.#handlers?.ended(held);
  }

  /** Opens the file and makes or upgrades its tables. */
  async open(): Promise<void> {
    if (this.#isClosed) return this.#rejectClosed();
    try {
      await this.#open();
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** Stores jobs; all pushes of one turn go into one insert. */
  push(jobs: readonly NewJob[], now: Moment): Promise<string[]> {
    if (this.#isClosed) return this.#rejectClosed();
    if (jobs.length === 0) return Promise.resolve([]);
    const at = now ?? Date.now();
    const item = jobs.map((job) => toRow(job, at));
    return this.#turn.submit({ rank: 0, item, run: insertPushes, stores: true });
  }

  /** Stores the jobs whose key is not known yet. */
  pushOnce(jobs: readonly KeyedJob[], now: Moment): Promise<Pushed[]> {
    if (this.#isClosed) return this.#rejectClosed();
    const at = now ?? Date.now();
    return this.#turn.submit({
      rank: 0,
      item: null,
      run: (connection) => [insertOnce(connection, jobs, at)],
      stores: true,
    });
  }

  /** Takes due jobs; only reads where there are none. */
  async reserve(request: ReserveRequest): Promise<Reserved> {
    if (this.#isClosed) return this.#rejectClosed();
    const now = request.now ?? Date.now();
    const reserved = await this.#turn.submit({
      rank: 2,
      item: null,
      peek: (connection) => {
        const nothing = this.#reserving.peek(connection, request, now);
        if (nothing !== undefined) this.#tidy(connection, now);
        return nothing;
      },
      run: (connection) => [this.#reserving.take(connection, request, now)],
    });
    this.#handlers?.began(reserved.jobs);
    return reserved;
  }

  /** Renews reservations. */
  async extend(held: readonly Reservation[], now: Moment): Promise<Reservation[]> {
    const seconds = (now ?? Date.now()) / 1000;
    const lost = await this.#settle((connection) =>
      held.filter((job) =>
        connection.run(`UPDATE jobs SET reserved_at = ? ${HELD}`, seconds, ...fence(job)) === 0
      )
    );
    for (const job of lost) this.#handlers?.ended(job);
    return lost;
  }

  /** Deletes a job that is done; all completions of one turn go into one delete. */
  complete(held: Reservation): Promise<boolean> {
    if (this.#isClosed) return this.#rejectClosed();
    this.#handlers?.ended(held);
    return this.#turn.submit({ rank: 1, item: held, run: deleteDone });
  }

  /** Deletes a job that is done, without a promise. */
  completeFor(held: Reservation, settlement: Settlement): void {
    if (this.#isClosed) return void this.#rejectClosed().catch((error) => settlement.failed(error));
    this.#handlers?.ended(held);
    this.#turn.put(
      { rank: 1, item: held, run: deleteDone },
      (done) => settlement.stored(done),
      (error) => settlement.failed(error),
    );
  }

  /** Makes a job available again. */
  release(held: Reservation, how: Release, now: Moment): Promise<boolean> {
    const at = now ?? Date.now();
    this.#handlers?.ended(held);
    return this.#settle((connection) => {
      const history = how.record === undefined ? [] : historyOf(connection, held);
      return history !== null && connection.run(
            `UPDATE jobs SET reserved_at = NULL, token = NULL, progress = NULL,
              available_at = coalesce(?, available_at), attempts = attempts - ?, history = coalesce(?, history) ${HELD}`,
            how.delay === null ? null : (at + how.delay) / 1000,
            how.counted ? 0 : 1,
            toText(withRecord(history, how.record)),
            ...fence(held),
          ) > 0;
    }, true);
  }

  /** Moves a job to `failed_jobs`, in the same transaction. */
  fail(held: Reservation, why: Failure): Promise<boolean> {
    this.#handlers?.ended(held);
    return this.#settle((connection) => {
      const history = historyOf(connection, held);
      if (history === null || !deleteHeld(connection, held)) return false;
      insertFailed(connection, held, why, withRecord(history, why.record));
      return true;
    });
  }

  /** Hears dispatches of this process and, through the bell, of others. */
  listen(wake: () => boolean): Listener {
    this.#listeners.set(wake, this.#bell.listen(wake));
    return {
      // Each ring reaches every listener here, so there is nothing to arm.
      rest() {},
      close: () => {
        this.#listeners.get(wake)?.close();
        this.#listeners.delete(wake);
      },
    };
  }

  /** The names of the queues with jobs that are not reserved. */
  queues(): Promise<string[]> {
    return this.#read(waitingQueues);
  }

  /** Reads the delayed jobs that are due next. */
  delayed(queue: string | null, limit: number, now: Moment): Promise<DelayedJob[]> {
    return this.#read((connection) => nextDelayed(connection, queue, limit, now ?? Date.now()));
  }

  /** Counts by queue and state. */
  counts(now: Moment, retryAfter: number): Promise<QueueCounts[]> {
    const at = now ?? Date.now();
    return this.#read((connection) => countJobs(connection, at / 1000, (at - retryAfter) / 1000));
  }

  /** Counts all that is not done or failed. */
  waiting(): Promise<number> {
    return this.#read(countWaiting);
  }

  /** Reads `failed_jobs`. */
  failed(selection: FailedSelection): Promise<FailedJob[]> {
    return this.#read((connection) => selectFailed(connection, selection));
  }

  /** Looks through `failed_jobs`, without the write lock. */
  findFailed(search: FailedSearch): Promise<FailedFound> {
    return this.#read((connection) => findFailed(connection, search));
  }

  /** Moves failed jobs back, each with its queue, priority and, where it is free, its id. */
  retry(selection: FailedSelection, now: Moment): Promise<Moved[]> {
    const at = now ?? Date.now();
    const dueAt = availableAt(0, at);
    return this.#inLots(selection, (connection, lot) => retryFailed(connection, lot, dueAt, at), true);
  }

  /** Deletes failed jobs. */
  forget(selection: FailedSelection): Promise<Moved[]> {
    return this.#inLots(selection, forgetFailed, false);
  }

  /** Deletes waiting jobs, a lot in each transaction. */
  async clear(queue: string | null, limit: number): Promise<number> {
    if (this.#isClosed) return this.#rejectClosed();
    let cleared = 0;
    while (cleared < limit) {
      const lot = Math.min(LOT, limit - cleared);
      const some = await this.#settle((connection) => clearJobs(connection, queue, lot));
      cleared += some;
      if (some < lot) break;
    }
    return cleared;
  }

  /** Pauses. */
  pause(queue: string | null): Promise<boolean> {
    return this.#settle((connection) => pauseQueue(connection, queue));
  }

  /** Lifts pauses, and wakes workers. */
  resume(queue: string | null): Promise<boolean> {
    return this.#settle((connection) => resumeQueue(connection, queue), true);
  }

  /** Counts a restart. */
  restart(): Promise<void> {
    return this.#settle(countRestart);
  }

  /** Removes a waiting job, or marks the row of one that is held. */
  cancel(id: string): Promise<Cancelled | null> {
    return this.#settle((connection) => cancelJob(connection, id));
  }

  /** Reads what workers are told. */
  controls(): Promise<Controls> {
    return this.#read(readControls);
  }

  /** Keeps how far a job is, in its row, which goes when it is settled: so its life needs no end. */
  report(held: Reservation, how: Omit<Progress, "at">, _life: number, now: Moment): Promise<boolean> {
    const progress = toProgress(how, now ?? Date.now());
    return this.#settle((connection) =>
      connection.run(`UPDATE jobs SET progress = ? ${HELD}`, progress, ...fence(held)) > 0
    );
  }

  /** Reads how far a job is. */
  progress(id: string): Promise<Progress | null> {
    return this.#read((connection) => readProgress(connection, id));
  }

  /** Keeps what a worker says of itself. */
  beat(worker: WorkerReport, life: number, now: Moment): Promise<void> {
    const seconds = (now ?? Date.now()) / 1000;
    return this.#settle((connection) => keepWorker(connection, worker, life / 1000, seconds));
  }

  /** Forgets a worker. */
  leave(id: string): Promise<void> {
    return this.#settle((connection) => forgetWorker(connection, id));
  }

  /** Reads who works here. */
  workers(now: Moment): Promise<WorkerInfo[]> {
    const seconds = (now ?? Date.now()) / 1000;
    return this.#read((connection) => readWorkers(connection, seconds));
  }

  /** Reads the row of a job. */
  find(id: string, now: Moment, retryAfter: number): Promise<StoredJob | null> {
    const seconds = (now ?? Date.now()) / 1000;
    return this.#read((connection) => findJob(connection, id, seconds, retryAfter / 1000));
  }

  /** Reads names of waiting jobs. */
  waitingNames(queues: readonly string[], limit: number): Promise<WaitingNames[]> {
    return this.#read((connection) => namesOfWaiting(connection, queues, limit));
  }

  /** Looks at the database, and tries to write. */
  async examine(now: Moment, retryAfter: number): Promise<Finding[]> {
    const seconds = (now ?? Date.now()) / 1000;
    const found = await this.#read((connection) =>
      lookAtDatabase(connection, this.#file?.path ?? null, seconds, retryAfter / 1000)
    );
    const writing = this.#settle((connection) => tryToWrite(connection, seconds));
    return [ofWriting(await writing.then(() => null, (error: QueueError) => error)), ...found];
  }

  /**
   * The `failed_jobs` table, for a driver whose failures live in the app's database while its jobs do not.
   *
   * @internal
   */
  get failures(): FailedJobs {
    return new FailedJobs((run) => this.#settle(run), (run) => this.#read(run));
  }

  /**
   * The connection that handlers get, for such a driver; `null` where it is the app's own, or not open yet.
   *
   * @internal
   */
  get handlers(): HandlersConnection | null {
    return this.#handlers;
  }

  /**
   * Finishes what is pending; closes the connection if this driver opened it.
   *
   * @param within How long others may be in the way of that, in milliseconds. Default: 2 s.
   */
  close(within: number = CLOSE_DEADLINE): Promise<void> {
    return this.#closing ??= this.#close(within);
  }

  async #close(within: number): Promise<void> {
    this.#leaveAt = performance.now() + within;
    await this.#turn.drained();
    await this.#opening?.catch(() => {});
    this.#bell.close();
    this.#handlers?.close();
    this.#handlers = null;
    if (this.#connection !== null && !isConnection(this.#options.database)) this.#connection.close();
    this.#connection = null;
  }

  // Opening

  #open(): Promise<Connection> {
    this.#opening ??= this.#connect().catch((error) => {
      this.#opening = null;
      throw error;
    });
    return this.#opening;
  }

  async #connect(): Promise<Connection> {
    const { database } = this.#options;
    const connection = typeof database === "string" ? await this.#openPath(database) : adapt(database);
    try {
      await unlocked(connection, this.#watch, () => {
        refuseOtherRows(connection);
        migrate(connection);
      }, () => this.#leaveAt);
      const path = connection.all("PRAGMA database_list").find((row) => row.name === "main")?.file;
      this.#file = path ? { path: String(path), identity: identityOf(String(path)) } : null;
      if (this.#file !== null) warnOfVersion(connection, this.#warn);
    } catch (error) {
      if (typeof database === "string") connection.close();
      throw error;
    }
    if (typeof database === "string" && this.#file !== null) {
      this.#handlers ??= new HandlersConnection(
        this.#file.path,
        pragmasOf(this.#options.synchronous),
        this.#warn,
      );
    }
    this.#bell.close();
    this.#bell = new Bell(this.#file === null ? null : `${this.#file.path}-bell`);
    for (const wake of this.#listeners.keys()) this.#listeners.set(wake, this.#bell.listen(wake));
    this.#connection = connection;
    return connection;
  }

  async #openPath(path: string): Promise<Connection> {
    if (path !== ":memory:") {
      if (this.#file !== null && identityOf(this.#file.path) === "") {
        throw new QueueError("DB", `${this.#file.path} was deleted while it was open: restore it or restart`);
      }
      makeFolder(dirname(path));
      warnOfNetwork(path, this.#warn);
    }
    const connection = await openFile(path);
    try {
      const mode = await unlocked(connection, this.#watch, () => {
        // Only has an effect before the first table. On a file that is there it would be a write, for nothing.
        if (connection.get("PRAGMA page_count")?.page_count === 0) {
          connection.all("PRAGMA auto_vacuum = INCREMENTAL");
        }
        return connection.get("PRAGMA journal_mode = WAL")?.journal_mode;
      }, () => this.#leaveAt);
      if (path !== ":memory:") warnOfJournal(path, mode, this.#warn);
      for (const pragma of pragmasOf(this.#options.synchronous)) connection.all(`PRAGMA ${pragma}`);
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  /**
   * Gives pages that many done jobs left free back to the file system, a few at a time, while there is no work. As a
   * task of its own, since it writes: on a disk that is full or read-only a look for jobs must not fail by it.
   */
  #tidy(connection: Connection, now: number): void {
    if (isConnection(this.#options.database) || Math.abs(now - this.#tidiedAt) < TIDY_EVERY) return;
    this.#tidiedAt = now;
    const read = (pragma: string) => Number(Object.values(connection.get(`PRAGMA ${pragma}`) ?? {})[0]);
    // A file that did not begin with auto_vacuum, as one of the original's, gives none back.
    if (read("freelist_count") <= TIDY_PAGES || read("auto_vacuum") === 0) return;
    this.#settle((connection) => connection.all(`PRAGMA incremental_vacuum(${TIDY_PAGES})`)).catch(() => {});
  }

  // Settling and reading

  #settle<Result>(run: (connection: Connection) => Result, stores = false): Promise<Result> {
    if (this.#isClosed) return this.#rejectClosed();
    return this.#turn.submit({ rank: 1, item: null, run: (connection) => [run(connection)], stores });
  }

  #read<Result>(peek: (connection: Connection) => Result): Promise<Result> {
    if (this.#isClosed) return this.#rejectClosed();
    return this.#turn.submit({ rank: 2, item: null, peek });
  }

  /** A page is bounded by its limit; what was named, here. */
  async #inLots(
    selection: FailedSelection,
    move: (connection: Connection, selection: FailedSelection) => Moved[],
    stores: boolean,
  ): Promise<Moved[]> {
    if (!("ids" in selection)) return this.#settle((connection) => move(connection, selection), stores);
    if (this.#isClosed) return this.#rejectClosed();
    const { filter } = selection;
    const ids = rowIds(selection.ids);
    const lots = Array.from(
      { length: Math.ceil(ids.length / LOT) },
      (_, lot) => ids.slice(lot * LOT, (lot + 1) * LOT),
    );
    const moved: Moved[] = [];
    for (const ids of lots) {
      moved.push(...await this.#settle((connection) => move(connection, { ids, filter }), stores));
    }
    return moved;
  }

  /** An unlinked file still accepts writes, and whatever it accepts is lost. */
  #verifyFile(): void {
    if (this.#file === null || identityOf(this.#file.path) === this.#file.identity) return;
    const { path } = this.#file;
    if (!isConnection(this.#options.database)) {
      // The next call opens what is there then, such as a restored backup.
      this.#handlers?.close();
      this.#drop();
    }
    throw new QueueError(
      "DB",
      `${path} was deleted or replaced while it was open: this call changed nothing that is there now`,
    );
  }

  /** SQLite goes on reading only, once it opened a file so, though this user may write it by now. */
  #reopenWritable(): void {
    if (this.#file !== null && !isConnection(this.#options.database) && isWritable(this.#file.path)) {
      this.#drop();
    }
  }

  /** The next call opens the file anew. */
  #drop(): void {
    this.#connection?.close();
    this.#connection = null;
    this.#opening = null;
    this.#turn.drop();
  }

  #explain(error: unknown): QueueError {
    if (error instanceof QueueError) return error;
    const where = typeof this.#options.database === "string"
      ? this.#options.database
      : this.#file?.path ?? "database";
    const path = where === "database" || where === ":memory:" ? null : where;
    return new QueueError("DB", `${where}: ${explainFault(error, path)}`, { cause: error });
  }

  get #isClosed(): boolean {
    return this.#closing !== null;
  }

  #rejectClosed(): Promise<never> {
    return Promise.reject(new QueueError("CLOSED", "the queue is closed"));
  }
}

function checkOptions(options: SqliteOptions): void {
  const { database, synchronous } = options;
  const refuse = (key: string, value: unknown, why: string): never => {
    const shown = typeof value === "string"
      ? JSON.stringify(value)
      : typeof value === "object" && value !== null
      ? "(object)"
      : String(value);
    throw new QueueError("CONFIG", `${key}=${shown}: ${why}`);
  };
  if (
    typeof database === "string"
      ? database.trim() === "" || /^file:/i.test(database)
      : !isConnection(database)
  ) {
    refuse(
      "database",
      database,
      "expected a path, :memory:, or an open connection of node:sqlite, bun:sqlite, better-sqlite3 or @db/sqlite",
    );
  }
  if (synchronous !== undefined && synchronous !== "normal" && synchronous !== "full") {
    refuse("synchronous", synchronous, "expected normal or full");
  }
  if (synchronous === "full" && typeof database !== "string") {
    refuse("synchronous", synchronous, "a connection of yours has its own: PRAGMA synchronous = FULL");
  }
  const unknown = Object.keys(options).find((key) => !OPTIONS.includes(key));
  if (unknown !== undefined) {
    throw new QueueError("CONFIG", `options.${unknown}: no such setting; expected ${OPTIONS.join(", ")}`);
  }
}
