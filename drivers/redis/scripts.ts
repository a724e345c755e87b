/**
 * Every Lua script of the Redis driver, with its keys and arguments.
 *
 * A lane is one priority of one queue. It has three keys of the original's format: `jobs` (a list, first in first
 * out), `delayed` and `reserved` (sorted sets by Unix seconds, a fraction allowed). A member is
 * `"<attempts> <id> <name>\n<payload>"`; its attempt number tells a settlement from a stale one.
 *
 * Each script is bounded, touches no key that it was not given, and begins with a command that removes, so that it
 * also runs while Redis is out of memory. Times are Unix seconds with milliseconds.
 *
 * @module
 */

/** How many due or expired members of one lane a call moves at most. */
export const MOVE_LIMIT = 100;

/** The present: the caller's, or the server's where the argument is empty. */
const NOW = `
local function present(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] + math.floor(time[2] / 1000) / 1000
end
local function stamp(seconds) return string.format('%.3f', seconds) end
`;

/**
 * Stores jobs.
 *
 * KEYS: bell, lanes, then `jobs` and `delayed` of each lane.
 * ARGV: now or '', id marker's seconds, names of the new lanes joined by a line break or '', then for each job: which
 * lane (from 1), the delay in seconds, its member.
 */
export const PUSH = `${NOW}
local now
for at = 3, #ARGV, 3 do
  local lane, delay, member = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 2]
  if delay > 0 then
    now = now or present(ARGV[1])
    redis.call('ZADD', KEYS[2 + lane * 2], stamp(now + delay), member)
  else
    redis.call('RPUSH', KEYS[1 + lane * 2], member)
  end
end
if ARGV[2] ~= '' then redis.call('SADD', KEYS[2], unpack(cjson.decode(ARGV[2]))) end
redis.call('ZADD', KEYS[1], 0, '0')
return #ARGV`;

/**
 * Takes jobs: frees what has expired, promotes what is due, takes from the lanes in order, counts the attempts.
 *
 * KEYS: bell, lanes, malformed, then `jobs`, `delayed` and `reserved` of each lane.
 * ARGV: now or '', the lease in seconds, limit, prefetch, 1 to leave members with a CR to others, then for each pick: a
 * lane (from 1), its share's number, and how many to take at most for that share.
 *
 * Answers how many lanes there are, how many members were set aside as malformed, the seconds until the next delayed
 * job is due or '', then for each job its lane (from 1) and its member.
 */
