/**
 * Every Lua script of the Redis driver, with its keys and arguments.
 *
 * A lane is one priority of one queue. It has three keys of the original's format: `jobs` (a list, first in first
 * out), `delayed` and `reserved` (sorted sets by Unix seconds, to the millisecond). A member is
 * `"<attempts> <id> <name>\n<payload>"`; its attempt number, with its leading zeros, tells a settlement from a stale one.
 *
 * Each script is bounded, touches no key that it was not given, and, where it must run while Redis is out of memory,
 * begins with a command that removes: Redis lets a script write on that has done so. `now` is Unix seconds, or empty for
 * the server's own clock.
 *
 * @module
 */
import { HISTORY } from "./history.ts";
import { DUE } from "./id.ts";
import { type Script, script } from "./link.ts";
import { MARKED } from "./marked.ts";

/** How many due, expired or malformed members of one lane a call moves at most. */
export const MOVE_LIMIT = 100;

/** How many jobs a call reserves at most. */
export const RESERVE_LIMIT = 1000;

/** How many members a call sifts at most: those of a reservation, and of others in the same millisecond. */
const SIFT_LIMIT = 2 * RESERVE_LIMIT;

/** The present, where none is given, and how it is written. */
export const NOW = `
local function present(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] + math.floor(time[2] / 1000) / 1000
end
local function stamp(seconds) return string.format('%.3f', seconds) end
`;

/** The names of the lanes, as marked texts. KEYS: lanes. */
export const LANES: Script = script(`${MARKED}
return marked(redis.call('SMEMBERS', KEYS[1]))`);

/** How many failed jobs each queue has. KEYS: `failed:counts`. Answers, by turns, a queue and a number, as marked texts. */
export const COUNT_FAILED: Script = script(`${MARKED}
return marked(redis.call('HGETALL', KEYS[1]))`);

/** Refuses a call as a whole where a lane's key holds something else: Redis would notice at that lane, with others changed. */
const TYPED = `
local function foreign(key, count)
  local answer = redis.pcall(count, key)
  if type(answer) == 'table' then return redis.error_reply(answer.err .. ', which is ' .. key) end
end
`;

/**
 * Stores jobs: all, or none.
 *
 * KEYS: bell, lanes, then `jobs` and `delayed` of each lane.
 * ARGV: now, 1 to ring, how many names of lanes follow, these, then groups of jobs of one lane and delay: which lane (from 1), the
 * delay in seconds or 0, how many members follow, these.
 *
 * A script that Redis refuses half-way, as for a command that the user may not use, keeps what it did: so the jobs come last.
 */
export const PUSH: Script = script(`${NOW}${TYPED}
local first = 4 + ARGV[3]
if first + 2 + ARGV[first + 2] < #ARGV then
  for key = 3, #KEYS do
    local refusal = foreign(KEYS[key], key % 2 == 1 and 'LLEN' or 'ZCARD')
    if refusal then return refusal end
  end
end
if ARGV[2] == '1' then redis.call('ZADD', KEYS[1], 0, '0') end
if ARGV[3] ~= '0' then redis.call('SADD', KEYS[2], unpack(ARGV, 4, 3 + ARGV[3])) end
local at, now = first, nil
while at < #ARGV do
  local lane, delay, count = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  if delay == 0 then
    redis.call('RPUSH', KEYS[1 + lane * 2], unpack(ARGV, at + 3, at + 2 + count))
  else
    now = now or present(ARGV[1])
    for member = at + 3, at + 2 + count do
      redis.call('ZADD', KEYS[2 + lane * 2], stamp(now + delay), ARGV[member])
    end
  end
  at = at + 3 + count
end
return 1`);

/**
 * Stores each job whose marker is not there yet.
 *
 * KEYS: bell, lanes, then the marker, `jobs`, `delayed` and the history of each job; a job without a key has the bell as its
 * marker.
 * ARGV: now, how long a marker lives in seconds, then for each job: its lane's name, its key's marker or '' for none, the
 * delay in seconds or 0, its id, its member, its history in lines.
 *
 * Answers for each the id: the one given, or that of the job stored before. Refused half-way, it must leave no marker without
 * its job, which nobody could dispatch again.
 */
