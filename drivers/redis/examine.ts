/**
 * What is wrong with a Redis as a store of jobs.
 *
 * @module
 */
import type { Finding } from "../../core/driver.ts";
import { fine, ofLeases } from "../findings.ts";
import { type Link, messageOf, type Script, script } from "./link.ts";

/** By how much the clock of the server may differ, in milliseconds: without a word, and without harm. */
const CLOSE = 1000;
const HARMLESS = 30_000;

/** Which part of its memory may be in use. */
const FULL = 0.9;

/** Read by the server, since a client that loses a CR cannot read INFO. ARGV: names of fields. Answers a text for each. */
const INFO: Script = script(`
local info, answer = redis.call('INFO'), {}
for index, name in ipairs(ARGV) do answer[index] = string.match(info, '[^%w_]' .. name .. ':([^%c]*)') or '' end
return answer`);

const FIELDS = [
  "redis_version",
  "maxmemory_policy",
  "maxmemory",
  "used_memory",
  "aof_enabled",
  "aof_last_write_status",
  "rdb_last_bgsave_status",
  "role",
] as const;

type Fields = Readonly<Record<typeof FIELDS[number], string>>;

/**
 * Looks at the server behind a link.
 *
 * @param key One that it may write.
 * @param stuck How many leases have been over for a while.
 */
export async function lookAtServer(
  link: Link,
  prefix: string,
  key: string,
  stuck: number,
): Promise<Finding[]> {
  const before = Date.now();
  const [seconds, micros] = await link.call(["TIME"]) as [string, string];
  const after = Date.now();
  const theirs = Number(seconds) * 1000 + Number(micros) / 1000;
  // As little as it can be: the reply was made somewhere between.
  const off = theirs < before ? theirs - before : theirs > after ? theirs - after : 0;
  return [
    ...await lookAtInfo(link),
    lookAtClock(off),
    await lookAtWriting(link, key),
    lookAtPrefix(prefix),
    ofLeases(stuck),
  ];
}

async function lookAtInfo(link: Link): Promise<Finding[]> {
  let values: string[];
  try {
    values = await link.run(INFO, [], FIELDS) as string[];
  } catch (error) {
    return [{
      what: "Redis",
      level: "warn",
      found: `INFO is refused: ${messageOf(error)}`,
      remedy: "let the user of the queue run INFO, or see to eviction and persistence yourself",
    }];
  }
  const fields = Object.fromEntries(FIELDS.map((name, index) => [name, values[index]])) as unknown as Fields;
  return [
    fine("Redis", fields.redis_version),
    lookAtRole(fields),
    lookAtEviction(fields),
    lookAtMemory(fields),
    lookAtPersistence(fields),
  ];
}

function lookAtRole({ role }: Fields): Finding {
  if (role !== "slave") return fine("role", "primary");
  return {
    what: "role",
    level: "bad",
    found: "a replica, which takes no writes",
    remedy: "point REDIS_URL to the primary",
  };
}

function lookAtEviction({ maxmemory_policy: policy }: Fields): Finding {
  if (policy === "noeviction") return fine("eviction", policy);
  const all = policy.startsWith("allkeys-");
  return {
    what: "eviction",
    level: all ? "bad" : "warn",
    found: `${policy}: a full Redis throws ${all ? "jobs" : "the ids of repeatable dispatches"} away`,
    remedy: "CONFIG SET maxmemory-policy noeviction, and in redis.conf",
  };
}

function lookAtMemory({ maxmemory, used_memory: used }: Fields): Finding {
  const mebibytes = (bytes: string): string => `${Math.round(Number(bytes) / 2 ** 20)} MiB`;
  if (maxmemory === "0") return fine("memory", `${mebibytes(used)} in use, without a limit`);
  const found = `${mebibytes(used)} of ${mebibytes(maxmemory)} in use`;
  if (Number(used) < FULL * Number(maxmemory)) return fine("memory", found);
  return {
    what: "memory",
    level: "bad",
    found,
    remedy: "raise maxmemory, or have more workers: on a full Redis no job can be stored",
  };
}

function lookAtPersistence(fields: Fields): Finding {
  const failing = [fields.aof_last_write_status, fields.rdb_last_bgsave_status].some((one) => one === "err");
  if (failing) {
    return {
      what: "persistence",
      level: "bad",
      found: "the last write to its disk failed",
      remedy: "see the log of Redis: a full disk, or a folder that it may not write",
    };
  }
  if (fields.aof_enabled === "1") return fine("persistence", "append-only file");
  return {
    what: "persistence",
    level: "warn",
    found: "no append-only file: a crash of Redis loses the jobs since its last snapshot, if it makes any",
    remedy: "CONFIG SET appendonly yes, and in redis.conf",
  };
}

function lookAtClock(off: number): Finding {
  const seconds = (Math.abs(off) / 1000).toFixed(1);
  if (Math.abs(off) < CLOSE) return fine("clock", "that of Redis and of this machine agree");
  return {
    what: "clock",
    level: Math.abs(off) < HARMLESS ? "warn" : "bad",
    found: `that of Redis is ${seconds} s ${off > 0 ? "ahead of" : "behind"} this machine's`,
    remedy: "have both set by NTP: due times and leases go by that of Redis, logs by this one",
  };
}

async function lookAtWriting(link: Link, key: string): Promise<Finding> {
  try {
    await link.call(["SET", key, "1", "PX", "1000"]);
    return fine("writing", "works");
  } catch (error) {
    return {
      what: "writing",
      level: "bad",
      found: messageOf(error),
      remedy: "make room, or let the user of the queue write: no job can be stored or settled",
    };
  }
}

function lookAtPrefix(prefix: string): Finding {
  if (prefix !== "") return fine("prefix", prefix);
  return {
    what: "prefix",
    level: "warn",
    found: "none: every app on this Redis without one has the same queue",
    remedy: "set REDIS_PREFIX to the name of the app and a colon; in production it is required",
  };
}
