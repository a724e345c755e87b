/**
 * Measurements of this library alone, each in a process of its own: `<runtime> bench/own.ts '<task as JSON>'` prints
 * its result as JSON on the last line.
 *
 * @module
 */
import { writeSync } from "node:fs";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { Queue } from "../mod.ts";
import { payload, payloads } from "./subject.ts";

/** The state that most rows of a large table are in. */
export type Bulk = "waiting" | "delayed" | "reserved";

/** A measurement. */
export type OwnTask =
  & { readonly file: string }
  & (
    | { readonly kind: "fill"; readonly rows: number; readonly state: Bulk }
    | { readonly kind: "work"; readonly ready: number; readonly jobs: number; readonly concurrency: number }
    | { readonly kind: "dispatch"; readonly jobs: number }
    | { readonly kind: "hear"; readonly jobs: number }
    | { readonly kind: "ring"; readonly jobs: number }
    | { readonly kind: "idle"; readonly seconds: number }
    | { readonly kind: "memory"; readonly jobs: number; readonly marks: readonly number[] }
    | { readonly kind: "versions" }
  );

/** Where a process was heard from, in milliseconds after the dispatch was called in the other. */
export interface Wake {
  readonly p50: number;
  readonly p99: number;
}

/** Resident memory in MB after so many jobs. */
export interface Memory {
  readonly rss: readonly { readonly jobs: number; readonly megabytes: number }[];
  readonly rate: number;
}

const measurements: { [Kind in OwnTask["kind"]]: (task: Extract<OwnTask, { kind: Kind }>) => unknown } = {
  /** Makes a file with many rows in one state. */
  async fill({ file, rows, state }) {
    const queue = new Queue({ jobs: { bench() {} }, database: file, env: {} });
    const options = state === "delayed" ? { delay: { days: 1 } } : {};
    const lot = payloads(5000);
    for (let stored = 0; stored < rows; stored += lot.length) {
      await queue.dispatchMany(lot.map((data) => ["bench", data, options]));
    }
    await queue.close();
    // By SQL, and reserved until tomorrow: nothing may expire while others are measured.
    const database = new DatabaseSync(file);
    if (state === "reserved") {
      database.exec("UPDATE jobs SET reserved_at = unixepoch() + 86400, attempts = 1, token = 'elsewhere'");
    }
    database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    database.close();
    return {};
  },

  /** Works off some jobs of a file that may hold many others. */
  async work({ file, ready, jobs, concurrency }) {
    const queue = new Queue({ jobs: { bench() {} }, database: file, env: {} });
    for (let stored = 0; stored < ready; stored += 500) {
      await queue.dispatchMany(payloads(500).map((data) => ["bench", data]));
    }
    const warmUp = Math.ceil(jobs / 10);
    await queue.work({ concurrency, maxJobs: warmUp });
    const start = performance.now();
    await queue.work({ concurrency, maxJobs: jobs - warmUp });
    const elapsed = performance.now() - start;
    await queue.close();
    return { rate: (jobs - warmUp) / elapsed * 1000 };
  },

  /** Stores jobs one by one in a file that may hold many others. */
  async dispatch({ file, jobs }) {
    const queue = new Queue({ jobs: { bench() {} }, database: file, env: {} });
    for (let id = 0; id < 200; id++) await queue.dispatch("bench", payload(id));
    const start = performance.now();
    for (let id = 0; id < jobs; id++) await queue.dispatch("bench", payload(id));
    const elapsed = performance.now() - start;
    await queue.close();
    return { rate: jobs / elapsed * 1000 };
  },

  /** An idle worker: notes how long ago each job was dispatched in the other process. */
  async hear({ file, jobs }): Promise<Wake> {
    const delays: number[] = [];
    const queue = new Queue({
      jobs: {
        wake(job: { data: { sentAt: number } }) {
          delays.push(wallClock() - job.data.sentAt);
        },
      },
      database: file,
      env: {},
    });
    await queue.open();
    setTimeout(() => writeSync(1, "ready\n"), 500);
    await queue.work({ concurrency: 1, maxJobs: jobs });
    await queue.close();
    const sorted = delays.slice(5).sort((a, b) => a - b);
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
    return { p50: at(0.5), p99: at(0.99) };
  },

  /** The other process: dispatches now and then, so that the worker is idle each time. */
  async ring({ file, jobs }) {
    const queue = new Queue({ jobs: { wake: {} }, database: file, env: {} });
    await queue.open();
    for (let id = 0; id < jobs; id++) {
      await sleep(30 + Math.random() * 40);
      await queue.dispatch("wake", { sentAt: wallClock() });
    }
    await queue.close();
    return {};
  },

  /** A worker that has nothing to do. */
  async idle({ file, seconds }) {
    const queue = new Queue({ jobs: { bench() {} }, database: file, env: {} });
    const stop = new AbortController();
    const working = queue.work({ signal: stop.signal });
    await queue.dispatch("bench", payload(0));
    await sleep(2000);
    const [start, before] = [performance.now(), process.cpuUsage()];
    await sleep(seconds * 1000);
    const { user, system } = process.cpuUsage(before);
    const share = (user + system) / 1000 / (performance.now() - start);
    stop.abort();
    await working;
    await queue.close();
    return { share };
  },

  /** Many jobs through one worker, dispatched beside it. */
  async memory({ file, jobs, marks }): Promise<Memory> {
    let done = 0;
    const samples: { jobs: number; megabytes: number }[] = [];
    const sample = () => samples.push({ jobs: done, megabytes: process.memoryUsage().rss / 2 ** 20 });
    const queue = new Queue({
      jobs: {
        bench() {
          if (++done % 5000 === 0) sample();
        },
      },
      database: file,
      env: {},
    });
    const start = performance.now();
    const working = queue.work({ concurrency: 100, maxJobs: jobs });
    for (let stored = 0; stored < jobs; stored += 1000) {
      while (stored - done > 4000) await sleep(1);
      await queue.dispatchMany(payloads(1000).map((data) => ["bench", data]));
    }
    await working;
    const rate = jobs / (performance.now() - start) * 1000;
    await queue.close();
    // The median of the samples up to each mark: one sample says more about the garbage collector.
    const rss = marks.map((mark) => {
      const near = samples.filter((one) => one.jobs <= mark && one.jobs > mark * 0.8);
      const sorted = near.map((one) => one.megabytes).sort((a, b) => a - b);
      return { jobs: mark, megabytes: sorted[sorted.length >> 1] };
    });
    return { rss, rate };
  },

  /** The SQLite inside the runtime. */
  versions() {
    const database = new DatabaseSync(":memory:");
    return { sqlite: String(database.prepare("SELECT sqlite_version() AS version").get()!.version) };
  },
};

if (import.meta.main) {
  const task = JSON.parse(process.argv[2]) as OwnTask;
  const result = await measurements[task.kind](task as never);
  writeSync(1, JSON.stringify(result) + "\n");
}

/** Milliseconds that two processes of one machine agree on, with fractions. */
function wallClock(): number {
  return performance.timeOrigin + performance.now();
}
