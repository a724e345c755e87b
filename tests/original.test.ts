/** The original's own tests, one by one, and the behaviours that its comments promise. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { type Job, type Jobs, Queue, QueueError } from "@x/queue";
import { readSettings } from "../core/config.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { take } from "./conformance.ts";

/** A queue in memory whose settings are `env`, its database, and what it logged. */
function setUp<const Map extends Jobs>(env: Record<string, string>, jobs: Map): {
  queue: Queue<Map>;
  db: DatabaseSync;
  lines: string[];
} {
  const db = new DatabaseSync(":memory:");
  const lines: string[] = [];
  const log = {
    warn: (line: string) => void lines.push(`warn ${line}`),
    error: (line: string) => void lines.push(`error ${line}`),
  };
  return { queue: new Queue({ database: db, env, jobs, log }), db, lines };
}

function count(db: DatabaseSync, table: string): number {
  return Number(db.prepare(`SELECT COUNT(*) AS n FROM ${table}`).get()?.n);
}

/** Writes down that it ran, in the app's own database. */
function record(job: Job): void {
  const db = job.db as DatabaseSync;
  db.exec("CREATE TABLE IF NOT EXISTS done (payload TEXT, attempt INTEGER)");
  db.prepare("INSERT INTO done VALUES (?, ?)").run(job.payload, job.attempt);
}

function recorded(db: DatabaseSync): [string, number][] {
  return db.prepare("SELECT payload, attempt FROM done").all()
    .map((row) => [row.payload as string, row.attempt as number]);
}

/** Whether two arrays of records are equal, whatever their prototypes. */
function plain(rows: readonly object[]): object[] {
  return rows.map((row) => ({ ...row }));
}

test("a dispatched job runs once", async () => {
  const { queue, db } = setUp({}, { record });
  await queue.dispatch("record", '{"id":7}');
  assert.equal(await queue.waiting(), 1);
  const now = Date.now();
  assert.equal(await queue.workOnce(now), true);
  assert.equal(await queue.workOnce(now), false, "done jobs are gone");
  assert.equal(await queue.waiting(), 0);
  assert.deepEqual(recorded(db), [['{"id":7}', 1]]);
  await queue.close();
});

test("an app dispatches from a request handler and a test runs the job", async () => {
  const { queue, db } = setUp({}, { record });
  const app = async (_request: Request): Promise<Response> => {
    await queue.dispatch("record", "hi");
    return new Response("queued", { status: 202 });
  };
  assert.equal((await app(new Request("http://localhost/"))).status, 202);
  const another = new Queue({ database: db, env: {}, jobs: { record } });
  assert.equal(await another.workOnce(Date.now()), true);
  assert.equal(count(db, "done"), 1);
  await another.close();
  await queue.close();
});

test("a delayed job waits", async () => {
  const { queue } = setUp({}, { record });
  await queue.dispatchLater("record", "x", { seconds: 60 });
  const now = Date.now();
  assert.equal(await queue.workOnce(now), false);
  assert.equal(await queue.workOnce(now + 61_000), true);
  await queue.close();
});

test("unknown names are refused at dispatch", async () => {
  const { queue, db } = setUp({}, { record });
  await queue.open();
  await assert.rejects(
    // @ts-expect-error the compiler knows the names, too
    queue.dispatch("recrod", "x"),
    (error) => {
      assert.equal(error instanceof QueueError && error.code, "UNKNOWN");
      assert.equal((error as Error).message, 'queue: no job handler named "recrod"');
      return true;
    },
  );
  assert.equal(count(db, "jobs"), 0);
  await queue.close();
});

test("failures back off, then land in failed_jobs", async () => {
  const { queue, db } = setUp({}, {
    flaky: () => {
      throw new Error("upstream 503");
    },
  });
  await queue.dispatch("flaky", "p");
  const start = Date.now();
  const at = (seconds: number): number => start + seconds * 1000;
  assert.equal(await queue.workOnce(at(0)), true, "attempt 1");
  assert.equal(await queue.workOnce(at(9)), false, "10 s backoff");
  assert.equal(await queue.workOnce(at(10)), true, "attempt 2");
  assert.equal(await queue.workOnce(at(69)), false, "60 s backoff");
  assert.equal(count(db, "failed_jobs"), 0);
  assert.equal(await queue.workOnce(at(70)), true, "attempt 3, the last");
  assert.equal(count(db, "jobs"), 0);
  assert.deepEqual(plain(db.prepare("SELECT name, payload, error FROM failed_jobs").all()), [
    { name: "flaky", payload: "p", error: "upstream 503" },
  ]);
  await queue.close();
});

