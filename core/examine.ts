/**
 * What is wrong with a queue, and what to do about it.
 *
 * @module
 */
import type { Driver, Finding, Paused, QueueCounts, WaitingNames, WorkerInfo } from "./driver.ts";
import { mayRun } from "./find.ts";

/** From which wait on jobs wait too long, in milliseconds: for a look, and for help. */
const LONG_WAIT = 5 * 60_000;
const TOO_LONG_WAIT = 60 * 60_000;

/** How many waiting jobs of each queue, from the first on, are looked at for their names. */
const LOOKED_AT = 100;

/** How many names or queues a sentence lists. */
const LISTED = 5;

/**
 * Looks at a store and at those who work on it.
 *
 * @param retryAfter How long a lease lasts, in milliseconds.
 */
export async function examine(driver: Driver, retryAfter: number): Promise<Finding[]> {
  const ofStore = await driver.examine(null, retryAfter);
  const [workers, counts, { paused }] = await Promise.all([
    driver.workers(null),
    driver.counts(null, retryAfter),
    driver.controls(),
  ]);
  const waiting = counts.filter(({ ready, delayed }) => ready + delayed > 0);
  const names = await driver.waitingNames(waiting.map(({ queue }) => queue), LOOKED_AT);
  return [
    ...ofStore,
    lookAtWorkers(workers, waiting),
    ...lookAtQueues(workers, waiting),
    ...lookAtHandlers(workers, names),
    ...lookAtPauses(paused, waiting),
    lookAtWaits(waiting, paused, Date.now()),
    lookAtFailed(counts),
  ];
}

function lookAtWorkers(workers: readonly WorkerInfo[], waiting: readonly QueueCounts[]): Finding {
  if (workers.length > 0) {
    const shown = workers.slice(0, LISTED).map(({ host, pid }) => `${host}:${pid}`).join(", ");
    const slots = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
    const busy = workers.reduce((sum, worker) => sum + worker.busy, 0);
    const more = workers.length > LISTED ? ", …" : "";
    return fine("workers", `${workers.length} alive (${shown}${more}), ${busy} of ${slots} slots taken`);
  }
  const isMissed = waiting.some(({ ready }) => ready > 0);
  return {
    what: "workers",
    level: isMissed ? "bad" : "warn",
    found: isMissed ? "none is running, and jobs wait" : "none is running",
    remedy: "start queue:work, or queue.start() in the app; in production QUEUE_WORKERS is 0",
  };
}

function lookAtQueues(workers: readonly WorkerInfo[], waiting: readonly QueueCounts[]): Finding[] {
  if (workers.length === 0) return [];
  const left = waiting.map(({ queue }) => queue).filter((queue) => able(workers, queue).length === 0);
  if (left.length === 0) {
    return waiting.length === 0 ? [] : [fine("queues", "each queue with jobs has a worker")];
  }
  return [{
    what: "queues",
    level: "bad",
    found: `jobs wait on ${list(left)}, and no worker takes from there`,
    remedy: `start queue:work --queue=${left[0]}, or one without --queue, which takes from all`,
  }];
}

function lookAtHandlers(workers: readonly WorkerInfo[], waiting: readonly WaitingNames[]): Finding[] {
  const lacking = new Set<string>();
  for (const { queue, names } of waiting) {
    const some = able(workers, queue);
    if (some.length === 0) continue;
    for (const name of names) if (!some.some((worker) => mayRun(worker, name))) lacking.add(name);
  }
  if (lacking.size === 0) return [];
  return [{
    what: "handlers",
    level: "bad",
    found: `jobs wait that no worker of their queue has a handler for: ${list([...lacking])}`,
    remedy: "deploy workers with these handlers; until then each attempt at such a job fails",
  }];
}

function lookAtPauses({ all, queues }: Paused, waiting: readonly QueueCounts[]): Finding[] {
  if (!all && queues.length === 0) return [];
  const held = waiting.filter(({ queue }) => all || queues.includes(queue))
    .reduce((sum, { ready }) => sum + ready, 0);
  return [{
    what: "pauses",
    level: "warn",
    found: `${all ? "every queue is" : `${list(queues)} ${queues.length === 1 ? "is" : "are"}`} paused, ` +
      `with ${held} ${held === 1 ? "job" : "jobs"} ready`,
    remedy: "queue:resume, once what they were paused for is over",
  }];
}

/** A queue that is paused waits because somebody wants it to. */
function lookAtWaits(waiting: readonly QueueCounts[], paused: Paused, now: number): Finding {
  const waits = waiting
    .filter(({ queue }) => !paused.all && !paused.queues.includes(queue))
    .flatMap(({ queue, oldest }) => oldest === null ? [] : [{ queue, wait: Math.max(0, now - oldest) }])
    .sort((a, b) => b.wait - a.wait);
  const [longest] = waits;
  if (longest === undefined) return fine("oldest wait", "no ready job is known to wait");
  const found = `${Math.round(longest.wait / 1000)} s, on ${longest.queue}`;
  if (longest.wait < LONG_WAIT) return fine("oldest wait", found);
  return {
    what: "oldest wait",
    level: longest.wait < TOO_LONG_WAIT ? "warn" : "bad",
    found,
    remedy: "start more workers, or raise --concurrency; queue:workers shows what they run",
  };
}

function lookAtFailed(counts: readonly QueueCounts[]): Finding {
  const failed = counts.reduce((sum, one) => sum + one.failed, 0);
  if (failed === 0) return fine("failed jobs", "none");
  return {
    what: "failed jobs",
    level: "warn",
    found: String(failed),
    remedy: "queue:failed lists them, queue:show ID says what happened; then queue:retry or queue:forget",
  };
}

function able(workers: readonly WorkerInfo[], queue: string): WorkerInfo[] {
  return workers.filter(({ queues }) => queues === null || queues.includes(queue));
}

function fine(what: string, found: string): Finding {
  return { what, level: "ok", found, remedy: null };
}

function list(names: readonly string[]): string {
  const shown = names.slice(0, LISTED).join(", ");
  return names.length > LISTED ? `${shown} and ${names.length - LISTED} more` : shown;
}
