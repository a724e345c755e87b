/**
 * Where the queue's own log lines go.
 *
 * @module
 */
import { describe } from "./describe.ts";
import { QueueError } from "./errors.ts";
import { show } from "./show.ts";

/** Takes the queue's log lines. `console` is one, and so is the logger of most libraries. */
export interface Log {
  /** Something to know about that needs no action, such as an attempt that will be retried. */
  warn(line: string): void;
  /** Something that needs a person, such as a job that ended in `failed_jobs`. */
  error(line: string): void;
}

/**
 * The app's log, or `console`, made so that it never throws: a log that fails must not take a job down with it.
 *
 * @throws {QueueError} `CONFIG` where it is no log.
 */
export function safeLog(log: Log | undefined): Log {
  if (log === undefined) return { warn: (line) => console.warn(line), error: (line) => console.error(line) };
  if (typeof log?.warn !== "function" || typeof log.error !== "function") {
    throw new QueueError("CONFIG", `log=${show(log)}: expected an object with warn(line) and error(line)`);
  }
  const guarded = (write: (line: string) => void) => (line: string): void => {
    try {
      write(line);
    } catch (error) {
      console.error(`${line} (and the log failed: ${describe(error)})`);
    }
  };
  return { warn: guarded((line) => log.warn(line)), error: guarded((line) => log.error(line)) };
}
