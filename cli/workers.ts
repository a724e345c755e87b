import type { WorkerInfo } from "../mod.ts";
import type { Context } from "./context.ts";
import { formatDuration } from "./duration.ts";
import { localTime } from "./local_time.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";
import { table } from "./table.ts";

/** The options of `queue:workers`. */
export interface WorkersOptions {
  readonly database?: string;
  readonly json?: boolean;
}

const COLUMNS = [
  { title: "WORKER" },
  { title: "VERSION" },
  { title: "STARTED" },
  { title: "SEEN", right: true },
  { title: "SLOTS", right: true },
  { title: "PROCESSED", right: true },
  { title: "QUEUES" },
  { title: "RUNNING" },
];

/** How many running jobs a line names. */
const SHOWN = 3;

/** Lists the workers of the store, and what each runs. */
export async function workers(options: WorkersOptions, { env, output }: Context): Promise<number> {
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const found = await queue.workers();
    if (options.json) {
      output.line(JSON.stringify({ workers: found.map(record) }, null, 2));
    } else if (found.length === 0) {
      output.line("no workers");
    } else {
      const now = Date.now();
      for (const line of table(COLUMNS, found.map((one) => cells(one, now)), output.width)) output.line(line);
    }
    return 0;
  });
}

function record(worker: WorkerInfo): Record<string, unknown> {
  const iso = (time: number): string => new Date(time).toISOString();
  return {
    ...worker,
    startedAt: iso(worker.startedAt),
    seenAt: iso(worker.seenAt),
    running: worker.running.map((job) => ({ ...job, since: iso(job.since) })),
  };
}

function cells({ host, pid, ...worker }: WorkerInfo, now: number): string[] {
  const { running, busy } = worker;
  const shown = running.slice(0, SHOWN).map(({ id, name, since }) =>
    `${name} ${id} (${formatDuration(now - since)})`
  );
  const more = Math.max(busy, running.length) - shown.length;
  return [
    `${host}:${pid}`,
    worker.version,
    localTime(new Date(worker.startedAt)),
    `${formatDuration(now - worker.seenAt)} ago`,
    `${busy}/${worker.concurrency}`,
    String(worker.processed),
    worker.queues === null ? "every queue" : worker.queues.join(","),
    shown.length === 0 ? "-" : `${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}`,
  ];
}
