/** A queue on the app's own connection, of each library that is supported. */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { type Database, type Job, Queue, QueueError } from "@x/queue";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { conformance, job, take } from "./conformance.ts";
import { inFolder, newFolder } from "./folder.ts";
import { BetterSqlite3, DbSqlite } from "./shapes.ts";
import { soon, until } from "./until.ts";

/** What the tests ask of a connection: the part that all of them have. */
interface Connection extends Database {
  close(): unknown;
}

interface Library {
  readonly name: string;
  /** Why it is not tested here. */
  readonly skip: string | false;
  /** Opens a database whose busy timeout is 0, so that no lock stops the process. */
  open(path: string): Connection;
}

type Constructor = new (path: string, options?: Record<string, unknown>) => Connection;

/** Imports a library that may not be there: by a name that no type check or bundler looks up. */
async function optional(name: string): Promise<Record<string, unknown> | null> {
  try {
    return await import(name);
  } catch {
    return null;
  }
}

/** better-sqlite3 may be there without its binary, which an install script fetches: then opening throws. */
async function betterSqlite3(): Promise<Constructor | null> {
  if (process.versions.bun !== undefined) return null;
  const module = await optional("better-sqlite3");
  try {
    const Found = module!.default as Constructor;
    new Found(":memory:").close();
    return Found;
  } catch {
    return null;
  }
}

const bun = process.versions.bun === undefined
  ? null
  : (await optional("bun:sqlite"))!.Database as Constructor;
const better = await betterSqlite3();

const libraries: readonly Library[] = [
  { name: "node:sqlite", skip: false, open: (path) => new DatabaseSync(path, { timeout: 0 }) as Connection },
  { name: "bun:sqlite", skip: bun === null && "part of Bun only", open: (path) => new bun!(path) },
  {
    name: "better-sqlite3",
    skip: better === null && "not installed: its install script would have to fetch or build a binary",
    open: (path) => new better!(path, { timeout: 0 }),
  },
  { name: "the shape of better-sqlite3", skip: false, open: (path) => new BetterSqlite3(path) },
  { name: "the shape of @db/sqlite", skip: false, open: (path) => new DbSqlite(path) },
];

for (const library of libraries) {
  if (library.skip !== false) {
    test(`${library.name}: a queue on the app's connection`, { skip: library.skip }, () => {});
    continue;
  }
  conformance({
    name: library.name,
    open() {
      const folder = newFolder();
      const connections: Connection[] = [];
      const connect = (): SqliteDriver => {
        const connection = library.open(join(folder.path, "app.sqlite"));
        connections.push(connection);
        // The locks of the default journal, without its waits for the disk.
        connection.exec("PRAGMA synchronous = OFF");
        return new SqliteDriver({ database: connection });
      };
      return {
        driver: connect(),
        another: connect,
        remove() {
          for (const connection of connections) connection.close();
          folder.remove();
        },
      };
    },
  });
  onConnectionsOf(library);
}

function value(connection: Connection, sql: string): unknown {
  return Object.values(connection.prepare(sql).get() as object)[0];
}

