import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { Queue } from "@x/queue";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { warnOfJournal } from "../drivers/sqlite/file.ts";
import { conformance, failure, job, take } from "./conformance.ts";
import { inFolder, newFolder } from "./folder.ts";
import { tornJobs } from "./torn.ts";
import { soon, until } from "./until.ts";

conformance({
  name: "SQLite in a file",
  open() {
    const folder = newFolder();
    const database = join(folder.path, "queue.sqlite");
    return {
      driver: new SqliteDriver({ database }),
      another: () => new SqliteDriver({ database }),
      remove: folder.remove,
    };
  },
});

conformance({
  name: "SQLite in a file, synchronous=full",
  open() {
    const folder = newFolder();
    const database = join(folder.path, "queue.sqlite");
    return {
      driver: new SqliteDriver({ database, synchronous: "full" }),
      another: () => new SqliteDriver({ database, synchronous: "full" }),
      remove: folder.remove,
    };
  },
});

conformance({
  name: "SQLite in memory",
  alone: "a database in memory is seen by one connection only",
  open: () => ({
    driver: new SqliteDriver({ database: ":memory:" }),
    another: () => assert.fail("a database in memory has one driver"),
    remove() {},
  }),
});

const T = 1_800_000_000_000;

test("a folder that cannot be made is an error", {
  skip: !existsSync("/proc/self") && "no /proc, which answers ENOENT to a mkdir",
}, async () => {
  const driver = new SqliteDriver({ database: "/proc/queue/deep/queue.sqlite" });
  await assert.rejects(driver.open(), { code: "DB", message: /\/proc\/queue\/deep\/queue.sqlite: / });
  await driver.close();
});

test("the folder of the database is made", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "storage", "deep", "queue.sqlite");
    const driver = new SqliteDriver({ database });
    await driver.open();
    assert.equal(existsSync(database), true);
    await driver.close();
  });
});

test("a path may have characters that a URI would not", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "a b?mode=ro#ünï%20'q'.sqlite");
    const driver = new SqliteDriver({ database });
    await driver.push([job()], T);
    await driver.close();
    assert.equal(existsSync(database), true);
  });
});

test("jobs outlive the process that dispatched them", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const first = new SqliteDriver({ database });
    const ids = await first.push([job({ payload: "1" }), job({ payload: "2" })], T);
    await first.close();
    const second = new SqliteDriver({ database });
    assert.deepEqual((await take(second, { limit: 9 })).map(({ id }) => id), ids);
    await second.close();
  });
});

test("an id is not given again after the store was closed and opened", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const seen: string[] = [];
    for (let round = 0; round < 3; round++) {
      const driver = new SqliteDriver({ database });
      seen.push(...await driver.push([job()], T));
      await driver.complete((await take(driver))[0]);
      await driver.close();
    }
    assert.equal(new Set(seen).size, 3);
  });
});

test("a failed job is found under the id that it was dispatched with", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const ids = await driver.push(["1", "2", "3"].map((payload) => job({ payload })), T);
  const held = await take(driver, { limit: 3 });
  // Failed in another order than dispatched: an id that the table counts up by itself would differ.
  for (const one of [held[2], held[0], held[1]]) await driver.fail(one, failure());
  const failed = await driver.failed({ after: null, limit: 9 });
  assert.deepEqual(failed.map(({ id, payload }) => [id, payload]), [[ids[0], "1"], [ids[1], "2"], [
    ids[2],
    "3",
  ]]);
  await driver.close();
});

test("a retried job goes on under its id", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  const [first] = await driver.push([job(), job()], T);
  const [held] = await take(driver);
  await driver.fail(held, failure());
  await driver.push([job()], T);
  assert.deepEqual(await driver.retry({ ids: [first] }, T), [{ id: first, name: "job" }]);
  assert.equal((await take(driver))[0].id, first);
  await driver.close();
});

