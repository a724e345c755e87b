/**
 * `deno task bench:redis`: this library on Redis against BullMQ, Bull and Bee-Queue, on one server that it starts.
 *
 * Everything is measured in a process of its own, which has warmed up by a third of the jobs; one after the other, in
 * rounds; the server is emptied in between. With `--quick`, one round of fewer jobs; `--on deno,bun,node`; `--only
 * ours,ours_prefetch,bullmq,bull,bee_queue,flood`, and `bare`, a loop that is no queue.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Redis } from "ioredis";
import { type Job, Queue } from "../../mod.ts";
import { describeMachine, load } from "../machine.ts";
import { install } from "../peers.ts";
import { run } from "../run.ts";
import { findRuntime, type RuntimeName } from "../runtimes.ts";
import { type RedisTask, WARM_UP } from "./child.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string", default: "ours,ours_prefetch,bullmq,bull,bee_queue,flood" },
    on: { type: "string", default: "deno,bun,node" },
    rounds: { type: "string" },
  },
});
const subjects = options.only.split(",");
const rounds = Number(options.rounds ?? (options.quick ? 1 : 3));
const part = options.quick ? 4 : 1;

/** How many jobs each measure takes, of ours and of the others: so many that it takes about two seconds. */
const MEASURES: readonly [name: string, task: (ours: boolean, prefetch: boolean) => object][] = [
  ["one by one", () => ({ kind: "dispatch", jobs: 20_000 })],
  ["bulk", (ours) => ({ kind: "bulk", jobs: ours ? 400_000 : 40_000 })],
  ["process 1", (ours, prefetch) => processing(1, prefetch ? 200_000 : ours ? 25_000 : 15_000)],
  ["process 10", (ours, prefetch) => processing(10, prefetch ? 200_000 : ours ? 120_000 : 40_000)],
  ["process 100", (ours) => processing(100, ours ? 300_000 : 50_000)],
  ["start p50 ms", () => ({ kind: "start", jobs: 200 })],
];

function processing(concurrency: number, jobs: number): object {
  return { kind: "process", concurrency, jobs };
}

install();
const folder = mkdtempSync(join(tmpdir(), "queue-bench-redis-"));
const port = await freePort();
const server = spawn("redis-server", ["--port", String(port), "--save", "", "--dir", folder], {
  stdio: "ignore",
});
process.on("exit", () => {
  server.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});
const redis = new Redis(port, "127.0.0.1", { retryStrategy: () => 50 });
redis.on("error", () => {});
await redis.ping();

const version = /redis_version:(\S+)/.exec(await redis.info("server"))![1];
const machine = `${describeMachine()}; Redis ${version}; load average at the start ${load().toFixed(1)}`;
console.log(machine);
const place = { host: "127.0.0.1", port };
const figures = new Map<string, number[]>();
for (let round = 1; round <= rounds; round++) {
  for (const [name, taskOf] of MEASURES) {
    for (const subject of subjects.filter((one) => one !== "flood")) {
      for (const runtime of options.on.split(",").map((one) => findRuntime(one as RuntimeName))) {
        // It is no other where jobs are dispatched, or come one by one.
        if (subject === "ours_prefetch" && !name.startsWith("process")) continue;
        // Some of what these two require does not load in Deno.
        if (runtime.name === "deno" && (subject === "bull" || subject === "bee_queue")) continue;
        await redis.flushall();
        const task = taskOf(subject.startsWith("ours"), subject === "ours_prefetch") as RedisTask;
        const jobs = Math.ceil(task.jobs / part);
        const before = await cpu();
        try {
          const { figure } = await within(
            run(runtime, "redis/child.ts", { ...task, jobs, subject, place }),
          ) as { figure: number };
          keep(`${subject} ${runtime.name} ${name}`, figure);
          if (name === "process 10") {
            keep(
              `${subject} ${runtime.name} Redis µs a job`,
              (await cpu() - before) / (jobs * (1 + WARM_UP)) * 1e6,
            );
          }
        } catch (error) {
          console.error(`left out: ${subject}, ${runtime.name}, ${name}: ${(error as Error).message}`);
        }
      }
    }
  }
}
const lines = table();
if (subjects.includes("flood")) lines.push("", ...await flood(options.quick ? 200_000 : 1_000_000));
for (const line of lines) console.log(line);
if (!options.quick && rounds > 1) {
  const text = ["# Redis", "", machine, "", ...lines, ""].join("\n");
  writeFileSync(fileURLToPath(new URL("RESULTS.md", import.meta.url)), text);
}
await redis.flushall();
redis.disconnect();
process.exit(0);

