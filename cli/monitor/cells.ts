import type { FailedJob, Progress, RunningJob, WorkerInfo } from "../../mod.ts";
import { formatDuration } from "../duration.ts";
import { oneLine } from "../one_line.ts";
import type { Look } from "./look.ts";

/** How long the oldest ready job has been waiting; `-` where none does, or the store does not know. */
export function waits(oldest: number | null, now: number): string {
  return oldest === null ? "-" : formatDuration(now - oldest);
}

/** `12/s`, `3.4/s`, `0.25/s`. */
export function perSecond(rate: number): string {
  const size = Math.abs(rate);
  const digits = size >= 10 ? 0 : size >= 1 ? 1 : 2;
  return `${Number(rate.toFixed(digits))}/s`;
}

/** The same with its sign: `+3.4/s`, and `0/s` for what does not move. */
export function signed(rate: number): string {
  return rate > 0.005 ? `+${perSecond(rate)}` : rate < -0.005 ? perSecond(rate) : "0/s";
}

/** The queues of a worker as people say it. */
export function queuesOf({ queues }: WorkerInfo): string {
  return queues === null ? "every queue" : queues.join(",");
}

/** `2 workers · 3 of 20 slots busy`. */
export function slotsText({ workers }: Look): string {
  if (workers.length === 0) return "no worker";
  const busy = workers.reduce((total, one) => total + one.busy, 0);
  const slots = workers.reduce((total, one) => total + one.concurrency, 0);
  return `${workers.length} ${workers.length === 1 ? "worker" : "workers"} · ${busy} of ${slots} slots busy`;
}

/** A running job: name, id, queue, attempt, since when, and how far it says that it is. */
export function jobCells(job: RunningJob, progress: ReadonlyMap<string, Progress>, now: number): string[] {
  return [
    job.name,
    job.id,
    job.queue,
    String(job.attempt),
    formatDuration(now - job.since),
    progressText(progress.get(job.id)),
  ];
}

/** `42 %  part 3`; nothing where the handler has said nothing. */
export function progressText(said: Progress | undefined): string {
  if (said === undefined) return "";
  return `${Math.floor(said.fraction * 100)} %${said.note === null ? "" : `  ${oneLine(said.note)}`}`;
}

/** A failed job: when, name, id, queue, error. */
export function failureCells(job: FailedJob, time: string): string[] {
  return [time, job.name, job.id, job.queue, job.error];
}

const BARS = [..."▁▂▃▄▅▆▇█"];

/** Numbers as a line of bars, of which the highest stands for the largest number, and the lowest for none. */
export function sparkline(numbers: readonly number[]): string {
  const most = Math.max(1, ...numbers);
  return numbers.map((number) => BARS[Math.ceil((number / most) * (BARS.length - 1))]).join("");
}

/** A part of a whole as a bar of `width` columns. */
export function bar(fraction: number, width: number): string {
  const full = Math.floor(Math.min(1, Math.max(0, fraction)) * width);
  return "█".repeat(full) + "░".repeat(width - full);
}
