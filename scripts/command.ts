// Runs one command for the test runner and the checks.

import { spawn } from "node:child_process";
import process from "node:process";
import { root } from "./runtimes.ts";

/** How a command is run. */
export interface CommandOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** Where it runs: the repository's folder by default. */
  readonly cwd?: string;
  /** It is killed after so many seconds. */
  readonly seconds: number;
  /** What it prints is shown, kept, or both. */
  readonly output: "show" | "keep" | "both";
}

/** How a command ended. */
export interface Ending {
  readonly status: number | null;
  /** Why the status is not 0; undefined if it is. */
  readonly why?: string;
  /** What it printed, unless that was only shown. */
  readonly output: string;
}

/** What ends each command that runs. */
const running = new Set<(signal: NodeJS.Signals) => void>();

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.on(signal, () => {
    for (const end of running) end("SIGTERM");
    process.exit(130);
  });
}

/**
 * Runs a command, without input, and waits for its end. It gets a process group of its
 * own, so that one that hangs, or is interrupted, ends with all that it started.
 */
export function run(path: string, args: readonly string[], options: CommandOptions): Promise<Ending> {
  const stream = options.output === "show" ? "inherit" : "pipe";
  const { env = process.env, cwd = root } = options;
  const child = spawn(path, args, { cwd, env, stdio: ["ignore", stream, stream], detached: true });
  const end = (signal: NodeJS.Signals): void => {
    try {
      process.kill(-child.pid!, signal);
    } catch {
      // It has just ended.
    }
  };
  running.add(end);

  let late = false;
  const timer = setTimeout(() => {
    late = true;
    end("SIGKILL");
  }, options.seconds * 1000);

  let output = "";
  for (const printed of [child.stdout, child.stderr]) {
    printed?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      if (options.output === "both") process.stdout.write(text);
    });
  }
  return new Promise<Ending>((resolve) => {
    child.once("error", ({ message }) => {
      resolve({ status: null, why: `it could not be started: ${message}`, output });
    });
    child.once("close", (status, signal) => {
      if (late) resolve({ status: null, why: `it was ended after ${options.seconds} seconds`, output });
      else if (status === 0) resolve({ status, output });
      else resolve({ status, why: `it ended with ${signal ?? `status ${status}`}`, output });
    });
  }).finally(() => {
    clearTimeout(timer);
    running.delete(end);
  });
}
