/** What operators tell workers, on Redis: what it costs, its bounds, and what the server does meanwhile. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { type Job, Queue, QueueError, type Reservation } from "@x/queue";
import { RedisDriver } from "../drivers/redis.ts";
import { job, T, take } from "./conformance.ts";
import {
  commandsDuring,
  endShared,
  lookedAtBell,
  newPrefix,
  noRedis,
  RedisServer,
  sharedServer,
} from "./redis_server.ts";
import { until } from "./until.ts";

after(endShared);

interface Place {
  readonly server: RedisServer;
  readonly prefix: string;
  driver(): RedisDriver;
}

/** A test on the shared server, or on one of its own where it changes or measures the server. */
function onRedis(sentence: string, run: (place: Place) => Promise<void>, own = false): void {
  test(`Redis: ${sentence}`, { skip: noRedis }, async () => {
    const server = own ? await RedisServer.start() : await sharedServer();
    const prefix = newPrefix();
    const drivers: RedisDriver[] = [];
    try {
      await run({
        server,
        prefix,
        driver() {
          const driver = new RedisDriver({ url: server.url, prefix, database: ":memory:", failed: "redis" });
          drivers.push(driver);
          return driver;
        },
      });
    } finally {
      for (const driver of drivers) await driver.close();
      if (own) await server.stop();
    }
  });
}

onRedis("what workers are told costs an idle one no command, and a busy one one a second", async (place) => {
  const { server, prefix } = place;
  const options = {
    database: ":memory:",
    connection: "redis",
    redis: { url: server.url, prefix },
    env: {},
  } as const;
  const operator = new Queue({ ...options, jobs: { hang: {} } });
  // What remains after a while: a pause, a restart, a cancelled job that its worker does not leave.
  await operator.pause("other");
  await operator.restart();
  const driver = place.driver();
  await driver.push([job({ name: "hang" })], null);
  const [lost] = await take(driver, { now: null });
  await operator.cancel(lost.id);

  const stopping = new AbortController();
  const open = Promise.withResolvers<void>();
  const began = Promise.withResolvers<void>();
  const queue = new Queue({
    ...options,
    jobs: {
      hang: (_: Job) => {
        began.resolve();
        return open.promise;
      },
    },
  });
  const working = queue.work({ signal: stopping.signal, concurrency: 2 });
  await until(() => lookedAtBell(server), "it to rest");
  const idle = await commandsDuring(server, 3);
  assert.ok(
    idle.sent <= 1.2 * idle.seconds + 1.5,
    `${idle.sent} commands of an idle worker in ${idle.seconds} s`,
  );
  await queue.dispatch("hang");
  await began.promise;
  const busy = await commandsDuring(server, 3);
  assert.ok(
    busy.sent <= 2.2 * busy.seconds + 2.5,
    `${busy.sent} commands of a worker with a job and a free slot in ${busy.seconds} s`,
  );
  stopping.abort();
  open.resolve();
  await working;
  await queue.close();
  await operator.close();
}, true);

onRedis("a job is found wherever others move it meanwhile", async (place) => {
  const [pusher, taker, canceller] = [place.driver(), place.driver(), place.driver()];
  const ids = await pusher.push(Array.from({ length: 600 }, (_, at) => job({ payload: String(at) })), T);
  const taken = new Set<string>();
  const taking = (async () => {
    for (let got = -1; got !== 0;) {
      const some = await take(taker, { limit: 7 });
      for (const { id } of some) taken.add(id);
      got = some.length;
    }
  })();
  const doomed = ids.filter((_, at) => at % 20 === 3);
  const outcomes = await Promise.all(doomed.map(async (id) => [id, await canceller.cancel(id)] as const));
  await taking;
  for (const [id, outcome] of outcomes) {
    assert.equal(outcome, taken.has(id) ? "cancelling" : "removed", `job ${ids.indexOf(id)}`);
  }
  assert.deepEqual(
    ids.filter((id) => !taken.has(id)),
    outcomes.filter(([, outcome]) => outcome === "removed").map(([id]) => id),
    "no other one is gone",
  );
});

onRedis(
  "an id of the original's that looks like a pattern is taken by its letters",
  async ({ server, prefix, driver }) => {
    const lines = ["0 a*b one\n{}", "0 a?b two\n{}", "0 aXb three\n{}", "0 [a] four\n{}", "0 a\\b five\n{}"];
    await server.client.rpush(`${prefix}queue:jobs`, ...lines);
    await server.client.zadd(`${prefix}queue:delayed`, ...lines.flatMap((line) => [T, `${line} later`]));
    const ours = driver();
    assert.equal(await ours.cancel("a*b"), "removed");
    assert.equal(await ours.cancel("a*b"), "removed", "the delayed one, of the same id");
    assert.equal(await ours.cancel("a*b"), null);
    for (const id of ["[a]", "a\\b"]) {
      assert.deepEqual([await ours.cancel(id), await ours.cancel(id), await ours.cancel(id)], [
        "removed",
        "removed",
        null,
      ]);
    }
    const left = await take(ours, { limit: 9, now: T - 1 });
    assert.deepEqual(left.map(({ id }) => id), ["a?b", "aXb"]);
    assert.equal(await ours.cancel("a?b"), "removed", "the delayed one first");
    assert.equal(await ours.cancel("a?b"), "cancelling");
    assert.deepEqual((await ours.controls()).cancelled, ["a?b"]);
  },
);

