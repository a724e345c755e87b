/** One attempt: what its handler gets, its timeout, its lease, and what becomes of what it throws. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type Job, QueueError } from "@x/queue";
import { take } from "./conformance.ts";
import { after } from "../core/timer.ts";
import { changed, Gate, inSession, numbered, type Session } from "./session.ts";

/** What the events of a worker say, without what differs from run to run. */
function told(worker: Awaited<ReturnType<Session["work"]>>): string[] {
  return worker.events.map(({ type, job, error }) =>
    `${job.name} ${job.attempt} ${type}${error === undefined ? "" : `: ${error}`}`
  );
}

function codeOf({ reason }: AbortSignal): unknown {
  return reason instanceof QueueError && reason.code;
}

// What a handler gets

inSession("a handler gets its job, and the payload as text and as data", async ({ queue }) => {
  const seen: unknown[] = [];
  const jobs = await queue({
    mail: {
      handle: (job: Job<unknown>) => {
        const { id, name, payload, data, attempt, tries, queue, priority } = job;
        seen.push({ id, name, payload, data, attempt, tries, queue, priority });
        assert.equal(job.signal.aborted, false);
        assert.equal(job.data, data, "it is parsed once");
        if (attempt === 1) throw new Error("again");
      },
      queue: "post",
      priority: 3,
      tries: 4,
    },
  });
  const { id } = await jobs.dispatch("mail", { to: ["a"] });
  const now = Date.now();
  assert.equal(await jobs.workOnce(now), true);
  assert.equal(await jobs.workOnce(now + 10_000), true);
  const expected = {
    id,
    name: "mail",
    payload: '{"to":["a"]}',
    data: { to: ["a"] },
    tries: 4,
    queue: "post",
    priority: 3,
  };
  assert.deepEqual(seen, [{ ...expected, attempt: 1 }, { ...expected, attempt: 2 }]);
});

inSession("two jobs of one dispatch do not share their data", async ({ queue, work }) => {
  const seen: unknown[] = [];
  const jobs = await queue({
    spoil: ({ data }: Job<{ list: number[] }>) => {
      seen.push([...data.list]);
      data.list.push(2);
    },
  });
  const payload = { list: [1] };
  await jobs.dispatchMany([["spoil", payload], ["spoil", payload]]);
  await (await work(jobs, { stopWhenEmpty: true })).ended;
  assert.deepEqual(seen, [[1], [1]]);
  assert.deepEqual(payload, { list: [1] });
});

inSession(
  "what a handler returns is waited for, if it can be, and ignored",
  async ({ clock, queue, work }) => {
    const thenable = Promise.withResolvers<void>();
    const jobs = await queue({
      value: () => new Error("returned, not thrown"),
      // deno-lint-ignore no-explicit-any -- no promise, but something that can be awaited
      thenable: (): any => ({ then: (done: () => void) => void thenable.promise.then(done) }),
    });
    const worker = await work(jobs);
    await jobs.dispatch("value");
    await jobs.dispatch("thenable");
    await clock.rest();
    assert.deepEqual(told(worker), ["value 1 started", "value 1 completed", "thenable 1 started"]);
    thenable.resolve();
    await clock.until(() => worker.events.length === 4, "its end");
    assert.deepEqual(told(worker).at(-1), "thenable 1 completed");
  },
);

const silent = new Error();
const named = new RangeError();
const nameless = Object.assign(new Error("why"), { name: "" });
const hostile = {
  toJSON(): never {
    throw new Error("no");
  },
  toString(): never {
    throw new Error("no");
  },
};
/** What an immutable draft is once it is finished: nothing can be asked of it, not even its class. */
const revoked = Proxy.revocable(new Error("gone"), {});
revoked.revoke();
const cyclic: Record<string, unknown> = {};
cyclic.itself = cyclic;

