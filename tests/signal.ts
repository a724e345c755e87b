/** Signals to processes that a test started, by their ids. */
import process from "node:process";

/**
 * Sends a signal to a process, or to the group `-pid`, and says whether it was still there.
 *
 * A process may end at any moment, before its parent hears of it: to send a signal to one that is gone is not a fault.
 * (In Deno, `child.kill()` twice sends nothing, and makes its signal the way in which the process ended.)
 */
export function sendSignal(pid: number, signal: NodeJS.Signals): boolean {
  try {
    process.kill(pid, signal);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ESRCH") return false;
    throw error;
  }
}
