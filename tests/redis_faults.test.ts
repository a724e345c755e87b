import assert from "node:assert/strict";
import { join } from "node:path";
import { setImmediate } from "node:timers";
import { test } from "node:test";
import { type Job, Queue, QueueError, Snooze } from "@x/queue";
import type { Reservation } from "../core/driver.ts";
import { RedisDriver } from "../drivers/redis.ts";
import { ioredis } from "../drivers/redis/connection.ts";
import { job, take } from "./conformance.ts";
import { inFolder } from "./folder.ts";
import { withPrograms } from "./process.ts";
import { noRedis, RedisServer } from "./redis_server.ts";
import { SilentProxy } from "./silent_proxy.ts";
import { soon, until } from "./until.ts";

/** A short lease, and a short deadline of a call, for faults that these end, in milliseconds. */
const LEASE = 1500;
const DEADLINE = 400;

/** So long that a machine which stands still for a while loses no lease and no reply, where none may be lost. */
const CALM = { lease: 120_000, deadline: 60_000 };

/** A queue that is dispatched to and worked on while a fault happens. */
class Load {
  /** What was accepted, and what became of dispatches that were not. */
  readonly accepted = new Set<string>();
  readonly refused: QueueError[] = [];
  /** How often each payload ran. */
  readonly runs = new Map<string, number>();
  readonly lines: string[] = [];
  readonly queue: Queue;
  #count = 0;
  #dispatching: Promise<void> | null = null;
  #stopping = new AbortController();
  #working: Promise<void>;
  #lost = 0;

  constructor(url: string, { lease, deadline } = { lease: LEASE, deadline: DEADLINE }) {
    const log = {
      warn: (line: string) => void this.lines.push(line),
      error: (line: string) => void this.lines.push(line),
    };
    const driver = new RedisDriver({ url, database: ":memory:", deadline, log });
    this.queue = new Queue({
      driver,
      retryAfter: lease,
      log,
      env: {},
      jobs: {
        run: async (job: Job<string>) => {
          await new Promise((resolve) => setTimeout(resolve, 1));
          this.runs.set(job.payload, (this.runs.get(job.payload) ?? 0) + 1);
        },
      },
    });
    this.#working = this.queue.work({
      signal: this.#stopping.signal,
      concurrency: 10,
      onEvent: ({ type }) => void (type === "lost" && this.#lost++),
    });
  }

  /** Dispatches on and on, `width` at a time. */
  begin(width = 3): void {
    const stopped = new AbortController();
    const one = async (): Promise<void> => {
      while (!stopped.signal.aborted) {
        const payload = `job ${this.#count++}`;
        try {
          await this.queue.dispatch("run", payload);
          this.accepted.add(payload);
        } catch (error) {
          assert.ok(error instanceof QueueError && error.code === "REDIS", String(error));
          assert.notEqual(error.cause, undefined);
          this.refused.push(error);
        }
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    };
    this.#dispatching = Promise.all(Array.from({ length: width }, one)).then(() => {});
    this.pause = async () => {
      stopped.abort();
      await this.#dispatching;
    };
  }

  /** Dispatches no more. */
  pause: () => Promise<void> = () => Promise.resolve();

  /** Waits until `more` further dispatches were accepted. */
  async acceptsMore(more = 20): Promise<void> {
    const end = this.accepted.size + more;
    await until(() => this.accepted.size >= end, `${more} more to be accepted (${this.lines.at(-1)})`);
  }

  /** Waits until all that was accepted ran, and ends. */
  async end(): Promise<void> {
    await this.pause();
    try {
      await until(
        () => [...this.accepted].every((payload) => this.runs.has(payload)),
        `all of ${this.accepted.size} accepted jobs to run (${this.runs.size} did; ${this.lines.at(-1)})`,
      );
      await until(async () => await this.queue.waiting() === 0, "the store to be empty");
    } finally {
      this.#stopping.abort();
      await this.#working;
      await this.queue.close();
    }
  }

  /** How many ran more than once. */
  get twice(): number {
    return [...this.runs.values()].filter((runs) => runs > 1).length;
  }
}

/** A test with a server of its own, of which it may do what it likes. */
function withServer(
  sentence: string,
  run: (server: RedisServer) => Promise<void>,
  ...options: readonly string[]
): void {
  test(`Redis: ${sentence}`, { skip: noRedis }, async () => {
    const server = await RedisServer.start(...options);
    try {
      await run(server);
    } finally {
      await server.stop();
    }
  });
}

