/**
 * The delayed jobs that are due next.
 *
 * @module
 */
import type { DelayedJob } from "../../core/driver.ts";
import type { Connection } from "./connection.ts";
import { byNumber, readable } from "./row_id.ts";

/** The first queue, and the one after another: one seek each. */
const FIRST_QUEUE = "SELECT min(queue) AS queue FROM jobs WHERE reserved_at IS NULL";
const NEXT_QUEUE = "SELECT queue FROM jobs WHERE reserved_at IS NULL AND queue > ? ORDER BY queue LIMIT 1";

/** The highest priority below another: one seek. */
const NEXT_PRIORITY = `SELECT priority FROM jobs WHERE queue = ? AND reserved_at IS NULL AND priority < ?
  ORDER BY priority DESC LIMIT 1`;

/** Those of one priority, in the order of the index: what is due later is not read. */
const DELAYED = `SELECT CAST(id AS TEXT) AS id, name, attempts, ${readable("available_at")} AS due FROM jobs
  WHERE queue = ? AND reserved_at IS NULL AND priority = ? AND available_at > ?
  ORDER BY jobs.available_at, jobs.id LIMIT ?`;

/** The queues that have jobs to be reserved now or later, by name. */
export function waitingQueues(connection: Connection): string[] {
  const names: string[] = [];
  let row = connection.get(FIRST_QUEUE);
  while (typeof row?.queue === "string") {
    names.push(row.queue);
    row = connection.get(NEXT_QUEUE, row.queue);
  }
  return names;
}

/** The next `limit` of a queue, or of all; `now` in milliseconds. */
export function nextDelayed(
  connection: Connection,
  queue: string | null,
  limit: number,
  now: number,
): DelayedJob[] {
  const found: DelayedJob[] = [];
  for (const name of queue === null ? waitingQueues(connection) : [queue]) {
    let lane = connection.get(NEXT_PRIORITY, name, Number.MAX_SAFE_INTEGER);
    while (lane !== undefined) {
      const priority = lane.priority as number;
      for (const row of connection.all(DELAYED, name, priority, now / 1000, limit)) {
        found.push({
          id: String(row.id),
          name: String(row.name),
          queue: name,
          priority,
          attempts: Number(row.attempts),
          dueIn: Math.max(0, Math.round(Number(row.due) * 1000) - now),
        });
      }
      lane = connection.get(NEXT_PRIORITY, name, priority);
    }
  }
  return found.sort((a, b) => a.dueIn - b.dueIn || byNumber(a.id, b.id)).slice(0, limit);
}
