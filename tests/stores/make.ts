// Writes the stores of the present release, once its schema has a new number:
//
//   deno run -A tests/stores/make.ts sqlite redis
//
// A store that a released version made is never written again: it is what users have.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { RedisDriver } from "../../drivers/redis.ts";
import { SCHEMA as REDIS_SCHEMA } from "../../drivers/redis/server.ts";
import { SqliteDriver } from "../../drivers/sqlite.ts";
import { SCHEMA } from "../../drivers/sqlite/schema.ts";
import { RedisServer } from "../redis_server.ts";
import { dumpRedis, dumpSqlite } from "./dump.ts";
import { fill } from "./fill.ts";

const folder = fileURLToPath(new URL(".", import.meta.url));

async function sqlite(): Promise<void> {
  const db = new DatabaseSync(":memory:");
  const driver = new SqliteDriver({ database: db });
  await fill(driver);
  await driver.close();
  writeFileSync(join(folder, `sqlite-${SCHEMA}.sql`), dumpSqlite(db));
}

async function redis(): Promise<void> {
  const server = await RedisServer.start();
  try {
    const driver = new RedisDriver({ url: server.url, database: ":memory:", failed: "redis" });
    await fill(driver);
    await driver.close();
    writeFileSync(join(folder, `redis-${REDIS_SCHEMA}.jsonl`), await dumpRedis(server.client, ""));
  } finally {
    await server.stop();
  }
}

const wanted = process.argv.slice(2);
if (wanted.length === 0) throw new Error("name sqlite, redis, or both");
if (wanted.includes("sqlite")) await sqlite();
if (wanted.includes("redis")) await redis();