export const PUSH_ONCE: Script = script(`${NOW}${HISTORY}${TYPED}
for key = 3, #KEYS, 4 do
  local refusal = foreign(KEYS[key + 1], 'LLEN') or foreign(KEYS[key + 2], 'ZCARD')
  if refusal then return refusal end
end
redis.call('ZADD', KEYS[1], 0, '0')
local answer = {}
for job = 1, (#ARGV - 2) / 6 do
  local at, key = job * 6 - 3, job * 4 - 1
  local lane, marked, delay, id, member, history = unpack(ARGV, at, at + 5)
  local before = marked ~= '' and redis.call('GET', KEYS[key])
  if not before then
    if lane ~= '' then redis.call('SADD', KEYS[2], lane) end
    if delay == '0' then
      redis.call('RPUSH', KEYS[key + 1], member)
    else
      redis.call('ZADD', KEYS[key + 2], stamp(present(ARGV[1]) + delay), member)
    end
    restore(KEYS[key + 3], history)
    if marked ~= '' then redis.call('SET', KEYS[key], id, 'EX', ARGV[2]) end
  end
  answer[job] = before or id
end
return answer`);

/** Whether a text is UTF-8. Most are ASCII, which one range of bytes tells: to look for others takes twice as long. */
const IS_UTF8 = `
local function isUtf8(text)
  if string.find(text, '^[\\1-\\127]*$') then return true end
  text = string.gsub(text, '[\\194-\\223][\\128-\\191]', ' ')
  text = string.gsub(text, '\\224[\\160-\\191][\\128-\\191]', ' ')
  text = string.gsub(text, '[\\225-\\236\\238\\239][\\128-\\191][\\128-\\191]', ' ')
  text = string.gsub(text, '\\237[\\128-\\159][\\128-\\191]', ' ')
  text = string.gsub(text, '\\240[\\144-\\191][\\128-\\191][\\128-\\191]', ' ')
  text = string.gsub(text, '[\\241-\\243][\\128-\\191][\\128-\\191][\\128-\\191]', ' ')
  text = string.gsub(text, '\\244[\\128-\\143][\\128-\\191][\\128-\\191]', ' ')
  return not string.find(text, '[\\128-\\255]')
end
`;

/**
 * Forgets jobs that are done, then takes jobs, unless there are other lanes than the caller knows: frees what has expired and promotes what is due (both at most 100 a
 * lane), takes from the lanes in order, counts the attempts. What is not a member of our format is set aside.
 *
 * KEYS: bell, lanes, malformed, then `jobs`, `delayed` and `reserved` of each lane, then the revision of what workers are
 * told.
 * ARGV: now, the lease in seconds, limit, prefetch, 1 to free and promote first (else where the lines run short), 1 to
 * leave members with a CR to others (they go to the end of the line), 1 to ring where jobs are left, how many lanes the
 * caller knows or '' to take in any case, how many groups of done jobs follow, the revision that the caller knows, 1 to set
 * aside what is not UTF-8 (else {@linkcode SIFT} does, for what the caller could not read: to look at every byte here takes
 * Redis longer than all the rest; only what has U+FFFD, which stands for bytes that are no text, is looked at here), then the groups: a lane (from 1), how many members follow, these; then for each pick: a
 * lane, the number of its share, and how many to take at most for that share.
 *
 * What Redis refuses half-way it keeps so: nothing may be refused once something is done. So each key of a lane is asked for its
 * size first, which fails where it is another program's, and what cannot be set aside goes to the end of its line.
 *
 * Answers how many lanes there are, or -2 where another revision holds, for which it takes nothing; how many members were
 * set aside, or why that cannot be; the milliseconds until it is worth asking again or '', since when the jobs are reserved,
 * how many of the done jobs were not held, of how many jobs it is known that they are text though they have U+FFFD; which
 * ones were not held (from 1), then groups of jobs: a lane, how many members follow, these; then which of them are text (from
 * 1).
 */
