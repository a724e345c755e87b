/**
 * Ids of jobs: UUIDs of version 7 (RFC 9562), whose time is that at which the job is due first. A list of Redis knows no
 * times, so this is what tells for how long a job has been waiting that has not run yet.
 *
 * @module
 */
import { randomUUID } from "node:crypto";

/** An id that no other job has. @param due When the job is due, in epoch milliseconds. */
export function newId(due: number): string {
  const time = Math.min(Math.max(0, Math.round(due)), LATEST).toString(16).padStart(12, "0");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}

/** When a job was due first, in epoch milliseconds; `null` where its id does not say, as that of another program. */
export function dueOf(id: string): number | null {
  if (id.length !== 36 || id[14] !== "7") return null;
  let time = 0;
  // By hand, as this is done for every job.
  for (let at = 0; at < 13; at++) {
    if (at === 8) continue;
    const code = id.charCodeAt(at) | 32;
    const digit = code < 58 ? code - 48 : code < 97 ? NaN : code - 87;
    if (!(digit >= 0 && digit < 16)) return null;
    time = time * 16 + digit;
  }
  return time;
}

/** Lua: the same, of the member of a job that was never given back for later; else `nil`. @param attempts Its attempts. */
export const DUE = `
local function due(member, attempts)
  local high, low = string.match(member, '^' .. attempts .. ' (%x%x%x%x%x%x%x%x)%-(%x%x%x%x)%-7%x%x%x%-')
  return high and tonumber(high .. low, 16)
end
`;

/** 48 bits. */
const LATEST = 2 ** 48 - 1;
