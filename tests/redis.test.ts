import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { after, test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { type Job, Queue, QueueError, type QueueOptions } from "@x/queue";
import type { Reservation } from "../core/driver.ts";
import type { RedisConnection } from "../drivers/redis.ts";
import { RedisDriver, type RedisOptions } from "../drivers/redis.ts";
import { Link } from "../drivers/redis/link.ts";
import { job, reserve, take } from "./conformance.ts";
import { inFolder } from "./folder.ts";
import { OriginalRedis } from "./original_redis.ts";
import {
  commands,
  commandsDuring,
  endShared,
  freePort,
  lookedAtBell,
  newPrefix,
  noRedis,
  RedisServer,
  sharedServer,
} from "./redis_server.ts";
import { record, report } from "./registry.ts";
import { tornJobs } from "./torn.ts";
import { soon, until } from "./until.ts";

after(endShared);

const T = 1_800_000_000_000;
const LEASE = 90_000;

/** One test's part of the shared server. */
interface Place {
  readonly server: RedisServer;
  readonly prefix: string;
  /** What was logged. */
  readonly lines: string[];
  driver(options?: Partial<RedisOptions>): RedisDriver;
}

/** A test with a prefix of its own, or with a server of its own where it changes the server. */
function onRedis(
  sentence: string,
  run: (place: Place) => Promise<void>,
  { own, skip }: { own?: readonly string[]; skip?: string | false } = {},
): void {
  test(`Redis: ${sentence}`, { skip: noRedis || skip || false }, async () => {
    const server = own === undefined ? await sharedServer() : await RedisServer.start(...own);
    const prefix = newPrefix();
    const lines: string[] = [];
    const drivers: RedisDriver[] = [];
    try {
      await run({
        server,
        prefix,
        lines,
        driver(options = {}) {
          const driver = new RedisDriver({
            url: server.url,
            prefix,
            database: ":memory:",
            log: { warn: (line) => void lines.push(line) },
            ...options,
          });
          drivers.push(driver);
          return driver;
        },
      });
    } finally {
      for (const driver of drivers) await driver.close();
      if (own !== undefined) await server.stop();
    }
  });
}

function isRefusal(code: string, ...parts: string[]) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof QueueError);
    assert.equal(error.code, code, error.message);
    for (const part of parts) assert.ok(error.message.includes(part), error.message);
    return true;
  };
}

// The original

test("Redis: production needs a prefix", () => {
  const make = (env: Record<string, string>) => () => new Queue({ jobs: {}, env });
  assert.throws(
    make({ QUEUE_CONNECTION: "redis", APP_ENV: "production" }),
    isRefusal(
      "CONFIG",
      "REDIS_PREFIX is required with APP_ENV=production: apps sharing a Redis would run each other's jobs",
    ),
  );
  make({ QUEUE_CONNECTION: "redis", APP_ENV: "production", REDIS_PREFIX: "app:" })();
  make({ QUEUE_CONNECTION: "redis" })();
  make({ APP_ENV: "production" })();
});

test("Redis: nothing connects, and no database is made, until the first call", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "app.sqlite");
    const env = { QUEUE_CONNECTION: "redis", REDIS_URL: "redis://127.0.0.1:1" };
    const queue = new Queue({ database, jobs: { a: () => {} }, env });
    await queue.close();
    const other = new Queue({ database, jobs: { a: () => {} }, env });
    await assert.rejects(other.dispatch("a"), isRefusal("REDIS", "could not be reached", "ECONNREFUSED"));
    await other.close();
    assert.equal(existsSync(database), false);
  });
});

for (
  const url of [
    "http://127.0.0.1:6379",
    "127.0.0.1:6379",
    "redis://",
    "redis://u:secret@host/one",
    "//x",
    "redis://u:secret%zz@host",
    "unix:///secret%zz",
  ]
) {
  test(`Redis: the URL ${url} is refused without its password`, async () => {
    const queue = new Queue({ jobs: { a: {} }, env: { QUEUE_CONNECTION: "redis", REDIS_URL: url } });
    await assert.rejects(queue.dispatch("a"), (error) => {
      assert.equal((error as Error).message.includes("secret"), false);
      return isRefusal("CONFIG", "REDIS_URL")(error);
    });
    await queue.close();
  });
}

onRedis("jobs go through Redis and fail into the database", async ({ server, prefix, lines }) => {
  const db = new DatabaseSync(":memory:");
  const queue = new Queue({
    database: db,
    jobs: { flaky: () => Promise.reject(new Error("nope")) },
    env: { QUEUE_CONNECTION: "redis", REDIS_URL: server.url, REDIS_PREFIX: prefix },
    log: { warn: (line) => void lines.push(line), error: (line) => void lines.push(line) },
  });
  const { id } = await queue.dispatch("flaky", "p");
  assert.deepEqual(await server.client.lrange(`${prefix}queue:jobs`, 0, -1), [`0 ${id} flaky\np`]);
  const now = Date.now();
  assert.equal(await queue.workOnce(now), true, "attempt 1");
  const delayed = `${prefix}queue:delayed`;
  assert.deepEqual(await server.client.zrange(delayed, "0", "-1"), [`1 ${id} flaky\np`]);
  const due = Number(await server.client.zscore(delayed, `1 ${id} flaky\np`));
  assert.equal(Math.round(due * 1000), now + 10_000);
  assert.equal(await server.client.exists(`${prefix}queue:reserved`), 0);
  assert.equal(await queue.workOnce(now + 9_999), false, "10 s backoff");
  assert.equal(await queue.workOnce(now + 10_000), true, "attempt 2");
  assert.equal(await queue.workOnce(now + 69_999), false, "60 s backoff");
  assert.equal(await queue.workOnce(now + 70_000), true, "attempt 3, the last");
  assert.equal(await queue.workOnce(now + 700_000), false, "empty");
  assert.deepEqual({ ...db.prepare("SELECT name, payload, error FROM failed_jobs").get() }, {
    name: "flaky",
    payload: "p",
    error: "nope",
  });
  assert.deepEqual(
    await server.client.keys(`${prefix}*`),
    [`${prefix}queue:bell`],
    "nothing is left but the bell",
  );
  await queue.close();
});

onRedis("retried jobs go back on the list, also those that the original failed", async (place) => {
  const { server, prefix } = place;
  const db = new DatabaseSync(":memory:");
  const driver = place.driver({ database: db });
  await driver.open();
  db.exec("INSERT INTO failed_jobs (name, payload, error, failed_at) VALUES ('mail', 'p', 'x', 0)");
  assert.deepEqual(await driver.retry({ after: null, limit: 9 }, null), [{ id: "1", name: "mail" }]);
  assert.equal(db.prepare("SELECT count(*) AS n FROM failed_jobs").get()!.n, 0);
  const [member] = await server.client.lrange(`${prefix}queue:jobs`, 0, -1);
  assert.match(member, /^0 [0-9a-f-]{36} mail\np$/);
});

