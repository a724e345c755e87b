import process from "node:process";

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Calls `first` on the first SIGTERM or SIGINT and `second` on the next; returns what stops that. */
export function onStopSignals(first: () => void, second: () => void): () => void {
  let seen = 0;
  const received = (): void => {
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
