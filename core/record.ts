/**
 * What is kept of an attempt that failed, to understand the job by later.
 *
 * @module
 */
import type { Outcome } from "./attempt.ts";
import type { AttemptRecord, Moment, Reservation } from "./driver.ts";
import { WORKER } from "./presence.ts";

/** How many characters are kept of an error, and of a stack. */
const LONGEST_ERROR = 1024;
const LONGEST_STACK = 4096;

/**
 * The record of an attempt that has just ended; none where it did not fail, or was not spent.
 *
 * @param duration How long it ran, in milliseconds.
 * @param now The present, where the caller has a clock of its own.
 */
export function recordOf(
  { attempt }: Reservation,
  outcome: Outcome,
  duration: number,
  now: Moment,
): AttemptRecord | undefined {
  if (outcome.verdict !== "release" && outcome.verdict !== "fail") return undefined;
  return {
    attempt,
    startedAt: Math.round(now ?? Date.now() - duration),
    duration: Math.round(duration),
    worker: WORKER,
    error: cut(outcome.problem, LONGEST_ERROR),
    stack: outcome.stack === null ? null : cut(outcome.stack, LONGEST_STACK),
  };
}

function cut(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1).toWellFormed()}…`;
}