function onConnectionsOf({ name, open }: Library): void {
  const check = (sentence: string, run: (file: string) => Promise<void>): void => {
    test(`${name}: ${sentence}`, () => inFolder((folder) => run(join(folder, "app.sqlite"))));
  };

  check("a queue works on the app's connection, and leaves it open", async (file) => {
    const connection = open(file);
    const seen: unknown[] = [];
    const queue = new Queue({
      database: connection,
      env: {},
      tries: 1,
      log: { warn() {}, error() {} },
      jobs: {
        record: (job: Job<{ id: number }>) => void seen.push(job.db, job.data.id),
        boom: () => {
          throw new Error("kaboom");
        },
      },
    });
    await queue.dispatchMany([["record", { id: 7 }], ["boom"]]);
    await queue.dispatch("record", { id: 8 }, { delay: { hours: 1 } });
    await queue.work({ stopWhenEmpty: true });
    assert.equal(seen.length, 2);
    assert.equal(seen[0], connection, "job.db is the app's connection");
    assert.equal(seen[1], 7);
    const [failed] = await queue.failed();
    assert.equal(failed.error, "kaboom");
    assert.equal((await queue.retry(failed.id)).length, 1);
    assert.equal(await queue.workOnce(), true);
    assert.equal((await queue.forget("all")).length, 1);
    assert.equal(await queue.waiting(), 1);
    await queue.close();
    assert.equal(value(connection, "SELECT count(*) FROM jobs"), 1, "the app's connection is open");
    connection.close();
  });

  check("ids beyond 32 bits, and times in milliseconds, are read as they are", async (file) => {
    const connection = open(file);
    const jobs = { record: () => {} };
    const first = new Queue({ database: connection, env: {}, jobs });
    await first.dispatch("record");
    connection.exec("UPDATE jobs SET id = 3000000000; DELETE FROM sqlite_sequence");
    await first.close();
    const ids: string[] = [];
    const waits: (number | null)[] = [];
    const record = (job: Job<undefined>): void => {
      ids.push(job.id);
      if (ids.length === 1) throw new Error("kaboom");
    };
    const queue = new Queue({
      database: connection,
      env: {},
      tries: 1,
      log: { warn() {}, error() {} },
      jobs: { record },
    });
    queue.on("reserved", ({ waited }) => void waits.push(waited));
    assert.equal((await queue.dispatch("record")).id, "3000000001", "above those that there are");
    const [, last] = await queue.dispatchMany([["record"], ["record"]]);
    await queue.cancel(last.id);
    await soon(queue.work({ stopWhenEmpty: true }), "the jobs to be done");
    assert.deepEqual(ids, ["3000000000", "3000000001", "3000000002"]);
    assert.deepEqual((await queue.failed()).map(({ id }) => id), ["3000000000"]);
    assert.deepEqual(await queue.retry("all"), [{ id: "3000000000", name: "record" }]);
    await soon(queue.work({ stopWhenEmpty: true }), "the jobs to be done");
    assert.equal(ids.at(-1), "3000000000");
    assert.equal(await queue.waiting(), 0);
    for (const waited of waits) assert.ok(waited! < 60_000, `waited ${waited} ms`);
    await queue.close();
    connection.close();
  });

  check("a database in memory is the app's, too", async () => {
    const connection = open(":memory:");
    const first = new Queue({ database: connection, env: {}, jobs: { record: () => {} } });
    const second = new Queue({ database: connection, env: {}, jobs: { record: () => {} } });
    await first.dispatch("record");
    assert.equal(await second.workOnce(), true);
    await first.close();
    await second.dispatch("record");
    assert.equal(await second.waiting(), 1, "the other queue goes on");
    await second.close();
    connection.close();
  });

  check("an open transaction of the app's is not disturbed: the queue waits for its end", async (file) => {
    const connection = open(file);
    const queue = new Queue({ database: connection, env: {}, jobs: { record: () => {} } });
    await queue.open();
    connection.exec("CREATE TABLE orders (item TEXT)");
    connection.exec("BEGIN");
    connection.prepare("INSERT INTO orders VALUES (?)").run("tea");
    let stored = false;
    const dispatch = queue.dispatch("record", "p").then(() => stored = true);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(stored, false);
    assert.equal(
      value(connection, "SELECT count(*) FROM jobs"),
      0,
      "the job is not in the app's transaction",
    );
    connection.exec("ROLLBACK");
    await soon(dispatch, "the dispatch");
    assert.equal(value(connection, "SELECT count(*) FROM orders"), 0, "what the app took back is gone");
    assert.equal(value(connection, "SELECT count(*) FROM jobs"), 1, "and what it dispatched is there");
    await queue.close();
    connection.close();
  });

  check("an open transaction that keeps the queue waiting is warned of, once", async (file) => {
    const connection = open(file);
    const lines: string[] = [];
    const log = { warn: (line: string) => void lines.push(line), error() {} };
    const queue = new Queue({ database: connection, env: {}, log, jobs: { record: () => {} } });
    await queue.open();
    lines.length = 0;
    connection.exec("BEGIN");
    const dispatch = queue.dispatch("record");
    await until(() => lines.length > 0, "the warning");
    assert.match(lines[0], /transaction open/);
    connection.exec("COMMIT");
    await soon(dispatch, "the dispatch");
    assert.equal(lines.length, 1);
    await queue.close();
    connection.close();
  });

  check("an open transaction of the app's is not disturbed by the queue's start", async (file) => {
    const connection = open(file);
    connection.exec("CREATE TABLE orders (item TEXT)");
    connection.exec("BEGIN");
    connection.prepare("INSERT INTO orders VALUES (?)").run("tea");
    const queue = new Queue({ database: connection, env: {}, jobs: { record: () => {} } });
    const dispatch = queue.dispatch("record", "p");
    dispatch.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 100));
    connection.exec("ROLLBACK");
    await soon(dispatch, "the dispatch");
    assert.equal(value(connection, "SELECT count(*) FROM orders"), 0);
    assert.equal(value(connection, "SELECT count(*) FROM jobs"), 1);
    await queue.close();
    connection.close();
  });

  check("a handler's transaction takes in no settlement of another job", async (file) => {
    const connection = open(file);
    const begun = Promise.withResolvers<void>();
    const mayEnd = Promise.withResolvers<void>();
    const queue = new Queue({
      database: connection,
      env: {},
      jobs: {
        long: async (job: Job<null>) => {
          job.db.exec("CREATE TABLE orders (item TEXT)");
          job.db.exec("BEGIN");
          job.db.prepare("INSERT INTO orders VALUES (?)").run("tea");
          begun.resolve();
          await mayEnd.promise;
          job.db.exec("ROLLBACK");
        },
        short: () => begun.promise,
      },
    });
    await queue.dispatchMany([["long", null], ["short"]]);
    const events: string[] = [];
    const stopping = new AbortController();
    const working = queue.work({
      signal: stopping.signal,
      concurrency: 2,
      onEvent: ({ type, job }) => void events.push(`${job.name} ${type}`),
    });
    await begun.promise;
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.deepEqual(events, ["long started", "short started"], "the short one is not settled yet");
    mayEnd.resolve();
    await until(() => events.length === 4, "both settlements");
    stopping.abort();
    await working;
    assert.equal(await queue.waiting(), 0, "neither settlement was rolled back");
    assert.equal(value(connection, "SELECT count(*) FROM orders"), 0);
    await queue.close();
    connection.close();
  });

  check("a write lock of another connection is waited for", async (file) => {
    const connection = open(file);
    const queue = new Queue({ database: connection, env: {}, jobs: { record: () => {} } });
    await queue.open();
    const other = new DatabaseSync(file);
    other.exec("BEGIN IMMEDIATE");
    let stored = false;
    const dispatch = queue.dispatch("record").then(() => stored = true);
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.equal(stored, false);
    other.exec("COMMIT");
    await soon(dispatch, "the dispatch");
    other.close();
    await queue.close();
    connection.close();
  });

  check("the app's own settings of its connection stay as they are", async (file) => {
    const connection = open(file);
    for (const set of ["foreign_keys = ON", "synchronous = EXTRA", "journal_mode = TRUNCATE"]) {
      connection.exec(`PRAGMA ${set}`);
    }
    const read = (): unknown[] =>
      ["foreign_keys", "synchronous", "journal_mode", "busy_timeout", "journal_size_limit"].map((setting) =>
        value(connection, `PRAGMA ${setting}`)
      );
    const before = read();
    assert.deepEqual(before.slice(0, 3), [1, 3, "truncate"]);
    const queue = new Queue({
      database: connection,
      synchronous: "normal",
      env: {},
      jobs: { record: () => {} },
    });
    await queue.dispatch("record");
    await queue.work({ stopWhenEmpty: true });
    await queue.close();
    assert.deepEqual(read(), before);
    connection.close();
  });

  check("a connection that the app has closed is an error of the database", async (file) => {
    const connection = open(file);
    const queue = new Queue({ database: connection, env: {}, jobs: { record: () => {} } });
    await queue.dispatch("record");
    connection.close();
    await assert.rejects(
      queue.dispatch("record"),
      (error) => error instanceof QueueError && error.code === "DB",
    );
    await queue.close();
  });
}

