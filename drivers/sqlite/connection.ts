/**
 * One way to speak to the four SQLite libraries that an app may bring, told apart by their shape.
 *
 * @module
 */
import { QueueError } from "../../core/errors.ts";

/** A value that a statement takes. Booleans, dates and byte arrays are bound differently by each library: not used. */
export type Value = string | number | null;

/** A row, by column name. */
export type Row = Record<string, unknown>;

/** An open database. Statements are compiled once and kept by their text, so their number must be bounded. */
export interface Connection {
  /** Runs a statement that returns no rows, and says how many it changed. */
  run(sql: string, ...parameters: Value[]): number;
  /** The first row of a statement. */
  get(sql: string, ...parameters: Value[]): Row | undefined;
  /** All rows of a statement; the caller bounds them. */
  all(sql: string, ...parameters: Value[]): Row[];
  /** Whether a transaction is open on it, ours or the app's. */
  readonly inTransaction: boolean;
  /** The library's own object: what handlers get as `job.db`. */
  readonly raw: unknown;
  /** Closes it. */
  close(): void;
}

/** What `node:sqlite`, `bun:sqlite`, `better-sqlite3` and `@db/sqlite` have in common. */
export interface Library {
  /** Compiles one statement. */
  prepare(sql: string): Statement;
  /** Runs SQL text. */
  exec(sql: string): unknown;
  /** Closes it. */
  close(): void;
  /** `node:sqlite`. */
  readonly isTransaction?: boolean;
  /** As above. */
  readonly isOpen?: boolean;
  /** The other three. */
  readonly inTransaction?: boolean;
}

/** A compiled statement. */
export interface Statement {
  /** The number of changes, or an object that has it. */
  run(...parameters: Value[]): unknown;
  /** `bun:sqlite` returns null for a miss, the others undefined. */
  get(...parameters: Value[]): unknown;
  /** Every row. */
  all(...parameters: Value[]): unknown[];
  /** `node:sqlite`. */
  setReadBigInts?(enabled: boolean): unknown;
  /** `node:sqlite`. */
  setReturnArrays?(enabled: boolean): unknown;
  /** `bun:sqlite` and `better-sqlite3`. */
  safeIntegers?(enabled: boolean): unknown;
}

/** Whether `value` has the shape of a supported connection. */
export function isConnection(value: unknown): boolean {
  const candidate = value as Partial<Library> | null;
  return typeof candidate === "object" && candidate !== null && typeof candidate.prepare === "function" &&
    typeof candidate.exec === "function" && typeof candidate.close === "function";
}

/** An app may have its connection give BigInts, or rows as arrays: ours are numbers, by name. */
function plain(statement: Statement): Statement {
  statement.setReadBigInts?.(false);
  statement.setReturnArrays?.(false);
  statement.safeIntegers?.(false);
  return statement;
}

/** Takes an open connection of any of the four libraries. */
export function adapt(raw: unknown): Connection {
  const library = raw as Library;
  const statements = new Map<string, Statement>();
  const prepared = (sql: string): Statement => {
    let statement = statements.get(sql);
    if (statement === undefined) statements.set(sql, statement = plain(library.prepare(sql)));
    return statement;
  };
  return {
    raw,
    run(sql, ...parameters) {
      const result = prepared(sql).run(...parameters) as number | { changes: number | bigint };
      return typeof result === "number" ? result : Number(result.changes);
    },
    get: (sql, ...parameters) => prepared(sql).get(...parameters) as Row ?? undefined,
    all: (sql, ...parameters) => prepared(sql).all(...parameters) as Row[],
    get inTransaction() {
      return library.isTransaction ?? library.inTransaction ?? false;
    },
    close: () => library.close(),
  };
}

/**
 * Makes sure of what {@linkcode adapt} asked for.
 *
 * @throws {QueueError} `CONFIG` for a connection whose rows are not as the queue reads them, and cannot be made so.
 */
export function refuseOtherRows(connection: Connection): void {
  if (connection.get("SELECT 1 AS one")?.one === 1) return;
  throw new QueueError(
    "CONFIG",
    "database: the connection gives integers as BigInt, or rows in a shape of their own: open one without such options",
  );
}

/**
 * Opens a file with `node:sqlite`. Its busy timeout is 0: a write lock that another process holds must not freeze
 * the event loop, so the turn waits for it asynchronously.
 *
 * @throws {QueueError} `CONFIG` where the runtime has no `node:sqlite`.
 */
export async function openFile(path: string): Promise<Connection> {
  await loadLibrary();
  return adapt(openNow(path, 0));
}

/**
 * Imports `node:sqlite`.
 *
 * @throws {QueueError} `CONFIG` where the runtime has none.
 */
export async function loadLibrary(): Promise<void> {
  try {
    sqlite ??= await import("node:sqlite");
  } catch (cause) {
    throw new QueueError(
      "CONFIG",
      "this runtime has no node:sqlite: use Deno 2.3, Bun 1.4 or Node 22.16 or newer, or pass an open connection of better-sqlite3 as `database`",
      { cause },
    );
  }
}

let sqlite: typeof import("node:sqlite") | null = null;

/** Opens a file at once; only after {@linkcode loadLibrary}. */
export function openNow(path: string, timeout: number): Library {
  return new sqlite!.DatabaseSync(path, { timeout }) as Library;
}

/** SQLite's primary result codes that the driver tells apart: https://sqlite.org/rescode.html */
export type Fault = "busy" | "read-only" | "other";

/** What kind of error a library threw. */
export function faultOf(error: unknown): Fault {
  const code = codeOf(error);
  return code === 5 || code === 6 ? "busy" : code === 8 ? "read-only" : "other";
}

/** By name, as `better-sqlite3` has them, and by text, which is all that Deno's exec() and `@db/sqlite` carry. */
const CODES: readonly [code: number, name: string, text: RegExp][] = [
  [5, "SQLITE_BUSY", /\bdatabase is locked\b/],
  [6, "SQLITE_LOCKED", /\bdatabase table is locked\b/],
  [8, "SQLITE_READONLY", /\battempt to write a readonly database\b/],
  [10, "SQLITE_IOERR", /\bdisk I\/O error\b/],
  [11, "SQLITE_CORRUPT", /\bdatabase disk image is malformed\b/],
  [14, "SQLITE_CANTOPEN", /\bunable to open database file\b/],
  [26, "SQLITE_NOTADB", /\bfile is not a database\b/],
];

/** SQLite's primary result code, which each library reports in a way of its own; `null` where it is none of {@linkcode CODES}. */
export function codeOf(error: unknown): number | null {
  const { errcode, code, errno, message } = error as Record<string, unknown>;
  const numeric = typeof errcode === "number" ? errcode : typeof errno === "number" ? errno : undefined;
  if (numeric !== undefined) return numeric & 255;
  const known = CODES.find(([, name, text]) =>
    typeof code === "string" && code.startsWith(name) || text.test(String(message))
  );
  return known?.[0] ?? null;
}
