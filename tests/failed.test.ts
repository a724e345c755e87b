/** Failed jobs, as an app reads, retries and forgets them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Job, Queue } from "@x/queue";

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
