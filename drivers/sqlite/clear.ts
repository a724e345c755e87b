/**
 * Removing what waits.
 *
 * @module
 */
import type { Connection } from "./connection.ts";

/** Deletes up to `limit` jobs, of a queue or of all, that nobody holds; and says how many. */
export function clearJobs(connection: Connection, queue: string | null, limit: number): number {
  // `jobs_available` has just these rows, by queue.
  const waiting = "SELECT id FROM jobs WHERE reserved_at IS NULL";
  return queue === null
    ? connection.run(`DELETE FROM jobs WHERE id IN (${waiting} LIMIT ?)`, limit)
    : connection.run(`DELETE FROM jobs WHERE id IN (${waiting} AND queue = ? LIMIT ?)`, queue, limit);
}
