/** What a handler throws to decide itself, and the hook that follows a failure. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type Database, Discard, type Job, QueueError, Snooze } from "@x/queue";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { inFolder } from "./folder.ts";
import { changed, Gate, inSession, type Session } from "./session.ts";

/** A copy of the classes, as a jobs module with a library of its own has them. */
const copy: typeof import("../core/steering.ts") = await inFolder((folder) => {
  cpSync(fileURLToPath(new URL("../core", import.meta.url)), join(folder, "core"), { recursive: true });
  return import(pathToFileURL(join(folder, "core/steering.ts")).href);
});

function throws(error: unknown): () => never {
  return () => {
    throw error;
  };
}

// Discard

for (const [whose, Class] of [["ours", Discard], ["that of a copy of the library", copy.Discard]] as const) {
  inSession(`a discarded job has failed at once, where the class is ${whose}`, async (session) => {
    const jobs = await session.queue({
      gone: throws(new Class("no such user", { cause: new TypeError("user 7 is null") })),
    }, { tries: 3 });
    const { id } = await jobs.dispatch("gone");
    const { events } = await session.work(jobs);
    const [{ stack, failedAt: _, history: __, ...failed }] = await jobs.failed();
    assert.deepEqual(failed, {
      ...{ id, name: "gone", payload: "null", queue: "default", priority: 0 },
      ...{ attempts: 1, error: "no such user" },
    });
    assert.match(stack ?? "", /no such user[^]*caused by: TypeError: user 7 is null/);
    assert.deepEqual(events.map(({ type, error }) => [type, error]), [
      ["started", undefined],
      ["failed", "no such user"],
    ]);
    assert.deepEqual(session.lines, ["error queue: job gone was discarded (attempt 1): no such user"]);
  });
}

test("the copy is one", () => {
  assert.notEqual(copy.Discard, Discard);
  assert.equal(new copy.Discard("x") instanceof Discard, false);
});

// Snooze

for (const [whose, Class] of [["ours", Snooze], ["that of a copy of the library", copy.Snooze]] as const) {
  inSession(
    `a snoozed job runs again after its time, unspent, where the class is ${whose}`,
    async (session) => {
      const attempts: number[] = [];
      const jobs = await session.queue({
        nap: (job: Job) => {
          attempts.push(job.attempt);
          throw new Class({ minutes: 5 }, "the bank is closed");
        },
      }, { tries: 1 });
      await jobs.dispatch("nap");
      const { events } = await session.work(jobs);
      for (let nap = 1; nap <= 20; nap++) {
        assert.deepEqual(attempts, Array(nap).fill(1), `nap ${nap}`);
        await session.clock.advance(299_000);
        assert.equal(attempts.length, nap, "not before its time");
        await session.clock.advance(1000);
      }
      const { duration, ...snoozed } = events[1];
      assert.equal(typeof duration, "number");
      assert.deepEqual(snoozed, {
        type: "snoozed",
        job: events[0].job,
        error: "the bank is closed",
        retryIn: 300_000,
      });
      assert.deepEqual(await jobs.failed(), []);
      assert.deepEqual(session.lines, []);
    },
  );
}

inSession("a failure after snoozes is the first attempt's", async ({ clock, queue, work }) => {
  const seen: string[] = [];
  let closed = true;
  const jobs = await queue({
    pay: (job: Job) => {
      seen.push(`${job.attempt} of ${job.tries}`);
      if (closed) throw new Snooze(500);
      throw new Error("declined");
    },
  }, { tries: 2, backoff: 100 });
  await jobs.dispatch("pay");
  await work(jobs);
  await clock.advance(500);
  closed = false;
  await clock.advance(500);
  await clock.advance(100);
  assert.deepEqual(seen, ["1 of 2", "1 of 2", "1 of 2", "2 of 2"]);
  assert.equal((await jobs.failed())[0].attempts, 2);
});