onRedis("a real Redis: now, later, and what a dead worker held", async (place) => {
  const { server, prefix } = place;
  const runs: [string, number][] = [];
  const queue = new Queue({
    database: ":memory:",
    jobs: { record: (job: Job<string>) => void runs.push([job.payload, job.attempt]) },
    env: { QUEUE_CONNECTION: "redis", REDIS_URL: server.url, REDIS_PREFIX: prefix },
  });
  await queue.dispatch("record", "now");
  await queue.dispatchLater("record", "later", { seconds: 30 });
  const now = Date.now();
  assert.equal(await queue.workOnce(now), true);
  assert.equal(await queue.workOnce(now), false, "the delayed one waits");
  assert.equal(await queue.workOnce(now + 31_000), true);
  await queue.dispatch("record", "abandoned");
  assert.equal((await take(place.driver(), { now })).length, 1);
  assert.equal(await queue.workOnce(now + 89_999), false, "still reserved");
  assert.equal(await queue.workOnce(now + 90_000), true);
  assert.deepEqual(runs, [["now", 1], ["later", 1], ["abandoned", 2]]);
  await queue.close();
});

onRedis("the original takes our jobs, and we take its", async (place) => {
  const ours = place.driver();
  const theirs = new OriginalRedis(place.server.client, place.prefix);
  const S = T / 1000;
  await ours.push([job({ name: "mail", payload: "ours\r\n1" })], T);
  await ours.push([job({ payload: "ours 2", delay: 1500 })], T);
  const held = await theirs.reserve(S);
  assert.deepEqual([held?.name, held?.payload, held?.attempt], ["mail", "ours\r\n1", 1]);
  assert.equal(await theirs.reserve(S + 1), null, "not due yet");
  assert.equal((await theirs.reserve(S + 2))?.payload, "ours 2");
  await theirs.release(held!, S + 10);
  const [again] = await take(ours, { now: T + 10_000 });
  assert.deepEqual([again.name, again.payload, again.attempt], ["mail", "ours\r\n1", 2]);
  assert.equal(await ours.complete(again), true);

  await theirs.push("job", "theirs 1");
  await theirs.push("job", "theirs 2", S + 20);
  const [one] = await take(ours, { now: T + 11_000 });
  assert.deepEqual([one.payload, one.attempt, one.queue, one.priority], ["theirs 1", 1, "default", 0]);
  await ours.release(one, { delay: 0, counted: true }, T + 11_000);
  const back = await theirs.reserve(S + 12);
  assert.deepEqual([back?.payload, back?.attempt], ["theirs 1", 2]);
  await theirs.remove(back!);
  assert.equal((await take(ours, { now: T + 20_000 }))[0].payload, "theirs 2");
});

onRedis(
  "a job whose lease ended goes from one program to the other, and the stale one changes nothing",
  async (place) => {
    const ours = place.driver();
    const theirs = new OriginalRedis(place.server.client, place.prefix);
    const S = T / 1000;
    await ours.push([job({ payload: "p" })], T);
    const dead = await theirs.reserve(S);
    assert.deepEqual(await take(ours, { now: T + LEASE - 1 }), []);
    const [held] = await take(ours, { now: T + LEASE });
    assert.equal(held.attempt, 2);
    await theirs.remove(dead!);
    assert.deepEqual(await ours.extend([held], T + LEASE), [], "theirs was stale");
    const third = await theirs.reserve(S + 2 * 90);
    assert.equal(third?.attempt, 3);
    assert.equal(await ours.complete(held), false, "ours is stale");
    assert.deepEqual(await ours.extend([held], T + 2 * LEASE), [held]);
  },
);

// Bounds

onRedis(
  "a reserve moves at most 100 due and 100 expired jobs of a lane, and asks to come again",
  async (place) => {
    const { server, prefix } = place;
    const driver = place.driver();
    await driver.push(Array.from({ length: 350 }, () => job({ delay: 1000 })), T);
    const first = await driver.reserve({
      queues: [{ queue: "default", limit: 1 }],
      limit: 1,
      prefetch: 0,
      now: T + 5000,
      retryAfter: LEASE,
    });
    assert.equal(first.jobs.length, 1);
    assert.equal(await server.client.llen(`${prefix}queue:jobs`), 99);
    assert.equal(await server.client.zcard(`${prefix}queue:delayed`), 250);
    const second = await driver.reserve({
      queues: [{ queue: "default", limit: 500 }],
      limit: 500,
      prefetch: 0,
      now: T + 5000,
      retryAfter: LEASE,
    });
    assert.equal(second.jobs.length, 199);
    assert.equal(second.nextIn, 0, "more are due");
    await take(driver, { limit: 500, now: T + 5000 });
    await take(driver, { limit: 500, now: T + 5000 });
    assert.equal(await server.client.zcard(`${prefix}queue:reserved`), 350);
    assert.equal((await take(driver, { limit: 500, now: T + 5000 + LEASE })).length, 100);
  },
);

onRedis("a wait is by one clock, whatever the machines' own say", async (place) => {
  const { now } = Date;
  const [producer, worker] = [place.driver(), place.driver()];
  try {
    Date.now = () => now() - 3_600_000;
    await producer.push([job()], null);
    await producer.pushOnce([{ ...job(), key: "k" }], null);
    const [{ oldest }] = await producer.counts(null, LEASE);
    assert.ok(Math.abs(Date.now() - oldest!) < 60_000, "compared with the clock of whoever asks");
  } finally {
    Date.now = now;
  }
  const { jobs } = await worker.reserve({
    queues: [{ queue: "default", limit: 2 }],
    limit: 2,
    prefetch: 0,
    now: null,
    retryAfter: LEASE,
  });
  assert.equal(jobs.length, 2);
  for (const { waited } of jobs) assert.ok(waited! < 60_000, `${waited} ms`);
});

onRedis("a job that was snoozed many times is not settled by a worker that held it before", async (place) => {
  const [stale, driver] = [place.driver(), place.driver()];
  let now = T;
  const snooze = async (): Promise<void> => {
    const [held] = await take(driver, { now });
    assert.equal(await driver.release(held, { delay: 1000, counted: false }, now), true);
    now += 1000;
  };
  await driver.push([job()], now);
  await snooze();
  const [before] = await take(stale, { now });
  now += LEASE;
  const [failed] = await take(driver, { now });
  assert.equal(await driver.fail(failed, { error: "x", stack: null, failedAt: now }), true);
  await driver.retry({ after: null, limit: 1 }, now);
  for (let snoozes = 0; snoozes < 20; snoozes++) {
    const [held] = await take(driver, { now });
    assert.equal(await stale.complete({ ...before }), false, `after ${snoozes} snoozes`);
    assert.equal(await driver.release(held, { delay: 1000, counted: false }, now), true);
    now += 1000;
  }
});

