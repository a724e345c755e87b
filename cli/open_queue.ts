import { statSync } from "node:fs";
import { DEFAULT_DATABASE, type Environment, type Jobs, type Log, Queue } from "../mod.ts";
import { CommandError } from "./command_error.ts";

/** Opens the queue for `use` and closes it after. */
export async function withQueue(
  { database, env, jobs, log }: {
    database: string | undefined;
    env: Environment;
    jobs: Jobs;
    log?: Log;
  },
  use: (queue: Queue) => Promise<number>,
): Promise<number> {
  const queue = new Queue({ jobs, env, database, log });
  try {
    await queue.open();
    return await use(queue);
  } finally {
    await queue.close();
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
 * Refuses a file that is not there: to look at a queue must not make one. In Redis, the queue is not in that file.
 *
 * @throws {CommandError} 1
 */
export function requireDatabase(database: string | undefined, env: Environment): void {
  const path = databasePath(database, env);
  if (path === ":memory:" || env.QUEUE_CONNECTION === "redis") return;
  try {
    statSync(path);
  } catch (error) {
    if (!["ENOENT", "ENOTDIR"].includes(String((error as { code?: string }).code))) return;
    throw new CommandError(1, `no database at ${path}`);
  }
}
