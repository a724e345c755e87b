import process from "node:process";
import type { Environment, Queue } from "../mod.ts";
import { CommandError } from "./command_error.ts";
import type { Context } from "./context.ts";
import { formatDuration } from "./duration.ts";
import { type Alert, alertText } from "./monitor/alerts.ts";
import { live } from "./monitor/live.ts";
import { record, report, watchLines } from "./monitor/plain.ts";
import { isDrawable, Terminal } from "./monitor/terminal.ts";
import { Watcher } from "./monitor/watcher.ts";
import { requireDatabase, storeName, withQueue } from "./open_queue.ts";
import type { Output } from "./output.ts";

/** The options of `queue:monitor`. */
export interface MonitorOptions {
  readonly database?: string;
  readonly max?: number;
  readonly oldest?: number;
  readonly watch?: boolean;
  readonly interval?: number;
  readonly json?: boolean;
}

const DEFAULT_INTERVAL = 1000;

/** Somebody who looks more often than this learns nothing more, and keeps the store from its work. */
const LEAST_INTERVAL = 100;

/** What ends it. SIGHUP is what a terminal that is closed sends. */
const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/**
 * Looks at the queues, their workers and the last failures: once, or until it is told to stop. The status is 1 where the
 * last look found something to be alarmed about, or could not be taken.
 */
export async function monitor(options: MonitorOptions, { env, output }: Context): Promise<number> {
  const { interval, watch, max, oldest } = options;
  if (interval !== undefined && !watch) throw new CommandError(2, "--interval: expected --watch beside it");
  if (interval !== undefined && interval < LEAST_INTERVAL) {
    throw new CommandError(2, `--interval: expected ${formatDuration(LEAST_INTERVAL)} or more`);
  }
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const watcher = new Watcher(queue, { max, oldest }, interval ?? DEFAULT_INTERVAL);
    const shown = options.json || !isDrawable() ? plain : full;
    if (watch) await untilSignal(output, (stop) => shown({ queue, watcher, options, env, output, stop }));
    else await once(watcher, options, output);
    return watcher.problem === null && watcher.alerts.length === 0 ? 0 : 1;
  });
}

/** What a watch works with. */
interface Watch {
  readonly queue: Queue;
  readonly watcher: Watcher;
  readonly options: MonitorOptions;
  readonly env: Environment;
  readonly output: Output;
  readonly stop: AbortController;
}

async function once(watcher: Watcher, { json }: MonitorOptions, output: Output): Promise<void> {
  const found = await watcher.once();
  if (json) output.line(JSON.stringify(record(found, watcher.history, watcher.alerts), null, 2));
  else for (const line of report(found, output.width)) output.line(line);
  warn(watcher, output);
}

/** On a terminal: all of it. What was wrong at the end is said again where it stays to be read. */
async function full({ queue, watcher, options, env, output, stop }: Watch): Promise<void> {
  const store = storeName(options.database, env);
  await live({ queue, watcher, terminal: new Terminal(output.write), store, colour: output.colour, stop });
  warn(watcher, output);
}

/** Elsewhere: lines for each look. What is wrong is said when it begins, and when it is over. */
async function plain({ watcher, options, output, stop }: Watch): Promise<void> {
  let problem: string | null = null;
  let standing = new Map<string, Alert>();
  await watcher.run(stop.signal, () => {
    const { found, history, alerts } = watcher;
    if (watcher.problem !== null) {
      if (watcher.problem !== problem) output.problem(watcher.problem);
      problem = watcher.problem;
      return;
    }
    problem = null;
    if (options.json) output.line(JSON.stringify(record(found!, history, alerts)));
    else for (const line of watchLines(found!, history)) output.line(line);
    const now = new Map(alerts.map((alert) => [`${alert.kind} ${alert.queue}`, alert]));
    for (const [key, alert] of now) if (!standing.has(key)) output.problem(`queue: ${alertText(alert)}`);
    for (const [key, alert] of standing) if (!now.has(key)) output.problem(`queue: over: ${alert.why}`);
    standing = now;
  });
}

function warn({ problem, alerts }: Watcher, output: Output): void {
  if (problem !== null) output.problem(problem);
  for (const alert of alerts) output.problem(`queue: ${alertText(alert)}`);
}

/** Runs a watch that a signal ends, and so does it when nobody reads any more. */
async function untilSignal(output: Output, run: (stop: AbortController) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const end = (): void => stop.abort();
  output.onClosed = end;
  for (const signal of SIGNALS) process.on(signal, end);
  try {
    await run(stop);
  } finally {
    for (const signal of SIGNALS) process.off(signal, end);
  }
}
