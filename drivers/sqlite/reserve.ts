/**
 * Taking due jobs: by queue, then priority, then the time since when each is due.
 *
 * @module
 */
import type { Reservation, Reserved, ReserveRequest } from "../../core/driver.ts";
import { readTold, unpaused } from "./controls.ts";
import type { Connection, Row, Value } from "./connection.ts";
import { readable, rowId } from "./row_id.ts";
import { gapless, MANY, toList } from "./settle.ts";

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

const READY =
  `FROM jobs WHERE queue = ${FIXED} AND reserved_at IS NULL AND available_at <= ${FIXED} AND priority`;
const ORDER = `ORDER BY available_at, jobs.id LIMIT ${FIXED}`;
/**
 * `due` in milliseconds: what was due at once has whole seconds in `available_at`, and its dispatch is the later of the
 * two. NULL for a job of the original's, of which no more than the second is known. `+ 0.0`, as @db/sqlite reads 32 bits
 * of an integer.
 */
const COLUMNS =
  "name, payload, attempts, priority, cancelled, trace, max(available_at * 1000.0, dispatched_at + 0.0) AS due";

/** The due jobs of one priority, and of the highest that has any, in two forms: ids as numbers, and as text. */
const OF_PRIORITY = forms(`${READY} = ${FIXED} ${ORDER}`);
const OF_HIGHEST = forms(
  `${READY} = (SELECT priority FROM jobs WHERE queue = ${FIXED} AND reserved_at IS NULL ORDER BY priority DESC LIMIT 1)
    ${ORDER}`,
);

function forms(rest: string): { numbers: string; text: string } {
  return {
    numbers: `SELECT id + 0.0 AS id, ${COLUMNS} ${rest}`,
    text: `SELECT CAST(id AS TEXT) AS id, ${COLUMNS} ${rest}`,
  };
}

const HEAD = `SELECT priority, ${readable("available_at")} AS available_at FROM jobs
  WHERE queue = ${FIXED} AND reserved_at IS NULL AND priority < ${FIXED}
  ORDER BY priority DESC, jobs.available_at LIMIT 1`;

const EXPIRED = "SELECT 1 FROM jobs WHERE reserved_at <= ? LIMIT 1";

const RECLAIM = `UPDATE jobs SET reserved_at = NULL, token = NULL, progress = NULL
  WHERE id IN (SELECT id FROM jobs WHERE reserved_at <= ? ORDER BY reserved_at LIMIT ${RECLAIM_LIMIT})`;

/** Reserves for one process. */
export class Reserving {
  /** The next reservation's token: from a random start, so that no two processes ever use one. */
  #token: number = Math.floor(Math.random() * 2 ** 52);
  #reclaimedAt = -Infinity;
  /** Whether a row id was met that a JavaScript number does not hold: from then on they are read as text. */
  #large = false;

  /** The answer where there is nothing to take; else `undefined`. */
  peek(connection: Connection, request: ReserveRequest, now: number): Reserved | undefined {
    if (expired(connection, now - request.retryAfter)) return undefined;
    const { restarts, paused } = readTold(connection);
    let nextDue: number | null = null;
    for (const queue of new Set(unpaused(request.queues, paused).map((share) => share.queue))) {
      for (let below = HIGHEST;;) {
        const head = headOf(connection, queue, below);
        if (head === undefined) break;
        if (head.available_at <= now / 1000) return undefined;
        nextDue = earlier(nextDue, head);
        below = head.priority;
      }
    }
    return { jobs: [], nextIn: nextDue === null ? null : nextDue - now, restarts };
  }

  /** Takes due jobs, inside the caller's transaction. */
  take(connection: Connection, asked: ReserveRequest, now: number): Reserved {
    const { restarts, paused } = readTold(connection);
    const request = { ...asked, queues: unpaused(asked.queues, paused) };
    const jobs: Reservation[] = [];
    const expiry = now - request.retryAfter;
    const overdue = Math.abs(now - this.#reclaimedAt) >= RECLAIM_EVERY;
    if (overdue) this.#reclaim(connection, now, expiry);
    const left = request.queues.map((share) => share.limit);
    let nextDue = this.#fill(connection, request, left, now, jobs);
    if (jobs.length < request.limit && !overdue && expired(connection, expiry)) {
      this.#reclaim(connection, now, expiry);
      nextDue = this.#fill(connection, request, left, now, jobs);
    }
    return { jobs, nextIn: nextDue === null ? null : Math.max(0, nextDue - now), restarts };
  }

  /** Frees expired reservations, in one bounded step; the rest follow with the next reserve. */
  #reclaim(connection: Connection, now: number, expiry: number): void {
    const freed = connection.run(RECLAIM, expiry / 1000);
    if (freed < RECLAIM_LIMIT) this.#reclaimedAt = now;
  }