for (
  const [what, thrown, error] of [
    ["an error", new Error("upstream 503"), "upstream 503"],
    ["an error of a kind", new TypeError("no such thing"), "TypeError: no such thing"],
    ["an error without a message", silent, "Error"],
    ["an error of a kind without a message", named, "RangeError"],
    ["an error without a name", nameless, "why"],
    ["one of ours", new QueueError("DB", "disk full"), "queue: disk full"],
    ["a string", "kaboom", "kaboom"],
    ["nothing", undefined, "threw undefined"],
    ["null", null, "threw null"],
    ["a number", 404, "threw 404"],
    ["an object", { code: 404 }, 'threw {"code":404}'],
    ["a symbol", Symbol("why"), "threw Symbol(why)"],
    ["a BigInt", 1n, /^threw /],
    ["a function", () => {}, /^threw /],
    ["a cycle", cyclic, /^threw /],
    ["what cannot be shown", hostile, /^threw /],
    ["a revoked proxy", revoked.proxy, /^threw /],
    ["lines", new Error("one\ntwo"), "one\ntwo"],
    ["text that no store takes", new Error("a\0b\ud800c"), "a\ufffdb\ufffdc"],
    ["a long text", new Error("x".repeat(1_000_000)), /^x{16384}…$/],
  ] as const
) {
  inSession(`a handler that throws ${what} has failed`, async ({ queue, work }) => {
    const jobs = await queue({
      now: () => {
        throw thrown;
      },
      later: () => Promise.reject(thrown),
    }, { tries: 1 });
    await jobs.dispatchMany([["now"], ["later"]]);
    await (await work(jobs, { stopWhenEmpty: true })).ended;
    const failed = await jobs.failed();
    assert.deepEqual(failed.map(({ name }) => name), ["now", "later"]);
    for (const one of failed) {
      if (typeof error === "string") assert.equal(one.error, error);
      else assert.match(one.error, error);
    }
  });
}

inSession("the stack of a failure is kept, with those of its causes", async ({ queue, work }) => {
  const jobs = await queue({
    bad: () => {
      throw new Error("cannot send", { cause: new TypeError("no address", { cause: "a text" }) });
    },
    text: () => {
      throw "just a text";
    },
  }, { tries: 1 });
  await jobs.dispatchMany([["bad"], ["text"]]);
  await (await work(jobs, { stopWhenEmpty: true })).ended;
  const [bad, text] = await jobs.failed();
  assert.match(
    bad.stack!,
    /cannot send[^]*attempt\.test\.ts[^]*caused by: TypeError: no address[^]*attempt\.test\.ts/,
  );
  assert.equal(text.stack, null);
});

// Timeouts

/** A handler that ends, in the given way, `after` milliseconds or once its signal was aborted. */
function polite(how: "returns" | "throws"): (job: Job) => Promise<void> {
  return (job) =>
    new Promise((resolve, reject) =>
      job.signal.addEventListener(
        "abort",
        () => how === "returns" ? resolve() : reject(new Error("I was told to")),
      )
    );
}

for (const how of ["returns", "throws"] as const) {
  inSession(`an attempt whose time is up has failed, whether its handler then ${how}`, async (session) => {
    const { clock, queue, work, lines } = session;
    let signal: AbortSignal | undefined;
    const jobs = await queue({
      slow: {
        timeout: { seconds: 1.5 },
        tries: 2,
        handle: (job: Job) => {
          signal = job.signal;
          return polite(how)(job);
        },
      },
    });
    await jobs.dispatch("slow");
    const worker = await work(jobs);
    await clock.advance(1499);
    assert.equal(signal!.aborted, false);
    await clock.advance(1);
    assert.equal(codeOf(signal!), "TIMEOUT");
    assert.equal(signal!.reason.message, "queue: the attempt timed out after 1.5 s");
    assert.deepEqual(told(worker), ["slow 1 started", "slow 1 released: timed out after 1.5 s"]);
    await clock.advance(11_500);
    assert.deepEqual(told(worker).slice(2), ["slow 2 started", "slow 2 failed: timed out after 1.5 s"]);
    assert.deepEqual((await jobs.failed()).map(({ error }) => error), ["timed out after 1.5 s"]);
    assert.deepEqual(lines, [
      "warn queue: job slow failed (attempt 1), retrying: timed out after 1.5 s",
      "error queue: job slow failed after 2 attempts: timed out after 1.5 s",
    ]);
  });
}

