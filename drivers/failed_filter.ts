/**
 * Whether a failed job is one of those that are looked for: the same in every store.
 *
 * @module
 */
import type { FailedFilter, FailedJob } from "../core/driver.ts";

/** What a filter looks at. */
export type Filtered = Pick<FailedJob, "name" | "queue" | "failedAt" | "error">;

/** Answers whether a failed job matches. */
export function matcher({ name, queue, since, before, text }: FailedFilter): (job: Filtered) => boolean {
  const wanted = text?.toLowerCase();
  // A store keeps whole seconds: what failed within the one that is named counts as not before it.
  const from = since === undefined ? -Infinity : Math.floor(since / 1000) * 1000;
  return (job) =>
    (name === undefined || job.name === name) &&
    (queue === undefined || job.queue === queue) &&
    job.failedAt >= from &&
    (before === undefined || job.failedAt < before) &&
    (wanted === undefined || job.error.toLowerCase().includes(wanted));
}

/** Whether it is a filter that every failed job matches. */
export function matchesAll(filter: FailedFilter): boolean {
  return Object.values(filter).every((value) => value === undefined);
}
