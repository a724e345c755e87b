/** Failed jobs, as an app reads, retries and forgets them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Driver, type FailedFilter, type Job, type MoveProgress, Queue } from "@x/queue";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { changed } from "./session.ts";

/** A queue in which `count` jobs have failed. */
async function withFailed(
  count: number,
): Promise<{ queue: Queue; ids: string[]; mend(): void; ran: string[] }> {
  let broken = true;
  const ran: string[] = [];
  const queue: Queue = new Queue({
    database: ":memory:",
    env: {},
    tries: 1,
    log: { warn() {}, error() {} },
    jobs: {
      flaky: (job: Job) => {
        if (broken) throw new Error(`cannot ${job.payload}`);
        ran.push(job.payload);
      },
    },
  });
  await queue.dispatchMany(Array.from({ length: count }, (_, index) => ["flaky", String(index)]));
  await queue.work({ stopWhenEmpty: true, concurrency: 100 });
  const ids: string[] = [];
  for (let page = await queue.failed(); page.length > 0; page = await queue.failed({ after: ids.at(-1) })) {
    ids.push(...page.map(({ id }) => id));
  }
  assert.equal(ids.length, count);
  return { queue, ids, mend: () => broken = false, ran };
}

test("failed jobs are read page by page, in the order of their ids", async () => {
  const { queue, ids } = await withFailed(150);
  assert.deepEqual((await queue.failed()).map(({ id }) => id), ids.slice(0, 100), "100 by default");
  assert.deepEqual((await queue.failed({ limit: 3 })).map(({ id }) => id), ids.slice(0, 3));
  assert.deepEqual((await queue.failed({ after: ids[2], limit: 2 })).map(({ id }) => id), ids.slice(3, 5));
  assert.deepEqual((await queue.failed({ after: Number(ids[147]) })).map(({ id }) => id), ids.slice(148));
  assert.deepEqual(await queue.failed({ after: ids[149] }), []);
  await queue.close();
});

test("a failed job has all that is known of it", async () => {
  const before = Date.now();
  const { queue, ids } = await withFailed(1);
  const [{ failedAt, stack, history: [attempt], ...failed }] = await queue.failed();
  assert.deepEqual(failed, {
    id: ids[0],
    name: "flaky",
    payload: "0",
    queue: "default",
    priority: 0,
    attempts: 1,
    error: "cannot 0",
  });
  assert.match(stack!, /cannot 0[^]*failed\.test\.ts/);
  assert.deepEqual([attempt.attempt, attempt.error, attempt.stack], [1, "cannot 0", stack]);
  assert.equal(failedAt > before - 1000 && failedAt <= Date.now(), true, "to the second");
  await queue.close();
});

test("failed jobs are retried by one id, by several, or all, and run again", async () => {
  const { queue, ids, mend, ran } = await withFailed(5);
  mend();
  assert.deepEqual(await queue.retry(ids[1]), [{ id: ids[1], name: "flaky" }]);
  assert.deepEqual(await queue.retry(Number(ids[2])), [{ id: ids[2], name: "flaky" }]);
  assert.deepEqual(await queue.retry([ids[3], Number(ids[3]), ids[1], "999"]), [{
    id: ids[3],
    name: "flaky",
  }]);
  assert.deepEqual(await queue.retry([]), []);
  assert.deepEqual(await queue.retry("999"), []);
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(ran, ["1", "2", "3"]);
  assert.deepEqual((await queue.retry("all")).map(({ id }) => id), [ids[0], ids[4]]);
  assert.deepEqual(await queue.retry("all"), []);
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(ran, ["1", "2", "3", "0", "4"]);
  await queue.close();
});

test("failed jobs are forgotten by one id, by several, or all", async () => {
  const { queue, ids } = await withFailed(5);
  assert.deepEqual(await queue.forget(ids[1]), [{ id: ids[1], name: "flaky" }]);
  assert.deepEqual(await queue.forget([Number(ids[2]), "999", ids[1]]), [{ id: ids[2], name: "flaky" }]);
  assert.deepEqual((await queue.forget("all")).map(({ id }) => id), [ids[0], ids[3], ids[4]]);
  assert.deepEqual(await queue.forget("all"), []);
  assert.deepEqual(await queue.counts(), []);
  await queue.close();
});

