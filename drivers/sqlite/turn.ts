/**
 * One transaction a turn: whatever this process asks of the database within one turn of the event loop goes into one
 * `BEGIN IMMEDIATE … COMMIT`, and no promise settles before the commit.
 *
 * @module
 */
import { setImmediate } from "node:timers";
import type { QueueError } from "../../core/errors.ts";
import { type Connection, faultOf } from "./connection.ts";
import { gaveUp, LOCK_DEADLINE, type Obstacle, type TransactionWatch } from "./lock.ts";

/** The order within a turn: what was dispatched can be reserved at once, and what was settled frees its place first. */
export type Rank = 0 | 1 | 2;

/** One piece of work. */
export interface Task<Item, Result> {
  /** Lower ranks run first; equal ones in the order of their submission. */
  readonly rank: Rank;
  /** What `run` gets. */
  readonly item: Item;
  /**
   * Runs inside the transaction: one result an item. Neighbours in a turn with the same function share a call. It may
   * be called again after a rollback, so it changes nothing but the database. A task without it only reads.
   */
  readonly run?: (connection: Connection, items: readonly Item[]) => Result[];
  /** Reads only, without the write lock: the result where there is nothing to write, else `undefined`. */
  readonly peek?: (connection: Connection, item: Item) => Result | undefined;
  /** Whether it makes jobs ready: idle workers hear of it after the commit. */
  readonly stores?: boolean;
}

/** What a turn needs of the driver. */
export interface Surroundings {
  /** Opens the database; called before the first turn, and again after `drop`. */
  connect(): Promise<Connection>;
  /** Throws where the open file is not the one that its name leads to. */
  verify(): void;
  /** Called where a write was refused because the file, as it was opened, may only be read. */
  refused(): void;
  /** Knows whether the app has a transaction open. */
  readonly watch: TransactionWatch;
  /** Called after a commit that made jobs ready. */
  stored(): void;
  /** By when everything that is pending is given up, in milliseconds of `performance.now()`: the driver is being closed. */
  leaveAt(): number;
  /** Makes the error that callers see. */
  explain(error: unknown): QueueError;
}

// deno-lint-ignore no-explicit-any -- tasks of all kinds wait in one line
interface Pending extends Task<any, unknown> {
  resolve(result: unknown): void;
  reject(error: unknown): void;
  /** When it gives up waiting for the write lock, in milliseconds of `performance.now()`. */
  readonly deadline: number;
}

/** How often the file is verified while nothing is stored, in milliseconds. */
const VERIFY_EVERY = 1000;

/** Coalesces the writes of one process. */
export class Turn {
  readonly #around: Surroundings;
  #connection: Connection | null = null;
  #pending: Pending[] = [];
  #scheduled = false;
  #opening = false;
  #timer: ReturnType<typeof setTimeout> | null = null;
  /** Since when somebody has been in the way, in milliseconds of `performance.now()`. */
  #busySince: number | null = null;
  #verifiedAt = -Infinity;
  #drained: (() => void)[] = [];

  /** @param around What it needs of the driver. */
  constructor(around: Surroundings) {
    this.#around = around;
  }

  /** Puts a task into the next turn. */
  submit<Item, Result>(task: Task<Item, Result>): Promise<Result> {
    return new Promise<Result>((resolve, reject) => this.put(task, resolve, reject));
  }

