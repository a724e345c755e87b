/**
 * Storing jobs.
 *
 * @module
 */
import type { KeyedJob, NewJob, Pushed } from "../../core/driver.ts";
import type { Connection, Value } from "./connection.ts";
import { idsUpTo, rowId } from "./row_id.ts";

/** How many rows one INSERT takes at a time: few texts, so that each is compiled once. */
const LOTS = [256, 64, 8, 1];

const ROW = "(?, ?, ?, ?, ?, ?, ?)";

/** One insert for all, and the ids of each. */
export function insertPushes(connection: Connection, pushes: readonly Value[][][]): string[][] {
  const ids = insertRows(connection, pushes.flat());
  let from = 0;
  return pushes.map((rows) => ids.slice(from, from += rows.length));
}

function insertRows(connection: Connection, rows: readonly Value[][]): string[] {
  const ids: string[] = [];
  for (let from = 0; from < rows.length;) {
    const lot = LOTS.find((size) => size <= rows.length - from)!;
    connection.run(
      `INSERT INTO jobs (name, payload, available_at, queue, priority, dispatched_at, trace) VALUES ${ROW}${
        `, ${ROW}`.repeat(lot - 1)
      }`,
      ...rows.slice(from, from + lot).flat(),
    );
    const last = connection.get("SELECT CAST(last_insert_rowid() AS TEXT) AS id")!.id;
    for (const id of idsUpTo(String(last), lot)) ids.push(id);
    from += lot;
  }
  return ids;
}

/** What is bound for a job. */
export function toRow(job: NewJob, now: number): Value[] {
  const { name, payload, queue, priority, trace = null } = job;
  return [name, payload, availableAt(job.delay, now), queue, priority, Math.floor(now), trace];
}

/**
 * What is due at once gets whole seconds: the original's workers, which know no fraction, then see it at once, and
 * jobs of one second run in the order of their ids.
 */
export function availableAt(delay: number, now: number): number {
  return delay <= 0 ? Math.floor(now / 1000) : (now + delay) / 1000;
}

/** How long a key is known, in seconds, and how many old ones a push forgets at most. */
const KEY_LIFE = 86_400;
const KEYS_FORGOTTEN = 100;

/** Stores each job whose key is new. */
export function insertOnce(connection: Connection, jobs: readonly KeyedJob[], now: number): Pushed[] {
  const seconds = now / 1000;
  connection.run(
    `DELETE FROM queue_keys WHERE key IN
      (SELECT key FROM queue_keys WHERE at <= ? ORDER BY at LIMIT ${KEYS_FORGOTTEN})`,
    seconds - KEY_LIFE,
  );
  return jobs.map((job) => {
    const known = job.key === null ? undefined : connection.get(
      "SELECT CAST(job AS TEXT) AS job FROM queue_keys WHERE key = ? AND at > ?",
      job.key,
      seconds - KEY_LIFE,
    );
    if (known !== undefined) return { id: String(known.job), created: false };
    const [id] = insertRows(connection, [toRow(job, now)]);
    if (job.key !== null) {
      connection.run(
        "INSERT OR REPLACE INTO queue_keys (key, job, at) VALUES (?, ?, ?)",
        job.key,
        rowId(id),
        seconds,
      );
    }
    return { id, created: true };
  });
}