export const RESERVE: Script = script(`${NOW}${TYPED}${IS_UTF8}
local call, find, match, gsub = redis.call, string.find, string.match, string.gsub
local answer, top, picks, done = {0, 0, '', '', 0, 0}, 6, 12, 0
local lanes = (#KEYS - 4) / 3
for key = 4, #KEYS - 1 do
  local refusal = foreign(KEYS[key], key % 3 == 1 and 'LLEN' or 'ZCARD')
  if refusal then return refusal end
end
for group = 1, tonumber(ARGV[9]) do
  local reserved, last = KEYS[ARGV[picks] * 3 + 3], picks + 1 + ARGV[picks + 1]
  for at = picks + 2, last do
    done = done + 1
    if call('ZREM', reserved, ARGV[at]) == 0 then
      top = top + 1
      answer[top] = done
    end
  end
  picks = last + 1
end
answer[5] = top - 6
answer[1] = -2
if (call('GET', KEYS[#KEYS]) or '') ~= ARGV[10] then return answer end
answer[1] = call('SCARD', KEYS[2])
if ARGV[8] ~= '' and tonumber(ARGV[8]) ~= answer[1] then return answer end

local now = present(ARGV[1])
local stampNow = stamp(now)
local limit, most = tonumber(ARGV[3]), ARGV[3] + ARGV[4]
local plain, checked, again = ARGV[6] == '1', ARGV[11] == '1', false

local function move(from, to, upto)
  local due = call('ZRANGEBYSCORE', from, '-inf', upto, 'LIMIT', 0, ${MOVE_LIMIT})
  if #due == 0 then return 0 end
  call('ZREMRANGEBYRANK', from, 0, #due - 1)
  call('RPUSH', to, unpack(due))
  if #due == ${MOVE_LIMIT} then again = true end
  return #due
end

local function promote()
  local moved, expired = 0, stamp(now - ARGV[2])
  for lane = 1, lanes do
    moved = moved + move(KEYS[lane * 3 + 3], KEYS[lane * 3 + 1], expired)
    moved = moved + move(KEYS[lane * 3 + 2], KEYS[lane * 3 + 1], stampNow)
  end
  return moved
end

local got, malformed, texts = 0, 0, {}
local left = {}
local function take()
  for at = picks, #ARGV, 3 do
    local lane, share = tonumber(ARGV[at]), ARGV[at + 1]
    local jobs, reserved = KEYS[lane * 3 + 1], KEYS[lane * 3 + 3]
    left[share] = left[share] or tonumber(ARGV[at + 2])
    local want = math.min(most - got, left[share])
    local back, others, hold, held, head = {}, {}, {}, 0, top
    while want > 0 do
      local asked = want
      local members = call('LPOP', jobs, asked) or {}
      for index = 1, #members do
        local member = members[index]
        local zeros, attempts = '', '0'
        if not find(member, '^0 [^ \\n]+ [^\\n]+\\n') then
          zeros, attempts = match(member, '^(0*)(%d+) [^ \\n]+ [^\\n]+\\n')
        end
        local odd = find(member, '\\239\\191\\189', 1, true)
        if not attempts or #attempts > 9 or #zeros > 7 or ((checked or odd) and not isUtf8(member)) then
          local said = redis.pcall('RPUSH', KEYS[3], member)
          if type(said) == 'table' then
            answer[2] = said.err
            others[#others + 1] = member
          else
            malformed = malformed + 1
          end
        elseif plain and find(member, '\\r', 1, true) then
          others[#others + 1] = member
        elseif got >= limit and attempts ~= '0' then
          back[#back + 1] = member
        else
          if attempts == '0' then
            member = gsub(member, '0 ', '1 ', 1)
          else
            member = zeros .. string.format('%d', attempts + 1) .. string.sub(member, #zeros + #attempts + 1)
          end
          hold[held * 2 + 1] = stampNow
          hold[held * 2 + 2] = member
          held = held + 1
          answer[head + 2 + held] = member
          if odd then texts[#texts + 1] = got + 1 end
          got, want, left[share] = got + 1, want - 1, left[share] - 1
        end
      end
      if malformed + #others >= ${MOVE_LIMIT} then
        again = again or malformed > 0 or answer[2] ~= 0
        break
      end
      if #members < asked or #back > 0 then break end
    end
    if held > 0 then
      call('ZADD', reserved, unpack(hold))
      answer[head + 1] = lane
      answer[head + 2] = held
      top = head + 2 + held
    end
    for index = #back, 1, -1 do call('LPUSH', jobs, back[index]) end
    if #others > 0 then call('RPUSH', jobs, unpack(others)) end
  end
end

local swept = ARGV[5] == '1'
if swept then promote() end
take()
if not swept and got < limit and promote() > 0 then take() end

if answer[2] == 0 then answer[2] = malformed end
answer[4] = stampNow
answer[6] = #texts
for at = 1, #texts do answer[top + at] = texts[at] end
if got < limit then
  local nextIn
  for lane = 1, lanes do
    local first = call('ZRANGE', KEYS[lane * 3 + 2], 0, 0, 'WITHSCORES')
    if first[2] and (not nextIn or first[2] - now < nextIn) then nextIn = first[2] - now end
  end
  if again then nextIn = 0 end
  if nextIn then answer[3] = string.format('%.0f', math.max(0, nextIn * 1000)) end
elseif ARGV[7] == '1' then
  for lane = 1, lanes do
    if call('LLEN', KEYS[lane * 3 + 1]) > 0 then
      call('ZADD', KEYS[1], 0, '0')
      break
    end
  end
end
return answer`);

