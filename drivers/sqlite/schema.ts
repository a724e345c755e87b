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
export const SCHEMA = 6;

/**
 * AUTOINCREMENT, which the original lacks, keeps an id from being given twice: a log line or a `queue:retry 7` of
 * yesterday must not name another job today.
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
  ["jobs", "cancelled", "INTEGER"],
  ["jobs", "progress", "TEXT"],
  ["jobs", "dispatched_at", "INTEGER"],
  ["jobs", "trace", "TEXT"],
  ["jobs", "history", "TEXT"],
  ["failed_jobs", "queue", "TEXT NOT NULL DEFAULT 'default'"],
  ["failed_jobs", "priority", "INTEGER NOT NULL DEFAULT 0"],
  ["failed_jobs", "attempts", "INTEGER"],
  ["failed_jobs", "stack", "TEXT"],
  ["failed_jobs", "job_id", "TEXT"],
  ["failed_jobs", "failure", "TEXT"],
  ["failed_jobs", "history", "TEXT"],
];

/**
 * `jobs_available` takes the name of the original's index, so that its CREATE INDEX IF NOT EXISTS does nothing. The
 * original's own has every row of the table, sorted at each reserve: at 1,000,000 waiting jobs that is two a second.
 */
const INDEXES = [
  "DROP INDEX IF EXISTS jobs_available",
  "CREATE INDEX jobs_available ON jobs (queue, priority DESC, available_at) WHERE reserved_at IS NULL",
  "CREATE INDEX IF NOT EXISTS jobs_reserved ON jobs (reserved_at) WHERE reserved_at IS NOT NULL",
  "CREATE INDEX IF NOT EXISTS jobs_cancelled ON jobs (id) WHERE cancelled IS NOT NULL",
  // A row has a payload and a stack: counting 100,000 of them by queue would read all of that, some 200 MB.
  "CREATE INDEX IF NOT EXISTS failed_jobs_queue ON failed_jobs (queue)",
  // The jobs of a store whose ids are no row ids: each fails into one row, however often that is tried.
  "CREATE UNIQUE INDEX IF NOT EXISTS failed_jobs_job ON failed_jobs (job_id) WHERE job_id IS NOT NULL",
];

/** What dispatches were called, so that one that is repeated is not stored again. */
const KEYS = [
  "CREATE TABLE IF NOT EXISTS queue_keys (key TEXT PRIMARY KEY, job INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID",
  "CREATE INDEX IF NOT EXISTS queue_keys_at ON queue_keys (at)",
];

/** Who works on this file, as each worker says every few seconds. */
const WORKERS =
  "CREATE TABLE IF NOT EXISTS queue_workers (id TEXT PRIMARY KEY, seen_at REAL NOT NULL, gone_at REAL NOT NULL, said TEXT NOT NULL) WITHOUT ROWID";

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
  addAutoincrement(connection);
  for (const sql of [...INDEXES, ...KEYS, WORKERS]) connection.run(sql);
  seedIds(connection);
  connection.run("INSERT OR REPLACE INTO queue_meta (key, value) VALUES ('schema', ?)", SCHEMA);
}

/** From here on, an integer is no number that every library reads. */
const LARGE = 2 ** 53 - 1;

/**
 * Makes the original's `jobs` anew with AUTOINCREMENT, which no ALTER adds: its own text with that word, so that columns
 * and constraints of the app's stay. A table that is entangled with others stays as it is, and may give an id again.
 */
function addAutoincrement(connection: Connection): void {
  const name = /^CREATE TABLE\s+(?:jobs|"jobs"|'jobs'|`jobs`|\[jobs\])\s*(?=\()/i;
  const key = /\b(id"?\s+INTEGER\s+PRIMARY\s+KEY)(?!\s+(?:ASC|DESC|ON|AUTOINCREMENT)\b)/gi;
  const sql = String(
    connection.get("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'jobs'")?.sql,
  );
  if (/\bAUTOINCREMENT\b/i.test(sql) || !name.test(sql) || sql.match(key)?.length !== 1) return;
  if (isEntangled(connection)) return;
  const columns = columnsOf(connection, "jobs").map((column) => `"${column.replaceAll('"', '""')}"`).join(
    ", ",
  );
  const indexes = connection.all(
    `SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'jobs' AND sql IS NOT NULL
      AND name NOT IN ('jobs_available', 'jobs_reserved')`,
  );
  connection.run("SAVEPOINT queue_rebuild");
  try {
    connection.run(sql.replace(name, "CREATE TABLE queue_jobs_new ").replace(key, "$1 AUTOINCREMENT"));
    connection.run(`INSERT INTO queue_jobs_new (${columns}) SELECT ${columns} FROM jobs`);
    connection.run("DROP TABLE jobs");
    connection.run("ALTER TABLE queue_jobs_new RENAME TO jobs");
    for (const index of indexes) connection.run(String(index.sql));
  } catch (error) {
    // The app's schema has something that we did not think of; or the disk is full, and all is rolled back.
    if (!connection.inTransaction) throw error;
    connection.run("ROLLBACK TO queue_rebuild");
  }
  connection.run("RELEASE queue_rebuild");
}

/**
 * Whether triggers, views or foreign keys would break or, worse, act when `jobs` is dropped; or an id is so large that
 * AUTOINCREMENT may find no next one.
 */
function isEntangled(connection: Connection): boolean {
  return connection.get(
        "SELECT 1 FROM sqlite_schema WHERE type IN ('trigger', 'view') AND (tbl_name = 'jobs' OR sql LIKE '%jobs%') LIMIT 1",
      ) !== undefined ||
    connection.get(
        `SELECT 1 FROM sqlite_schema AS t, pragma_foreign_key_list(t.name) AS f
      WHERE t.type = 'table' AND (f."table" = 'jobs' COLLATE NOCASE OR t.name = 'jobs') LIMIT 1`,
      ) !== undefined ||
    connection.get("SELECT 1 FROM jobs WHERE id >= ? LIMIT 1", LARGE) !== undefined;
}

/** New jobs get ids above those of all failed ones, which may have been other jobs'. */
function seedIds(connection: Connection): void {
  const sql = connection.get("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'jobs'")?.sql;
  if (!/\bAUTOINCREMENT\b/i.test(String(sql))) return;
  const last = connection.get(
    "SELECT max(id) + 0.0 AS id FROM (SELECT id FROM jobs UNION ALL SELECT id FROM failed_jobs) WHERE id < ?",
    LARGE,
  )?.id;
  if (typeof last !== "number") return;
  const known = connection.run("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'jobs'", last);
  if (known === 0) connection.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', ?)", last);
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
