/** Runs the command line in the process of the test, as it is printed in the documents. */
import assert from "node:assert/strict";
import process from "node:process";
import type { Jobs } from "@x/queue";
import { CommanderError } from "commander";
import type { Output } from "../cli/output.ts";
import { run } from "../cli/program.ts";
import { words } from "./documents.ts";

/** What came out of a command: its exit status, and what it printed. */
export interface Said {
  readonly status: number;
  readonly out: string;
  readonly errors: string;
}

/**
 * Runs a line such as `QUEUE_TRIES=5 queue queue:work`.
 *
 * @param more Words at its end, such as where the store is.
 * @param hear Called with each line of standard output.
 */
export async function command(
  line: string,
  jobs: Jobs,
  more: readonly string[],
  hear: (line: string) => void = () => {},
): Promise<Said> {
  const given = words(line);
  const program = given.indexOf("queue");
  assert.notEqual(program, -1, `${line}: a command of queue`);
  const settings = given.slice(0, program).map((word) => word.split("="));
  let out = "", errors = "";
  const output: Output = {
    write: (text) => void (out += text),
    line: (text) => {
      out += text + "\n";
      hear(text);
    },
    writeError: (text) => void (errors += text),
    problem: (text) => void (errors += text + "\n"),
    colour: false,
    width: undefined,
    errorWidth: undefined,
    onClosed: () => {},
  };
  const before = settings.map(([name]) => [name, process.env[name]] as const);
  for (const [name, value] of settings) process.env[name] = value;
  try {
    const status = await run([...given.slice(program + 1), ...more], jobs, output);
    return { status, out, errors };
  } catch (error) {
    // Help is no error, but this is how it ends.
    if (!(error instanceof CommanderError && error.exitCode === 0)) throw error;
    return { status: 0, out, errors };
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}
