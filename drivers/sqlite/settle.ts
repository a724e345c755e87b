/**
 * What a settlement must match, and how many of them go into one statement.
 *
 * @module
 */
import type { Reservation } from "../../core/driver.ts";
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

/** Deletes a job that is still held, and says whether it was. */
export function deleteHeld(connection: Connection, held: Reservation): boolean {
  return connection.run(`DELETE FROM jobs ${HELD}`, ...fence(held)) > 0;
}

/** Deletes what is still held, and says of each whether it was. */
export function deleteDone(connection: Connection, jobs: readonly Reservation[]): boolean[] {
  if (jobs.length < MANY) return jobs.map((held) => deleteHeld(connection, held));
  const done = new Set<Reservation>();
  const batches = new Map<string, Reservation[]>();
  for (const held of jobs) {
    const key = `${held.token} ${held.attempt}`;
    const batch = batches.get(key);
    if (batch === undefined) batches.set(key, [held]);
    else batch.push(held);
  }
  for (const batch of batches.values()) {
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

/** A JSON list of row ids, those of 64 bits as numbers, too. */
export function toList(ids: readonly Value[]): string {
  return `[${ids.map((id) => id ?? "null").join(",")}]`;
}
