import type { AttemptRecord, JobDetail, Reason } from "../mod.ts";
import { attemptRecords } from "./attempts.ts";
import { CommandError } from "./command_error.ts";
import type { Context } from "./context.ts";
import { formatDuration } from "./duration.ts";
import { localTime } from "./local_time.ts";
import { flat, oneLine } from "./one_line.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";

/** The options of `queue:show`. */
export interface ShowOptions {
  readonly database?: string;
  readonly json?: boolean;
}

/** How many characters of a payload are shown; all of them in JSON. */
const LONGEST_PAYLOAD = 2000;

/** Shows all that is known of one job. */
export async function show(id: string, options: ShowOptions, { env, output }: Context): Promise<number> {
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const job = await queue.find(id);
    if (job === null) {
      const named = /^\S+$/.test(id) ? id : JSON.stringify(id);
      throw new CommandError(1, `no job ${named}: it is done, was cancelled or forgotten, or never was`);
    }
    if (options.json) output.line(JSON.stringify(record(job), null, 2));
    else for (const line of lines(job, Date.now())) output.line(line);
    return 0;
  });
}

function record(job: JobDetail): Record<string, unknown> {
  const iso = (time: number | null): string | null => time === null ? null : new Date(time).toISOString();
  const { holder, progress } = job;
  return {
    ...job,
    dueAt: iso(job.dueAt),
    leasedUntil: iso(job.leasedUntil),
    failedAt: iso(job.failedAt),
    holder: holder && { ...holder, since: iso(holder.since) },
    progress: progress && { ...progress, at: iso(progress.at) },
    history: attemptRecords(job.history),
    reasons: job.reasons.map(({ until, ...reason }) =>
      until === undefined ? reason : { ...reason, until: iso(until) }
    ),
  };
}

function* lines(job: JobDetail, now: number): Generator<string> {
  const facts: [title: string, value: string | null][] = [
    ["job", `${job.id} ${job.name}`],
    ["state", job.cancelled ? `${job.state}, cancelled` : job.state],
    ["queue", job.priority === 0 ? job.queue : `${job.queue}, priority ${job.priority}`],
    ["attempts", job.attempts === null ? "?" : String(job.attempts)],
    ["due", job.dueAt === null ? null : whenOf(job.dueAt, now)],
    ["lease", job.leasedUntil === null ? null : `until ${whenOf(job.leasedUntil, now)}`],
    ["worker", job.holder && `${job.holder.host}:${job.holder.pid}, since ${whenOf(job.holder.since, now)}`],
    ["progress", job.progress && progressOf(job.progress)],
    ["failed", job.failedAt === null ? null : whenOf(job.failedAt, now)],
    ["payload", payloadOf(job.payload)],
    ["error", job.error],
  ];
  for (const [title, value] of facts) if (value !== null) yield `${title.padEnd(9)} ${flat(value)}`;
  // Where there are attempts, the stack is that of the last one.
  if (job.stack !== null && job.history.length === 0) yield* indented(job.stack);
  if (job.reasons.length > 0) yield job.state === "reserved" ? "who has it" : "why it is not running";
  else if (job.state === "ready") yield "it is next: the next worker that looks takes it";
  for (const reason of job.reasons) yield `  - ${flat(sentence(reason, now))}`;
  yield* attempts(job.history);
}

function sentence({ text, until }: Reason, now: number): string {
  return until === undefined ? text : `${text}, until ${whenOf(until, now)}`;
}

/** The attempts, with a line for each whose worker did not live to record it. */
function* attempts(history: readonly AttemptRecord[]): Generator<string> {
  if (history.length === 0) return;
  yield "failed attempts";
  let last = 0;
  let shown: string | null = null;
  for (const { attempt, startedAt, duration, worker, error, stack, retriedAt } of history) {
    if (attempt - last === 2) yield `  ${last + 1}  not recorded: its worker died, or it is not kept`;
    else if (attempt - last > 2) {
      yield `  ${last + 1} to ${attempt - 1}  not recorded: their workers died, or they are not kept`;
    }
    yield `  ${attempt}  ${localTime(new Date(startedAt))}, after ${formatDuration(duration)}, by ${
      flat(worker)
    }`;
    yield `     ${oneLine(error)}`;
    if (stack !== null && stack === shown) yield "       (the same stack)";
    else if (stack !== null) yield* indented(stack);
    shown = stack;
    if (retriedAt !== undefined) yield `  retried ${localTime(new Date(retriedAt))}`;
    last = retriedAt === undefined ? attempt : 0;
  }
}

function* indented(text: string): Generator<string> {
  for (const line of text.split(/\r?\n/)) if (line.trim() !== "") yield `       ${flat(line)}`;
}

function progressOf({ fraction, note }: NonNullable<JobDetail["progress"]>): string {
  return `${Math.round(fraction * 100)} %${note === null ? "" : `: ${note}`}`;
}

function payloadOf(payload: string): string {
  const { length } = payload;
  return length <= LONGEST_PAYLOAD ? payload : `${payload.slice(0, LONGEST_PAYLOAD)}… (${length} characters)`;
}

/** A time by the clock of the machine, and how far away it is. */
function whenOf(time: number, now: number): string {
  const away = formatDuration(Math.abs(time - now));
  return `${localTime(new Date(time))} (${time > now ? `in ${away}` : `${away} ago`})`;
}