test("an id that is none finds nothing", async () => {
  const { queue } = await withFailed(1);
  for (
    const id of [
      "",
      "x",
      "1x",
      "-1",
      "1.5",
      "0x1",
      "1e0",
      " 1",
      "99999999999999999999",
      "'; DELETE FROM jobs",
      -1,
      1.5,
    ]
  ) {
    assert.deepEqual(await queue.retry(id), [], `retry ${id}`);
    assert.deepEqual(await queue.forget([id]), [], `forget ${id}`);
  }
  assert.equal((await queue.failed()).length, 1);
  await queue.close();
});

test("all is all, however many there are", async () => {
  const { queue, ids, mend, ran } = await withFailed(1234);
  assert.deepEqual((await queue.retry("all")).map(({ id }) => id), ids);
  await queue.work({ stopWhenEmpty: true, concurrency: 100 });
  assert.equal((await queue.forget("all")).length, 1234);
  assert.deepEqual(await queue.failed(), []);
  mend();
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(ran, []);
  await queue.close();
});

test("a retry of all ends although its jobs fail again at once", async () => {
  const { queue, ids } = await withFailed(1234);
  const workers = queue.start(100);
  assert.deepEqual((await queue.retry("all")).map(({ id }) => id), ids, "each once");
  await workers.stop();
  await queue.work({ stopWhenEmpty: true, concurrency: 100 });
  assert.equal((await queue.forget("all")).length, 1234);
  await queue.close();
});

/** Pushes and fails jobs through a driver, at this time. */
async function failOn(
  driver: Driver,
  count: number,
  differences: { name?: string; queue?: string; error?: string; failedAt?: number } = {},
): Promise<void> {
  const { name = "job", queue = "default", error = "nope", failedAt = Date.now() } = differences;
  const job = { name, payload: "1", queue, priority: 0, delay: 0 };
  await driver.push(Array.from({ length: count }, () => job), null);
  const request = {
    queues: [{ queue, limit: count }],
    limit: count,
    prefetch: 0,
    now: null,
    retryAfter: 90_000,
  };
  const { jobs } = await driver.reserve(request);
  assert.equal(jobs.length, count);
  await Promise.all(jobs.map((held) => driver.fail(held, { error, stack: null, failedAt })));
}

/** A queue over a driver that tells of each call of some of its methods. */
function watching(driver: Driver, told: (method: string, argument: unknown, answer: unknown) => void): Queue {
  const methods = ["failed", "findFailed", "retry", "forget", "clear"] as const;
  const changes = Object.fromEntries(methods.map((method) => [
    method,
    async (...given: unknown[]) => {
      const answer = await (driver[method] as (...given: unknown[]) => Promise<unknown>).apply(driver, given);
      told(method, given[method === "clear" ? 1 : 0], answer);
      return answer;
    },
  ]));
  return new Queue({ driver: changed(driver, changes), jobs: {}, env: {} });
}

const HOUR = 3_600_000;

test("failed jobs are listed, counted, retried and forgotten by a filter", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const queue = new Queue({ driver, jobs: {}, env: {} });
  const now = Date.now();
  await failOn(driver, 3, { name: "mail", queue: "slow", error: "upstream 503", failedAt: now - 3 * HOUR });
  await failOn(driver, 2, { name: "mail", error: "Upstream 503" });
  await failOn(driver, 2, { name: "invoice", error: "no customer" });

  assert.equal(await queue.countFailed(), 7);
  assert.equal(await queue.countFailed({ queue: "slow" }), 3);
  assert.equal(await queue.countFailed({ text: "UPSTREAM" }), 5);
  assert.equal(await queue.countFailed({ name: "invoice", before: now - HOUR }), 0);
  const mails = await queue.failed({ name: "mail", limit: 2 });
  assert.deepEqual(mails.map(({ id, queue, payload }) => [id, queue, payload]), [["1", "slow", "1"], [
    "2",
    "slow",
    "1",
  ]]);
  assert.deepEqual((await queue.failed({ name: "mail", after: "2" })).map(({ id }) => id), ["3", "4", "5"]);
  assert.deepEqual((await queue.failed({ reverse: true, limit: 3 })).map(({ id }) => id), ["7", "6", "5"]);
  const older = await queue.failed({ text: "503", reverse: true, after: 5 });
  assert.deepEqual(older.map(({ id }) => id), ["4", "3", "2", "1"]);

  assert.deepEqual(await queue.retry({ text: "503", since: now - HOUR }), [{ id: "4", name: "mail" }, {
    id: "5",
    name: "mail",
  }]);
  assert.deepEqual((await queue.forget({ before: now - HOUR })).map(({ id }) => id), ["1", "2", "3"]);
  assert.deepEqual(await queue.retry({ name: "mail" }), []);
  assert.equal(await queue.waiting(), 2);
  assert.equal(await queue.countFailed(), 2);
  await queue.close();
});

