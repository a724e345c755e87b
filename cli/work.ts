import { type Environment, type Jobs, type Log, QueueError, type WorkEvent } from "../mod.ts";
import { CommandError } from "./command_error.ts";
import { type Context, jobsOf } from "./context.ts";
import { databasePath, withQueue } from "./open_queue.ts";
import type { Output } from "./output.ts";
import { onStopSignals } from "./stop_signals.ts";
import { eventJson, eventLine } from "./work_lines.ts";

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
  readonly quiet?: boolean;
  readonly json?: boolean;
}

/** Runs jobs until a signal, or until the options say that it is enough. */
export async function work(options: WorkOptions, context: Context): Promise<number> {
  const { env, output } = context;
  const jobs = await jobsOf(context, options.jobs);
  const stop = new AbortController();
  const force = new AbortController();
  let status = 0;
  output.onClosed = () => {
    // As a program without this line would: but after its jobs, and with a status that makes a supervisor start it again.
    output.problem("queue: nobody reads standard output any more: stopping after the running jobs");
    status = 1;
    stop.abort();
  };
  const unlisten = onStopSignals(() => {
    if (talks(options)) output.line("stopping after the running jobs; a second signal stops at once");
    stop.abort();
  }, () => force.abort());
  try {
    const log = logTo(output, talks(options));
    return await withQueue({ database: options.database, env, jobs, log }, async (queue) => {
      if (talks(options)) output.line(banner(options, context, jobs));
      await queue.work({
        signal: stop.signal,
        forceSignal: force.signal,
        queues: options.queue,
        concurrency: options.once ? 1 : concurrencyOf(options, env),
        prefetch: options.prefetch,
        stopWhenEmpty: options.stopWhenEmpty || options.once,
        maxJobs: options.once ? 1 : options.maxJobs,
        maxTime: options.maxTime,
        onEvent: printer(options, context, jobs),
      });
      return status;
    });
  } catch (error) {
    throw withOptionName(error);
  } finally {
    unlisten();
  }
}

/** Whether it prints for people. */
function talks(options: WorkOptions): boolean {
  return !options.quiet && !options.json;
}

/** The number of `QUEUE_WORKERS`, but one at least: whoever starts `queue:work` wants work done. */
function concurrencyOf(options: WorkOptions, env: Environment): number {
  return options.concurrency ?? Math.max(1, Number(env.QUEUE_WORKERS) || 1);
}

function banner(options: WorkOptions, { env }: Context, jobs: Jobs): string {
  const types = Object.keys(jobs).length;
  return [
    `working ${options.queue ?? "every queue"}`,
    `concurrency ${options.once ? 1 : concurrencyOf(options, env)}`,
    databasePath(options.database, env),
    `${types} job ${types === 1 ? "type" : "types"}`,
  ].join(" · ");
}

function printer(
  options: WorkOptions,
  { output }: Context,
  jobs: Jobs,
): ((event: WorkEvent) => void) | undefined {
  if (options.json) return (event) => output.line(eventJson(event, new Date()));
  if (options.quiet) return undefined;
  const width = Math.max(0, ...Object.keys(jobs).map((name) => name.length));
  return (event) => output.line(eventLine(event, new Date(), width, output.colour));
}

/** What the queue says of a failed attempt; `queue:work` prints that itself, unless it is told to be quiet. */
const FAILED_ATTEMPT = /^queue: job .+ failed (\(attempt \d+\), retrying|after \d+ attempts): /;

/** The queue's own lines, on standard error. */
function logTo(output: Output, talks: boolean): Log {
  const print = (line: string): void => {
    if (!talks || !FAILED_ATTEMPT.test(line)) output.writeError(line + "\n");
  };
  return { warn: print, error: print };
}

/** The library calls this setting `queues`; whoever typed it knows the option. */
function withOptionName(error: unknown): unknown {
  if (!(error instanceof QueueError) || !error.message.startsWith("queue: queues")) return error;
  return new CommandError(2, error.message.replace("queue: queues", "--queue"));
}
