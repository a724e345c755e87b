import { countsRecord, isPaused, STATES, sum } from "../counts.ts";
import { formatDuration } from "../duration.ts";
import { localTime } from "../local_time.ts";
import { oneLine } from "../one_line.ts";
import { table } from "../table.ts";
import type { Alert } from "./alerts.ts";
import { failureCells, jobCells, perSecond, queuesOf, signed, slotsText, waits } from "./cells.ts";
import type { History } from "./history.ts";
import type { Look } from "./look.ts";

const QUEUES = [
  { title: "QUEUE" },
  ...STATES.map((state) => ({ title: state.toUpperCase(), right: true })),
  { title: "OLDEST WAITS", right: true },
];

const WORKERS = [
  { title: "WORKER" },
  { title: "QUEUES" },
  { title: "BUSY", right: true },
  { title: "ENDED", right: true },
  { title: "UP", right: true },
];

const RUNNING = [
  { title: "RUNS" },
  { title: "ID" },
  { title: "QUEUE" },
  { title: "ATTEMPT", right: true },
  { title: "SINCE", right: true },
  { title: "PROGRESS" },
];

const FAILURES = [{ title: "FAILED AT" }, { title: "NAME" }, { title: "ID" }, { title: "QUEUE" }, {
  title: "ERROR",
}];

/** One look as tables, with what is there and nothing else. */
export function report(found: Look, width: number | undefined): string[] {
  const { queues, paused, workers, failures, progress, at } = found;
  const lines: string[] = [];
  const add = (columns: Parameters<typeof table>[0], rows: readonly string[][]): void => {
    if (rows.length === 0) return;
    if (lines.length > 0) lines.push("");
    lines.push(...table(columns, rows, width));
  };
  const rows = queues.map((one) => [
    isPaused(one.queue, paused) ? `${one.queue} (paused)` : one.queue,
    ...STATES.map((state) => String(one[state])),
    waits(one.oldest, at),
  ]);
  const total = sum(queues);
  if (rows.length > 1) {
    rows.push(["total", ...STATES.map((state) => String(total[state])), waits(total.oldest, at)]);
  }
  if (rows.length === 0) lines.push("no jobs");
  add(QUEUES, rows);
  if (workers.length === 0) lines.push("", "no worker is alive");
  add(
    WORKERS,
    workers.map((worker) => [
      `${worker.host}:${worker.pid}`,
      queuesOf(worker),
      `${worker.busy}/${worker.concurrency}`,
      String(worker.processed),
      formatDuration(at - worker.startedAt),
    ]),
  );
  add(RUNNING, workers.flatMap(({ running }) => running.map((job) => jobCells(job, progress, at))));
  add(FAILURES, failures.map((job) => failureCells(job, localTime(new Date(job.failedAt)))));
  return lines;
}

/** One look as a line for each queue, as it is printed again and again where there is no terminal. */
export function watchLines(found: Look, history: History): string[] {
  const { queues, paused, at } = found;
  const time = localTime(new Date(at));
  const lines = queues.map((one) => {
    const trend = history.trend(one.queue);
    return [
      `${oneLine(one.queue)}${isPaused(one.queue, paused) ? " (paused)" : ""}`,
      ...STATES.map((state) => `${state} ${one[state]}`),
      `oldest waits ${waits(one.oldest, at)}`,
      ...(trend === null ? [] : [`ready ${signed(trend)}`]),
    ];
  });
  if (lines.length === 0) lines.push(["no jobs"]);
  const rate = history.rate();
  lines.push([slotsText(found), ...(rate === null ? [] : [`${perSecond(rate)} ended`])]);
  return lines.map((parts) => `${time}  ${parts.join("  ")}`);
}

/** One look as a document, every one with every key. */
export function record(found: Look, history: History, alerts: readonly Alert[]): Record<string, unknown> {
  const { at, queues, paused, workers, progress, failures } = found;
  const time = (when: number): string => new Date(when).toISOString();
  return {
    time: time(at),
    queues: queues.map((one) => ({
      queue: one.queue,
      ...countsRecord(one, at),
      paused: isPaused(one.queue, paused),
      trend: rounded(history.trend(one.queue)),
    })),
    total: countsRecord(sum(queues), at),
    paused,
    rate: rounded(history.rate()),
    workers: workers.map((worker) => ({
      ...worker,
      startedAt: time(worker.startedAt),
      seenAt: time(worker.seenAt),
      running: worker.running.map((job) => {
        const said = progress.get(job.id);
        return {
          ...job,
          since: time(job.since),
          progress: said === undefined ? null : { ...said, at: time(said.at) },
        };
      }),
    })),
    failures: failures.map(({ id, name, queue, attempts, error, failedAt }) => ({
      id,
      name,
      queue,
      attempts,
      error,
      failedAt: time(failedAt),
    })),
    alerts,
  };
}

/** Two digits after the point: what follows is noise. */
function rounded(number: number | null): number | null {
  return number === null ? null : Number(number.toFixed(2));
}
