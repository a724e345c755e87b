/** Dispatching: what a payload may be, what is refused, and what a dispatch promises. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { type Job, Queue, QueueError, type QueueErrorCode } from "@x/queue";
import { changed, numbered } from "./session.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";

/** A queue in memory whose one job type takes anything, and what its handler got. */
function setUp(options: { maxPayload?: number } = {}): {
  queue: Queue<{ any: (job: Job) => void }>;
  db: DatabaseSync;
  got: { payload: string; data: unknown }[];
} {
  const got: { payload: string; data: unknown }[] = [];
  const db = new DatabaseSync(":memory:");
  const any = ({ payload, data }: Job): void => void got.push({ payload, data });
  return { queue: new Queue({ database: db, env: {}, jobs: { any }, ...options }), db, got };
}

function isRefusal(code: QueueErrorCode, message: string | RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.equal(error instanceof QueueError && error.code, code, String(error));
    if (typeof message === "string") assert.equal((error as Error).message, message);
    else assert.match((error as Error).message, message);
    return true;
  };
}

// What a payload may be

for (
  const [what, payload, text, data] of [
    ["text", "hello", "hello", "hello"],
    ["empty text", "", "", ""],
    ["text that is JSON", '{"id": 7}', '{"id": 7}', { id: 7 }],
    ["text that is almost JSON", "{id: 7}", "{id: 7}", "{id: 7}"],
    ["text with quotes", '"q"', '"q"', "q"],
    ["text of any script", "日本語 👩‍👩‍👧 \u{10ffff}\r\n\ufeff", "日本語 👩‍👩‍👧 \u{10ffff}\r\n\ufeff", undefined],
    ["a number", 7, "7", 7],
    ["a truth", true, "true", true],
    ["null", null, "null", null],
    ["nothing", undefined, "null", null],
    ["a list", [1, "a", null], '[1,"a",null]', [1, "a", null]],
    ["an object", { a: { b: [1] }, c: undefined }, '{"a":{"b":[1]}}', { a: { b: [1] } }],
    ["a date", new Date(0), '"1970-01-01T00:00:00.000Z"', "1970-01-01T00:00:00.000Z"],
    ["an object with a NUL in a text", { a: "\0" }, '{"a":"\\u0000"}', { a: "\0" }],
    ["an object with half a surrogate pair in a text", ["\ud800"], '["\\ud800"]', ["\ud800"]],
  ] as const
) {
  test(`a payload may be ${what}`, async () => {
    const { queue, got } = setUp();
    await queue.dispatch("any", payload);
    assert.equal(await queue.workOnce(), true);
    assert.deepEqual(got, [{ payload: text, data: data === undefined ? text : data }]);
    await queue.close();
  });
}

test("a payload is stored as it is at the dispatch", async () => {
  const { queue, got } = setUp();
  const payload = { id: 1 };
  const dispatch = queue.dispatch("any", payload);
  payload.id = 2;
  await dispatch;
  await queue.workOnce();
  assert.deepEqual(got[0].data, { id: 1 });
  await queue.close();
});

// What is refused

const cycle: Record<string, unknown> = {};
cycle.itself = cycle;

const REFUSED: [what: string, payload: unknown, message: RegExp][] = [
  ["a BigInt", 1n, /^queue: the payload of "any" cannot be stored as JSON: .*BigInt/],
  ["a BigInt within", { id: [1n] }, /^queue: the payload of "any" cannot be stored as JSON: .*BigInt/],
  ["a cycle", cycle, /^queue: the payload of "any" cannot be stored as JSON: .*(circular|cyclic)/i],
  ["a function", () => {}, /^queue: the payload of "any" is a function: expected what JSON can hold$/],
  ["a symbol", Symbol("s"), /^queue: the payload of "any" is a symbol: expected what JSON can hold$/],
  [
    "an object whose toJSON throws",
    {
      toJSON() {
        throw new Error("not me");
      },
    },
    /^queue: the payload of "any" cannot be stored as JSON: not me$/,
  ],
  ["text with a NUL", "a\0b", /^queue: the payload of "any" has a NUL character: expected /],
  [
    "text with half a surrogate pair",
    "a\ud800b",
    /^queue: the payload of "any" has half a surrogate pair: expected /,
  ],
  [
    "text of more than 1 MiB",
    "x".repeat(1_048_577),
    /^queue: the payload of "any" is 1048577 bytes: expected at most 1048576 \(QUEUE_MAX_PAYLOAD\); /,
  ],
  [
    "an object of more than 1 MiB",
    { text: "x".repeat(1_048_576) },
    /^queue: the payload of "any" is 1048587 bytes: expected at most 1048576 \(QUEUE_MAX_PAYLOAD\); /,
  ],
];

