import type { Context } from "./context.ts";
import { oneLine } from "./one_line.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";

/** The options of `queue:cancel`. */
export interface CancelOptions {
  readonly database?: string;
  readonly json?: boolean;
}

/**
 * Cancels jobs, and prints what becomes of each one. What is known is done even where another id is not; an unknown one
 * makes the status 1.
 */
export async function cancel(
  given: readonly string[],
  options: CancelOptions,
  { env, output }: Context,
): Promise<number> {
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const ids = { removed: [] as string[], cancelling: [] as string[], unknown: [] as string[] };
    for (const id of new Set(given)) {
      const outcome = await queue.cancel(id) ?? "unknown";
      ids[outcome].push(id);
      if (outcome !== "unknown" && !options.json) output.line(oneLine(`${outcome} ${id}`));
    }
    if (options.json) output.line(JSON.stringify(ids, null, 2));
    for (const id of ids.unknown) {
      output.problem(`queue: no job ${/^\S+$/.test(id) ? id : JSON.stringify(id)} waits or runs`);
    }
    return ids.unknown.length === 0 ? 0 : 1;
  });
}