onRedis("an id that says nothing of its time, as another program's, makes up no wait", async (place) => {
  const driver = place.driver();
  const { server: { client }, prefix } = place;
  const foreign = "123e4567-e89b-42d3-a456-426614174000";
  await client.rpush(`${prefix}queue:jobs`, `0 ${foreign} job\n{}`);
  assert.equal((await driver.counts(T, LEASE))[0].oldest, null);
  await driver.push([job()], T - 9000);
  assert.equal((await driver.counts(T, LEASE))[0].oldest, T - 9000, "at least since then");
  const { jobs } = await driver.reserve({
    queues: [{ queue: "default", limit: 1 }],
    limit: 1,
    prefetch: 0,
    now: T,
    retryAfter: LEASE,
  });
  assert.deepEqual([jobs[0].id, "waited" in jobs[0]], [foreign, false]);
});

onRedis("a worker gets through many jobs that are due at once", async ({ server, prefix }) => {
  let runs = 0;
  const queue = new Queue({
    database: ":memory:",
    connection: "redis",
    redis: { url: server.url, prefix },
    env: {},
    jobs: { count: () => void runs++ },
  });
  await queue.dispatchMany(Array.from({ length: 2500 }, () => ["count", 0, { delay: 1 }]));
  const stopping = new AbortController();
  const working = queue.work({ concurrency: 20, signal: stopping.signal });
  await until(() => runs === 2500, "all of them to run");
  stopping.abort();
  await working;
  assert.equal(await queue.waiting(), 0);
  await queue.close();
});

onRedis("what is no job of ours is set aside, with a line", async (place) => {
  const { server, prefix, lines } = place;
  const driver = place.driver();
  const jobs = `${prefix}queue:jobs`;
  const strange = [
    "",
    "no job",
    "x id name\np",
    "0x10 id name\np",
    "1e3 id name\np",
    "-1 id name\np",
    "0 id\np",
    "0 id name",
    "0  name\np",
    "9999999999 id name\np",
  ];
  for (const member of strange) await server.client.rpush(jobs, member);
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]]) {
    await server.client.rpush(jobs, Buffer.concat([Buffer.from("0 id name\n"), Buffer.from(bytes)]));
  }
  await driver.push([job({ payload: "ü€😀 good" })], T);
  assert.deepEqual((await take(driver, { limit: 3 })).map(({ payload }) => payload), ["ü€😀 good"]);
  assert.equal(await server.client.llen(`${prefix}queue:malformed`), strange.length + 5);
  assert.equal(await server.client.llen(jobs), 0);
  assert.match(
    lines.join("\n"),
    /1[0-9] members were no jobs of ours: set aside in test \d+:queue:malformed/,
  );
});

for (const [whose, brought] of [["its own client", false], ["a client that was brought", true]] as const) {
  onRedis(
    `${whose}: bytes that are no text are set aside as they were, and what looks like it runs`,
    async (place) => {
      const { server, prefix, lines } = place;
      const driver = brought ? place.driver({ connect: () => client(server.port, false) }) : place.driver();
      const bad = (attempts: string, name: string) =>
        Buffer.concat([Buffer.from(`${attempts} id-${name} name\n`), Buffer.from([0x22, 0xff, 0x22])]);
      const members = [bad("0", "a"), bad("1", "b"), bad("0012", "c"), bad("000", "d")];
      const odd = Buffer.concat([Buffer.from("0 id-"), Buffer.from([0xfe]), Buffer.from(" name\n{}")]);
      for (const member of [...members, odd]) await server.client.rpush(`${prefix}queue:jobs`, member);
      const text = "\uFFFD is a character like any other, as are ü and 😀";
      await driver.push([
        job({ payload: "plain" }),
        job({ payload: text }),
        job({ payload: text, queue: "other" }),
      ], T);
      const first: Reservation[] = [];
      for (let some = 1; some > 0;) {
        const more = await take(driver, { limit: 2 });
        some = more.length;
        first.push(...more);
      }
      assert.deepEqual(
        first.map(({ payload }) => payload),
        ["plain", text],
        "though what is no text stands before them",
      );
      assert.deepEqual((await take(driver, { queues: ["other"] })).map(({ payload }) => payload), [text]);
      for (const held of first) assert.equal(await driver.complete(held), true);
      const aside = await server.client.lrangeBuffer(`${prefix}queue:malformed`, 0, -1);
      const sorted = (all: readonly Uint8Array[]) =>
        all.map((one) => Buffer.from(one).toString("hex")).sort();
      assert.deepEqual(sorted(aside), sorted([...members, odd]), "with the attempts that they had");
      assert.equal(await server.client.zcard(`${prefix}queue:reserved`), 0, "nothing else is held");
      assert.match(lines.join("\n"), /members? (was|were) no jobs? of ours: set aside in/);
    },
  );
}

onRedis("what cannot be set aside is not run, and holds up nothing else", async (place) => {
  const { server, prefix, lines } = place;
  const driver = place.driver();
  const jobs = `${prefix}queue:jobs`;
  const bad = (id: string) => Buffer.concat([Buffer.from(`0 ${id} name\n`), Buffer.from([0xff])]);
  await driver.push([job({ payload: "before" })], null);
  const [before] = await take(driver, { now: null });
  await server.client.rpush(jobs, bad("a"));
  await server.client.set(`${prefix}queue:malformed`, "no list");
  await driver.push([job({ payload: "\uFFFD after" }), job({ payload: "last" })], null);
  const done = driver.complete(before);
  const taken = await take(driver, { limit: 2, now: null });
  assert.equal(await done, true, "what was done by the same call is done");
  assert.deepEqual(
    taken.map(({ payload }) => payload),
    ["\uFFFD after"],
    "though it looks like the one before it",
  );
  assert.match(
    lines.join("\n"),
    /what is no text could not be set aside in .*queue:malformed: WRONGTYPE/,
  );
  await server.client.lpush(jobs, bad("b"));
  const { jobs: [last] } = await reserve(driver, { now: null });
  assert.equal(last?.payload, "last", "no answer without a job while some are in line");
  await server.client.del(`${prefix}queue:malformed`);
  const later = await take(driver, { limit: 9, now: Date.now() + 2 * LEASE });
  assert.deepEqual(later.map(({ payload }) => payload).sort(), ["last", "\uFFFD after"]);
  assert.equal(await server.client.llen(`${prefix}queue:malformed`), 2, "once their leases are over");
});

onRedis("a job is not lost, nor hidden, behind many members that cannot be set aside", async (place) => {
  const { server, prefix } = place;
  const driver = place.driver();
  await server.client.set(`${prefix}queue:malformed`, "no list");
  await server.client.rpush(
    `${prefix}queue:jobs`,
    ...Array.from({ length: 250 }, (_, index) => `garbage ${index}`),
  );
  await driver.push([job({ payload: "good" })], null);
  const taken: string[] = [];
  for (let looks = 0; looks < 3; looks++) {
    const refused = isRefusal("REDIS", "could not be set aside", `${prefix}queue:malformed`);
    await take(driver, { now: null }).then(
      (jobs) => taken.push(...jobs.map(({ payload }) => payload)),
      (error) => {
        if (!refused(error)) throw error;
        taken.push("refused");
      },
    );
  }
  assert.deepEqual(taken, ["refused", "refused", "good"], "100 are passed at a look");
  assert.equal(await server.client.llen(`${prefix}queue:jobs`), 250);
});

