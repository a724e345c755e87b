/**
 * What every driver must keep of its workers, and of each attempt at a job. Part of the conformance suite.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { AttemptRecord, Driver, Reservation, WorkerReport } from "../core/driver.ts";
import { type Check, failure, job, T, take } from "./conformance.ts";

/** The lease of these tests, in milliseconds. */
const LEASE = 90_000;

/** How long a worker counts as there in these tests, in milliseconds. */
const LIFE = 30_000;

/** The tests. */
export function registering(check: Check): void {
  workers(check);
  attempts(check);
  finding(check);
  examining(check);
}

/** What a worker says of itself. */
export function report(differences: Partial<WorkerReport> = {}): WorkerReport {
  return {
    id: "a",
    host: "host",
    pid: 7,
    startedAt: T,
    queues: null,
    concurrency: 2,
    names: ["mail"],
    processed: 0,
    busy: 0,
    running: [],
    version: "1.0.0",
    ...differences,
  };
}

/** A record of an attempt. */
export function record(attempt: number, differences: Partial<AttemptRecord> = {}): AttemptRecord {
  return {
    attempt,
    startedAt: T + attempt,
    duration: 5,
    worker: "host:7",
    error: `no ${attempt}`,
    stack: null,
    ...differences,
  };
}

function workers(check: Check): void {
  check("a worker is seen by other drivers as it described itself last", async ({ driver, another }) => {
    const other = another();
    assert.deepEqual(await other.workers(T), []);
    await driver.beat(report({ host: `it's "naïve" \r\n日本`, queues: ["a", "b"] }), LIFE, T);
    assert.deepEqual(await other.workers(T), [
      { ...report({ host: `it's "naïve" \r\n日本`, queues: ["a", "b"] }), seenAt: T },
    ]);
    const running = [{ id: "9", name: "mail", queue: "post", attempt: 2, since: T + 1 }];
    const later = report({ processed: 3, busy: 1, running });
    await driver.beat(later, LIFE, T + 1500);
    assert.deepEqual(await other.workers(T + 2000), [{ ...later, seenAt: T + 1500 }]);
  }, "two drivers");

  check("workers come in the order in which they began", async ({ driver }) => {
    for (const [id, startedAt] of [["c", T], ["a", T + 9], ["b", T]] as const) {
      await driver.beat(report({ id, startedAt }), LIFE, T + 10);
    }
    assert.deepEqual((await driver.workers(T + 10)).map(({ id }) => id), ["b", "c", "a"]);
  });

  check("a worker that is silent for its time is there no more", async ({ driver }) => {
    await driver.beat(report({ id: "a" }), LIFE, T);
    await driver.beat(report({ id: "b" }), LIFE, T + 1);
    const seen = async (now: number) => (await driver.workers(now)).map(({ id }) => id);
    assert.deepEqual(await seen(T + LIFE - 1), ["a", "b"]);
    assert.deepEqual(await seen(T + LIFE), ["b"]);
    await driver.beat(report({ id: "c" }), LIFE, T + LIFE);
    assert.deepEqual(await seen(T), ["b", "c"], "another one's word has swept it away");
    await driver.beat(report({ id: "a" }), LIFE, T + LIFE);
    assert.deepEqual(await seen(T + LIFE), ["a", "b", "c"], "back again");
  });

  check("a worker that leaves is forgotten, and no other one", async ({ driver }) => {
    await driver.beat(report({ id: "a" }), LIFE, T);
    await driver.beat(report({ id: "b" }), LIFE, T);
    await driver.leave("a");
    await driver.leave("a");
    await driver.leave("unknown");
    assert.deepEqual((await driver.workers(T)).map(({ id }) => id), ["b"]);
    assert.deepEqual(await driver.queues(), [], "nothing else came of it");
  });

  check("beats by the clock of the store are seen by it", async ({ driver }) => {
    await driver.beat(report(), LIFE, null);
    const [worker] = await driver.workers(null);
    assert.equal(Math.abs(worker.seenAt - Date.now()) < 60_000, true, String(worker.seenAt));
  });
}

