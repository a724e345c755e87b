import { type Environment, type Jobs, loadJobs } from "../mod.ts";
import { findJobs } from "./find_jobs.ts";
import type { Output } from "./output.ts";
import type { Slip } from "./slips.ts";

/** What every command works with. */
export interface Context {
  /** The jobs of the app that called `main`; `undefined` where a module has them. */
  readonly jobs: Jobs | undefined;
  /** The queue's settings. */
  readonly env: Environment;
  /** What is set that was likely meant as one of them. */
  readonly slips: readonly Slip[];
  /** The command line, as `main` got it. */
  readonly argv: readonly string[];
  /** Where it prints. */
  readonly output: Output;
}

/** The app's jobs, or those of the module that `named` or the settings point to. */
export async function jobsOf(context: Context, named: string | undefined): Promise<Jobs> {
  return context.jobs ?? await loadJobs(findJobs(named, context.env));
}
