/**
 * The rounds of `bench/metrics.ts`, in a process of their own.
 *
 * @module
 */
import process from "node:process";
import { metrics } from "../metrics.ts";
import type { MeasuredQueue } from "../metrics.ts";
import { Queue } from "../mod.ts";
import type { Meter, NewJob, Reservation } from "../mod.ts";

/** What two runs took without and two with, in microseconds a job. */
export interface Pair {
  readonly without: number[];
  readonly with: number[];
}

/** One run of each queue. */
export interface Round {
  readonly cpu: Pair;
  readonly clock: Pair;
}

/** What a process found. */
export interface Measured {
  readonly rounds: readonly Round[];
  /** What the calls of one job take in a loop of nothing else, in nanoseconds. */
  readonly counting: number;
  /** CPU time, in milliseconds. */
  readonly scrape: number;
}

const { databases, measured, jobs, rounds } = JSON.parse(process.argv[2]) as {
  /** Of the queues. */
  databases: string[];
  /** Which of them have metrics: two of four. */
  measured: boolean[];
  /** In a run. */
  jobs: number;
  rounds: number;
};
const CONCURRENCY = 100;
const SCRAPES = 200;

const queues = databases.map((database) => new Queue({ database, jobs: { noop: () => {} }, env: {} }));
const [numbers] = queues.flatMap((queue, index) => measured[index] ? [metrics(queue)] : []);
const found: Round[] = [];
for (let index = -Math.ceil(rounds / 5); index < rounds; index++) {
  const round = await oneOfEach(index);
  if (index >= 0) found.push(round);
}
const result: Measured = { rounds: found, counting: countingTime(), scrape: await scrapeTime() };
for (const queue of queues) await queue.close();
console.log(JSON.stringify(result));

/** Each round begins with the next queue, as what comes later finds a larger heap. */
async function oneOfEach(index: number): Promise<Round> {
  const times = queues.map(() => ({ cpu: 0, clock: 0 }));
  for (let step = 0; step < queues.length; step++) {
    const at = (Math.abs(index) + step) % queues.length;
    times[at] = await run(queues[at], jobs);
  }
  const pair = (what: "cpu" | "clock"): Pair => ({
    without: times.filter((_, at) => !measured[at]).map((time) => time[what]),
    with: times.filter((_, at) => measured[at]).map((time) => time[what]),
  });
  return { cpu: pair("cpu"), clock: pair("clock") };
}

/** Dispatches jobs, and runs them; microseconds a job. */
async function run(queue: Queue, count: number): Promise<{ cpu: number; clock: number }> {
  const startedAt = performance.now();
  const before = process.cpuUsage();
  for (let at = 0; at < count; at += CONCURRENCY) {
    await Promise.all(Array.from({ length: CONCURRENCY }, (_, index) => queue.dispatch("noop", at + index)));
  }
  await queue.work({ concurrency: CONCURRENCY, stopWhenEmpty: true });
  const { user, system } = process.cpuUsage(before);
  return { cpu: (user + system) / count, clock: (performance.now() - startedAt) * 1000 / count };
}

async function scrapeTime(): Promise<number> {
  const before = process.cpuUsage();
  for (let scrape = 0; scrape < SCRAPES; scrape++) await numbers.text();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / SCRAPES;
}

/** The median of many batches, each of which the store could have brought in one answer. */
function countingTime(): number {
  let meter!: Meter;
  const nobody = () => () => {};
  const heard: Pick<MeasuredQueue, "on" | "measure" | "names"> = {
    names: ["noop"],
    on: nobody,
    measure: (one) => {
      meter = one;
      return () => {};
    },
  };
  // The store is not asked here.
  metrics(heard as MeasuredQueue);
  const times: number[] = [];
  for (let batch = 0; batch < 4000; batch++) {
    const held = Array.from({ length: CONCURRENCY }, (_, index) => reservation(index));
    const stored = held.map(({ id }) => [{ id }]);
    const dispatched = held.map((): NewJob[] => [{ name: "noop", payload: "1", queue: "default" } as NewJob]);
    const startedAt = performance.now();
    for (let at = 0; at < CONCURRENCY; at++) meter.dispatched(dispatched[at], stored[at]);
    meter.reserved(held);
    for (let at = 0; at < CONCURRENCY; at++) meter.ended(held[at], "completed", 0.01);
    times.push((performance.now() - startedAt) * 1e6 / CONCURRENCY);
  }
  const warm = times.slice(times.length / 4).sort((a, b) => a - b);
  return warm[Math.floor(warm.length / 2)];
}

function reservation(index: number): Reservation {
  // A text of its own, as from a store.
  const name = ["no", "op"].join("");
  return {
    id: String(index),
    name,
    payload: "1",
    attempt: 1,
    queue: "default",
    priority: 0,
    token: "1",
    waited: 3,
  };
}
