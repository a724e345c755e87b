/**
 * How a worker divides its handlers among processes, as an app says it.
 *
 * @module
 */
import { atLeastOne, refuseUnknown, wholeNumber } from "../config.ts";
import { type Duration, toMilliseconds } from "../duration.ts";
import { QueueError } from "../errors.ts";
import { show } from "../show.ts";
import { moduleUrl } from "./jobs_module.ts";

/** Runs the handlers of {@linkcode Queue.work} in child processes. */
export interface ProcessesOptions {
  /** How many, 1 to 1,000. */
  count: number;
  /**
   * The module whose default export is the map of jobs: a path from the current folder, or a URL. Only the children
   * import it. Left out where `program` brings the jobs.
   */
  module?: string | URL;
  /** A process that has grown beyond so many megabytes (of 2^20 bytes, resident) is replaced, once its running jobs have ended. Default: no limit. */
  memory?: number;
  /** A process is replaced after so many jobs. Default: no limit. */
  maxJobs?: number;
  /** How long a handler may take to return once its timeout has aborted its signal, before its process is killed. Default: 5 s. */
  killAfter?: Duration;
  /** Where the children's standard output goes. Default: `"stdout"`, this process's own. */
  output?: "stdout" | "stderr";
  /**
   * Arguments of this program by which it calls `serveJobs`: the children run this program then, and not one of the
   * queue's own. As a compiled or bundled program must, or one whose jobs are not a module's.
   */
  program?: readonly string[];
  /**
   * Arguments of the runtime for the children, such as `["--allow-read=data"]`. Default: those of this process, except
   * that Deno tells no program which files or hosts it is allowed, only whether it is all of them.
   */
  flags?: readonly string[];
}

/** The options, checked. */
export interface ProcessesPlan {
  readonly count: number;
  /** How many jobs run in each at a time. */
  readonly slots: readonly number[];
  /** A URL. */
  readonly module: string | null;
  /** In bytes. */
  readonly memory: number;
  readonly maxJobs: number;
  readonly killAfter: number;
  readonly output: "stdout" | "stderr";
  readonly program: readonly string[] | null;
  readonly flags: readonly string[] | null;
}

const OPTIONS = ["count", "module", "memory", "maxJobs", "killAfter", "output", "program", "flags"];

/** How many child processes one worker has at most. */
const MOST_PROCESSES = 1000;

const MEGABYTE = 2 ** 20;

/**
 * Checks the options.
 *
 * @param concurrency How many jobs run at a time in all processes; `undefined` for one in each.
 * @throws {QueueError} `CONFIG`, naming the option.
 */
export function planProcesses(options: ProcessesOptions, concurrency: number | undefined): ProcessesPlan {
  if (typeof options !== "object" || options === null) {
    throw new QueueError("CONFIG", `processes=${show(options)}: expected { count, module }`);
  }
  refuseUnknown(options, OPTIONS, "processes");
  if (options.count === undefined) throw new QueueError("CONFIG", "processes.count: expected a whole number");
  const count = wholeNumber("processes.count", options.count, 1, 1, MOST_PROCESSES);
  const { module, output = "stdout", program, flags } = options;
  const isModule = module instanceof URL || (typeof module === "string" && module !== "");
  if (module === undefined ? program === undefined : !isModule) {
    throw new QueueError(
      "CONFIG",
      `processes.module=${show(module)}: expected the path or URL of the jobs module`,
    );
  }
  if (output !== "stdout" && output !== "stderr") {
    throw new QueueError("CONFIG", `processes.output=${show(output)}: expected stdout or stderr`);
  }
  return {
    count,
    slots: divide(concurrency ?? count, count),
    module: module === undefined ? null : moduleUrl(module).href,
    memory: wholeNumber("processes.memory", options.memory, Infinity, 1) * MEGABYTE,
    maxJobs: wholeNumber("processes.maxJobs", options.maxJobs, Infinity, 1),
    killAfter: options.killAfter === undefined
      ? KILL_AFTER
      : atLeastOne(toMilliseconds(options.killAfter, "processes.killAfter"), "processes.killAfter"),
    output,
    program: checkTexts("processes.program", program),
    flags: checkTexts("processes.flags", flags),
  };
}

const KILL_AFTER = 5000;

/** Evenly, the first ones getting what is left over. */
function divide(concurrency: number, count: number): number[] {
  if (concurrency < count) {
    throw new QueueError(
      "CONFIG",
      `concurrency=${concurrency}: expected at least ${count}, a job at a time for each of the processes`,
    );
  }
  return Array.from({ length: count }, (_, at) => Math.floor((concurrency + count - 1 - at) / count));
}

function checkTexts(setting: string, value: readonly string[] | undefined): readonly string[] | null {
  if (value === undefined) return null;
  if (Array.isArray(value) && value.every((text) => typeof text === "string")) return value;
  throw new QueueError("CONFIG", `${setting}=${show(value)}: expected a list of texts`);
}
