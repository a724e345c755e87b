/**
 * What every driver must do for operators: pausing, restarting, cancelling, progress. Part of the conformance suite.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Driver, Reservation } from "../core/driver.ts";
import { type Check, failure, job, reserve, T, take } from "./conformance.ts";
import { soon } from "./until.ts";

/** How long progress is kept in these tests, in milliseconds. */
const LIFE = 90_000;

/** The tests. */
export function controlling(check: Check): void {
  pausing(check);
  restarting(check);
  cancelling(check);
  reporting(check);
}

function pausing(check: Check): void {
  check("a paused queue's jobs are not reserved, and others are", async ({ driver, another }) => {
    const other = another();
    const queues = ["mail", "default"];
    await driver.push([job({ queue: "mail", payload: "m" }), job({ payload: "d" })], T);
    await reserve(other, { queues: ["none"] });
    assert.equal(await driver.pause("mail"), true);
    assert.deepEqual(await payloads(other, { queues, limit: 9 }), ["d"], "another driver obeys at once");
    assert.deepEqual(await payloads(driver, { queues, limit: 9 }), []);
    assert.equal(await driver.pause("mail"), false, "it was paused");
    assert.deepEqual((await other.controls()).paused, { all: false, queues: ["mail"] });
    assert.equal(await other.resume("mail"), true);
    assert.equal(await other.resume("mail"), false, "it was not paused any more");
    assert.deepEqual(await payloads(driver, { queues, limit: 9 }), ["m"]);
    assert.deepEqual((await driver.controls()).paused, { all: false, queues: [] });
  }, "two drivers");

  check("all queues are paused at once, also those that come later", async ({ driver }) => {
    await driver.push([job()], T);
    assert.equal(await driver.pause(null), true);
    assert.equal(await driver.pause(null), false);
    await driver.push([job({ queue: "new" })], T);
    const queues = ["default", "new"];
    assert.deepEqual(await take(driver, { queues, limit: 9 }), []);
    assert.equal(await driver.pause("new"), true, "by name, too");
    assert.deepEqual((await driver.controls()).paused, { all: true, queues: ["new"] });
    assert.equal(await driver.resume("new"), true);
    assert.deepEqual(await take(driver, { queues, limit: 9 }), [], "all are paused yet");
    await driver.pause("new");
    assert.equal(await driver.resume(null), true, "lifts every pause");
    assert.equal(await driver.resume(null), false);
    assert.equal((await take(driver, { queues, limit: 9 })).length, 2);
  });

  check("names of paused queues come back as they were, sorted", async ({ driver }) => {
    for (const queue of ["b", "a", `it's "quoted" [x] *?`, "日本"]) await driver.pause(queue);
    const { paused } = await driver.controls();
    assert.deepEqual(paused, { all: false, queues: [...paused.queues].sort() });
    assert.deepEqual(new Set(paused.queues), new Set(["a", "b", `it's "quoted" [x] *?`, "日本"]));
    await driver.resume(`it's "quoted" [x] *?`);
    assert.deepEqual((await driver.controls()).paused.queues, ["a", "b", "日本"]);
  });

  check("a paused queue has no next due time, and keeps what is held", async ({ driver }) => {
    await driver.push([job(), job({ delay: 5 }), job({ delay: 9, queue: "other" })], T);
    const [held] = await take(driver);
    await driver.pause("default");
    const { jobs, nextIn } = await reserve(driver, { queues: ["default", "other"], limit: 9 });
    assert.deepEqual([jobs, nextIn], [[], 9]);
    assert.deepEqual(await driver.extend([held], T + 1), [], "still held");
    assert.equal(await driver.complete(held), true);
    assert.deepEqual(await take(driver, { now: T + 1000 }), [], "due by now, and paused");
    await driver.resume("default");
    assert.equal((await take(driver, { now: T + 1000 })).length, 1);
  });

  check("a paused queue is still counted, named and filled", async ({ driver }) => {
    await driver.pause(null);
    await driver.push([job({ queue: "mail" })], T);
    assert.deepEqual((await driver.counts(T, LIFE)).map(({ queue, ready }) => [queue, ready]), [["mail", 1]]);
    assert.deepEqual(await driver.queues(), ["mail"]);
    assert.equal(await driver.waiting(), 1);
  });

  check("resuming wakes those who listen in another process", async ({ driver, another }) => {
    const other = another();
    await driver.push([job()], T);
    await driver.pause(null);
    await reserve(other);
    const woken = Promise.withResolvers<void>();
    const listener = other.listen(() => {
      woken.resolve();
      return true;
    });
    listener.rest();
    await driver.resume(null);
    const again = setInterval(() => void driver.pause("x").then(() => driver.resume("x")), 250);
    try {
      await soon(woken.promise, "a wake-up");
    } finally {
      clearInterval(again);
      listener.close();
    }
  }, "two drivers");
}

