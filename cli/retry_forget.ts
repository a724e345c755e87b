import { CommandError } from "./command_error.ts";
import type { Context } from "./context.ts";
import { oneLine } from "./one_line.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";

/** The options of `queue:retry` and `queue:forget`. */
export interface MoveOptions {
  readonly database?: string;
  readonly json?: boolean;
}

/**
 * Puts failed jobs back, or deletes them, and prints each one. What is known is done even where another id is not;
 * an unknown one makes the status 1. `all` of none is no error: it is what was asked for.
 */
export async function moveFailed(
  verb: "retry" | "forget",
  given: readonly string[],
  options: MoveOptions,
  { env, output }: Context,
): Promise<number> {
  const ids = given.includes("all") ? "all" : [...new Set(given)];
  if (ids === "all" && given.length > 1) throw new CommandError(2, "expected either all or ids, not both");
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const moved = await queue[verb](ids);
    const known = new Set(moved.map(({ id }) => id));
    const unknown = ids === "all" ? [] : ids.filter((id) => !known.has(id));
    const done = verb === "retry" ? "retried" : "forgotten";
    if (options.json) {
      output.line(JSON.stringify({ [done]: moved, unknown }, null, 2));
    } else {
      for (const { id, name } of moved) output.line(oneLine(`${done} ${id} ${name}`));
      if (ids === "all" && moved.length === 0) output.line("no failed jobs");
    }
    for (const id of unknown) {
      output.problem(`queue: no failed job ${/^\S+$/.test(id) ? id : JSON.stringify(id)}`);
    }
    return unknown.length === 0 ? 0 : 1;
  });
}
