/**
 * `deno task bench`: this library against its peers, and against its own goals, on this machine.
 *
 * Everything is measured in a process of its own, one after the other, in rounds: what is compared runs close together,
 * so that a busy neighbour slows all of it. The result is printed, and a full run is kept in bench/RESULTS.md.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Measurement, Rate } from "./child.ts";
import { CONCURRENCIES, type Contender, CONTENDERS } from "./contenders.ts";
import { describeMachine, fileSystemOf, load } from "./machine.ts";
import type { Bulk, Memory, OwnTask, Wake } from "./own.ts";
import { install } from "./peers.ts";
import { type BacklogSample, MEASURES, report, type Results, type Sample } from "./report.ts";
import { run, start } from "./run.ts";
import { findRuntime, type Runtime, type RuntimeName } from "./runtimes.ts";

const USAGE = `Usage: deno task bench [options]

  --quick        about a minute, with fewer jobs and one round
  --only NAMES   only these, separated by commas: ours, plainjob, bunqueue, liteque, sidequest (the comparison),
                 backlog, wake, idle, memory
  --on NAMES     only these runtimes: deno, bun, node
  --rounds N     how often each is measured (3)
  --dir FOLDER   where the databases are; not on a tmpfs (bench/.data)
  --json FILE    keeps every sample`;

const PARTS = ["ours", "plainjob", "bunqueue", "liteque", "sidequest", "backlog", "wake", "idle", "memory"];
const RUNTIMES: readonly RuntimeName[] = ["deno", "bun", "node"];

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string" },
    on: { type: "string" },
    rounds: { type: "string" },
    dir: { type: "string", default: fileURLToPath(new URL(".data", import.meta.url)) },
    json: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});
if (options.help) {
  console.log(USAGE);
  process.exit(0);
}
const parts = chosen(options.only, PARTS);
const names = chosen(options.on, RUNTIMES);
const rounds = Number(options.rounds ?? (options.quick ? 1 : 3));
const rows = options.quick ? 100_000 : 1_000_000;

install();
const runtimes = new Map(
  RUNTIMES.filter((name) => names.includes(name)).map((name) => [name, findRuntime(name)]),
);
mkdirSync(options.dir, { recursive: true });
const folder = mkdtempSync(join(options.dir, "run-"));
process.once("SIGINT", () => process.exit(130));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

let files = 0;

const machine = await describe();
for (const line of machine) console.log(line);
const results: Results = {
  date: new Date().toISOString().slice(0, 10),
  machine,
  rounds,
  rows,
  samples: await compare(),
  backlog: parts.includes("backlog") ? await backlog() : [],
  wake: parts.includes("wake") ? await wake() : [],
  idle: parts.includes("idle") ? await idle() : [],
  memory: parts.includes("memory") ? await memory() : [],
};
const text = report(results);
console.log(`\n${text}`);
if (options.json !== undefined) writeFileSync(options.json, JSON.stringify(results, null, 2) + "\n");
if (!options.quick && options.only === undefined && options.on === undefined) {
  const kept = fileURLToPath(new URL("RESULTS.md", import.meta.url));
  writeFileSync(kept, text);
  execFileSync(findRuntime("deno").command[0], ["fmt", "--quiet", kept]);
}

async function describe(): Promise<string[]> {
  const fileSystem = fileSystemOf(options.dir);
  if (fileSystem === "tmpfs") {
    console.error("the databases are on a tmpfs: the figures say little; see --dir");
  }
  const versions: string[] = [];
  for (const runtime of runtimes.values()) {
    const { sqlite } = await own(runtime, { kind: "versions", file: "" }) as { sqlite: string };
    versions.push(`${capital(runtime.name)} ${runtime.version} (SQLite ${sqlite})`);
  }
  return [
    describeMachine(),
    versions.join(", "),
    `${fileSystem}; load average at the start ${load().toFixed(1)}`,
  ];
}

/** Each measure of each contender, one measure after another so that the same ones are close together. */
async function compare(): Promise<Sample[]> {
  const samples: Sample[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const measure of MEASURES) {
      for (const contender of CONTENDERS.filter(({ subject }) => parts.includes(subject))) {
        for (const runtime of contender.runtimes.flatMap((name) => runtimes.get(name) ?? [])) {
          const task = taskOf(contender, measure);
          if (task === null) continue;
          const rate = await attempt(
            `round ${round}: ${measure}, ${contender.name}, ${runtime.name}`,
            async () => {
              const { subject, variant } = contender;
              return (await run(runtime, "child.ts", {
                ...task,
                subject,
                variant,
                file: freshFile(),
              }) as Rate).rate;
            },
          );
          const key = { contender: contender.name, runtime: runtime.name, measure };
          let sample = samples.find((one) =>
            one.contender === key.contender && one.runtime === key.runtime && one.measure === measure
          );
          if (sample === undefined) samples.push(sample = { ...key, rates: [] });
          sample.rates.push(rate);
        }
      }
    }
  }
  return samples;
}

function taskOf({ jobs: most, lot }: Contender, measure: string): Measurement | null {
  const fewer = (jobs: number) => options.quick ? Math.ceil(jobs / 8) : jobs;
  if (measure === "dispatch") {
    const jobs = fewer(most.dispatch);
    return jobs === 0 ? null : { kind: "dispatch", jobs };
  }
  if (measure === "bulk") {
    const jobs = Math.ceil(fewer(most.bulk) / lot) * lot;
    return jobs === 0 ? null : { kind: "bulk", jobs, lot };
  }
  const index = CONCURRENCIES.findIndex((concurrency) => measure === `process ${concurrency}`);
  const jobs = fewer(most.process[index]);
  return { kind: "process", jobs, concurrency: CONCURRENCIES[index], warmUp: Math.ceil(jobs / 10) };
}

