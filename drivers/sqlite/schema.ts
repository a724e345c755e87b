/**
 * The tables, and how a file that the original made becomes one of ours.
 *
 * `jobs` and `failed_jobs` are the original's, with its column names and meanings; what is ours is extra and has
 * defaults, so that its statements go on working on the same file.
 *
 * @module
 */
import { QueueError } from "../../core/errors.ts";
import type { Connection } from "./connection.ts";

/** Raised with every change of the tables. A file with a higher number was made by a newer release. */
export const SCHEMA = 2;

/**
 * AUTOINCREMENT, which the original lacks, keeps an id from being given twice: a log line or a `queue:retry 7` of
 * yesterday must not name another job today. Files of the original keep their own table, without it.
 */
const JOBS = `CREATE TABLE IF NOT EXISTS jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  payload TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  available_at INTEGER NOT NULL,
  reserved_at INTEGER
)`;

const FAILED_JOBS = `CREATE TABLE IF NOT EXISTS failed_jobs (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  payload TEXT NOT NULL,
  error TEXT NOT NULL,
  failed_at INTEGER NOT NULL
)`;

/** What is ours in the original's tables. */
const COLUMNS: ReadonlyArray<[table: string, column: string, definition: string]> = [
  ["jobs", "queue", "TEXT NOT NULL DEFAULT 'default'"],
  ["jobs", "priority", "INTEGER NOT NULL DEFAULT 0"],
  ["jobs", "token", "INTEGER"],
  ["failed_jobs", "queue", "TEXT NOT NULL DEFAULT 'default'"],
  ["failed_jobs", "priority", "INTEGER NOT NULL DEFAULT 0"],
  ["failed_jobs", "attempts", "INTEGER"],
  ["failed_jobs", "stack", "TEXT"],
  ["failed_jobs", "job_id", "TEXT"],
  ["failed_jobs", "failure", "TEXT"],
];

/**
 * `jobs_available` takes the name of the original's index, so that its CREATE INDEX IF NOT EXISTS does nothing. The
 * original's own has every row of the table, sorted at each reserve: at 1,000,000 waiting jobs that is two a second.
 */
const INDEXES = [
  "DROP INDEX IF EXISTS jobs_available",
  "CREATE INDEX jobs_available ON jobs (queue, priority DESC, available_at) WHERE reserved_at IS NULL",
  "CREATE INDEX IF NOT EXISTS jobs_reserved ON jobs (reserved_at) WHERE reserved_at IS NOT NULL",
  // The jobs of a store whose ids are no row ids: each fails into one row, however often that is tried.
  "CREATE UNIQUE INDEX IF NOT EXISTS failed_jobs_job ON failed_jobs (job_id) WHERE job_id IS NOT NULL",
];

/** What dispatches were called, so that one that is repeated is not stored again. */
const KEYS = [
  "CREATE TABLE IF NOT EXISTS queue_keys (key TEXT PRIMARY KEY, job INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID",
  "CREATE INDEX IF NOT EXISTS queue_keys_at ON queue_keys (at)",
];

const META = "CREATE TABLE IF NOT EXISTS queue_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID";

/**
 * Makes or upgrades the tables; only reads where they are up to date.
 *
 * @throws {QueueError} `DB` for a file of a newer release, or with a table of that name that is no queue's.
 */
export function migrate(connection: Connection): void {
  if (schemaOf(connection) === SCHEMA) return;
  connection.run("BEGIN IMMEDIATE");
  try {
    // Another process may have been first.
    if (schemaOf(connection) !== SCHEMA) build(connection);
    connection.run("COMMIT");
  } catch (error) {
    if (connection.inTransaction) connection.run("ROLLBACK");
    throw error;
  }
}

function schemaOf(connection: Connection): number {
  if (columnsOf(connection, "queue_meta").length === 0) return 0;
  const schema = Number(connection.get("SELECT value FROM queue_meta WHERE key = 'schema'")?.value ?? 0);
  if (schema > SCHEMA) {
    throw new QueueError(
      "DB",
      `the store has schema ${schema} and this release knows ${SCHEMA}: a newer release made it; upgrade this one`,
    );
  }
  return schema;
}

function build(connection: Connection): void {
  connection.run(META);
  for (const [table, sql] of [["jobs", JOBS], ["failed_jobs", FAILED_JOBS]]) {
    connection.run(sql);
    refuseForeign(connection, table, sql);
  }
  for (const [table, column, definition] of COLUMNS) {
    if (columnsOf(connection, table).includes(column)) continue;
    connection.run(`ALTER TABLE ${table} ADD COLUMN ${column} ${definition}`);
  }
  for (const sql of [...INDEXES, ...KEYS]) connection.run(sql);
  connection.run("INSERT OR REPLACE INTO queue_meta (key, value) VALUES ('schema', ?)", SCHEMA);
}

/** An app may have a table named `jobs` for something else: better to say so than to fail at each statement. */
function refuseForeign(connection: Connection, table: string, sql: string): void {
  const wanted = [...sql.matchAll(/^ {2}(\w+)/gm)].map((match) => match[1]);
  const present = columnsOf(connection, table);
  const missing = wanted.filter((column) => !present.includes(column));
  if (missing.length > 0) {
    throw new QueueError(
      "DB",
      `the table ${table} is not a queue's: it has no column ${
        missing.join(", ")
      }; give the queue a database of its own`,
    );
  }
}

function columnsOf(connection: Connection, table: string): string[] {
  return connection.all("SELECT name FROM pragma_table_info(?)", table).map((row) => String(row.name));
}