inSession("a slot stays taken after a timeout until its handler returns", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: { handle: gate.handle, timeout: 100 } }, { tries: 1 });
  await jobs.dispatchMany(numbered(2).map((payload) => ["gate", payload]));
  const worker = await work(jobs);
  await clock.advance(4000);
  assert.equal(codeOf(gate.came[0].signal), "TIMEOUT");
  assert.deepEqual(gate.payloads, ["0"]);
  assert.equal(worker.events.length, 1, "the attempt has not ended");
  gate.open();
  await clock.rest();
  assert.deepEqual(gate.payloads, ["0", "1"]);
  assert.deepEqual(told(worker), [
    "gate 1 started",
    "gate 1 failed: timed out after 0.1 s",
    "gate 1 started",
  ]);
});

inSession(
  "a handler that ignores its timeout for 5 s has failed, and keeps its slot",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: { handle: gate.handle, timeout: 100 } }, { tries: 1 });
    await jobs.dispatchMany(numbered(2).map((payload) => ["gate", payload]));
    const worker = await work(jobs);
    await clock.advance(5099);
    assert.equal(worker.events.length, 1);
    await clock.advance(1);
    const failure = "gate 1 failed: timed out after 0.1 s";
    assert.deepEqual(told(worker), ["gate 1 started", failure]);
    assert.equal((await jobs.failed()).length, 1);
    await clock.advance(600_000);
    assert.deepEqual(gate.payloads, ["0"], "its slot is taken");
    gate.open();
    await clock.rest();
    assert.deepEqual(gate.payloads, ["0", "1"]);
    assert.deepEqual(
      told(worker),
      ["gate 1 started", failure, "gate 1 started"],
      "what it did then counts for nothing",
    );
  },
);

inSession(
  "a worker that stops waits for a handler that ignores its timeout",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: { handle: gate.handle, timeout: 100 } });
    await jobs.dispatch("gate");
    const worker = await work(jobs);
    await clock.advance(5100);
    const stopping = worker.stop();
    await clock.rest();
    assert.equal(worker.over, false);
    gate.open();
    await stopping;
  },
);

inSession("a handler that ends in time is not timed out", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({
    gate: { handle: gate.handle, timeout: 100 },
    now: { handle: () => {}, timeout: 100 },
  });
  await jobs.dispatchMany([["gate"], ["now"]]);
  const worker = await work(jobs, { concurrency: 2 });
  await clock.advance(99);
  gate.open();
  await clock.advance(10_000);
  assert.equal(gate.came[0].signal.aborted, false);
  assert.deepEqual(told(worker).sort(), [
    "gate 1 completed",
    "gate 1 started",
    "now 1 completed",
    "now 1 started",
  ]);
});

inSession("the queue's timeout is that of every job type without one", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ plain: gate.handle, own: { handle: gate.handle, timeout: { minutes: 1 } } }, {
    timeout: { seconds: 1 },
  });
  await jobs.dispatchMany([["plain"], ["own"]]);
  await work(jobs, { concurrency: 2 });
  await clock.advance(59_999);
  assert.deepEqual(gate.came.map(({ signal }) => signal.aborted), [true, false]);
  await clock.advance(1);
  assert.equal(codeOf(gate.came[1].signal), "TIMEOUT");
});

inSession("what waits longer than the runtime's timers can, 24.8 days, waits", async ({ clock }) => {
  const day = 86_400_000;
  const off: string[] = [];
  after(60 * day, () => off.push("in 60 days"));
  const cancel = after(60 * day, () => off.push("never"));
  await clock.advance(40 * day);
  cancel();
  await clock.advance(20 * day - 1);
  assert.deepEqual(off, []);
  await clock.advance(1);
  assert.deepEqual(off, ["in 60 days"]);
});

