/**
 * What every driver must do with failed jobs that are looked for, and with waiting jobs that are cleared. Part of
 * `conformance.ts`.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Driver, FailedFilter, FailedFound, FailedSearch } from "../core/driver.ts";
import { type Check, job, T, take } from "./conformance.ts";

const LEASE = 90_000;
const HOUR = 3_600_000;

/** What a test asks for: all of them from the start, unless it says otherwise. */
function find(driver: Driver, asked: Partial<FailedSearch> = {}): Promise<FailedFound> {
  return driver.findFailed({ filter: {}, after: null, until: null, reverse: false, limit: 1000, ...asked });
}

/** Goes on until nothing is left, and says in how many steps. */
async function findAll(
  driver: Driver,
  asked: Partial<FailedSearch> = {},
): Promise<{ ids: string[]; looked: number; steps: FailedFound[] }> {
  const steps: FailedFound[] = [];
  let after: string | null = null;
  do {
    const found: FailedFound = await find(driver, { after, ...asked });
    assert.equal(found.ids.length <= (asked.limit ?? 1000), true, "no more than asked for");
    assert.equal(found.next !== null && found.looked === 0, false, "each step gets further");
    steps.push(found);
    after = found.next;
  } while (after !== null);
  const ids = steps.flatMap((step) => step.ids);
  return { ids, looked: steps.reduce((sum, step) => sum + step.looked, 0), steps };
}

interface Case {
  readonly name?: string;
  readonly queue?: string;
  readonly error?: string;
  readonly failedAt?: number;
}

/** Fails a job for each, in this order, and returns their ids, which are in that order, too. */
async function failEach(driver: Driver, cases: readonly Case[]): Promise<string[]> {
  const pushed = cases.map(({ name = "job", queue = "default" }, index) =>
    job({ name, queue, payload: String(index) })
  );
  await driver.push(pushed, T);
  const held = new Map<string, Awaited<ReturnType<typeof take>>[number]>();
  const queues = [...new Set(pushed.map(({ queue }) => queue))];
  for (const one of await take(driver, { queues, limit: cases.length })) held.set(one.payload, one);
  for (const [index, { error = "nope", failedAt = T }] of cases.entries()) {
    assert.equal(await driver.fail(held.get(String(index))!, { error, stack: null, failedAt }), true);
  }
  const ids = new Map(
    (await driver.failed({ after: null, limit: 1000 })).map(({ id, payload }) => [payload, id]),
  );
  assert.equal(ids.size, cases.length);
  return cases.map((_, index) => ids.get(String(index))!);
}