function attempts(check: Check): void {
  check("each attempt that failed is kept with the job that fails at last", async ({ driver }) => {
    await driver.push([job()], T);
    const records = [
      record(1, { error: `it's "naïve"\r\n日本`, stack: "Error: x\n    at y" }),
      record(2),
      record(3),
    ];
    await release(driver, await one(driver), records[0]);
    await release(driver, await one(driver), records[1]);
    await driver.fail(await one(driver), { ...failure(), record: records[2] });
    const [failed] = await driver.failed({ after: null, limit: 9 });
    assert.deepEqual(failed.history, records);
    assert.deepEqual((await driver.failed({ ids: [failed.id] }))[0].history, records);
  });

  check("a job that fails at once has its one attempt, or none that is known", async ({ driver }) => {
    await driver.push([job(), job()], T);
    const [first, second] = await take(driver, { limit: 2 });
    await driver.fail(first, { ...failure(), record: record(1) });
    await driver.fail(second, failure());
    const failed = await driver.failed({ after: null, limit: 9 });
    assert.deepEqual(failed.map(({ history }) => history), [[record(1)], []]);
  });

  check("what is given back without a record keeps those of before", async ({ driver }) => {
    await driver.push([job()], T);
    await release(driver, await one(driver), record(1));
    await driver.release(await one(driver), { delay: 0, counted: false }, T);
    await driver.release(await one(driver), { delay: null, counted: true }, T);
    await driver.fail(await one(driver), { ...failure(), record: record(3) });
    const [{ history }] = await driver.failed({ after: null, limit: 9 });
    assert.deepEqual(history, [record(1), record(3)]);
  });

  check("what a worker settles that lost its job leaves no record", async ({ driver }) => {
    await driver.push([job()], T);
    const stale = await one(driver);
    const held = await one(driver, T + 90_000);
    assert.equal(await release(driver, stale, record(1, { error: "stale" })), false);
    assert.equal(await driver.fail(stale, { ...failure(), record: record(1, { error: "stale" }) }), false);
    await driver.fail(held, { ...failure(), record: record(2) });
    const failed = await driver.failed({ after: null, limit: 9 });
    assert.deepEqual(failed.map(({ history }) => history), [[record(2)]]);
  });

  check("a retry keeps the attempts of before, and says when it was", async ({ driver }) => {
    const [id] = await driver.push([job()], T);
    await release(driver, await one(driver), record(1));
    await driver.fail(await one(driver), { ...failure(), record: record(2) });
    const [{ id: failedId }] = await driver.failed({ after: null, limit: 9 });
    await driver.retry({ ids: [failedId] }, T + 5000);
    const again = await one(driver, T + 10_000);
    assert.deepEqual([again.id, again.attempt], [id, 1]);
    await driver.fail(again, { ...failure(), record: record(1, { error: "again" }) });
    const [{ history }] = await driver.failed({ after: null, limit: 9 });
    const retriedAt = history[1].retriedAt;
    assert.equal(typeof retriedAt, "number");
    assert.deepEqual(history, [record(1), record(2, { retriedAt }), record(1, { error: "again" })]);
  });

  check("of many attempts the first 20 and the last 20 are kept", async ({ driver }) => {
    await driver.push([job()], T);
    for (let attempt = 1; attempt <= 49; attempt++) await release(driver, await one(driver), record(attempt));
    await driver.fail(await one(driver), { ...failure(), record: record(50) });
    const [{ history }] = await driver.failed({ after: null, limit: 9 });
    const kept = [...numbers(1, 20), ...numbers(31, 50)];
    assert.deepEqual(history.map(({ attempt }) => attempt), kept);
    assert.deepEqual(history[25], record(36));
    const [{ id }] = await driver.failed({ after: null, limit: 9 });
    await driver.retry({ ids: [id] }, T);
    await driver.fail(await one(driver, T + 1000), { ...failure(), record: record(1) });
    const [again] = await driver.failed({ after: null, limit: 9 });
    const tail = [...numbers(32, 50), 1];
    assert.deepEqual(again.history.map(({ attempt }) => attempt), [...numbers(1, 20), ...tail]);
  });

  check("jobs that are given back in one turn keep each its own record", async ({ driver }) => {
    await driver.push([job({ payload: "a" }), job({ payload: "b", priority: 3 }), job({ payload: "c" })], T);
    const held = await take(driver, { limit: 3 });
    await Promise.all(held.map((one) =>
      driver.release(
        one,
        {
          delay: 0,
          counted: true,
          ...(one.payload === "c" ? {} : { record: record(1, { error: one.payload }) }),
        },
        T,
      )
    ));
    for (const one of await take(driver, { limit: 3 })) {
      await driver.fail(one, { ...failure(), record: record(2, { error: one.payload }) });
    }
    const failed = await driver.failed({ after: null, limit: 9 });
    const told = failed.map(({ payload, history }) => [payload, history.map(({ error }) => error)]);
    assert.deepEqual(told.sort(), [["a", ["a", "a"]], ["b", ["b", "b"]], ["c", ["c"]]]);
  });
}

