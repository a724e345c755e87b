import {
  checkQueueSelection,
  DEFAULT_GRACE,
  type Environment,
  type Jobs,
  type Log,
  type Paused,
  type Queue,
  QueueError,
  type WorkEvent,
} from "../mod.ts";
import type { Address } from "./address.ts";
import { CommandError } from "./command_error.ts";
import { type Context, jobsOf } from "./context.ts";
import { formatDuration } from "./duration.ts";
import { type LOG_FORMATS, type Logging, startLogging } from "./log.ts";
import { measure, metricsAddress } from "./measure.ts";
import { flat, oneLine } from "./one_line.ts";
import { storeName, withQueue } from "./open_queue.ts";
import type { Output } from "./output.ts";
import { processesOf } from "./processes.ts";
import { onStopSignals } from "./stop_signals.ts";
import { widthOf } from "./width.ts";
import { eventJson, eventLine, stopLine } from "./work_lines.ts";

/** The options of `queue:work`. */
export interface WorkOptions {
  readonly database?: string;
  readonly jobs?: string;
  readonly queue?: string;
  readonly concurrency?: number;
  readonly prefetch?: number;
  readonly once?: boolean;
  readonly stopWhenEmpty?: boolean;
  readonly maxJobs?: number;
  readonly maxTime?: number;
  readonly grace?: number;
  readonly processes?: number;
  readonly memory?: number;
  readonly childFlags?: string;
  readonly metrics?: Address;
  readonly log?: typeof LOG_FORMATS[number];
  readonly quiet?: boolean;
  readonly json?: boolean;
}

/** Runs jobs until a signal, or until the options say that it is enough. */
export async function work(options: WorkOptions, context: Context): Promise<number> {
  const { env, output } = context;
  const names = options.queue === undefined ? null : namesOf(options.queue);
  checkOutput(options);
  const address = metricsAddress(options.metrics, env);
  const processes = processesOf({ ...options, json: options.json || options.log === "json" }, context);
  // With processes, only those run the app's code.
  const jobs = processes === undefined ? await jobsOf(context, options.jobs) : {};
  const stop = new AbortController();
  const force = new AbortController();
  let status = 0;
  output.onClosed = () => {
    // As a program without this line would: but after its jobs, and with a status that makes a supervisor start it again.
    output.problem("queue: nobody reads standard output any more: stopping after the running jobs");
    status = 1;
    stop.abort();
  };
  const running = new Set<string>();
  const unlisten = onStopSignals(() => {
    if (talks(options)) output.line(stopLine(running.size, graceOf(options, env)));
    stop.abort();
  }, () => {
    if (talks(options)) output.line("stopping at once");
    force.abort();
  });
  let logging: Logging | null = null;
  try {
    logging = options.log === undefined ? null : await startLogging(options.log, output);
    const log = logging?.log ?? logTo(output);
    const settings = { database: options.database, env, jobs, log, stopped: stop.signal };
    return await withQueue(settings, async (queue) => {
      if (stop.signal.aborted) return status;
      logging?.follow(queue);
      const measuring = await measure(queue, address, env);
      const concurrency = concurrencyOf(options, env);
      if (talks(options)) output.line(banner(options, concurrency, context, jobs));
      warnOfPaused(await queue.paused(), names, output);
      if (talks(options) && measuring.url !== null) output.line(`metrics on ${measuring.url}/metrics`);
      try {
        await queue.work({
          signal: stop.signal,
          forceSignal: force.signal,
          queues: options.queue,
          concurrency,
          processes,
          prefetch: options.prefetch,
          stopWhenEmpty: options.stopWhenEmpty || options.once,
          maxJobs: options.once ? 1 : processes === undefined ? options.maxJobs : undefined,
          maxTime: options.maxTime,
          grace: options.grace,
          // They are told as events, unless nobody looks at those.
          logFailures: !talks(options) && logging === null,
          onEvent: counted(running, printer(options, context, jobs)),
        });
        if (options.stopWhenEmpty && talks(options) && !stop.signal.aborted) {
          await tellOfDelayed(queue, names, output);
        }
      } finally {
        await measuring.close();
      }
      return status;
    });
  } finally {
    unlisten();
    await logging?.close();
  }
}

/** Whether it prints for people. */
function talks(options: WorkOptions): boolean {
  return !options.quiet && !options.json && options.log === undefined;
}

