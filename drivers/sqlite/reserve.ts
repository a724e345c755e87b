/**
 * Taking due jobs: by queue, then priority, then the time since when each is due.
 *
 * @module
 */
import type { Reservation, Reserved, ReserveRequest } from "../../core/driver.ts";
import type { Connection } from "./connection.ts";
import { readable, rowId } from "./row_id.ts";
import { MANY, toList } from "./settle.ts";

/** How many expired reservations one transaction frees at most. */
const RECLAIM_LIMIT = 100;

/** How often expired reservations are looked for while there is other work, in milliseconds. */
const RECLAIM_EVERY = 1000;

/** Above every priority. */
const HIGHEST = Number.MAX_SAFE_INTEGER;

/**
 * A parameter that the planner does not look into. SQLite compiles a statement anew whenever a parameter changes that
 * the plan may depend on: one in LIMIT everywhere, and in Bun's build one that is compared in an ordered query.
 * Measured for the reservation of one job: 25–70 µs with plain parameters, 2–6 µs with these.
 */
const FIXED = "ifnull(?, 0)";

/** Reserves for one process. */
export class Reserving {
  /** The next reservation's token: from a random start, so that no two processes ever use one. */
  #token: number = Math.floor(Math.random() * 2 ** 52);
  #reclaimedAt = -Infinity;

  /** The answer where there is nothing to take; else `undefined`. */
  peek(connection: Connection, request: ReserveRequest, now: number): Reserved | undefined {
    if (expired(connection, now - request.retryAfter)) return undefined;
    let nextDue: number | null = null;
    for (const queue of new Set(request.queues.map((share) => share.queue))) {
      for (let below = HIGHEST;;) {
        const head = headOf(connection, queue, below);
        if (head === undefined) break;
        if (head.available_at <= now / 1000) return undefined;
        nextDue = earlier(nextDue, head);
        below = head.priority;
      }
    }
    return { jobs: [], nextIn: nextDue === null ? null : nextDue - now };
  }

  /** Takes due jobs, inside the caller's transaction. */
  take(connection: Connection, request: ReserveRequest, now: number): Reserved {
    const jobs: Reservation[] = [];
    const expiry = now - request.retryAfter;
    const overdue = Math.abs(now - this.#reclaimedAt) >= RECLAIM_EVERY;
    if (overdue) this.#reclaim(connection, now, expiry);
    let nextDue = this.#fill(connection, request, now, jobs);
    if (jobs.length < request.limit && !overdue && expired(connection, expiry)) {
      this.#reclaim(connection, now, expiry);
      nextDue = this.#fill(connection, request, now, jobs);
    }
    return { jobs, nextIn: nextDue === null ? null : Math.max(0, nextDue - now) };
  }

  /** Frees expired reservations, in one bounded step; the rest follow with the next reserve. */
  #reclaim(connection: Connection, now: number, expiry: number): void {
    const freed = connection.run(
      `UPDATE jobs SET reserved_at = NULL, token = NULL
        WHERE id IN (SELECT id FROM jobs WHERE reserved_at <= ? ORDER BY reserved_at LIMIT ${RECLAIM_LIMIT})`,
      expiry / 1000,
    );
    if (freed < RECLAIM_LIMIT) this.#reclaimedAt = now;
  }

  /** Adds to `jobs` until the request is filled; returns when the next job is due where it is not. */
  #fill(connection: Connection, request: ReserveRequest, now: number, jobs: Reservation[]): number | null {
    let nextDue: number | null = null;
    for (const { queue, limit } of request.queues) {
      const full = Math.min(request.limit + request.prefetch, jobs.length + limit);
      for (let below = HIGHEST; jobs.length < full;) {
        const head = headOf(connection, queue, below);
        if (head === undefined) break;
        if (head.available_at <= now / 1000) {
          this.#takeFrom(connection, queue, head.priority, full, request.limit, now, jobs);
          // Once more where all due ones were taken, for the first delayed one of this priority.
          below = jobs.length < request.limit ? head.priority + 1 : head.priority;
        } else {
          nextDue = earlier(nextDue, head);
          below = head.priority;
        }
      }
    }
    return jobs.length < request.limit ? nextDue : null;
  }

  #takeFrom(
    connection: Connection,
    queue: string,
    priority: number,
    full: number,
    limit: number,
    now: number,
    jobs: Reservation[],
  ): void {
    const rows = connection.all(
      `SELECT CAST(id AS TEXT) AS id, name, payload, attempts FROM jobs
        WHERE queue = ${FIXED} AND priority = ${FIXED} AND reserved_at IS NULL AND available_at <= ${FIXED}
        ORDER BY available_at, jobs.id LIMIT ${FIXED}`,
      queue,
      priority,
      now / 1000,
      full - jobs.length,
    );
    const token = this.#token++;
    const ids: string[] = [];
    for (const row of rows) {
      // What is prefetched may wait here for long: a job that failed or crashed before is not made to.
      if (jobs.length >= limit && row.attempts !== 0) continue;
      ids.push(row.id as string);
      jobs.push({
        id: row.id as string,
        name: row.name as string,
        payload: row.payload as string,
        attempt: Number(row.attempts) + 1,
        queue,
        priority,
        token: String(token),
      });
    }
    hold(connection, ids, now / 1000, token);
  }
}

function hold(connection: Connection, ids: readonly string[], seconds: number, token: number): void {
  const SET = "UPDATE jobs SET reserved_at = ?, token = ?, attempts = attempts + 1 WHERE id";
  if (ids.length >= MANY) {
    connection.run(`${SET} IN (SELECT value FROM json_each(?))`, seconds, token, toList(ids));
  } else {
    for (const id of ids) connection.run(`${SET} = ?`, seconds, token, rowId(id));
  }
}

/**
 * The first job of the highest priority below `below`: one seek. A query over all priorities would read every delayed
 * job of the queue (measured: 244 ms at 1,000,000).
 */
function headOf(connection: Connection, queue: string, below: number): Head | undefined {
  return connection.get(
    `SELECT priority, ${readable("available_at")} AS available_at FROM jobs
      WHERE queue = ${FIXED} AND reserved_at IS NULL AND priority < ${FIXED}
      ORDER BY priority DESC, jobs.available_at LIMIT 1`,
    queue,
    below,
  ) as Head | undefined;
}

type Head = { priority: number; available_at: number };

function earlier(due: number | null, head: Head): number {
  const next = Math.round(head.available_at * 1000);
  return due === null ? next : Math.min(due, next);
}

function expired(connection: Connection, expiry: number): boolean {
  return connection.get("SELECT 1 FROM jobs WHERE reserved_at <= ? LIMIT 1", expiry / 1000) !== undefined;
}