function finding(check: Check): void {
  check(
    "a job is found wherever it stands, and no more once it is done or has failed",
    async ({ driver }) => {
      const [id, other] = await driver.push([
        job({ name: "mail", payload: "p\n'1'", queue: "post", priority: 4, delay: 5000 }),
        job({ queue: "post" }),
      ], T);
      const found = async (now: number) => {
        const found = await driver.find(id, now, LEASE);
        // Since when one has been due is not known to every store once it is.
        return found && { ...found, dueAt: found.state === "delayed" ? found.dueAt : null };
      };
      const delayed = {
        ...{ id, name: "mail", payload: "p\n'1'", queue: "post", priority: 4, state: "delayed", attempts: 0 },
        ...{ dueAt: T + 5000, leasedUntil: null, cancelled: false, ahead: null, history: [] },
      };
      assert.deepEqual(await found(T), delayed);
      const { state, dueAt } = (await found(T + 5000))!;
      assert.deepEqual([state, dueAt], ["ready", null]);
      const [held, rest] = await take(driver, { queues: ["post"], limit: 2, now: T + 5000 });
      assert.deepEqual([held.id, rest.id], [id, other]);
      const reserved = {
        ...delayed,
        state: "reserved",
        attempts: 1,
        dueAt: null,
        leasedUntil: T + 5000 + LEASE,
      };
      assert.deepEqual(await found(T + 6000), reserved);
      await driver.extend([held], T + 10_000);
      assert.deepEqual(await found(T + 20_000), { ...reserved, leasedUntil: T + 10_000 + LEASE });
      const over = await found(T + 10_000 + LEASE);
      assert.deepEqual(over, { ...reserved, leasedUntil: T + 10_000 + LEASE, state: "ready" });
      await driver.cancel(id);
      assert.equal((await found(T + 20_000))?.cancelled, true);
      await driver.release(held, { delay: 1000, counted: true, record: record(1) }, T + 20_000);
      const again = await found(T + 20_000);
      assert.deepEqual([again?.state, again?.attempts, again?.dueAt], ["delayed", 1, T + 21_000]);
      assert.deepEqual(again?.history, [record(1)]);
      const [last] = await take(driver, { queues: ["post"], now: T + 21_000 });
      await driver.fail(last, failure());
      assert.equal(await found(T + 22_000), null, "it is a failed job");
      await driver.complete(rest);
      assert.equal(await driver.find(other, T + 22_000, LEASE), null, "it is done");
    },
  );

  check("a job that is ready says how many of its queue come before it", async ({ driver }) => {
    const ids = await driver.push([
      ...[0, 1, 2].map((number) => job({ payload: String(number) })),
      job({ priority: 9 }),
      job({ priority: 9 }),
      job({ priority: -9 }),
      job({ priority: 9, delay: 60_000 }),
      job({ queue: "other", priority: 9 }),
    ], T);
    const ahead = async (index: number) => (await driver.find(ids[index], T, LEASE))?.ahead;
    assert.deepEqual(await Promise.all([0, 1, 2].map(ahead)), [2, 3, 4]);
    assert.deepEqual(await Promise.all([3, 4, 5].map(ahead)), [0, 1, 5]);
    assert.deepEqual(await Promise.all([6, 7].map(ahead)), [null, 0]);
    await take(driver, { limit: 3 });
    assert.deepEqual(await Promise.all([0, 1, 2, 5].map(ahead)), [null, 0, 1, 2]);
  });

  check("a job is found among thousands, and those before it are counted up to 1,000", async ({ driver }) => {
    const ids = await driver.push(Array.from({ length: 2500 }, () => job()), T);
    assert.equal((await driver.find(ids[400], T, LEASE))?.ahead, 400);
    assert.equal((await driver.find(ids[2499], T, LEASE))?.ahead, 1000);
    const late = await driver.push(Array.from({ length: 300 }, () => job({ delay: 1000 })), T);
    assert.equal((await driver.find(late[150], T, LEASE))?.state, "delayed");
  });

  check("what is no id of a job finds none", async ({ driver }) => {
    await driver.push([job()], T);
    for (const id of ["", "0", "none", "1 job", "*", "[0-9]*", "99999999999999999999", "a\nb", "-1"]) {
      assert.equal(await driver.find(id, T, LEASE), null, JSON.stringify(id));
    }
  });

  check("the names of waiting jobs are told by queue, each once", async ({ driver }) => {
    await driver.push([
      job({ name: "b" }),
      job({ name: "a" }),
      job({ name: "a", delay: 1000 }),
      job({ name: "it's late", priority: 3, delay: 1000 }),
      job({ name: "c", queue: "other" }),
    ], T);
    assert.deepEqual(await driver.waitingNames(["default", "other", "none"], 100), [
      { queue: "default", names: ["a", "b", "it's late"] },
      { queue: "other", names: ["c"] },
      { queue: "none", names: [] },
    ]);
    assert.deepEqual(await driver.waitingNames([], 100), []);
  });
}

