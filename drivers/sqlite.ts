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
import { mkdirSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type {
  Driver,
  FailedJob,
  FailedSelection,
  Failure,
  KeyedJob,
  Listener,
  Moment,
  Moved,
  NewJob,
  Pushed,
  QueueCounts,
  Release,
  Reservation,
  Reserved,
  ReserveRequest,
} from "../core/driver.ts";
import { QueueError } from "../core/errors.ts";
import { Bell } from "./sqlite/bell.ts";
import { adapt, type Connection, faultOf, isConnection, openFile, type Value } from "./sqlite/connection.ts";
import { deleteFailed, FailedJobs, insertFailed, renewed, selectFailed } from "./sqlite/failed_jobs.ts";
import { migrate } from "./sqlite/schema.ts";
import { Turn } from "./sqlite/turn.ts";

/** What a {@linkcode SqliteDriver} works on. */
export interface SqliteOptions {
  /**
   * A path, whose folder is made, or `":memory:"`; or an open connection of `node:sqlite`, `bun:sqlite`,
   * `better-sqlite3` or `@db/sqlite`, which stays the app's to configure and to close.
   */
  database: unknown;
  /** `"normal"` (default) survives a crash of the process, `"full"` a power cut too. Not applied to a connection of the app's. */
  synchronous?: "normal" | "full";
  /** Gets a line where the file's surroundings are unsafe, such as a network file system. */
  log?: { warn(line: string): void };
}

/** How many expired reservations one transaction frees at most. */
const RECLAIM_LIMIT = 100;

/** How often expired reservations are looked for while there is other work, in milliseconds. */
const RECLAIM_EVERY = 1000;

/** How often an idle worker gives free pages back, in milliseconds, and how many: about 4 ms of work. */
const TIDY_EVERY = 1000;
const TIDY_PAGES = 256;

/** From this many jobs on, one UPDATE over a JSON list is faster than one for each. */
const MANY = 8;

/** Jobs in SQLite. */
export class SqliteDriver implements Driver {
  readonly #options: SqliteOptions;
  readonly #turn: Turn;
  /** The next reservation's token: from a random start, so that no two processes ever use one. */
  #token: number = Math.floor(Math.random() * 2 ** 52);
  #opening: Promise<Connection> | null = null;
  #connection: Connection | null = null;
  #bell: Bell = new Bell(null);
  /** The file that is open, to notice when its name leads elsewhere; `null` for `:memory:`. */
  #file: { path: string; identity: string } | null = null;
  #reclaimedAt = -Infinity;
  #tidiedAt = -Infinity;
  readonly #listeners = new Map<() => boolean, Listener>();
  #closed = false;

  /**
   * Checks the options. Nothing is opened until the first call.
   *
   * @param options What to work on.
   * @throws {QueueError} `CONFIG` when `database` is neither a path nor a connection.
   */
  constructor(options: SqliteOptions) {
    const { database } = options;
    if (
      typeof database === "string"
        ? database.trim() === "" || /^file:/i.test(database)
        : !isConnection(database)
    ) {
      const shown = typeof database === "string"
        ? JSON.stringify(database)
        : typeof database === "object" && database !== null
        ? "(object)"
        : String(database);
      throw new QueueError(
        "CONFIG",
        `database=${shown}: ` +
          "expected a path, :memory:, or an open connection of node:sqlite, bun:sqlite, better-sqlite3 or @db/sqlite",
      );
    }
    this.#options = options;
    this.#turn = new Turn({
      connect: () => this.#open(),
      verify: () => this.#verifyFile(),
      stored: () => this.#bell.ring(),
      explain: (error) => this.#explain(error),
    });
  }

  /** The connection: the app's own, or the one that this driver opened. */
  get database(): unknown {
    return this.#connection?.raw;
  }

  /** Opens the file and makes or upgrades its tables. */
  async open(): Promise<void> {
    this.#refuseClosed();
    try {
      await this.#open();
    } catch (error) {
      throw this.#explain(error);
    }
  }

  /** Stores jobs; all pushes of one turn go into one insert. */
  push(jobs: readonly NewJob[], now: Moment): Promise<string[]> {
    if (this.#closed) return this.#rejectClosed();
    if (jobs.length === 0) return Promise.resolve([]);
    const at = now ?? Date.now();
    const item = jobs.map((job) => toRow(job, at));
    return this.#turn.submit({ rank: 0, item, run: insertPushes, stores: true });
  }

  /** Stores the jobs whose key is not known yet. */
  pushOnce(jobs: readonly KeyedJob[], now: Moment): Promise<Pushed[]> {
    if (this.#closed) return this.#rejectClosed();
    const at = now ?? Date.now();
    return this.#turn.submit({
      rank: 0,
      item: null,
      run: (connection) => [insertOnce(connection, jobs, at)],
      stores: true,
    });
  }

  /** Takes due jobs; only reads where there are none. */
  reserve(request: ReserveRequest): Promise<Reserved> {
    if (this.#closed) return this.#rejectClosed();
    return this.#turn.submit({
      rank: 2,
      item: request,
      peek: (connection) => this.#peek(connection, request, request.now ?? Date.now()),
      run: (connection) => [this.#reserve(connection, request, request.now ?? Date.now())],
    });
  }

  /** Renews reservations. */
  extend(held: readonly Reservation[], now: Moment): Promise<Reservation[]> {
    const seconds = (now ?? Date.now()) / 1000;
    return this.#settle((connection) =>
      held.filter((job) =>
        connection.run(
          "UPDATE jobs SET reserved_at = ? WHERE id = ? AND attempts = ? AND token = ?",
          seconds,
          ...fence(job),
        ) === 0
      )
    );
  }

  /** Deletes a job that is done; all completions of one turn go into one delete. */
  complete(held: Reservation): Promise<boolean> {
    if (this.#closed) return this.#rejectClosed();
    return this.#turn.submit({ rank: 1, item: held, run: deleteDone });
  }

  /** Makes a job available again. */
  release(held: Reservation, how: Release, now: Moment): Promise<boolean> {
    const at = now ?? Date.now();
    return this.#settle(
      (connection) =>
        connection.run(
          `UPDATE jobs SET reserved_at = NULL, token = NULL, available_at = coalesce(?, available_at),
            attempts = attempts - ? WHERE id = ? AND attempts = ? AND token = ?`,
          how.delay === null ? null : (at + how.delay) / 1000,
          how.counted ? 0 : 1,
          ...fence(held),
        ) > 0,
      true,
    );
  }

  /** Moves a job to `failed_jobs`, in the same transaction. */
  fail(held: Reservation, why: Failure): Promise<boolean> {
    return this.#settle((connection) => {
      if (connection.run(DELETE, ...fence(held)) === 0) return false;
      insertFailed(connection, held, why);
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
    return this.#read((connection) => {
      const names: string[] = [];
      let row = connection.get("SELECT min(queue) AS queue FROM jobs WHERE reserved_at IS NULL");
      while (typeof row?.queue === "string") {
        names.push(row.queue);
        row = connection.get(
          "SELECT queue FROM jobs WHERE reserved_at IS NULL AND queue > ? ORDER BY queue LIMIT 1",
          row.queue,
        );
      }
      return names;
    });
  }

  /** Counts by queue and state. */
  counts(now: Moment, retryAfter: number): Promise<QueueCounts[]> {
    const at = now ?? Date.now();
    return this.#read((connection) => countJobs(connection, at / 1000, (at - retryAfter) / 1000));
  }

  /** Reads `failed_jobs`. */
  failed(selection: FailedSelection): Promise<FailedJob[]> {
    return this.#read((connection) => selectFailed(connection, selection));
  }

  /** Moves failed jobs back, each with its queue, priority and, where it is free, its id. */
  retry(selection: FailedSelection, now: Moment): Promise<Moved[]> {
    const at = now ?? Date.now();
    return this.#settle((connection) =>
      selectFailed(connection, selection).map((job) => {
        deleteFailed(connection, job.id);
        const live = connection.get("SELECT 1 FROM jobs WHERE id = ?", Number(job.id)) !== undefined;
        connection.run(
          "INSERT INTO jobs (id, name, payload, available_at, queue, priority) VALUES (?, ?, ?, ?, ?, ?)",
          live ? null : Number(job.id),
          ...toRow(renewed(job), at),
        );
        return { id: job.id, name: job.name };
      }), true);
  }

  /**
   * The `failed_jobs` table, for a driver whose failures live in the app's database while its jobs do not.
   *
   * @internal
   */
  get failures(): FailedJobs {
    return new FailedJobs((run) => this.#settle(run));
  }

  /** Deletes failed jobs. */
  forget(selection: FailedSelection): Promise<Moved[]> {
    return this.#settle((connection) =>
      selectFailed(connection, selection).map((job) => {
        deleteFailed(connection, job.id);
        return { id: job.id, name: job.name };
      })
    );
  }

  /** Finishes what is pending; closes the connection if this driver opened it. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#turn.drained();
    await this.#opening?.catch(() => {});
    this.#bell.close();
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
      await unlocked(connection, () => migrate(connection));
    } catch (error) {
      if (typeof database === "string") connection.close();
      throw error;
    }
    const path = connection.all("PRAGMA database_list").find((row) => row.name === "main")?.file;
    this.#file = path ? { path: String(path), identity: identityOf(String(path)) } : null;
    this.#bell.close();
    this.#bell = new Bell(this.#file === null ? null : `${this.#file.path}-bell`);
    for (const wake of this.#listeners.keys()) this.#listeners.set(wake, this.#bell.listen(wake));
    if (this.#file !== null) warnOfVersion(connection, this.#options.log);
    this.#connection = connection;
    return connection;
  }

  async #openPath(path: string): Promise<Connection> {
    if (path !== ":memory:") {
      if (this.#file !== null && identityOf(this.#file.path) === "") {
        throw new QueueError("DB", `${this.#file.path} was deleted while it was open: restore it or restart`);
      }
      makeFolder(dirname(path));
      warnOfNetwork(path, this.#options.log);
    }
    const connection = await openFile(path);
    try {
      await unlocked(connection, () => {
        // Only has an effect before the first table, so on new files.
        connection.all("PRAGMA auto_vacuum = INCREMENTAL");
        connection.all("PRAGMA journal_mode = WAL");
      });
      connection.all(`PRAGMA synchronous = ${this.#options.synchronous === "full" ? "FULL" : "NORMAL"}`);
      connection.all("PRAGMA journal_size_limit = 67108864");
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  // Reserving

  #peek(connection: Connection, request: ReserveRequest, now: number): Reserved | undefined {
    if (expired(connection, now - request.retryAfter)) return undefined;
    let nextDue: number | null = null;
    for (const queue of new Set(request.queues.map((share) => share.queue))) {
      for (let below = HIGHEST;;) {
        const head = headOf(connection, queue, below);
        if (head === undefined) break;
        if (head.available_at <= now / 1000) return undefined;
        nextDue = earlier(nextDue, head);
        below = head.priority;
      }
    }
    this.#tidy(connection, now);
    return { jobs: [], nextIn: nextDue === null ? null : nextDue - now };
  }

  #reserve(connection: Connection, request: ReserveRequest, now: number): Reserved {
    const jobs: Reservation[] = [];
    const expiry = now - request.retryAfter;
    const overdue = Math.abs(now - this.#reclaimedAt) >= RECLAIM_EVERY;
    if (overdue) this.#reclaim(connection, now, expiry);
    let nextDue = this.#take(connection, request, now, jobs);
    if (jobs.length < request.limit && !overdue && expired(connection, expiry)) {
      this.#reclaim(connection, now, expiry);
      nextDue = this.#take(connection, request, now, jobs);
    }
    return { jobs, nextIn: nextDue === null ? null : Math.max(0, nextDue - now) };
  }

  /** Frees expired reservations, in one bounded step; the rest follow with the next reserve. */
  #reclaim(connection: Connection, now: number, expiry: number): void {
    const freed = connection.run(
      `UPDATE jobs SET reserved_at = NULL, token = NULL
        WHERE id IN (SELECT id FROM jobs WHERE reserved_at <= ? ORDER BY reserved_at LIMIT ${RECLAIM_LIMIT})`,
      expiry / 1000,
    );
    if (freed < RECLAIM_LIMIT) this.#reclaimedAt = now;
  }

  /** Adds to `jobs` until the request is filled; returns when the next job is due where it is not. */
  #take(
    connection: Connection,
    request: ReserveRequest,
    now: number,
    jobs: Reservation[],
  ): number | null {
    let nextDue: number | null = null;
    for (const { queue, limit } of request.queues) {
      const full = Math.min(request.limit + request.prefetch, jobs.length + limit);
      for (let below = HIGHEST; jobs.length < full;) {
        const head = headOf(connection, queue, below);
        if (head === undefined) break;
        if (head.available_at <= now / 1000) {
          this.#takeFrom(connection, queue, head.priority, full, request.limit, now, jobs);
          // Once more where all due ones were taken, for the first delayed one of this priority.
          below = jobs.length < request.limit ? head.priority + 1 : head.priority;
        } else {
          nextDue = earlier(nextDue, head);
          below = head.priority;
        }
      }
    }
    return jobs.length < request.limit ? nextDue : null;
  }

  #takeFrom(
    connection: Connection,
    queue: string,
    priority: number,
    full: number,
    limit: number,
    now: number,
    jobs: Reservation[],
  ): void {
    const rows = connection.all(
      `SELECT id, name, payload, attempts FROM jobs
        WHERE queue = ${FIXED} AND priority = ${FIXED} AND reserved_at IS NULL AND available_at <= ${FIXED}
        ORDER BY available_at, id LIMIT ${FIXED}`,
      queue,
      priority,
      now / 1000,
      full - jobs.length,
    );
    const token = this.#token++;
    const ids: number[] = [];
    for (const row of rows) {
      // What is prefetched may wait here for long: a job that failed or crashed before is not made to.
      if (jobs.length >= limit && row.attempts !== 0) continue;
      ids.push(row.id as number);
      jobs.push({
        id: String(row.id),
        name: row.name as string,
        payload: row.payload as string,
        attempt: Number(row.attempts) + 1,
        queue,
        priority,
        token: String(token),
      });
    }
    hold(connection, ids, now / 1000, token);
  }

  /** Gives pages that many done jobs left free back to the file system, a few at a time, while there is no work. */
  #tidy(connection: Connection, now: number): void {
    if (isConnection(this.#options.database) || Math.abs(now - this.#tidiedAt) < TIDY_EVERY) return;
    this.#tidiedAt = now;
    const free = Number(Object.values(connection.get("PRAGMA freelist_count") ?? {})[0]);
    // Where the file has no auto_vacuum, as one of the original's, this does nothing.
    if (free > TIDY_PAGES) connection.all(`PRAGMA incremental_vacuum(${TIDY_PAGES})`);
  }

  // Settling and reading

  #settle<Result>(run: (connection: Connection) => Result, stores = false): Promise<Result> {
    if (this.#closed) return this.#rejectClosed();
    return this.#turn.submit({ rank: 1, item: null, run: (connection) => [run(connection)], stores });
  }

  #read<Result>(read: (connection: Connection) => Result): Promise<Result> {
    if (this.#closed) return this.#rejectClosed();
    return this.#turn.submit({ rank: 2, item: null, peek: read, run: (connection) => [read(connection)] });
  }

  /** An unlinked file still accepts writes, and whatever it accepts is lost. */
  #verifyFile(): void {
    if (this.#file === null || identityOf(this.#file.path) === this.#file.identity) return;
    const { path } = this.#file;
    if (!isConnection(this.#options.database)) {
      // The next call opens what is there then, such as a restored backup.
      this.#connection?.close();
      this.#connection = null;
      this.#opening = null;
      this.#turn.drop();
    }
    throw new QueueError("DB", `${path} was deleted or replaced while it was open: nothing was stored`);
  }

  #explain(error: unknown): QueueError {
    if (error instanceof QueueError) return error;
    const where = typeof this.#options.database === "string"
      ? this.#options.database
      : this.#file?.path ?? "database";
    const what = faultOf(error) === "busy"
      ? "another connection has held the write lock for 10 s"
      : error instanceof Error
      ? error.message
      : String(error);
    return new QueueError("DB", `${where}: ${what}`, { cause: error });
  }

  #refuseClosed(): void {
    if (this.#closed) throw new QueueError("CLOSED", "the queue is closed");
  }

  #rejectClosed(): Promise<never> {
    return Promise.reject(new QueueError("CLOSED", "the queue is closed"));
  }
}