/** Runs this part of the suite. */
export function searching(check: Check): void {
  check("failed jobs are found by name, by queue, and by both", async ({ driver }) => {
    const ids = await failEach(driver, [
      { name: "mail" },
      { name: "mail", queue: "slow" },
      { name: "Mail", queue: "slow" },
      { name: "invoice", queue: "slow" },
    ]);
    const found = async (filter: FailedFilter): Promise<number[]> =>
      (await findAll(driver, { filter })).ids.map((id) => ids.indexOf(id));
    assert.deepEqual(await found({}), [0, 1, 2, 3]);
    assert.deepEqual(await found({ name: undefined, text: undefined }), [0, 1, 2, 3]);
    assert.deepEqual(await found({ name: "mail" }), [0, 1], "a name as it is written");
    assert.deepEqual(await found({ queue: "slow" }), [1, 2, 3]);
    assert.deepEqual(await found({ name: "mail", queue: "slow" }), [1]);
    assert.deepEqual(await found({ name: "mail", queue: "none" }), []);
  });

  check("failed jobs are found by names of any text, and not by what is in a payload", async ({ driver }) => {
    const names = [`it's "quoted" \\ [x] %a`, "日本 ⟶ \u2028", `name":"mail`, "mail"];
    const pushed = names.map((name) =>
      job({ name, payload: JSON.stringify({ name: "mail", queue: "slow" }) })
    );
    await driver.push(pushed, T);
    for (const held of await take(driver, { limit: 9 })) {
      await driver.fail(held, { error: "no", stack: '{"name":"mail","error":"nope"}', failedAt: T });
    }
    for (const name of names) {
      const { ids } = await find(driver, { filter: { name } });
      assert.deepEqual((await driver.failed({ ids })).map((one) => one.name), [name]);
    }
    assert.deepEqual((await find(driver, { filter: { queue: "slow" } })).ids, []);
    assert.deepEqual((await find(driver, { filter: { text: "nope" } })).ids, [], "in the stack alone");
    assert.equal((await find(driver, { filter: { queue: "default" } })).ids.length, names.length);
  });

  check("failed jobs are found by when they failed", async ({ driver }) => {
    const ids = await failEach(driver, [
      { failedAt: T },
      { failedAt: T - 2 * HOUR },
      { failedAt: T - HOUR },
      { failedAt: T - 5 * HOUR },
    ]);
    const found = async (filter: FailedFilter): Promise<number[]> =>
      (await findAll(driver, { filter })).ids.map((id) => ids.indexOf(id));
    assert.deepEqual(await found({ before: T - HOUR }), [1, 3], "before, and not then");
    assert.deepEqual(await found({ since: T - HOUR }), [0, 2], "then, or later");
    assert.deepEqual(await found({ since: T - 2 * HOUR, before: T }), [1, 2]);
    assert.deepEqual(await found({ since: T - 2 * HOUR + 300 }), [0, 1, 2], "to the second");
    assert.deepEqual(await found({ before: T - 6 * HOUR }), []);
  });

  check("failed jobs are found by a text in their error, whatever its case", async ({ driver }) => {
    const ids = await failEach(driver, [
      { error: "upstream 503: Service Unavailable" },
      { error: "first line\nSERVICE unavailable\r\nlast" },
      { error: "100 % of them_all" },
      { error: "ÄRGER mit 日本語" },
      { error: '{"quoted": "\\u0041"} $(id) \t\u0001' },
    ]);
    const found = async (text: string): Promise<number[]> =>
      (await findAll(driver, { filter: { text } })).ids.map((id) => ids.indexOf(id));
    assert.deepEqual(await found("service unavail"), [0, 1]);
    assert.deepEqual(await found("503"), [0]);
    assert.deepEqual(await found("0 %"), [2], "no wildcard");
    assert.deepEqual(await found("%of"), []);
    assert.deepEqual(await found("m_a"), [2]);
    assert.deepEqual(await found("hem.all"), []);
    assert.deepEqual(await found("ärger MIT 日本"), [3], "letters of every script");
    assert.deepEqual(await found('"quoted": "\\u0041"} $('), [4]);
    assert.deepEqual(await found("Error"), [], "only the error is looked at");
  });

  check("a search goes on where the last step ended, either way", async ({ driver }) => {
    const ids = await failEach(
      driver,
      Array.from({ length: 7 }, (_, index) => ({ name: index % 2 === 0 ? "even" : "odd" })),
    );
    const even = ids.filter((_, index) => index % 2 === 0);
    const backwards = [...even].reverse();
    for (const limit of [1, 2, 3, 4, 5]) {
      const filter = { name: "even" };
      assert.deepEqual((await findAll(driver, { filter, limit })).ids, even, `by ${limit}`);
      const reversed = await findAll(driver, { filter, limit, reverse: true });
      assert.deepEqual(reversed.ids, backwards, `backwards by ${limit}`);
      assert.equal(reversed.looked, 7, "each is looked at once");
      assert.deepEqual((await findAll(driver, { limit })).ids, ids, `all by ${limit}`);
      assert.deepEqual((await findAll(driver, { limit, reverse: true })).ids, [...ids].reverse());
      const bounded = await findAll(driver, { filter, limit, until: ids[3] });
      assert.deepEqual(bounded.ids, even.slice(0, 2), "and no further than asked");
      assert.deepEqual((await findAll(driver, { limit, until: ids[3] })).ids, ids.slice(0, 4));
      const last = await findAll(driver, { limit, until: ids[3], reverse: true });
      assert.deepEqual(last.ids, ids.slice(0, 4).reverse());
    }
    assert.deepEqual((await find(driver, { after: ids[6] })).ids, [], "nothing after the last");
    assert.deepEqual((await find(driver, { after: ids[0], reverse: true })).ids, []);
    for (const strange of ["", "x", "1; DROP TABLE failed_jobs", "9".repeat(40)]) {
      assert.deepEqual(await find(driver, { after: strange }), { ids: [], looked: 0, next: null }, strange);
    }
  });

  check("a search of none ends at once", async ({ driver }) => {
    for (const filter of [{}, { name: "mail" }]) {
      assert.deepEqual(await find(driver, { filter }), { ids: [], looked: 0, next: null });
    }
  });

  check("a step looks at a bounded number of failed jobs, though none match", async ({ driver }) => {
    const count = 1100;
    await driver.push(Array.from({ length: count }, () => job()), T);
    let failed = 0;
    for (let jobs = await take(driver, { limit: 200 }); jobs.length > 0;) {
      const answers = await Promise.all(
        jobs.map((held) => driver.fail(held, { error: "nope", stack: null, failedAt: T })),
      );
      failed += answers.filter((done) => done).length;
      jobs = await take(driver, { limit: 200 });
    }
    assert.equal(failed, count);
    for (const filter of [{ text: "none has it" }, { queue: "none" }]) {
      const { ids, looked, steps } = await findAll(driver, { filter });
      assert.deepEqual(ids, []);
      assert.equal(looked, count, "all were looked at");
      assert.equal(Math.max(...steps.map((step) => step.looked)) <= 1000, true, "1,000 in a step at most");
      assert.equal(steps.length > 1, true);
    }
  });

  check("of failed jobs that are named, only those that match by then are moved", async ({ driver }) => {
    const ids = await failEach(driver, [{ name: "mail" }, { name: "invoice" }, { name: "mail" }, {
      name: "mail",
      error: "late",
    }]);
    const filter = { name: "mail", text: "NOPE" };
    assert.deepEqual((await driver.failed({ ids, filter })).map(({ id }) => id), [ids[0], ids[2]]);
    assert.deepEqual(await driver.forget({ ids: ids.slice(1), filter }), [{ id: ids[2], name: "mail" }]);
    assert.deepEqual(await driver.retry({ ids, filter }, T), [{ id: ids[0], name: "mail" }]);
    assert.deepEqual((await findAll(driver)).ids, [ids[1], ids[3]]);
    assert.equal((await take(driver, { limit: 9 })).length, 1);
  });

  check("what waits is cleared, ready or delayed, and what is held stays", async ({ driver }) => {
    await driver.push([job(), job({ priority: 5 })], T);
    const [held] = await take(driver);
    await driver.push([job(), job({ delay: 60_000 }), job({ priority: -3, delay: 5 })], T);
    await driver.push([job({ queue: "other" }), job({ queue: "other", delay: 5, priority: 2 })], T);
    const [failed] = await take(driver, { queues: ["other"] });
    await driver.fail(failed, { error: "nope", stack: null, failedAt: T });

    assert.equal(await driver.clear("default", 1000), 4);
    assert.equal(await driver.clear("default", 1000), 0);
    assert.equal(await driver.clear("none", 1000), 0);
    const counts = (await driver.counts(T, LEASE)).map(({ oldest: _, ...rest }) => rest);
    assert.deepEqual(counts.sort((a, b) => a.queue < b.queue ? -1 : 1), [
      { queue: "default", ready: 0, delayed: 0, reserved: 1, failed: 0 },
      { queue: "other", ready: 0, delayed: 1, reserved: 0, failed: 1 },
    ]);
    assert.equal(await driver.clear(null, 1000), 1);
    assert.equal(await driver.waiting(), 1);
    assert.equal(await driver.complete(held), true, "it was still held");
  });

  check("a job whose lease has ended is not cleared: it may be running", async ({ driver }) => {
    await driver.push([job()], T);
    await take(driver);
    assert.equal((await driver.counts(T + LEASE, LEASE))[0].ready, 1);
    assert.equal(await driver.clear(null, 1000), 0);
    assert.equal((await take(driver, { now: T + LEASE })).length, 1);
  });

  check("no more is cleared than asked for", async ({ driver }) => {
    await driver.push(
      Array.from({ length: 1000 }, (_, index) => job({ delay: index % 2 === 0 ? 0 : 60_000 })),
      T,
    );
    await driver.push(Array.from({ length: 300 }, () => job({ priority: 1 })), T);
    assert.equal(await driver.clear("default", 1), 1);
    assert.equal(await driver.waiting(), 1299);
    assert.equal(await driver.clear(null, 777), 777);
    assert.equal(await driver.waiting(), 522);
    assert.equal(await driver.clear("default", 522), 522);
    assert.equal(await driver.clear("default", 522), 0);
    assert.equal(await driver.waiting(), 0);
  });

  check("a job that was cancelled while it was held, and is cleared, leaves no mark", async ({ driver }) => {
    const [id] = await driver.push([job()], T);
    const [held] = await take(driver);
    assert.equal(await driver.cancel(id), "cancelling");
    assert.deepEqual((await driver.controls()).cancelled, [id]);
    await driver.release(held, { delay: 0, counted: true }, T);
    assert.equal(await driver.clear(null, 9), 1);
    assert.deepEqual((await driver.controls()).cancelled, []);
  });
}
