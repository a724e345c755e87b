/**
 * One figure of this library alone, in this very process, so that a profiler can look at it:
 *
 * ```sh
 * deno run -A bench/process.ts --concurrency 10 --jobs 20000
 * deno run -A --cpu-prof bench/process.ts --concurrency 100 --jobs 200000
 * bun --cpu-prof bench/process.ts --concurrency 100 --jobs 200000
 * deno run -A bench/process.ts --runtime bun --concurrency 10
 * ```
 *
 * @module
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Queue } from "../mod.ts";
import type { Rate } from "./child.ts";
import { run } from "./run.ts";
import { findRuntime, type RuntimeName } from "./runtimes.ts";
import { payloads } from "./subject.ts";

const { values } = parseArgs({
  options: {
    runtime: { type: "string" },
    concurrency: { type: "string", default: "10" },
    jobs: { type: "string", default: "20000" },
    prefetch: { type: "string", default: "0" },
    synchronous: { type: "string" },
    runs: { type: "string", default: "3" },
    dir: { type: "string", default: fileURLToPath(new URL(".data", import.meta.url)) },
  },
});
const [jobs, concurrency, prefetch] = [values.jobs, values.concurrency, values.prefetch].map(Number);
mkdirSync(values.dir, { recursive: true });
const folder = mkdtempSync(join(values.dir, "process-"));
try {
  for (let index = 0; index < Number(values.runs); index++) {
    const file = join(folder, `${index}.sqlite`);
    const rate = values.runtime === undefined ? await here(file) : await elsewhere(file);
    console.log(`${Math.round(rate)} jobs/s`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function here(file: string): Promise<number> {
  const synchronous = values.synchronous as "normal" | "full" | undefined;
  const queue = new Queue({ jobs: { bench() {} }, database: file, synchronous, env: {} });
  for (let stored = 0; stored < jobs; stored += 500) {
    await queue.dispatchMany(payloads(Math.min(500, jobs - stored)).map((data) => ["bench", data]));
  }
  const start = performance.now();
  await queue.work({ concurrency, prefetch, stopWhenEmpty: true });
  const rate = jobs / (performance.now() - start) * 1000;
  await queue.close();
  return rate;
}

async function elsewhere(file: string): Promise<number> {
  const variant = { synchronous: values.synchronous, prefetch };
  const warmUp = Math.ceil(jobs / 10);
  const task = { subject: "ours", kind: "process", file, variant, jobs, concurrency, warmUp };
  return (await run(findRuntime(values.runtime as RuntimeName), "child.ts", task) as Rate).rate;
}
