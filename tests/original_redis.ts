/**
 * The original's own Redis commands, verbatim, and its order of steps around them: what another program does on our keys.
 *
 * @module
 */
import type { Buffer } from "node:buffer";
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";

/** Its script: promotes what is due, frees what is abandoned, pops the next job, counts the attempt and reserves it. */
export const RESERVE = `local function requeue(from, upto)
  for _, job in ipairs(redis.call('ZRANGEBYSCORE', from, '-inf', upto)) do
    redis.call('ZREM', from, job)
    redis.call('RPUSH', KEYS[1], job)
  end
end
requeue(KEYS[2], ARGV[1])
requeue(KEYS[3], ARGV[1] - ARGV[2])
local job = redis.call('LPOP', KEYS[1])
if not job then return false end
local space = string.find(job, ' ')
job = (tonumber(string.sub(job, 1, space - 1)) + 1) .. string.sub(job, space)
redis.call('ZADD', KEYS[3], ARGV[1], job)
return job`;

/** A job that it holds. */
export interface Held {
  /** Finds it again: its member. */
  readonly token: string;
  readonly name: string;
  readonly payload: string;
  readonly attempt: number;
}

/** A program of the original. Its times are Unix seconds. */
export class OriginalRedis {
  readonly #redis: Redis;
  readonly #keys: [jobs: string, delayed: string, reserved: string];

  /** @param prefix Stands before its keys. */
  constructor(redis: Redis, prefix: string) {
    this.#redis = redis;
    this.#keys = [`${prefix}queue:jobs`, `${prefix}queue:delayed`, `${prefix}queue:reserved`];
  }

  /** Stores a job; at once where `due` is left out. */
  async push(name: string, payload: string, due?: number): Promise<void> {
    const job = `0 ${randomUUID()} ${name}\n${payload}`;
    if (due === undefined) await this.#redis.call("RPUSH", this.#keys[0], job);
    else await this.#redis.call("ZADD", this.#keys[1], String(due), job);
  }

  /** Takes the next job. */
  async reserve(now: number, retryAfter: number = 90): Promise<Held | null> {
    const member = await this.#redis.callBuffer(
      "EVAL",
      RESERVE,
      "3",
      ...this.#keys,
      String(now),
      String(retryAfter),
    ) as Buffer | null;
    if (member === null) return null;
    const token = new TextDecoder("utf-8", { fatal: true }).decode(member);
    const [, attempt, name] = /^(\d+) \S+ ([^\n]*)\n/.exec(token)!;
    return { token, name, payload: token.slice(token.indexOf("\n") + 1), attempt: Number(attempt) };
  }

  /** Makes a job available again. */
  async release(held: Held, due: number): Promise<void> {
    await this.#redis.call("ZADD", this.#keys[1], String(due), held.token);
    await this.#redis.call("ZREM", this.#keys[2], held.token);
  }

  /** Forgets a job. */
  async remove(held: Held): Promise<void> {
    await this.#redis.call("ZREM", this.#keys[2], held.token);
  }
}
