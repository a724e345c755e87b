import process from "node:process";
import type { ProcessesOptions } from "../mod.ts";
import { CommandError } from "./command_error.ts";
import type { Context } from "./context.ts";
import { findJobs } from "./find_jobs.ts";

/** The command of the child processes, which nobody types. */
export const CHILD = "queue:child";

/** The options of `queue:work` that say how handlers run. */
export interface ProcessOptions {
  readonly jobs?: string;
  readonly processes?: number;
  readonly memory?: number;
  readonly maxJobs?: number;
  readonly childFlags?: string;
  readonly once?: boolean;
  readonly json?: boolean;
}

/**
 * How the handlers run; `undefined` for in this process.
 *
 * @throws {CommandError} 2 for options that make no sense together, or where no child could be started.
 */
export function processesOf(options: ProcessOptions, context: Context): ProcessesOptions | undefined {
  const { processes, memory, maxJobs, childFlags, once, json } = options;
  if (processes === undefined) {
    if (memory !== undefined) throw new CommandError(2, "--memory: expected --processes beside it");
    if (childFlags !== undefined) throw new CommandError(2, "--child-flags: expected --processes beside it");
    return undefined;
  }
  const program = againAs(context);
  return {
    count: once ? 1 : processes,
    module: context.jobs === undefined ? findJobs(options.jobs, context.env) : undefined,
    memory,
    maxJobs: once ? undefined : maxJobs,
    // Lines of JSON are read by programs: what handlers print must not get between them.
    output: json ? "stderr" : "stdout",
    flags: childFlags?.split(/\s+/).filter((flag) => flag !== ""),
    program,
  };
}

/**
 * The arguments by which this program, started again, is a child: those that came before the command. `undefined` where
 * the queue's own program can do it, as `main` got a command line of the app's making.
 */
function againAs({ argv, jobs }: Context): readonly string[] | undefined {
  const before = process.argv.slice(2, process.argv.length - argv.length);
  const isTail = process.argv.length - argv.length >= 2 &&
    argv.every((argument, at) => argument === process.argv[2 + before.length + at]);
  if (isTail) return [...before, CHILD];
  if (jobs === undefined) return undefined;
  throw new CommandError(
    2,
    "--processes: expected a command line that ends as what main() got, by which this program can start itself again",
  );
}
