import { confirm, refuseUnasked } from "./confirm.ts";
import type { Context } from "./context.ts";
import { counted } from "./counted.ts";
import { requireDatabase, storeName, withQueue } from "./open_queue.ts";
import { Progress } from "./progress.ts";

/** The options of `queue:clear`. */
export interface ClearOptions {
  readonly database?: string;
  readonly queue?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly json?: boolean;
}

/** Removes the waiting jobs of a queue, or of all; in production, where somebody says so. None is no error. */
export async function clear(options: ClearOptions, context: Context): Promise<number> {
  const { env, output } = context;
  const { database, queue: name, dryRun, force, json } = options;
  refuseUnasked(force || dryRun, env.APP_ENV);
  requireDatabase(database, env);
  return await withQueue({ database, env, jobs: {} }, async (queue) => {
    const of = name === undefined ? "every queue" : name;
    const counts = (await queue.counts()).filter((one) => name === undefined || one.queue === name);
    const waiting = counts.reduce((sum, { ready, delayed }) => sum + ready + delayed, 0);
    if (dryRun) {
      if (json) output.line(JSON.stringify({ dryRun: true, count: waiting }, null, 2));
      else output.line(`would remove ${counted(waiting, "waiting")} of ${of}`);
      return 0;
    }
    if (waiting > 0) {
      const where = storeName(database, env);
      await confirm(force, context, `remove ${counted(waiting, "waiting")} of ${of} in ${where} for good?`);
    }
    const progress = new Progress(output, "removing");
    const count = await progress.over(() =>
      queue.clear({ queue: name, onProgress: ({ cleared, total }) => progress.to(cleared, total) })
    );
    output.line(json ? JSON.stringify({ count }, null, 2) : `removed ${counted(count, "waiting")} of ${of}`);
    return 0;
  });
}
