/** What must not take a worker down, nor a job with it: odd errors, logs and listeners that fail, clocks that jump. */
import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { test } from "node:test";
import { type Job, Queue, QueueError } from "@x/queue";
import { take } from "./conformance.ts";
import { changed, Gate, inSession, numbered } from "./session.ts";
import { soon, until } from "./until.ts";

const silent = { warn() {}, error() {} };

/** Errors that cannot be turned into text in the usual way. */
const odd: Record<string, () => unknown> = {
  "a message that is no text": () => Object.assign(new Error(), { message: { deep: 1 } }),
  "a message that throws": () =>
    Object.defineProperty(new Error("x"), "message", {
      get() {
        throw new Error("no message");
      },
    }),
  "a stack that throws": () =>
    Object.defineProperty(new Error("x"), "stack", {
      get() {
        throw new Error("no stack");
      },
    }),
  "a cause that throws": () =>
    Object.defineProperty(new Error("x"), "cause", {
      get() {
        throw new Error("no cause");
      },
    }),
  "a name that is a symbol": () => Object.assign(new Error("x"), { name: Symbol("odd") }),
  "an object without a prototype": () => Object.create(null),
  "a cycle": () => {
    const cycle: Record<string, unknown> = {};
    return cycle.self = cycle;
  },
  "a proxy that refuses all": () =>
    new Proxy({}, {
      get() {
        throw new Error("refused");
      },
    }),
};

for (const [what, make] of Object.entries(odd)) {
  inSession(`a handler that throws ${what} has failed, and frees its slot`, async ({ queue, work }) => {
    const jobs = await queue({
      odd: {
        tries: 1,
        handle: () => {
          throw make();
        },
      },
    });
    await jobs.dispatch("odd");
    await jobs.dispatch("odd");
    const worker = await work(jobs, { stopWhenEmpty: true });
    await worker.ended;
    const failed = await jobs.failed();
    assert.equal(failed.length, 2);
    for (const { error } of failed) assert.notEqual(error, "");
  });
}

for (const [when, open] of [["before it was opened", false], ["once it is open", true]] as const) {
  test(`a queue that is closed right after its workers were started ends them, ${when}`, async () => {
    const queue = new Queue({ database: ":memory:", env: {}, log: silent, jobs: { none: () => {} } });
    if (open) await queue.open();
    const workers = queue.start(2);
    const working = queue.work({ concurrency: 2 }).catch((error) => error);
    await soon(queue.close(), "the queue to close");
    await soon(workers.stop(), "the workers to stop");
    const error = await soon(working, "the worker to end");
    assert.equal(error === undefined || error.code === "CLOSED", true, String(error));
  });
}

inSession("a single run is waited for by close()", async ({ queue, clock }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatch("gate");
  const running = jobs.workOnce();
  await clock.until(() => gate.inside === 1, "it to run");
  const closing = jobs.close();
  gate.open();
  assert.equal(await running, true, "its outcome was stored");
  await closing;
});

inSession("a worker whose driver was closed by another ends", async (session) => {
  const driver = session.driver(":memory:");
  const jobs = await session.queue({ none: () => {} }, { driver });
  const worker = await session.work(jobs);
  await driver.close();
  await session.clock.advance(1000);
  await worker.ended;
});

inSession(
  "a worker that is told to stop by its last job ends, whatever that job dispatched",
  async (session) => {
    const stop = new AbortController();
    const jobs: Queue = await session.queue({
      last: () => {
        stop.abort();
        void jobs.dispatch("other");
      },
      other: () => {},
    });
    await jobs.dispatch("last");
    const worker = await session.work(jobs, { maxJobs: 1, signal: stop.signal });
    await session.clock.until(() => worker.over, "the worker to end");
  },
);

test("a handler runs in the context of its worker, not of whoever dispatched or ran before", async () => {
  const request = new AsyncLocalStorage<string>();
  const seen: [string, string | undefined][] = [];
  const queue = new Queue({
    database: ":memory:",
    env: {},
    jobs: {
      look: async (job: Job) => {
        seen.push([job.payload, request.getStore()]);
        request.enterWith(`left by ${job.payload}`);
        await Promise.resolve();
      },
    },
  });
  await queue.open();
  const workers = request.run("worker", () => queue.start(1));
  for (const tenant of ["A", "B"]) {
    await request.run(`tenant ${tenant}`, () => queue.dispatch("look", tenant));
    await until(() => seen.length > 0 && seen.at(-1)![0] === tenant, "it to run");
  }
  await request.run("tenant C", () => queue.dispatchMany([["look", "C"], ["look", "D"]]));
  await until(() => seen.length === 4, "them to run");
  await workers.stop();
  await queue.close();
  assert.deepEqual(seen, ["A", "B", "C", "D"].map((tenant) => [tenant, "worker"]));
});

