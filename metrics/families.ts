/**
 * Which metrics there are, and what each one says.
 *
 * @module
 */
import process from "node:process";
import type { QueueCounts, WorkerInfo } from "../mod.ts";
import type { Counting } from "./counting.ts";
import { type JobSeries, OUTCOMES, type Values } from "./series.ts";
import type { FailedLook, Look } from "./store.ts";
import type { Family, Labels } from "./text.ts";

/** The states of a job that is in the store. */
export const STATES = ["ready", "delayed", "reserved", "failed"] as const;

/** All of them: what this process counted, and what the store said last. */
export function families(counting: Counting, look: Look | FailedLook): Family[] {
  const all = [...counting.series()];
  const of = <Value>(value: (series: JobSeries) => Value): [Labels, Value][] =>
    all.map((series) => [{ queue: series.queue, name: series.name }, value(series)]);
  return [
    {
      name: "queue_up",
      help: "Whether the store answered.",
      type: "gauge",
      samples: [[{}, "error" in look ? 0 : 1]],
    },
    ...("error" in look ? [] : storeFamilies(look, counting.queues)),
    {
      name: "queue_dispatched",
      help: "Jobs that this process has stored.",
      type: "counter",
      samples: of(({ dispatched }) => dispatched),
    },
    {
      name: "queue_attempts",
      help: "Attempts that ended in this process, by outcome.",
      type: "counter",
      samples: all.flatMap(({ queue, name, attempts }) =>
        OUTCOMES.map(([end, outcome]): [Labels, number] => [{ queue, name, outcome }, attempts[end]])
      ),
    },
    {
      name: "queue_wait_seconds",
      help: "How long jobs had been due when a worker of this process took them.",
      type: "histogram",
      samples: of(({ wait }) => wait).filter(([, { count }]) => count > 0),
    },
    {
      name: "queue_run_seconds",
      help: "How long the handlers of this process ran.",
      type: "histogram",
      samples: of(({ run }) => run).filter(([, { count }]) => count > 0),
    },
    {
      name: "queue_store_errors",
      help: "Calls of the store that failed in this process.",
      type: "counter",
      samples: Object.entries(counting.storeErrors).map(([during, count]) => [{ during }, count]),
    },
    {
      name: "queue_process_workers",
      help: "Workers in this process.",
      type: "gauge",
      samples: [[{}, counting.here.workers]],
    },
    {
      name: "queue_process_slots",
      help: "Jobs that the workers of this process run at a time.",
      type: "gauge",
      samples: [[{}, counting.here.slots]],
    },
    ...processFamilies(),
  ];
}

/** How a queue is, or all beyond the bound together. */
export interface QueueGauges {
  /** Its label. */
  readonly queue: string;
  /** How many jobs are in each state. */
  readonly jobs: Readonly<Record<typeof STATES[number], number>>;
  /** How long the oldest ready job has been due, in seconds; `null` where there is none, or that is not known. */
  readonly oldest: number | null;
  /** Whether it is held, by name or with all others. */
  readonly paused: boolean;
}

/** What the store says of each queue, by a bounded number of labels. */
export function queueGauges({ at, counts, paused }: Look, queues: Values): QueueGauges[] {
  const byLabel = new Map<string, QueueCounts[]>();
  for (const one of counts) {
    const label = queues.of(one.queue);
    const others = byLabel.get(label);
    if (others === undefined) byLabel.set(label, [one]);
    else others.push(one);
  }
  return [...byLabel].map(([queue, those]) => {
    const total = (state: typeof STATES[number]) => those.reduce((sum, one) => sum + one[state], 0);
    const since = those.flatMap(({ oldest }) => oldest === null ? [] : [oldest]);
    return {
      queue,
      jobs: {
        ready: total("ready"),
        delayed: total("delayed"),
        reserved: total("reserved"),
        failed: total("failed"),
      },
      oldest: since.length === 0 ? null : Math.max(0, at - Math.min(...since)) / 1000,
      paused: paused.all || those.some((one) => paused.queues.includes(one.queue)),
    };
  });
}

function storeFamilies(look: Look, queues: Values): Family[] {
  const gauges = queueGauges(look, queues);
  const { workers } = look;
  const sum = (of: (worker: WorkerInfo) => number) =>
    workers.reduce((total, worker) => total + of(worker), 0);
  return [
    {
      name: "queue_workers",
      help: "Workers of every process on the store that were seen of late.",
      type: "gauge",
      samples: [[{}, workers.length]],
    },
    {
      name: "queue_worker_slots",
      help: "Jobs that they run at a time.",
      type: "gauge",
      samples: [[{}, sum(({ concurrency }) => concurrency)]],
    },
    {
      name: "queue_worker_busy_slots",
      help: "Jobs that they run, as they said last.",
      type: "gauge",
      samples: [[{}, sum(({ busy }) => busy)]],
    },
    {
      name: "queue_jobs",
      help: "Jobs in the store, by state.",
      type: "gauge",
      samples: gauges.flatMap(({ queue, jobs }) =>
        STATES.map((state): [Labels, number] => [{ queue, state }, jobs[state]])
      ),
    },
    {
      name: "queue_oldest_ready_seconds",
      help: "How long the job that has been due for longest waits. Left out where the store does not know.",
      type: "gauge",
      samples: gauges.flatMap(({ queue, oldest }): [Labels, number][] =>
        oldest === null ? [] : [[{ queue }, oldest]]
      ),
    },
    {
      name: "queue_paused",
      help: "Whether workers leave the jobs of the queue alone.",
      type: "gauge",
      samples: gauges.map(({ queue, paused }) => [{ queue }, paused ? 1 : 0]),
    },
  ];
}

/** Of this process, under the names that every client library gives them. */
function processFamilies(): Family[] {
  const { user, system } = process.cpuUsage();
  return [
    {
      name: "process_cpu_seconds",
      help: "Processor time that this process has spent.",
      type: "counter",
      samples: [[{}, (user + system) / 1e6]],
    },
    {
      name: "process_resident_memory_bytes",
      help: "Memory that this process holds.",
      type: "gauge",
      samples: [[{}, process.memoryUsage().rss]],
    },
    {
      name: "process_start_time_seconds",
      help: "When this process started, in Unix seconds.",
      type: "gauge",
      samples: [[{}, performance.timeOrigin / 1000]],
    },
  ];
}
