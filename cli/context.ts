import type { Environment, Jobs } from "../mod.ts";
import { loadJobs } from "./load_jobs.ts";
import type { Output } from "./output.ts";

/** What every command works with. */
export interface Context {
  /** The jobs of the app that called `main`; `undefined` where a module has them. */
  readonly jobs: Jobs | undefined;
  /** The queue's settings. */
  readonly env: Environment;
  /** Where it prints. */
  readonly output: Output;
}

/** The app's jobs, or those of the module that `named` or the settings point to. */
export async function jobsOf(context: Context, named: string | undefined): Promise<Jobs> {
  return context.jobs ?? await loadJobs(named, context.env);
}
