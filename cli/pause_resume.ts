import type { Queue } from "../mod.ts";
import type { Context } from "./context.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";

/** The options of `queue:pause` and `queue:resume`. */
export interface PauseOptions {
  readonly database?: string;
  readonly queue?: string;
  readonly json?: boolean;
}

/** Pauses a queue, or all. What is paused already is no error: it is what was asked for. */
export async function pause(options: PauseOptions, { env, output }: Context): Promise<number> {
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const name = options.queue;
    const changed = await queue.pause(name);
    if (options.json) output.line(await state(queue, changed));
    else if (changed) output.line(`paused ${name ?? "every queue"}`);
    else output.line(`${name ?? "every queue"} was paused before`);
    return 0;
  });
}

/** Lifts the pause of a queue, which makes the status 1 where there is none; or every pause, also of none. */
export async function resume(options: PauseOptions, { env, output }: Context): Promise<number> {
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const name = options.queue;
    const changed = await queue.resume(name);
    const { all } = await queue.paused();
    const rest = all ? ": every queue is paused, until queue:resume without --queue" : "";
    if (options.json) output.line(await state(queue, changed));
    else if (changed) output.line(`resumed ${name ?? "every queue"}${name === undefined ? "" : rest}`);
    else if (name === undefined) output.line("nothing was paused");
    if (changed || name === undefined) return 0;
    output.problem(`queue: ${name} is not paused by its name${rest}`);
    return 1;
  });
}

/** Whether something was changed, and what is paused now. */
async function state(queue: Queue, changed: boolean): Promise<string> {
  return JSON.stringify({ changed, paused: await queue.paused() }, null, 2);
}