inSession("without a timeout a handler may take days", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle }, { retryAfter: { hours: 10 } });
  await jobs.dispatch("gate");
  const worker = await work(jobs);
  await clock.advance(100 * 60_000);
  gate.open();
  await clock.rest();
  assert.deepEqual(told(worker), ["gate 1 started", "gate 1 completed"]);
});

inSession(
  "a signal that is asked for late is aborted already, with the first reason",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: { handle: gate.handle, timeout: 100 } });
    await jobs.dispatch("gate");
    const worker = await work(jobs);
    await clock.advance(200);
    const forced = worker.force();
    await clock.advance(2000);
    await forced;
    assert.equal(codeOf(gate.came[0].signal), "TIMEOUT");
  },
);

inSession("workOnce keeps the timeout, too", async ({ clock, queue }) => {
  const jobs = await queue({ slow: { handle: polite("throws"), timeout: 100 } }, { tries: 1 });
  await jobs.dispatch("slow");
  const working = jobs.workOnce();
  await clock.advance(100);
  assert.equal(await working, true);
  assert.deepEqual((await jobs.failed()).map(({ error }) => error), ["timed out after 0.1 s"]);
});

// Leases

const LEASE = 300;

/** A worker that runs one job, behind a gate, on a lease of 300 ms; and a second driver on the same store. */
async function holding(session: Session, options: Parameters<Session["work"]>[1] = {}, database?: string) {
  const db = database ?? new DatabaseSync(":memory:");
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle }, { database: db, retryAfter: LEASE, tries: 5 });
  await jobs.dispatch("gate", "p");
  const worker = await session.work(jobs, options);
  assert.equal(gate.inside, 1);
  return { gate, jobs, worker, other: session.driver(db) };
}

inSession("a lease is renewed for as long as the handler runs", async (session) => {
  const { clock } = session;
  const { gate, worker, other } = await holding(session);
  for (let passed = 0; passed < 3000; passed += 10) {
    await clock.advance(10);
    assert.deepEqual(await take(other, { now: clock.now, retryAfter: LEASE }), [], `after ${passed} ms`);
  }
  gate.open();
  await clock.rest();
  assert.deepEqual(told(worker), ["gate 1 started", "gate 1 completed"]);
});

inSession("a lease is renewed although the store is locked for a while", async (session) => {
  const { clock, file } = session;
  const { gate, worker, other } = await holding(session, {}, file);
  const lock = new DatabaseSync(file);
  for (let round = 0; round < 5; round++) {
    lock.exec("BEGIN IMMEDIATE");
    // Beyond the time at which it would renew.
    for (let passed = 0; passed < 150; passed++) await clock.advance(1);
    lock.exec("COMMIT");
    for (let passed = 0; passed < 50; passed++) await clock.advance(1);
    assert.deepEqual(await take(other, { now: clock.now, retryAfter: LEASE }), [], `in round ${round}`);
  }
  lock.close();
  gate.open();
  await clock.advance(50);
  assert.deepEqual(told(worker), ["gate 1 started", "gate 1 completed"]);
});

inSession("a renewal that the store refuses is tried again in time", async (session) => {
  const { clock, lines } = session;
  const db = new DatabaseSync(":memory:");
  const gate = new Gate();
  let refusals = 0;
  const driver = session.driver(db);
  const jobs = await session.queue({ gate: gate.handle }, {
    driver: changed(driver, {
      extend: (held, now) =>
        ++refusals % 6 === 0 ? driver.extend(held, now) : Promise.reject(new QueueError("DB", "not now")),
    }),
    retryAfter: LEASE,
  });
  await jobs.dispatch("gate", "p");
  await session.work(jobs);
  const other = session.driver(db);
  for (let passed = 0; passed < 2000; passed += 10) {
    await clock.advance(10);
    assert.deepEqual(await take(other, { now: clock.now, retryAfter: LEASE }), [], `after ${passed} ms`);
  }
  assert.equal(gate.came[0].signal.aborted, false);
  assert.equal(lines[0], "error queue: not now (while renewing 1 leases)");
});

