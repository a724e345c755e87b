/**
 * A night's jobs: good ones, and four that misbehave as real ones do. Only types of the queue are imported, so
 * `queue:work` can load this without an app.
 *
 * @module
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import type { Job, Jobs } from "@x/queue";

/** What the leaking job never lets go of. */
const kept: Uint8Array[] = [];

const jobs = {
  /** A good one. */
  report: async (job: Job<number>) => void await sleep(20 + job.data),
  /** Waits for an answer that never comes, and does not look at its signal. */
  hang: { tries: 1, timeout: { seconds: 1 }, handle: () => new Promise<void>(() => {}) },
  /** Computes for ever: nothing in its process can stop it, as no timer and no signal gets a turn. */
  spin: {
    tries: 1,
    timeout: { seconds: 1 },
    handle: () => {
      for (;;);
    },
  },
  /** Does its work, and keeps 100 MB each time. */
  leak: () => void kept.push(new Uint8Array(100 * 2 ** 20).fill(1)),
  /** Ends its process, as Linux does with one for which there is no memory left. */
  crash: {
    tries: 2,
    backoff: 200,
    handle: async () => {
      process.kill(process.pid, "SIGKILL");
      await sleep(10_000); // the end is not waited for
    },
  },
} satisfies Jobs;

export default jobs;
