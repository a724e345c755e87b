/** What docs/upgrading.md promises: stores of every release before open; those of a newer one are refused. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { Queue, QueueError, type QueueErrorCode } from "@x/queue";
import type { Driver, Reservation } from "../core/driver.ts";
import { RedisDriver } from "../drivers/redis.ts";
import { SCHEMA as REDIS_SCHEMA } from "../drivers/redis/server.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { SCHEMA } from "../drivers/sqlite/schema.ts";
import { failure, job, T, take } from "./conformance.ts";
import { inFolder } from "./folder.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";
import { record, report } from "./registry.ts";
import { dumpRedis, dumpSqlite, loadRedis } from "./stores/dump.ts";
import { fill, LIFE, PAYLOAD, PROGRESS } from "./stores/fill.ts";
import { VERSION } from "../version.ts";

after(endShared);

const LEASE = 90_000;
const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../deno.json", import.meta.url));
const stores = fileURLToPath(new URL("stores", import.meta.url));

/** What stores of a schema had, by the first number that had it. */
const SINCE = { keys: 2, controls: 4, workers: 5, histories: 5, dispatchedAt: 6 };

function read(file: string): string {
  return readFileSync(join(stores, file), "utf8");
}

/** The numbers of the stores whose names begin like this. */
function schemas(kind: "sqlite" | "redis"): number[] {
  return readdirSync(stores).flatMap((file) => new RegExp(`^${kind}-(\\d+)\\.`).exec(file)?.[1] ?? [])
    .map(Number).sort((a, b) => a - b);
}

/** Looks for everything that `fill` left in the store, and goes on with it. */
async function survives(
  driver: Driver,
  ids: ReadonlyMap<string, string>,
  tokenOf: (name: string) => string,
  has: Record<keyof typeof SINCE, boolean>,
): Promise<void> {
  const due = async (queue: string, now = T): Promise<[name: string, attempt: number][]> =>
    (await take(driver, { queues: [queue], limit: 9, now })).map(({ name, attempt }) => [name, attempt]);
  const holderOf = (name: string): Reservation => ({
    ...{ id: ids.get(name)!, name, payload: "{}", attempt: 1, queue: name, priority: 0 },
    token: tokenOf(name),
  });

  // What others are told, before anything changes it.
  const { paused, restarts, cancelled } = await driver.controls();
  assert.equal(restarts, has.controls ? 1 : 0);
  assert.deepEqual(paused.queues, has.controls ? ["paused"] : []);
  assert.deepEqual(cancelled, has.controls ? [ids.get("cancelled")] : []);
  const progress = await driver.progress(ids.get("held")!);
  assert.deepEqual(progress, has.controls ? { ...PROGRESS, at: T } : null);
  assert.deepEqual(await driver.workers(T), has.workers ? [{ ...report(), seenAt: T }] : []);
  assert.deepEqual(await driver.workers(T + LIFE), [], "its time is over");

  const [ready, ...more] = await take(driver, { limit: 9 });
  assert.deepEqual([ready.name, ready.payload, ready.attempt, more.length], ["ready", PAYLOAD, 1, 0]);
  assert.equal(await driver.complete(ready), true);
  assert.deepEqual(await due("post"), [["urgent", 1], ["usual", 1]], "by their priority");
  assert.deepEqual(await due("delayed", T + 60_249), []);
  assert.deepEqual(await due("delayed", T + 60_250), [["delayed", 1]]);
  assert.deepEqual(await due("abandoned"), [["abandoned", 2]], "its lease is over");
  assert.deepEqual(await due("retrying", T + 9999), [], "10 s backoff");
  const [retrying] = await take(driver, { queues: ["retrying"], now: T + 10_000 });
  assert.equal(retrying.attempt, 2);
  assert.equal(await driver.fail(retrying, { ...failure(), record: record(2) }), true);

  assert.deepEqual(await due("held", T + LEASE - 1), [], "still held");
  assert.equal(await driver.complete(holderOf("held")), true, "its worker may have been replaced around it");
  assert.equal(await driver.complete(holderOf("cancelled")), true);
  assert.deepEqual((await driver.controls()).cancelled, []);

  assert.deepEqual(await due("paused"), has.controls ? [] : [["parked", 1]]);
  assert.equal(await driver.resume("paused"), has.controls);
  assert.deepEqual(await due("paused"), has.controls ? [["parked", 1]] : []);
  const [again] = await driver.pushOnce([{ ...job({ name: "keyed", queue: "keyed" }), key: "order 7" }], T);
  assert.equal(again.created, !has.keys);
  assert.deepEqual(await due("keyed"), [["keyed", 1]]);

  const records = (...attempts: number[]) => has.histories ? attempts.map((one) => record(one)) : [];
  const failed = await driver.failed({ after: null, limit: 9 });
  const [upstream] = failed.filter(({ name }) => name === "failed");
  assert.deepEqual(
    { ...upstream, id: "" },
    {
      ...{ id: "", name: "failed", payload: PAYLOAD, queue: "failed", priority: 2, attempts: 1, failedAt: T },
      ...{ error: "upstream 503", stack: "Error: upstream 503\n    at handle", history: records(1) },
    },
  );
  const [nope] = failed.filter(({ name }) => name === "retrying");
  assert.deepEqual(nope.history, [...records(1), record(2)]);
  assert.equal((await driver.retry({ ids: [upstream.id] }, T)).length, 1);
  const [retried] = await take(driver, { queues: ["failed"] });
  assert.deepEqual([retried.payload, retried.attempt, retried.priority], [PAYLOAD, 1, 2]);
  assert.equal(await driver.complete(retried), true);
}