inSession("the leases of many jobs are renewed, also of those that start later", async (session) => {
  const { clock } = session;
  const db = new DatabaseSync(":memory:");
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle }, { database: db, retryAfter: LEASE });
  await session.work(jobs, { concurrency: 40 });
  const other = session.driver(db);
  for (let passed = 0; passed < 40; passed++) {
    await jobs.dispatch("gate");
    await clock.advance(23);
    assert.deepEqual(
      await take(other, { now: clock.now, retryAfter: LEASE }),
      [],
      `after ${passed} dispatches`,
    );
  }
  for (let passed = 0; passed < 1000; passed += 23) {
    await clock.advance(23);
    assert.deepEqual(
      await take(other, { now: clock.now, retryAfter: LEASE }),
      [],
      `${passed} ms after the last`,
    );
  }
  assert.equal(gate.inside, 40);
});

inSession("a handler whose lease was lost sees why, and its outcome is not stored", async (session) => {
  const { clock, lines } = session;
  const { gate, worker, other } = await holding(session);
  // Another worker, whose clock is ahead.
  const [held] = await take(other, { now: clock.now + LEASE, retryAfter: LEASE });
  assert.equal(held.attempt, 2);
  assert.equal(gate.came[0].signal.aborted, false);
  await clock.advance(LEASE / 3);
  const { signal, id } = gate.came[0];
  assert.equal(codeOf(signal), "LEASE_LOST");
  assert.equal(
    signal.reason.message,
    `queue: the lease of job gate (id ${id}) was lost, as it was not renewed in time: ` +
      "another worker may run it now, and this attempt's outcome will not be stored",
  );
  gate.open();
  await clock.rest();
  assert.deepEqual(told(worker), ["gate 1 started", "gate 1 lost"]);
  assert.equal(typeof worker.events[1].duration, "number");
  assert.deepEqual(lines, [
    `warn queue: job gate (id ${id}) lost its lease during attempt 1: the outcome was not stored`,
  ]);
  assert.equal(await other.complete(held), true, "the other holds it still");
});

inSession("a failure after the lease was lost is not stored either", async (session) => {
  const { clock } = session;
  const db = new DatabaseSync(":memory:");
  for (const tries of [1, 2]) {
    const failing = Promise.withResolvers<void>();
    const jobs = await session.queue({ bad: () => failing.promise }, {
      database: db,
      retryAfter: LEASE,
      tries,
    });
    await jobs.dispatch("bad");
    const worker = await session.work(jobs);
    const other = session.driver(db);
    const [held] = await take(other, { now: clock.now + LEASE, retryAfter: LEASE });
    failing.reject(new Error("no"));
    await clock.rest();
    assert.deepEqual(told(worker), ["bad 1 started", "bad 1 lost"]);
    assert.deepEqual(await jobs.failed(), []);
    assert.equal(await other.complete(held), true);
    await worker.stop();
  }
});

inSession("a worker goes on after a lost lease", async (session) => {
  const { clock } = session;
  const { gate, jobs, other } = await holding(session);
  await take(other, { now: clock.now + LEASE, retryAfter: LEASE });
  await clock.advance(LEASE / 3);
  gate.open();
  await jobs.dispatch("gate", "next");
  await clock.until(() => gate.inside === 1, "the next job");
  assert.equal(gate.payloads.includes("next"), true);
});