onRedis("a payload with the character that stands for no text costs one call, as any", async (place) => {
  const driver = place.driver();
  await take(driver, { now: null });
  await driver.push([job({ payload: "\uFFFD" })], null);
  const calls = async () => (await commands(place.server)).get("evalsha") ?? 0;
  const before = await calls();
  assert.equal((await take(driver, { now: null })).length, 1);
  assert.equal(await calls() - before, 1);
});

onRedis("of two that take members that are no text at once, each gets a job", async (place) => {
  const { server, prefix } = place;
  const jobs = `${prefix}queue:jobs`;
  const drivers = [place.driver(), place.driver()];
  await Promise.all(drivers.map((driver) => take(driver, { now: null })));
  for (let times = 0; times < 20; times++) {
    for (const id of ["a", "b", "c"]) {
      await server.client.rpush(jobs, Buffer.concat([Buffer.from(`0 ${id} name\n`), Buffer.from([0xff])]));
    }
    await drivers[0].push(Array.from({ length: 4 }, () => job()), null);
    const takers = [...drivers, drivers[0]];
    const taken = await Promise.all(takers.map((driver) => take(driver, { now: null })));
    assert.deepEqual(taken.map(({ length }) => length), [1, 1, 1]);
    await server.client.del(jobs, `${prefix}queue:reserved`);
  }
});

onRedis(
  "of a client that was brought nothing is asked twice: what it reads was looked at before",
  async (place) => {
    const sent: string[] = [];
    const driver = place.driver({
      connect: async () => {
        const { sendCommand, close } = await client(place.server.port, false);
        return {
          close,
          sendCommand: (words) => {
            sent.push(words[0]);
            return sendCommand(words);
          },
        };
      },
    });
    await take(driver, { now: null });
    await driver.push([job({ payload: "\uFFFD" })], null);
    sent.length = 0;
    assert.equal((await take(driver, { now: null })).length, 1);
    assert.deepEqual(sent, ["EVALSHA"]);
  },
);

onRedis(
  "no job is taken out of its line, nor settled, where that cannot be done to the end",
  async (place) => {
    const { server, lines } = place;
    for (const key of ["jobs", "delayed", "reserved"]) {
      for (const lane of ["queue:", "queue:b:0:"]) {
        const prefix = `${place.prefix}${lane}${key}:`;
        const foreign = `${prefix}${lane}${key}`;
        const driver = place.driver({ prefix });
        const [own, other] = lane === "queue:" ? ["default", "b"] : ["b", "default"];
        await driver.push([job({ queue: own })], null);
        for (const one of await take(driver, { queues: [own], now: null })) await driver.complete(one);
        await driver.push(
          [job({ queue: other, payload: "held" }), job({ queue: other, payload: "next" })],
          null,
        );
        await driver.push([job({ queue: other, delay: 20, payload: "due" })], null);
        const [held] = await take(driver, { queues: [other], now: null });
        await new Promise((resolve) => setTimeout(resolve, 40));
        await server.client.set(foreign, "another program's");
        const keys = (await server.client.keys(`${prefix}*`)).filter((one) => one !== foreign);
        const dump = () => Promise.all(keys.sort().map((one) => server.client.dumpBuffer(one)));
        const before = await dump();
        // Both where expired jobs are looked for first, and where that was done a moment ago.
        for (let times = 0; times < 3; times++) {
          await assert.rejects(
            take(driver, { queues: ["default", "b"], limit: 9, now: null }),
            isRefusal("REDIS", "WRONGTYPE", `which is ${foreign}`),
          );
          assert.deepEqual(await dump(), before, foreign);
        }
        const done = driver.complete(held);
        const taking = take(driver, { queues: ["default", "b"], limit: 9, now: null });
        await assert.rejects(taking, isRefusal("REDIS", "WRONGTYPE", `which is ${foreign}`));
        assert.equal(await done, true, `a completion goes without the reservation that ${foreign} stops`);
        await server.client.del(foreign);
        const all = await take(driver, { queues: ["default", "b"], limit: 9, now: null });
        assert.deepEqual(all.map(({ payload }) => payload), ["next", "due"]);
      }
    }
    const { prefix } = place;
    const driver = place.driver();
    await driver.push([job({ payload: "b" })], null);
    await server.client.set(`${prefix}queue:malformed`, "no list");
    await server.client.lpush(`${prefix}queue:jobs`, "no job");
    assert.deepEqual((await take(driver, { limit: 9, now: null })).map(({ payload }) => payload), ["b"]);
    assert.deepEqual(await server.client.lrange(`${prefix}queue:jobs`, 0, -1), ["no job"]);
    assert.match(
      lines.join("\n"),
      /a member that is no job of ours could not be set aside in .*queue:malformed: WRONGTYPE/,
    );
  },
);

onRedis("a completion whose reservation failed on the way is known for what it is", async (place) => {
  const { server } = place;
  const user = (...rights: string[]) =>
    server.client.call("ACL", "SETUSER", "halfway", "on", "nopass", "~*", "+@all", ...rights);
  await user();
  const driver = place.driver({ url: `redis://halfway:any@127.0.0.1:${server.port}` });
  await driver.push([job({ payload: "a" }), job({ payload: "b" })], null);
  const [held] = await take(driver, { now: null });
  await user("-lpop");
  const done = driver.complete(held);
  const next = take(driver, { now: null });
  const refused = isRefusal("REDIS", "user_script");
  await Promise.all([assert.rejects(done, refused), assert.rejects(next, refused)]);
  await user("+lpop");
  assert.equal(await driver.complete(held), true, "it was done, or is now");
  assert.equal(await driver.complete(held), false);
  assert.deepEqual((await take(driver, { now: null })).map(({ payload }) => payload), ["b"]);
});

onRedis("a transaction that a failed hook leaves open on job.db is rolled back", async (place) => {
  await inFolder(async (folder) => {
    const lines: string[] = [];
    const queue = new Queue({
      database: join(folder, "app.sqlite"),
      connection: "redis",
      redis: { url: place.server.url, prefix: place.prefix },
      env: {},
      tries: 1,
      log: { warn: (line) => void lines.push(line), error() {} },
      jobs: {
        mail: {
          handle: () => Promise.reject(new Error("no")),
          failed: ({ db }: Job) => db.exec("BEGIN IMMEDIATE"),
        },
      },
    });
    const { id } = await queue.dispatch("mail");
    await soon(queue.work({ stopWhenEmpty: true }), "the queue to be empty");
    assert.deepEqual(lines, [
      `queue: job mail (id ${id}), or one that ran beside it, left a transaction open on job.db: rolled back`,
    ]);
    await queue.close();
  });
});

