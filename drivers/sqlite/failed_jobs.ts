/**
 * The `failed_jobs` table, which every driver uses whose failures live in the app's database.
 *
 * @module
 */
import type { FailedJob, FailedSelection, Failure, NewJob, Reservation } from "../../core/driver.ts";
import type { Connection, Row } from "./connection.ts";

/**
 * Records a failure, inside the caller's transaction. The row takes the job's own id, so that one number names the
 * job wherever it is; where a foreign row has that id already, SQLite gives it another.
 */
export function insertFailed(connection: Connection, job: Reservation, why: Failure): void {
  const id = numericId(job.id);
  const taken = id !== null &&
    connection.get("SELECT 1 FROM failed_jobs WHERE id = ?", id) !== undefined;
  connection.run(
    "INSERT INTO failed_jobs (id, name, payload, error, failed_at, queue, priority, attempts, stack) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    taken ? null : id,
    job.name,
    job.payload,
    why.error,
    // Whole seconds: the original reads this column as an integer.
    Math.floor(why.failedAt / 1000),
    job.queue,
    job.priority,
    job.attempt,
    why.stack,
  );
}

const COLUMNS = "id, name, payload, error, failed_at, queue, priority, attempts, stack";

/** The selected rows, in the order of their ids. */
export function selectFailed(connection: Connection, selection: FailedSelection): FailedJob[] {
  if ("ids" in selection) {
    return [...new Set(selection.ids.map(numericId))]
      .filter((id) => id !== null)
      .sort((a, b) => a - b)
      .map((id) => connection.get(`SELECT ${COLUMNS} FROM failed_jobs WHERE id = ?`, id))
      .filter((row) => row !== undefined)
      .map(toFailedJob);
  }
  return connection.all(
    `SELECT ${COLUMNS} FROM failed_jobs WHERE id > ? ORDER BY id LIMIT ?`,
    selection.after === null
      ? Number.MIN_SAFE_INTEGER
      : numericId(selection.after) ?? Number.MAX_SAFE_INTEGER,
    selection.limit,
  ).map(toFailedJob);
}

/** Deletes one row. */
export function deleteFailed(connection: Connection, id: string): void {
  connection.run("DELETE FROM failed_jobs WHERE id = ?", Number(id));
}

/** What a retry puts back: the same job, due at once. */
export function renewed(job: FailedJob): NewJob {
  return { name: job.name, payload: job.payload, queue: job.queue, priority: job.priority, delay: 0 };
}

function toFailedJob(row: Row): FailedJob {
  return {
    id: String(row.id),
    name: String(row.name),
    payload: String(row.payload),
    queue: String(row.queue),
    priority: Number(row.priority),
    attempts: row.attempts === null ? null : Number(row.attempts),
    error: String(row.error),
    stack: row.stack === null ? null : String(row.stack),
    failedAt: Number(row.failed_at) * 1000,
  };
}

/** A row id; `null` for text that cannot be one. */
export function numericId(id: string): number | null {
  return /^(0|[1-9]\d{0,14})$/.test(id) ? Number(id) : null;
}
