/**
 * Writes down when the store did not answer for a while, or the way to it stood still, which leads through this process:
 * on a busy machine nobody can renew a lease then, though nothing was struck.
 *
 * @module
 */
import { setTimeout as pass } from "node:timers/promises";
import { type Journal, machineTime } from "./journal.ts";
import type { Store } from "./store.ts";

/** How often it looks, and how long an answer may take without being written down. */
const LOOK = 100, STALL = 250;

/** Watches until the returned function is called, which resolves when it has ended. */
export function watchStore(store: Store, journal: Journal): () => Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  const watching = (async () => {
    let answeredAt = machineTime();
    while (!signal.aborted) {
      // One that is down or cut off is on record as struck.
      await store.answers?.().catch(() => {});
      const now = machineTime();
      if (now - answeredAt > LOOK + STALL) journal.note({ fact: "stalled", since: answeredAt });
      answeredAt = now;
      await pass(LOOK, undefined, { signal }).catch(() => {});
    }
  })();
  return () => {
    stopping.abort();
    return watching;
  };
}