for (const [what, payload, message] of REFUSED) {
  test(`${what} is refused at dispatch, with an error that says so`, async () => {
    const { queue } = setUp();
    await assert.rejects(queue.dispatch("any", payload), isRefusal("PAYLOAD", message));
    await assert.rejects(queue.dispatchLater("any", payload, 1000), isRefusal("PAYLOAD", message));
    assert.equal(await queue.waiting(), 0);
    await queue.close();
  });
}

test("the error about a payload has its cause", async () => {
  const { queue } = setUp();
  await assert.rejects(queue.dispatch("any", 1n), (error) => (error as Error).cause instanceof TypeError);
  await queue.close();
});

test("a payload of 1 MiB is taken, and read whole", async () => {
  const { queue, got } = setUp();
  const payload = "x".repeat(1_048_576);
  await queue.dispatch("any", payload);
  await queue.workOnce();
  assert.equal(got[0].payload === payload, true);
  await queue.close();
});

test("the size of a payload is counted in bytes, not in characters", async () => {
  const { queue } = setUp({ maxPayload: 12 });
  for (const payload of ["x".repeat(12), "é".repeat(6), "語".repeat(4), "👍".repeat(3), { a: "éé" }]) {
    await queue.dispatch("any", payload);
  }
  for (
    const payload of ["x".repeat(13), "é".repeat(6) + "x", "語".repeat(5), "👍".repeat(3) + "x", { a: "éé " }]
  ) {
    await assert.rejects(
      queue.dispatch("any", payload),
      isRefusal("PAYLOAD", /is 1[35] bytes: expected at most 12/),
    );
  }
  assert.equal(await queue.waiting(), 5);
  await queue.close();
});

test("the payload of a job of another program may be larger, and reaches its handler", async () => {
  const { queue, db, got } = setUp({ maxPayload: 12 });
  await queue.open();
  db.prepare("INSERT INTO jobs (name, payload, available_at) VALUES ('any', ?, 0)").run("x".repeat(100));
  assert.equal(await queue.workOnce(), true);
  assert.equal(got[0].payload.length, 100);
  await queue.close();
});

test("a name that nobody handles is refused, also one that every object has", async () => {
  const { queue } = setUp();
  for (const name of ["any ", "Any", "", "toString", "constructor", "__proto__"]) {
    await assert.rejects(
      queue.dispatch(name as "any"),
      isRefusal("UNKNOWN", `queue: no job handler named ${JSON.stringify(name)}`),
    );
  }
  assert.equal(await queue.waiting(), 0);
  await queue.close();
});

test("a job whose handler another program has can be dispatched", async () => {
  const db = new DatabaseSync(":memory:");
  const here = new Queue({ database: db, env: {}, jobs: { elsewhere: { queue: "theirs", priority: 2 } } });
  const { id } = await here.dispatch("elsewhere", { id: 1 });
  const ran: unknown[] = [];
  const there = new Queue({
    database: db,
    env: {},
    jobs: { elsewhere: (job) => void ran.push([job.id, job.payload, job.queue, job.priority]) },
  });
  await there.work({ stopWhenEmpty: true });
  assert.deepEqual(ran, [[id, '{"id":1}', "theirs", 2]]);
  await here.close();
  await there.close();
});

// Ids, delays and many at once