/** Ours, with many rows in one state. The file is made once a state; each measurement works on a copy. */
async function backlog(): Promise<BacklogSample[]> {
  const states: readonly (Bulk | "none")[] = ["none", "waiting", "delayed", "reserved"];
  const samples: BacklogSample[] = [];
  const [maker] = runtimes.values();
  const jobs = options.quick ? 5000 : 20_000;
  for (const state of states) {
    progress(`making a file with ${rows} ${state} rows`);
    await own(maker, {
      kind: "fill",
      file: modelOf(state),
      rows: state === "none" ? 0 : rows,
      state: state as Bulk,
    });
  }
  const measures = [
    ["dispatch", (file: string) => ({ kind: "dispatch", file, jobs: options.quick ? 1000 : 5000 })],
    ["process 1", (file: string, ready: number) => ({ kind: "work", file, ready, jobs, concurrency: 1 })],
    ["process 10", (file: string, ready: number) => ({ kind: "work", file, ready, jobs, concurrency: 10 })],
  ] as const;
  for (let round = 1; round <= rounds; round++) {
    for (const runtime of runtimes.values()) {
      for (const [measure, task] of measures) {
        for (const state of states) {
          const rate = await attempt(`round ${round}: ${measure}, ${state}, ${runtime.name}`, async () => {
            const file = freshFile();
            copyFileSync(modelOf(state), file);
            const ready = state === "waiting" ? 0 : jobs;
            return (await own(runtime, task(file, ready) as OwnTask) as Rate).rate;
          });
          let sample = samples.find((one) =>
            one.runtime === runtime.name && one.measure === measure && one.state === state
          );
          if (sample === undefined) {
            samples.push(sample = { runtime: runtime.name, state, measure, rates: [] });
          }
          sample.rates.push(rate);
        }
      }
    }
  }
  for (const state of states) rmSync(modelOf(state), { force: true });
  return samples;
}

function modelOf(state: string): string {
  return join(folder, `model-${state}.sqlite`);
}

/** Two processes: an idle worker, and one that dispatches now and then. */
async function wake(): Promise<Results["wake"]> {
  const jobs = options.quick ? 60 : 300;
  return await onEach(async (runtime) => {
    progress(`wake-up, ${runtime.name}`);
    const file = freshFile();
    const worker = start(runtime, "own.ts", { kind: "hear", file, jobs });
    await worker.ready;
    await own(runtime, { kind: "ring", file, jobs });
    return { runtime: runtime.name, ...await worker.result as Wake };
  });
}

async function idle(): Promise<Results["idle"]> {
  const seconds = options.quick ? 5 : 20;
  return await onEach(async (runtime) => {
    progress(`idle, ${runtime.name}`);
    const { share } = await own(runtime, { kind: "idle", file: freshFile(), seconds }) as { share: number };
    return { runtime: runtime.name, share, seconds };
  });
}

async function memory(): Promise<Results["memory"]> {
  const marks = options.quick ? [100_000, 150_000, 200_000] : [100_000, 500_000, 1_000_000];
  return await onEach(async (runtime) => {
    progress(`memory, ${runtime.name}`);
    const task: OwnTask = { kind: "memory", file: freshFile(), jobs: marks[marks.length - 1], marks };
    return { runtime: runtime.name, ...await own(runtime, task) as Memory };
  });
}

async function onEach<Result>(measure: (runtime: Runtime) => Promise<Result>): Promise<Result[]> {
  const figures: Result[] = [];
  for (const runtime of runtimes.values()) {
    const figure = await attempt("", () => measure(runtime));
    if (figure !== null) figures.push(figure);
  }
  return figures;
}

/** A measurement that fails is left out and told, so that the others are not lost. */
async function attempt<Result>(what: string, measure: () => Promise<Result>): Promise<Result | null> {
  if (what !== "") progress(what);
  try {
    return await measure();
  } catch (error) {
    console.error(`\nleft out: ${(error as Error).message}`);
    return null;
  }
}

function own(runtime: Runtime, task: OwnTask): Promise<unknown> {
  return run(runtime, "own.ts", task);
}

/** A path that nothing is at; what was written before is on the disk, so that nobody pays for another's writes. */
function freshFile(): string {
  const last = join(folder, `${files}.sqlite`);
  for (const end of ["", "-wal", "-shm", "-bell", "-journal"]) rmSync(last + end, { force: true });
  if (existsSync("/bin/sync")) execFileSync("/bin/sync");
  return join(folder, `${++files}.sqlite`);
}

function progress(what: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${what}`);
  else console.error(what);
}

function chosen<Name extends string>(list: string | undefined, known: readonly Name[]): readonly Name[] {
  if (list === undefined) return known;
  const names = list.split(",").map((name) => name.trim());
  for (const name of names) {
    if (!known.includes(name as Name)) {
      console.error(`unknown: ${name}; known: ${known.join(", ")}`);
      process.exit(2);
    }
  }
  return names as Name[];
}

function capital(name: string): string {
  return name[0].toUpperCase() + name.slice(1);
}