/**
 * A parameter that the planner does not look into. SQLite compiles a statement anew whenever a parameter changes that
 * the plan may depend on: one in LIMIT everywhere, and in Bun's build one that is compared in an ordered query.
 * Measured for the reservation of one job: 25–70 µs with plain parameters, 2–6 µs with these.
 */
const FIXED = "ifnull(?, 0)";

const DELETE = "DELETE FROM jobs WHERE id = ? AND attempts = ? AND token = ?";

/**
 * What a settlement must match. The token alone would do for our own workers; the attempt catches the original's,
 * which take an expired job without changing the token.
 */
function fence(held: Reservation): [id: number, attempts: number, token: number] {
  return [Number(held.id), held.attempt, Number(held.token)];
}

/** Deletes what is still held, and says of each whether it was. */
function deleteDone(connection: Connection, jobs: readonly Reservation[]): boolean[] {
  if (jobs.length < MANY) return jobs.map((held) => connection.run(DELETE, ...fence(held)) > 0);
  const done = new Set<Reservation>();
  const batches = new Map<string, Reservation[]>();
  for (const held of jobs) {
    const key = `${held.token} ${held.attempt}`;
    const batch = batches.get(key);
    if (batch === undefined) batches.set(key, [held]);
    else batch.push(held);
  }
  for (const batch of batches.values()) {
    const [, attempt, token] = fence(batch[0]);
    const deleted = connection.all(
      "DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?)) AND attempts = ? AND token = ? RETURNING id",
      JSON.stringify(batch.map(({ id }) => Number(id))),
      attempt,
      token,
    );
    const ids = new Set(deleted.map(({ id }) => String(id)));
    for (const held of batch) if (ids.delete(held.id)) done.add(held);
  }
  // Of two completions of one reservation, the first.
  return jobs.map((held) => done.delete(held));
}