test("a duration or a reason that cannot work is refused where it is thrown, and named", () => {
  const refusals: [() => unknown, RegExp][] = [
    [() => new Snooze(-1), /^queue: Snooze=-1: expected milliseconds/],
    [() => new Snooze(NaN), /^queue: Snooze=NaN: expected/],
    [() => new Snooze({ minute: 5 } as never), /^queue: Snooze=\{"minute":5\}: expected/],
    [() => new Snooze(undefined as never), /^queue: Snooze=undefined: expected/],
    [() => new Snooze(1, 7 as never), /^queue: Snooze reason=7: expected text$/],
    [() => new Discard(""), /^queue: Discard="": expected text that says why/],
    [() => new Discard(undefined as never), /^queue: Discard=undefined: expected text/],
  ];
  for (const [make, message] of refusals) {
    assert.throws(
      make,
      (error) => error instanceof QueueError && error.code === "CONFIG" && message.test(error.message),
    );
  }
});

inSession("what only looks like them is an error like any other", async (session) => {
  const forged = (brand: string, rest: object): object => ({
    [Symbol.for(`@x/queue.${brand}`)]: true,
    ...rest,
  });
  const odd: unknown[] = [
    forged("Snooze", { message: "x", delay: -1 }),
    forged("Snooze", { message: "x", delay: "soon" }),
    Object.assign(new Error("x"), { name: "Discard", delay: 1 }),
    new Proxy({}, { has: throws(new Error("no")), get: throws(new Error("no")) }),
  ];
  const jobs = await session.queue({ odd: (job: Job<number>) => throws(odd[job.data])() }, { tries: 2 });
  await jobs.dispatchMany(odd.map((_, index) => ["odd", index]));
  const { events } = await session.work(jobs);
  const ends = events.filter(({ type }) => type !== "started");
  assert.deepEqual(ends.map(({ type }) => type), odd.map(() => "released"));
});

// What wins

/** The outcome of a job whose handler throws `error` once its signal is aborted. */
async function atAbort(session: Session, error: unknown, timeout?: number) {
  const jobs = await session.queue({
    late: {
      timeout,
      handle: (job: Job) =>
        new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(error))),
    },
  }, { tries: 1 });
  await jobs.dispatch("late");
  const working = await session.work(jobs, { grace: 1000 });
  if (timeout !== undefined) await session.clock.advance(timeout);
  else {
    const stopping = working.stop();
    await session.clock.advance(1000);
    await stopping;
  }
  const [failed] = await jobs.failed();
  const [{ type }] = working.events.slice(-1);
  return [type, failed?.error ?? null];
}

inSession("a discard wins over the timeout, and a snooze does not", async (session) => {
  assert.deepEqual(await atAbort(session, new Discard("hopeless"), 100), ["failed", "hopeless"]);
  assert.deepEqual(await atAbort(session, new Snooze(1), 100), ["failed", "timed out after 0.1 s"]);
});

inSession("both win over a stop, and an error does not", async (session) => {
  assert.deepEqual(await atAbort(session, new Discard("hopeless")), ["failed", "hopeless"]);
  assert.deepEqual(await atAbort(session, new Snooze(60_000)), ["snoozed", null]);
  assert.deepEqual(await atAbort(session, new Error("aborted")), ["handedBack", null]);
});

inSession("what a handler decides after its lease was lost is not stored", async (session) => {
  const db = new DatabaseSync(":memory:");
  const gate = new Gate();
  const jobs = await session.queue({
    late: async (job: Job) => {
      await gate.handle(job);
      throw new Snooze(0);
    },
  }, { database: db });
  await jobs.dispatch("late");
  const { events } = await session.work(jobs);
  db.exec("UPDATE jobs SET token = token + 1");
  gate.open();
  await session.clock.rest();
  assert.deepEqual(events.map(({ type }) => type), ["started", "lost"]);
  assert.deepEqual({ ...db.prepare("SELECT attempts FROM jobs").get() }, { attempts: 1 });
});

// The hook

