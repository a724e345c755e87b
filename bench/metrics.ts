/**
 * What metrics cost: CPU time for each job that is dispatched and run, without and with them, in runs that take turns.
 *
 *     deno run -A bench/metrics.ts [jobs in a run] [pairs of runs]
 *     bun bench/metrics.ts
 *     node bench/metrics.ts
 *
 * CPU time, as a machine that others use, too, leaves it nearly alone. One line of JSON at the end.
 */
import { rmSync } from "node:fs";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { metrics } from "../metrics.ts";
import { Queue } from "../mod.ts";

const JOBS = Number(process.argv[2] ?? 20_000);
const PAIRS = Number(process.argv[3] ?? 15);
const CONCURRENCY = 100;

/** Microseconds of CPU time a job. */
async function run(measured: boolean): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "queue-bench-"));
  const jobs = { noop: () => {} };
  const queue = new Queue({ database: join(folder, "queue.sqlite"), jobs, env: {} });
  try {
    await queue.open();
    const numbers = measured ? metrics(queue) : null;
    const before = process.cpuUsage();
    for (let at = 0; at < JOBS; at += CONCURRENCY) {
      await Promise.all(
        Array.from({ length: CONCURRENCY }, (_, index) => queue.dispatch("noop", at + index)),
      );
    }
    await queue.work({ concurrency: CONCURRENCY, stopWhenEmpty: true });
    // One scrape, as a run takes a few seconds at most, and Prometheus comes every 15.
    await numbers?.text();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / JOBS;
  } finally {
    await queue.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

const times = { without: [] as number[], with: [] as number[] };
await run(false);
await run(true);
for (let pair = 0; pair < PAIRS; pair++) {
  // The order of the two changes, too: what comes second finds a warmer machine.
  for (const measured of pair % 2 === 0 ? [false, true] : [true, false]) {
    times[measured ? "with" : "without"].push(await run(measured));
  }
}
const ratios = times.with.map((time, pair) => time / times.without[pair]);
const round = (number: number) => Number(number.toFixed(2));
const runtime = process.versions.deno ? "deno" : process.versions.bun ? "bun" : "node";
console.log(JSON.stringify({
  runtime,
  jobs: JOBS,
  pairs: PAIRS,
  without: round(median(times.without)),
  with: round(median(times.with)),
  best: { without: round(Math.min(...times.without)), with: round(Math.min(...times.with)) },
  overheadPercent: round((median(ratios) - 1) * 100),
  overheadOfBestPercent: round((Math.min(...times.with) / Math.min(...times.without) - 1) * 100),
}));
