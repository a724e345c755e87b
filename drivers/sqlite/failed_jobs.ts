/**
 * The `failed_jobs` table, which every driver uses whose failures live in the app's database.
 *
 * @module
 */
import type {
  AttemptRecord,
  FailedFilter,
  FailedFound,
  FailedJob,
  FailedSearch,
  FailedSelection,
  Failure,
  Moved,
  Reservation,
} from "../../core/driver.ts";
import { fromText, toText } from "../history.ts";
import { type Filtered, matcher, matchesAll } from "../failed_filter.ts";
import type { Connection, Row, Value } from "./connection.ts";
import { byNumber, readable, rowId, rowIds } from "./row_id.ts";

/**
 * Records a failure, inside the caller's transaction. The row takes the job's own id, so that one number names the
 * job wherever it is; where a foreign row has that number already, SQLite gives it another, and `job_id` keeps the
 * job's, which a retry gives back: handlers know their job by it.
 */
export function insertFailed(
  connection: Connection,
  job: Reservation,
  why: Failure,
  history: readonly AttemptRecord[],
): void {
  const id = rowId(job.id);
  const taken = id !== null &&
    connection.get("SELECT 1 FROM failed_jobs WHERE id = ?", id) !== undefined;
  connection.run(
    `INSERT INTO failed_jobs (id, name, payload, error, failed_at, queue, priority, attempts, stack, history, job_id)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
        CASE WHEN NOT EXISTS (SELECT 1 FROM failed_jobs AS other WHERE other.job_id = ?) THEN ? END)`,
    taken ? null : id,
    ...valuesOf(job, why, history),
    job.id,
    taken ? job.id : null,
  );
}

/** What a row says of a failure: name, payload, error, failed_at, queue, priority, attempts, stack and history. */
function valuesOf(job: Reservation, why: Failure, history: readonly AttemptRecord[]): Value[] {
  // Whole seconds: the original reads this column as an integer.
  const failedAt = Math.floor(why.failedAt / 1000);
  return [
    job.name,
    job.payload,
    why.error,
    failedAt,
    job.queue,
    job.priority,
    job.attempt,
    why.stack,
    toText(history),
  ];
}

const COLUMNS = `CAST(id AS TEXT) AS id, name, payload, error, ${
  readable("failed_at")
} AS failed_at, queue, priority, attempts, stack, history`;

/** What a filter looks at; a stack and a payload are not read for it. */
const FILTERED = `CAST(id AS TEXT) AS id, name, queue, ${readable("failed_at")} AS failed_at`;

/** How many rows one step of a search looks at: some milliseconds, and at 16 KB an error, 16 MB. */
const LOOK = 1000;

/** The selected rows, in the order of their ids. */
export function selectFailed(connection: Connection, selection: FailedSelection): FailedJob[] {
  if ("ids" in selection) {
    return rowIds(selection.ids)
      .map((id) => connection.get(`SELECT ${COLUMNS} FROM failed_jobs WHERE id = ?`, rowId(id)))
      .filter((row) => row !== undefined)
      .map(toFailedJob)
      .filter(matcher(selection.filter ?? {}));
  }
  return readPage(connection, COLUMNS, selection).map(toFailedJob);
}

/** One step of a search. */
export function findFailed(connection: Connection, search: FailedSearch): FailedFound {
  const { filter, limit } = search;
  if (limit < 1) return { ids: [], looked: 0, next: search.after };
  const look = matchesAll(filter) ? Math.min(LOOK, limit) : LOOK;
  const rows = readAhead(connection, search, look);
  const isWanted = matcher(filter);
  const ids: string[] = [];
  let looked = 0;
  while (looked < rows.length && ids.length < limit) {
    const row = rows[looked++];
    if (isWanted(toFiltered(row))) ids.push(String(row.id));
  }
  const isOver = looked === rows.length && rows.length < look;
  return { ids, looked, next: isOver ? null : String(rows[looked - 1].id) };
}