onRedis("a transaction that a handler leaves open on job.db is rolled back", async ({ server, prefix }) => {
  await inFolder(async (folder) => {
    const lines: string[] = [];
    const seen: unknown[] = [];
    const queue = new Queue({
      database: join(folder, "app.sqlite"),
      connection: "redis",
      redis: { url: server.url, prefix },
      env: {},
      tries: 1,
      log: { warn: (line) => void lines.push(line), error() {} },
      jobs: tornJobs(seen),
    });
    await queue.dispatchMany([["torn"], ["whole"]]);
    await soon(queue.work({ stopWhenEmpty: true }), "the queue to go on");
    assert.deepEqual(seen, [0], "what it wrote was rolled back");
    assert.equal((await queue.failed()).length, 1, "the lock was let go of");
    assert.equal(
      lines.filter((line) => line.includes("left a transaction open")).length,
      1,
      lines.join("\n"),
    );
    await queue.close();
  });
});

onRedis("lanes that are new to a worker get what is theirs at its next look", async (place) => {
  const driver = place.driver();
  const other = place.driver();
  const ask = {
    queues: [{ queue: "a", limit: 1 }, { queue: "b", limit: 2 }],
    limit: 3,
    prefetch: 0,
    now: T,
    retryAfter: LEASE,
  };
  await driver.push([job({ queue: "a", payload: "low" }), job({ queue: "b", payload: "b" })], T);
  assert.equal((await driver.reserve({ ...ask, limit: 0 })).jobs.length, 0, "it knows these two");
  await other.push([job({ queue: "a", payload: "high", priority: 5 })], T);
  const { jobs } = await driver.reserve(ask);
  assert.deepEqual(jobs.map(({ payload }) => payload), ["high", "b"], "one of a, by its priority");
});

// The clock

onRedis("a worker whose clock is ahead takes neither what others hold nor what is not due", async (place) => {
  const real = Date.now;
  const driver = place.driver();
  await driver.push([job({ payload: "held" })], null);
  assert.equal((await take(driver, { now: null })).length, 1);
  await driver.push([job({ payload: "later", delay: 60_000 })], null);
  try {
    Date.now = () => real() + 3_600_000;
    assert.deepEqual(await take(place.driver(), { now: null, limit: 9 }), []);
  } finally {
    Date.now = real;
  }
});

// The bell

onRedis("a push wakes exactly one of those who rest", async (place) => {
  const woken: number[] = [];
  const listeners = [0, 1, 2, 3].map((index) => {
    const driver = place.driver();
    const listener = driver.listen(() => woken.push(index) > 0);
    listener.rest();
    return listener;
  });
  const pusher = place.driver();
  for (let pushes = 1; pushes <= 4; pushes++) {
    await pusher.push([job()], null);
    await until(() => woken.length === pushes, `wake-up ${pushes}`);
  }
  assert.deepEqual([...woken].sort(), [0, 1, 2, 3], "each once");
  await pusher.push([job()], null);
  assert.equal(woken.length, 4, "none rests");
  listeners[2].rest();
  await until(() => woken.length === 5, "one that rests later to hear of the push before");
  assert.equal(woken[4], 2);
  for (const listener of listeners) listener.close();
});

onRedis("one who does not look leaves the ring to another", async (place) => {
  const heard: string[] = [];
  const busy = place.driver().listen(() => {
    heard.push("busy");
    return false;
  });
  busy.rest();
  const pusher = place.driver();
  await pusher.push([job()], null);
  await until(() => heard.length === 1, "the busy one to hear");
  const idle = place.driver().listen(() => heard.push("idle") > 0);
  idle.rest();
  await until(() => heard.length === 2, "the idle one to hear");
  assert.deepEqual(heard, ["busy", "idle"]);
  busy.close();
  idle.close();
});

onRedis("an idle worker sends at most two commands a second", async ({ server, prefix }) => {
  const queue = new Queue({
    database: ":memory:",
    connection: "redis",
    redis: { url: server.url, prefix },
    env: {},
    jobs: { a: () => {} },
  });
  const stopping = new AbortController();
  const working = queue.work({ signal: stopping.signal });
  await until(() => lookedAtBell(server), "it to rest");
  const { sent, looks, seconds } = await commandsDuring(server, 3);
  // One look for jobs a second, and one look at the bell.
  assert.ok(sent <= 1.2 * seconds + 1.5, `${sent} commands in ${seconds} s`);
  assert.ok(looks <= 1.2 * seconds + 1.5, `${looks} looks at the bell in ${seconds} s`);
  stopping.abort();
  await working;
  await queue.close();
}, { own: [] });

onRedis("the first dispatch asks for the time with what it connects by, and not once more", async (place) => {
  const { server } = place;
  const times = async (): Promise<number> => {
    const info = await server.client.info("commandstats");
    return Number(/cmdstat_time:calls=(\d+)/.exec(info)?.[1] ?? 0);
  };
  await place.driver().push([job()], null);
  assert.equal(await times(), 1);
}, { own: [] });

// Dispatching once

onRedis("a dispatch with an id is stored once", async ({ server, prefix }) => {
  const options: QueueOptions = {
    database: ":memory:",
    connection: "redis",
    redis: { url: server.url, prefix },
    env: {},
    jobs: { a: () => {} },
  };
  const queue = new Queue({ ...options, jobs: { a: () => {} } });
  const first = await queue.dispatch("a", 1, { id: "order 7" });
  assert.deepEqual(await queue.dispatch("a", 1, { id: "order 7" }), { id: first.id, duplicate: true });
  const many = await queue.dispatchMany([["a", 1], ["a", 2, { id: "order 8" }], ["a", 1, { id: "order 7" }]]);
  assert.deepEqual(many.map(({ duplicate }) => duplicate === true), [false, false, true]);
  assert.equal(await queue.waiting(), 3);
  const ttl = await server.client.ttl(`${prefix}queue:id:order 7`);
  assert.ok(ttl > 86_000 && ttl <= 86_400, `the id is known for a day: ${ttl}`);
  await queue.close();
});

// Servers and accounts

onRedis("a unix socket, and a database of its own", async (place) => {
  const { server } = place;
  for (const url of [server.socket, `unix://${server.socket}`, `${server.url}/3`]) {
    const driver = place.driver({ url });
    await driver.push([job({ payload: url })], T);
    assert.equal((await take(driver))[0].payload, url);
  }
});

const noIpv6 = await new Promise<string | false>((resolve) => {
  const probe = createServer().on("error", () => resolve("no IPv6 on this machine"));
  probe.listen(0, "::1", () => probe.close(() => resolve(false)));
});

onRedis("IPv6", async (place) => {
  const driver = place.driver({ url: `redis://[::1]:${place.server.port}` });
  await driver.push([job()], T);
  assert.equal((await take(driver)).length, 1);
}, { own: ["--bind", "127.0.0.1", "-::1"], skip: noIpv6 });

