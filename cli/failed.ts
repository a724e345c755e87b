import type { FailedJob } from "../mod.ts";
import { attemptRecords } from "./attempts.ts";
import type { Context } from "./context.ts";
import { type FilterOptions, toFilter } from "./failed_filter.ts";
import { localTime } from "./local_time.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";
import { table } from "./table.ts";

/** The options of `queue:failed`. */
export interface FailedOptions extends FilterOptions {
  readonly database?: string;
  readonly limit: number;
  readonly after?: string;
  readonly reverse?: boolean;
  readonly json?: boolean;
}

const COLUMNS = [
  { title: "ID", right: true },
  { title: "NAME" },
  { title: "QUEUE" },
  { title: "ATTEMPTS", right: true },
  { title: "FAILED AT" },
  { title: "ERROR" },
];

/** Lists a page of `failed_jobs`. */
export async function failed(options: FailedOptions, { env, output }: Context): Promise<number> {
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const { after, limit, reverse } = options;
    const filter = toFilter(options, Date.now());
    const page = await queue.failed({ ...filter, after, limit, reverse });
    const last = page.at(limit - 1)?.id;
    const hasMore = last !== undefined &&
      (await queue.failed({ ...filter, after: last, limit: 1, reverse })).length > 0;
    const next = hasMore ? last : null;
    if (options.json) {
      const jobs = page.map((job) => ({
        ...job,
        failedAt: new Date(job.failedAt).toISOString(),
        history: attemptRecords(job.history),
      }));
      output.line(JSON.stringify({ failed: jobs, next }, null, 2));
    } else if (page.length === 0) {
      const which = filter === undefined ? "no failed jobs" : "no failed jobs match";
      output.line(after === undefined ? which : `${which} ${reverse ? "before" : "after"} ${after}`);
    } else {
      for (const line of failedTable(page, output.width)) output.line(line);
      const others = [reverse ? " --reverse" : "", filter === undefined ? "" : " and the same filter"];
      if (next !== null) output.line(`more: queue:failed --after=${next}${others.join("")}`);
    }
    return 0;
  });
}

/** The lines of a table of failed jobs, each cut to `width` where one is given. */
export function failedTable(jobs: readonly FailedJob[], width: number | undefined): string[] {
  const rows = jobs.map((job) => [
    job.id,
    job.name,
    job.queue,
    job.attempts === null ? "?" : String(job.attempts),
    localTime(new Date(job.failedAt)),
    job.error,
  ]);
  return table(COLUMNS, rows, width);
}