/** A job type that fails, and records what its hook gets. */
function hooked(seen: unknown[], error: unknown = new TypeError("no route to host")) {
  return {
    handle: throws(error),
    failed: (job: Job<{ to: string }>, error: Error) =>
      void seen.push([job.id, job.name, job.attempt, job.tries, job.data, error.message]),
  };
}

inSession("the hook runs once, after the last attempt, with the job and what is stored", async (session) => {
  const seen: unknown[] = [];
  const jobs = await session.queue({ mail: hooked(seen) }, { tries: 2 });
  const { id } = await jobs.dispatch("mail", { to: "you" });
  await session.work(jobs);
  assert.deepEqual(seen, [], "there is a try left");
  await session.clock.advance(10_000);
  const [{ error }] = await jobs.failed();
  assert.equal(error, "TypeError: no route to host");
  assert.deepEqual(seen, [[id, "mail", 2, 2, { to: "you" }, error]]);
  await session.clock.advance(600_000);
  assert.equal(seen.length, 1);
});

inSession("the hook's error has the stored stack, and what was thrown as its cause", async (session) => {
  const seen: Error[] = [];
  const thrown = new TypeError("no route to host");
  const jobs = await session.queue({
    mail: { handle: throws(thrown), failed: (_job: Job, error: Error) => void seen.push(error) },
  }, { tries: 1 });
  await jobs.dispatch("mail");
  await session.work(jobs);
  const [{ stack }] = await jobs.failed();
  assert.equal(seen[0].cause, thrown);
  assert.equal(seen[0].stack, stack);
});

inSession("when the hook runs, its job stands in failed_jobs", async (session) => {
  const seen: unknown[] = [];
  const jobs = await session.queue({
    mail: {
      handle: throws(new Error("no")),
      failed: (job: Job) => {
        const db = job.db as Database;
        const count = (table: string) =>
          Number((db.prepare(`SELECT count(*) AS n FROM ${table}`).get() as { n: number }).n);
        seen.push([count("jobs"), count("failed_jobs")]);
      },
    },
  }, { tries: 1, database: session.file });
  await jobs.dispatch("mail");
  await session.work(jobs);
  await session.clock.until(() => seen.length === 1, "the hook");
  assert.deepEqual(seen, [[0, 1]]);
});

inSession("a transaction of the hook is its own, beside jobs that end", async (session) => {
  const gate = new Gate();
  const jobs = await session.queue({
    mail: {
      handle: throws(new Error("no")),
      failed: async (job: Job) => {
        job.db.exec("BEGIN");
        await gate.handle(job);
        job.db.exec("CREATE TABLE told (id); COMMIT");
      },
    },
    other: (job: Job) => job.db.prepare("SELECT 1").get(),
  }, { tries: 1, database: session.file });
  await jobs.dispatch("mail");
  const { events } = await session.work(jobs, { concurrency: 2 });
  await session.clock.until(() => gate.inside === 1, "the hook");
  await jobs.dispatch("other");
  await session.clock.until(() => events.some(({ type }) => type === "completed"), "the other job to end");
  gate.open();
  await session.clock.rest();
  assert.deepEqual(session.lines, ["error queue: job mail failed after 1 attempts: no"]);
  const db = new DatabaseSync(session.file);
  assert.equal(db.prepare("SELECT count(*) AS n FROM sqlite_schema WHERE name = 'told'").get()?.n, 1);
  db.close();
});

inSession("a transaction that a hook leaves open is ended, and told", async (session) => {
  const jobs = await session.queue({
    mail: { handle: throws(new Error("no")), failed: (job: Job) => job.db.exec("BEGIN IMMEDIATE") },
  }, { tries: 1, database: session.file });
  await jobs.dispatch("mail");
  await session.work(jobs);
  const line =
    "warn queue: job mail (id 1), or one that ran beside it, left a transaction open on job.db: rolled back";
  await session.clock.until(() => session.lines.includes(line), "the line");
  await jobs.dispatch("mail");
});