onRedis(
  "a failed job is found whatever the order in its record, and one that is no record is passed over",
  async (place) => {
    const driver = place.driver({ prefix: "order:", failed: "redis" });
    await driver.push([job(), job(), job()], T);
    for (const held of await take(driver, { limit: 3 })) {
      await driver.fail(held, { error: "upstream 503", stack: "x", failedAt: T });
    }
    const { client } = place.server;
    const { payload, ...rest } = JSON.parse((await client.hget("order:queue:failed", "2"))!);
    await client.hset("order:queue:failed", "2", JSON.stringify({ payload, ...rest }));
    await client.hset("order:queue:failed", "3", "no record");
    const search = { filter: { text: "UPSTREAM" }, after: null, until: null, reverse: false, limit: 9 };
    assert.deepEqual(await driver.findFailed(search), { ids: ["1", "2"], looked: 3, next: null });
  },
);

/** All that an operator does; `ready` jobs wait before. */
async function operate(driver: RedisDriver, ready: number): Promise<void> {
  await driver.pause(null);
  await driver.resume(null);
  await driver.pause("other");
  await driver.resume("other");
  await driver.restart();
  const [first, delayed] = await driver.push([job(), job({ delay: 5 })], T);
  assert.equal(await driver.cancel(first), "removed");
  assert.equal(await driver.cancel(delayed), "removed");
  await driver.push([job(), job({ delay: 5 })], T);
  assert.equal(await driver.clear(null, 9), 2 + ready);
  await driver.push([job()], T);
  const [told] = await take(driver);
  await driver.report(told, { fraction: 0.5, note: null }, LEASE, T);
  assert.equal((await driver.progress(told.id))?.fraction, 0.5);
  assert.equal(await driver.cancel(told.id), "cancelling");
  assert.deepEqual((await driver.controls()).cancelled, [told.id]);
  await driver.complete(told);
  assert.deepEqual((await driver.controls()).cancelled, []);
}

/** What a user of an ACL must be allowed, on keys that start with the prefix. */
const NEEDED =
  "+evalsha +eval +time +rpush +lpush +lpop +lpos +llen +zadd +zrem +zrange +zrangebyscore +zremrangebyrank " +
  "+zscore +zcard +zcount +bzpopmin +sadd +scard +smembers +exists +set +get +del +incr +lrange +lrem +zscan " +
  "+zremrangebyscore +zrevrangebyscore +srem +lset +hset +hget +hdel +expire +hmget +hgetall +hincrby";

onRedis(
  "a wrong password, and one that is missing, are named as the cause, with the setting",
  async (place) => {
    const { server } = place;
    await server.client.call("ACL", "SETUSER", "somebody", "reset", "on", ">right", "~*", "&*", "+@all");
    const wrong = place.driver({ url: `redis://somebody:wrong@127.0.0.1:${server.port}` });
    await assert.rejects(
      wrong.push([job()], T),
      isRefusal("REDIS", "Redis refused: WRONGPASS", "nothing was changed", "REDIS_URL"),
    );
    await server.client.call("ACL", "SETUSER", "default", "resetpass", ">secret");
    try {
      const none = place.driver({ url: server.url });
      await assert.rejects(none.push([job()], T), isRefusal("REDIS", "Redis refused: NOAUTH", "REDIS_URL"));
    } finally {
      await server.client.call("ACL", "SETUSER", "default", "nopass");
    }
  },
);

onRedis(
  "a server that hangs up says why: a full one, with whatever it is asked first, is no wrong setting",
  async (place) => {
    const { server } = place;
    await server.client.call("ACL", "SETUSER", "somebody", "reset", "on", ">right", "~*", "&*", "+@all");
    const [, most] = await server.client.call("CONFIG", "GET", "maxclients") as [string, string];
    await server.client.call("CONFIG", "SET", "maxclients", "1");
    try {
      for (const url of [server.url, `${server.url}/3`, `redis://somebody:right@127.0.0.1:${server.port}`]) {
        const full = place.driver({ url });
        await assert.rejects(full.push([job()], T), isRefusal("REDIS", "max number of clients"), url);
      }
    } finally {
      await server.client.call("CONFIG", "SET", "maxclients", most);
    }
  },
);

onRedis(
  "a database that the server does not have is refused, and not exchanged for database 0",
  async (place) => {
    const { server, prefix } = place;
    const none = place.driver({ url: `${server.url}/9999` });
    await assert.rejects(
      none.push([job()], T),
      isRefusal("CONFIG", "REDIS_URL", "the database 9999", "DB index"),
    );
    await server.client.call(
      "ACL",
      "SETUSER",
      "limited",
      "reset",
      "on",
      ">right",
      "~*",
      "&*",
      "+@all",
      "-select",
    );
    const hidden = place.driver({ url: `redis://limited:right@127.0.0.1:${server.port}/1` });
    await assert.rejects(
      hidden.push([job()], T),
      isRefusal("CONFIG", "REDIS_URL", "the database 1", "NOPERM"),
    );
    assert.deepEqual(await server.client.keys(`${prefix}*`), [], "nothing was stored in database 0");
  },
);

