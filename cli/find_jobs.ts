import { statSync } from "node:fs";
import { resolve } from "node:path";
import type { Environment } from "../mod.ts";
import { CommandError } from "./command_error.ts";

/** Where the jobs are looked for unless they are named. */
const USUAL = ["jobs.ts", "jobs.js"];

/**
 * Where the jobs module is: `named`, `QUEUE_JOBS`, or one of the usual names in the current folder.
 *
 * @throws {CommandError} 2, with what is missing.
 */
export function findJobs(named: string | undefined, env: Environment): string {
  if (named !== undefined) return existing(named, "--jobs");
  if (env.QUEUE_JOBS) return existing(env.QUEUE_JOBS, "QUEUE_JOBS");
  const found = USUAL.map((name) => resolve(name)).find((file) => !isMissing(file));
  if (found !== undefined) return found;
  throw new CommandError(
    2,
    `no jobs module: expected --jobs FILE, QUEUE_JOBS=FILE, or ${USUAL.join(" or ")} in ${resolve()}`,
  );
}

function existing(path: string, from: string): string {
  const file = resolve(path);
  if (isMissing(file)) throw new CommandError(2, `jobs module ${file} (${from}): no such file`);
  return file;
}

/** Only where it is known to be: what the runtime may not look at, the import reports better. */
function isMissing(file: string): boolean {
  try {
    statSync(file);
    return false;
  } catch (error) {
    return ["ENOENT", "ENOTDIR"].includes(String((error as { code?: string }).code));
  }
}