test("what is neither a path nor a connection is refused, and named", async () => {
  const wrong: unknown[] = [null, 7, true, {}, [], "", " ", () => {}, { prepare() {} }, new Map()];
  for (const database of wrong) {
    const isConfigError = (error: unknown): boolean =>
      error instanceof QueueError && error.code === "CONFIG" && /database/.test(error.message);
    assert.throws(() => new SqliteDriver({ database }), isConfigError, String(database));
    await assert.rejects(async () => {
      const queue = new Queue({ database: database as string, env: {}, jobs: {} });
      await queue.open();
    }, isConfigError);
  }
});

test("an object without a prototype is refused like any other", () => {
  assert.throws(
    () => new SqliteDriver({ database: Object.create(null) }),
    (error) => error instanceof QueueError && error.code === "CONFIG",
  );
});

test("a connection that was opened to read only is an error of the database", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const first = new SqliteDriver({ database: file });
    await first.push([job()], 0);
    await first.close();
    const connection = new DatabaseSync(file, { readOnly: true });
    const queue = new Queue({ database: connection, env: {}, jobs: { record: () => {} } });
    await assert.rejects(
      queue.dispatch("record"),
      (error) => error instanceof QueueError && error.code === "DB" && error.message.includes(file),
    );
    assert.equal(await queue.waiting(), 1, "it can be read");
    await queue.close();
    connection.close();
  });
});