test("failed jobs can be retried or forgotten", async () => {
  const { queue, db } = setUp({ QUEUE_TRIES: "1" }, {
    flaky: () => {
      throw new Error("nope");
    },
  });
  for (const payload of ["a", "b", "c"]) await queue.dispatch("flaky", payload);
  const now = Date.now();
  while (await queue.workOnce(now));
  assert.equal(count(db, "failed_jobs"), 3);

  assert.deepEqual(await queue.retry("99"), [], "no such job");
  assert.deepEqual(await queue.retry("1"), [{ id: "1", name: "flaky" }]);
  assert.deepEqual(
    plain(db.prepare("SELECT payload, attempts, reserved_at FROM jobs").all()),
    [{ payload: "a", attempts: 0, reserved_at: null }],
    "attempts reset",
  );
  assert.equal(await queue.workOnce(Date.now()), true, "it runs again");
  assert.equal(count(db, "failed_jobs"), 3, "and fails again");

  assert.deepEqual(await queue.forget("2"), [{ id: "2", name: "flaky" }]);
  assert.deepEqual(await queue.forget("2"), [], "already gone");
  assert.equal((await queue.retry("all")).length, 2, "all");
  assert.equal(count(db, "jobs"), 2);
  while (await queue.workOnce(Date.now()));
  assert.equal((await queue.forget("all")).length, 2, "all");
  assert.equal(count(db, "failed_jobs"), 0);
  await queue.close();
});

test("a throw is a failure", async () => {
  const { queue, db } = setUp({ QUEUE_TRIES: "1" }, {
    boom: () => {
      throw "kaboom";
    },
    crash: () => {
      (undefined as unknown as { call(): void }).call();
    },
    reject: () => Promise.reject(new RangeError("too far")),
  });
  await queue.dispatch("boom", "p");
  assert.equal(await queue.workOnce(), true);
  await queue.dispatch("crash", "p");
  assert.equal(await queue.workOnce(), true);
  await queue.dispatch("reject", "p");
  assert.equal(await queue.workOnce(), true);
  const errors = db.prepare("SELECT error FROM failed_jobs ORDER BY id").all().map((row) =>
    String(row.error)
  );
  assert.equal(errors[0], "kaboom");
  assert.match(errors[1], /^TypeError: /);
  assert.equal(errors[2], "RangeError: too far");
  await queue.close();
});

test("an abandoned reservation runs again after retryAfter", async () => {
  const { db } = setUp({}, {});
  const driver = new SqliteDriver({ database: db });
  const queue = new Queue({ driver, env: {}, jobs: { record } });
  await queue.dispatch("record", "x");
  const now = Date.now();
  assert.equal((await take(driver, { now })).length, 1, "a worker reserves the job, then dies");
  assert.equal(await queue.workOnce(now + 89_000), false, "still reserved");
  assert.equal(await queue.workOnce(now + 90_000), true);
  assert.deepEqual(recorded(db), [["x", 2]], "the dead run counts");
  await queue.close();
});

test("workers default to none in production", () => {
  assert.equal(readSettings({}, {}).workers, 1);
  assert.equal(readSettings({}, { APP_ENV: "production" }).workers, 0);
  assert.equal(readSettings({}, { APP_ENV: "production", QUEUE_WORKERS: "4" }).workers, 4);
});

test("an unknown connection is refused", () => {
  assert.throws(
    () => new Queue({ database: ":memory:", env: { QUEUE_CONNECTION: "sqs" }, jobs: {} }),
    (error) => {
      assert.equal(error instanceof QueueError && error.code, "CONFIG");
      assert.match((error as Error).message, /^queue: QUEUE_CONNECTION="sqs": expected database/);
      return true;
    },
  );
});

// What the original's comments and code promise, where no test of its own holds it.

