/**
 * What metrics cost: time for each job that is dispatched and run by an empty handler, without and with them, on SQLite
 * in memory, where a job takes least, and in a file; and the time of a scrape.
 *
 *     deno run -A bench/metrics.ts [jobs in a run] [rounds] [processes]
 *     bun bench/metrics.ts
 *     node bench/metrics.ts
 *
 * The difference is smaller than what one process differs from the next. So in each of several there are four queues, two
 * without and two with, which take turns, in rounds that begin with another one each time: a round gives one ratio. By
 * how much the two of a kind differ is given as `control`: it must come out at 0, and as far as it does not, the figure
 * is noise, too. CPU time beside that of the clock, as work of others leaves it more nearly alone; and the fastest runs
 * of each kind beside all, as they met the least of it. One line of JSON for each store.
 *
 * @module
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { load } from "./machine.ts";
import type { Measured, Pair, Round } from "./metrics_rounds.ts";
import { run } from "./run.ts";
import { findRuntime, HERE } from "./runtimes.ts";

const [jobs = 200, rounds = 400, processes = 4] = process.argv.slice(2).map(Number);
const runtime = findRuntime(HERE);
const dir = fileURLToPath(new URL(".data", import.meta.url));
mkdirSync(dir, { recursive: true });
const folder = mkdtempSync(join(dir, "metrics-"));
try {
  const stores = { memory: [] as Measured[], file: [] as Measured[] };
  for (let index = 0; index < processes; index++) {
    for (const [store, results] of Object.entries(stores)) {
      const databases = [0, 1, 2, 3].map((queue) =>
        store === "memory" ? ":memory:" : join(folder, `${index}-${queue}.sqlite`)
      );
      // Which is opened first may matter.
      const measured = [0, 1, 2, 3].map((queue) => (queue === 0 || queue === 3) === (index % 2 === 1));
      results.push(
        await run(runtime, "metrics_rounds.ts", { databases, measured, jobs, rounds }) as Measured,
      );
    }
  }
  for (const [store, results] of Object.entries(stores)) {
    console.log(JSON.stringify(summary(store, results)));
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function summary(store: string, measured: readonly Measured[]): object {
  const all = measured.flatMap(({ rounds }) => rounds);
  return {
    runtime: `${HERE} ${runtime.version}`,
    store,
    jobs,
    rounds,
    processes,
    load: round(load()),
    microseconds: {
      cpu: round(median(all.flatMap(({ cpu }) => cpu.without))),
      clock: round(median(all.flatMap(({ clock }) => clock.without))),
    },
    percentOfCpu: percent(measured, ({ cpu }) => cpu),
    percentOfClock: percent(measured, ({ clock }) => clock),
    control: {
      percentOfCpu: percent(measured, ({ cpu }) => twins(cpu)),
      percentOfClock: percent(measured, ({ clock }) => twins(clock)),
    },
    nanosecondsOfCounting: Math.round(median(measured.map(({ counting }) => counting))),
    // Without what the store is asked, once a second at most.
    millisecondsOfScrape: round(median(measured.map(({ scrape }) => scrape))),
  };
}

/**
 * By how much a round costs more: the median, between what it lies (95 %), the middle half, and the median of each
 * process; and by how much the fastest tenth of the runs with them costs more than that of those without.
 */
function percent(measured: readonly Measured[], timeOf: (one: Round) => Pair): object {
  const more = (one: Round): number => (sum(timeOf(one).with) / sum(timeOf(one).without) - 1) * 100;
  const fastest = (side: keyof Pair): number =>
    sum(measured.map((one) => fast(one.rounds.flatMap((each) => timeOf(each)[side]))));
  const all = measured.flatMap((one) => one.rounds.map(more)).sort((a, b) => a - b);
  const at = (index: number): number => round(all[Math.max(0, Math.min(all.length - 1, Math.round(index)))]);
  const middle = (all.length - 1) / 2;
  // Of so many rounds, how many lie below the true median is binomial.
  const reach = 0.98 * Math.sqrt(all.length);
  return {
    median: at(middle),
    within: [at(middle - reach), at(middle + reach)],
    quartiles: [at(middle / 2), at(middle * 1.5)],
    processes: measured.map((one) => round(median(one.rounds.map(more)))),
    fastest: round((fastest("with") / fastest("without") - 1) * 100),
  };
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

/** One of each kind against the other one of that kind. */
function twins(pair: Pair): Pair {
  return { without: [pair.without[0], pair.with[0]], with: [pair.without[1], pair.with[1]] };
}

/** The mean of the fastest tenth. */
function fast(times: readonly number[]): number {
  const few = [...times].sort((a, b) => a - b).slice(0, Math.ceil(times.length / 10));
  return sum(few) / few.length;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, number) => all + number, 0);
}

function round(number: number): number {
  return Number(number.toFixed(2));
}
