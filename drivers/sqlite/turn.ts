/**
 * One transaction a turn: whatever this process asks of the database within one turn of the event loop goes into one
 * `BEGIN IMMEDIATE … COMMIT`, and no promise settles before the commit.
 *
 * @module
 */
import { setImmediate } from "node:timers";
import type { QueueError } from "../../core/errors.ts";
import { type Connection, faultOf } from "./connection.ts";

/** The order within a turn: what was dispatched can be reserved at once, and what was settled frees its place first. */
export type Rank = 0 | 1 | 2;

/** One piece of work. `run` may be called again after a rollback, so it changes nothing but the database. */
export interface Task<Result> {
  /** Lower ranks run first; equal ones in the order of their submission. */
  readonly rank: Rank;
  /** Runs inside the transaction. */
  run(connection: Connection): Result;
  /** Reads only, before the write lock: the result where there is nothing to write, else `undefined`. */
  peek?(connection: Connection): Result | undefined;
  /** Runs after the commit, before the promise settles; what it throws rejects the promise. */
  confirm?(): void;
}

interface Pending extends Task<unknown> {
  resolve(result: unknown): void;
  reject(error: unknown): void;
  /** When it gives up waiting for the write lock, in milliseconds of `performance.now()`. */
  readonly deadline: number;
}

/** How long a call waits for another process's write lock, in milliseconds. */
const LOCK_DEADLINE = 10_000;

/** Coalesces the writes of one process. */
export class Turn {
  readonly #connect: () => Promise<Connection>;
  readonly #explain: (error: unknown) => QueueError;
  #connection: Connection | null = null;
  #pending: Pending[] = [];
  #immediate: ReturnType<typeof setImmediate> | null = null;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #opening = false;
  /** Since when the write lock could not be had, in milliseconds of `performance.now()`. */
  #busySince: number | null = null;
  #idle: (() => void)[] = [];

  /**
   * @param connect Opens the database; called before the first turn, and again after `drop`.
   * @param explain Makes the error that callers see.
   */
  constructor(connect: () => Promise<Connection>, explain: (error: unknown) => QueueError) {
    this.#connect = connect;
    this.#explain = explain;
  }

  /** Puts a task into the next turn. */
  submit<Result>(task: Task<Result>): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      this.#pending.push({
        ...task,
        resolve: resolve as (result: unknown) => void,
        reject,
        deadline: performance.now() + LOCK_DEADLINE,
      });
      this.#schedule();
    });
  }

  /** Resolves once nothing is pending. */
  drained(): Promise<void> {
    if (this.#pending.length === 0 && !this.#opening) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Forgets the connection: the next turn opens it anew. */
  drop(): void {
    this.#connection = null;
  }

  #schedule(): void {
    if (this.#immediate !== null || this.#timer !== null || this.#opening) return;
    this.#immediate = setImmediate(() => {
      this.#immediate = null;
      this.#turn();
    });
  }

  #turn(): void {
    if (this.#connection === null) return this.#open();
    const tasks = this.#pending;
    this.#pending = [];
    this.#flush(this.#connection, tasks);
    if (this.#pending.length > 0) this.#schedule();
    else if (this.#idle.length > 0) { for (const resolve of this.#idle.splice(0)) resolve(); }
  }

  #open(): void {
    this.#opening = true;
    this.#connect().then(
      (connection) => {
        this.#connection = connection;
        this.#opening = false;
        this.#turn();
      },
      (error) => {
        this.#opening = false;
        const tasks = this.#pending;
        this.#pending = [];
        for (const task of tasks) task.reject(this.#explain(error));
        for (const resolve of this.#idle.splice(0)) resolve();
      },
    );
  }

  #flush(connection: Connection, tasks: Pending[]): void {
    // The app may have a transaction of its own open on a connection that it brought: it comes first.
    if (connection.inTransaction) return this.#wait(tasks, null);
    const writing = tasks.some((task) => task.peek === undefined) ? tasks : this.#peek(connection, tasks);
    if (writing.length > 0) this.#write(connection, writing.sort((a, b) => a.rank - b.rank));
  }

  /** Settles what has nothing to write, and returns the rest. */
  #peek(connection: Connection, tasks: Pending[]): Pending[] {
    return tasks.filter((task) => {
      try {
        const result = task.peek!(connection);
        if (result !== undefined) task.resolve(result);
        return result === undefined;
      } catch (error) {
        // A lock is waited for before the transaction, where there is a deadline.
        if (faultOf(error) === "busy") return true;
        task.reject(this.#explain(error));
        return false;
      }
    });
  }

  #write(connection: Connection, tasks: Pending[]): void {
    const error = this.#commit(connection, tasks);
    if (error === null) return;
    if (faultOf(error) === "busy") return this.#wait(tasks, error);
    if (tasks.length === 1) return tasks[0].reject(this.#explain(error));
    // One task's fault must not fail the others.
    for (const [index, task] of tasks.entries()) {
      const error = this.#commit(connection, [task]);
      if (error === null) continue;
      if (faultOf(error) === "busy") return this.#wait(tasks.slice(index), error);
      task.reject(this.#explain(error));
    }
  }

  /** Runs tasks in one transaction and settles them; the error, with nothing changed or settled, where that fails. */
  #commit(connection: Connection, tasks: Pending[]): unknown {
    let results: unknown[];
    try {
      connection.run("BEGIN IMMEDIATE");
      results = tasks.map((task) => task.run(connection));
      connection.run("COMMIT");
    } catch (error) {
      rollBack(connection);
      return error;
    }
    this.#busySince = null;
    tasks.forEach((task, index) => {
      try {
        task.confirm?.();
        task.resolve(results[index]);
      } catch (error) {
        task.reject(this.#explain(error));
      }
    });
    return null;
  }

  /** Another process writes: keep everything, and try again soon. The jitter keeps the shares of processes fair. */
  #wait(tasks: Pending[], error: unknown): void {
    const now = performance.now();
    this.#busySince ??= now;
    const late = tasks.filter((task) => task.deadline <= now);
    for (const task of late) task.reject(this.#explain(error ?? new Error(OPEN_TRANSACTION)));
    this.#pending = [...tasks.filter((task) => task.deadline > now), ...this.#pending];
    if (this.#pending.length === 0) return;
    // A lock that is held for long is asked for less often, at most each 25 ms.
    const most = Math.min(2 + (now - this.#busySince) / 50, 25);
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#turn();
    }, 0.2 + Math.random() * most);
  }
}

const OPEN_TRANSACTION = `the app's own transaction on this connection stayed open for ${
  LOCK_DEADLINE / 1000
} s`;

function rollBack(connection: Connection): void {
  try {
    if (connection.inTransaction) connection.run("ROLLBACK");
  } catch {
    // SQLite has rolled back by itself (disk full, I/O error): https://sqlite.org/lang_transaction.html
  }
}
