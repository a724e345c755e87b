/**
 * Makes every move that a job can make, call by call, and kills itself at one point: before a statement of SQLite or a
 * command of Redis that may write, or when a call is done, before anybody hears of it.
 *
 * It says each call that was answered.
 */
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import type { AttemptRecord, Driver, NewJob } from "../../core/driver.ts";
import type { RedisConnection } from "../../drivers/redis.ts";
import { SqliteDriver } from "../../drivers/sqlite.ts";
import { options, say } from "./say.ts";

const { database, url, prefix, failed, killAt, now, lease } = options as unknown as {
  database: string;
  url?: string;
  prefix: string;
  failed: "database" | "redis";
  /** The number of the point, from 1. Where there is no such point, it ends by itself. */
  killAt: number;
  now: number;
  lease: number;
};

let counting = false;
let points = 0;

/** A point at which a process may die. */
function point(): void {
  if (counting && ++points === killAt) process.kill(process.pid, "SIGKILL");
}

/** Every boundary between two statements that write is one. */
function watchStatements(): void {
  const { prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.prepare = function (sql: string) {
    const statement = prepare.call(this, sql);
    if (!/^\s*(BEGIN|INSERT|UPDATE|DELETE|COMMIT)\b/.test(sql)) return statement;
    for (const method of ["run", "get", "all"] as const) {
      const original = statement[method].bind(statement) as (...values: never[]) => never;
      statement[method] = (...values: never[]) => {
        point();
        return original(...values);
      };
    }
    return statement;
  };
}

const READS = ["ZSCORE", "HMGET", "SMEMBERS", "EXISTS"];

async function connect(): Promise<RedisConnection> {
  const { ioredis } = await import("../../drivers/redis/connection.ts");
  const connection = await ioredis({ url: url! }, 60_000)();
  return {
    sendCommand(words) {
      if (!READS.includes(words[0])) point();
      return connection.sendCommand(words);
    },
    close: () => connection.close?.(),
    get closed() {
      return connection.closed ?? false;
    },
  };
}

function job(payload: string, delay = 0): NewJob {
  return { name: "job", payload, queue: "default", priority: 0, delay };
}

async function take(driver: Driver, limit: number, at = now) {
  const queues = [{ queue: "default", limit }];
  return (await driver.reserve({ queues, limit, prefetch: 0, now: at, retryAfter: lease })).jobs;
}

/** What is kept of each attempt that fails here. */
const record: AttemptRecord = {
  attempt: 1,
  startedAt: now,
  duration: 1,
  worker: "host:1",
  error: "nope",
  stack: null,
};

/** Makes a call of a kind that was made before: to die in each kind once is enough. */
function again<Result>(call: () => Promise<Result>): Promise<Result> {
  counting = false;
  return call();
}

/** The history whose pictures `crash_points.test.ts` knows: a call at a time, save the completions of one turn at the end. */
async function* history(driver: Driver): AsyncGenerator<string> {
  await driver.push([job("a"), job("b"), job("c", 5000)], now);
  yield "push";
  await driver.pushOnce([{ ...job("d"), key: "d" }], now);
  yield "push once";
  const [a, b] = await take(driver, 2);
  yield "reserve";
  await driver.complete(a);
  yield "complete";
  await driver.extend([b], now + 1000);
  yield "extend";
  await driver.release(b, { delay: 5000, counted: true, record }, now);
  yield "release";
  const [first] = await again(() => take(driver, 1));
  yield "reserve";
  await driver.fail(first, { error: "nope", stack: null, failedAt: now, record });
  yield "fail";
  await driver.retry({ ids: [first.id] }, now);
  yield "retry";
  const [second] = await again(() => take(driver, 1));
  yield "reserve";
  await driver.release(second, { delay: null, counted: false }, now);
  yield "hand back";
  const rest = await again(() => take(driver, 9, now + 5000));
  yield "reserve";
  await Promise.all(rest.map((held) => driver.complete(held)));
  yield "complete in one turn";
}

async function open(): Promise<Driver> {
  if (url === undefined) return new SqliteDriver({ database });
  const { RedisDriver } = await import("../../drivers/redis.ts");
  return new RedisDriver({ connect, prefix, database, failed, deadline: 60_000 });
}

watchStatements();
const driver = await open();
await driver.open();
counting = true;
for await (const call of history(driver)) {
  point();
  say("did", call);
  counting = true;
}
counting = false;
await driver.close();
