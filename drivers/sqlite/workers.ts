/**
 * The workers of a file: a row each, which it writes anew to say that it is there.
 *
 * @module
 */
import type { WorkerInfo, WorkerReport } from "../../core/driver.ts";
import type { Connection } from "./connection.ts";

/** How many workers one look names at most. */
const MOST = 1000;

/** Keeps what a worker says of itself, and forgets those that are gone. Times are Unix seconds. */
export function keepWorker(connection: Connection, worker: WorkerReport, life: number, now: number): void {
  const { id, ...said } = worker;
  connection.run("DELETE FROM queue_workers WHERE gone_at <= ?", now);
  connection.run(
    "INSERT OR REPLACE INTO queue_workers (id, seen_at, gone_at, said) VALUES (?, ?, ?, ?)",
    id,
    now,
    now + life,
    JSON.stringify(said),
  );
}

/** Forgets a worker. */
export function forgetWorker(connection: Connection, id: string): void {
  connection.run("DELETE FROM queue_workers WHERE id = ?", id);
}

/** Those that are there. */
export function readWorkers(connection: Connection, now: number): WorkerInfo[] {
  const rows = connection.all(
    `SELECT id, seen_at, said FROM queue_workers WHERE gone_at > ? LIMIT ${MOST}`,
    now,
  );
  return rows.map(({ id, seen_at, said }) => ({
    id: String(id),
    ...JSON.parse(String(said)) as Omit<WorkerReport, "id">,
    seenAt: Math.round(Number(seen_at) * 1000),
  })).sort((a, b) => a.startedAt - b.startedAt || (a.id < b.id ? -1 : 1));
}
