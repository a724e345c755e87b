/**
 * Imports the module whose default export is an app's map of jobs.
 *
 * @module
 */
import { isAbsolute, resolve } from "node:path";
import process from "node:process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, oneLine } from "../describe.ts";
import { QueueError } from "../errors.ts";
import type { Jobs } from "../job.ts";

/**
 * Imports a jobs module, as `queue:work --jobs` and {@linkcode ProcessesOptions.module} do.
 *
 * @param module A path, from the current folder, or a URL.
 * @throws {QueueError} `CONFIG`, with the file and what is wrong with it.
 */
export async function loadJobs(module: string | URL): Promise<Jobs> {
  const url = moduleUrl(module);
  const name = url.protocol === "file:" ? fileURLToPath(url) : url.href;
  const refuse = (why: string): QueueError => new QueueError("CONFIG", `jobs module ${name}: ${why}`);
  let loaded: { default?: unknown };
  try {
    loaded = await settled(import(url.href), refuse);
  } catch (error) {
    if (error instanceof QueueError) throw error;
    const why = shown(error);
    throw refuse(`failed to load: ${firstLine(why)}${remedyFor(why)}`);
  }
  let fault: string | undefined;
  try {
    fault = faultOf(loaded.default);
  } catch (error) {
    throw refuse(`its default export cannot be read: ${firstLine(shown(error))}`);
  }
  if (fault !== undefined) {
    throw refuse(`${fault}; expected the map of jobs, such as export default { thumbnail: (job) => … }`);
  }
  return loaded.default as Jobs;
}

/** The URL of a module that is named by its path, from the current folder, or by its URL. */
export function moduleUrl(module: string | URL): URL {
  if (module instanceof URL) return module;
  const isUrl = /^[a-z][a-z+.-]+:/i.test(module) && !isAbsolute(module);
  return isUrl ? new URL(module) : pathToFileURL(resolve(module));
}

/**
 * The module, unless the process ends while it still waits: for want of anything to do, or as the module told it to. Both
 * would be silent, and with status 0.
 */
async function settled<Module>(
  loading: Promise<Module>,
  refuse: (why: string) => QueueError,
): Promise<Module> {
  let stop!: (error: QueueError) => void;
  const stuck = new Promise<never>((_, reject) => stop = reject);
  const idle = (): void => stop(refuse("a top-level await in it never ends"));
  const exiting = (): void => {
    console.error(refuse("it ended the process while it was being loaded").message);
    process.exitCode ||= 1;
  };
  process.once("beforeExit", idle);
  onExit.add(exiting);
  try {
    return await Promise.race([loading, stuck]);
  } finally {
    process.removeListener("beforeExit", idle);
    onExit.remove(exiting);
  }
}

const globals = globalThis as unknown as EventTarget;

/** How the end of this process is heard: Deno.exit does not tell `process`. */
const onExit: { add(listener: () => void): void; remove(listener: () => void): void } =
  process.versions.deno === undefined
    ? {
      add: (listener) => process.once("exit", listener),
      remove: (listener) => process.removeListener("exit", listener),
    }
    : {
      add: (listener) => globals.addEventListener("unload", listener),
      remove: (listener) => globals.removeEventListener("unload", listener),
    };

/** A compiled program, or one file, has this package within, where a module beside it cannot find it. */
function remedyFor(why: string): string {
  if (!/["'`]@x\/queue[/"'`]/.test(why)) return "";
  return "; put the package into a node_modules beside the module, or bundle the module with it";
}

/** What a module threw, which may be anything. */
function shown(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return describe(error);
  }
}

function firstLine(text: string): string {
  return oneLine(text.split(/[\r\n\u2028\u2029]/).find((line) => line.trim() !== "") ?? "");
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
