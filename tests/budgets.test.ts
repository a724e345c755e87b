/** What the queue may cost: operations while it is idle, memory over many jobs, and what it leaves behind. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { type Driver, Queue } from "@x/queue";
import { RedisDriver } from "../drivers/redis.ts";
import { ioredis } from "../drivers/redis/connection.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { inFolder } from "./folder.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";
import { changed, inSession } from "./session.ts";
import { until } from "./until.ts";

after(endShared);

const MINUTE = 60_000;

/** An open database in memory that counts the statements that are run on it. */
function counted(): { database: DatabaseSync; statements: Map<string, number> } {
  const database = new DatabaseSync(":memory:");
  const statements = new Map<string, number>();
  const prepare = database.prepare.bind(database);
  database.prepare = (sql: string) => {
    const statement = prepare(sql);
    for (const method of ["run", "get", "all"] as const) {
      const original = statement[method].bind(statement) as (...values: never[]) => never;
      statement[method] = (...values: never[]) => {
        statements.set(sql, (statements.get(sql) ?? 0) + 1);
        return original(...values);
      };
    }
    return statement;
  };
  return { database, statements };
}

function total(counts: ReadonlyMap<string, number>): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0);
}

/** A driver that counts the calls of its methods. */
function countingCalls(driver: Driver): { driver: Driver; calls: Map<string, number> } {
  const calls = new Map<string, number>();
  const names = [
    "push",
    "reserve",
    "extend",
    "complete",
    "release",
    "fail",
    "queues",
    "counts",
    "waiting",
  ] as const;
  const counting = Object.fromEntries(names.map((name) => [name, (...rest: never[]) => {
    calls.set(name, (calls.get(name) ?? 0) + 1);
    return (driver[name] as (...rest: never[]) => unknown)(...rest);
  }]));
  return { driver: changed(driver, counting), calls };
}

inSession("an idle worker asks its store about once a second, and writes once in 10 s", async (session) => {
  const { clock, queue, work } = session;
  const { database, statements } = counted();
  const { driver, calls } = countingCalls(new SqliteDriver({ database }));
  const idle = await queue({ record: () => {} }, { driver });
  const working = await work(idle, { concurrency: 10, prefetch: 10 });
  calls.clear();
  statements.clear();
  await clock.advance(MINUTE);
  // Each second a look for jobs, and for new queues before and after it.
  assert.equal(total(calls) >= 60 && total(calls) <= 190, true, `${JSON.stringify([...calls])}`);
  assert.equal(total(statements) <= 190 * 2, true, `${JSON.stringify([...statements])}`);
  const writes = [...statements].filter(([sql]) => !sql.trimStart().startsWith("SELECT"));
  // That it is there, and that others are not any more, in a transaction.
  assert.deepEqual(writes.map(([sql, count]) => [sql.split(" ")[0], count]), [
    ["BEGIN", 6],
    ["DELETE", 6],
    ["INSERT", 6],
    ["COMMIT", 6],
  ]);
  await working.stop();
});

inSession(
  "a worker whose slots are full asks for nothing, and renews all leases in one call",
  async (session) => {
    const { clock, queue, work } = session;
    const { driver, calls } = countingCalls(new SqliteDriver({ database: ":memory:" }));
    const opened: (() => void)[] = [];
    const hang = () => new Promise<void>((resolve) => opened.push(resolve));
    const busy = await queue({ hang }, { driver });
    await busy.dispatchMany(Array.from({ length: 60 }, () => ["hang"]));
    const working = await work(busy, { concurrency: 50 });
    await clock.until(() => opened.length === 50, "50 jobs to run");
    calls.clear();
    await clock.advance(MINUTE);
    assert.deepEqual([...calls.keys()], ["extend"]);
    assert.equal(total(calls) <= 7, true, "each 10 s");
    while (opened.length > 0) {
      for (const open of opened.splice(0)) open();
      await clock.rest();
    }
    await working.stop();
  },
);