const unusual: Record<string, () => unknown> = {
  "node:sqlite with BigInts and arrays": () =>
    new DatabaseSync(":memory:", { readBigInts: true, returnArrays: true } as object),
  "better-sqlite3 with BigInts": () => new BetterSqlite3(":memory:").defaultSafeIntegers(),
  ...(bun === null ? {} : { "bun:sqlite with BigInts": () => new bun(":memory:", { safeIntegers: true }) }),
};

for (const [name, open] of Object.entries(unusual)) {
  test(`${name}: the queue reads its own rows as it needs them`, async () => {
    const driver = new SqliteDriver({ database: open() });
    const ids = await driver.push([job({ payload: "1" }), job({ delay: 5000 })], 0);
    const [held] = await take(driver, { now: 0 });
    assert.deepEqual([held.id, held.attempt, held.payload], [ids[0], 1, "1"]);
    await driver.fail(held, { error: "e", stack: null, failedAt: 1000 });
    const [failed] = await driver.failed({ after: null, limit: 9 });
    assert.deepEqual([failed.id, failed.attempts, failed.priority, failed.failedAt], [ids[0], 1, 0, 1000]);
    const [{ delayed, failed: count }] = await driver.counts(0, 90_000);
    assert.deepEqual([delayed, count, await driver.waiting()], [1, 1, 1]);
    assert.deepEqual(await driver.retry({ after: null, limit: 9 }, 0), [{ id: ids[0], name: "job" }]);
    await driver.close();
  });
}

test("a connection whose rows cannot be read is refused", async () => {
  const db = new DatabaseSync(":memory:", { readBigInts: true } as object);
  const prepare = (sql: string): unknown => {
    const statement = db.prepare(sql);
    return {
      run: statement.run.bind(statement),
      get: statement.get.bind(statement),
      all: statement.all.bind(statement),
    };
  };
  const driver = new SqliteDriver({
    database: { prepare, exec: (sql: string) => db.exec(sql), close: () => db.close(), inTransaction: false },
  });
  await assert.rejects(driver.open(), { code: "CONFIG", message: /BigInt/ });
  await driver.close();
  db.close();
});

test("two drivers on one connection keep out of each other's way", async () => {
  const connection = new DatabaseSync(":memory:");
  const drivers = [new SqliteDriver({ database: connection }), new SqliteDriver({ database: connection })];
  await Promise.all(drivers.map((driver) => driver.open()));
  const ids = await Promise.all(
    Array.from({ length: 40 }, (_, index) => drivers[index % 2].push([job({ payload: String(index) })], 0)),
  );
  assert.equal(new Set(ids.flat()).size, 40);
  const taken = await Promise.all(
    Array.from({ length: 20 }, (_, index) => take(drivers[index % 2], { limit: 2 })),
  );
  assert.deepEqual(taken.flat().map(({ id }) => id).sort(), ids.flat().sort());
  for (const driver of drivers) await driver.close();
  connection.close();
});
