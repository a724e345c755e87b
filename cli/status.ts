import type { Context } from "./context.ts";
import { type Counts, countsRecord, isPaused, STATES, sum, withPaused } from "./counts.ts";
import { formatDuration } from "./duration.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";
import { table } from "./table.ts";

/** The options of `queue:status`. */
export interface StatusOptions {
  readonly database?: string;
  readonly json?: boolean;
}

const COLUMNS = [
  { title: "QUEUE" },
  ...STATES.map((state) => ({ title: state.toUpperCase(), right: true })),
  { title: "OLDEST WAITS", right: true },
];

/**
 * Shows how many jobs each queue has in each state, how long its oldest ready job has been waiting, and which queues are
 * paused, also where they have no job.
 */
export async function status(options: StatusOptions, { env, output }: Context): Promise<number> {
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const paused = await queue.paused();
    const counts = withPaused(await queue.counts(), paused);
    const now = Date.now();
    const total = sum(counts);
    if (options.json) {
      const queues = counts.map((one) => (
        { queue: one.queue, ...countsRecord(one, now), paused: isPaused(one.queue, paused) }
      ));
      output.line(JSON.stringify({ queues, total: countsRecord(total, now), paused }, null, 2));
    } else if (counts.length === 0) {
      output.line("no jobs");
    } else {
      const rows = counts.map((one) => [
        isPaused(one.queue, paused) ? `${one.queue} (paused)` : one.queue,
        ...cells(one, now),
      ]);
      if (rows.length > 1) rows.push(["total", ...cells(total, now)]);
      for (const line of table(COLUMNS, rows)) output.line(line);
    }
    if (paused.all && !options.json) output.line("every queue is paused: queue:resume lets workers go on");
    return 0;
  });
}

function cells(counts: Counts, now: number): string[] {
  const wait = counts.oldest === null ? "-" : formatDuration(now - counts.oldest);
  return [...STATES.map((state) => String(counts[state])), wait];
}
