/**
 * The workers of a store: what each says of itself, and until when it counts as there.
 *
 * @module
 */
import type { Moment, WorkerInfo, WorkerReport } from "../../core/driver.ts";
import { type Link, type Script, script } from "./link.ts";
import { NOW } from "./scripts.ts";

/** How many workers one look names, or one beat forgets, at most. */
const MOST = 1000;

/** How long the keys outlive the last worker, in seconds. */
const REST = 86_400;

/**
 * Keeps what a worker says, and forgets those that are gone. KEYS: `workers`, `workers:until`. ARGV: now, for how many
 * seconds, its id, what it says. The first command removes, so that it also runs while Redis is out of memory.
 */
const BEAT: Script = script(`${NOW}
redis.call('ZREM', KEYS[2], ARGV[3])
local now = present(ARGV[1])
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', stamp(now), 'LIMIT', 0, ${MOST})
if #gone > 0 then
  redis.call('HDEL', KEYS[1], unpack(gone))
  redis.call('ZREM', KEYS[2], unpack(gone))
end
redis.call('HSET', KEYS[1], ARGV[3], stamp(now) .. ' ' .. ARGV[4])
redis.call('ZADD', KEYS[2], stamp(now + ARGV[2]), ARGV[3])
redis.call('EXPIRE', KEYS[1], ${REST})
redis.call('EXPIRE', KEYS[2], ${REST})
return 1`);

/** Forgets a worker. KEYS: `workers`, `workers:until`. ARGV: its id. */
const LEAVE: Script = script(`
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HDEL', KEYS[1], ARGV[1])`);

/** Reads. KEYS: `workers`, `workers:until`. ARGV: now. Answers an id and what that worker said, for each one. */
const WORKERS: Script = script(`${NOW}
local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. stamp(present(ARGV[1])), '+inf', 'LIMIT', 0, ${MOST})
local answer = {}
for _, id in ipairs(ids) do
  local said = redis.call('HGET', KEYS[1], id)
  if said then
    answer[#answer + 1] = id
    answer[#answer + 1] = said
  end
end
return answer`);

/** Who works on a store. */
export class RedisWorkers {
  readonly #link: Link;
  readonly #keys: readonly string[];

  /** @param prefix Stands before every key. */
  constructor(link: Link, prefix: string) {
    this.#link = link;
    this.#keys = [`${prefix}queue:workers`, `${prefix}queue:workers:until`];
  }

  /** Keeps what a worker says of itself. */
  async beat({ id, ...said }: WorkerReport, life: number, now: Moment): Promise<void> {
    await this.#link.run(BEAT, this.#keys, [seconds(now), String(life / 1000), id, JSON.stringify(said)]);
  }

  /** Forgets one. */
  async leave(id: string): Promise<void> {
    await this.#link.run(LEAVE, this.#keys, [id]);
  }

  /** Reads those that are there. */
  async read(now: Moment): Promise<WorkerInfo[]> {
    const answer = await this.#link.run(WORKERS, this.#keys, [seconds(now)]) as string[];
    const workers: WorkerInfo[] = [];
    for (let at = 0; at < answer.length; at += 2) {
      const [id, text] = [answer[at], answer[at + 1]];
      const space = text.indexOf(" ");
      const said = JSON.parse(text.slice(space + 1)) as Omit<WorkerReport, "id">;
      workers.push({ id, ...said, seenAt: Math.round(Number(text.slice(0, space)) * 1000) });
    }
    return workers.sort((a, b) => a.startedAt - b.startedAt || (a.id < b.id ? -1 : 1));
  }
}

function seconds(moment: Moment): string {
  return moment === null ? "" : (moment / 1000).toFixed(3);
}
