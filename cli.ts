/**
 * The command line: `queue:work`, `queue:dispatch`, `queue:failed`, `queue:retry`, and the other commands for a queue.
 *
 * Run it as it is, with a module of jobs, or give your app the commands with {@linkcode main}.
 *
 * ```sh
 * deno run -A jsr:@x/queue/cli queue:work --jobs ./jobs.ts
 * ```
 *
 * @example
 * ```ts
 * import { main } from "@x/queue/cli";
 * import assert from "node:assert/strict";
 *
 * const jobs = { greet: () => console.log("hello") };
 * const argv = ["queue:work", "--database=:memory:", "--stop-when-empty", "--quiet"]; // in an app: its own
 * assert.equal(await main(argv, jobs), 0);
 * ```
 *
 * @module
 */
import process from "node:process";
import { CommanderError } from "commander";
import { CommandError } from "./cli/command_error.ts";
import { isMain } from "./cli/is_main.ts";
import { withOutput } from "./cli/output.ts";
import { run } from "./cli/program.ts";
import { unsupported } from "./cli/runtime.ts";
import { type Jobs, QueueError, type QueueErrorCode } from "./mod.ts";

/** Errors of what was asked for, not of the store. */
const MISUSE: readonly QueueErrorCode[] = ["CONFIG", "PAYLOAD", "UNKNOWN"];

/**
 * Runs one `queue:*` command and returns its exit status: 0 when it did what was asked, 1 when the store failed or an
 * id is unknown, 2 when the command line or a setting cannot work. Problems are one line on standard error.
 *
 * `queue:work` returns after SIGTERM or SIGINT, once the running jobs are done, or their grace is over. Nothing is left behind, so an app may
 * go on; one that does not should end the process, since a job may have left something open.
 *
 * @example An app with the queue's commands
 * ```ts ignore
 * import process from "node:process";
 * import { main } from "@x/queue/cli";
 *
 * process.exit(await main(process.argv.slice(2), {
 *   thumbnail: (job) => console.log(job.data),
 * }));
 * ```
 *
 * @param argv The arguments, without the names of runtime and program.
 * @param jobs The app's jobs; left out, they come from `--jobs`, `QUEUE_JOBS`, or `jobs.ts` or `jobs.js` in the current folder.
 */
export function main(argv: readonly string[], jobs?: Jobs): Promise<number> {
  return withOutput(async (output) => {
    const fault = unsupported(process.versions);
    if (fault !== null) {
      output.problem(fault);
      return 2;
    }
    try {
      return await run(argv, jobs, output);
    } catch (error) {
      // commander has printed it.
      if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
      if (!(error instanceof CommandError || error instanceof QueueError)) throw error;
      output.problem(error.message);
      if (error instanceof CommandError) return error.status;
      return MISUSE.includes(error.code) ? 2 : 1;
    }
  });
}

// Not awaited here: a jobs module may import this file, which must have finished loading by then.
if (isMain(import.meta.main, import.meta.url)) {
  main(process.argv.slice(2)).then((status) => process.exit(status));
}