function hasFrom(schema: number): Record<keyof typeof SINCE, boolean> {
  const pairs = Object.entries(SINCE).map(([what, since]) => [what, schema >= since]);
  return Object.fromEntries(pairs) as Record<keyof typeof SINCE, boolean>;
}

test("docs/upgrading.md has the schemas of this release", () => {
  const text = readFileSync(fileURLToPath(new URL("../docs/upgrading.md", import.meta.url)), "utf8");
  const rows = [...text.matchAll(/^\| (\d+\.\d+\.\d+\S*) +\| (\d+) +\| (\d+) +\|$/gm)];
  const [, version, sqlite, redis] = rows.at(-1)!;
  assert.deepEqual([version, Number(sqlite), Number(redis)], [VERSION, SCHEMA, REDIS_SCHEMA]);
});

test("there is a store of every schema of SQLite", () => {
  assert.deepEqual(schemas("sqlite"), Array.from({ length: SCHEMA }, (_, index) => index + 1));
});

for (const schema of schemas("sqlite")) {
  test(`a file of schema ${schema} opens, and every job in it goes on`, async () => {
    await inFolder(async (folder) => {
      const file = join(folder, "app.sqlite");
      const db = new DatabaseSync(file);
      db.exec(read(`sqlite-${schema}.sql`));
      const rows = db.prepare("SELECT id, name, CAST(token AS TEXT) AS token FROM jobs").all();
      const ids = new Map(rows.map(({ id, name }) => [String(name), String(id)]));
      const tokens = new Map(rows.map(({ name, token }) => [String(name), String(token)]));
      const driver = new SqliteDriver({ database: file });
      try {
        await driver.open();
        await survives(driver, ids, (name) => tokens.get(name)!, hasFrom(schema));
        assert.deepEqual(made(db), made(await fresh()), "its tables are those of a new file");
        assert.deepEqual(db.prepare("PRAGMA integrity_check").all().map((row) => ({ ...row })), [
          { integrity_check: "ok" },
        ]);
      } finally {
        await driver.close();
        db.close();
      }
    });
  });
}

