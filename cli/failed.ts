import { attemptRecords } from "./attempts.ts";
import type { Context } from "./context.ts";
import { localTime } from "./local_time.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";
import { table } from "./table.ts";

/** The options of `queue:failed`. */
export interface FailedOptions {
  readonly database?: string;
  readonly limit: number;
  readonly after?: string;
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
    const { after, limit } = options;
    const page = await queue.failed({ after, limit });
    const last = page.at(limit - 1)?.id;
    const next = last !== undefined && (await queue.failed({ after: last, limit: 1 })).length > 0
      ? last
      : null;
    if (options.json) {
      const jobs = page.map((job) => ({
        ...job,
        failedAt: new Date(job.failedAt).toISOString(),
        history: attemptRecords(job.history),
      }));
      output.line(JSON.stringify({ failed: jobs, next }, null, 2));
    } else if (page.length === 0) {
      output.line(after === undefined ? "no failed jobs" : `no failed jobs after ${after}`);
    } else {
      const rows = page.map((job) => [
        job.id,
        job.name,
        job.queue,
        job.attempts === null ? "?" : String(job.attempts),
        localTime(new Date(job.failedAt)),
        job.error,
      ]);
      for (const line of table(COLUMNS, rows, output.width)) output.line(line);
      if (next !== null) output.line(`more: queue:failed --after=${next}`);
    }
    return 0;
  });
}
