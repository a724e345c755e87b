/**
 * Waiting until nobody is in the way: another connection, which writes, or the app's own transaction on a connection
 * that it brought.
 *
 * @module
 */
import { type Connection, faultOf } from "./connection.ts";
import type { Warn } from "./file.ts";

/** How long a call waits, in milliseconds. */
export const LOCK_DEADLINE = 10_000;

/** How long what is pending waits once the driver is being closed, in milliseconds. */
export const CLOSE_DEADLINE = 2000;

/** What is in the way. */
export type Obstacle = "lock" | "transaction";

/** What a call is told that has waited for so long, or until the driver that was closed could wait no more. */
export function gaveUp(obstacle: Obstacle, closing: boolean, cause?: unknown): Error {
  const what = obstacle === "lock"
    ? "another connection kept the database locked"
    : "the app's own transaction on this connection stayed open";
  const time = closing ? "while the queue was closed" : `for ${LOCK_DEADLINE / 1000} s`;
  return new Error(`${what} ${time}`, { cause });
}

/** How long the app's transaction is waited for in silence, in milliseconds. */
const WARN_AFTER = 1000;

/** Says once that the app's open transaction keeps the queue waiting: a forgotten one would do so without a word. */
export class TransactionWatch {
  readonly #warn: Warn;
  #since: number | null = null;
  #told = false;

  /** @param warn Gets the line. */
  constructor(warn: Warn) {
    this.#warn = warn;
  }

  /** Whether a transaction is open that is not the queue's. */
  isOpen(connection: Connection): boolean {
    if (!connection.inTransaction) {
      this.#since = null;
      return false;
    }
    const now = performance.now();
    this.#since ??= now;
    if (now - this.#since >= WARN_AFTER && !this.#told) {
      this.#told = true;
      this.#warn(
        "queue: the app has a transaction open on the queue's connection: the queue waits for its end",
      );
    }
    return true;
  }
}

/**
 * Runs `attempt` once nobody is in the way. At a simultaneous start of several processes even a busy timeout would not
 * help.
 *
 * @param leaveAt By when the driver that is being closed must have given up, in milliseconds of `performance.now()`.
 */
export async function unlocked<Result>(
  connection: Connection,
  watch: TransactionWatch,
  attempt: () => Result,
  leaveAt: () => number,
): Promise<Result> {
  const deadline = performance.now() + LOCK_DEADLINE;
  while (true) {
    const now = performance.now();
    const closing = now > leaveAt();
    const late = closing || now > deadline;
    try {
      if (!watch.isOpen(connection)) return attempt();
      if (late) throw gaveUp("transaction", closing);
    } catch (error) {
      if (faultOf(error) !== "busy") throw error;
      if (late) throw gaveUp("lock", closing, error);
    }
    await new Promise((resolve) => setTimeout(resolve, 1 + Math.random() * 10));
  }
}