test("ids are texts, of which no two are alike", async () => {
  const { queue } = setUp();
  const one = await queue.dispatch("any");
  const later = await queue.dispatchLater("any", null, { minutes: 1 });
  const many = await queue.dispatchMany([["any", 1], ["any", 2]]);
  const ids = [one, later, ...many].map(({ id }) => id);
  assert.deepEqual(ids.map((id) => typeof id), ["string", "string", "string", "string"]);
  assert.equal(new Set(ids).size, 4);
  await queue.close();
});

test("a job is where its dispatch says: at once, later, on its queue", async () => {
  const { queue } = setUp();
  await queue.dispatch("any", 1);
  await queue.dispatch("any", 2, { queue: "mail", delay: { minutes: 1 } });
  await queue.dispatchLater("any", 3, 60_000, { queue: "mail" });
  await queue.dispatchLater("any", 4, 0);
  const counts = (await queue.counts()).map(({ queue, ready, delayed }) => ({ queue, ready, delayed }));
  assert.deepEqual(counts.sort((a, b) => a.queue < b.queue ? -1 : 1), [
    { queue: "default", ready: 2, delayed: 0 },
    { queue: "mail", ready: 0, delayed: 2 },
  ]);
  await queue.close();
});

test("the delay of dispatchLater is its third argument, whatever its options say", async () => {
  const { queue } = setUp();
  const before = Date.now();
  await queue.dispatchLater("any", null, { hours: 1 }, { delay: 0 });
  assert.equal(await queue.workOnce(before + 3_599_999), false);
  assert.equal(await queue.workOnce(Date.now() + 3_600_000), true);
  await queue.close();
});

test("jobs dispatched without waiting for each other keep their order", async () => {
  const { queue, got } = setUp();
  const ids = await Promise.all(numbered(200).map((payload) => queue.dispatch("any", payload)));
  assert.deepEqual(ids.map(({ id }) => Number(id)), ids.map((_, index) => Number(ids[0].id) + index));
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(got.map(({ payload }) => payload), numbered(200));
  await queue.close();
});

test("many jobs are dispatched at once, each with its options, and their ids come in order", async () => {
  const { queue, got } = setUp();
  const ids = await queue.dispatchMany([
    ["any", "a", { priority: -1 }],
    ["any", "b"],
    ["any", "c", { delay: { hours: 1 } }],
    ["any"],
  ]);
  assert.deepEqual(ids.map(({ id }) => Number(id)), [0, 1, 2, 3].map((index) => Number(ids[0].id) + index));
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(got.map(({ payload }) => payload), ["b", "null", "a"]);
  assert.equal(await queue.waiting(), 1);
  await queue.close();
});

test("many jobs may come from any iterable, and may be none", async () => {
  const { queue } = setUp();
  function* entries(): Generator<["any", number]> {
    for (let index = 0; index < 1500; index++) yield ["any", index];
  }
  assert.equal((await queue.dispatchMany(entries())).length, 1500);
  assert.deepEqual(await queue.dispatchMany([]), []);
  assert.equal(await queue.waiting(), 1500);
  await queue.close();
});

test("of many jobs none is stored where one is refused", async () => {
  const { queue } = setUp();
  const good = ["any", "good"] as ["any", string];
  const bad: [unknown[], QueueErrorCode][] = [
    [["any", 1n], "PAYLOAD"],
    [["any", "\0"], "PAYLOAD"],
    [["other"], "UNKNOWN"],
    [["any", "p", { delay: -1 }], "CONFIG"],
    [["any", "p", { queue: "a b" }], "CONFIG"],
    [["any", "p", { priority: 101 }], "CONFIG"],
  ];
  for (const [entry, code] of bad) {
    await assert.rejects(queue.dispatchMany([good, entry as typeof good, good]), isRefusal(code, /^queue: /));
  }
  function* broken(): Generator<["any", string]> {
    yield good;
    throw new RangeError("no more");
  }
  await assert.rejects(queue.dispatchMany(broken()), RangeError);
  assert.equal(await queue.waiting(), 0);
  await queue.close();
});

