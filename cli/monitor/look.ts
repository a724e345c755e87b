import type { FailedJob, Paused, Progress, Queue, QueueCounts, WorkerInfo } from "../../mod.ts";
import { isPaused, withPaused } from "../counts.ts";
import { lastFailures } from "./failures.ts";

/** What one look at the store has found. */
export interface Look {
  /** When it was taken, in epoch milliseconds. */
  readonly at: number;
  /** The queues by name, also those that are paused and have no job. */
  readonly queues: readonly QueueCounts[];
  readonly paused: Paused;
  /** The workers that are alive. */
  readonly workers: readonly WorkerInfo[];
  /** How far running jobs are, by their ids. */
  readonly progress: ReadonlyMap<string, Progress>;
  /** The last failures, the latest first. */
  readonly failures: readonly FailedJob[];
}

/** How many failures are shown, and of how many running jobs the progress is asked for: a look must stay cheap. */
const MOST_FAILURES = 10;
const MOST_PROGRESS = 50;

/** Looks at the store once. */
export async function look(queue: Queue): Promise<Look> {
  const [paused, counts, workers] = await Promise.all([queue.paused(), queue.counts(), queue.workers()]);
  const running = workers.flatMap((worker) => worker.running).slice(0, MOST_PROGRESS);
  const [said, failures] = await Promise.all([
    Promise.all(running.map(async ({ id }) => [id, await queue.progress(id)] as const)),
    counts.some(({ failed }) => failed > 0) ? lastFailures(queue, MOST_FAILURES) : [],
  ]);
  const progress = new Map<string, Progress>();
  for (const [id, one] of said) if (one !== null) progress.set(id, one);
  return { at: Date.now(), queues: withPaused(counts, paused), paused, workers, progress, failures };
}

/** The jobs of these queues that are ready, and that no worker starts although none is paused. */
export function unserved(found: Look): readonly QueueCounts[] {
  const { queues, paused, workers } = found;
  const serves = (queue: string): boolean =>
    workers.some((worker) => worker.queues === null || worker.queues.includes(queue));
  return queues.filter(({ queue, ready }) => ready > 0 && !isPaused(queue, paused) && !serves(queue));
}
