import type { Paused, QueueCounts } from "../mod.ts";

/** The states that jobs are counted in, in the order of a job's life. */
export const STATES = ["ready", "delayed", "reserved", "failed"] as const;

/** What {@linkcode QueueCounts} says without the queue's name. */
export type Counts = Omit<QueueCounts, "queue">;

/** The counts, and those of paused queues that have no job. */
export function withPaused(counts: readonly QueueCounts[], { queues }: Paused): readonly QueueCounts[] {
  const known = new Set(counts.map(({ queue }) => queue));
  const others = queues.filter((queue) => !known.has(queue))
    .map((queue) => ({ queue, ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null }));
  return others.length === 0 ? counts : [...counts, ...others].sort((a, b) => a.queue < b.queue ? -1 : 1);
}

/** Whether workers start none of the queue's jobs. */
export function isPaused(queue: string, paused: Paused): boolean {
  return paused.all || paused.queues.includes(queue);
}

/** All queues together. */
export function sum(counts: readonly Counts[]): Counts {
  const total = { ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null as number | null };
  for (const one of counts) {
    for (const state of STATES) total[state] += one[state];
    if (one.oldest !== null) total.oldest = Math.min(total.oldest ?? Infinity, one.oldest);
  }
  return total;
}

/** For `--json`: `oldest` as ISO 8601, and `wait`: how long ago that is, in milliseconds. */
export function countsRecord(counts: Counts, now: number): Record<string, number | string | null> {
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
