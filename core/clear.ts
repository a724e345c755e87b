/**
 * Removing what waits, in bounded steps.
 *
 * @module
 */
import { refuseUnknown } from "./config.ts";
import type { Driver } from "./driver.ts";
import { QueueError } from "./errors.ts";
import { checkQueue } from "./registry.ts";
import { show } from "./show.ts";

/** What {@linkcode Queue.clear} removes. */
export interface ClearOptions {
  /** Only jobs of this queue. Default: those of every queue. */
  queue?: string;
  /** Called after each step. It is waited for, and what it throws ends the call: what was removed stays removed. */
  onProgress?: (progress: ClearProgress) => unknown;
}

/** How far it is. */
export interface ClearProgress {
  /** How many were removed. */
  readonly cleared: number;
  /** How many there were when it began. */
  readonly total: number;
}

/** How many one step removes at most. */
const LOT = 500;

/** Removes waiting jobs, and says how many. */
export async function clearWaiting(
  driver: Driver,
  options: ClearOptions,
  retryAfter: number,
): Promise<number> {
  refuseUnknown(options, ["queue", "onProgress"], "options");
  const queue = options.queue === undefined ? null : checkQueue(options.queue, "queue");
  const { onProgress } = options;
  if (onProgress !== undefined && typeof onProgress !== "function") {
    throw new QueueError("CONFIG", `onProgress=${show(onProgress)}: expected a function`);
  }
  const counts = await driver.counts(null, retryAfter);
  // What others dispatch meanwhile is not what was meant, and could go on for ever.
  const total = counts.filter((one) => queue === null || one.queue === queue)
    .reduce((sum, { ready, delayed }) => sum + ready + delayed, 0);
  let cleared = 0;
  while (cleared < total) {
    const lot = Math.min(LOT, total - cleared);
    const some = await driver.clear(queue, lot);
    cleared += some;
    if (some > 0) await onProgress?.({ cleared, total });
    if (some < lot) break;
  }
  return cleared;
}
