import type { Paused, QueueCounts } from "../mod.ts";
import type { Context } from "./context.ts";
import { formatDuration } from "./duration.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";
import { table } from "./table.ts";

/** The options of `queue:status`. */
export interface StatusOptions {
  readonly database?: string;
  readonly json?: boolean;
}

const STATES = ["ready", "delayed", "reserved", "failed"] as const;

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
    const isPaused = (name: string): boolean => paused.all || paused.queues.includes(name);
    const now = Date.now();
    const total = sum(counts);
    if (options.json) {
      const queues = counts.map((one) => (
        { queue: one.queue, ...record(one, now), paused: isPaused(one.queue) }
      ));
      output.line(JSON.stringify({ queues, total: record(total, now), paused }, null, 2));
    } else if (counts.length === 0) {
      output.line("no jobs");
    } else {
      const rows = counts.map((one) => [
        isPaused(one.queue) ? `${one.queue} (paused)` : one.queue,
        ...cells(one, now),
      ]);
      if (rows.length > 1) rows.push(["total", ...cells(total, now)]);
      for (const line of table(COLUMNS, rows)) output.line(line);
    }
    if (paused.all && !options.json) output.line("every queue is paused: queue:resume lets workers go on");
    return 0;
  });
}

function withPaused(counts: readonly QueueCounts[], { queues }: Paused): readonly QueueCounts[] {
  const known = new Set(counts.map(({ queue }) => queue));
  const others = queues.filter((queue) => !known.has(queue))
    .map((queue) => ({ queue, ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null }));
  return others.length === 0 ? counts : [...counts, ...others].sort((a, b) => a.queue < b.queue ? -1 : 1);
}

/** What {@linkcode QueueCounts} says without the queue's name. */
type Counts = Omit<QueueCounts, "queue">;

function sum(counts: readonly Counts[]): Counts {
  const total = { ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null as number | null };
  for (const one of counts) {
    for (const state of STATES) total[state] += one[state];
    if (one.oldest !== null) total.oldest = Math.min(total.oldest ?? Infinity, one.oldest);
  }
  return total;
}

/** `oldest` as ISO 8601, and `wait`: how long ago that is, in milliseconds. */
function record(counts: Counts, now: number): Record<string, number | string | null> {
  const { ready, delayed, reserved, failed, oldest } = counts;
  return {
    ready,
    delayed,
    reserved,
    failed,
    oldest: oldest === null ? null : new Date(oldest).toISOString(),
    wait: oldest === null ? null : Math.max(0, now - oldest),
  };
}

function cells(counts: Counts, now: number): string[] {
  const wait = counts.oldest === null ? "-" : formatDuration(now - counts.oldest);
  return [...STATES.map((state) => String(counts[state])), wait];
}