function hold(connection: Connection, ids: number[], seconds: number, token: number): void {
  const SET = "UPDATE jobs SET reserved_at = ?, token = ?, attempts = attempts + 1 WHERE id";
  if (ids.length >= MANY) {
    connection.run(`${SET} IN (SELECT value FROM json_each(?))`, seconds, token, JSON.stringify(ids));
  } else {
    for (const id of ids) connection.run(`${SET} = ?`, seconds, token, id);
  }
}

/**
 * The first job of the highest priority below `below`: one seek. A query over all priorities would read every delayed
 * job of the queue (measured: 244 ms at 1,000,000).
 */
function headOf(connection: Connection, queue: string, below: number): Head | undefined {
  return connection.get(
    `SELECT priority, available_at FROM jobs WHERE queue = ${FIXED} AND reserved_at IS NULL AND priority < ${FIXED}
      ORDER BY priority DESC, available_at LIMIT 1`,
    queue,
    below,
  ) as Head | undefined;
}

type Head = { priority: number; available_at: number };

function expired(connection: Connection, expiry: number): boolean {
  return connection.get("SELECT 1 FROM jobs WHERE reserved_at <= ? LIMIT 1", expiry / 1000) !== undefined;
}

/** Above every priority. */
const HIGHEST = Number.MAX_SAFE_INTEGER;