function examining(check: Check): void {
  check("a store that is fit has nothing bad, and nothing in it changes", async ({ driver }) => {
    await driver.push([job()], T);
    const findings = await driver.examine(T, LEASE);
    assert.deepEqual(findings.filter(({ level }) => level === "bad"), []);
    for (const { what, level, found, remedy } of findings) {
      assert.equal(what !== "" && found !== "" && (level === "ok") === (remedy === null), true, what);
    }
    const named = new Map(findings.map(({ what, found }) => [what, found]));
    assert.deepEqual([named.get("writing"), named.get("leases")], ["works", "none is over"]);
    assert.equal(await driver.waiting(), 1);
  });

  check("a lease that has been over for 10 s is found", async ({ driver }) => {
    await driver.push([job(), job()], T);
    await take(driver, { limit: 2 });
    const leases = async (now: number) => {
      const finding = (await driver.examine(now, LEASE)).find(({ what }) => what === "leases");
      return [finding?.level, finding?.found];
    };
    assert.deepEqual(await leases(T + LEASE + 9999), ["ok", "none is over"]);
    const told = "2 leases are over, and no worker took the job";
    assert.deepEqual(await leases(T + LEASE + 10_000), ["bad", told]);
  });
}

/** The first job of the default queue. */
async function one(driver: Driver, now: number = T): Promise<Reservation> {
  const [held] = await take(driver, { now });
  assert.notEqual(held, undefined, "a job is due");
  return held;
}

function release(driver: Driver, held: Reservation, record: AttemptRecord): Promise<boolean> {
  return driver.release(held, { delay: 0, counted: true, record }, T);
}

function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