  /**
   * Adds to `jobs` until the request is filled, and takes that off what is `left` of each share; returns when the next
   * job is due where it is not.
   */
  #fill(
    connection: Connection,
    request: ReserveRequest,
    left: number[],
    now: number,
    jobs: Reservation[],
  ): number | null {
    let nextDue: number | null = null;
    for (const [share, { queue }] of request.queues.entries()) {
      const before = jobs.length;
      const full = Math.min(request.limit + request.prefetch, before + left[share]);
      if (before >= full) continue;
      // Mostly all are of one priority, and there are enough: then this is all there is to ask.
      let below = this.#hold(
        connection,
        this.#rows(connection, OF_HIGHEST, queue, now / 1000, queue, full - jobs.length),
        queue,
        request.limit,
        now,
        jobs,
      ) ?? HIGHEST;
      while (jobs.length < full) {
        const head = headOf(connection, queue, below);
        if (head === undefined) break;
        below = head.priority;
        if (head.available_at > now / 1000) {
          nextDue = earlier(nextDue, head);
          continue;
        }
        const rows = this.#rows(
          connection,
          OF_PRIORITY,
          queue,
          now / 1000,
          head.priority,
          full - jobs.length,
        );
        below = this.#hold(connection, rows, queue, request.limit, now, jobs) ?? below;
      }
      left[share] -= jobs.length - before;
    }
    return jobs.length < request.limit ? nextDue : null;
  }

  #rows(connection: Connection, sql: { numbers: string; text: string }, ...parameters: Value[]): Row[] {
    if (!this.#large) {
      const rows = connection.all(sql.numbers, ...parameters);
      if (rows.every(({ id }) => Number.isSafeInteger(id))) return rows;
      this.#large = true;
    }
    return connection.all(sql.text, ...parameters);
  }

  /** Holds rows of one priority, and returns below which priority to go on; `null` where there were none. */
  #hold(
    connection: Connection,
    rows: readonly Row[],
    queue: string,
    limit: number,
    now: number,
    jobs: Reservation[],
  ): number | null {
    if (rows.length === 0) return null;
    const priority = rows[0].priority as number;
    const number = this.#token++;
    const token = String(number);
    const ids: string[] = [];
    for (const row of rows) {
      // What is prefetched may wait here for long: a job that failed or crashed before is not made to.
      if (jobs.length >= limit && row.attempts !== 0) continue;
      const id = String(row.id);
      ids.push(id);
      const held: { -readonly [Key in keyof Reservation]: Reservation[Key] } = {
        id,
        name: row.name as string,
        payload: row.payload as string,
        attempt: (row.attempts as number) + 1,
        queue,
        priority,
        token,
      };
      if (row.cancelled !== null) held.cancelled = true;
      if (row.due !== null) held.waited = Math.max(0, now - (row.due as number));
      if (row.trace !== null) held.trace = String(row.trace);
      jobs.push(held);
    }
    hold(connection, ids, now / 1000, number);
    // Once more where all due ones were taken, for the first delayed one of this priority.
    return jobs.length < limit ? priority + 1 : priority;
  }
}

const SET = "UPDATE jobs SET reserved_at = ?, token = ?, attempts = attempts + 1 WHERE id";
const HOLD_RANGE = `${SET} BETWEEN ? AND ?`;
const HOLD_LIST = `${SET} IN (SELECT value FROM json_each(?))`;
const HOLD_ONE = `${SET} = ?`;

function hold(connection: Connection, ids: readonly string[], seconds: number, token: number): void {
  const range = ids.length > 1 ? gapless(ids) : null;
  if (range !== null) connection.run(HOLD_RANGE, seconds, token, ...range);
  else if (ids.length >= MANY) connection.run(HOLD_LIST, seconds, token, toList(ids));
  else for (const id of ids) connection.run(HOLD_ONE, seconds, token, rowId(id));
}

/**
 * The first job of the highest priority below `below`: one seek. A query over all priorities would read every delayed
 * job of the queue (measured: 244 ms at 1,000,000).
 */
function headOf(connection: Connection, queue: string, below: number): Head | undefined {
  return connection.get(HEAD, queue, below) as Head | undefined;
}

type Head = { priority: number; available_at: number };

function earlier(due: number | null, head: Head): number {
  const next = Math.round(head.available_at * 1000);
  return due === null ? next : Math.min(due, next);
}

function expired(connection: Connection, expiry: number): boolean {
  return connection.get(EXPIRED, expiry / 1000) !== undefined;
}
