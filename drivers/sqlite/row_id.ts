/**
 * Ids of jobs, which are row ids: 64 bits, of which a JavaScript number holds 53 exactly. So they are read as text, and
 * go back as text where they are large; SQLite takes that for the number that it is.
 *
 * @module
 */
import type { Value } from "./connection.ts";

/** As it is bound; `null` for text that can be no row id. */
export function rowId(id: string): Value {
  if (!/^(0|-?[1-9]\d{0,18})$/.test(id)) return null;
  if (id.length < 16) return Number(id);
  return BigInt.asIntN(64, BigInt(id)) === BigInt(id) ? id : null;
}

/** Each once, in the order of their numbers; without those that can be none. */
export function rowIds(ids: readonly string[]): string[] {
  return [...new Set(ids)].filter((id) => rowId(id) !== null).sort(byNumber);
}

/** Compares two ids for a sort. */
export function byNumber(a: string, b: string): number {
  if (a.length < 16 && b.length < 16) return Number(a) - Number(b);
  const difference = BigInt(a) - BigInt(b);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** `count` ids in a row, up to `last`. */
export function idsUpTo(last: string, count: number): string[] {
  const ids: string[] = [];
  if (last.length < 16) {
    for (let id = Number(last) - count + 1; id <= Number(last); id++) ids.push(String(id));
  } else for (let id = BigInt(last) - BigInt(count) + 1n; id <= BigInt(last); id++) ids.push(String(id));
  return ids;
}

/**
 * A time in SQL, as a number that every library reads. The original stores 2^63 − 1 for what is due never, and an
 * integer from 2^53 on is an error in `node:sqlite`: it must not stop the jobs beside it.
 */
export function readable(seconds: string): string {
  return `max(-9e12, min(${seconds}, 9e12)) + 0.0`;
}
