import { statSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import type { Environment, Jobs } from "../mod.ts";
import { CommandError } from "./command_error.ts";
import { oneLine } from "./one_line.ts";

/** Where the jobs are looked for unless they are named. */
const USUAL = ["jobs.ts", "jobs.js"];

/**
 * Imports the jobs module: `named`, `QUEUE_JOBS`, or one of the usual names in the current folder.
 *
 * @throws {CommandError} 2, with the file and what is wrong with it.
 */
export async function loadJobs(named: string | undefined, env: Environment): Promise<Jobs> {
  const file = findJobs(named, env);
  let module: { default?: unknown };
  try {
    module = await settled(import(pathToFileURL(file).href), file);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new CommandError(2, `jobs module ${file}: failed to load: ${oneLine(why)}`);
  }
  const fault = faultOf(module.default);
  if (fault !== undefined) {
    throw new CommandError(
      2,
      `jobs module ${file}: ${fault}; expected the map of jobs, such as export default { thumbnail: (job) => … }`,
    );
  }
  return module.default as Jobs;
}

/** The module, unless the process would end for want of anything to do while it still waits: silently, and with 0. */
function settled<Module>(loading: Promise<Module>, file: string): Promise<Module> {
  return new Promise((resolve, reject) => {
    const idle = (): void =>
      reject(new CommandError(2, `jobs module ${file}: a top-level await in it never ends`));
    process.once("beforeExit", idle);
    loading.finally(() => process.removeListener("beforeExit", idle)).then(resolve, reject);
  });
}

function findJobs(named: string | undefined, env: Environment): string {
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

/** What is wrong with a default export; what each job's settings may be, the queue checks. */
function faultOf(jobs: unknown): string | undefined {
  if (jobs === undefined) return "it has no default export";
  if (typeof jobs !== "object" || jobs === null || Array.isArray(jobs)) {
    return `its default export is ${kindOf(jobs)}`;
  }
  const entries = Object.entries(jobs);
  if (entries.length === 0) {
    // A Map, say, or a promise that nobody awaited.
    const kind = Object.prototype.toString.call(jobs).slice("[object ".length, -1);
    return `its default export ${kind === "Object" ? "has no jobs" : `is a ${kind}`}`;
  }
  const odd = entries.find(([, job]) =>
    typeof job !== "function" && (typeof job !== "object" || job === null)
  );
  return odd && `its job ${JSON.stringify(odd[0])} is ${kindOf(odd[1])}`;
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "an array";
  return `a ${typeof value}`;
}