test("a filter that names nothing, or cannot be meant, is refused and moves nothing", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const queue = new Queue({ driver, jobs: {}, env: {} });
  await failOn(driver, 1);
  const wrong: [filter: unknown, message: RegExp][] = [
    [{}, /expected ids, "all", or a filter with one of name, queue, since, before, text/],
    [{ name: undefined }, /or a filter with one of name/],
    [{ nmae: "mail" }, /filter\.nmae: no such setting/],
    [{ name: "" }, /^queue: name="": expected text/],
    [{ text: 7 }, /^queue: text=7: expected text/],
    [{ since: "yesterday" }, /^queue: since="yesterday": expected epoch milliseconds/],
    [{ before: NaN }, /^queue: before=NaN: expected epoch milliseconds/],
    [null, /^queue: null: expected ids, "all", or a filter/],
    [undefined, /^queue: undefined: expected ids, "all", or a filter/],
  ];
  for (const [filter, message] of wrong) {
    for (const act of ["retry", "forget"] as const) {
      await assert.rejects(queue[act](filter as FailedFilter), { code: "CONFIG", message }, act);
    }
  }
  await assert.rejects(queue.countFailed({ nmae: "mail" } as FailedFilter), { code: "CONFIG" });
  await assert.rejects(queue.failed({ text: "" }), { code: "CONFIG", message: /^queue: text=""/ });
  await assert.rejects(queue.failed({ reverse: "yes" as unknown as boolean }), {
    message: /^queue: reverse="yes"/,
  });
  await assert.rejects(queue.forget("all", { limit: 0 }), { code: "CONFIG", message: /^queue: limit=0/ });
  await assert.rejects(queue.forget("all", { onProgress: 7 as never }), { message: /^queue: onProgress=7/ });
  assert.equal(await queue.countFailed(), 1);
  await queue.close();
});

test("a search, a count and a move of many take bounded steps", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const calls: [method: string, size: number][] = [];
  const queue = watching(driver, (method, argument, answer) => {
    const { looked } = answer as { looked?: number };
    const { ids = [] } = argument as { ids?: string[] };
    calls.push([method, looked ?? ids.length]);
  });
  for (let lot = 0; lot < 6; lot++) await failOn(driver, 1000, { name: lot === 5 ? "rare" : "mail" });

  assert.deepEqual((await queue.failed({ name: "rare", limit: 2 })).map(({ id }) => id), ["5001", "5002"]);
  assert.deepEqual(calls.splice(0), [
    ...Array.from({ length: 5 }, () => ["findFailed", 1000]),
    ["findFailed", 2],
    ["failed", 2],
  ]);
  assert.equal(await queue.countFailed({ text: "none" }), 0);
  assert.deepEqual(calls.splice(0).map(([, size]) => size), [1000, 1000, 1000, 1000, 1000, 1000, 0]);

  const seen: MoveProgress[] = [];
  const moved = await queue.retry({ name: "mail" }, { onProgress: (progress) => seen.push(progress) });
  assert.equal(moved.length, 5000);
  const moves = calls.filter(([method]) => method === "retry");
  assert.deepEqual(moves, Array.from({ length: 10 }, () => ["retry", 500]));
  assert.deepEqual(seen.map(({ looked, total }) => [looked, total]), [
    ...Array.from({ length: 10 }, (_, at) => [500 * (at + 1), 6000]),
    [6000, 6000],
  ]);
  assert.deepEqual(seen.flatMap((progress) => progress.moved), moved);
  await queue.close();
});

