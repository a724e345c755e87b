import process from "node:process";
import { createInterface } from "node:readline";
import { CommandError } from "./command_error.ts";
import type { Context } from "./context.ts";

/**
 * Whether something that cannot be undone may be done: in production somebody is asked, on a terminal, and `--force`
 * answers for them.
 *
 * @param question What is about to be done, once it is known how much that is.
 * @throws {CommandError} 2 where there is nobody to ask; 1 where the answer is no.
 */
export async function confirm(
  force: boolean | undefined,
  { env, output }: Context,
  question: string,
): Promise<void> {
  if (force || env.APP_ENV !== "production") return;
  refuseUnasked(force, env.APP_ENV);
  output.writeError(`queue: this is production: ${question} [y/N] `);
  if (/^y(es)?$/i.test((await readLine()).trim())) return;
  throw new CommandError(1, "nothing was changed");
}

/**
 * Refuses at once, before anything is looked at.
 *
 * @throws {CommandError} 2 where there is nobody to ask.
 */
export function refuseUnasked(force: boolean | undefined, appEnv: string | undefined): void {
  if (force || appEnv !== "production") return;
  if (process.stdin.isTTY && process.stderr.isTTY) return;
  throw new CommandError(2, "APP_ENV=production, and there is no terminal to ask on: expected --force");
}

/** One line of standard input; empty where it ends, or Ctrl+C is typed. */
function readLine(): Promise<string> {
  const lines = createInterface({ input: process.stdin, terminal: false });
  return new Promise((resolve) => {
    lines.once("line", (line) => {
      resolve(line);
      lines.close();
    });
    lines.once("close", () => resolve(""));
  });
}
