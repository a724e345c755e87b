/**
 * sidequest on its SQLite backend (better-sqlite3) under Node, in one process and without worker threads (`fork: false`,
 * `runner: "inline"`), which its documentation suggests for SQLite and which is faster than its default. Two more
 * settings in its favour: job classes from a file instead of a search at each dispatch (`manualJobResolution`), and a
 * polling interval of 1 ms instead of 100. It has no bulk dispatch: bulk is `Promise.all` over `enqueue`. A migration
 * sets WAL; synchronous stays at SQLite's own default, FULL.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { peer } from "../peers.ts";
import { countdown, type Payload, type Subject } from "../subject.ts";

export default async function open(file: string): Promise<Subject> {
  const { Sidequest } = await peer("sidequest/dist/index.js");
  const { NoOp, onRun } = await import("./sidequest_jobs.ts");
  const settings = {
    backend: { driver: "@sidequest/sqlite-backend", config: file },
    fork: false,
    runner: "inline",
    manualJobResolution: true,
    jobsFilePath: fileURLToPath(new URL("sidequest_jobs.ts", import.meta.url)),
    jobPollingInterval: 1,
    gracefulShutdown: false,
    dashboard: { enabled: false },
    logger: { level: "error" },
  };
  await Sidequest.configure(settings);
  return {
    dispatch: (data) => Sidequest.build(NoOp).enqueue(data),
    dispatchMany: (data: readonly Payload[]) =>
      Promise.all(data.map((one) => Sidequest.build(NoOp).enqueue(one))),
    async work(jobs, concurrency) {
      const { tick, done } = countdown(jobs);
      onRun(tick);
      await Sidequest.stop(); // it takes its settings once
      await Sidequest.start({
        ...settings,
        maxConcurrentJobs: concurrency,
        queues: [{ name: "default", concurrency }],
      });
      return { done, stop: () => {} };
    },
    async left() {
      // The last transitions are written after the handler returned.
      for (let tries = 0; tries < 100; tries++) {
        const { waiting, claimed, running } = await Sidequest.job.count();
        if (waiting + claimed + running === 0) return 0;
        await sleep(20);
      }
      return NaN;
    },
    close: () => Sidequest.stop(),
  };
}
