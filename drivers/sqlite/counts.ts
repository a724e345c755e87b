/**
 * How many jobs there are.
 *
 * @module
 */
import type { QueueCounts } from "../../core/driver.ts";
import type { Connection, Row } from "./connection.ts";
import { readable } from "./row_id.ts";

/** All of `jobs`, whatever their state: SQLite counts the entries of a page without reading them. */
export function countWaiting(connection: Connection): number {
  return Number(connection.get("SELECT count(*) AS jobs FROM jobs")!.jobs);
}

/**
 * By queue and state.
 *
 * @param now The present, in seconds.
 * @param expiry What is reserved since then, or longer, is ready.
 */
export function countJobs(connection: Connection, now: number, expiry: number): QueueCounts[] {
  const byQueue = new Map<string, { -readonly [Key in keyof QueueCounts]: QueueCounts[Key] }>();
  const of = ({ queue }: Row) => {
    const name = String(queue);
    let counts = byQueue.get(name);
    if (counts === undefined) {
      counts = { queue: name, ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null };
      byQueue.set(name, counts);
    }
    return counts;
  };
  for (
    const row of connection.all(
      `SELECT queue, count(*) AS jobs, sum(available_at <= ?) AS due, ${
        readable("min(available_at)")
      } AS first
        FROM jobs WHERE reserved_at IS NULL GROUP BY queue`,
      now,
    )
  ) {
    const counts = of(row);
    counts.ready = Number(row.due);
    counts.delayed = Number(row.jobs) - counts.ready;
    if (counts.ready > 0) counts.oldest = Math.round(Number(row.first) * 1000);
  }
  for (
    const row of connection.all(
      `SELECT queue, count(*) AS jobs, sum(reserved_at <= ?) AS expired,
          ${readable("min(CASE WHEN reserved_at <= ? THEN available_at END)")} AS first
        FROM jobs WHERE reserved_at IS NOT NULL GROUP BY queue`,
      expiry,
      expiry,
    )
  ) {
    const counts = of(row);
    const expired = Number(row.expired);
    counts.ready += expired;
    counts.reserved = Number(row.jobs) - expired;
    if (expired > 0) {
      counts.oldest = Math.min(counts.oldest ?? Infinity, Math.round(Number(row.first) * 1000));
    }
  }
  for (const row of connection.all("SELECT queue, count(*) AS jobs FROM failed_jobs GROUP BY queue")) {
    of(row).failed = Number(row.jobs);
  }
  return [...byQueue.values()].sort((a, b) => a.queue < b.queue ? -1 : 1);
}
