/**
 * Ends a child process whose worker has died. The event loop hears of that by itself, but not where a handler blocks it
 * for ever: nobody would be left to kill that.
 *
 * @module
 */

/**
 * A thread of its own, which no handler can block. As text, since a file of its own would not be found in a compiled
 * program; `abort` is for Deno without the permission to send signals.
 */
const WATCH = `
const process = require("node:process");
const { workerData } = require("node:worker_threads");
setInterval(() => {
  if (process.ppid === workerData) return;
  try {
    process.kill(process.pid, "SIGKILL");
  } catch {
    process.abort();
  }
}, 500);
`;

/** Kills this process within a second once `parent` is its parent no more. Never rejects. */
export async function dieWithParent(parent: number, log: (line: string) => void): Promise<void> {
  const complain = (error: unknown): void => {
    log(
      `queue: no thread to watch for the end of the worker, so that a job that spins may outlive it: ${error}`,
    );
  };
  try {
    const { Worker } = await import("node:worker_threads");
    const thread = new Worker(WATCH, { eval: true, workerData: parent });
    thread.on("error", complain);
    thread.unref();
  } catch (error) {
    complain(error);
  }
}
