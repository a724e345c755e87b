import { statSync } from "node:fs";
import { DEFAULT_DATABASE, type Environment, type Jobs, type Log, Queue } from "../mod.ts";
import { CommandError } from "./command_error.ts";

/** Opens the queue for `use` and closes it after. Once `stopped` is aborted, `use` gets it whether or not it is open. */
export async function withQueue(
  { database, env, jobs, log, stopped }: {
    database: string | undefined;
    env: Environment;
    jobs: Jobs;
    log?: Log;
    stopped?: AbortSignal;
  },
  use: (queue: Queue) => Promise<number>,
): Promise<number> {
  const queue = new Queue({ jobs, env, database, log });
  try {
    const opening = queue.open();
    if (stopped === undefined) await opening;
    else await unless(stopped, opening, log);
    return await use(queue);
  } finally {
    await queue.close();
  }
}

/** Waits for the store, but no longer than until `stopped` is aborted; what becomes of it after that is logged. */
async function unless(stopped: AbortSignal, opening: Promise<void>, log: Log | undefined): Promise<void> {
  let stop!: () => void;
  const left = new Promise<true>((resolve) => stop = () => resolve(true));
  stopped.addEventListener("abort", stop);
  try {
    if (stopped.aborted) stop();
    if (await Promise.race([left, opening])) opening.catch((error: Error) => log?.error(error.message));
  } finally {
    stopped.removeEventListener("abort", stop);
  }
}

/** What a person knows the store by: the path of a file, or the URL of Redis without the password in it. */
export function storeName(database: string | undefined, env: Environment): string {
  if (env.QUEUE_CONNECTION !== "redis") return databasePath(database, env);
  return (env.REDIS_URL || "redis://127.0.0.1:6379").replace(/\/\/.*@/, "//");
}

/** The path that `--database`, or else the environment, names. */
function databasePath(database: string | undefined, env: Environment): string {
  return database ?? (env.DB_DATABASE || DEFAULT_DATABASE);
}

/**
 * Refuses a file that is not there: to look at a queue must not make one. Where it is elsewhere, in Redis, or nowhere,
 * as the queue will say of a setting that cannot work, that file does not matter.
 *
 * @throws {CommandError} 1
 */
export function requireDatabase(database: string | undefined, env: Environment): void {
  const path = databasePath(database, env);
  if (path === ":memory:" || !["", "database"].includes(env.QUEUE_CONNECTION ?? "")) return;
  try {
    statSync(path);
  } catch (error) {
    if (!["ENOENT", "ENOTDIR"].includes(String((error as { code?: string }).code))) return;
    throw new CommandError(1, `no database at ${path}`);
  }
}
