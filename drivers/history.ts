/**
 * The record of a job's attempts, as stores keep it: bounded, however often a job fails and is retried.
 *
 * @module
 */
import type { AttemptRecord } from "../core/driver.ts";

/** How many records are kept of the first attempts, and how many of the last. */
export const KEPT = 20;

/** A history with one more record; of a long one, the middle goes. */
export function withRecord(
  history: readonly AttemptRecord[],
  record: AttemptRecord | undefined,
): readonly AttemptRecord[] {
  if (record === undefined) return history;
  const all = [...history, record];
  return all.length <= 2 * KEPT ? all : [...all.slice(0, KEPT), ...all.slice(-KEPT)];
}

/** As it is stored; `null` for an empty one. */
export function toText(history: readonly AttemptRecord[]): string | null {
  return history.length === 0 ? null : JSON.stringify(history);
}

/** Reads it back. */
export function fromText(text: unknown): readonly AttemptRecord[] {
  return typeof text === "string" ? JSON.parse(text) : [];
}
