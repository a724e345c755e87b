/**
 * Stores as text: SQL, and commands of Redis, one a line as JSON.
 *
 * @module
 */
import type { DatabaseSync } from "node:sqlite";
import type { Redis } from "ioredis";

/** A database as statements that make it again. */
export function dumpSqlite(db: DatabaseSync): string {
  const made = db.prepare(
    "SELECT name, type, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY name",
  ).all() as { name: string; type: string; sql: string }[];
  const tables = made.filter(({ type }) => type === "table");
  const rows = [...tables.map(({ name }) => name), "sqlite_sequence"].flatMap((table) => {
    const columns = db.prepare("SELECT name FROM pragma_table_info(?)").all(table).map(({ name }) => name);
    const quoted = columns.map((name) => `quote(${name})`).join(" || ', ' || ");
    return db.prepare(`SELECT ${quoted} AS row FROM ${table}`).all()
      .map(({ row }) => `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${row});`);
  });
  const others = made.filter(({ type }) => type !== "table");
  // The last id given may be of a job that is gone.
  const sequence = rows.findIndex((row) => row.startsWith("INSERT INTO sqlite_sequence"));
  if (sequence >= 0) rows.splice(sequence, 0, "DELETE FROM sqlite_sequence;");
  return [...tables.map(({ sql }) => `${sql};`), ...rows, ...others.map(({ sql }) => `${sql};`), ""].join(
    "\n",
  );
}

/** In place of the moment of a command, which by the clock of the server is long ago when a test reads it. */
const NOW = "NOW";

/** All keys with this prefix, as commands for keys without it. */
export async function dumpRedis(redis: Redis, prefix: string): Promise<string> {
  const commands: string[][] = [];
  for (const key of (await redis.keys(`${prefix}*`)).sort()) {
    const name = key.slice(prefix.length);
    const type = await redis.type(key);
    if (type === "string") commands.push(["SET", name, (await redis.get(key))!]);
    if (type === "list") commands.push(["RPUSH", name, ...await redis.lrange(key, 0, -1)]);
    if (type === "set") commands.push(["SADD", name, ...(await redis.smembers(key)).sort()]);
    if (type === "hash") commands.push(["HSET", name, ...Object.entries(await redis.hgetall(key)).flat()]);
    if (type === "zset") {
      const scored = await redis.zrange(key, "0", "-1", "WITHSCORES");
      const isServers = name === "queue:cancelled";
      const pairs = scored.map((value, index) =>
        index % 2 === 0 ? [isServers ? NOW : scored[index + 1], value] : []
      );
      commands.push(["ZADD", name, ...pairs.flat()]);
    }
  }
  return commands.map((command) => `${JSON.stringify(command)}\n`).join("");
}

/** Makes the keys again, behind this prefix. */
export async function loadRedis(redis: Redis, prefix: string, text: string): Promise<void> {
  for (const line of text.split("\n").filter(Boolean)) {
    const [command, key, ...values]: string[] = JSON.parse(line);
    const now = String(Date.now() / 1000);
    await redis.call(command, prefix + key, ...values.map((value) => value === NOW ? now : value));
  }
}