onRedis("a user with a percent-encoded password, who may do no more than is needed", async (place) => {
  const { server, lines } = place;
  const rights = ["reset", "on", ">p@ss:w/rd %", "~app:*", "resetchannels", "-@all", ...NEEDED.split(" ")];
  await server.client.call("ACL", "SETUSER", "queue", ...rights);
  for (const failed of ["database", "redis"] as const) {
    const url = `redis://queue:${encodeURIComponent("p@ss:w/rd %")}@127.0.0.1:${server.port}`;
    const driver = place.driver({ url, prefix: "app:", failed });
    const ids = await driver.push([job(), job({ delay: 5 }), job({ queue: "other", priority: 3 })], T);
    const [once] = await driver.pushOnce([{ ...job(), key: `key ${failed}` }], T);
    const held = await take(driver, { limit: 9, now: T + 5, queues: await driver.queues() });
    assert.equal(held.length, 4);
    assert.deepEqual(await driver.extend(held, T + 6), []);
    await driver.complete(held[0]);
    await driver.release(held[1], { delay: 10, counted: true, record: record(1) }, T);
    await driver.release(held[2], { delay: null, counted: false }, T);
    await driver.fail(held[3], { error: "x", stack: null, failedAt: T, record: record(1) });
    assert.notEqual((await driver.counts(T, LEASE)).length, 0);
    assert.equal((await driver.failed({ after: null, limit: 9 })).length, 1);
    for (const reverse of [true, false]) {
      const search = { after: null, until: null, reverse, limit: 9 };
      for (const filter of [{}, { text: "X" }]) {
        assert.equal((await driver.findFailed({ ...search, filter })).ids.length, 1);
      }
    }
    assert.equal((await driver.retry({ after: null, limit: 9 }, T)).length, 1);
    for (const one of await take(driver, { limit: 9, now: T + 10_000, queues: ["default", "other"] })) {
      await driver.complete(one);
      assert.ok([...ids, once.id].includes(one.id), `${one.id} is one of those that were dispatched`);
    }
    await operate(driver, 0);
    if (failed === "redis") {
      // One whose failing broke off on the way is looked for.
      await driver.push([job()], T);
      const [torn] = await take(driver);
      await server.client.set("app:queue:failed", "no hash");
      const why = { error: "x", stack: null, failedAt: T };
      await assert.rejects(driver.fail(torn, why), isRefusal("REDIS", "WRONGTYPE"));
      await server.client.del("app:queue:failed");
      assert.equal(await driver.fail(torn, why), true);
    }
    await driver.push([job()], T);
    for (let attempt = 1; attempt <= 41; attempt++) {
      const [held] = await take(driver);
      await driver.release(held, { delay: 0, counted: true, record: record(attempt) }, T);
    }
    const [again] = await take(driver);
    assert.equal((await driver.find(again.id, T, LEASE))?.history.length, 40);
    await driver.complete(again);
    await driver.beat(report({ id: "gone" }), 1000, T);
    await driver.beat(report(), 1000, T + 1000);
    assert.equal((await driver.workers(T + 1000)).length, 1);
    await driver.leave("a");
    await driver.waitingNames(["default"], 10);
    const findings = await driver.examine(T, LEASE);
    assert.deepEqual(findings.filter(({ level }) => level === "bad"), []);
    const woken = Promise.withResolvers<void>();
    const listener = driver.listen(() => {
      woken.resolve();
      return true;
    });
    listener.rest();
    await driver.push([job()], null);
    await soon(woken.promise, "the bell");
    await driver.complete((await take(driver, { now: null }))[0]);
  }
  assert.match(lines[0], /INFO is refused \(.*maxmemory-policy is noeviction/);
  const wrong = place.driver({ url: `redis://queue:wrong@127.0.0.1:${server.port}` });
  await assert.rejects(wrong.push([job()], T), isRefusal("REDIS", "WRONGPASS"));
}, { own: [] });

const noOpenssl = spawnSync("openssl", ["version"]).error !== undefined && "no openssl on this machine";

test("Redis: TLS, with a certificate that is checked", { skip: noRedis || noOpenssl }, async () => {
  await inFolder(async (folder) => {
    const made = spawnSync("openssl", [
      ...["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"],
      ...["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
      ...["-keyout", join(folder, "key.pem"), "-out", join(folder, "cert.pem")],
    ]);
    assert.equal(made.status, 0, String(made.stderr));
    const tlsPort = await freePort();
    const server = await RedisServer.start(
      ...["--tls-port", String(tlsPort), "--tls-auth-clients", "no"],
      ...["--tls-cert-file", join(folder, "cert.pem"), "--tls-key-file", join(folder, "key.pem")],
      ...["--tls-ca-cert-file", join(folder, "cert.pem")],
    );
    const url = `rediss://localhost:${tlsPort}`;
    const trusting = new RedisDriver({
      url,
      database: ":memory:",
      tls: { ca: readFileSync(join(folder, "cert.pem"), "utf8") },
    });
    const wary = new RedisDriver({ url, database: ":memory:" });
    try {
      await trusting.push([job({ payload: "a\r\nb" })], T);
      assert.equal((await take(trusting))[0].payload, "a\r\nb");
      await assert.rejects(wary.push([job()], T), isRefusal("REDIS", "could not be reached"));
    } finally {
      await trusting.close();
      await wary.close();
      await server.stop();
    }
  });
});

onRedis(
  "an eviction policy that throws jobs away is refused, and one that may is warned of",
  async (place) => {
    const { server, lines } = place;
    await server.client.config("SET", "maxmemory-policy", "allkeys-lru");
    await place.driver().push([job()], T);
    assert.match(lines.splice(0).join(), /maxmemory-policy is allkeys-lru.*once it has a maxmemory/);
    await server.client.config("SET", "maxmemory-policy", "volatile-lru");
    await place.driver().push([job()], T);
    assert.match(lines.splice(0).join(), /maxmemory-policy is volatile-lru.*ids away/);
    await server.client.config("SET", "maxmemory-policy", "allkeys-random", "maxmemory", "100mb");
    await assert.rejects(
      place.driver().push([job()], T),
      isRefusal("CONFIG", "maxmemory-policy is allkeys-random", "expected noeviction"),
    );
  },
  { own: [] },
);

onRedis("a cluster needs a hash tag in the prefix, and works with one", async (place) => {
  const { server } = place;
  await server.client.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
  await until(
    async () => /cluster_state:ok/.test(String(await server.client.call("CLUSTER", "INFO"))),
    "the cluster to be whole",
  );
  await assert.rejects(
    place.driver({ prefix: "app:" }).push([job()], T),
    isRefusal("CONFIG", 'REDIS_PREFIX="app:"', "hash tag", "{app}:"),
  );
  for (const failed of ["database", "redis"] as const) {
    const driver = place.driver({ prefix: `{app ${failed}}:`, failed });
    await driver.push([job(), job({ queue: "other", priority: 1 })], T);
    await driver.pushOnce([{ ...job(), key: "k" }], T);
    const held = await take(driver, { limit: 9, queues: ["other", "default"] });
    assert.equal(held.length, 3);
    await driver.complete(held[0]);
    await driver.fail(held[1], { error: "x", stack: null, failedAt: T });
    assert.equal((await driver.retry({ after: null, limit: 9 }, T)).length, 1);
    await operate(driver, 1);
    const woken = Promise.withResolvers<void>();
    const listener = driver.listen(() => {
      woken.resolve();
      return true;
    });
    listener.rest();
    await driver.push([job()], null);
    await soon(woken.promise, "the bell");
  }
}, { own: ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"] });

test("Redis: how long the client takes to load is no part of the deadline", async () => {
  let isLoaded = false;
  const load = async (): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, 1000));
    isLoaded = true;
  };
  const connect = (): Promise<RedisConnection> => {
    assert.equal(isLoaded, true);
    return Promise.resolve({ sendCommand: () => Promise.resolve("PONG") });
  };
  const link = new Link(connect, 200, undefined, load);
  assert.equal(await link.call(["PING"]), "PONG");
  link.close();
});

// Clients that an app brings

/**
 * A small client of an app's own. `byLine` reads a bulk string up to the next CR LF, and takes one that begins as a line of
 * the protocol does for that, as `@iuioiua/redis` does.
 */
async function client(port: number, byLine: boolean): Promise<RedisConnection> {
  const socket: Socket = connect(port, "127.0.0.1");
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", () => resolve());
    socket.once("error", reject);
  });
  const waiting: { resolve(reply: unknown): void; reject(error: unknown): void }[] = [];
  let buffer = Buffer.alloc(0);
  const INCOMPLETE = Symbol();
  const read = (at: number): [reply: unknown, end: number] | typeof INCOMPLETE => {
    const end = buffer.indexOf("\r\n", at);
    if (end < 0) return INCOMPLETE;
    const line = buffer.toString("utf8", at + 1, end);
    const start = end + 2;
    switch (String.fromCharCode(buffer[at])) {
      case ":":
        return [Number(line), start];
      case "+":
        return [line, start];
      case "-":
        return [new Error(line), start];
      case "$": {
        const length = Number(line);
        if (length < 0) return [null, start];
        if (byLine) {
          const stop = buffer.indexOf("\r\n", start);
          if (stop < 0) return INCOMPLETE;
          if (/[-+:$*_#,(!=%~>|]/.test(String.fromCharCode(buffer[start]))) return read(start);
          return [buffer.toString("utf8", start, stop), stop + 2];
        }
        if (buffer.length < start + length + 2) return INCOMPLETE;
        return [buffer.toString("utf8", start, start + length), start + length + 2];
      }
      case "*": {
        const items: unknown[] = [];
        let next = start;
        for (let index = 0; index < Number(line); index++) {
          const item = read(next);
          if (item === INCOMPLETE) return INCOMPLETE;
          items.push(item[0]);
          next = item[1];
        }
        return [Number(line) < 0 ? null : items, next];
      }
      default:
        return [new Error(`unexpected ${line}`), start];
    }
  };
  socket.on("data", (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    for (let found = read(0); buffer.length > 0 && found !== INCOMPLETE; found = read(0)) {
      buffer = buffer.subarray(found[1]);
      const call = waiting.shift();
      if (found[0] instanceof Error) call?.reject(found[0]);
      else call?.resolve(found[0]);
      if (buffer.length === 0) break;
    }
  });
  socket.on("close", () => {
    for (const call of waiting.splice(0)) call.reject(new Error("the socket was closed"));
  });
  socket.on("error", () => {});
  return {
    sendCommand(command) {
      const parts = command.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
      socket.write(`*${command.length}\r\n${parts.join("")}`);
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    close: () => void socket.destroy(),
  };
}

onRedis("a client of the app's own does all of it", async (place) => {
  const { server, prefix, lines } = place;
  const runs: string[] = [];
  const done = Promise.withResolvers<void>();
  const queue = new Queue({
    database: ":memory:",
    connection: "redis",
    redis: { prefix, connect: () => client(server.port, false) },
    env: {},
    jobs: {
      a: (job: Job<string>) => {
        runs.push(job.payload);
        if (runs.length === 2) done.resolve();
      },
    },
    log: { warn: (line) => void lines.push(line), error: (line) => void lines.push(line) },
  });
  const workers = queue.start(2);
  await queue.dispatch("a", "with\r\nline breaks\r and 😀");
  await queue.dispatch("a", "plain");
  await soon(done.promise, "both to run");
  await workers.stop();
  await queue.close();
  assert.deepEqual(runs.sort(), ["plain", "with\r\nline breaks\r and 😀"]);
  assert.deepEqual(lines, []);
});

onRedis("a client that loses carriage returns is found out, and never gets one", async (place) => {
  const { server, prefix, lines } = place;
  const good = place.driver();
  const poor = place.driver({ connect: () => client(server.port, true) });
  await assert.rejects(
    poor.push([job({ name: "mail", payload: "a\r\nb" })], T),
    isRefusal("PAYLOAD", '"mail" has a carriage return', "`connect`"),
  );
  assert.match(lines.join("\n"), /loses carriage returns/);
  await assert.rejects(poor.pushOnce([{ ...job({ payload: "\r" }), key: "k" }], T), isRefusal("PAYLOAD"));
  await good.push(["1\r", "2", "3\r\n", "4", "5"].map((payload) => job({ payload })), T);
  await poor.push([job({ payload: "6\n" })], T);
  const mine = await take(poor, { limit: 9 });
  assert.deepEqual(mine.map(({ payload }) => payload), ["2", "4", "5", "6\n"]);
  for (const held of mine) assert.equal(await poor.complete(held), true);
  assert.deepEqual(await take(poor, { limit: 9 }), [], "the rest is left");
  const others = await take(good, { limit: 9 });
  assert.deepEqual(others.map(({ payload }) => payload), ["1\r", "3\r\n"]);
  assert.equal(await server.client.exists(`${prefix}queue:malformed`), 0);
});

onRedis("a client that reads by lines meets no name that it takes for the protocol", async (place) => {
  for (const failed of ["database", "redis"] as const) {
    const prefix = `${place.prefix}${failed}:`;
    const driver = place.driver({
      prefix,
      failed,
      connect: () => client(place.server.port, true),
    });
    const odd = { name: "-job", queue: "-1", priority: -7 };
    await driver.push([job(odd), job({ ...odd, queue: "$5", delay: 500 })], T);
    assert.deepEqual((await driver.queues()).sort(), ["$5", "-1"]);
    await driver.pause("-1");
    assert.deepEqual((await driver.controls()).paused, { all: false, queues: ["-1"] });
    await driver.resume("-1");
    assert.deepEqual(await driver.waitingNames(["-1"], 9), [{ queue: "-1", names: ["-job"] }]);
    const [held] = await take(driver, { queues: ["-1"] });
    assert.deepEqual([held.name, held.priority], ["-job", -7]);
    await driver.fail(held, { error: "-ERR", stack: null, failedAt: T });
    const counts = await driver.counts(T, LEASE);
    assert.deepEqual(counts.map(({ queue, delayed, failed }) => [queue, delayed, failed]), [
      ["$5", 1, 0],
      ["-1", 0, 1],
    ]);
    assert.equal((await driver.failed({ after: null, limit: 9 }))[0].error, "-ERR");
    assert.equal((await driver.retry({ after: null, limit: 9 }, T)).length, 1);
  }
});

onRedis("a client that loses carriage returns is not starved by a line full of them", async (place) => {
  const poor = place.driver({ connect: () => client(place.server.port, true) });
  await place.driver().push(Array.from({ length: 500 }, () => job({ payload: "\r" })), T);
  await poor.push([job({ payload: "mine" })], T);
  const got: string[] = [];
  for (let round = 0; round < 50 && got.length === 0; round++) {
    got.push(...(await take(poor, { limit: 20 })).map(({ payload }) => payload));
  }
  assert.deepEqual(got, ["mine"]);
});

onRedis("a client of the app's own that cannot connect is no client that loses returns", async (place) => {
  let broken = true;
  const driver = place.driver({
    connect: () => broken ? Promise.reject(new Error("no route")) : client(place.server.port, false),
  });
  await assert.rejects(driver.push([job({ payload: "\r" })], T), isRefusal("REDIS", "no route"));
  broken = false;
  await driver.push([job({ payload: "\r" })], T);
  assert.equal((await take(driver))[0].payload, "\r");
});