/** A worker that runs one job, behind a gate, and holds seven more that wait for its slot. */
async function prefetching(session: Session) {
  const db = new DatabaseSync(":memory:");
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle, quick: () => {} }, {
    database: db,
    retryAfter: LEASE,
  });
  await jobs.dispatchMany(numbered(40).map((payload) => ["quick", payload]));
  await jobs.dispatchMany(numbered(8).map((payload) => ["gate", payload]));
  await session.work(jobs, { prefetch: 100 });
  await session.clock.until(() => gate.inside === 1, "it to be stuck");
  await session.clock.rest();
  assert.equal((await jobs.counts())[0].reserved, 8);
  return { gate, jobs, other: session.driver(db) };
}

inSession("a prefetched job that another worker took is not started", async (session) => {
  const { clock } = session;
  const { gate, jobs, other } = await prefetching(session);
  const [running, ...waiting] = await take(other, { limit: 8, now: clock.now + LEASE, retryAfter: LEASE });
  assert.deepEqual([running.payload, waiting.length], ["0", 7]);
  await jobs.dispatch("gate", "nobody's");
  await clock.advance(LEASE / 3);
  gate.open();
  await clock.rest();
  assert.deepEqual(gate.payloads, ["0", "nobody's"]);
});

inSession("prefetched jobs are renewed while they wait", async (session) => {
  const { clock } = session;
  const { other } = await prefetching(session);
  for (let passed = 0; passed < 1000; passed += 10) {
    await clock.advance(10);
    assert.deepEqual(await take(other, { now: clock.now, retryAfter: LEASE }), [], `after ${passed} ms`);
  }
});

inSession(
  "a job whose outcome cannot be stored for long is kept from other workers meanwhile",
  async (session) => {
    const { clock } = session;
    const db = new DatabaseSync(":memory:");
    const runs: number[] = [];
    const driver = session.driver(db);
    let broken = true;
    const jobs = await session.queue({ once: (job: Job) => void runs.push(job.attempt) }, {
      driver: changed(driver, {
        complete: (held) => broken ? Promise.reject(new QueueError("DB", "not now")) : driver.complete(held),
      }),
      retryAfter: { seconds: 90 },
    });
    await jobs.dispatch("once", "p");
    const worker = await session.work(jobs);
    const other = session.driver(db);
    for (let passed = 0; passed < 300; passed++) {
      await clock.advance(1000);
      assert.deepEqual(await take(other, { now: clock.now, retryAfter: 90_000 }), [], `after ${passed} s`);
    }
    broken = false;
    await clock.advance(10_000);
    assert.deepEqual(told(worker), ["once 1 started", "once 1 completed"]);
    assert.deepEqual(runs, [1]);
  },
);

inSession("workOnce renews its lease while the handler runs", async (session) => {
  const { clock } = session;
  const driver = session.driver(":memory:");
  const renewed: number[] = [];
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle }, {
    driver: changed(driver, {
      extend: (held, now) => {
        renewed.push(now ?? NaN);
        return driver.extend(held, now);
      },
    }),
    retryAfter: LEASE,
  });
  clock.release();
  await jobs.dispatch("gate");
  // A present of the test's own: the renewals go by it, too.
  const now = Date.now() + 1_000_000;
  const working = jobs.workOnce(now);
  await clock.until(() => renewed.length === 3, "three renewals");
  gate.open();
  assert.equal(await working, true);
  assert.equal(renewed.every((at, index) => at > now && (index === 0 || at > renewed[index - 1])), true);
  assert.equal(await jobs.waiting(), 0);
});

inSession("workOnce says that it lost its lease", async (session) => {
  const { clock, lines } = session;
  const db = new DatabaseSync(":memory:");
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle }, { database: db });
  const { id } = await jobs.dispatch("gate");
  const working = jobs.workOnce();
  await clock.until(() => gate.inside === 1, "the job to run");
  const [held] = await take(session.driver(db), { now: clock.now + 90_000 });
  gate.open();
  assert.equal(await working, true);
  assert.deepEqual(lines, [
    `warn queue: job gate (id ${id}) lost its lease during attempt 1: the outcome was not stored`,
  ]);
  assert.equal(held.attempt, 2);
  assert.equal(await jobs.waiting(), 1);
});