function earlier(due: number | null, head: Head): number {
  const next = Math.round(head.available_at * 1000);
  return due === null ? next : Math.min(due, next);
}

/** How many rows one INSERT takes at a time: few texts, so that each is compiled once. */
const LOTS = [256, 64, 8, 1];

/** One insert for all, and the ids of each. */
function insertPushes(connection: Connection, pushes: readonly Value[][][]): string[][] {
  const ids = insertRows(connection, pushes.flat());
  let from = 0;
  return pushes.map((rows) => ids.slice(from, from += rows.length));
}

function insertRows(connection: Connection, rows: readonly Value[][]): string[] {
  const ids: string[] = [];
  for (let from = 0; from < rows.length;) {
    const lot = LOTS.find((size) => size <= rows.length - from)!;
    connection.run(
      `INSERT INTO jobs (name, payload, available_at, queue, priority) VALUES (?, ?, ?, ?, ?)${
        ", (?, ?, ?, ?, ?)".repeat(lot - 1)
      }`,
      ...rows.slice(from, from + lot).flat(),
    );
    const last = Number(connection.get("SELECT last_insert_rowid() AS id")!.id);
    for (let id = last - lot + 1; id <= last; id++) ids.push(String(id));
    from += lot;
  }
  return ids;
}

function toRow(job: NewJob, now: number): Value[] {
  return [job.name, job.payload, availableAt(job, now), job.queue, job.priority];
}