function readAhead(connection: Connection, search: FailedSearch, look: number): Row[] {
  const { filter, after, until, reverse } = search;
  const bounds: [condition: string, id: string][] = [];
  if (after !== null) bounds.push([reverse ? "id < ?" : "id > ?", after]);
  if (until !== null) bounds.push(["id <= ?", until]);
  const ids = bounds.map(([, id]) => rowId(id));
  if (ids.includes(null)) return [];
  const conditions = bounds.map(([condition]) => `failed_jobs.${condition}`).join(" AND ");
  return connection.all(
    `SELECT ${FILTERED}${filter.text === undefined ? "" : ", error"} FROM failed_jobs
      ${conditions === "" ? "" : `WHERE ${conditions}`}
      ORDER BY failed_jobs.id ${reverse ? "DESC" : ""} LIMIT ?`,
    ...ids,
    look,
  );
}

function toFiltered({ name, queue, failed_at, error }: Row): Filtered {
  return {
    name: String(name),
    queue: String(queue),
    failedAt: Number(failed_at) * 1000,
    error: String(error),
  };
}

/** Whether the row of an id matches by now. */
function matchesNow(connection: Connection, id: string, filter: FailedFilter): boolean {
  const row = connection.get(`SELECT ${FILTERED}, error FROM failed_jobs WHERE id = ?`, rowId(id));
  return row !== undefined && matcher(filter)(toFiltered(row));
}

function readPage(
  connection: Connection,
  columns: string,
  { after, limit }: { after: string | null; limit: number },
): Row[] {
  const from = (condition: string) =>
    `SELECT ${columns} FROM failed_jobs ${condition} ORDER BY failed_jobs.id LIMIT ?`;
  if (after === null) return connection.all(from(""), limit);
  const id = rowId(after);
  return id === null ? [] : connection.all(from("WHERE failed_jobs.id > ?"), id, limit);
}

/** The ids of the selected rows, in their order, without reading what may be megabytes of payload. */
function selectIds(connection: Connection, selection: FailedSelection): string[] {
  if ("ids" in selection) {
    const { ids, filter = {} } = selection;
    return matchesAll(filter) ? rowIds(ids) : rowIds(ids).filter((id) => matchesNow(connection, id, filter));
  }
  return readPage(connection, "CAST(id AS TEXT) AS id", selection).map((row) => row.id as string);
}

/**
 * The id under which a row's job ran on this store; NULL for one that another program or another store failed, whose
 * number is no job's. One from 2^53 on is not given to a job again: AUTOINCREMENT would count on from there.
 */
const OWN_ID = `CASE
  WHEN job_id NOT GLOB '*[^0-9]*' AND length(job_id) BETWEEN 1 AND 15 THEN CAST(job_id AS INTEGER)
  WHEN job_id IS NULL AND attempts IS NOT NULL AND id < 9007199254740991 THEN id END`;

/** Ends a history with when an operator had its job run again. */
const RETRIED = "json_set(history, '$[#-1].retriedAt', ?)";

/**
 * Puts rows back into `jobs`, each under its job's id where that is free.
 *
 * @param dueAt In seconds.
 * @param at The present, in milliseconds.
 */
export function retryFailed(
  connection: Connection,
  selection: FailedSelection,
  dueAt: number,
  at: number,
): Moved[] {
  return selectIds(connection, selection).flatMap((id) => {
    connection.run(
      `INSERT INTO jobs (id, name, payload, available_at, queue, priority, history, dispatched_at)
        SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = own) THEN own END, name, payload, ?, queue, priority,
            ${RETRIED}, ?
          FROM (SELECT *, ${OWN_ID} AS own FROM failed_jobs WHERE id = ?)`,
      dueAt,
      at,
      Math.floor(at),
      rowId(id),
    );
    return deleteFailed(connection, id);
  });
}

/** Deletes rows. */
export function forgetFailed(connection: Connection, selection: FailedSelection): Moved[] {
  return selectIds(connection, selection).flatMap((id) => deleteFailed(connection, id));
}

function deleteFailed(connection: Connection, id: string): Moved[] {
  return connection.all("DELETE FROM failed_jobs WHERE id = ? RETURNING name", rowId(id))
    .map(({ name }) => ({ id, name: String(name) }));
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
    history: fromText(row.history),
  };
}

/** A failed job, and what else tells its row from one that takes its id later. */
export interface FailedRow extends FailedJob {
  /** The id of its row. */
  readonly row: string;
  /** Its id in the store that it failed in; `null` where that was this table's own. */
  readonly jobId: string | null;
  /** What tells this failure from every other one; `null` where another program wrote it. */
  readonly failure: string | null;
}