test("the store of the present schema is what this release makes: other tables want another number", async () => {
  const present = new DatabaseSync(":memory:");
  present.exec(read(`sqlite-${SCHEMA}.sql`));
  const now = await fresh();
  // Tokens are random, and Bun binds a whole number as an integer.
  const text = (db: DatabaseSync): string => {
    db.exec("UPDATE jobs SET token = 1 WHERE token IS NOT NULL");
    return dumpSqlite(db).replace(/\b(\d+)\.0\b/g, "$1");
  };
  assert.equal(text(now), text(present));
  now.close();
  present.close();
});

test("a file of a newer release is refused: the error names both schemas", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const db = new DatabaseSync(file);
    db.exec(read(`sqlite-${SCHEMA}.sql`));
    db.exec(NEXT_RELEASE);
    const before = dumpSqlite(db);
    const queue = new Queue({ database: file, env: {}, jobs: {} });
    await assert.rejects(queue.open(), refusal(SCHEMA));
    await assert.rejects(queue.counts(), refusal(SCHEMA), "and again");
    await queue.close();
    assert.equal(dumpSqlite(db), before, "it is left as it was");
    db.close();
  });
});

test("the command line says so, and ends with status 1: a worker, too", async () => {
  await inFolder((cwd) => {
    const file = join(cwd, "app.sqlite");
    const db = new DatabaseSync(file);
    db.exec(read(`sqlite-${SCHEMA}.sql`));
    db.exec(NEXT_RELEASE);
    db.close();
    writeFileSync(join(cwd, "package.json"), '{ "type": "module" }');
    writeFileSync(join(cwd, "jobs.js"), "export default { echo() {} };");
    const before = process.versions.deno === undefined
      ? []
      : ["run", "-A", "--no-check", `--config=${CONFIG}`];
    const env: Record<string, string> = { DB_DATABASE: file, NO_COLOR: "1", NODE_NO_WARNINGS: "1" };
    for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
      const value = process.env[name];
      if (value !== undefined) env[name] = value;
    }
    const run = (command: string): { stdout: string; stderr: string } => {
      const ended = spawnSync(process.execPath, [...before, CLI, command], { cwd, env, encoding: "utf8" });
      assert.equal(ended.status, 1, ended.stdout + ended.stderr);
      return ended;
    };
    const refused = `the store has schema ${SCHEMA + 1} and this release knows ${SCHEMA}`;
    const said = `${refused}: a newer release made it; upgrade this one$`;
    assert.match(run("queue:work").stderr, new RegExp(`^queue: ${said}`, "m"));
    const remedy = "\\s+-> install the release that the other workers of this store have$";
    assert.match(run("queue:doctor").stdout, new RegExp(`^BAD +store .*${said}${remedy}`, "m"));
  });
});

/** What the upgrade by a later release may do: add, and leave what is there as it is. */
const NEXT_RELEASE = `
  ALTER TABLE jobs ADD COLUMN novel TEXT NOT NULL DEFAULT 'x';
  ALTER TABLE failed_jobs ADD COLUMN novel TEXT;
  CREATE TABLE queue_novel (id INTEGER PRIMARY KEY);
  UPDATE queue_meta SET value = ${SCHEMA + 1} WHERE key = 'schema'`;

test("a worker that has a file open goes on with it while a newer release upgrades it", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const old = new SqliteDriver({ database: file });
    await old.push(["1", "2", "3", "4"].map((payload) => job({ payload })), T);
    const [done, failed, released] = await take(old, { limit: 3 });
    const newer = new DatabaseSync(file);
    newer.exec(NEXT_RELEASE);
    assert.equal(await old.complete(done), true);
    assert.equal(await old.fail(failed, failure()), true);
    assert.equal(await old.release(released, { delay: 1000, counted: true }, T), true);
    await old.push([job({ payload: "5" })], T);
    assert.deepEqual((await take(old, { limit: 9 })).map(({ payload }) => payload), ["4", "5"]);
    assert.equal((await old.retry({ after: null, limit: 9 }, T)).length, 1);
    assert.deepEqual((await take(old, { limit: 9, now: T + 1000 })).map(({ payload }) => payload), [
      "2",
      "3",
    ]);
    const second = new SqliteDriver({ database: file });
    await assert.rejects(second.open(), refusal(SCHEMA), "one that starts by now is refused");
    await second.close();
    await old.close();
    newer.close();
  });
});

