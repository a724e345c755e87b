/**
 * Findings that stores have in common.
 *
 * @module
 */
import type { Finding } from "../core/driver.ts";

/** How long after the end of its lease a job should have been taken by a worker, in milliseconds. */
export const STUCK = 10_000;

/** Nothing is wrong with it. */
export function fine(what: string, found: string): Finding {
  return { what, level: "ok", found, remedy: null };
}

/** On jobs whose leases have been over for longer than that. */
export function ofLeases(stuck: number): Finding {
  if (stuck === 0) return fine("leases", "none is over");
  return {
    what: "leases",
    level: "bad",
    found: `${stuck} ${stuck === 1 ? "lease is" : "leases are"} over, and no worker took the job`,
    remedy: "see that workers run, and which queues they take from: queue:workers",
  };
}
