/**
 * What operators tell the workers of a file: which queues are paused, how often workers were told to restart, which
 * held jobs were cancelled; and how far jobs say that they are.
 *
 * Pauses and restarts are rows of `queue_meta`, read with every look for jobs. The rest stands in the job's own row, and
 * goes with it.
 *
 * @module
 */
import type { Cancelled, Controls, Paused, Progress, QueueShare } from "../../core/driver.ts";
import type { Connection } from "./connection.ts";
import { rowId } from "./row_id.ts";

/** How many cancelled jobs one look names at most: the others follow when these are settled. */
const MOST_CANCELLED = 1000;

const TOLD = "SELECT key, value FROM queue_meta WHERE key IN ('restarts', 'paused', 'paused_all')";

/** What holds for whoever looks for jobs. */
export interface Told {
  readonly restarts: number;
  readonly paused: Paused;
}

const NOTHING: Told = { restarts: 0, paused: { all: false, queues: [] } };

/** Reads what workers were told. */
export function readTold(connection: Connection): Told {
  const rows = connection.all(TOLD);
  if (rows.length === 0) return NOTHING;
  const told = new Map(rows.map(({ key, value }) => [key, value]));
  return {
    restarts: Number(told.get("restarts") ?? 0),
    paused: { all: told.has("paused_all"), queues: JSON.parse(String(told.get("paused") ?? "[]")) },
  };
}

/** The shares of queues that are not paused. */
export function unpaused(shares: readonly QueueShare[], { all, queues }: Paused): readonly QueueShare[] {
  if (all) return [];
  return queues.length === 0 ? shares : shares.filter(({ queue }) => !queues.includes(queue));
}

/** Pauses a queue, or all; `false` where it was. */
export function pauseQueue(connection: Connection, queue: string | null): boolean {
  const { all, queues } = readTold(connection).paused;
  if (queue === null) {
    if (!all) setMeta(connection, "paused_all", 1);
    return !all;
  }
  if (queues.includes(queue)) return false;
  setMeta(connection, "paused", JSON.stringify([...queues, queue].sort()));
  return true;
}

/** Lifts the pause of a queue, or every pause; `false` where there was none. */
export function resumeQueue(connection: Connection, queue: string | null): boolean {
  const { all, queues } = readTold(connection).paused;
  const left = queue === null ? [] : queues.filter((name) => name !== queue);
  if (queue === null && all) connection.run("DELETE FROM queue_meta WHERE key = 'paused_all'");
  if (left.length < queues.length) setMeta(connection, "paused", JSON.stringify(left));
  return left.length < queues.length || (queue === null && all);
}

/** Counts a restart. */
export function countRestart(connection: Connection): void {
  setMeta(connection, "restarts", readTold(connection).restarts + 1);
}

function setMeta(connection: Connection, key: string, value: string | number): void {
  connection.run("INSERT OR REPLACE INTO queue_meta (key, value) VALUES (?, ?)", key, value);
}

/** Removes a waiting job, or marks one that is held. */
export function cancelJob(connection: Connection, job: string): Cancelled | null {
  const id = rowId(job);
  if (connection.run("DELETE FROM jobs WHERE id = ? AND reserved_at IS NULL", id) > 0) return "removed";
  return connection.run("UPDATE jobs SET cancelled = 1 WHERE id = ?", id) > 0 ? "cancelling" : null;
}

/**
 * All that workers are told. A marked job may wait, as that of a paused queue does, and so may one whose worker died: they
 * must not crowd out those that run, whose leases are the youngest. The signs keep SQLite to the index of the marked.
 */
export function readControls(connection: Connection): Controls {
  const cancelled = connection.all(
    `SELECT CAST(id AS TEXT) AS id FROM jobs WHERE cancelled IS NOT NULL AND +reserved_at IS NOT NULL
      ORDER BY +reserved_at DESC LIMIT ${MOST_CANCELLED}`,
  );
  return { ...readTold(connection), cancelled: cancelled.map(({ id }) => String(id)) };
}

/** How far a job is, as it stands in its row. */
export function toProgress({ fraction, note }: Omit<Progress, "at">, at: number): string {
  return JSON.stringify({ fraction, note, at });
}

/** Reads it back, where the job is held. */
export function readProgress(connection: Connection, job: string): Progress | null {
  const row = connection.get(
    "SELECT progress FROM jobs WHERE id = ? AND reserved_at IS NOT NULL AND progress IS NOT NULL",
    rowId(job),
  );
  return row === undefined ? null : JSON.parse(String(row.progress));
}