function restarting(check: Check): void {
  check("restarts are counted, and told with every reservation", async ({ driver, another }) => {
    const other = another();
    await driver.push([job()], T);
    const start = await reserve(other, { queues: ["none"] });
    assert.equal((await driver.controls()).restarts, start.restarts);
    await driver.restart();
    await driver.restart();
    assert.equal((await reserve(other)).restarts, start.restarts + 2, "with a job");
    assert.equal((await reserve(other)).restarts, start.restarts + 2, "without one");
    assert.equal((await other.controls()).restarts, start.restarts + 2);
  }, "two drivers");

  check("a restart is told while everything is paused, and pauses stay", async ({ driver }) => {
    await driver.pause(null);
    const { restarts } = await reserve(driver);
    await driver.restart();
    assert.equal((await reserve(driver)).restarts, restarts + 1);
    assert.equal((await driver.controls()).paused.all, true);
  });
}

function cancelling(check: Check): void {
  check("a waiting job is removed, ready or delayed, of any queue and priority", async ({ driver }) => {
    const ids = await driver.push([
      job({ payload: "1" }),
      job({ payload: "line\r\nbreak * [x] ?" }),
      job({ payload: "3", delay: 5 }),
      job({ payload: "4", queue: "mail", priority: 7 }),
      job({ payload: "5", queue: "mail", priority: -7, delay: 5 }),
      job({ payload: "6" }),
    ], T);
    for (const id of ids.slice(1, 5)) assert.equal(await driver.cancel(id), "removed", id);
    for (const id of ids.slice(1, 5)) assert.equal(await driver.cancel(id), null, "gone");
    assert.deepEqual(await payloads(driver, { queues: ["default", "mail"], limit: 9, now: T + 99 }), [
      "1",
      "6",
    ]);
    assert.deepEqual((await driver.controls()).cancelled, [], "nothing is left of it");
    assert.deepEqual(await driver.failed({ after: null, limit: 9 }), []);
  }, "carriage returns");

  check("one of 2,500 waiting jobs is removed, and the others keep their order", async ({ driver }) => {
    const all = Array.from({ length: 2500 }, (_, index) => String(index));
    const ids = await driver.push(all.map((payload) => job({ payload })), T);
    for (const at of [0, 1249, 2499]) assert.equal(await driver.cancel(ids[at]), "removed");
    const left: string[] = [];
    for (let some: string[]; (some = await payloads(driver, { limit: 500 })).length > 0;) left.push(...some);
    assert.deepEqual(left, all.filter((_, at) => ![0, 1249, 2499].includes(at)));
  });

  check("an id that names no job is not cancelled, nor is a part of one", async ({ driver }) => {
    const [id] = await driver.push([job({ payload: "7 8 x" })], T);
    for (const wrong of ["", "*", "?", " ", "x", `${id}0`, id.slice(1), `${id}\n`, "-1", "job", "8"]) {
      if (wrong !== id) assert.equal(await driver.cancel(wrong), null, JSON.stringify(wrong));
    }
    assert.equal((await take(driver)).length, 1);
  });

  check("a held job is told of, until it is settled", async ({ driver, another }) => {
    const other = another();
    await driver.push([job({ payload: "a\nb" }), job(), job()], T);
    const held = await take(driver, { limit: 3 });
    for (const { id } of held) assert.equal(await other.cancel(id), "cancelling");
    assert.equal(await other.cancel(held[0].id), "cancelling", "again");
    assert.deepEqual([...(await driver.controls()).cancelled].sort(), held.map(({ id }) => id).sort());
    assert.deepEqual(await driver.extend(held, T + 1), [], "still held");
    assert.equal(await driver.complete(held[0]), true);
    assert.equal(await driver.fail(held[1], failure()), true);
    assert.deepEqual((await driver.controls()).cancelled, [held[2].id]);
    assert.deepEqual((await other.controls()).cancelled, [held[2].id]);
    assert.equal(await other.cancel(held[0].id), null, "done");
  }, "two drivers");

  check("a cancelled job that is given back is not like any other", async ({ driver, another }) => {
    await driver.push([job(), job(), job()], T);
    const [first, second, third] = await take(driver, { limit: 3 });
    for (const { id } of [first, second, third]) await driver.cancel(id);
    assert.equal(await driver.release(first, { delay: 0, counted: true }, T), true);
    assert.equal(await driver.release(second, { delay: null, counted: false }, T), true);
    const marked = await take(another(), { limit: 9 });
    assert.deepEqual(
      new Map(marked.map(({ id, cancelled }) => [id, cancelled])),
      new Map([[first.id, true], [second.id, true]]),
    );
    const [expired] = await take(driver, { limit: 9, now: T + LIFE + 1 });
    assert.equal(expired.cancelled, true, "its worker died");
  }, "two drivers");

  check("a cancelled job that is given back can be removed", async ({ driver }) => {
    await driver.push([job()], T);
    const [held] = await take(driver);
    assert.equal(await driver.cancel(held.id), "cancelling");
    await driver.release(held, { delay: 1000, counted: true }, T);
    assert.equal(await driver.cancel(held.id), "removed");
    assert.deepEqual((await driver.controls()).cancelled, []);
  });

  check("a failed job is not cancelled, and a retry forgets that it was", async ({ driver, another }) => {
    const other = another();
    await driver.push([job({ payload: "1" }), job({ payload: "2" })], T);
    const held = await take(driver, { limit: 2 });
    assert.equal((await take(other)).length, 0);
    for (const one of held) {
      assert.equal(await driver.cancel(one.id), "cancelling");
      assert.equal(await driver.fail(one, failure()), true);
      assert.equal(await driver.cancel(one.id), null, "it is in failed_jobs");
    }
    await driver.retry({ after: null, limit: 9 }, T);
    const again = await take(other, { limit: 9 });
    assert.deepEqual(again.map(({ id }) => id).sort(), held.map(({ id }) => id).sort());
    assert.deepEqual(again.map(({ cancelled }) => cancelled), [undefined, undefined]);
    assert.deepEqual((await driver.controls()).cancelled, []);
  }, "two drivers");

  check("a mark that nobody met is forgotten by a retry", async ({ driver, another }) => {
    const other = another();
    await driver.push([job()], T);
    const [held] = await take(driver);
    // Cancelled by a process that this worker has not heard of when its job fails.
    await other.cancel(held.id);
    await driver.fail(held, failure());
    const [failed] = await driver.failed({ after: null, limit: 1 });
    await other.retry({ ids: [failed.id] }, T);
    const [again] = await take(driver);
    assert.deepEqual([again.id, again.cancelled], [held.id, undefined]);
    assert.deepEqual((await driver.controls()).cancelled, []);
  }, "two drivers");
}