test("within a turn jobs are stored first, then settled, then reserved", async () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  await driver.push([job({ payload: "1" })], T);
  const [held] = await take(driver);
  const [next, released] = await Promise.all([
    take(driver, { limit: 9 }),
    driver.release(held, { delay: 0, counted: true }, T),
    driver.push([job({ payload: "2" })], T),
  ]);
  assert.equal(released, true);
  assert.deepEqual(next.map(({ payload }) => payload), ["1", "2"]);
  await driver.close();
});

test("a driver that opened its file closes it", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const driver = new SqliteDriver({ database });
    await driver.push([job()], T);
    await driver.close();
    // SQLite removes the log when the last connection is closed.
    assert.equal(existsSync(`${database}-wal`), false);
    const after = new DatabaseSync(database);
    assert.equal(after.prepare("PRAGMA integrity_check").get()?.integrity_check, "ok");
    after.close();
  });
});

test("closing while it opens leaves nothing open", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const driver = new SqliteDriver({ database });
    const opening = driver.open().catch(() => {});
    await driver.close();
    await opening;
    assert.equal(existsSync(`${database}-wal`), false);
  });
});

test("a new file has a write-ahead log, so that readers and the writer do not wait for each other", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const driver = new SqliteDriver({ database });
    await driver.push([job()], T);
    const reader = new DatabaseSync(database);
    assert.equal(reader.prepare("PRAGMA journal_mode").get()?.journal_mode, "wal");
    reader.exec("BEGIN");
    assert.equal(reader.prepare("SELECT count(*) AS jobs FROM jobs").get()?.jobs, 1);
    await driver.push([job()], T);
    assert.equal(reader.prepare("SELECT count(*) AS jobs FROM jobs").get()?.jobs, 1, "its own snapshot");
    reader.exec("COMMIT");
    assert.equal(reader.prepare("SELECT count(*) AS jobs FROM jobs").get()?.jobs, 2);
    reader.close();
    await driver.close();
  });
});

test("handlers get a connection of their own, which waits for other processes' writes", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const driver = new SqliteDriver({ database, synchronous: "full" });
    const closed: unknown = driver.database;
    assert.equal(closed, undefined, "before the store is open");
    await driver.open();
    const db = driver.database as DatabaseSync;
    assert.equal(driver.database, db);
    assert.equal(db.prepare("PRAGMA busy_timeout").get()?.timeout, 5000);
    assert.equal(db.prepare("PRAGMA synchronous").get()?.synchronous, 2);
    db.exec("BEGIN; CREATE TABLE orders (item TEXT)");
    db.exec("COMMIT");
    db.exec("BEGIN");
    assert.equal(db.prepare("SELECT count(*) AS jobs FROM jobs").get()?.jobs, 0);
    await soon(driver.push([job()], T), "a push beside a handler's transaction");
    db.exec("COMMIT");
    db.close();
    await soon(driver.push([job()], T), "a push after a handler closed its connection");
    const next = driver.database as DatabaseSync;
    assert.equal(next.prepare("SELECT count(*) AS jobs FROM jobs").get()?.jobs, 2);
    await driver.close();
    assert.equal(next.isOpen, false);
    const after: unknown = driver.database;
    assert.equal(after, undefined);
    assert.equal(existsSync(`${database}-wal`), false);
  });
});

test("a handler that throws within its transaction does not stop the queue", async () => {
  await inFolder(async (folder) => {
    const lines: string[] = [];
    const seen: unknown[] = [];
    const queue = new Queue({
      database: join(folder, "queue.sqlite"),
      env: {},
      tries: 1,
      log: { warn: (line) => void lines.push(line), error() {} },
      jobs: { ...tornJobs(seen), last: () => void seen.push("last") },
    });
    await queue.dispatchMany([["torn"], ["torn"], ["whole"], ["last"]]);
    await soon(queue.work({ stopWhenEmpty: true, concurrency: 2 }), "the queue to go on");
    assert.deepEqual(seen, [0, "last"], "what it wrote was rolled back");
    assert.equal((await queue.failed()).length, 2);
    assert.equal(lines.some((line) => line.includes("left a transaction open")), true, lines.join("\n"));
    await queue.close();
  });
});

