/**
 * The attempts of a job that failed, one JSON text each in a list of its own, while the job is not done: first ones and
 * last ones, as elsewhere. A job that fails for good takes them into its record.
 *
 * @module
 */
import type { AttemptRecord, Reservation } from "../../core/driver.ts";
import { KEPT } from "../history.ts";
import type { Link } from "./link.ts";
import { generationOf } from "./member.ts";

/** How long a list outlives the time at which its job is due, in seconds: another program may do the job. */
const LIFE = 7 * 86_400;

/** Lua that keeps a history: the middle of a long one goes. */
export const HISTORY = `
local function append(key, record, delay)
  redis.call('RPUSH', key, record)
  if redis.call('LLEN', key) > ${2 * KEPT} then
    redis.call('LSET', key, ${KEPT}, '')
    redis.call('LREM', key, 1, '')
  end
  redis.call('EXPIRE', key, string.format('%d', ${LIFE} + math.ceil(tonumber(delay) or 0)))
end
local function restore(key, lines)
  for record in string.gmatch(lines, '[^\\n]+') do append(key, record, 0) end
end
local function take(key, record)
  local history = redis.call('LRANGE', key, 0, -1)
  if record ~= '' then history[#history + 1] = record end
  if #history > ${2 * KEPT} then table.remove(history, ${KEPT} + 1) end
  redis.call('DEL', key)
  return '[' .. table.concat(history, ',') .. ']'
end
`;

/** A record as scripts take it; empty where there is none. */
export function toLine(record: AttemptRecord | undefined): string {
  return record === undefined ? "" : JSON.stringify(record);
}

/** The history of a job that runs again, as scripts take it: the last record says since when. */
export function toLines(history: readonly AttemptRecord[], retriedAt: number): string {
  return history.map((record, index) =>
    toLine(index === history.length - 1 ? { ...record, retriedAt } : record)
  ).join("\n");
}

/** The histories of a store. */
export class RedisHistory {
  readonly #link: Link;
  readonly #prefix: string;

  /** @param prefix Stands before every key. */
  constructor(link: Link, prefix: string) {
    this.#link = link;
    this.#prefix = `${prefix}queue:history:`;
  }

  /** The key of a job's. */
  key(id: string): string {
    return this.#prefix + id;
  }

  /** Whether there may be one: not of a job at its first try, which costs nothing so. */
  concerns(held: Reservation): boolean {
    return held.attempt > 1 || generationOf(held) > 0;
  }

  /** Reads it. */
  async read(id: string): Promise<AttemptRecord[]> {
    const lines = await this.#link.call(["LRANGE", this.key(id), "0", "-1"]) as string[];
    return lines.map((line) => JSON.parse(line));
  }

  /** Forgets it. */
  async forget(id: string): Promise<void> {
    await this.#link.call(["DEL", this.key(id)]);
  }
}
