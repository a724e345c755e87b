/**
 * Lengths of time, as callers write them.
 *
 * @module
 */
import { QueueError } from "./errors.ts";
import { show } from "./show.ts";

/** The parts of a {@linkcode Duration} written as a record; those that are absent count as 0. */
export interface DurationRecord {
  /** Days of 24 hours. */
  days?: number;
  /** Hours. */
  hours?: number;
  /** Minutes. */
  minutes?: number;
  /** Seconds; a fraction is allowed. */
  seconds?: number;
  /** Milliseconds. */
  milliseconds?: number;
}

/** A length of time: milliseconds, or a record such as `{ minutes: 5 }`. A `Temporal.Duration` is such a record. */
export type Duration = number | DurationRecord;

const UNITS: ReadonlyArray<[keyof DurationRecord, number]> = [
  ["days", 86_400_000],
  ["hours", 3_600_000],
  ["minutes", 60_000],
  ["seconds", 1000],
  ["milliseconds", 1],
];

/** Ten thousand years: what is longer is a mistake, and would leave the range of exact numbers. */
export const LONGEST_DURATION = 10_000 * 365.25 * 86_400_000;

/**
 * The duration in milliseconds, rounded to a whole one.
 *
 * @param duration What the caller wrote.
 * @param setting Its name, for the error.
 * @throws {QueueError} `CONFIG` when it is negative, not finite, or has a unit without a fixed length (months, years).
 */
export function toMilliseconds(duration: Duration, setting: string): number {
  const total = typeof duration === "number" ? duration : addUp(duration, setting);
  if (total > LONGEST_DURATION) {
    throw new QueueError("CONFIG", `${setting}=${show(duration)}: expected at most 10,000 years`);
  }
  if (!Number.isFinite(total) || total < 0) throw refuse(duration, setting);
  return Math.round(total);
}

function addUp(record: DurationRecord, setting: string): number {
  if (typeof record !== "object" || record === null) throw refuse(record, setting);
  const fields = record as Readonly<Record<string, unknown>>;
  let total = 0;
  let known = 0;
  for (const [unit, size] of UNITS) {
    const value = fields[unit];
    if (value === undefined) continue;
    if (typeof value !== "number") throw refuse(record, setting);
    total += value * size;
    known++;
  }
  // A Temporal.Duration keeps its fields on the prototype, so they are asked for by name.
  total += (Number(fields.weeks ?? 0)) * 7 * 86_400_000;
  if (fields.years || fields.months) throw refuse(record, setting);
  const unknown = Object.keys(fields).find((key) => !UNITS.some(([unit]) => unit === key) && key !== "weeks");
  if (unknown !== undefined || (known === 0 && fields.weeks === undefined)) throw refuse(record, setting);
  return total;
}

function refuse(duration: unknown, setting: string): QueueError {
  return new QueueError(
    "CONFIG",
    `${setting}=${
      show(duration)
    }: expected milliseconds from 0, or a record such as { minutes: 5 } of days, hours, minutes, seconds and milliseconds`,
  );
}