function reporting(check: Check): void {
  const report = (driver: Driver, held: Reservation, fraction: number, note: string | null = null) =>
    driver.report(held, { fraction, note }, LIFE, T);

  check("how far a job is can be read from any process while it is held", async ({ driver, another }) => {
    const other = another();
    const [id] = await driver.push([job()], T);
    assert.equal(await other.progress(id), null, "not started");
    const [held] = await take(driver);
    assert.equal(await other.progress(id), null, "nothing said");
    assert.equal(await report(driver, held, 0), true);
    assert.deepEqual(await other.progress(id), { fraction: 0, note: null, at: T });
    const note = `half "way"\r\n日本 \0 \\ \u{1f600}`;
    assert.equal(await report(driver, held, 0.5, note), true);
    assert.deepEqual(await other.progress(id), { fraction: 0.5, note, at: T });
    await report(driver, held, 1 / 3);
    assert.deepEqual(await other.progress(id), { fraction: 1 / 3, note: null, at: T });
    assert.deepEqual(await driver.extend([held], T + 1), [], "a report is no settlement");
    assert.equal((await other.progress(id))?.at, T, "to renew a lease says nothing new");
    assert.equal(await other.progress("nobody"), null);
  }, "two drivers");

  check("it is cleared when the job is settled, however that is", async ({ driver }) => {
    const ends: Record<string, (held: Reservation) => Promise<boolean>> = {
      complete: (held) => driver.complete(held),
      fail: (held) => driver.fail(held, failure()),
      release: (held) => driver.release(held, { delay: 1000, counted: true }, T),
      "hand back": (held) => driver.release(held, { delay: null, counted: false }, T),
    };
    for (const [name, end] of Object.entries(ends)) {
      await driver.push([job()], T);
      const [held] = await take(driver);
      await report(driver, held, 0.25);
      assert.equal(await end(held), true, name);
      assert.equal(await driver.progress(held.id), null, name);
      assert.equal(await report(driver, held, 0.75), false, `${name}: not held any more`);
      assert.equal(await driver.progress(held.id), null, name);
      for (const left of await take(driver)) await driver.complete(left);
    }
  });

  check("the next attempt begins without what the last one said", async ({ driver, another }) => {
    const other = another();
    await driver.push([job()], T);
    const [first] = await take(driver);
    await report(driver, first, 0.5);
    await driver.release(first, { delay: 0, counted: true }, T);
    const [second] = await take(other, { now: T + 1000 });
    assert.equal(second.attempt, 2);
    assert.equal(await driver.progress(second.id), null, "after a failure");
    await report(other, second, 0.6);
    const [third] = await take(driver, { now: T + 1000 + LIFE + 1 });
    assert.equal(third.attempt, 3);
    assert.equal(await other.progress(third.id), null, "after its worker died");
  }, "two drivers");

  check("a stale worker's report is not kept", async ({ driver, another }) => {
    const other = another();
    await driver.push([job()], T);
    const [stale] = await take(driver);
    const [held] = await take(other, { now: T + LIFE + 1 });
    assert.equal(held.id, stale.id);
    assert.equal(await report(driver, stale, 0.9), false);
    assert.equal(await other.progress(held.id), null);
    await report(other, held, 0.1);
    assert.equal(await report(driver, stale, 0.9), false);
    assert.equal((await driver.progress(held.id))?.fraction, 0.1);
  }, "two drivers");

  check("reports and a completion of one turn leave nothing", async ({ driver }) => {
    await driver.push([job()], T);
    const [held] = await take(driver);
    const [, done] = await Promise.all([
      report(driver, held, 0.5),
      driver.complete(held),
      report(driver, held, 0.9),
    ]);
    assert.equal(done, true);
    assert.equal(await driver.progress(held.id), null);
  });
}

async function payloads(driver: Driver, asked: Parameters<typeof take>[1]): Promise<string[]> {
  return (await take(driver, asked)).map(({ payload }) => payload);
}