onRedis(
  "marks of jobs that nobody met end after a week, and are 10,000 at most",
  async ({ server, prefix, driver }) => {
    const [ours, other] = [driver(), driver()];
    await ours.push([job(), job()], null);
    const [first, second] = await take(ours, { limit: 2, now: null });
    assert.equal(await ours.cancel(first.id), "cancelling");
    const key = `${prefix}queue:cancelled`;
    const at = Number(await server.client.zscore(key, first.id));
    await server.client.zadd(key, at - 7 * 86_400 - 1, first.id);
    assert.deepEqual((await other.controls()).cancelled, [], "over a week old");
    assert.equal(await ours.cancel(second.id), "cancelling");
    assert.deepEqual(await server.client.zrange(key, "0", "-1"), [second.id], "the old one is gone");
    await server.client.zrem(key, second.id);
    const marks = Array.from({ length: 10_000 }, (_, mark) => [at, `mark ${mark}`]).flat();
    await server.client.zadd(key, ...marks);
    await assert.rejects(ours.cancel(first.id), (error) => {
      assert.ok(error instanceof QueueError);
      assert.equal(error.code, "REDIS");
      assert.match(error.message, /10000 cancelled jobs wait for their workers/);
      return true;
    });
    assert.equal(await server.client.zcard(key), 10_000);
  },
);

onRedis("a retry tells workers nothing, unless the job was cancelled", async ({ server, prefix, driver }) => {
  const ours = driver();
  const revision = () => server.client.get(`${prefix}queue:controls`);
  const failAndRetry = async (held: Reservation): Promise<void> => {
    await ours.fail(held, { error: "x", stack: null, failedAt: T });
    await ours.retry({ ids: [held.id] }, T);
  };
  await ours.restart();
  const before = await revision();
  await ours.push([job()], T);
  await failAndRetry((await take(ours))[0]);
  assert.equal(await revision(), before);
  const [held] = await take(ours);
  // By another process, so that this one does not know when it fails the job.
  assert.equal(await driver().cancel(held.id), "cancelling");
  const marked = await revision();
  await failAndRetry(held);
  assert.notEqual(await revision(), marked);
  assert.equal((await take(ours))[0].cancelled, undefined);
});

onRedis("a progress ends by itself, unless its lease is renewed", async ({ server, prefix, driver }) => {
  const ours = driver();
  const ids = await ours.push([job(), job(), job()], T);
  const [held, lost, silent] = await take(ours, { limit: 3 });
  const keys = ids.map((id) => `${prefix}queue:progress:${id}`);
  const life = 3_600_000;
  for (const one of [held, lost]) await ours.report(one, { fraction: 0.5, note: null }, life - 0.5, T);
  const left = await server.client.pttl(keys[0]);
  assert.ok(left > life / 2 && left <= life, `${left} ms`);
  for (const key of keys) await server.client.pexpire(key, life / 2);
  await driver().complete(lost);
  assert.deepEqual(await ours.extend([held, lost, silent], T), [lost]);
  const [renewed, ...others] = await Promise.all(keys.map((key) => server.client.pttl(key)));
  assert.ok(renewed > life / 2, `${renewed} ms`);
  assert.ok(others[0] <= life / 2, "that of a job that is held no more is left alone");
  assert.equal(others[1], -2, "who said nothing has none");
});

onRedis("after FLUSHALL nothing is paused, and a driver notices", async ({ server, driver }) => {
  const ours = driver();
  await ours.push([job()], T);
  await ours.pause(null);
  assert.deepEqual(await take(ours), []);
  await server.client.flushall();
  await ours.push([job({ payload: "new" })], T);
  assert.deepEqual((await take(ours)).map(({ payload }) => payload), ["new"]);
  // Once more as many changes as before: it is no counter that is compared.
  await ours.push([job({ payload: "held" })], T);
  await ours.pause(null);
  assert.deepEqual(await take(ours), []);
}, true);

onRedis(
  "a Redis that is out of memory can be paused, told to restart, and rid of jobs",
  async ({ server, driver }) => {
    const ours = driver();
    const [ready, delayed] = await ours.push([job(), job({ delay: 9 }), job({ queue: "held" })], T);
    const [held] = await take(ours, { queues: ["held"] });
    const { restarts } = await ours.controls();
    await server.client.config("SET", "maxmemory", "1");
    await assert.rejects(ours.push([job()], T), /OOM/);
    assert.equal(await ours.pause("mail"), true);
    assert.equal(await ours.resume("mail"), true);
    await ours.restart();
    assert.equal(await ours.cancel(ready), "removed");
    assert.equal(await ours.cancel(delayed), "removed");
    assert.equal(await ours.cancel(held.id), "cancelling");
    assert.deepEqual(await ours.controls(), {
      restarts: restarts + 1,
      paused: { all: false, queues: [] },
      cancelled: [held.id],
    });
    await assert.rejects(ours.report(held, { fraction: 0.5, note: null }, 1000, T), /OOM/);
    assert.equal(await ours.complete(held), true);
    assert.deepEqual((await ours.controls()).cancelled, []);
  },
  true,
);

onRedis("reserving goes on while jobs are cancelled all the time", async ({ driver }) => {
  const [ours, other] = [driver(), driver()];
  await ours.push(Array.from({ length: 300 }, () => job()), T);
  const held = await take(ours, { limit: 100 });
  let over = false;
  const cancelling = (async () => {
    for (let at = 0; !over; at++) await other.cancel(held[at % 100].id);
  })();
  let got = 0;
  for (let tries = 0; got < 200 && tries < 500; tries++) got += (await take(ours, { limit: 50 })).length;
  over = true;
  await cancelling;
  assert.equal(got, 200);
});
