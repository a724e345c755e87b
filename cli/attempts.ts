import type { AttemptRecord } from "../mod.ts";

/** The attempts of a job as JSON documents have them: times in ISO 8601. */
export function attemptRecords(history: readonly AttemptRecord[]): Record<string, unknown>[] {
  return history.map(({ startedAt, retriedAt, ...attempt }) => ({
    ...attempt,
    startedAt: new Date(startedAt).toISOString(),
    retriedAt: retriedAt === undefined ? null : new Date(retriedAt).toISOString(),
  }));
}
