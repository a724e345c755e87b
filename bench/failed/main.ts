/**
 * `deno run -A bench/failed/main.ts [count] [store]`: listing, searching, retrying and forgetting 100,000 failed jobs, on each
 * store; prints a Markdown table of milliseconds. A Redis of its own is started.
 *
 * Each has a payload of 200 bytes, an error of 80 and a stack of 1,500. A step is one call of the driver: what others wait
 * for at most. The last column is the longest time for which the event loop of this process stood still.
 *
 * @module
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import process from "node:process";
import { type Driver, type FailedFilter, Queue } from "../../mod.ts";
import { RedisDriver } from "../../drivers/redis.ts";
import { SqliteDriver } from "../../drivers/sqlite.ts";
import { changed } from "../../tests/session.ts";
import { RedisServer } from "../../tests/redis_server.ts";
import { describeMachine, load } from "../machine.ts";

const COUNT = Number(process.argv[2] ?? 100_000);
const ONLY = process.argv[3] ?? "";
const LOT = 1000;
const STACK = "Error: upstream answered\n" +
  "    at handler (file:///srv/app/jobs/mail.ts:12:34)\n".repeat(30);
const METHODS = ["failed", "findFailed", "retry", "forget", "counts"] as const;

/** A store with so many failed jobs, of which each thousandth is `rare`. */
async function fill(driver: Driver): Promise<void> {
  const payload = JSON.stringify({ to: "somebody@example.com", body: "x".repeat(160) });
  for (let from = 0; from < COUNT; from += LOT) {
    await driver.push(
      Array.from({ length: LOT }, (_, at) => (
        {
          name: at === 500 ? "rare" : "mail",
          payload,
          queue: at % 2 === 0 ? "mail" : "bulk",
          priority: 0,
          delay: 0,
        }
      )),
      null,
    );
    const queues = [{ queue: "mail", limit: LOT }, { queue: "bulk", limit: LOT }];
    const { jobs } = await driver.reserve({ queues, limit: LOT, prefetch: 0, now: null, retryAfter: 90_000 });
    await Promise.all(jobs.map((held) =>
      driver.fail(held, {
        error: `upstream answered ${
          held.name === "rare" ? "Teapot" : "503"
        } to request ${held.id} within the time`,
        stack: STACK,
        failedAt: Date.now() - 3_600_000,
      })
    ));
  }
}

interface Figure {
  readonly what: string;
  readonly took: number;
  readonly steps: number;
  readonly longest: number;
  readonly stood: number;
}

/** What one store takes for each. */
async function measure(driver: Driver): Promise<Figure[]> {
  await fill(driver);
  let steps: number[] = [];
  const watched = changed(
    driver,
    Object.fromEntries(METHODS.map((method) => [
      method,
      async (...given: unknown[]) => {
        const began = performance.now();
        const answer = await (driver[method] as (...given: unknown[]) => Promise<unknown>).apply(
          driver,
          given,
        );
        steps.push(performance.now() - began);
        return answer;
      },
    ])),
  );
  const queue = new Queue({ driver: watched, jobs: {}, env: {}, log: { warn() {}, error() {} } });
  const figures: Figure[] = [];
  const figure = async (what: string, expected: number, act: () => Promise<number>): Promise<void> => {
    steps = [];
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const began = performance.now();
    const found = await act();
    const took = performance.now() - began;
    delay.disable();
    if (found !== expected) throw new Error(`${what}: ${found} instead of ${expected}`);
    figures.push({ what, took, steps: steps.length, longest: Math.max(...steps), stood: delay.max / 1e6 });
  };
  const page = (filter: FailedFilter & { reverse?: boolean; after?: string }) => async () =>
    (await queue.failed({ limit: 50, ...filter })).length;
  const [further] = (await driver.findFailed({
    filter: {},
    after: null,
    until: null,
    reverse: true,
    limit: LOT,
  })).ids.slice(-1);
  await figure("list: the first page of 50", 50, page({}));
  await figure("list: the last page", 50, page({ reverse: true }));
  await figure("list: a page further on", 50, page({ after: further }));
  await figure("search: a page of a queue", 50, page({ queue: "bulk" }));
  await figure(
    "search: a page by a text that one in 1,000 has",
    Math.min(50, COUNT / 1000),
    page({ text: "teapot" }),
  );
  await figure("search: a text that none has", 0, page({ text: "no such text" }));
  await figure("count: all", COUNT, () => queue.countFailed());
  await figure("count: by a text", COUNT / 1000, () => queue.countFailed({ text: "teapot" }));
  await figure(
    "retry: one in 1,000, by name",
    COUNT / 1000,
    async () => (await queue.retry({ name: "rare" })).length,
  );
  const half = COUNT / 2;
  await figure(
    "retry: half of all, by queue",
    half,
    async () => (await queue.retry({ queue: "bulk" })).length,
  );
  await figure("forget: the rest", half - COUNT / 1000, async () => (await queue.forget("all")).length);
  await figure("clear: what was retried", half + COUNT / 1000, () => queue.clear());
  await queue.close();
  return figures;
}

const folder = mkdtempSync(join(tmpdir(), "queue-failed-"));
const server = await RedisServer.start();
try {
  console.log(
    `${COUNT.toLocaleString("en")} failed jobs · ${describeMachine()} · load ${load().toFixed(1)}\n`,
  );
  const stores: [name: string, driver: Driver][] = [
    ["SQLite", new SqliteDriver({ database: join(folder, "sqlite.sqlite") })],
    [
      "Redis, failures in the database",
      new RedisDriver({ url: server.url, prefix: "d:", database: join(folder, "app.sqlite") }),
    ],
    [
      "Redis, failures in Redis",
      new RedisDriver({ url: server.url, prefix: "r:", database: ":memory:", failed: "redis" }),
    ],
  ];
  const ms = (value: number): string => value < 10 ? value.toFixed(1) : String(Math.round(value));
  for (const [name, driver] of stores) {
    if (!name.includes(ONLY)) {
      await driver.close();
      continue;
    }
    console.log(`| ${name} | ms | steps | longest step, ms | event loop stood still, ms |`);
    console.log("| --- | ---: | ---: | ---: | ---: |");
    for (const { what, took, steps, longest, stood } of await measure(driver)) {
      console.log(`| ${what} | ${ms(took)} | ${steps} | ${ms(longest)} | ${ms(stood)} |`);
    }
    console.log("");
  }
} finally {
  await server.stop();
  rmSync(folder, { recursive: true, force: true });
}
