/**
 * What a settlement must match, and how many of them go into one statement.
 *
 * @module
 */
import type { AttemptRecord, Reservation } from "../../core/driver.ts";
import { fromText } from "../history.ts";
import type { Connection, Value } from "./connection.ts";
import { rowId } from "./row_id.ts";

/** From this many jobs on, one statement over a JSON list is faster than one for each. */
export const MANY = 8;

/** Ends a statement that settles: its parameters are those of {@linkcode fence}. */
export const HELD = "WHERE id = ? AND attempts = ? AND token = ?";

/**
 * The token alone would do for our own workers; the attempt catches the original's, which take an expired job without
 * changing the token.
 */
export function fence(held: Reservation): [id: Value, attempts: number, token: number] {
  return [rowId(held.id), held.attempt, Number(held.token)];
}

/** The attempts of a job that failed, while it is still held; else `null`. */
export function historyOf(connection: Connection, held: Reservation): readonly AttemptRecord[] | null {
  const row = connection.get(`SELECT history FROM jobs ${HELD}`, ...fence(held));
  return row === undefined ? null : fromText(row.history);
}

const DELETE = `DELETE FROM jobs ${HELD}`;

/** Deletes a job that is still held, and says whether it was. */
export function deleteHeld(connection: Connection, held: Reservation): boolean {
  return connection.run(DELETE, ...fence(held)) > 0;
}

/** Deletes what is still held, and says of each whether it was. */
export function deleteDone(connection: Connection, jobs: readonly Reservation[]): boolean[] {
  if (jobs.length === 1) return [deleteHeld(connection, jobs[0])];
  const done = new Set<Reservation>();
  const batches = new Map<string, Reservation[]>();
  for (const held of jobs) {
    const key = `${held.token} ${held.attempt}`;
    const batch = batches.get(key);
    if (batch === undefined) batches.set(key, [held]);
    else batch.push(held);
  }
  for (const batch of batches.values()) {
    if (deleteRange(connection, batch)) {
      for (const held of batch) done.add(held);
      continue;
    }
    if (batch.length < MANY) {
      for (const held of batch) if (deleteHeld(connection, held)) done.add(held);
      continue;
    }
    const [, attempt, token] = fence(batch[0]);
    const deleted = connection.all(
      `DELETE FROM jobs WHERE id IN (SELECT value FROM json_each(?)) AND attempts = ? AND token = ?
        RETURNING CAST(id AS TEXT) AS id`,
      toList(batch.map(({ id }) => rowId(id))),
      attempt,
      token,
    );
    const ids = new Set(deleted.map(({ id }) => id));
    for (const held of batch) if (ids.delete(held.id)) done.add(held);
  }
  // Of two completions of one reservation, the first.
  return jobs.map((held) => done.delete(held));
}

const RANGE = "FROM jobs WHERE id BETWEEN ? AND ? AND attempts = ? AND token = ?";
const COUNT_RANGE = `SELECT count(*) AS held ${RANGE}`;
const DELETE_RANGE = `DELETE ${RANGE}`;

/** Deletes jobs of one reservation whose ids have no gap, where all are still held; else nothing. */
function deleteRange(connection: Connection, batch: readonly Reservation[]): boolean {
  const ids = new Set(batch.map(({ id }) => id));
  // One that stands here twice would fill a gap, and the job in that would go, too.
  if (ids.size === 1 || ids.size < batch.length) return false;
  const range = gapless([...ids]);
  if (range === null) return false;
  const [, attempt, token] = fence(batch[0]);
  if (connection.get(COUNT_RANGE, ...range, attempt, token)?.held !== batch.length) return false;
  connection.run(DELETE_RANGE, ...range, attempt, token);
  return true;
}

/** The first and the last of these ids, in any order, where they are all between them; else `null`. */
export function gapless(ids: readonly string[]): [first: number, last: number] | null {
  let [first, last] = [Infinity, -Infinity];
  for (const id of ids) {
    const number = Number(id);
    if (number < first) first = number;
    if (number > last) last = number;
  }
  return Number.isSafeInteger(last) && Number.isSafeInteger(first) && last - first === ids.length - 1
    ? [first, last]
    : null;
}

/** A JSON list of row ids, those of 64 bits as numbers, too. */
export function toList(ids: readonly Value[]): string {
  return `[${ids.map((id) => id ?? "null").join(",")}]`;
}