/**
 * Sets aside what was reserved and is not UTF-8, with its attempt given back.
 *
 * KEYS: malformed, then `reserved` of some lanes. ARGV: since when it is reserved. The first command removes nothing; it
 * lets the script write while Redis is out of memory.
 *
 * Answers how many were set aside, and why others cannot be or ''. What is beyond its limit, of others in the same
 * millisecond, is met again when its lease ends.
 */
export const SIFT: Script = script(`${IS_UTF8}
redis.call('ZREM', KEYS[2], '')
local answer = {0, ''}
for lane = 2, #KEYS do
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[lane], ARGV[1], ARGV[1], 'LIMIT', 0, ${SIFT_LIMIT})) do
    if not isUtf8(member) then
      local zeros, attempts, rest = string.match(member, '^(0*)(%d+)(.*)$')
      local before = attempts and zeros .. string.format('%d', attempts - 1) .. rest or member
      local said = redis.pcall('RPUSH', KEYS[1], before)
      if type(said) == 'table' then
        answer[2] = said.err
      else
        redis.call('ZREM', KEYS[lane], member)
        answer[1] = answer[1] + 1
      end
    end
  end
end
return answer`);

/**
 * Forgets jobs that are done.
 *
 * KEYS: `reserved` of each lane. ARGV: for each lane, how many members follow, these. Answers 1 for each that was held,
 * else 0.
 */
export const COMPLETE: Script = script(`
local answer, at = {}, 1
for lane = 1, #KEYS do
  for member = at + 1, at + ARGV[at] do
    answer[#answer + 1] = redis.call('ZREM', KEYS[lane], ARGV[member])
  end
  at = at + 1 + ARGV[at]
end
return answer`);

/** How far from each end of a line a job is looked for. */
const SEEN_LIMIT = 10_000;

/**
 * Looks whether a job is still about. KEYS: `jobs`, `delayed` and `reserved` of its lane. ARGV: the members that it may
 * be now. Answers 1 or 0; of a longer line, its ends are looked at.
 */
export const SEEN: Script = script(`
for _, member in ipairs(ARGV) do
  if redis.call('ZSCORE', KEYS[3], member) or redis.call('ZSCORE', KEYS[2], member)
    or redis.call('LPOS', KEYS[1], member, 'MAXLEN', ${SEEN_LIMIT})
    or redis.call('LPOS', KEYS[1], member, 'RANK', -1, 'MAXLEN', ${SEEN_LIMIT}) then return 1 end
end
return 0`);

/**
 * Renews reservations.
 *
 * KEYS: `reserved` of each lane. ARGV: now, then for each lane, how many members follow, these. Answers 1 for each that is
 * held, else 0. The first command removes nothing; it lets the script write while Redis is out of memory.
 */
export const EXTEND: Script = script(`${NOW}
redis.call('ZREM', KEYS[1], '')
local now, answer, at = stamp(present(ARGV[1])), {}, 2
for lane = 1, #KEYS do
  for member = at + 1, at + ARGV[at] do
    local held = redis.call('ZSCORE', KEYS[lane], ARGV[member])
    if held then redis.call('ZADD', KEYS[lane], 'XX', now, ARGV[member]) end
    answer[#answer + 1] = held and 1 or 0
  end
  at = at + 1 + ARGV[at]
end
return answer`);

/**
 * Gives jobs back to run again.
 *
 * KEYS: bell, then `jobs`, `delayed` and `reserved` of each lane, then the history of each job that has a record.
 * ARGV: now, then for each job: its lane (from 1), the member it is held under, the one it gets, the delay in seconds,
 * 0 for the end of the line, or '' for its head, the record of its attempt or '', and the number of its history's key. Answers 1 for each that was held, else 0.
 */