test("Redis: an idle worker sends two commands a second", { skip: noRedis }, async () => {
  const { url } = await sharedServer();
  const commands = new Map<string, number>();
  const connect = async () => {
    const connection = await ioredis({ url }, 5000)();
    return {
      sendCommand(words: string[]) {
        commands.set(words[0], (commands.get(words[0]) ?? 0) + 1);
        return connection.sendCommand(words);
      },
      close: () => connection.close?.(),
    };
  };
  const driver = new RedisDriver({ connect, prefix: newPrefix(), database: ":memory:" });
  const queue = new Queue({ driver, jobs: { record: () => {} }, env: {} });
  const stopping = new AbortController();
  const working = queue.work({ signal: stopping.signal });
  // A wait for the bell lasts a second: however slow the machine is, so many of them come with so many commands.
  const waits = () => commands.get("BZPOPMIN") ?? 0;
  await until(() => waits() >= 2, "a first second");
  commands.clear();
  await until(() => waits() >= 4, "three seconds");
  const sent = Object.fromEntries(commands);
  stopping.abort();
  await working;
  await queue.close();
  // Beside the wait, each second: a look for jobs, which may be two where a wait ends and a poll is due.
  assert.deepEqual(Object.keys(sent).sort(), ["BZPOPMIN", "EVALSHA"]);

  assert.equal(total(commands) <= 12, true, JSON.stringify(sent));
});

/** Collects garbage. */
function collect(): void {
  const { Bun } = globalThis as { Bun?: { gc(force: boolean): void } };
  if (Bun !== undefined) return Bun.gc(true);
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}

/** The memory in use, in MiB: the least of a few looks, as what was freed is given back a little later. */
async function memory(): Promise<{ heap: number; resident: number }> {
  let [heap, resident] = [Infinity, Infinity];
  for (let look = 0; look < 3; look++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 20));
    const used = process.memoryUsage();
    heap = Math.min(heap, used.heapUsed / 2 ** 20);
    resident = Math.min(resident, used.rss / 2 ** 20);
  }
  return { heap, resident };
}

test("100,000 jobs leave no more in memory than 20,000", { timeout: 300_000 }, async () => {
  let ran = 0;
  const queue = new Queue({ database: ":memory:", jobs: { count: () => void ran++ }, env: {} });
  const work = async (jobs: number): Promise<void> => {
    const payload = { text: "x".repeat(100) };
    for (let done = 0; done < jobs; done += 1000) {
      await queue.dispatchMany(Array.from({ length: 1000 }, () => ["count", payload]));
      if (done % 10_000 === 9000) await queue.work({ concurrency: 100, prefetch: 400, stopWhenEmpty: true });
    }
  };
  await work(20_000);
  const before = await memory();
  await work(80_000);
  assert.equal(ran, 100_000);
  const after = await memory();
  await queue.close();
  const grown = JSON.stringify({ before, after });
  // A job that left 200 bytes behind would be 15 MiB here.
  assert.equal(after.heap - before.heap < 10, true, grown);
  assert.equal(after.resident - before.resident < 100, true, grown);
});

inSession("short jobs that were prefetched share transactions", async ({ queue, work }) => {
  const { database, statements } = counted();
  const jobs = await queue({ quick: () => {} }, { database });
  await jobs.dispatchMany(Array.from({ length: 1000 }, () => ["quick"]));
  statements.clear();
  await (await work(jobs, { prefetch: 100, stopWhenEmpty: true })).ended;
  const commits = statements.get("COMMIT") ?? 0;
  assert.equal(commits > 0 && commits < 150, true, `${commits} commits`);
});

/** What keeps the process alive, sorted; empty where the runtime does not tell. */
function resources(): string[] {
  return (process.getActiveResourcesInfo?.() ?? []).filter((name) => name !== "Immediate").sort();
}

