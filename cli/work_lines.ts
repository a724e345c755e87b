import type { WorkEvent } from "../mod.ts";
import { formatDuration } from "./duration.ts";
import { localTime } from "./local_time.ts";
import { oneLine } from "./one_line.ts";
import { padEnd, padStart } from "./width.ts";

const COLOURS = { green: 32, yellow: 33, red: 31, dim: 2 };

/** How `queue:work` prints an event: `2026-12-01 12:04:05  invoice  8  1/5  30 ms  RETRY in 10 s: upstream 503`. */
export function eventLine(event: WorkEvent, now: Date, nameWidth: number, colour: boolean): string {
  const { job } = event;
  const [state, paint] = stateOf(event);
  const duration = event.duration === undefined ? "" : formatDuration(event.duration);
  const columns = [
    colour ? painted(localTime(now), "dim") : localTime(now),
    padEnd(oneLine(job.name), nameWidth),
    padEnd(oneLine(job.id), 6),
    padEnd(`${job.attempt}/${job.tries}`, 5),
    padStart(duration, 8),
    colour ? painted(state, paint) : state,
  ];
  return columns.join("  ") + (event.error === undefined ? "" : `: ${oneLine(event.error)}`);
}

/** The same event as one line of JSON. Every line has every key. */
export function eventJson(event: WorkEvent, now: Date): string {
  const { job } = event;
  return JSON.stringify({
    time: now.toISOString(),
    event: event.type,
    id: job.id,
    name: job.name,
    queue: job.queue,
    attempt: job.attempt,
    tries: job.tries,
    duration: event.duration === undefined ? null : Number(event.duration.toFixed(3)),
    error: event.error ?? null,
    retryIn: event.retryIn ?? null,
  });
}

function stateOf(event: WorkEvent): [string, keyof typeof COLOURS] {
  switch (event.type) {
    case "started":
      return ["START", "dim"];
    case "completed":
      return ["DONE", "green"];
    case "released":
      return [`RETRY in ${formatDuration(event.retryIn ?? 0)}`, "yellow"];
    case "snoozed":
      return [`SNOOZE for ${formatDuration(event.retryIn ?? 0)}`, "yellow"];
    case "failed":
      return ["FAIL", "red"];
    case "handedBack":
      return ["HANDED BACK", "yellow"];
    case "lost":
      return ["LOST", "red"];
  }
}

/** What `queue:work` prints when it is told to stop. */
export function stopLine(running: number, grace: number): string {
  if (running === 0) return "stopping: no job is running";
  const jobs = `${running} running ${running === 1 ? "job" : "jobs"}`;
  return `stopping: waiting up to ${formatDuration(grace)} for ${jobs}; a second signal stops at once`;
}

function painted(text: string, colour: keyof typeof COLOURS): string {
  return `\u001b[${COLOURS[colour]}m${text}\u001b[0m`;
}