test("there is a store of every schema of Redis", () => {
  assert.deepEqual(schemas("redis"), Array.from({ length: REDIS_SCHEMA }, (_, index) => index + 1));
});

for (const schema of schemas("redis")) {
  test(`Redis: a store of schema ${schema} goes on, with every job in it`, { skip: noRedis }, async () => {
    const { client, url } = await sharedServer();
    const prefix = newPrefix();
    const text = read(`redis-${schema}.jsonl`);
    await loadRedis(client, prefix, text);
    const members = [...text.matchAll(/"\d+ ([0-9a-f-]{36}) (\w+)\\n/g)];
    const ids = new Map(members.map(([, id, name]) => [name, id]));
    const driver = new RedisDriver({ url, prefix, database: ":memory:", failed: "redis" });
    try {
      await survives(driver, ids, () => "0.1", hasFrom(Infinity));
    } finally {
      await driver.close();
    }
  });
}

test("Redis: the store of the present schema is what this release makes", { skip: noRedis }, async () => {
  const { client, url } = await sharedServer();
  const prefix = newPrefix();
  const driver = new RedisDriver({ url, prefix, database: ":memory:", failed: "redis" });
  await fill(driver);
  await driver.close();
  const text = (dump: string): string[] =>
    dump.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID").split("\n").sort();
  assert.deepEqual(text(await dumpRedis(client, prefix)), text(read(`redis-${REDIS_SCHEMA}.jsonl`)));
});

test(
  "Redis: a store of a newer release is refused: the error names both schemas",
  { skip: noRedis },
  async () => {
    const { client, url } = await sharedServer();
    const prefix = newPrefix();
    const old = new RedisDriver({ url, prefix, database: ":memory:" });
    await old.push([job()], T);
    const [held] = await take(old);
    assert.equal(await client.get(`${prefix}queue:schema`), null, "the original's keys, and no mark of ours");
    await client.set(`${prefix}queue:schema`, REDIS_SCHEMA);
    const same = new RedisDriver({ url, prefix, database: ":memory:" });
    assert.equal(await same.waiting(), 1, "its own number is no hindrance");
    await same.close();

    await client.set(`${prefix}queue:schema`, REDIS_SCHEMA + 1);
    const second = new RedisDriver({ url, prefix, database: ":memory:" });
    await assert.rejects(second.open(), refusal(REDIS_SCHEMA, "REDIS"));
    await assert.rejects(second.push([job()], T), refusal(REDIS_SCHEMA, "REDIS"));
    await second.close();
    assert.equal(await old.complete(held), true, "who is connected finishes what it has");
    await old.close();
  },
);

function refusal(schema: number, code: QueueErrorCode = "DB"): (error: unknown) => boolean {
  return (error) => {
    assert.equal(error instanceof QueueError && error.code, code);
    const { message } = error as Error;
    assert.match(
      message,
      new RegExp(`the store has schema ${schema + 1} and this release knows ${schema}: `),
    );
    assert.match(message, /upgrade this one$/);
    return true;
  };
}

/** A database that this release has made and filled. */
async function fresh(): Promise<DatabaseSync> {
  const db = new DatabaseSync(":memory:");
  const driver = new SqliteDriver({ database: db });
  await fill(driver);
  await driver.close();
  return db;
}

/** Which tables, columns and indexes there are, in whatever order they came. */
function made(db: DatabaseSync): unknown {
  const columns = db.prepare(
    `SELECT t.name || '.' || c.name AS name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
      WHERE t.type = 'table' ORDER BY 1`,
  ).all().map(({ name }) => name);
  const indexes = db.prepare(
    "SELECT sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL ORDER BY 1",
  )
    .all().map(({ sql }) => sql);
  return { columns, indexes };
}