for (const stopWhenEmpty of [true, false]) {
  const which = stopWhenEmpty ? "that stops when there is nothing left" : "that goes on";
  test(`listeners and meters of a worker ${which} hear in its context, not in that of an app's calls`, async () => {
    const request = new AsyncLocalStorage<string>();
    const seen = new Set<string>();
    const note = (what: string) => seen.add(`${what} in ${request.getStore()}`);
    const waiting: (() => void)[] = [];
    const jobs = { wait: () => new Promise<void>((resolve) => void waiting.push(resolve)) };
    for (const heard of [true, false]) {
      const queue = new Queue({ database: ":memory:", env: {}, jobs });
      if (heard) {
        for (const event of ["reserved", "started", "completed"] as const) {
          queue.on(event, () => note(event));
        }
      } else {queue.measure({
          dispatched() {},
          reserved: () => note("meter: reserved"),
          ended: () => note("meter: ended"),
        });}
      await queue.dispatchMany(Array.from({ length: 40 }, () => ["wait"] as const));
      const stopping = new AbortController();
      const working = request.run(
        "the worker",
        () => queue.work({ concurrency: 2, stopWhenEmpty, signal: stopping.signal }),
      );
      for (let done = 0; done < 40; done += 2) {
        await until(() => waiting.length === 2, "two to wait");
        // What the app asks for comes first in a turn, in which jobs end then.
        request.run("a request", () => void queue.counts());
        for (const resolve of waiting.splice(0)) resolve();
      }
      if (!stopWhenEmpty) stopping.abort();
      await working;
      await queue.close();
    }
    assert.deepEqual([...seen].sort(), [
      "completed in the worker",
      "meter: ended in the worker",
      "meter: reserved in the worker",
      "reserved in the worker",
      "started in the worker",
    ]);
  });
}

test("a log that throws takes no job down", async () => {
  const log = {
    warn() {
      throw new Error("the log is full");
    },
    error() {
      throw new Error("the log is full");
    },
  };
  const shown = console.error;
  const lines: string[] = [];
  console.error = (line) => void lines.push(String(line));
  try {
    const jobs = { bad: { tries: 2, backoff: 0, handle: () => Promise.reject(new Error("no")) } };
    const queue = new Queue({ database: ":memory:", env: {}, log, jobs });
    await queue.dispatch("bad");
    await soon(queue.work({ stopWhenEmpty: true }), "the worker to end");
    assert.equal((await queue.failed()).length, 1);
    await queue.close();
  } finally {
    console.error = shown;
  }
  assert.equal(lines.length, 2);
  for (const line of lines) {
    assert.match(line, /^queue: job bad failed .*: no \(and the log failed: the log is full\)$/);
  }
});

inSession("a listener that rejects is logged, and changes nothing", async (session) => {
  const jobs = await session.queue({ good: () => {} });
  await jobs.dispatch("good");
  const worker = await session.work(jobs, {
    stopWhenEmpty: true,
    onEvent: () => {},
  });
  await worker.ended;
  await jobs.dispatch("good");
  await jobs.work({ stopWhenEmpty: true, onEvent: () => Promise.reject(new Error("cannot bear it")) });
  assert.equal(await jobs.waiting(), 0);
  assert.deepEqual(session.lines, [
    "error queue: a listener of started events threw: cannot bear it",
    "error queue: a listener of completed events threw: cannot bear it",
  ]);
});

for (
  const [what, options] of Object.entries({
    "a log without methods": { log: {} },
    "a log that is no object": { log: 7 },
    "a driver that is none": { driver: {} },
    "a driver and a database": { driver: { reserve() {} }, database: ":memory:" },
  })
) {
  test(`${what} is refused at once`, () => {
    assert.throws(
      () => new Queue({ env: {}, jobs: {}, ...options } as unknown as ConstructorParameters<typeof Queue>[0]),
      (error) => error instanceof QueueError && error.code === "CONFIG",
    );
  });
}

for (
  const [name, value] of Object.entries({
    signal: {},
    forceSignal: "now",
    onEvent: 7,
    stopWhenEmpty: "yes",
  })
) {
  test(`work() refuses a ${name} that is none`, async () => {
    const queue = new Queue({ database: ":memory:", env: {}, jobs: {} });
    await assert.rejects(
      queue.work({ [name]: value }),
      (error) => error instanceof QueueError && error.code === "CONFIG" && error.message.includes(name),
    );
    await queue.close();
  });
}

