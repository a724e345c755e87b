/**
 * Where the queue's own log lines go.
 *
 * @module
 */

/** Takes the queue's log lines. `console` is one, and so is the logger of most libraries. */
export interface Log {
  /** Something to know about that needs no action, such as an attempt that will be retried. */
  warn(line: string): void;
  /** Something that needs a person, such as a job that ended in `failed_jobs`. */
  error(line: string): void;
}

/** Writes to standard error, through `console`. */
export const consoleLog: Log = {
  warn: (line) => console.warn(line),
  error: (line) => console.error(line),
};
