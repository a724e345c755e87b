/**
 * The Lua scripts by which operators reach workers, with their keys and arguments. What holds for those in `scripts.ts`
 * holds here.
 *
 * Whatever changes what workers are told gives it a new revision, a text that was never used before: a worker that knows
 * the present one knows all that it is told.
 *
 * @module
 */
import { type Script, script } from "./link.ts";
import { MARKED } from "./marked.ts";
import { MOVE_LIMIT, NOW } from "./scripts.ts";

/** How long a cancelled job is remembered that no worker has met, in seconds. */
const MARK_LIFE = 7 * 86_400;

/** How many cancelled jobs are remembered at most. */
export const MOST_MARKS = 10_000;

/** Reads the id in a member. */
export const ID = `
local function idOf(member) return string.match(member, '^%d+ ([^ \\n]+) ') end
`;

/** Forgets the mark of a job that was given back before it was removed. */
const UNMARKED = `
local function unmark(revision, marks, id, new)
  if redis.call('ZREM', marks, id) == 1 then redis.call('SET', revision, new) end
end
`;

/**
 * Reads what workers are told. KEYS: revision, restarts, paused, cancelled. ARGV: now, the revision that is known.
 * Answers nothing where that is the present one; else the revision, how many restarts there were, the paused queues as
 * marked texts, the ids of cancelled jobs.
 */
export const CONTROLS: Script = script(`${NOW}${MARKED}
local revision = redis.call('GET', KEYS[1]) or ''
if revision == ARGV[2] then return {} end
local since = stamp(present(ARGV[1]) - ${MARK_LIFE})
return {
  revision,
  redis.call('GET', KEYS[2]) or '0',
  marked(redis.call('SMEMBERS', KEYS[3])),
  redis.call('ZRANGEBYSCORE', KEYS[4], since, '+inf', 'LIMIT', 0, ${MOST_MARKS}),
}`);

/**
 * Pauses a queue. KEYS: revision, paused. ARGV: the new revision, the queue or '' for all. Answers 1, or 0 where it was
 * paused.
 */
export const PAUSE: Script = script(`
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('SADD', KEYS[2], ARGV[2])`);

/**
 * Lifts the pause of a queue, or every pause, and rings. KEYS: revision, paused, bell. ARGV: the new revision, the queue
 * or '' for every one. Answers how many pauses were lifted.
 */
export const RESUME: Script = script(`
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[3], 0, '0')
if ARGV[2] ~= '' then return redis.call('SREM', KEYS[2], ARGV[2]) end
local lifted = redis.call('SCARD', KEYS[2])
redis.call('DEL', KEYS[2])
return lifted`);

/** Counts a restart. KEYS: revision, restarts. ARGV: the new revision. */
export const RESTART: Script = script(`
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[2])`);

/**
 * Removes the job of an id from a line, of which it looks at ${MOVE_LIMIT} members: from the end on, since what others
 * take from its head moves the rest towards that. KEYS: `jobs`, revision, cancelled. ARGV: the id, below which index to
 * look or '' for the end, the new revision. Answers -1 where it was removed, else below which index to go on; 0 where there is nothing left to look at.
 */
export const REMOVE_READY: Script = script(`${ID}${UNMARKED}
local length = redis.call('LLEN', KEYS[1])
local below = math.min(length, tonumber(ARGV[2]) or length)
local from = math.max(0, below - ${MOVE_LIMIT})
if below == 0 then return 0 end
local members = redis.call('LRANGE', KEYS[1], from, below - 1)
for index = #members, 1, -1 do
  if idOf(members[index]) == ARGV[1] then
    redis.call('LREM', KEYS[1], from * 2 < length and 1 or -1, members[index])
    unmark(KEYS[2], KEYS[3], ARGV[1], ARGV[3])
    return -1
  end
end
return from`);

/**
 * Removes the job of an id from the delayed ones, of which it looks at some. KEYS: `delayed`, revision, cancelled. ARGV:
 * the id, a pattern that its member matches, the cursor, the new revision. Answers 1 where it was removed, else 0; and the next cursor.
 */
export const REMOVE_DELAYED: Script = script(`${ID}${UNMARKED}
local some = redis.call('ZSCAN', KEYS[1], ARGV[3], 'MATCH', ARGV[2], 'COUNT', ${MOVE_LIMIT})
for index = 1, #some[2], 2 do
  if idOf(some[2][index]) == ARGV[1] then
    redis.call('ZREM', KEYS[1], some[2][index])
    unmark(KEYS[2], KEYS[3], ARGV[1], ARGV[4])
    return {1, some[1]}
  end
end
return {0, some[1]}`);

/**
 * Remembers that the job of an id was cancelled, where it is among some of the reserved ones. KEYS: `reserved`, revision,
 * cancelled. ARGV: the id, a pattern that its member matches, the cursor, the new revision. Answers 1 where it is
 * remembered, -1 where there are too many, else 0; and the next cursor.
 */
export const MARK: Script = script(`${NOW}${ID}
local some = redis.call('ZSCAN', KEYS[1], ARGV[3], 'MATCH', ARGV[2], 'COUNT', ${MOVE_LIMIT})
for index = 1, #some[2], 2 do
  if idOf(some[2][index]) == ARGV[1] then
    local now = present('')
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', stamp(now - ${MARK_LIFE}))
    redis.call('DEL', KEYS[2])
    redis.call('SET', KEYS[2], ARGV[4])
    if redis.call('ZCARD', KEYS[3]) >= ${MOST_MARKS} then return {-1, some[1]} end
    redis.call('ZADD', KEYS[3], stamp(now), ARGV[1])
    return {1, some[1]}
  end
end
return {0, some[1]}`);

/** Forgets that jobs were cancelled, where any of them was. KEYS: revision, cancelled. ARGV: the new revision, the ids. */
export const UNMARK: Script = script(`
if redis.call('ZREM', KEYS[2], unpack(ARGV, 2)) > 0 then redis.call('SET', KEYS[1], ARGV[1]) end
return 1`);

/**
 * Keeps how far a held job is. KEYS: `reserved`, its progress. ARGV: now, its member, for how many milliseconds, what it
 * says. Answers 1, or 0 where it is not held.
 */
export const REPORT: Script = script(`${NOW}
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
redis.call('SET', KEYS[2], stamp(present(ARGV[1])) .. ' ' .. ARGV[4], 'PX', ARGV[3])
return 1`);