inSession("after a jump of the clock a worker goes on holding what it runs", async (session) => {
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle });
  await jobs.dispatch("gate");
  const worker = await session.work(jobs, { concurrency: 2 });
  const now = Date.now;
  try {
    // The machine was suspended: time has passed, and no timer has fired.
    Date.now = () => now() + 600_000;
    await jobs.dispatch("gate", "next");
    await session.clock.until(() => gate.came.length === 2, "the next to run");
    await session.clock.advance(1000);
    assert.deepEqual(gate.payloads, ["null", "next"], "it runs once");
    gate.open(2);
    await worker.stop();
    assert.deepEqual(worker.events.filter(({ type }) => type === "lost"), []);
  } finally {
    Date.now = now;
  }
});

inSession("a clock that is set back does not prolong the wait after a store error", async (session) => {
  let fails = 1;
  const driver = session.driver(":memory:");
  const jobs = await session.queue({ good: () => {} }, {
    driver: changed(driver, {
      reserve: (request) =>
        fails-- > 0 ? Promise.reject(new QueueError("DB", "not now")) : driver.reserve(request),
    }),
  });
  await jobs.dispatch("good");
  const worker = await session.work(jobs);
  const now = Date.now;
  try {
    Date.now = () => now() - 3_600_000;
    await session.clock.advance(100);
    await session.clock.advance(1000);
    // Its time is an hour ahead of the clock now: what is asked of the store says so.
    assert.equal(fails < 0, true, "it has looked again");
  } finally {
    Date.now = now;
  }
  await worker.stop();
});

inSession("a prefetched job that waited past its lease has spent no attempt", async (session) => {
  const ran: string[] = [];
  const now = Date.now;
  let jump = 0;
  Date.now = () => now() + jump;
  try {
    const jobs = await session.queue({
      quick: (job: Job) => {
        ran.push(job.payload);
        // As a handler that blocks the event loop for longer than a lease.
        if (job.payload === "20") jump += 5000;
      },
    }, { tries: 1, retryAfter: 1000 });
    await jobs.dispatchMany(Array.from({ length: 60 }, (_, index) => ["quick", String(index)] as const));
    const worker = await session.work(jobs, { stopWhenEmpty: true, prefetch: 20 });
    await session.clock.until(() => worker.over, "the worker to end");
    assert.deepEqual(await jobs.failed(), []);
    assert.equal(new Set(ran).size, 60, "all ran");
  } finally {
    Date.now = now;
  }
});

inSession("a prefetched job that another worker took meanwhile is not started here", async (session) => {
  const ran: string[] = [];
  const now = Date.now;
  let jump = 0;
  Date.now = () => now() + jump;
  try {
    const other = session.driver(session.file);
    let taken: string[] = [];
    const jobs = await session.queue({
      quick: async (job: Job) => {
        ran.push(job.payload);
        if (job.payload !== "20") return;
        // The event loop was blocked for longer than a lease, and somebody was waiting for that.
        jump += 5000;
        taken = (await take(other, { limit: 100, now: null, retryAfter: 1000 })).map(({ payload }) =>
          payload
        );
      },
    }, { database: session.file, tries: 1, retryAfter: 1000 });
    await jobs.dispatchMany(Array.from({ length: 60 }, (_, index) => ["quick", String(index)] as const));
    const worker = await session.work(jobs, { stopWhenEmpty: true, prefetch: 20 });
    await session.clock.until(() => worker.over, "the worker to end");
    assert.equal(taken.length, 40, "with the one that ran");
    assert.deepEqual(ran, numbered(21), "none of those taken ran here, too");
  } finally {
    Date.now = now;
  }
});

inSession(
  "leases are renewed each ten seconds at least, for workers whose leases are shorter",
  async (session) => {
    const gate = new Gate();
    const database = session.file;
    const jobs = await session.queue({ gate: gate.handle }, { database, retryAfter: { hours: 1 } });
    const others = await session.queue({ gate: gate.handle }, { database, retryAfter: { seconds: 30 } });
    await jobs.dispatch("gate");
    const worker = await session.work(jobs);
    const other = await session.work(others);
    await session.clock.advance(120_000);
    assert.equal(gate.came.length, 1, "nobody took it");
    gate.open();
    await worker.stop();
    await other.stop();
  },
);