test("an idle look gives free pages back, and does not wait for a lock to do so", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const driver = new SqliteDriver({ database });
    const payload = "x".repeat(5000);
    await driver.push(Array.from({ length: 400 }, () => job({ payload })), T);
    for (const held of await take(driver, { limit: 400 })) await driver.complete(held);
    const other = new DatabaseSync(database);
    const free = (): number => Number(other.prepare("PRAGMA freelist_count").get()!.freelist_count);
    const before = free();
    assert.equal(before > 256, true, "there are some");
    other.exec("BEGIN IMMEDIATE");
    assert.deepEqual(await soon(take(driver), "the look"), []);
    other.exec("COMMIT");
    await until(() => free() < before, "free pages to be given back");
    other.close();
    await driver.close();
  });
});

test("options that would have no effect are refused", () => {
  const refused = (options: Record<string, unknown>, pattern: RegExp): void =>
    assert.throws(() => new SqliteDriver(options as never), { code: "CONFIG", message: pattern });
  refused({ database: ":memory:", synchronous: "FULL" }, /synchronous="FULL"/);
  refused({ database: ":memory:", synchronous: 2 }, /synchronous=2/);
  refused({ database: ":memory:", sync: "full" }, /options\.sync/);
  const connection = new DatabaseSync(":memory:");
  refused({ database: connection, synchronous: "full" }, /PRAGMA synchronous/);
  connection.close();
});

test("every close waits for the end of the first", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const driver = new SqliteDriver({ database });
    const pushed = driver.push([job()], T);
    const first = driver.close();
    await driver.close();
    assert.equal(existsSync(database), true);
    assert.equal(existsSync(`${database}-wal`), false, "the file is closed");
    await first;
    assert.equal((await pushed).length, 1);
  });
});

test("a file system that takes no write-ahead log is warned of", () => {
  const lines: string[] = [];
  warnOfJournal("/mnt/app.sqlite", "wal", (line) => void lines.push(line));
  assert.equal(lines.length, 0);
  warnOfJournal("/mnt/app.sqlite", "delete", (line) => void lines.push(line));
  assert.match(lines[0], /\/mnt\/app\.sqlite has journal_mode=delete/);
});

