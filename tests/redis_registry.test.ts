/** What Redis keeps of workers and attempts, and what that costs. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Queue } from "@x/queue";
import { RedisDriver } from "../drivers/redis.ts";
import { ioredis } from "../drivers/redis/connection.ts";
import { failure, job, T, take } from "./conformance.ts";
import { endShared, newPrefix, noRedis, RedisServer, sharedServer } from "./redis_server.ts";
import { record, report } from "./registry.ts";

after(endShared);

/** A test with a prefix of its own, and a driver whose commands are counted. */
function onRedis(
  sentence: string,
  run: (place: {
    driver: RedisDriver;
    sent: string[];
    keys(pattern: string): Promise<string[]>;
    server: RedisServer;
    prefix: string;
  }) => Promise<void>,
  { failed = "database", own }: { failed?: "database" | "redis"; own?: readonly string[] } = {},
): void {
  test(`Redis: ${sentence}`, { skip: noRedis }, async () => {
    const server = own === undefined ? await sharedServer() : await RedisServer.start(...own);
    const prefix = newPrefix();
    const sent: string[] = [];
    const connect = async () => {
      const connection = await ioredis({ url: server.url }, 5000)();
      return {
        sendCommand(words: string[]) {
          sent.push(words[0]);
          return connection.sendCommand(words);
        },
        close: () => connection.close?.(),
      };
    };
    const driver = new RedisDriver({ connect, prefix, database: ":memory:", failed });
    try {
      const keys = (pattern: string) => server.client.keys(`${prefix}queue:${pattern}`);
      await run({ driver, sent, keys, server, prefix });
    } finally {
      await driver.close();
      if (own !== undefined) await server.stop();
    }
  });
}

for (const failed of ["database", "redis"] as const) {
  onRedis(`the attempts of a job are gone with it, with failures in ${failed}`, async ({ driver, keys }) => {
    const release = { delay: 0, counted: true, record: record(1) };
    await driver.push(
      [job({ payload: "done" }), job({ payload: "failed" }), job({ payload: "cancelled" })],
      T,
    );
    for (const held of await take(driver, { limit: 3 })) await driver.release(held, release, T);
    assert.equal((await keys("history:*")).length, 3);
    const [done, bad, cancelled] = await take(driver, { limit: 3 });
    await driver.complete(done);
    assert.equal((await keys("history:*")).length, 2);
    await driver.fail(bad, { ...failure(), record: record(2) });
    assert.equal((await keys("history:*")).length, 1);
    await driver.release(cancelled, { ...release, record: record(2) }, T);
    assert.equal(await driver.cancel(cancelled.id), "removed");
    assert.deepEqual(await keys("history:*"), []);
    await driver.retry({ after: null, limit: 9 }, T);
    assert.equal((await keys("history:*")).length, 1, "it is back with its job");
    const [again] = await take(driver);
    assert.equal(again.attempt, 1);
    await driver.complete(again);
    assert.deepEqual(await keys("history:*"), []);
  }, { failed });
}

onRedis(
  "a job that is done at its first try costs no command for its attempts",
  async ({ driver, sent, keys }) => {
    await driver.push([job(), job()], T);
    const [first, second] = await take(driver, { limit: 2 });
    sent.length = 0;
    await driver.complete(first);
    assert.deepEqual(sent, ["ZREM"]);
    await driver.release(second, { delay: 0, counted: true, record: record(1) }, T);
    // Of those that fail, the record goes along with the release; the first time, the script is sent whole.
    assert.deepEqual(sent.filter((word) => word !== "EVAL"), ["ZREM", "EVALSHA"]);
    assert.equal((await keys("history:*")).length, 1);
  },
);

onRedis("attempts are kept for a week after their job is due", async ({ driver, server, prefix }) => {
  await driver.push([job()], T);
  const [held] = await take(driver);
  await driver.release(held, { delay: 3_600_000, counted: true, record: record(1) }, T);
  const left = await server.client.ttl(`${prefix}queue:history:${held.id}`);
  const week = 7 * 86_400;
  assert.equal(left > week + 3000 && left <= week + 3600, true, String(left));
});

onRedis("workers are kept for a day after the last of them spoke", async ({ driver, server, keys }) => {
  await driver.beat(report(), 30_000, null);
  const found = await keys("workers*");
  assert.equal(found.length, 2);
  for (const key of found) {
    const left = await server.client.ttl(key);
    assert.equal(left > 86_000 && left <= 86_400, true, `${key}: ${left}`);
  }
  await driver.leave("a");
  assert.deepEqual(await keys("workers*"), []);
});

onRedis(
  "a worker is seen, and its attempts are kept, while Redis is out of memory",
  async ({ driver, server }) => {
    await driver.push([job()], T);
    const [held] = await take(driver);
    await server.client.call("CONFIG", "SET", "maxmemory", "1");
    await driver.beat(report(), 30_000, T);
    assert.equal(await driver.release(held, { delay: 0, counted: true, record: record(1) }, T), true);
    assert.deepEqual((await driver.find(held.id, T, 90_000))?.history, [record(1)]);
    assert.equal((await driver.workers(T)).length, 1);
    const findings = await driver.examine(T, 90_000);
    const bad = findings.filter(({ level }) => level === "bad").map(({ what }) => what);
    assert.deepEqual(bad, ["memory", "writing"]);
  },
  { own: [] },
);

onRedis("a server that is not fit for jobs is found out", async ({ driver, server }) => {
  await driver.open();
  const found = async () => {
    const findings = await driver.examine(null, 90_000);
    return findings.filter(({ level }) => level !== "ok").map(({ what, level }) => `${what} ${level}`);
  };
  assert.deepEqual(await found(), ["persistence warn"]);
  await server.client.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
  assert.deepEqual(await found(), ["eviction bad", "persistence warn"]);
  await server.client.call("CONFIG", "SET", "maxmemory-policy", "volatile-lru");
  assert.deepEqual(await found(), ["eviction warn", "persistence warn"]);
  await server.client.call("CONFIG", "SET", "maxmemory-policy", "noeviction");
  await server.client.call("CONFIG", "SET", "appendonly", "yes");
  assert.deepEqual(await found(), []);
  await server.client.call("REPLICAOF", "127.0.0.1", "1");
  assert.deepEqual((await found()).slice(0, 2), ["role bad", "writing bad"]);
}, { own: [] });

onRedis(
  "a worker of a queue on Redis is seen by another process's queue",
  async ({ driver, server, prefix }) => {
    const queue = new Queue({ driver, jobs: { mail: () => {} }, env: {} });
    const redis = { url: server.url, prefix };
    const other = new Queue({ connection: "redis", redis, database: ":memory:", jobs: {}, env: {} });
    const stopping = new AbortController();
    const seen = Promise.withResolvers<void>();
    const jobs = new Queue({ connection: "redis", redis, database: ":memory:", jobs: { look: {} }, env: {} });
    await jobs.dispatch("look");
    const looking = new Queue({
      connection: "redis",
      redis,
      database: ":memory:",
      env: {},
      jobs: {
        look: async () => {
          assert.deepEqual((await other.workers()).map(({ names }) => names), [["look"]]);
          seen.resolve();
        },
      },
    });
    const working = looking.work({ signal: stopping.signal });
    await seen.promise;
    stopping.abort();
    await working;
    assert.deepEqual(await other.workers(), []);
    for (const one of [queue, other, jobs, looking]) await one.close();
  },
);