test("where few match, many looks lead to one transaction", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const calls: [method: string, size: number][] = [];
  const queue = watching(driver, (method, argument) => {
    const { ids } = argument as { ids?: string[] };
    if (ids !== undefined) calls.push([method, ids.length]);
  });
  for (let lot = 0; lot < 4; lot++) {
    await failOn(driver, 999);
    await failOn(driver, 1, { name: "rare" });
  }
  const seen: number[] = [];
  const onProgress = ({ looked }: MoveProgress): unknown => seen.push(looked);
  assert.equal((await queue.forget({ name: "rare" }, { limit: 3, onProgress })).length, 3);
  assert.deepEqual(calls.splice(0), [["forget", 3]]);
  assert.deepEqual(seen, [1000, 2000, 3000]);
  assert.equal((await queue.retry({ name: "rare" })).length, 1);
  assert.deepEqual(calls, [["retry", 1]]);
  assert.equal(await queue.countFailed(), 4 * 999);
  await queue.close();
});

test("no more failed jobs are moved than asked for", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const queue = new Queue({ driver, jobs: {}, env: {} });
  await failOn(driver, 900);
  assert.equal((await queue.retry("all", { limit: 700 })).length, 700);
  assert.equal((await queue.forget({ name: "job" }, { limit: 1 }))[0].id, "701");
  assert.equal((await queue.forget(["702", "703", "704"], { limit: 2 })).length, 2);
  assert.equal(await queue.countFailed(), 197);
  await queue.close();
});

test("what fails again under a new number meanwhile is not retried again, nor is it waited for", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  await failOn(driver, 3, { name: "mail" });
  let again = 0;
  const queue = watching(driver, (method) => {
    if (method !== "retry") return;
    again++;
    failing = failing.then(() => failOn(driver, 1, { name: "mail", queue: "other" }));
  });
  let failing = Promise.resolve();
  const options = { onProgress: () => failing, limit: 50 };
  assert.equal((await queue.retry("all", options)).length, 3);
  assert.equal(again, 1);
  assert.equal((await queue.retry({ name: "mail" }, options)).length, 1);
  assert.equal(await queue.countFailed(), 1, "the last one stays for the next retry");
  await queue.close();
});

test("a progress that throws ends the move, and what was moved stays moved", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const queue = new Queue({ driver, jobs: {}, env: {} });
  await failOn(driver, 900);
  const onProgress = () => Promise.reject(new Error("enough"));
  await assert.rejects(queue.forget("all", { onProgress }), { message: "enough" });
  assert.equal(await queue.countFailed(), 400);
  await queue.close();
});

test("waiting jobs are cleared in bounded steps, of a queue or of all", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const lots: [limit: unknown, removed: unknown][] = [];
  const queue = watching(driver, (method, limit, removed) => {
    if (method === "clear") lots.push([limit, removed]);
  });
  const push = (name: string, count: number) =>
    driver.push(
      Array.from(
        { length: count },
        (_, at) => ({ name: "job", payload: "", queue: name, priority: 0, delay: at % 2 * 60_000 }),
      ),
      null,
    );
  await push("mail", 1200);
  await push("other", 3);
  const seen: unknown[] = [];
  assert.equal(await queue.clear({ queue: "mail", onProgress: (progress) => seen.push(progress) }), 1200);
  assert.deepEqual(lots.splice(0), [[500, 500], [500, 500], [200, 200]]);
  assert.deepEqual(seen, [500, 1000, 1200].map((cleared) => ({ cleared, total: 1200 })));
  assert.equal(await queue.waiting(), 3);
  assert.equal(await queue.clear({ queue: "mail" }), 0);
  await push("mail", 2);
  assert.equal(await queue.clear(), 5);
  assert.equal(await queue.clear(), 0);

  await push("mail", 600);
  const onProgress = () => push("mail", 600);
  assert.equal(await queue.clear({ onProgress }), 600, "and not what came meanwhile");
  assert.equal(await queue.waiting(), 1200);
  await assert.rejects(queue.clear({ queue: "a,b" }), { code: "CONFIG", message: /^queue: queue="a,b"/ });
  await assert.rejects(queue.clear({ name: "a" } as object), { message: /options\.name: no such setting/ });
  await assert.rejects(queue.clear({ onProgress: true as never }), { message: /^queue: onProgress=true/ });
  await queue.close();
});
