import type { FailedJob, Queue } from "../../mod.ts";

/** Interim. */
export async function lastFailures(queue: Queue, count: number): Promise<FailedJob[]> {
  const page = await queue.failed({ limit: 1000 });
  return page.sort((a, b) => b.failedAt - a.failedAt).slice(0, count);
}
