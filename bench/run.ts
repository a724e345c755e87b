/**
 * Runs one measurement in a process of its own.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Runtime } from "./runtimes.ts";

/** How long a measurement may take, in milliseconds. */
const DEADLINE = 240_000;

/** A running child. */
export interface Child {
  /** Resolves at its first line of output, which says that it is ready, or when it has ended. */
  readonly ready: Promise<void>;
  /** What it printed last, parsed. */
  readonly result: Promise<unknown>;
}

/** Starts `bench/<script>` on a runtime with a task. */
export function start(runtime: Runtime, script: string, task: object): Child {
  const [program, ...options] = runtime.command;
  const path = fileURLToPath(new URL(script, import.meta.url));
  const child = spawn(program, [...options, path, JSON.stringify(task)], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  let signalReady = () => {};
  const ready = new Promise<void>((resolve) => signalReady = resolve);
  child.stdout.on("data", (chunk) => {
    output += chunk;
    signalReady();
  });
  child.stderr.on("data", (chunk) => errors += chunk);
  const deadline = setTimeout(() => child.kill("SIGKILL"), DEADLINE);
  const result = new Promise<unknown>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status, signal) => {
      clearTimeout(deadline);
      signalReady();
      const last = output.trimEnd().split("\n").pop();
      try {
        if (status !== 0) throw new Error(`exit ${status ?? signal}`);
        resolve(JSON.parse(last!));
      } catch (error) {
        const what = `${runtime.name} ${script} ${JSON.stringify(task)}`;
        reject(new Error(`${what}: ${(error as Error).message}\n${errors.slice(-2000)}`));
      }
    });
  });
  return { ready, result };
}

/** Runs it to its end. */
export function run(runtime: Runtime, script: string, task: object): Promise<unknown> {
  return start(runtime, script, task).result;
}
