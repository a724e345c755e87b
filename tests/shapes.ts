/**
 * Connections with the shape and the quirks of libraries that cannot be installed everywhere, over `node:sqlite`.
 *
 * @module
 */
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";

/** Whether SQL gives rows. */
const READS = /^\s*(SELECT|WITH|VALUES|PRAGMA|EXPLAIN)\b|\bRETURNING\b/i;

/**
 * As `Database` of `@db/sqlite`: `run` answers with a number, errors carry no code, and of an integer, in a column or as a
 * row id, the lowest 32 bits are read.
 */
export class DbSqlite {
  readonly path: string;
  readonly #db: DatabaseSync;

  constructor(path: string) {
    this.path = path;
    this.#db = new DatabaseSync(path, { timeout: 0 });
  }

  get inTransaction(): boolean {
    return this.#db.isTransaction;
  }

  get open(): boolean {
    return this.#db.isOpen;
  }

  get changes(): number {
    return Number(this.#db.prepare("SELECT changes() AS n").get()!.n);
  }

  get lastInsertRowId(): number {
    return Number(this.#db.prepare("SELECT last_insert_rowid() AS id").get()!.id) | 0;
  }

  /** SQL without parameters may hold many statements. */
  exec(sql: string, ...parameters: SQLInputValue[]): number {
    return uncoded(() => {
      if (parameters.length > 0) return Number(this.#db.prepare(sql).run(...parameters).changes);
      this.#db.exec(sql);
      return this.changes;
    });
  }

  run(sql: string, ...parameters: SQLInputValue[]): number {
    return this.exec(sql, ...parameters);
  }

  prepare(sql: string): DbSqliteStatement {
    return new DbSqliteStatement(uncoded(() => this.#db.prepare(sql)));
  }

  close(): void {
    this.#db.close();
  }
}

class DbSqliteStatement {
  readonly #statement: StatementSync;

  constructor(statement: StatementSync) {
    this.#statement = statement;
    statement.setReadBigInts(true);
  }

  run(...parameters: SQLInputValue[]): number {
    return uncoded(() => Number(this.#statement.run(...parameters).changes));
  }

  get(...parameters: SQLInputValue[]): unknown {
    return uncoded(() => short(this.#statement.get(...parameters)));
  }

  all(...parameters: SQLInputValue[]): unknown[] {
    return uncoded(() => this.#statement.all(...parameters).map(short));
  }

  values(...parameters: SQLInputValue[]): unknown[][] {
    return this.all(...parameters).map((row) => Object.values(row as object));
  }

  value(...parameters: SQLInputValue[]): unknown[] | undefined {
    return this.values(...parameters)[0];
  }

  finalize(): void {}
}

/** A row whose integers have 32 bits. */
function short(row: unknown): unknown {
  if (row === undefined) return row;
  const columns = Object.entries(row as Record<string, unknown>);
  return Object.fromEntries(columns.map(([name, value]) => [
    name,
    typeof value === "bigint" ? Number(BigInt.asIntN(32, value)) : value,
  ]));
}

/**
 * As `Database` of `better-sqlite3`: errors have a code such as `SQLITE_BUSY` and nothing else, a statement without
 * rows must not be read, `?1` takes no value by its place, and neither `undefined` nor a boolean can be bound.
 */
export class BetterSqlite3 {
  readonly name: string;
  readonly memory: boolean;
  readonly readonly: boolean = false;
  readonly #db: DatabaseSync;
  #safe = false;

  constructor(path: string) {
    this.name = path;
    this.memory = path === ":memory:";
    this.#db = new DatabaseSync(path, { timeout: 0 });
  }

  get inTransaction(): boolean {
    return this.#db.isOpen && this.#db.isTransaction;
  }

  get open(): boolean {
    return this.#db.isOpen;
  }

  exec(sql: string): this {
    named(() => this.#db.exec(sql));
    return this;
  }

  prepare(sql: string): BetterSqlite3Statement {
    return new BetterSqlite3Statement(sql, named(() => this.#db.prepare(sql))).safeIntegers(this.#safe);
  }

  /** Statements that are compiled from now on give BigInts. */
  defaultSafeIntegers(toggle = true): this {
    this.#safe = toggle;
    return this;
  }

  close(): this {
    if (this.#db.isOpen) this.#db.close();
    return this;
  }
}

class BetterSqlite3Statement {
  readonly reader: boolean;
  readonly #sql: string;
  readonly #statement: StatementSync;

  constructor(sql: string, statement: StatementSync) {
    this.#sql = sql;
    this.reader = READS.test(sql);
    this.#statement = statement;
  }

  safeIntegers(toggle = true): this {
    this.#statement.setReadBigInts(toggle);
    return this;
  }

  run(...parameters: SQLInputValue[]): { changes: number; lastInsertRowid: number } {
    const { changes, lastInsertRowid } = named(() => this.#statement.run(...this.#check(parameters)));
    return { changes: Number(changes), lastInsertRowid: Number(lastInsertRowid) };
  }

  get(...parameters: SQLInputValue[]): unknown {
    this.#mustRead();
    return named(() => this.#statement.get(...this.#check(parameters)));
  }

  all(...parameters: SQLInputValue[]): unknown[] {
    this.#mustRead();
    return named(() => this.#statement.all(...this.#check(parameters)));
  }

  #mustRead(): void {
    if (!this.reader) throw new TypeError("This statement does not return data. Use run() instead");
  }

  #check(parameters: SQLInputValue[]): SQLInputValue[] {
    if (/\?\d/.test(this.#sql)) throw new RangeError("Missing named parameters");
    const wanted = this.#sql.split("?").length - 1;
    if (parameters.length !== wanted) {
      throw new RangeError(
        parameters.length < wanted ? "Too few parameter values were provided" : "Too many",
      );
    }
    for (const value of parameters) {
      if (value === undefined || typeof value === "boolean") {
        throw new TypeError("SQLite3 can only bind numbers, strings, bigints, buffers, and null");
      }
    }
    return parameters;
  }
}

/** Throws the text of an error alone. */
function uncoded<Result>(run: () => Result): Result {
  try {
    return run();
  } catch (error) {
    throw new Error((error as Error).message);
  }
}

const CODES: Readonly<Record<number, string>> = { 1: "SQLITE_ERROR", 5: "SQLITE_BUSY", 6: "SQLITE_LOCKED" };

/** Throws an error with a code's name, which `exec` of Deno keeps to itself. */
function named<Result>(run: () => Result): Result {
  try {
    return run();
  } catch (error) {
    const { errcode, message } = error as { errcode?: number; message: string };
    const primary = (errcode ?? (/locked/.test(message) ? 5 : 1)) & 255;
    throw Object.assign(new Error(message), { name: "SqliteError", code: CODES[primary] ?? "SQLITE_ERROR" });
  }
}
