/**
 * One job, as it stands in its row, and what is in front of it.
 *
 * @module
 */
import type { StoredJob, WaitingNames } from "../../core/driver.ts";
import { fromText } from "../history.ts";
import type { Connection } from "./connection.ts";
import { readable, rowId } from "./row_id.ts";

/** How many jobs in front of one are counted at most. */
const MOST_AHEAD = 1000;

const JOB = `SELECT name, payload, attempts, queue, priority, cancelled, history,
  ${readable("available_at")} AS due_at, ${readable("reserved_at")} AS held_at
  FROM jobs WHERE id = ?`;

/**
 * The job of an id; `null` where there is none. Times are Unix seconds.
 *
 * @param lease How long a lease lasts.
 */
export function findJob(connection: Connection, id: string, now: number, lease: number): StoredJob | null {
  const row = connection.get(JOB, rowId(id));
  if (row === undefined) return null;
  const [queue, priority, dueAt] = [String(row.queue), Number(row.priority), Number(row.due_at)];
  const heldUntil = row.held_at === null ? null : Number(row.held_at) + lease;
  const waits = heldUntil === null;
  const state = waits ? (dueAt <= now ? "ready" : "delayed") : heldUntil <= now ? "ready" : "reserved";
  return {
    id,
    name: String(row.name),
    payload: String(row.payload),
    queue,
    priority,
    attempts: Number(row.attempts),
    state,
    dueAt: Math.round(dueAt * 1000),
    leasedUntil: waits ? null : Math.round(heldUntil * 1000),
    cancelled: row.cancelled !== null,
    ahead: waits && state === "ready" ? countAhead(connection, id, { queue, priority, dueAt, now }) : null,
    history: fromText(row.history),
  };
}

const HIGHER = `SELECT min(priority) AS priority FROM jobs
  WHERE queue = ? AND reserved_at IS NULL AND priority > ?`;

const DUE = "FROM jobs WHERE queue = ? AND reserved_at IS NULL AND priority = ?";

/** How many are taken before it: those of each higher priority that are due, and those of its own that were due before. */
function countAhead(
  connection: Connection,
  id: string,
  { queue, priority, dueAt, now }: { queue: string; priority: number; dueAt: number; now: number },
): number {
  const count = (condition: string, ...values: (string | number | null)[]): number =>
    Number(
      connection.get(`SELECT count(*) AS jobs FROM (SELECT 1 ${DUE} AND ${condition} LIMIT ?)`, ...values)
        ?.jobs,
    );
  let ahead = count(
    "(available_at < ? OR (available_at = ? AND id < ?))",
    queue,
    priority,
    dueAt,
    dueAt,
    rowId(id),
    MOST_AHEAD,
  );
  // A priority at a time, since a count over several reads all that are not due, too.
  for (let below = priority; ahead < MOST_AHEAD;) {
    const next = connection.get(HIGHER, queue, below)?.priority;
    if (typeof next !== "number") break;
    below = next;
    ahead += count("available_at <= ?", queue, next, now, MOST_AHEAD - ahead);
  }
  return ahead;
}

/** The names of the first `limit` waiting jobs of each queue. */
export function namesOfWaiting(
  connection: Connection,
  queues: readonly string[],
  limit: number,
): WaitingNames[] {
  return queues.map((queue) => {
    const rows = connection.all(
      `SELECT DISTINCT name FROM (SELECT name FROM jobs WHERE queue = ? AND reserved_at IS NULL
        ORDER BY priority DESC, available_at LIMIT ?) ORDER BY name`,
      queue,
      limit,
    );
    return { queue, names: rows.map(({ name }) => String(name)) };
  });
}