inSession("the hook runs for a job that was discarded", async (session) => {
  const seen: unknown[] = [];
  const jobs = await session.queue({ mail: hooked(seen, new Discard("no such user")) });
  const { id } = await jobs.dispatch("mail", { to: "you" });
  await session.work(jobs);
  assert.deepEqual(seen, [[id, "mail", 1, 3, { to: "you" }, "no such user"]]);
});

inSession("the hook runs for a job whose tries were spent by workers that died", async (session) => {
  const seen: unknown[] = [];
  const db = new DatabaseSync(":memory:");
  const jobs = await session.queue({ mail: hooked(seen) }, { database: db });
  const { id } = await jobs.dispatch("mail", { to: "you" });
  db.exec("UPDATE jobs SET attempts = 3");
  await session.work(jobs);
  assert.deepEqual(seen, [[id, "mail", 4, 3, { to: "you" }, "reserved 3 times without finishing"]]);
});

inSession("a job that one worker's death spent says so in good English", async (session) => {
  const seen: unknown[] = [];
  const db = new DatabaseSync(":memory:");
  const jobs = await session.queue({ mail: hooked(seen) }, { database: db, tries: 1 });
  const { id } = await jobs.dispatch("mail");
  db.exec("UPDATE jobs SET attempts = 1");
  await session.work(jobs);
  assert.deepEqual(seen, [[id, "mail", 2, 1, null, "reserved 1 times without finishing"]]);
});

inSession("the hook runs for a job without a handler here", async (session) => {
  const seen: unknown[] = [];
  const { failed } = hooked(seen);
  const jobs = await session.queue({ mail: { failed } }, { tries: 1 });
  const { id } = await jobs.dispatch("mail", { to: "you" });
  await session.work(jobs);
  assert.deepEqual(seen, [[id, "mail", 1, 1, { to: "you" }, 'no handler named "mail"']]);
});

inSession("workOnce runs the hook, and waits for it", async (session) => {
  const gate = new Gate();
  const jobs = await session.queue({ mail: { handle: throws(new Error("no")), failed: gate.handle } }, {
    tries: 1,
  });
  await jobs.dispatch("mail");
  let over = false;
  const run = jobs.workOnce().then(() => over = true);
  await session.clock.until(() => gate.inside === 1, "the hook");
  assert.equal(over, false);
  gate.open();
  await run;
});

inSession("a hook has the job's timeout, from its own start: then its signal is aborted", async (session) => {
  const reasons: string[] = [];
  const hangs = (job: Job) =>
    new Promise<void>((resolve) =>
      job.signal.addEventListener("abort", () => {
        reasons.push(job.signal.reason.message);
        resolve();
      })
    );
  const jobs = await session.queue({
    mail: { handle: throws(new Error("no")), failed: hangs, tries: 1, timeout: { seconds: 30 } },
    quick: { handle: throws(new Error("no")), failed: () => {}, tries: 1, timeout: { seconds: 30 } },
  });
  await jobs.dispatch("quick");
  await jobs.dispatch("mail");
  const worker = await session.work(jobs, { stopWhenEmpty: true });
  await session.clock.advance(29_999);
  assert.deepEqual(reasons, []);
  await session.clock.advance(1);
  assert.deepEqual(reasons, ["queue: the failed hook timed out after 30 s"]);
  await worker.ended;
});

inSession("the hook does not run where the failure was not stored", async (session) => {
  const seen: unknown[] = [];
  const driver = changed(session.driver(":memory:"), { fail: () => Promise.resolve(false) });
  const jobs = await session.queue({ mail: hooked(seen) }, { tries: 1, driver });
  await jobs.dispatch("mail", { to: "you" });
  const { events } = await session.work(jobs);
  assert.deepEqual(events.map(({ type }) => type), ["started", "lost"]);
  assert.equal(await jobs.workOnce(Date.now() + 200_000), true);
  assert.deepEqual(seen, []);
});

