/**
 * Stops an app in the right order, when it is told to.
 *
 * @module
 */
import process from "node:process";

/** What every server can do in some way. */
export interface Server {
  /** Takes no more requests, and resolves once those under way are answered. */
  close(): Promise<unknown>;
}

/** What a queue does here. */
interface Stoppable {
  open(): Promise<void>;
  start(): { stop(): Promise<void> };
  close(): Promise<void>;
}

/** How long requests may take after a signal, in milliseconds. A dashboard that somebody watches takes for ever. */
const LONGEST = 5000;

/** Runs the queue's jobs beside the server, until a signal. A second signal ends the process as ever. */
export async function runBeside(server: Server, queue: Stoppable): Promise<void> {
  await queue.open(); // a store that cannot be opened is said now, and not at the first request
  const workers = queue.start();
  const stop = async (): Promise<void> => {
    const late = new Promise((resolve) => setTimeout(resolve, LONGEST));
    // The workers finish what runs, and start nothing more, while the last requests are answered.
    await Promise.all([workers.stop(), Promise.race([server.close(), late])]);
    await queue.close(); // after the server, as its last requests may have dispatched
    process.exit(); // and with it ends what is still open
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, stop);
}