/** Standard output has one form. */
function checkOutput({ log, json, quiet }: WorkOptions): void {
  if (log !== undefined && (json || quiet)) {
    throw new CommandError(2, `--log: expected no ${json ? "--json" : "--quiet"} beside it`);
  }
}

/** The number of `QUEUE_WORKERS`, which the queue has checked, but one at least: `queue:work` is to work. */
function concurrencyOf(options: WorkOptions, env: Environment): number {
  if (options.once) return 1;
  return options.concurrency ?? Math.max(1, options.processes ?? 1, Number(env.QUEUE_WORKERS) || 1);
}

/** The seconds of `QUEUE_GRACE`, which the queue has checked, in milliseconds, unless the option says otherwise. */
function graceOf(options: WorkOptions, env: Environment): number {
  return options.grace ?? (env.QUEUE_GRACE ? Number(env.QUEUE_GRACE) * 1000 : DEFAULT_GRACE);
}

/** Keeps the ids of the jobs that run, and passes the event on. */
function counted(
  running: Set<string>,
  print: ((event: WorkEvent) => void) | undefined,
): (event: WorkEvent) => void {
  return (event) => {
    if (event.type === "started") running.add(event.job.id);
    else running.delete(event.job.id);
    print?.(event);
  };
}

/**
 * The queues of `--queue`. What cannot be worked is refused before anything is loaded, opened or printed.
 *
 * @throws {CommandError} 2
 */
function namesOf(queues: string): readonly string[] {
  try {
    return checkQueueSelection(queues);
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    // The library calls it `queues`; whoever typed it knows the option.
    throw new CommandError(2, `--queue: ${error.message.slice("queue: ".length)}`);
  }
}

/** Says which queues are paused of those that are served, all where `names` is `null`: a worker that does nothing is a riddle. */
function warnOfPaused({ all, queues }: Paused, names: readonly string[] | null, output: Output): void {
  if (all) return output.problem("queue: every queue is paused: queue:resume lets workers go on");
  for (const queue of queues) {
    if (names !== null && !names.includes(queue)) continue;
    output.problem(`queue: ${queue} is paused: queue:resume --queue=${queue} lets workers go on`);
  }
}

/** Says what a worker that ends, as nothing is due, leaves for later: retries, too, of the jobs that it ran. */
async function tellOfDelayed(queue: Queue, names: readonly string[] | null, output: Output): Promise<void> {
  const served = (await queue.counts()).filter((one) => names === null || names.includes(one.queue));
  const count = served.reduce((sum, { delayed }) => sum + delayed, 0);
  if (count === 0) return;
  const first = await Promise.all(
    (names ?? [undefined]).map((name) => queue.delayed({ queue: name, limit: 1 })),
  );
  const next = Math.min(...first.flat().map(({ dueIn }) => dueIn));
  const jobs = count === 1 ? "1 job is" : `${count.toLocaleString("en")} jobs are`;
  const due = next === Infinity ? "" : `; the next is due in ${formatDuration(next)}`;
  output.line(`${jobs} delayed${due}`);
}

function banner(options: WorkOptions, concurrency: number, { env }: Context, jobs: Jobs): string {
  const { processes } = options;
  const types = Object.keys(jobs).length;
  return [
    `working ${options.queue ?? "every queue"}`,
    `concurrency ${concurrency}`,
    storeName(options.database, env),
    processes === undefined
      ? `${types} job ${types === 1 ? "type" : "types"}`
      : `${processes} ${processes === 1 ? "process" : "processes"}`,
  ].map(oneLine).join(" · ");
}

function printer(
  options: WorkOptions,
  { output }: Context,
  jobs: Jobs,
): ((event: WorkEvent) => void) | undefined {
  if (options.json) return (event) => output.line(eventJson(event, new Date()));
  if (options.quiet || options.log !== undefined) return undefined;
  let width = Math.max(0, ...Object.keys(jobs).map((name) => widthOf(name)));
  return (event) => {
    // Of the jobs in other processes, the names are not known before.
    width = Math.max(width, widthOf(event.job.name));
    output.line(eventLine(event, new Date(), width, output.colour));
  };
}

/** The queue's own lines, on standard error. */
function logTo(output: Output): Log {
  const print = (line: string): void => output.writeError(flat(line) + "\n");
  return { warn: print, error: print };
}
