/**
 * The tables, from the samples.
 *
 * @module
 */
import { CONCURRENCIES, CONTENDERS } from "./contenders.ts";
import type { Bulk, Memory, Wake } from "./own.ts";
import type { RuntimeName } from "./runtimes.ts";

/** One figure of a contender in each round, in jobs per second; `null` where a round failed. */
export interface Sample {
  readonly contender: string;
  readonly runtime: RuntimeName;
  readonly measure: string;
  readonly rates: (number | null)[];
}

/** One figure of ours with many rows in one state, in each round. */
export interface BacklogSample {
  readonly runtime: RuntimeName;
  readonly state: Bulk | "none";
  readonly measure: string;
  readonly rates: (number | null)[];
}

/** All that was measured in one run. */
export interface Results {
  readonly date: string;
  readonly machine: readonly string[];
  readonly rounds: number;
  readonly rows: number;
  readonly samples: readonly Sample[];
  readonly backlog: readonly BacklogSample[];
  readonly wake: readonly ({ readonly runtime: RuntimeName } & Wake)[];
  readonly idle: readonly {
    readonly runtime: RuntimeName;
    readonly share: number;
    readonly seconds: number;
  }[];
  readonly memory: readonly ({ readonly runtime: RuntimeName } & Memory)[];
}

/** The columns of the comparison. */
export const MEASURES: readonly string[] = [
  "dispatch",
  "bulk",
  ...CONCURRENCIES.map((concurrency) => `process ${concurrency}`),
];

const OURS = CONTENDERS[0].name;
const BASE = CONTENDERS.find((contender) => contender.subject === "plainjob")!.name;

/** The whole report, in Markdown. */
export function report(results: Results): string {
  return [
    "# Benchmark results",
    "",
    `${results.date}, \`deno task bench\`: ${
      results.rounds === 1 ? "one round" : `the median of ${results.rounds} rounds`
    }; every measurement in a process of its own,`,
    "one after the other, on one file system. bench/subjects says how each queue is driven.",
    "",
    ...results.machine.map((line) => `- ${line}`),
    "",
    ...section(results.samples, () => compare(results)),
    ...section(results.backlog, () => backlog(results)),
    ...section(results.wake, () => wake(results)),
    ...section(results.idle, () => idle(results)),
    ...section(results.memory, () => memory(results)),
    ...section(results.samples, () => goals(results)),
  ].join("\n");
}

function section(figures: readonly unknown[], lines: () => string[]): string[] {
  return figures.length === 0 ? [] : [...lines(), ""];
}

function compare(results: Results): string[] {
  const rows = CONTENDERS.flatMap((contender) =>
    contender.runtimes.map((runtime) => [
      contender.name,
      runtime,
      contender.durability,
      ...MEASURES.map((measure) => {
        const rate = median(ratesOf(results, contender.name, runtime, measure));
        if (rate === null) return "–";
        const factor = ratio(results, contender.name, runtime, measure);
        return factor === null ? short(rate) : `${short(rate)} (${times(factor)})`;
      }),
    ])
  ).filter((row) => row.slice(3).some((cell) => cell !== "–"));
  return [
    "## Against others, jobs per second",
    "",
    ...table([
      "",
      "on",
      "accepted means",
      "dispatch one by one",
      "dispatch bulk",
      ...CONCURRENCIES.map((concurrency) => `process, concurrency ${concurrency}`),
    ], rows),
    "",
    `In brackets: times plainjob, the median of the rounds. Rows on Bun are held against plainjob on Bun, rows on Deno and Node`,
    "against the better of plainjob's two runtimes, column by column. NORMAL survives a crash of the process, FULL a",
    "power cut too. plainjob takes one job at a time, so its concurrency is a number of workers. plainjob, liteque and",
    "sidequest on Node use better-sqlite3. liteque and sidequest have no bulk dispatch.",
  ];
}

function backlog(results: Results): string[] {
  const keys = unique(results.backlog.map(({ runtime, measure }) => `${runtime}|${measure}`));
  const rows = keys.map((key) => {
    const [runtime, measure] = key.split("|");
    const cells = (["none", "waiting", "delayed", "reserved"] as const).map((state) => {
      const rates = backlogRates(results, runtime, measure, state);
      const rate = median(rates);
      if (rate === null) return "–";
      const share = state === "none" ? null : paired(rates, backlogRates(results, runtime, measure, "none"));
      return share === null ? short(rate) : `${short(rate)} (${times(share)})`;
    });
    return [measure, runtime, ...cells];
  });
  return [
    `## With ${count(results.rows)} rows in the table, jobs per second`,
    "",
    ...table(["", "on", "no rows", "waiting", "delayed", "reserved"], rows),
  ];
}

function wake(results: Results): string[] {
  return [
    "## Waking an idle worker in another process",
    "",
    ...table(
      ["on", "p50", "p99"],
      results.wake.map(({ runtime, p50, p99 }) => [runtime, `${p50.toFixed(2)} ms`, `${p99.toFixed(2)} ms`]),
    ),
    "",
    "From the call of `dispatch`, its commit included, to the start of the handler.",
  ];
}

function idle(results: Results): string[] {
  return [
    "## An idle worker",
    "",
    ...table(
      ["on", "of one core"],
      results.idle.map(({ runtime, share, seconds }) => [
        runtime,
        `${(share * 100).toFixed(2)} % over ${seconds} s`,
      ]),
    ),
  ];
}

function memory(results: Results): string[] {
  const marks = results.memory[0].rss.map(({ jobs }) => jobs);
  return [
    "## Resident memory of one process that dispatches and works",
    "",
    ...table(
      ["on", ...marks.map((jobs) => `after ${count(jobs)} jobs`), "jobs per second"],
      results.memory.map(({ runtime, rss, rate }) => [
        runtime,
        ...rss.map(({ megabytes }) => `${Math.round(megabytes)} MB`),
        short(rate),
      ]),
    ),
  ];
}