/**
 * What is due at once gets whole seconds: the original's workers, which know no fraction, then see it at once, and
 * jobs of one second run in the order of their ids.
 */
function availableAt(job: NewJob, now: number): number {
  return job.delay <= 0 ? Math.floor(now / 1000) : (now + job.delay) / 1000;
}

/** How long a key is known, in seconds, and how many old ones a push forgets at most. */
const KEY_LIFE = 86_400;
const KEYS_FORGOTTEN = 100;

/** Stores each job whose key is new. */
function insertOnce(connection: Connection, jobs: readonly KeyedJob[], now: number): Pushed[] {
  const seconds = now / 1000;
  connection.run(
    `DELETE FROM queue_keys WHERE key IN
      (SELECT key FROM queue_keys WHERE at <= ? ORDER BY at LIMIT ${KEYS_FORGOTTEN})`,
    seconds - KEY_LIFE,
  );
  return jobs.map((job) => {
    const known = job.key === null
      ? undefined
      : connection.get("SELECT job FROM queue_keys WHERE key = ? AND at > ?", job.key, seconds - KEY_LIFE);
    if (known !== undefined) return { id: String(known.job), created: false };
    const [id] = insertRows(connection, [toRow(job, now)]);
    if (job.key !== null) {
      connection.run(
        "INSERT OR REPLACE INTO queue_keys (key, job, at) VALUES (?, ?, ?)",
        job.key,
        Number(id),
        seconds,
      );
    }
    return { id, created: true };
  });
}