export const RELEASE: Script = script(`${NOW}${HISTORY}
local answer, released = {}, false
for at = 2, #ARGV, 6 do
  local key, delay, held = ARGV[at] * 3, ARGV[at + 3], 0
  if redis.call('ZREM', KEYS[key + 1], ARGV[at + 1]) == 1 then
    held, released = 1, true
    if delay == '' then
      redis.call('LPUSH', KEYS[key - 1], ARGV[at + 2])
    elseif delay == '0' then
      redis.call('RPUSH', KEYS[key - 1], ARGV[at + 2])
    else
      redis.call('ZADD', KEYS[key], stamp(present(ARGV[1]) + delay), ARGV[at + 2])
    end
    if ARGV[at + 4] ~= '' then append(KEYS[tonumber(ARGV[at + 5])], ARGV[at + 4], delay) end
  end
  answer[#answer + 1] = held
end
if released then redis.call('ZADD', KEYS[1], 0, '0') end
return answer`);

/**
 * Counts. KEYS: `jobs`, `delayed` and `reserved` of each lane. ARGV: now, the lease in seconds. Answers for each lane: how
 * many are in line, how many of the delayed are due and how many there are, how many of the reserved have expired and how
 * many there are, and since when the longest waiting of the ready ones has been due, in milliseconds, or ''.
 *
 * The line is in the order in which its jobs became ready. So where the first one's time is not known, as it ran before,
 * it has been waiting for no less than the next one whose time is.
 */
export const COUNT: Script = script(`${NOW}${DUE}
local function first(key, upto)
  local found = redis.call('ZRANGEBYSCORE', key, '-inf', upto, 'WITHSCORES', 'LIMIT', 0, 1)
  return found[1], tonumber(found[2])
end
local now, answer = present(ARGV[1]), {}
for key = 1, #KEYS, 3 do
  answer[#answer + 1] = redis.call('LLEN', KEYS[key])
  answer[#answer + 1] = redis.call('ZCOUNT', KEYS[key + 1], '-inf', stamp(now))
  answer[#answer + 1] = redis.call('ZCARD', KEYS[key + 1])
  answer[#answer + 1] = redis.call('ZCOUNT', KEYS[key + 2], '-inf', stamp(now - ARGV[2]))
  answer[#answer + 1] = redis.call('ZCARD', KEYS[key + 2])
  local oldest = math.huge
  for at = 0, 9 do
    local member = redis.call('LRANGE', KEYS[key], at, at)[1]
    local since = member and due(member, '0')
    if since or not member then
      oldest = since or oldest
      break
    end
  end
  local member, score = first(KEYS[key + 1], stamp(now))
  if member then oldest = math.min(oldest, score * 1000) end
  member, score = first(KEYS[key + 2], stamp(now - ARGV[2]))
  if member then oldest = math.min(oldest, due(member, '1') or (score + ARGV[2]) * 1000) end
  answer[#answer + 1] = oldest == math.huge and '' or string.format('%.0f', oldest)
end
return answer`);

/**
 * Reads what is delayed. KEYS: `delayed` of each lane. ARGV: now, how many of each lane. Answers for each job its lane
 * (from 1), the milliseconds until it is due, and its member without the payload.
 */
export const DELAYED: Script = script(`${NOW}
local now, answer = present(ARGV[1]), {}
for lane = 1, #KEYS do
  local found = redis.call('ZRANGEBYSCORE', KEYS[lane], '(' .. stamp(now), '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
  for at = 1, #found, 2 do
    local head = string.match(found[at], '^(%d+ [^ \\n]+ [^\\n]+)\\n')
    if head then
      answer[#answer + 1] = lane
      answer[#answer + 1] = string.format('%.0f', (found[at + 1] - now) * 1000)
      answer[#answer + 1] = head
    end
  end
end
return answer`);

/**
 * Moves a job to the failed ones, where these are in Redis.
 *
 * KEYS: `reserved`, then `failed`, `failed:order`, `failed:last`, `failed:counts`, `failed:ids` and its history. ARGV: its
 * member, what is kept of it, its queue, its id, the record of its attempt or ''. Answers 1, or 0 where it was not held.
 */
