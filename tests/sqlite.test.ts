import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { conformance, failure, job, take } from "./conformance.ts";
import { inFolder, newFolder } from "./folder.ts";

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
