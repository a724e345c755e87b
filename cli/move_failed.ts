import type { FailedFilter, FailedJob, Moved, Queue } from "../mod.ts";
import { CommandError } from "./command_error.ts";
import { confirm, refuseUnasked } from "./confirm.ts";
import type { Context } from "./context.ts";
import { counted } from "./counted.ts";
import { failedTable } from "./failed.ts";
import { FILTER_OPTIONS, type FilterOptions, toFilter } from "./failed_filter.ts";
import { oneLine } from "./one_line.ts";
import { requireDatabase, storeName, withQueue } from "./open_queue.ts";
import type { Output } from "./output.ts";
import { Progress } from "./progress.ts";

/** What is done with failed jobs. */
type Verb = "retry" | "forget";

/** Which ones, unless they are named. */
type Matching = FailedFilter | "all";

const DOING = { retry: "retrying", forget: "forgetting" } as const;
const DONE = { retry: "retried", forget: "forgotten" } as const;

/** How many a dry run shows. */
const SHOWN = 10;

/** The options of `queue:retry` and `queue:forget`. */
export interface MoveOptions extends FilterOptions {
  readonly database?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** The options of `queue:flush` and `queue:prune-failed`. */
export interface ForgetManyOptions {
  readonly database?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly json?: boolean;
}

/**
 * Puts failed jobs back, or deletes them, and prints each one. What is known is done even where another id is not; an
 * unknown one makes the status 1, and so does a filter that none matches. `all` of none is no error: it is what was asked
 * for.
 */
export async function moveFailed(
  verb: Verb,
  given: readonly string[],
  options: MoveOptions,
  context: Context,
): Promise<number> {
  const { env, output } = context;
  const which = chosen(given, options);
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    if (options.dryRun) {
      if (Array.isArray(which)) throw new CommandError(2, `--dry-run: expected all, or ${FILTER_OPTIONS}`);
      const count = await tryOut(queue, verb, which as Matching, options.json, output);
      return count === 0 && which !== "all" ? noneMatches(output) : 0;
    }
    const progress = new Progress(output, DOING[verb]);
    const moved = await progress.over(() =>
      queue[verb](which, {
        onProgress({ looked, total, moved }) {
          if (!options.json && moved.length > 0) {
            progress.hide();
            print(moved, DONE[verb], output);
          }
          progress.to(looked, total);
        },
      })
    );
    const known = new Set(moved.map(({ id }) => id));
    const unknown = Array.isArray(which) ? which.filter((id) => !known.has(id)) : [];
    if (options.json) output.line(JSON.stringify({ [DONE[verb]]: moved, unknown }, null, 2));
    else if (which === "all" && moved.length === 0) output.line("no failed jobs");
    for (const id of unknown) {
      output.problem(`queue: no failed job ${/^\S+$/.test(id) ? id : JSON.stringify(id)}`);
    }
    if (Array.isArray(which)) return unknown.length === 0 ? 0 : 1;
    return moved.length === 0 && which !== "all" ? noneMatches(output) : 0;
  });
}

/** Forgets all failed jobs; in production, where somebody says so. */
export function flush(options: ForgetManyOptions, context: Context): Promise<number> {
  refuseUnasked(options.force || options.dryRun, context.env.APP_ENV);
  return forgetMany("all", options, context, async (queue) => {
    const count = await queue.countFailed();
    if (count === 0) return;
    const where = storeName(options.database, context.env);
    await confirm(options.force, context, `delete ${counted(count, "failed")} in ${where} for good?`);
  });
}

/** Forgets failed jobs of a certain age. It runs by itself, as from cron, and asks nobody. */
export function pruneFailed(
  options: ForgetManyOptions & { readonly hours: number },
  context: Context,
): Promise<number> {
  return forgetMany({ before: Date.now() - options.hours * 3_600_000 }, options, context, async () => {});
}

async function forgetMany(
  which: Matching,
  { database, dryRun, json }: ForgetManyOptions,
  { env, output }: Context,
  ask: (queue: Queue) => Promise<void>,
): Promise<number> {
  requireDatabase(database, env);
  return await withQueue({ database, env, jobs: {} }, async (queue) => {
    if (dryRun) {
      await tryOut(queue, "forget", which, json, output);
      return 0;
    }
    await ask(queue);
    const progress = new Progress(output, DOING.forget);
    const moved = await progress.over(() =>
      queue.forget(which, { onProgress: ({ looked, total }) => progress.to(looked, total) })
    );
    output.line(
      json ? JSON.stringify({ count: moved.length }, null, 2) : `forgot ${counted(moved.length, "failed")}`,
    );
    return 0;
  });
}

/** The ids that were given, without repetition; or what chooses among all. */
function chosen(given: readonly string[], options: FilterOptions): string[] | Matching {
  const filter = toFilter(options, Date.now());
  if (filter !== undefined) {
    if (given.length === 0) return filter;
    throw new CommandError(2, `expected either ids or all, or ${FILTER_OPTIONS}, not both`);
  }
  if (given.length === 0) throw new CommandError(2, `expected ids, all, or ${FILTER_OPTIONS}`);
  if (!given.includes("all")) return [...new Set(given)];
  if (given.length > 1) throw new CommandError(2, "expected either all or ids, not both");
  return "all";
}

/** Says what would be done, and to how many. */
async function tryOut(
  queue: Queue,
  verb: Verb,
  which: Matching,
  json: boolean | undefined,
  output: Output,
): Promise<number> {
  const filter = which === "all" ? {} : which;
  const count = await queue.countFailed(filter);
  const first = await queue.failed({ ...filter, limit: SHOWN });
  if (json) {
    output.line(JSON.stringify({ dryRun: true, count, first: first.map(summary) }, null, 2));
  } else if (count === 0) {
    if (which === "all") output.line("no failed jobs");
  } else {
    const these = count <= first.length ? "" : `, of which the first ${first.length} are`;
    output.line(`would ${verb} ${counted(count, "failed")}${these}`);
    for (const line of failedTable(first, output.width)) output.line(line);
  }
  return count;
}

/** A failed job in a few words: without its payload and its stack. */
function summary({ id, name, queue, attempts, failedAt, error }: FailedJob): Record<string, unknown> {
  return { id, name, queue, attempts, failedAt: new Date(failedAt).toISOString(), error };
}

function print(moved: readonly Moved[], done: string, output: Output): void {
  for (const { id, name } of moved) output.line(oneLine(`${done} ${id} ${name}`));
}

function noneMatches(output: Output): 1 {
  output.problem("queue: no failed job matches");
  return 1;
}
