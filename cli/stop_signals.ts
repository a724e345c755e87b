import { readFileSync } from "node:fs";
import process from "node:process";

/** SIGHUP comes when the terminal goes: a worker that was started there stops as at the others. */
const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/** How long after a SIGHUP another signal belongs to it, in milliseconds. */
const TOGETHER = 500;

/**
 * Calls `first` on the first of these signals and `second` on the next; returns what stops that. A SIGHUP is none that
 * comes second: a terminal that is closed sends it twice at once, from its shell and from the system. And systemd can be
 * told to send it right after SIGTERM, which arrives in either order.
 */
export function onStopSignals(first: () => void, second: () => void): () => void {
  const goesOn = ignoresHangup();
  let seen = 0;
  let hungUpAt = -Infinity;
  // It listens all the same where it goes on: Deno takes SIGHUP for itself as soon as there is a listener for any signal.
  const received = (signal: NodeJS.Signals): void => {
    if (signal === "SIGHUP") {
      if (goesOn || seen > 0) return;
      hungUpAt = performance.now();
    } else if (performance.now() - hungUpAt < TOGETHER) return;
    seen++;
    if (seen === 1) return first();
    // From here on a signal ends the process, should a handler block even this.
    remove();
    second();
  };
  const remove = (): void => {
    for (const signal of SIGNALS) process.removeListener(signal, received);
  };
  for (const signal of SIGNALS) process.on(signal, received);
  return remove;
}

/**
 * Whether whoever started this process had it ignore SIGHUP, as `nohup` does: then it goes on. Linux tells; Node has
 * forgotten it by now, and so stops.
 */
function ignoresHangup(): boolean {
  try {
    const ignored = /^SigIgn:\s*([\da-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
    return ignored !== undefined && (Number.parseInt(ignored.slice(-1), 16) & 1) === 1;
  } catch {
    return false; // another system, or in Deno not all is allowed
  }
}
