import type { FailedJob, Queue } from "../../mod.ts";

/** How many are looked at. A job that was dispatched long before others may fail after them: ids are not in the order of failing. */
const LOOKED_AT = 50;

/** The last failures among the jobs with the highest ids, the latest first. */
export async function lastFailures(queue: Queue, count: number): Promise<FailedJob[]> {
  const failed = await queue.failed({ reverse: true, limit: LOOKED_AT });
  return failed.sort((a, b) => b.failedAt - a.failedAt).slice(0, count);
}