test("reads are done without the write lock, and see what was written in their turn", async () => {
  const { connection, ran } = watched();
  const driver = new SqliteDriver({ database: connection });
  await driver.open();
  ran.length = 0;
  const [, waiting, counts] = await Promise.all([
    driver.push([job()], T),
    driver.waiting(),
    driver.counts(T, 90_000),
  ]);
  assert.deepEqual([waiting, counts[0].ready], [1, 1]);
  const end = ran.indexOf("COMMIT");
  assert.equal(ran.indexOf("BEGIN IMMEDIATE") < end, true);
  const within = ran.slice(0, end).filter((sql) => /\bcount\(/.test(sql));
  assert.deepEqual(within, []);
  assert.equal(ran.slice(end).filter((sql) => /\bcount\(/.test(sql)).length >= 2, true);
  await driver.close();
  connection.close();
});

test("failed jobs move without their payloads being read, and 500 at a time", async () => {
  const { connection, ran } = watched();
  const driver = new SqliteDriver({ database: connection });
  const ids = await driver.push(
    Array.from({ length: 1200 }, (_, index) => job({ payload: String(index) })),
    T,
  );
  const fail = async (): Promise<void> => {
    for (const held of await take(driver, { limit: 1200 })) await driver.fail(held, failure());
  };
  await fail();
  ran.length = 0;
  const backwards = [...ids].reverse();
  const retried = await driver.retry({ ids: backwards }, T);
  assert.deepEqual(retried.map(({ id }) => id), ids);
  assert.equal(ran.filter((sql) => sql === "COMMIT").length, 3);
  await fail();
  ran.length = 0;
  assert.deepEqual((await driver.forget({ ids: backwards })).map(({ id }) => id), ids);
  assert.equal(ran.filter((sql) => sql === "COMMIT").length, 3);
  assert.deepEqual(ran.filter((sql) => /^\s*SELECT\b.*\bpayload\b/s.test(sql)), []);
  await driver.close();
  connection.close();
});

/** A connection, and the text of each statement that is run on it. */
function watched(): { connection: DatabaseSync; ran: string[] } {
  const db = new DatabaseSync(":memory:");
  const ran: string[] = [];
  const connection = new Proxy(db, {
    get(target, key) {
      if (key !== "prepare") {
        const value = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      }
      return (sql: string) => {
        const statement = target.prepare(sql);
        const note = <Result>(run: (...values: never[]) => Result) => (...values: never[]): Result => {
          ran.push(sql);
          return run.apply(statement, values);
        };
        return { run: note(statement.run), get: note(statement.get), all: note(statement.all) };
      };
    },
  });
  return { connection, ran };
}

test("a failed job whose number a row of another store has keeps its id through a retry", async () => {
  await inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const driver = new SqliteDriver({ database });
    await driver.open();
    const db = new DatabaseSync(database);
    const insert = "INSERT INTO failed_jobs (id, name, payload, error, failed_at, attempts, job_id)";
    db.exec(`${insert} VALUES (1, 'theirs', 'r', 'no', 0, 3, '7cefef46-bd43-411e-ae1a-d344e6e05cf3')`);
    const ids = await driver.push([job({ payload: "a" }), job({ payload: "b" })], null);
    assert.deepEqual(ids, ["1", "2"]);
    const [a, b] = await take(driver, { limit: 2, now: Date.now() });
    assert.equal(await driver.fail(a, failure()), true);
    assert.equal(await driver.complete(b), true);
    const rows = (await driver.failed({ after: null, limit: 10 })).map(({ id, payload }) => [id, payload]);
    assert.deepEqual(rows, [["1", "r"], ["2", "a"]]);
    assert.equal((await driver.retry({ ids: ["2"] }, null)).length, 1);
    const [again] = await take(driver, { now: Date.now() + 1000 });
    assert.deepEqual([again.id, again.payload], ["1", "a"], "not that of b");
    assert.equal(await driver.complete(again), true);
    assert.equal((await driver.retry({ ids: ["1"] }, null)).length, 1);
    const [theirs] = await take(driver, { now: Date.now() + 1000 });
    assert.deepEqual([theirs.id, theirs.payload], ["3", "r"], "a number that no job has had");
    db.close();
    await driver.close();
  });
});

test("what a commit refuses is rejected, and not stored", async () => {
  const db = new DatabaseSync(":memory:");
  const driver = new SqliteDriver({ database: db });
  await driver.open();
  // Checked when the transaction is committed, and not before.
  db.exec(`PRAGMA foreign_keys = ON;
    CREATE TABLE owners (id INTEGER PRIMARY KEY);
    CREATE TABLE owned (owner INTEGER REFERENCES owners (id) DEFERRABLE INITIALLY DEFERRED);
    CREATE TRIGGER own AFTER INSERT ON jobs WHEN new.name = 'bad' BEGIN INSERT INTO owned VALUES (7); END`);
  await assert.rejects(driver.push([job({ name: "bad" })], T), /FOREIGN KEY/);
  assert.equal(await driver.waiting(), 0);
  await driver.push([job({ name: "good" })], T);
  assert.equal(await driver.waiting(), 1, "the next transaction is a new one");
  await driver.close();
  db.close();
});