test("waits are 10 s, 60 s, and 300 s from then on", async () => {
  const { queue } = setUp({ QUEUE_TRIES: "6" }, {
    flaky: () => {
      throw new Error("nope");
    },
  });
  await queue.dispatch("flaky", "p");
  let now = Date.now();
  for (const wait of [10, 60, 300, 300, 300]) {
    assert.equal(await queue.workOnce(now), true);
    assert.equal(await queue.workOnce(now + wait * 1000 - 1), false, `${wait} s backoff`);
    now += wait * 1000;
  }
  assert.equal(await queue.workOnce(now), true, "attempt 6, the last");
  assert.equal(await queue.waiting(), 0);
  await queue.close();
});

test("a job whose worker died in each attempt fails without running again", async () => {
  const { db } = setUp({}, {});
  const driver = new SqliteDriver({ database: db });
  const queue = new Queue({ driver, env: {}, jobs: { record }, log: { warn() {}, error() {} } });
  await queue.dispatch("record", "x");
  const now = Date.now();
  for (let death = 0; death < 3; death++) {
    assert.equal((await take(driver, { now: now + death * 90_000 })).length, 1);
  }
  assert.equal(await queue.workOnce(now + 3 * 90_000), true);
  const [failed] = await queue.failed();
  assert.equal(failed.error, "reserved 3 times without finishing");
  assert.equal(
    db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'done'").get(),
    undefined,
    "the handler was not called",
  );
  await queue.close();
});

test("a job without a handler is a failure, and is retried like one", async () => {
  const { queue, db } = setUp({ QUEUE_TRIES: "2" }, { record });
  await queue.open();
  db.prepare("INSERT INTO jobs (name, payload, available_at) VALUES ('old', 'p', 0)").run();
  const now = Date.now();
  assert.equal(await queue.workOnce(now), true);
  assert.equal(await queue.workOnce(now + 9999), false, "10 s backoff");
  assert.equal(await queue.workOnce(now + 10_000), true);
  assert.deepEqual((await queue.failed()).map(({ name, error }) => [name, error]), [[
    "old",
    'no handler named "old"',
  ]]);
  await queue.close();
});

test("a retry and a failure are logged in a line each", async () => {
  const { queue, lines } = setUp({ QUEUE_TRIES: "2" }, {
    flaky: () => {
      throw new Error("upstream 503");
    },
  });
  await queue.dispatch("flaky", "p");
  const now = Date.now();
  await queue.workOnce(now);
  await queue.workOnce(now + 10_000);
  assert.deepEqual(lines, [
    "warn queue: job flaky failed (attempt 1), retrying: upstream 503",
    "error queue: job flaky failed after 2 attempts: upstream 503",
  ]);
  await queue.close();
});

test("zero tries count as one", async () => {
  const { queue } = setUp({ QUEUE_TRIES: "0" }, {
    flaky: () => {
      throw new Error("nope");
    },
  });
  await queue.dispatch("flaky", "p");
  assert.equal(await queue.workOnce(), true);
  assert.equal(await queue.waiting(), 0);
  assert.equal((await queue.failed()).length, 1);
  await queue.close();
});

test("the lease is QUEUE_RETRY_AFTER seconds", async () => {
  const { db } = setUp({}, {});
  const driver = new SqliteDriver({ database: db });
  const queue = new Queue({ driver, env: { QUEUE_RETRY_AFTER: "5" }, jobs: { record } });
  await queue.dispatch("record", "x");
  const now = Date.now();
  await take(driver, { now });
  assert.equal(await queue.workOnce(now + 4999), false);
  assert.equal(await queue.workOnce(now + 5000), true);
  await queue.close();
});

test("a setting that is no number is refused, and named", () => {
  for (const name of ["QUEUE_TRIES", "QUEUE_RETRY_AFTER", "QUEUE_WORKERS"]) {
    assert.throws(
      () => new Queue({ database: ":memory:", env: { [name]: "many" }, jobs: {} }),
      (error) =>
        error instanceof QueueError && error.code === "CONFIG" &&
        error.message.startsWith(`queue: ${name}="many": expected `),
    );
  }
});

test("jobs run in the order of their dispatch", async () => {
  const { queue, db } = setUp({}, { record });
  for (let index = 0; index < 20; index++) await queue.dispatch("record", String(index));
  const now = Date.now();
  while (await queue.workOnce(now));
  assert.deepEqual(
    recorded(db).map(([payload]) => payload),
    Array.from({ length: 20 }, (_, index) => String(index)),
  );
  await queue.close();
});