/** The table as another driver sees it, whose failures live here while its jobs do not. */
export class FailedJobs {
  readonly #run: <Result>(run: (connection: Connection) => Result) => Promise<Result>;
  readonly #read: <Result>(run: (connection: Connection) => Result) => Promise<Result>;

  /**
   * @param run Runs something in a transaction.
   * @param read Runs something that only reads, without the write lock.
   */
  constructor(
    run: <Result>(run: (connection: Connection) => Result) => Promise<Result>,
    read: <Result>(run: (connection: Connection) => Result) => Promise<Result>,
  ) {
    this.#run = run;
    this.#read = read;
  }

  /**
   * Records a failure under the job's id in its own store; one row, however often that is tried. A later attempt's wins:
   * a stale worker may try, too.
   *
   * @param history Its attempts, this one too.
   * @param failure Tells this failure from every other one.
   */
  record(
    job: Reservation,
    why: Failure,
    history: readonly AttemptRecord[],
    failure: string,
  ): Promise<unknown> {
    return this.#run((connection) =>
      connection.run(
        `INSERT INTO failed_jobs
          (name, payload, error, failed_at, queue, priority, attempts, stack, history, job_id, failure)
          VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
          ON CONFLICT (job_id) WHERE job_id IS NOT NULL DO UPDATE SET error = excluded.error,
            failed_at = excluded.failed_at, attempts = excluded.attempts, stack = excluded.stack,
            history = excluded.history, failure = excluded.failure
            WHERE excluded.attempts >= attempts`,
        ...valuesOf(job, why, history),
        job.id,
        failure,
      )
    );
  }

  /** Takes back what `record` did for this attempt, and no other one's. */
  undo(job: Reservation): Promise<unknown> {
    return this.#run((connection) =>
      connection.run("DELETE FROM failed_jobs WHERE job_id = ? AND attempts = ?", job.id, job.attempt)
    );
  }

  /** The selected rows, in the order of their numbers; the id of each is the one that it was asked for by. */
  select(selection: FailedSelection): Promise<FailedRow[]> {
    return this.#run((connection) => {
      if (!("ids" in selection)) {
        return selectFailed(connection, selection).map((job) => toFailedRow(connection, job));
      }
      const rows = new Map<string, FailedRow>();
      for (const id of selection.ids) {
        const row = rowId(id) !== null
          ? id
          : connection.get("SELECT CAST(id AS TEXT) AS id FROM failed_jobs WHERE job_id = ?", id)?.id as
            | string
            | undefined;
        if (row === undefined) continue;
        const [job] = selectFailed(connection, { ids: [row], filter: selection.filter });
        if (job !== undefined && !rows.has(row)) rows.set(row, { ...toFailedRow(connection, job), id });
      }
      return [...rows.values()].sort((a, b) => byNumber(a.row, b.row));
    });
  }

  /** One step of a search, by the numbers of the rows. */
  find(search: FailedSearch): Promise<FailedFound> {
    return this.#read((connection) => findFailed(connection, search));
  }

  /** Deletes rows, and says of each whether it was there. */
  remove(rows: readonly FailedRow[]): Promise<boolean[]> {
    return this.#run((connection) =>
      rows.map(({ row, failure, payload, failedAt }) =>
        connection.run(
          `DELETE FROM failed_jobs
            WHERE id = ? AND coalesce(failure, '') = ? AND payload = ? AND ${readable("failed_at")} = ?`,
          rowId(row),
          failure ?? "",
          payload,
          failedAt / 1000,
        ) > 0
      )
    );
  }

  /** How many there are of each queue. */
  counts(): Promise<Map<string, number>> {
    return this.#run((connection) => {
      const rows = connection.all("SELECT queue, count(*) AS jobs FROM failed_jobs GROUP BY queue");
      return new Map(rows.map((row) => [String(row.queue), Number(row.jobs)]));
    });
  }
}

function toFailedRow(connection: Connection, job: FailedJob): FailedRow {
  const found = connection.get("SELECT job_id, failure FROM failed_jobs WHERE id = ?", rowId(job.id));
  return {
    ...job,
    row: job.id,
    jobId: (found?.job_id ?? null) as string | null,
    failure: (found?.failure ?? null) as string | null,
  };
}