/** What keeps the process alive now and did not before. */
function beside(before: readonly string[]): string[] {
  const left = [...before];
  return resources().filter((name) => {
    const at = left.indexOf(name);
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

/** How many listeners there are on the process, by event. */
function listeners(): Record<string, number> {
  const names = process.eventNames().map(String).sort();
  return Object.fromEntries(
    names.map((name) => [name, process.listenerCount(name)]).filter(([, count]) => count),
  );
}

const STORES: Record<string, (folder: string) => Promise<Driver>> = {
  "SQLite": (folder) => Promise.resolve(new SqliteDriver({ database: join(folder, "queue.sqlite") })),
  "Redis": async (folder) => {
    const { url } = await sharedServer();
    return new RedisDriver({ url, prefix: newPrefix(), database: join(folder, "app.sqlite") });
  },
};

for (const [name, open] of Object.entries(STORES)) {
  const skip = name === "Redis" && noRedis;
  test(
    `${name}: after its close a queue leaves no handle and no listener`,
    { skip },
    () =>
      inFolder(async (folder) => {
        // The server of the test is a handle, too.
        const driver = await open(folder);
        const before = { resources: resources(), listeners: listeners() };
        const ran = Promise.withResolvers<void>();
        const queue = new Queue({ driver, jobs: { record: () => ran.resolve() }, env: {} });
        const workers = queue.start(3);
        await queue.dispatch("record");
        await queue.dispatchLater("record", undefined, { minutes: 1 });
        await ran.promise;
        await workers.stop();
        await queue.close();
        assert.deepEqual(listeners(), before.listeners);
        // A socket takes a turn or two to be gone, one of the test before this one, too.
        await until(
          () => beside(before.resources).length === 0,
          `no more than ${before.resources} to be open`,
        ).catch((error) => assert.deepEqual(beside(before.resources), [], String(error)));
      }),
  );

  test(`${name}: 200 starts and stops leave nothing behind`, { skip }, () =>
    inFolder(async (folder) => {
      const warnings: unknown[] = [];
      const warned = (warning: unknown) => void warnings.push(warning);
      process.on("warning", warned);
      const driver = await open(folder);
      let ran = 0;
      const queue = new Queue({ driver, jobs: { record: () => void ran++ }, env: {} });
      const stopping = new AbortController();
      const { signal } = stopping;
      const round = async (): Promise<void> => {
        const workers = queue.start(2);
        await queue.dispatch("record");
        await queue.work({ signal, forceSignal: signal, stopWhenEmpty: true, concurrency: 2 });
        await workers.stop();
      };
      for (let times = 0; times < 10; times++) await round();
      const before = { resources: resources().length, listeners: listeners() };
      for (let times = 0; times < 190; times++) await round();
      assert.equal(resources().length <= before.resources + 2, true, `${resources()}`);
      assert.deepEqual(listeners(), before.listeners);
      assert.deepEqual(getEventListeners(signal, "abort"), []);
      await queue.close();
      process.off("warning", warned);
      assert.deepEqual(warnings, []);
      assert.equal(ran, 200);
    }));
}

inSession("200 starts and stops leave no timer behind", async ({ clock, queue }) => {
  const one = await queue({ record: () => {} });
  const before = clock.waiting;
  for (let times = 0; times < 200; times++) {
    const workers = one.start(2);
    if (times % 10 === 0) await one.dispatch("record");
    await clock.rest();
    await workers.stop();
  }
  await clock.rest();
  assert.equal(clock.waiting, before);
});

test("short jobs that were prefetched share commands to Redis", { skip: noRedis }, async () => {
  const server = await sharedServer();
  const redis = { url: server.url, prefix: newPrefix() };
  const queue = new Queue({
    connection: "redis",
    redis,
    database: ":memory:",
    jobs: { quick: () => {} },
    env: {},
  });
  await queue.dispatchMany(Array.from({ length: 1000 }, () => ["quick"]));
  await server.client.config("RESETSTAT");
  await queue.work({ prefetch: 100, stopWhenEmpty: true });
  const told = await server.client.info("commandstats");
  await queue.close();
  const calls = Number(/cmdstat_evalsha:calls=(\d+)/.exec(told)?.[1]);
  assert.equal(calls > 0 && calls < 150, true, told);
});
