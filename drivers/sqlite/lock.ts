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

/** What is in the way. */
export type Obstacle = "lock" | "transaction";

/** What a call is told that has waited for so long. */
export function gaveUp(obstacle: Obstacle, cause?: unknown): Error {
  const what = obstacle === "lock"
    ? "another connection kept the database locked"
    : "the app's own transaction on this connection stayed open";
  return new Error(`${what} for ${LOCK_DEADLINE / 1000} s`, { cause });
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
 */
export async function unlocked<Result>(
  connection: Connection,
  watch: TransactionWatch,
  attempt: () => Result,
): Promise<Result> {
  const deadline = performance.now() + LOCK_DEADLINE;
  while (true) {
    const late = performance.now() > deadline;
    try {
      if (!watch.isOpen(connection)) return attempt();
      if (late) throw gaveUp("transaction");
    } catch (error) {
      if (faultOf(error) !== "busy") throw error;
      if (late) throw gaveUp("lock", error);
    }
    await new Promise((resolve) => setTimeout(resolve, 1 + Math.random() * 10));
  }
}
