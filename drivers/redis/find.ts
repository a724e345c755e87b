/**
 * Looks for one job by its id, some members of a key at a time, as a cancellation does.
 *
 * @module
 */
import type { Moment, StoredJob, WaitingNames } from "../../core/driver.ts";
import { ID } from "./control_scripts.ts";
import type { RedisHistory } from "./history.ts";
import type { Lane, Lanes } from "./lanes.ts";
import { type Link, type Script, script } from "./link.ts";
import { MARKED, unmarked } from "./marked.ts";
import { fromMember } from "./member.ts";
import { MOVE_LIMIT, NOW } from "./scripts.ts";

/** How many jobs in front of one are counted at most. */
const MOST_AHEAD = 1000;

/** How often a job is looked for that was not found: it may have moved to where was looked before. */
const LOOKS = 2;

/**
 * Looks at ${MOVE_LIMIT} members of a line, from its end on. KEYS: `jobs`. ARGV: the id, below which index to look or '' for the
 * end. Answers the index and the member where it is there, else below which index to go on; 0 where there is nothing left.
 */
const FIND_READY: Script = script(`${ID}
local length = redis.call('LLEN', KEYS[1])
local below = math.min(length, tonumber(ARGV[2]) or length)
local from = math.max(0, below - ${MOVE_LIMIT})
if below == 0 then return {0} end
local members = redis.call('LRANGE', KEYS[1], from, below - 1)
for index = #members, 1, -1 do
  if idOf(members[index]) == ARGV[1] then return {from + index - 1, members[index]} end
end
return {from}`);

/**
 * Looks at some members of a sorted set. KEYS: the set. ARGV: the id, a pattern that its member matches, the cursor, now.
 * Answers the next cursor, the present in seconds and, where it is there, its score and its member.
 */
const FIND_SCORED: Script = script(`${NOW}${ID}
local some = redis.call('ZSCAN', KEYS[1], ARGV[3], 'MATCH', ARGV[2], 'COUNT', ${MOVE_LIMIT})
local now = stamp(present(ARGV[4]))
for index = 1, #some[2], 2 do
  if idOf(some[2][index]) == ARGV[1] then return {some[1], now, some[2][index + 1], some[2][index]} end
end
return {some[1], now}`);

/** The names of jobs. KEYS: `jobs` and `delayed`. ARGV: how many of each to look at. Answers a name for each, as a marked text. */
const NAMES: Script = script(`${MARKED}
local answer = {}
local function add(members)
  for _, member in ipairs(members) do answer[#answer + 1] = string.match(member, '^%d+ [^ \\n]+ ([^\\n]+)\\n') end
end
add(redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1))
add(redis.call('ZRANGE', KEYS[2], 0, ARGV[1] - 1))
return marked(answer)`);

/** A member that was found, and where. */
interface Found {
  readonly lane: Lane;
  readonly member: string;
  /** Its place in the line; else `null`. */
  readonly index: number | null;
  /** Its score, and the present, in milliseconds; where it is in no line. */
  readonly delayedUntil?: number;
  readonly heldSince?: number;
  readonly now?: number;
}

/** Finds jobs. */
export class RedisFinder {
  readonly #link: Link;
  readonly #lanes: Lanes;
  readonly #history: RedisHistory;

  /** @param lanes Those that are stored. */
  constructor(link: Link, lanes: Lanes, history: RedisHistory) {
    this.#link = link;
    this.#lanes = lanes;
    this.#history = history;
  }

  /**
   * The job of an id; `null` where there is none.
   *
   * @param retryAfter How long a lease lasts, in milliseconds.
   */
  async find(
    id: string,
    at: Moment,
    retryAfter: number,
    cancelled: ReadonlySet<string>,
  ): Promise<StoredJob | null> {
    if (!/^[^ \n]+$/.test(id)) return null;
    const found = await this.#look(id, at);
    if (found === null) return null;
    const { lane: { queue, priority }, member, index, delayedUntil, heldSince, now = 0 } = found;
    const { name, payload, attempt } = fromMember(member, queue, priority, "", 0);
    const leasedUntil = heldSince === undefined ? null : heldSince + retryAfter;
    const state = leasedUntil !== null
      ? leasedUntil > now ? "reserved" : "ready"
      : (delayedUntil ?? -Infinity) > now
      ? "delayed"
      : "ready";
    return {
      id,
      name,
      payload,
      queue,
      priority,
      attempts: attempt,
      state,
      dueAt: delayedUntil ?? null,
      leasedUntil,
      cancelled: cancelled.has(id),
      ahead: index === null ? null : await this.#ahead(found.lane, index),
      history: await this.#history.read(id),
    };
  }

  /** Where it is on its way: delayed, in line, held. So it is met, unless it is given back meanwhile. */
  async #look(id: string, at: Moment): Promise<Found | null> {
    const pattern = `[0-9]* ${id.replace(/[\\*?[\]]/g, "\\$&")} *`;
    for (let look = 0; look < LOOKS; look++) {
      for (const lane of this.#lanes.all()) {
        const [jobs, delayed, reserved] = lane.keys;
        const waiting = await this.#scored(delayed, id, pattern, at);
        if (waiting !== null) {
          return { lane, index: null, member: waiting.member, delayedUntil: waiting.score, now: waiting.now };
        }
        const ready = await this.#ready(jobs, id);
        if (ready !== null) return { lane, ...ready };
        const held = await this.#scored(reserved, id, pattern, at);
        if (held !== null) {
          return { lane, index: null, member: held.member, heldSince: held.score, now: held.now };
        }
      }
    }
    return null;
  }

  async #ready(jobs: string, id: string): Promise<{ index: number; member: string } | null> {
    let below = "";
    do {
      const [at, member] = await this.#link.run(FIND_READY, [jobs], [id, below]) as [number, string?];
      if (member !== undefined) return { index: at, member };
      below = String(at);
    } while (below !== "0");
    return null;
  }

  async #scored(
    key: string,
    id: string,
    pattern: string,
    at: Moment,
  ): Promise<{ member: string; score: number; now: number } | null> {
    let cursor = "0";
    do {
      const values = [id, pattern, cursor, at === null ? "" : (at / 1000).toFixed(3)];
      const answer = await this.#link.run(FIND_SCORED, [key], values) as string[];
      const [next, now, score, member] = answer;
      if (member !== undefined) {
        return { member, score: Math.round(Number(score) * 1000), now: Math.round(Number(now) * 1000) };
      }
      cursor = String(next);
    } while (cursor !== "0");
    return null;
  }

  async #ahead(lane: Lane, index: number): Promise<number> {
    const higher = this.#lanes.in(lane.queue).filter(({ priority }) => priority > lane.priority);
    const lengths = await Promise.all(higher.map(({ keys: [jobs] }) => this.#link.call(["LLEN", jobs])));
    const ahead = lengths.reduce((sum: number, length) => sum + Number(length), index);
    return Math.min(ahead, MOST_AHEAD);
  }

  /** The names of the first `limit` waiting jobs of each lane, by queue. */
  async names(queues: readonly string[], limit: number): Promise<WaitingNames[]> {
    return await Promise.all(queues.map(async (queue) => {
      const names = new Set<string>();
      for (const { keys: [jobs, delayed] } of this.#lanes.in(queue)) {
        const some = await this.#link.run(NAMES, [jobs, delayed], [String(limit)]) as string[];
        for (const name of unmarked(some)) names.add(name);
      }
      return { queue, names: [...names].sort() };
    }));
  }
}
