/**
 * No queue: a bare loop with the same client, whose script forgets what was done and takes the next, as many as run at a
 * time, and which calls nothing. What a queue on Redis could do at best, with a round trip for each lot.
 */
import { Redis } from "ioredis";
import type { Payload } from "../../subject.ts";
import type { Place, RedisSubject } from "../subject.ts";

const SCRIPT = `
if #ARGV > 1 then redis.call('ZREM', KEYS[2], unpack(ARGV, 2)) end
local members, held = redis.call('LPOP', KEYS[1], ARGV[1]) or {}, {}
for index, member in ipairs(members) do
  held[index * 2 - 1] = '1'
  held[index * 2] = member
end
if #held > 0 then redis.call('ZADD', KEYS[2], unpack(held)) end
return members`;

export default async function open({ host, port }: Place): Promise<RedisSubject> {
  const redis = new Redis(port, host);
  const sha = String(await redis.script("LOAD", SCRIPT));
  let sent = 0;
  const member = (data: Payload): string => `${sent++} bench\n${JSON.stringify(data)}`;
  const read = (text: string): unknown => JSON.parse(text.slice(text.indexOf("\n") + 1));
  const work = async (concurrency: number): Promise<void> => {
    for (let done: string[] = [];;) {
      const taken = await redis.evalsha(sha, 2, "jobs", "reserved", concurrency, ...done) as string[];
      if (taken.length === 0) return;
      await Promise.all(taken.map(async (text) => void await read(text)));
      done = taken;
    }
  };
  return {
    dispatch: (data) => redis.rpush("jobs", member(data)),
    dispatchMany: (data: readonly Payload[]) => redis.rpush("jobs", ...data.map(member)),
    work: (_jobs, concurrency) => ({ done: work(concurrency), stop: () => {} }),
    hear: () => Promise.reject(new Error("it does not wait for jobs")),
    left: async () => await redis.llen("jobs") + await redis.zcard("reserved"),
    close: () => redis.quit(),
  };
}