  /** Puts a task into the next turn, and calls one of both after it. */
  put<Item, Result>(
    { rank, item, run, peek, stores }: Task<Item, Result>,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
  ): void {
    const deadline = performance.now() + LOCK_DEADLINE;
    this.#pending.push({
      rank,
      item,
      run,
      peek,
      stores,
      resolve: resolve as (result: unknown) => void,
      reject,
      deadline,
    });
    this.#schedule();
  }

  /** Resolves once nothing is pending. */
  drained(): Promise<void> {
    if (this.#pending.length === 0 && !this.#opening) return Promise.resolve();
    return new Promise((resolve) => this.#drained.push(resolve));
  }

  /** Forgets the connection: the next turn opens it anew. */
  drop(): void {
    this.#connection = null;
  }

  #schedule(): void {
    if (this.#scheduled || this.#timer !== null || this.#opening) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#turn();
    });
  }

  #turn(): void {
    if (this.#connection === null) return this.#open();
    const tasks = this.#pending;
    this.#pending = [];
    this.#flush(this.#connection, tasks);
    if (this.#pending.length > 0) this.#schedule();
    else for (const resolve of this.#drained.splice(0)) resolve();
  }

  #open(): void {
    this.#opening = true;
    this.#around.connect().then(
      (connection) => {
        this.#connection = connection;
        this.#opening = false;
        this.#turn();
      },
      (error) => {
        this.#opening = false;
        this.#rejectAll(this.#pending.splice(0), error);
        for (const resolve of this.#drained.splice(0)) resolve();
      },
    );
  }

  #flush(connection: Connection, tasks: Pending[]): void {
    try {
      // The app may have a transaction of its own open on a connection that it brought: it comes first.
      if (this.#around.watch.isOpen(connection)) return this.#wait(tasks, "transaction");
      this.#verify(tasks.some((task) => task.stores));
    } catch (error) {
      return this.#rejectAll(tasks, error);
    }
    const reading = tasks.filter((task) => task.run === undefined);
    let writing = reading.length === 0 ? tasks : tasks.filter((task) => task.run !== undefined);
    if (writing.every((task) => task.peek !== undefined)) writing = this.#peek(connection, writing);
    if (writing.length > 0) this.#write(connection, writing.sort((a, b) => a.rank - b.rank));
    // After the commit, so that reads see it and the write lock is not held for them.
    if (reading.length > 0) this.#read(connection, reading);
    if (this.#timer === null) this.#busySince = null;
  }

  #read(connection: Connection, tasks: Pending[]): void {
    // The file may have been found replaced meanwhile.
    if (this.#connection !== connection) return void this.#pending.push(...tasks);
    const locked = this.#peek(connection, tasks);
    if (locked.length > 0) this.#wait(locked, "lock");
  }

  /** Each time jobs are stored, since a file that lost its name still accepts them; else now and then. */
  #verify(storing: boolean): void {
    const now = performance.now();
    if (!storing && now - this.#verifiedAt < VERIFY_EVERY) return;
    this.#around.verify();
    this.#verifiedAt = now;
  }

  /** Settles what has nothing to write, and returns the rest. */
  #peek(connection: Connection, tasks: Pending[]): Pending[] {
    return tasks.filter((task) => {
      try {
        const result = task.peek!(connection, task.item);
        if (result === undefined && task.run !== undefined) return true;
        task.resolve(result);
        return false;
      } catch (error) {
        // A lock is waited for before the transaction, where there is a deadline.
        if (faultOf(error) === "busy") return true;
        task.reject(this.#around.explain(error));
        return false;
      }
    });
  }

  #write(connection: Connection, tasks: Pending[]): void {
    const error = this.#commit(connection, tasks);
    if (error === null) return;
    if (faultOf(error) === "busy") return this.#wait(tasks, "lock", error);
    if (faultOf(error) === "read-only") {
      this.#rejectAll(tasks, error);
      return this.#around.refused();
    }
    if (tasks.length === 1) return this.#rejectAll(tasks, error);
    // One task's fault must not fail the others.
    for (const [index, task] of tasks.entries()) {
      const error = this.#commit(connection, [task]);
      if (error === null) continue;
      if (faultOf(error) === "busy") return this.#wait(tasks.slice(index), "lock", error);
      this.#rejectAll([task], error);
    }
  }

  /** Runs tasks in one transaction and settles them; the error, with nothing changed or settled, where that fails. */
  #commit(connection: Connection, tasks: Pending[]): unknown {
    const results: unknown[] = [];
    try {
      connection.run("BEGIN IMMEDIATE");
      for (let from = 0; from < tasks.length;) {
        let to = from + 1;
        while (to < tasks.length && tasks[to].run === tasks[from].run) to++;
        const items = tasks.slice(from, to).map((task) => task.item);
        for (const result of tasks[from].run!(connection, items)) results.push(result);
        from = to;
      }
      connection.run("COMMIT");
    } catch (error) {
      rollBack(connection);
      return error;
    }
    const storing = tasks.some((task) => task.stores);
    try {
      // Once more: the name may have been taken away since the first look.
      this.#verify(storing);
    } catch (error) {
      this.#rejectAll(tasks, error);
      return null;
    }
    for (const [index, task] of tasks.entries()) task.resolve(results[index]);
    if (storing) this.#around.stored();
    return null;
  }

  /** Somebody is in the way: keep everything, and try again soon. The jitter keeps the shares of processes fair. */
  #wait(tasks: Pending[], obstacle: Obstacle, cause?: unknown): void {
    const now = performance.now();
    this.#busySince ??= now;
    const closing = this.#around.leaveAt() <= now;
    const isLate = (task: Pending): boolean => closing || task.deadline <= now;
    const late = tasks.filter(isLate);
    if (late.length > 0) this.#rejectAll(late, gaveUp(obstacle, closing, cause));
    this.#pending = [...tasks.filter((task) => !isLate(task)), ...this.#pending];
    if (this.#pending.length === 0) return;
    // A lock that is held for long is asked for less often, at most each 25 ms.
    const most = Math.min(2 + (now - this.#busySince) / 50, 25);
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#turn();
    }, 0.2 + Math.random() * most);
  }

  #rejectAll(tasks: readonly Pending[], error: unknown): void {
    for (const task of tasks) task.reject(this.#around.explain(error));
  }
}

function rollBack(connection: Connection): void {
  try {
    if (connection.inTransaction) connection.run("ROLLBACK");
  } catch {
    // SQLite has rolled back by itself (disk full, I/O error): https://sqlite.org/lang_transaction.html
  }
}