/** What the project set out to reach, and whether this run did. */
function goals(results: Results): string[] {
  const rows: string[][] = [];
  const add = (
    what: string,
    goal: string,
    seen: number | null,
    met: boolean,
    show: (seen: number) => string,
  ) => {
    if (seen !== null) rows.push([what, goal, show(seen), met ? "yes" : "no"]);
  };
  const least = (what: string, goal: number, seen: number | null) =>
    add(what, `at least ${times(goal)}`, seen, (seen ?? 0) >= goal, times);
  const most = (
    what: string,
    goal: string,
    limit: number,
    seen: number | null,
    show: (seen: number) => string,
  ) => add(what, goal, seen, (seen ?? Infinity) <= limit, show);
  for (const [runtime, at100] of [["deno", 12], ["bun", 18]] as const) {
    least(`process, concurrency 1, ${runtime}`, 1.5, ratio(results, OURS, runtime, "process 1"));
    least(`process, concurrency 10, ${runtime}`, 6, ratio(results, OURS, runtime, "process 10"));
    least(`process, concurrency 100, ${runtime}`, at100, ratio(results, OURS, runtime, "process 100"));
    least(`dispatch bulk, ${runtime}`, 1.2, ratio(results, OURS, runtime, "bulk"));
  }
  for (const runtime of unique(results.backlog.map(({ runtime }) => runtime))) {
    const [worst, where] = slowest(results, runtime);
    least(`the slowest with ${count(results.rows)} rows, ${runtime}${where}`, 0.5, worst);
  }
  for (const { runtime, p50 } of results.wake) {
    most(
      `wake-up across processes, p50, ${runtime}`,
      "at most 2 ms",
      2,
      p50,
      (seen) => `${seen.toFixed(2)} ms`,
    );
  }
  for (const { runtime, share } of results.idle) {
    most(
      `idle worker, ${runtime}`,
      "at most 0.5 % of a core",
      0.005,
      share,
      (seen) => `${(seen * 100).toFixed(2)} %`,
    );
  }
  for (const { runtime, rss } of results.memory) {
    const [first, last] = [rss[0], rss[rss.length - 1]];
    most(
      `resident memory, ${runtime}`,
      `flat: at most 1.2× from ${count(first.jobs)} to ${count(last.jobs)} jobs`,
      1.2,
      last.megabytes / first.megabytes,
      times,
    );
  }
  return ["## Goals", "", ...table(["", "goal", "seen", "met"], rows)];
}

/** Times plainjob: on the same runtime for Bun, elsewhere on whichever of its runtimes is the better one. */
function ratio(results: Results, contender: string, runtime: RuntimeName, measure: string): number | null {
  const bun = ratesOf(results, BASE, "bun", measure);
  const node = ratesOf(results, BASE, "node", measure);
  const base = runtime === "bun" || (median(bun) ?? 0) >= (median(node) ?? 0) ? bun : node;
  return paired(ratesOf(results, contender, runtime, measure), base);
}

/** The median of what each round says: a busy neighbour changes from round to round. */
function paired(rates: readonly (number | null)[], bases: readonly (number | null)[]): number | null {
  return median(rates.map((rate, round) => {
    const base = bases[round] ?? null;
    return rate === null || base === null ? null : rate / base;
  }));
}

/** Of all measures with many rows, the one that falls the most, as a share of what it is without. */
function slowest(results: Results, runtime: string): [share: number | null, where: string] {
  let [worst, where]: [number | null, string] = [null, ""];
  for (const { measure, state } of results.backlog.filter((sample) => sample.runtime === runtime)) {
    if (state === "none") continue;
    const share = paired(
      backlogRates(results, runtime, measure, state),
      backlogRates(results, runtime, measure, "none"),
    );
    if (share !== null && share < (worst ?? Infinity)) [worst, where] = [share, ` (${measure}, ${state})`];
  }
  return [worst, where];
}

function ratesOf(
  results: Results,
  contender: string,
  runtime: RuntimeName,
  measure: string,
): readonly (number | null)[] {
  return results.samples.find((sample) =>
    sample.contender === contender && sample.runtime === runtime && sample.measure === measure
  )?.rates ?? [];
}

function backlogRates(
  results: Results,
  runtime: string,
  measure: string,
  state: string,
): readonly (number | null)[] {
  return results.backlog.find((sample) =>
    sample.runtime === runtime && sample.measure === measure && sample.state === state
  )?.rates ?? [];
}

/** The median of those figures that there are. */
export function median(figures: readonly (number | null)[]): number | null {
  const sorted = figures.filter((figure) => figure !== null).sort((a, b) => a - b);
  if (sorted.length === 0) return null;
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)];
}

/** Three digits are more than the noise allows. */
function short(rate: number): string {
  return rate >= 1000 ? `${Number((rate / 1000).toPrecision(3))}k` : String(Math.round(rate));
}

function times(factor: number): string {
  return `${factor >= 10 ? factor.toFixed(0) : factor >= 0.1 ? factor.toFixed(1) : factor.toFixed(3)}×`;
}

function count(number: number): string {
  return number.toLocaleString("en-US");
}

/** A table of Markdown. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((cell, column) =>
    Math.max(3, ...[cell, ...rows.map((row) => row[column])].map(width))
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell + " ".repeat(widths[column] - width(cell))).join(" | ")} |`;
  return [line(head), `| ${widths.map((size) => "-".repeat(size)).join(" | ")} |`, ...rows.map(line)];
}

function width(text: string): number {
  return [...text].length;
}