test("jobs are read for a reservation only under the write lock", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const db = new DatabaseSync(file);
    db.exec("PRAGMA journal_mode = WAL");
    const driver = new SqliteDriver({ database: db });
    await driver.push([job(), job()], T);
    await take(driver);
    const seen: string[] = [];
    const prepare = db.prepare.bind(db);
    // Statements are compiled once: another driver on the connection compiles its own.
    db.prepare = (sql: string) => {
      const statement = prepare(sql);
      for (const method of ["run", "get", "all"] as const) {
        const original = statement[method].bind(statement) as (...values: never[]) => never;
        statement[method] = (...values: never[]) => {
          seen.push(sql);
          return original(...values);
        };
      }
      return statement;
    };
    const watched = new SqliteDriver({ database: db });
    await watched.push([job()], T);
    await take(watched);
    const other = new DatabaseSync(file);
    other.exec("BEGIN IMMEDIATE");
    seen.length = 0;
    const taking = take(watched);
    await until(() => seen.filter((sql) => sql.startsWith("BEGIN")).length > 2, "three tries");
    assert.deepEqual(seen.filter((sql) => sql.includes("payload")), []);
    other.exec("COMMIT");
    assert.equal((await taking).length, 1);
    for (const one of [driver, watched]) await one.close();
    other.close();
    db.close();
  }));

test("a reservation frees 100 ended leases, and the next one goes on", async () => {
  const db = new DatabaseSync(":memory:");
  const driver = new SqliteDriver({ database: db });
  await driver.push(Array.from({ length: 250 }, () => job()), T);
  assert.equal((await take(driver, { limit: 250 })).length, 250);
  const free = () =>
    Number(db.prepare("SELECT count(*) AS jobs FROM jobs WHERE reserved_at IS NULL").get()!.jobs);
  const left: number[] = [];
  for (let round = 0; round < 3; round++) {
    assert.equal((await take(driver, { now: T + 90_000 })).length, 1);
    left.push(free());
  }
  // Each took one of those that it freed.
  assert.deepEqual(left, [99, 198, 247]);
  await driver.close();
  db.close();
});

test("failed jobs are counted without their rows being read, and searched without what no filter needs", async () => {
  const db = new DatabaseSync(":memory:");
  const asked: string[] = [];
  const connection = new Proxy(db, {
    get(target, key) {
      if (key === "prepare") return (sql: string) => (asked.push(sql), target.prepare(sql));
      const value = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const driver = new SqliteDriver({ database: connection });
  await driver.push([job()], T);
  for (const held of await take(driver)) {
    await driver.fail(held, { error: "no", stack: "a stack", failedAt: T });
  }
  asked.length = 0;
  assert.equal((await driver.counts(T, 90_000))[0].failed, 1);
  const counting = asked.splice(0).filter((sql) => sql.includes("failed_jobs"));
  assert.equal(counting.length, 1);
  const plan = db.prepare(`EXPLAIN QUERY PLAN ${counting[0]}`).all();
  assert.match(String(plan[0].detail), /USING COVERING INDEX failed_jobs_queue/);

  const search = { after: null, until: null, reverse: false, limit: 9 };
  for (const filter of [{}, { name: "job" }, { text: "NO" }]) {
    assert.equal((await driver.findFailed({ ...search, filter })).ids.length, 1);
  }
  const searching = asked.filter((sql) => sql.includes("failed_jobs"));
  assert.notEqual(searching.length, 0);
  for (const sql of searching) assert.doesNotMatch(sql, /payload|stack|history|\*/);
  await driver.close();
  db.close();
});

for (const waits of [true, false]) {
  const which = waits ? "wait again" : "were left by a worker that died";
  test(`the marks of 1,000 cancelled jobs that ${which} do not hide that of one that runs`, async () => {
    const driver = new SqliteDriver({ database: ":memory:" });
    try {
      const jobs = Array.from({ length: 1000 }, () => job({ queue: "paused" }));
      await driver.push(jobs, T);
      const held = await take(driver, { limit: 1000, queues: ["paused"], now: T });
      await Promise.all(held.map(({ id }) => driver.cancel(id)));
      if (waits) {
        const how = { delay: null, counted: true };
        await Promise.all(held.map((one) => driver.release(one, how, T)));
      }
      await driver.push([job()], T + 1000);
      const [runs] = await take(driver, { now: T + 1000 });
      assert.equal(await driver.cancel(runs.id), "cancelling");
      assert.ok((await driver.controls()).cancelled.includes(runs.id));
    } finally {
      await driver.close();
    }
  });
}