function countJobs(connection: Connection, now: number, expiry: number): QueueCounts[] {
  const byQueue = new Map<string, { -readonly [Key in keyof QueueCounts]: QueueCounts[Key] }>();
  const of = (queue: unknown) => {
    const name = String(queue);
    let counts = byQueue.get(name);
    if (counts === undefined) {
      counts = { queue: name, ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null };
      byQueue.set(name, counts);
    }
    return counts;
  };
  for (
    const row of connection.all(
      `SELECT queue, count(*) AS jobs, sum(available_at <= ?) AS due, min(available_at) AS first
        FROM jobs WHERE reserved_at IS NULL GROUP BY queue`,
      now,
    )
  ) {
    const counts = of(row.queue);
    counts.ready = Number(row.due);
    counts.delayed = Number(row.jobs) - counts.ready;
    if (counts.ready > 0) counts.oldest = Math.round(Number(row.first) * 1000);
  }
  for (
    const row of connection.all(
      `SELECT queue, count(*) AS jobs, sum(reserved_at <= ?) AS expired, min(available_at) AS first
        FROM jobs WHERE reserved_at IS NOT NULL GROUP BY queue`,
      expiry,
    )
  ) {
    const counts = of(row.queue);
    counts.ready += Number(row.expired);
    counts.reserved = Number(row.jobs) - Number(row.expired);
  }
  for (const row of connection.all("SELECT queue, count(*) AS jobs FROM failed_jobs GROUP BY queue")) {
    of(row.queue).failed = Number(row.jobs);
  }
  return [...byQueue.values()].sort((a, b) => a.queue < b.queue ? -1 : 1);
}

