/**
 * Which failed jobs, as a page asks for them.
 *
 * @module
 */
import { BadRequest } from "./bad_request.ts";
import type { FailedFilter } from "../mod.ts";

/**
 * Reads a filter whose parts `part` answers; what is missing or empty does not matter.
 *
 * @throws {BadRequest} Naming the part that cannot be meant.
 */
export function readFilter(part: (key: string) => unknown): FailedFilter {
  const text = (key: string): string | undefined => {
    const value = part(key);
    if (value === undefined || value === null || value === "") return undefined;
    if (typeof value !== "string" || value.length > 500) {
      throw new BadRequest(`${key}: expected text of at most 500 characters`);
    }
    return value;
  };
  const time = (key: string): number | undefined => {
    const value = part(key);
    if (value === undefined || value === null || value === "") return undefined;
    const number = typeof value === "string" && /^\d{1,16}$/.test(value) ? Number(value) : value;
    if (!Number.isSafeInteger(number)) throw new BadRequest(`${key}: expected epoch milliseconds`);
    return number as number;
  };
  const filter = {
    name: text("name"),
    queue: text("queue"),
    text: text("text"),
    since: time("since"),
    before: time("before"),
  };
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}