export const FAIL: Script = script(`${HISTORY}
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end
local id = string.format('%d', redis.call('INCR', KEYS[4]))
redis.call('HSET', KEYS[2], id, string.sub(ARGV[2], 1, -2) .. ',"history":' .. take(KEYS[7], ARGV[5]) .. '}')
redis.call('ZADD', KEYS[3], id, id)
redis.call('HINCRBY', KEYS[5], ARGV[3], 1)
redis.call('HSET', KEYS[6], ARGV[4], id)
return 1`);

/**
 * Takes failed jobs away, and puts them back in line where they have a member.
 *
 * KEYS: bell, lanes, `failed`, `failed:order`, `failed:counts`, `failed:ids`, then `jobs` and the history of each job. ARGV: for each job:
 * its number there, its queue, its lane's name or '', its member or '' to forget it, its id, its history in lines. Answers 1
 * for each that was there, else 0.
 */
export const UNFAIL: Script = script(`${HISTORY}
local answer, pushed = {}, false
for job = 1, #ARGV / 6 do
  local id, queue, lane, member, name, history = unpack(ARGV, job * 6 - 5, job * 6)
  answer[job] = redis.call('HDEL', KEYS[3], id)
  if answer[job] == 1 then
    redis.call('ZREM', KEYS[4], id)
    redis.call('HDEL', KEYS[6], name)
    if redis.call('HINCRBY', KEYS[5], queue, -1) <= 0 then redis.call('HDEL', KEYS[5], queue) end
    if member ~= '' then
      redis.call('RPUSH', KEYS[5 + job * 2], member)
      restore(KEYS[6 + job * 2], history)
      if lane ~= '' then redis.call('SADD', KEYS[2], lane) end
      pushed = true
    end
  end
end
if pushed then redis.call('ZADD', KEYS[1], 0, '0') end
return answer`);

/** How many failed jobs a call looks at, and after how many bytes of what it answers it leaves the rest to the next one. */
const LOOK = 1000;
const LOOK_BYTES = 1_048_576;

/**
 * Looks at some of the failed jobs. What a filter looks at comes first in a record, before its payload and stack, and is
 * cut off there: reading JSON here would take ten times as long. A record of another order is read all the same.
 *
 * KEYS: `failed`, `failed:order`. ARGV: ZRANGEBYSCORE or ZREVRANGEBYSCORE, and its bounds.
 *
 * Answers 1 where there may be more, else ''; then for each its number and its record's head, or '' where it has none.
 */
export const FIND_FAILED: Script = script(`
local numbers = redis.call(ARGV[1], KEYS[2], ARGV[2], ARGV[3], 'LIMIT', 0, ${LOOK})
local answer, bytes = {#numbers == ${LOOK} and '1' or ''}, 0
for at, number in ipairs(numbers) do
  local record = redis.call('HMGET', KEYS[1], number)[1] or ''
  local rest = string.find(record, ',"payload":', 1, true)
  local head = rest and string.sub(record, 1, rest - 1) .. '}' or ''
  if not string.find(head, '"error":', 1, true) then
    local read, job = pcall(cjson.decode, record)
    head = read and cjson.encode({
      name = job.name, queue = job.queue, failedAt = job.failedAt, error = job.error,
    }) or ''
  end
  answer[#answer + 1] = number
  answer[#answer + 1] = head
  bytes = bytes + #head
  if bytes >= ${LOOK_BYTES} and at < #numbers then
    answer[1] = '1'
    break
  end
end
return answer`);

/**
 * Removes waiting jobs of a lane: in line first, then delayed. KEYS: `jobs`, `delayed`, the revision of what workers are
 * told, cancelled. ARGV: how many at most, the new revision. Answers how many.
 *
 * Of those that were cancelled while they were held, and given back since, it forgets that.
 */
export const CLEAR: Script = script(`
local limit = tonumber(ARGV[1])
local removed = redis.call('LPOP', KEYS[1], limit) or {}
if #removed < limit then
  local delayed = redis.call('ZRANGE', KEYS[2], 0, limit - #removed - 1)
  if #delayed > 0 then redis.call('ZREMRANGEBYRANK', KEYS[2], 0, #delayed - 1) end
  for _, member in ipairs(delayed) do removed[#removed + 1] = member end
end
local ids = {}
for _, member in ipairs(removed) do ids[#ids + 1] = string.match(member, '^%d+ ([^ \\n]+) ') end
if #ids > 0 and redis.call('ZREM', KEYS[4], unpack(ids)) > 0 then redis.call('SET', KEYS[3], ARGV[2]) end
return #removed`);
