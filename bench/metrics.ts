/**
 * What metrics cost: CPU time for each job that is dispatched and run, without and with them, in runs that take turns;
 * and CPU time for each scrape.
 *
 *     deno run -A bench/metrics.ts [jobs in a run] [pairs of runs]
 *     bun bench/metrics.ts
 *     node bench/metrics.ts
 *
 * CPU time, as a machine that others use, too, leaves it nearly alone. One line of JSON at the end.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { metrics } from "../metrics.ts";
import { Queue } from "../mod.ts";

const JOBS = Number(process.argv[2] ?? 2000);
const PAIRS = Number(process.argv[3] ?? 60);
const CONCURRENCY = 100;
const SCRAPES = 200;

/** Microseconds of CPU time a job, dispatched and run. */
async function run(queue: Queue): Promise<number> {
  const before = process.cpuUsage();
  for (let at = 0; at < JOBS; at += CONCURRENCY) {
    await Promise.all(Array.from({ length: CONCURRENCY }, (_, index) => queue.dispatch("noop", at + index)));
  }
  await queue.work({ concurrency: CONCURRENCY, stopWhenEmpty: true });
  const { user, system } = process.cpuUsage(before);
  return (user + system) / JOBS;
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

const folder = mkdtempSync(join(tmpdir(), "queue-bench-"));
const open = (name: string): Queue =>
  new Queue({ database: join(folder, name), jobs: { noop: () => {} }, env: {} });
const plain = open("plain.sqlite");
const measured = open("measured.sqlite");
const numbers = metrics(measured);
const contenders = [plain, measured].map((queue) => ({ queue, times: [] as number[] }));
for (let pair = -2; pair < PAIRS; pair++) {
  // The order changes, too: what comes second finds a warmer machine.
  for (const one of pair % 2 === 0 ? contenders : [...contenders].reverse()) {
    const time = await run(one.queue);
    if (pair >= 0) one.times.push(time);
  }
}
const before = process.cpuUsage();
for (let scrape = 0; scrape < SCRAPES; scrape++) await numbers.text();
const scraped = process.cpuUsage(before);
await plain.close();
await measured.close();
rmSync(folder, { recursive: true, force: true });
const [without, with_] = contenders.map(({ times }) => times);
const round = (number: number) => Number(number.toFixed(2));
const sum = (times: readonly number[]) => times.reduce((all, time) => all + time, 0);
console.log(JSON.stringify({
  runtime: process.versions.deno ? "deno" : process.versions.bun ? "bun" : "node",
  jobs: JOBS,
  pairs: PAIRS,
  microsecondsWithout: round(median(without)),
  microsecondsWith: round(median(with_)),
  percentOfMedianPair: round((median(with_.map((time, pair) => time / without[pair])) - 1) * 100),
  percentOfAll: round((sum(with_) / sum(without) - 1) * 100),
  // Without what the store is asked, once a second at most.
  millisecondsOfScrape: round((scraped.user + scraped.system) / 1000 / SCRAPES),
}));