export const RESERVE = `${NOW}
local now = present(ARGV[1])
local lease, limit, prefetch, plain = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'

local function move(from, to, upto, push)
  local due = redis.call('ZRANGEBYSCORE', from, '-inf', stamp(upto), 'LIMIT', 0, ${MOVE_LIMIT})
  if #due == 0 then return end
  redis.call('ZREMRANGEBYRANK', from, 0, #due - 1)
  redis.call(push, to, unpack(due))
end

local function utf8(text)
  if not string.find(text, '[\\128-\\255]') then return true end
  text = string.gsub(text, '[\\194-\\223][\\128-\\191]', ' ')
  text = string.gsub(text, '\\224[\\160-\\191][\\128-\\191]', ' ')
  text = string.gsub(text, '[\\225-\\236\\238\\239][\\128-\\191][\\128-\\191]', ' ')
  text = string.gsub(text, '\\237[\\128-\\159][\\128-\\191]', ' ')
  text = string.gsub(text, '\\240[\\144-\\191][\\128-\\191][\\128-\\191]', ' ')
  text = string.gsub(text, '[\\241-\\243][\\128-\\191][\\128-\\191][\\128-\\191]', ' ')
  text = string.gsub(text, '\\244[\\128-\\143][\\128-\\191][\\128-\\191]', ' ')
  return not string.find(text, '[\\128-\\255]')
end

local function wellFormed(member)
  local attempts = string.match(member, '^(%d+) [^ \\n]+ [^\\n]+\\n')
  return attempts and #attempts < 10 and utf8(member)
end

local answer, got, malformed, nextDue, more = {0, 0, ''}, 0, 0, nil, false
local lanes = (#KEYS - 3) / 3
for lane = 1, lanes do
  move(KEYS[lane * 3 + 3], KEYS[lane * 3 + 1], now - lease, 'RPUSH')
  move(KEYS[lane * 3 + 2], KEYS[lane * 3 + 1], now, 'RPUSH')
end

local share, left = '', 0
for at = 6, #ARGV, 3 do
  local lane = tonumber(ARGV[at])
  local jobs, reserved = KEYS[lane * 3 + 1], KEYS[lane * 3 + 3]
  if ARGV[at + 1] ~= share then share, left = ARGV[at + 1], tonumber(ARGV[at + 2]) end
  local want = math.min(limit + prefetch - got, left)
  if want > 0 then
    local back, hold = {}, {}
    for _, member in ipairs(redis.call('LPOP', jobs, plain and want + ${MOVE_LIMIT} or want) or {}) do
      if not wellFormed(member) then
        redis.call('RPUSH', KEYS[3], member)
        malformed = malformed + 1
      elseif want == 0 or (plain and string.find(member, '\\r', 1, true))
        or (got >= limit and string.sub(member, 1, 2) ~= '0 ') then
        back[#back + 1] = member
      else
        local attempts, rest = string.match(member, '^(%d+)( .*)$')
        member = string.format('%d', attempts + 1) .. rest
        hold[#hold + 1] = stamp(now)
        hold[#hold + 1] = member
        answer[#answer + 1] = lane
        answer[#answer + 1] = member
        got, want, left = got + 1, want - 1, left - 1
      end
    end
    if #hold > 0 then redis.call('ZADD', reserved, unpack(hold)) end
    for index = #back, 1, -1 do redis.call('LPUSH', jobs, back[index]) end
  end
end

for lane = 1, lanes do
  if redis.call('LLEN', KEYS[lane * 3 + 1]) > 0 then more = true end
  local first = redis.call('ZRANGE', KEYS[lane * 3 + 2], 0, 0, 'WITHSCORES')
  if first[2] and (not nextDue or tonumber(first[2]) < nextDue) then nextDue = tonumber(first[2]) end
end
if got > 0 and more then redis.call('ZADD', KEYS[1], 0, '0') end
answer[1], answer[2] = redis.call('SCARD', KEYS[2]), malformed
if nextDue then answer[3] = stamp(math.max(0, nextDue - now)) end
return answer`;

/**
 * Forgets jobs that are done. KEYS: `reserved`. ARGV: members. Answers 1 for each that was held, else 0.
 */
export const COMPLETE = `
local answer = {}
for at, member in ipairs(ARGV) do answer[at] = redis.call('ZREM', KEYS[1], member) end
return answer`;

/**
 * Renews reservations. KEYS: `reserved`. ARGV: now or '', then members. Answers 1 for each that is held, else 0.
 * The first command removes nothing; it lets the script write while Redis is out of memory.
 */
export const EXTEND = `${NOW}
redis.call('ZREM', KEYS[1], '')
local now, answer = stamp(present(ARGV[1])), {}
for at = 2, #ARGV do
  answer[at - 1] = redis.call('ZSCORE', KEYS[1], ARGV[at]) and 1 or 0
  if answer[at - 1] == 1 then redis.call('ZADD', KEYS[1], 'XX', now, ARGV[at]) end
end
return answer`;

/**
 * Gives a job back to run again. KEYS: bell, `jobs`, `delayed`, `reserved`. ARGV: now or '', the member, the delay in
 * seconds, or '' to put it first in line with its attempt not counted. Answers 1, or 0 where it was not held.
 */
export const RELEASE = `${NOW}
if redis.call('ZREM', KEYS[4], ARGV[2]) == 0 then return 0 end
if ARGV[3] == '' then
  local attempts, rest = string.match(ARGV[2], '^(%d+)( .*)$')
  redis.call('LPUSH', KEYS[2], string.format('%d', attempts - 1) .. rest)
else
  redis.call('ZADD', KEYS[3], stamp(present(ARGV[1]) + tonumber(ARGV[3])), ARGV[2])
end
redis.call('ZADD', KEYS[1], 0, '0')
return 1`;
