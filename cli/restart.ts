import type { Context } from "./context.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";

/** The options of `queue:restart`. */
export interface RestartOptions {
  readonly database?: string;
  readonly json?: boolean;
}

/** Tells the workers to end. Whether there are any is not known: the store tells whoever asks. */
export async function restart(options: RestartOptions, { env, output }: Context): Promise<number> {
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    await queue.restart();
    if (options.json) output.line(JSON.stringify({ restart: true }));
    else output.line("told the workers to end after their running jobs");
    return 0;
  });
}