/** Many jobs that are due at once: the longest call, and the rates of an empty and of a full store. */
async function flood(rows: number): Promise<string[]> {
  await redis.flushall();
  await redis.config("SET", "slowlog-log-slower-than", "1000", "slowlog-max-len", "100000");
  let ran = 0;
  const queue = new Queue({
    jobs: { bench: (_job: Job) => void ran++ },
    database: ":memory:",
    connection: "redis",
    redis: { url: `redis://127.0.0.1:${port}`, prefix: "flood:" },
    env: {},
  });
  const rateOf = async (): Promise<number> => {
    const start = performance.now();
    const before = ran;
    await queue.work({ concurrency: 10, maxJobs: 20_000, stopWhenEmpty: true });
    return (ran - before) / (performance.now() - start) * 1000;
  };
  const store = async (count: number, delay: number): Promise<void> => {
    for (let stored = 0; stored < count; stored += 1000) {
      const lot = Array.from({ length: 1000 }, (_, id) => ["bench", { id }, { delay }] as const);
      await queue.dispatchMany(lot as never);
    }
  };
  await store(20_000, 0);
  const few = await rateOf();
  await store(rows, 1);
  await redis.call("SLOWLOG", "RESET");
  const many = await rateOf();
  const slow = await redis.call("SLOWLOG", "GET", "-1") as [number, number, number, string[]][];
  const calls = slow.filter(([, , , words]) => /^(EVALSHA|EVAL)$/i.test(words[0]));
  const longest = Math.max(0, ...calls.map(([, , time]) => time)) / 1000;
  await queue.close();
  return [
    `${rows} jobs due at once: ${Math.round(many)} jobs/s at concurrency 10 (${
      Math.round(few)
    } with 20,000 ready ones); ` +
    `the longest call took ${longest.toFixed(1)} ms, ${calls.length} took over 1 ms`,
  ];
}

function table(): string[] {
  const columns = [...MEASURES.map(([name]) => name), "Redis µs a job"];
  const rows = [...new Set([...figures.keys()].map((key) => key.split(" ").slice(0, 2).join(" ")))].sort();
  return [
    `| | ${columns.join(" | ")} |`,
    `|---|${columns.map(() => "---:|").join("")}`,
    ...rows.map((row) => {
      const cells = columns.map((column) => {
        const samples = figures.get(`${row} ${column}`);
        if (samples === undefined) return "–";
        const median = samples.sort((a, b) => a - b)[Math.floor(samples.length / 2)];
        return median < 100 ? median.toFixed(1) : String(Math.round(median));
      });
      return `| ${row} | ${cells.join(" | ")} |`;
    }),
  ];
}

function keep(key: string, figure: number): void {
  const samples = figures.get(key) ?? [];
  figures.set(key, samples);
  samples.push(figure);
  console.error(`${key}: ${figure.toFixed(1)}`);
}

async function cpu(): Promise<number> {
  const text = await redis.info("cpu");
  return ["user", "sys"].reduce(
    (sum, kind) => sum + Number(new RegExp(`used_cpu_${kind}:([\\d.]+)`).exec(text)![1]),
    0,
  );
}

async function within<Result>(promise: Promise<Result>): Promise<Result> {
  const late = sleep(120_000, null, { ref: false }).then(() =>
    Promise.reject(new Error("took over two minutes"))
  );
  return await Promise.race([promise, late]);
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