function isCut(error: unknown): boolean {
  assert.ok(error instanceof QueueError && error.code === "REDIS", String(error));
  assert.match(error.message, /the reply of Redis was lost, so the job may have been stored \(.*`id`/);
  assert.notEqual(error.cause, undefined);
  return true;
}

withServer("what a dispatch cannot finish has stored nothing, and can be repeated", async (server) => {
  const log = { warn: () => {}, error: () => {} };
  const queue = new Queue({
    driver: new RedisDriver({ url: server.url, database: ":memory:", prefix: "app:", log }),
    jobs: { run: { queue: "other" } },
    log,
    env: {},
  });
  try {
    for (const options of [{}, { id: "order 7" }]) {
      for (const delay of [0, 60_000]) {
        for (const key of ["bell", "lanes", `other:0:${delay === 0 ? "jobs" : "delayed"}`]) {
          await server.client.flushall();
          await server.client.set(`app:queue:${key}`, "of a wrong type");
          await assert.rejects(queue.dispatch("run", "x", { ...options, delay }), /WRONGTYPE/);
          await server.client.del(`app:queue:${key}`);
          const what = JSON.stringify({ ...options, delay, key });
          assert.equal(await queue.waiting(), 0, what);
          assert.equal((await queue.dispatch("run", "x", { ...options, delay })).duplicate, undefined, what);
          assert.equal(await queue.waiting(), 1, what);
        }
      }
    }
  } finally {
    await queue.close();
  }
});

withServer(
  "of jobs for several lanes, none is stored where one of the lanes cannot take its own",
  async (server) => {
    const log = { warn: () => {}, error: () => {} };
    const queue = new Queue({
      driver: new RedisDriver({ url: server.url, database: ":memory:", prefix: "app:", log }),
      jobs: { run: {} },
      log,
      env: {},
    });
    try {
      for (const keys of [["order 7", "order 8"], [undefined, undefined]]) {
        for (const delay of [0, 60_000]) {
          await server.client.flushall();
          const key = `app:queue:second:0:${delay === 0 ? "jobs" : "delayed"}`;
          await server.client.set(key, "of a wrong type");
          const both = ["first", "second"].map((queue, at) =>
            ["run", "x", { queue, delay, id: keys[at] }] as const
          );
          await assert.rejects(queue.dispatchMany(both), new RegExp(`WRONGTYPE.*${key}`));
          await server.client.del(key);
          assert.equal(await queue.waiting(), 0, `${delay} ${keys}`);
          await queue.dispatchMany(both);
          assert.equal(await queue.waiting(), 2, `${delay} ${keys}`);
        }
      }
    } finally {
      await queue.close();
    }
  },
);

withServer("a worker that is killed loses no job", async (server) => {
  await inFolder((folder) =>
    withPrograms(async (start) => {
      const redis = { url: server.url, prefix: "app:" };
      const settings = {
        database: join(folder, "app.sqlite"),
        connection: "redis" as const,
        redis,
        retryAfter: 1000,
      };
      const queue = new Queue({ ...settings, env: {}, jobs: { record: {} } });
      const jobs = Array.from({ length: 600 }, (_, index) => ["record", String(index)] as ["record", string]);
      await queue.dispatchMany(jobs);
      const ran = new Map<string, number>();
      for (let round = 0; round < 2; round++) {
        const worker = start("worker", { ...settings, concurrency: 5 });
        await worker.says("ran", 30);
        await worker.end("SIGKILL");
        for (const [, payload, attempt] of worker.all("ran")) ran.set(payload as string, attempt as number);
      }
      const last = start("worker", { ...settings, concurrency: 20 });
      await until(async () => await queue.waiting() === 0, "all jobs to be done");
      assert.equal(await last.end(), 0);
      const second = last.all("ran");
      for (const [, payload, attempt] of second) ran.set(payload as string, attempt as number);
      assert.equal(ran.size, 600);
      // Five ran, and five more may have been done but not settled, in each that was killed.
      assert.ok(
        [...ran.values()].filter((attempt) => attempt > 1).length <= 20,
        "only what was held runs again",
      );
      assert.deepEqual(await queue.failed(), []);
      await queue.close();
    })
  );
});

for (const fsync of ["everysec", "always"]) {
  withServer(
    `it is killed and started again, with appendfsync ${fsync}`,
    async (server) => {
      const load = new Load(server.url);
      load.begin();
      await load.acceptsMore();
      await server.signal("SIGKILL");
      await until(
        () => load.refused.some(({ message }) => /could not be reached/.test(message)),
        "a refusal",
      );
      await server.start();
      await load.acceptsMore();
      await load.end();
    },
    "--appendonly",
    "yes",
    "--appendfsync",
    fsync,
  );
}

withServer("it stands still for longer than the deadline", async (server) => {
  const load = new Load(server.url);
  load.begin();
  await load.acceptsMore();
  await server.signal("SIGSTOP");
  await until(() => load.refused.length >= 3, "dispatches to be refused");
  await server.signal("SIGCONT");
  await load.acceptsMore();
  await load.end();
});

withServer(
  "a process that stood still for longer than the deadline reads what came meanwhile",
  async (server) => {
    const driver = new RedisDriver({ url: server.url, database: ":memory:", deadline: 1500 });
    try {
      await until(
        () => driver.push([job()], null).then(() => true, () => false),
        "a push within the deadline",
      );
      await server.signal("SIGSTOP");
      const pushing = driver.push([job()], null);
      // It is sent, and cannot be answered yet.
      for (let turns = 0; turns < 10; turns++) await new Promise((resolve) => setImmediate(resolve));
      void server.signal("SIGCONT");
      for (const end = performance.now() + 2500; performance.now() < end;);
      assert.equal((await pushing).length, 1);
    } finally {
      await driver.close();
    }
  },
);

withServer("its scripts are flushed", async (server) => {
  const load = new Load(server.url, CALM);
  load.begin();
  for (let round = 0; round < 5; round++) {
    await load.acceptsMore(10);
    await server.client.script("FLUSH");
  }
  await load.acceptsMore();
  await load.end();
  assert.deepEqual([load.refused.length, load.twice, load.lines], [0, 0, []]);
});

withServer("all its data is flushed: the worker goes on with what comes after", async (server) => {
  const driver = new RedisDriver({ url: server.url, database: ":memory:" });
  const ran: string[] = [];
  const queue = new Queue({
    driver,
    env: {},
    jobs: { run: { queue: "own", priority: 3, handle: (job: Job<string>) => void ran.push(job.payload) } },
  });
  const stopping = new AbortController();
  const working = queue.work({ signal: stopping.signal });
  await queue.dispatch("run", "1");
  await until(() => ran.length === 1, "the first to run");
  await server.client.flushall();
  await queue.dispatch("run", "2");
  await until(() => ran.length === 2, "the second to run");
  stopping.abort();
  await working;
  assert.equal(await queue.waiting(), 0);
  await queue.close();
});

withServer("its clients are killed", async (server) => {
  const load = new Load(server.url);
  load.begin();
  for (let round = 0; round < 5; round++) {
    await load.acceptsMore(10);
    await server.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
  }
  await load.acceptsMore();
  await load.end();
});

withServer("its clients are paused for longer than the deadline", async (server) => {
  const load = new Load(server.url);
  load.begin();
  await load.acceptsMore();
  await server.client.call("CLIENT", "PAUSE", String(2 * DEADLINE), "ALL");
  await until(() => load.refused.length >= 1, "a dispatch to be refused");
  await load.acceptsMore();
  await load.end();
});

withServer("the connection is open and nothing comes through any more", async (server) => {
  const proxy = await SilentProxy.start(server.port);
  const load = new Load(proxy.url);
  try {
    load.begin();
    await load.acceptsMore();
    proxy.silent = true;
    await until(() => load.refused.length >= 3, "dispatches to be refused");
    proxy.silent = false;
    await load.acceptsMore();
    await load.end();
  } finally {
    await proxy.stop();
  }
});

withServer(
  "it is full: what is stored is worked off, and more is taken when there is room",
  async (server) => {
    const load = new Load(server.url, CALM);
    await load.queue.dispatchMany(
      Array.from({ length: 50 }, (_, index) => ["run", `delayed ${index}`, { delay: 50 }]),
    );
    load.begin();
    await load.acceptsMore();
    await server.client.config("SET", "maxmemory", "1mb");
    await until(() => load.refused.length >= 5, "dispatches to be refused");
    assert.match(load.refused.at(-1)!.message, /Redis refused: OOM/);
    await load.pause();
    await until(
      () => [...load.accepted].every((payload) => load.runs.has(payload)) && load.runs.has("delayed 49"),
      "all that was accepted to run while it is full",
    );
    await until(async () => await load.queue.waiting() === 0, "the store to be empty");
    await server.client.config("SET", "maxmemory", "0");
    load.begin();
    await load.acceptsMore();
    await load.end();
    assert.equal(load.twice, 0);
  },
);

withServer("it becomes a replica, and a primary again", async (server) => {
  const load = new Load(server.url);
  load.begin();
  await load.acceptsMore();
  await server.client.call("REPLICAOF", "127.0.0.1", "1");
  await until(() => load.refused.some(({ message }) => /READONLY/.test(message)), "a refusal");
  await server.client.call("REPLICAOF", "NO", "ONE");
  await load.acceptsMore();
  await load.end();
});

withServer("a dispatch whose reply was lost may be repeated with its id", async (server) => {
  const proxy = await SilentProxy.start(server.port);
  // A worker's own reply may be lost beside it: then the job runs after its lease.
  const load = new Load(proxy.url, { ...CALM, lease: LEASE });
  try {
    // The server knows the script from here on: what is cut off next has run.
    await load.queue.dispatch("run", "first", { id: "first" });
    proxy.swallowing = true;
    const dispatch = assert.rejects(load.queue.dispatch("run", "once", { id: "k" }), isCut);
    await until(() => server.client.exists("queue:id:k"), "it to be stored");
    proxy.cut();
    await dispatch;
    proxy.swallowing = false;
    assert.equal((await load.queue.dispatch("run", "once", { id: "k" })).duplicate, true);
    await until(() => load.runs.has("once"), "it to run");
    await load.end();
    assert.equal(load.runs.get("once"), 1);
  } finally {
    await proxy.stop();
  }
});

/** Waits until drivers whose connection was cut have noticed that, and have another: an answer came by it. */
async function reached(...drivers: RedisDriver[]): Promise<void> {
  for (const driver of drivers) {
    await until(() => driver.waiting().then(() => true, () => false), "Redis to be reached again");
  }
}

withServer(
  "a settlement that never arrived, and whose lease ended meanwhile, is known to be lost",
  async (server) => {
    const proxy = await SilentProxy.start(server.port);
    const open = (url: string, failed: "database" | "redis", prefix: string): RedisDriver =>
      new RedisDriver({ url, database: ":memory:", deadline: CALM.deadline, failed, prefix });
    const cut = { database: open(proxy.url, "database", ""), redis: open(proxy.url, "redis", "r:") };
    const other = { database: open(server.url, "database", ""), redis: open(server.url, "redis", "r:") };
    const why = { error: "x", stack: null, failedAt: Date.now() };
    try {
      await cut.database.push([job({ payload: "done" }), job({ payload: "failed" })], null);
      await cut.redis.push([job({ payload: "failed" })], null);
      const [done, failed] = await take(cut.database, { limit: 2, now: null });
      const [alsoFailed] = await take(cut.redis, { now: null });
      const act: (() => Promise<boolean>)[] = [
        () => cut.database.complete(done),
        () => cut.database.fail(failed, why),
        () => cut.redis.fail(alsoFailed, why),
      ];
      for (const one of act) {
        await reached(cut.database, cut.redis);
        // The first part of failing in the database arrives; what removes the job from Redis does not.
        await assert.rejects(proxy.losing("silent", one), (error: QueueError) => error.code === "REDIS");
      }
      const taken = await take(other.database, { limit: 2, now: null, retryAfter: 1 });
      const [alsoTaken] = await take(other.redis, { now: null, retryAfter: 1 });
      assert.deepEqual([...taken, alsoTaken].map(({ attempt }) => attempt), [2, 2, 2]);
      await reached(cut.database, cut.redis);
      for (const one of act) assert.equal(await one(), false, "another holds it");
      for (const driver of [cut.database, cut.redis]) {
        assert.deepEqual(await driver.failed({ after: null, limit: 9 }), [], "and it has not failed");
      }
      for (const held of taken) assert.equal(await other.database.complete(held), true);
      assert.equal(await other.redis.complete(alsoTaken), true);
    } finally {
      for (const driver of [...Object.values(cut), ...Object.values(other)]) await driver.close();
      await proxy.stop();
    }
  },
);

withServer(
  "a settlement that never arrived, and whose job was snoozed by another meanwhile, is known to be lost",
  async (server) => {
    const proxy = await SilentProxy.start(server.port);
    const { deadline } = CALM;
    const cut = new RedisDriver({ url: proxy.url, database: ":memory:", deadline });
    const other = new RedisDriver({ url: server.url, database: ":memory:", deadline });
    const snooze = { delay: 60_000, counted: false };
    try {
      await cut.push([job({ payload: "done" }), job({ payload: "failed" })], null);
      const [done, failed] = await take(cut, { limit: 2, now: null });
      const act: (() => Promise<boolean>)[] = [
        () => cut.complete(done),
        () => cut.fail(failed, { error: "x", stack: null, failedAt: Date.now() }),
      ];
      for (const one of act) {
        await reached(cut);
        await assert.rejects(proxy.losing("silent", one), (error: QueueError) => error.code === "REDIS");
      }
      for (let snoozes = 1, later = Date.now() + 1000; snoozes <= 2; snoozes++, later += 61_000) {
        const taken = await take(other, { limit: 2, now: later, retryAfter: 1 });
        assert.deepEqual(taken.map(({ attempt }) => attempt), [2, 2]);
        for (const held of taken) assert.equal(await other.release(held, snooze, later), true);
      }
      await reached(cut);
      for (const one of act) assert.equal(await one(), false, "it waits to run again");
      assert.deepEqual(await cut.failed({ after: null, limit: 9 }), [], "and it has not failed");
      assert.equal(await other.waiting(), 2);
    } finally {
      await cut.close();
      await other.close();
      await proxy.stop();
    }
  },
);

withServer("a settlement whose reply was lost is made again, and holds", async (server) => {
  const proxy = await SilentProxy.start(server.port);
  const { deadline } = CALM;
  const driver = new RedisDriver({ url: proxy.url, database: ":memory:", deadline });
  const inRedis = new RedisDriver({
    url: proxy.url,
    database: ":memory:",
    deadline,
    prefix: "r:",
    failed: "redis",
  });
  const why = { error: "x", stack: null, failedAt: Date.now() };
  try {
    // The server knows the scripts from here on: what is cut off next has run.
    await driver.push([job(), job()], null);
    await inRedis.push([job()], null);
    const [one, two] = await take(driver, { limit: 2, now: null });
    await driver.complete(one);
    await driver.release(two, { delay: 60_000, counted: true }, null);
    await inRedis.fail((await take(inRedis, { now: null }))[0], why);
    await inRedis.forget({ after: null, limit: 9 });
    await driver.push([job(), job(), job()], null);
    await inRedis.push([job(), job()], null);
    const [done, released, failed] = await take(driver, { limit: 3, now: null });
    const [alsoFailed, kept] = await take(inRedis, { limit: 2, now: null });
    const act: (() => Promise<boolean>)[] = [
      () => driver.complete(done),
      () => driver.release(released, { delay: 60_000, counted: true }, null),
      () => inRedis.fail(alsoFailed, why),
    ];
    for (const one of act) {
      await reached(driver, inRedis);
      await assert.rejects(proxy.losing("swallowing", one), /the reply of Redis was lost/);
    }
    await reached(driver, inRedis);
    for (const one of act) assert.equal(await one(), true);
    for (const one of act) assert.equal(await one(), false, "the second time it is settled");
    assert.equal(await driver.fail(failed, why), true);
    assert.equal((await inRedis.failed({ after: null, limit: 9 })).length, 1, "once");
    // What was handed back cannot be told from the next reservation: it is not tried again.
    const handBack = () => inRedis.release(kept, { delay: null, counted: false }, null);
    await assert.rejects(proxy.losing("swallowing", handBack));
    assert.equal(await handBack(), false);
    assert.equal((await take(inRedis, { now: null }))[0].attempt, 1);
  } finally {
    await driver.close();
    await inRedis.close();
    await proxy.stop();
  }
});

withServer("a failure into the database survives each step that is cut", async (server) => {
  const proxy = await SilentProxy.start(server.port);
  const driver = new RedisDriver({ url: proxy.url, database: ":memory:", deadline: CALM.deadline });
  const why = { error: "x", stack: null, failedAt: Date.now() };
  try {
    await driver.push([job()], null);
    const [held] = await take(driver, { now: null });
    proxy.cut();
    await assert.rejects(proxy.losing("swallowing", () => driver.fail(held, why)));
    assert.equal(await driver.fail(held, why), true);
    const [row, ...more] = await driver.failed({ after: null, limit: 9 });
    assert.deepEqual([row.error, more], ["x", []]);
    assert.deepEqual(await driver.counts(null, LEASE), [
      { queue: "default", ready: 0, delayed: 0, reserved: 0, failed: 1, oldest: null },
    ]);
    // A stale worker's record is taken back, and the one of the worker that holds the job stays.
    await driver.push([job()], null);
    const [stale] = await take(driver, { now: null });
    const [holder] = await take(driver, { now: Date.now() + 60_000, retryAfter: 1000 });
    assert.equal(await driver.fail(holder, { ...why, error: "the holder's" }), true);
    assert.equal(await driver.fail(stale, { ...why, error: "stale" }), false);
    const errors = (await driver.failed({ after: null, limit: 9 })).map(({ error }) => error);
    assert.deepEqual(errors, ["x", "the holder's"]);
  } finally {
    await driver.close();
    await proxy.stop();
  }
});

withServer("a failure whose job is taken over while it is recorded is taken back", async (server) => {
  const { url } = server;
  const other = new RedisDriver({ url, database: ":memory:", deadline: CALM.deadline });
  let takeOver: (() => Promise<unknown>) | null = null;
  const connect = async () => {
    const connection = await ioredis({ url }, CALM.deadline)();
    return {
      async sendCommand(words: string[]) {
        // What removes the job comes after what records it.
        if (words[0] === "ZREM") await takeOver?.();
        return connection.sendCommand(words);
      },
      close: () => connection.close?.(),
    };
  };
  const driver = new RedisDriver({ connect, database: ":memory:", deadline: CALM.deadline });
  try {
    await driver.push([job()], null);
    const [stale] = await take(driver, { now: null });
    let taken: readonly Reservation[] = [];
    takeOver = async () => taken = await take(other, { now: Date.now() + 60_000, retryAfter: 1000 });
    assert.equal(await driver.fail(stale, { error: "x", stack: null, failedAt: Date.now() }), false);
    assert.equal(taken.length, 1, "it was taken over");
    assert.deepEqual(await driver.failed({ after: null, limit: 9 }), []);
    assert.equal(await other.complete(taken[0]), true);
  } finally {
    await driver.close();
    await other.close();
  }
});

withServer(
  "a snooze that never reached the server is tried again",
  async (server) => {
    const lines: string[] = [];
    const log = { warn: () => {}, error: (line: string) => void lines.push(line) };
    const driver = new RedisDriver({ url: server.url, database: ":memory:", log });
    const attempts: number[] = [];
    const down = Promise.withResolvers<void>();
    const nap = async (job: Job): Promise<void> => {
      attempts.push(job.attempt);
      if (attempts.length > 1) return;
      await down.promise;
      throw new Snooze(10);
    };
    const queue = new Queue({ driver, env: {}, log, jobs: { nap } });
    const stopping = new AbortController();
    try {
      await queue.dispatch("nap");
      const working = queue.work({
        signal: stopping.signal,
        onEvent: ({ type }) => type === "completed" && stopping.abort(),
      });
      await until(() => attempts.length === 1, "the job to run");
      await server.signal("SIGKILL");
      await until(
        () => queue.waiting().then(() => false, ({ message }) => message.includes("nothing was changed")),
        "the driver to notice",
      );
      down.resolve();
      await until(() => lines.some((line) => line.includes("while storing the outcome")), "a refusal");
      await server.start();
      await soon(working, "the worker to end");
      assert.deepEqual(attempts, [1, 1], "no attempt was spent");
    } finally {
      await queue.close();
    }
  },
  "--appendonly",
  "yes",
  "--appendfsync",
  "always",
);

withServer("closing does not wait for long for calls under way", async (server) => {
  const proxy = await SilentProxy.start(server.port);
  const driver = new RedisDriver({ url: proxy.url, database: ":memory:", deadline: 60_000 });
  await driver.push([job()], null);
  proxy.silent = true;
  const pushing = assert.rejects(driver.push([job()], null), isCut);
  await soon(driver.close(), "the driver to close");
  await pushing;
  await proxy.stop();
});

withServer("closing while it cannot be reached ends once the calls under way have", async (server) => {
  const proxy = await SilentProxy.start(server.port);
  const driver = new RedisDriver({ url: proxy.url, database: ":memory:", deadline: DEADLINE });
  await until(() => driver.push([job()], null).then(() => true, () => false), "a push within the deadline");
  const listener = driver.listen(() => true);
  listener.rest();
  proxy.silent = true;
  const pushing = assert.rejects(driver.push([job()], null), isCut);
  await soon(driver.close(), "the driver to close");
  await pushing;
  await proxy.stop();
  await assert.rejects(driver.push([job()], null), (error) => (error as QueueError).code === "CLOSED");
});