/**
 * Runs `attempt` once nobody is in the way: another process, against which at a simultaneous start even a busy timeout
 * does not help, or the app's own transaction on a connection that it brought.
 */
async function unlocked(connection: Connection, attempt: () => void): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (true) {
    try {
      if (!connection.inTransaction) return attempt();
      if (performance.now() > deadline) {
        throw new Error("the app's own transaction on this connection stayed open for 10 s");
      }
    } catch (error) {
      if (faultOf(error) !== "busy" || performance.now() > deadline) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 1 + Math.random() * 10));
  }
}

/** Device and inode; empty where nothing has that name. */
function identityOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? "" : `${stat.dev}:${stat.ino}`;
}

/** Where the folder is missing. In Deno, a permission for the file alone does not let us look: opening it tells then. */
function makeFolder(folder: string): void {
  try {
    if (statSync(folder, { throwIfNoEntry: false }) !== undefined) return;
  } catch {
    return;
  }
  makeMissing(folder);
}

/**
 * A recursive mkdirSync never returns in Node where the file system refuses with ENOENT (/proc), and in Deno it asks
 * for the folder above even where that exists.
 */
function makeMissing(folder: string): void {
  const parent = dirname(folder);
  for (const last of [false, true]) {
    try {
      return void mkdirSync(folder);
    } catch (error) {
      const { code } = error as { code?: string };
      // Another process was first.
      if (code === "EEXIST") return;
      if (last || code !== "ENOENT" || parent === folder) throw error;
      makeMissing(parent);
    }
  }
}

/** NFS, SMB and CIFS, by the magic numbers of statfs(2): WAL needs all processes on one host. */
const NETWORK_FILE_SYSTEMS = [0x6969, 0x517b, 0xff534d42, 0xfe534d42];

function warnOfNetwork(path: string, log: SqliteOptions["log"]): void {
  if (!NETWORK_FILE_SYSTEMS.includes(fileSystemOf(path))) return;
  log?.warn(
    `queue: ${path} is on a network file system: SQLite's WAL can lose data there; use a local disk or another store`,
  );
}

/** The first release without a fault by which several connections can lose committed writes. */
const SAFE_VERSION = [3, 51, 3];

function warnOfVersion(connection: Connection, log: SqliteOptions["log"]): void {
  const version = String(connection.get("SELECT sqlite_version() AS version")?.version);
  const [major, minor, patch] = version.split(".").map(Number);
  const [safeMajor, safeMinor, safePatch] = SAFE_VERSION;
  if ((major - safeMajor || minor - safeMinor || patch - safePatch) >= 0) return;
  log?.warn(
    `queue: SQLite ${version} can lose writes where several connections share a file (https://sqlite.org/wal.html#walresetbug): ` +
      `use ${SAFE_VERSION.join(".")} or newer`,
  );
}

/** Its magic number; 0 where Deno has no permission to tell, or would ask a person for it. */
function fileSystemOf(path: string): number {
  try {
    const { Deno } = globalThis as { Deno?: { permissions: { querySync(what: object): { state: string } } } };
    const state = Deno?.permissions.querySync({ name: "sys", kind: "statfs" }).state ?? "granted";
    return state === "granted" ? statfsSync(dirname(path)).type >>> 0 : 0;
  } catch {
    return 0;
  }
}