test("of many jobs none is stored where the store fails at one", async () => {
  const { queue, db } = setUp();
  await queue.open();
  db.exec(
    "CREATE TRIGGER refuse BEFORE INSERT ON jobs WHEN new.payload = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END",
  );
  await assert.rejects(
    queue.dispatchMany([["any", "1"], ["any", "bad"], ["any", "2"]]),
    isRefusal("DB", /^queue: /),
  );
  assert.equal(await queue.waiting(), 0);
  await queue.close();
});

// What a dispatch promises

test("a dispatch that the store refuses rejects", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const fault = new QueueError("DB", "the disk is on fire");
  const queue = new Queue({
    driver: changed(driver, { push: () => Promise.reject(fault) }),
    env: {},
    jobs: { any() {} },
  });
  await assert.rejects(queue.dispatch("any"), fault);
  await assert.rejects(queue.dispatchMany([["any"]]), fault);
  await queue.close();
});

test("what a dispatch was given wrongly is a rejection, not a throw", async () => {
  const { queue } = setUp();
  const calls: (() => Promise<unknown>)[] = [
    () => queue.dispatch("other" as "any"),
    () => queue.dispatch("any", 1n),
    () => queue.dispatch("any", 1, { delay: -1 }),
    () => queue.dispatchLater("any", 1, Number.NaN),
    () => queue.dispatchMany([["other" as "any"]]),
  ];
  for (const call of calls) {
    const promise = call();
    await assert.rejects(promise, QueueError);
  }
  await queue.close();
});

test("closing waits for what was dispatched before, and refuses what comes after", async () => {
  const { queue, db } = setUp();
  const dispatches = [queue.dispatch("any", "1"), queue.dispatchMany([["any", "2"], ["any", "3"]])];
  await queue.close();
  assert.deepEqual((await Promise.allSettled(dispatches)).map(({ status }) => status), [
    "fulfilled",
    "fulfilled",
  ]);
  assert.deepEqual(db.prepare("SELECT payload FROM jobs ORDER BY id").all().map((row) => row.payload), [
    "1",
    "2",
    "3",
  ]);
  const calls: (() => Promise<unknown>)[] = [
    () => queue.open(),
    () => queue.dispatch("any"),
    () => queue.dispatchLater("any", 1, 1),
    () => queue.dispatchMany([["any"]]),
    () => queue.workOnce(),
    () => queue.work(),
    () => queue.retry("all"),
    () => queue.forget("1"),
    () => queue.countFailed({ text: "x" }),
    () => queue.clear(),
    () => queue.failed(),
    () => queue.counts(),
    () => queue.waiting(),
  ];
  for (const call of calls) {
    await assert.rejects(call(), isRefusal("CLOSED", "queue: the queue is closed"), String(call));
  }
  await queue.close();
});

test("a queue that was never used can be closed", async () => {
  await setUp().queue.close();
  await setUp().queue[Symbol.asyncDispose]();
});

test("closing stops the queue's own workers, after the jobs that they run", async () => {
  const began = Promise.withResolvers<void>();
  const ending = Promise.withResolvers<void>();
  let ended = false;
  const db = new DatabaseSync(":memory:");
  const queue = new Queue({
    database: db,
    env: {},
    jobs: {
      slow: async () => {
        began.resolve();
        await ending.promise;
        ended = true;
      },
    },
  });
  await queue.dispatchMany([["slow"], ["slow"]]);
  const working = queue.work();
  const workers = queue.start();
  await began.promise;
  const closing = queue.close();
  ending.resolve();
  await closing;
  assert.equal(ended, true);
  await Promise.all([working, workers.stop()]);
  assert.equal(db.prepare("SELECT count(*) AS n FROM jobs WHERE reserved_at IS NOT NULL").get()?.n, 0);
});

test("a duration of more than 10,000 years is called too long, and the longest is taken", async () => {
  const queue = new Queue({ database: ":memory:", env: {}, jobs: { any: {} } });
  try {
    for (const delay of [{ days: 1e9 }, 1e18, Infinity]) {
      await assert.rejects(
        queue.dispatchLater("any", "x", delay),
        isRefusal("CONFIG", /^queue: delay=.*: expected at most 10,000 years$/),
      );
    }
    await queue.dispatchLater("any", "x", { days: 3_652_500 });
  } finally {
    await queue.close();
  }
});
