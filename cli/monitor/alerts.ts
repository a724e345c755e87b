import { isPaused } from "../counts.ts";
import { formatDuration } from "../duration.ts";
import { type Look, unserved } from "./look.ts";

/** What is too much, where the command line says so. */
export interface Limits {
  /** More ready jobs than this in one queue. */
  readonly max?: number;
  /** A ready job that has been waiting for longer than so many milliseconds. */
  readonly oldest?: number;
}

/** Something that somebody must look at. */
export interface Alert {
  readonly kind: "paused" | "workers" | "max" | "oldest";
  /** The queue; `null` where it is about all of them. */
  readonly queue: string | null;
  /** What is wrong. */
  readonly why: string;
  /** What puts it right. */
  readonly remedy: string;
}

/** What is wrong, the most certain first: what nobody can be working on comes before what is merely a lot. */
export function alertsOf(found: Look, limits: Limits): Alert[] {
  return [...pauses(found), ...withoutWorker(found), ...tooMany(found, limits), ...tooOld(found, limits)];
}

/** How an alert is printed on one line. */
export function alertText({ why, remedy }: Alert): string {
  return `${why}: ${remedy}`;
}

function pauses({ queues, paused }: Look): Alert[] {
  const held = queues.filter(({ queue, ready }) => ready > 0 && isPaused(queue, paused));
  if (paused.all && held.length > 0) {
    const ready = held.reduce((total, one) => total + one.ready, 0);
    return [{
      kind: "paused",
      queue: null,
      why: `every queue is paused, and ${wait(ready)}`,
      remedy: "queue:resume lets workers go on",
    }];
  }
  return held.map(({ queue, ready }) => ({
    kind: "paused",
    queue,
    why: `${queue} is paused, and ${wait(ready)}`,
    remedy: `queue:resume --queue=${queue} lets workers go on`,
  }));
}

function withoutWorker(found: Look): Alert[] {
  const waiting = unserved(found);
  if (waiting.length > 0 && found.workers.length === 0) {
    const ready = waiting.reduce((total, one) => total + one.ready, 0);
    return [{
      kind: "workers",
      queue: null,
      why: `no worker is alive, and ${wait(ready)}`,
      remedy: "start queue:work",
    }];
  }
  return waiting.map(({ queue, ready }) => ({
    kind: "workers",
    queue,
    why: `no worker serves ${queue}, and ${wait(ready)}`,
    remedy: `start queue:work --queue=${queue}, or add it to the queues of a worker`,
  }));
}

function tooMany({ queues }: Look, { max }: Limits): Alert[] {
  if (max === undefined) return [];
  return queues.filter(({ ready }) => ready > max).map(({ queue, ready }) => ({
    kind: "max",
    queue,
    why: `in ${queue} ${wait(ready)}, more than ${max}`,
    remedy: "start more workers, or see what holds up those that run",
  }));
}

function tooOld({ queues, at }: Look, { oldest: limit }: Limits): Alert[] {
  if (limit === undefined) return [];
  return queues.flatMap(({ queue, oldest }): Alert[] => {
    if (oldest === null || at - oldest <= limit) return [];
    const waits = formatDuration(at - oldest);
    return [{
      kind: "oldest",
      queue,
      why: `in ${queue} a job has been waiting for ${waits}, longer than ${formatDuration(limit)}`,
      remedy: "start more workers, or see what holds up those that run",
    }];
  });
}

function wait(jobs: number): string {
  return jobs === 1 ? "1 job waits" : `${jobs} jobs wait`;
}