inSession("the hook waits until the store has taken the failure", async (session) => {
  const seen: unknown[] = [];
  let refusals = 3;
  const driver = session.driver(":memory:");
  const jobs = await session.queue({ mail: hooked(seen) }, {
    tries: 1,
    driver: changed(driver, {
      fail: (...args) =>
        refusals-- > 0
          ? Promise.reject(new QueueError("DB", "full"))
          : SqliteDriver.prototype.fail.apply(driver, args),
    }),
  });
  await jobs.dispatch("mail", { to: "you" });
  await session.work(jobs);
  assert.deepEqual(seen, []);
  await session.clock.advance(700);
  assert.equal(seen.length, 1);
});

for (
  const [how, failed] of [
    ["throws", throws(new Error("smtp is down"))],
    ["rejects", () => Promise.reject(new Error("smtp is down"))],
  ] as const
) {
  inSession(`a hook that ${how} is logged with its job, and changes nothing`, async (session) => {
    const jobs = await session.queue({ mail: { handle: throws(new Error("no")), failed }, good: () => {} }, {
      tries: 1,
    });
    await jobs.dispatchMany([["mail"], ["good"]]);
    const { events } = await session.work(jobs);
    assert.deepEqual(session.lines, [
      "error queue: job mail failed after 1 attempts: no",
      "error queue: the failed hook of job mail (id 1) threw: smtp is down",
    ]);
    assert.deepEqual(events.map(({ type }) => type), ["started", "failed", "started", "completed"]);
    assert.equal((await jobs.failed()).length, 1);
    assert.equal(await jobs.workOnce(), false);
  });
}

inSession("a hook takes a slot", async (session) => {
  const gate = new Gate();
  const good = new Gate();
  const jobs = await session.queue({
    mail: { handle: throws(new Error("no")), failed: gate.handle },
    good: good.handle,
  }, { tries: 1 });
  await jobs.dispatch("mail");
  await session.work(jobs);
  assert.equal(gate.inside, 1);
  await jobs.dispatch("good");
  await session.clock.advance(5000);
  assert.equal(good.inside, 0);
  gate.open();
  await session.clock.rest();
  assert.equal(good.inside, 1, "the slot is free at once");
  good.open();
});

inSession("a hook has a signal of its own, which a stop aborts", async (session) => {
  const signals: AbortSignal[] = [];
  const jobs = await session.queue({
    mail: {
      timeout: 6000,
      handle: (job: Job) => new Promise<void>((done) => job.signal.addEventListener("abort", () => done())),
      failed: (job: Job) => {
        signals.push(job.signal);
        return new Promise<void>((done) => job.signal.addEventListener("abort", () => done()));
      },
    },
  }, { tries: 1 });
  await jobs.dispatch("mail");
  const worker = await session.work(jobs, { grace: 5000 });
  await session.clock.advance(6000);
  assert.equal(signals[0].aborted, false, "the timeout aborted the handler's");
  const stopping = worker.stop();
  await session.clock.advance(4999);
  assert.equal(worker.over, false, "a stop waits for it");
  await session.clock.advance(1);
  await stopping;
  assert.equal((signals[0].reason as QueueError).code, "STOPPED");
});

inSession("a hook that hangs holds up a stop for the grace and a second", async (session) => {
  const jobs = await session.queue({
    mail: { handle: throws(new Error("no")), failed: () => new Promise(() => {}) },
  }, { tries: 1 });
  await jobs.dispatch("mail");
  const worker = await session.work(jobs, { grace: 5000 });
  const stopping = worker.stop();
  await session.clock.advance(5999);
  assert.equal(worker.over, false);
  await session.clock.advance(1);
  await stopping;
  assert.equal((await jobs.failed()).length, 1);
});

inSession("a worker that ends when it is empty ends after the hooks", async (session) => {
  const gate = new Gate();
  const jobs = await session.queue({ mail: { handle: throws(new Error("no")), failed: gate.handle } }, {
    tries: 1,
  });
  await jobs.dispatch("mail");
  const worker = await session.work(jobs, { stopWhenEmpty: true, concurrency: 2 });
  await session.clock.advance(10_000);
  assert.equal(worker.over, false);
  gate.open();
  await session.clock.until(() => worker.over, "the worker to end");
});
