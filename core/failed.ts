/**
 * Failed jobs, many of them: found, counted, retried and forgotten in bounded steps, so that neither the store is kept
 * from others nor the memory filled, however many there are.
 *
 * @module
 */
import { refuseUnknown, wholeNumber } from "./config.ts";
import type { Driver, FailedFilter, FailedJob, FailedSelection, Moved } from "./driver.ts";
import { QueueError } from "./errors.ts";
import { show } from "./show.ts";

/** Which failed jobs: an id, several, or all of them. */
export type FailedIds = string | number | readonly (string | number)[] | "all";

/** A page of failed jobs, of all or of those that match. */
export interface FailedPage extends FailedFilter {
  /** Only ids after this one: the last of the page before. */
  after?: string | number;
  /** How many at most, 1 to 1,000. Default: 100. */
  limit?: number;
  /** Whether the highest id comes first. Default: `false`. */
  reverse?: boolean;
}

/** How {@linkcode Queue.retry} and {@linkcode Queue.forget} go about it. */
export interface MoveOptions {
  /** How many at most. Default: no limit. */
  limit?: number;
  /** Called after each step. It is waited for, and what it throws ends the call: what was moved stays moved. */
  onProgress?: (progress: MoveProgress) => unknown;
}

/** How far it is. */
export interface MoveProgress {
  /** How many were looked at. */
  readonly looked: number;
  /** How many there were to look at when it began. */
  readonly total: number;
  /** What this step moved. */
  readonly moved: readonly Moved[];
}

/** How many one step moves at most: one transaction. */
const LOT = 500;

/** How many ids one step of a count asks for. */
const COUNTED = 1000;

/** A page, found in as many steps as it takes. */
export async function readFailed(driver: Driver, page: FailedPage): Promise<FailedJob[]> {
  const { after, limit, reverse = false, ...rest } = page;
  const filter = checkFilter(rest, ["after", "limit", "reverse"]);
  const most = wholeNumber("limit", limit, 100, 1, 1000);
  if (typeof reverse !== "boolean") {
    throw new QueueError("CONFIG", `reverse=${show(reverse)}: expected true or false`);
  }
  let from = after === undefined ? null : String(after);
  if (!reverse && isEmpty(filter)) return driver.failed({ after: from, limit: most });
  const ids: string[] = [];
  do {
    const found = await driver.findFailed({
      filter,
      after: from,
      until: null,
      reverse,
      limit: most - ids.length,
    });
    ids.push(...found.ids);
    from = found.next;
  } while (from !== null && ids.length < most);
  const jobs = new Map((await driver.failed({ ids, filter })).map((job) => [job.id, job]));
  // In the order of the search; one that was retried meanwhile is left out.
  return ids.map((id) => jobs.get(id)).filter((job) => job !== undefined);
}

/** How many match. */
export async function countFailed(driver: Driver, given: FailedFilter, retryAfter: number): Promise<number> {
  const filter = checkFilter(given);
  const { queue, ...others } = filter;
  if (isEmpty(others)) {
    const counts = await driver.counts(null, retryAfter);
    return counts.reduce(
      (sum, one) => queue === undefined || one.queue === queue ? sum + one.failed : sum,
      0,
    );
  }
  let count = 0;
  for (let after: string | null = null;;) {
    const found = await driver.findFailed({ filter, after, until: null, reverse: false, limit: COUNTED });
    count += found.ids.length;
    if (found.next === null) return count;
    after = found.next;
  }
}

/** What moves some failed jobs. */
export type Act = (selection: FailedSelection) => Promise<Moved[]>;

/** Moves failed jobs, {@linkcode LOT} at a time. */
export async function moveFailed(
  driver: Driver,
  which: FailedIds | FailedFilter,
  options: MoveOptions,
  act: Act,
): Promise<Moved[]> {
  refuseUnknown(options, ["limit", "onProgress"], "options");
  const limit = wholeNumber("limit", options.limit, Infinity, 1);
  const { onProgress } = options;
  if (onProgress !== undefined && typeof onProgress !== "function") {
    throw new QueueError("CONFIG", `onProgress=${show(onProgress)}: expected a function`);
  }
  if (which === "all") return await moveMatching(driver, {}, limit, onProgress, act);
  if (typeof which === "string" || typeof which === "number" || Array.isArray(which)) {
    const ids = [...new Set([which].flat().map(String))];
    return await moveNamed(ids, limit, onProgress, act);
  }
  const filter = checkFilter(which as FailedFilter);
  if (isEmpty(filter)) {
    throw new QueueError("CONFIG", `expected ids, "all", or a filter with one of ${KEYS.join(", ")}`);
  }
  return await moveMatching(driver, filter, limit, onProgress, act);
}

async function moveNamed(
  ids: readonly string[],
  limit: number,
  onProgress: MoveOptions["onProgress"],
  act: Act,
): Promise<Moved[]> {
  const all: Moved[] = [];
  for (let from = 0; from < ids.length && all.length < limit;) {
    const lot = ids.slice(from, from + Math.min(LOT, limit - all.length));
    const moved = await act({ ids: lot });
    all.push(...moved);
    from += lot.length;
    await onProgress?.({ looked: from, total: ids.length, moved });
  }
  return all;
}

async function moveMatching(
  driver: Driver,
  filter: FailedFilter,
  limit: number,
  onProgress: MoveOptions["onProgress"],
  act: Act,
): Promise<Moved[]> {
  const all: Moved[] = [];
  // What is retried may fail again at once: without an end this could go on for ever.
  const [until] =
    (await driver.findFailed({ filter: {}, after: null, until: null, reverse: true, limit: 1 })).ids;
  if (until === undefined) return all;
  const total = onProgress === undefined ? 0 : await countUntil(driver, until);
  let looked = 0;
  let lot: string[] = [];
  for (let after: string | null = null;;) {
    // Where few match, several looks fill one lot.
    const most = Math.min(LOT, limit - all.length) - lot.length;
    const found = await driver.findFailed({ filter, after, until, reverse: false, limit: most });
    lot.push(...found.ids);
    looked += found.looked;
    const isOver = found.next === null || found.next === until;
    const isFull = found.ids.length === most;
    const moved = lot.length > 0 && (isOver || isFull) ? await act({ ids: lot, filter }) : [];
    if (isOver || isFull) lot = [];
    all.push(...moved);
    await onProgress?.({ looked, total: Math.max(looked, total), moved });
    if (isOver || all.length >= limit) return all;
    after = found.next;
  }
}

/** How many there are up to an id: without a filter no record is read for it. */
async function countUntil(driver: Driver, until: string): Promise<number> {
  let count = 0;
  for (let after: string | null = null;;) {
    const found = await driver.findFailed({ filter: {}, after, until, reverse: false, limit: COUNTED });
    count += found.ids.length;
    if (found.next === null || found.next === until) return count;
    after = found.next;
  }
}

const KEYS = ["name", "queue", "since", "before", "text"];

/**
 * What holds of a filter.
 *
 * @param others What the same object may have besides.
 * @throws {QueueError} `CONFIG`, naming what cannot be meant.
 */
function checkFilter(given: FailedFilter, others: readonly string[] = []): FailedFilter {
  if (typeof given !== "object" || given === null) {
    throw new QueueError("CONFIG", `${show(given)}: expected ids, "all", or a filter of ${KEYS.join(", ")}`);
  }
  refuseUnknown(given, [...KEYS, ...others], "filter");
  const { name, queue, since, before, text } = given;
  for (const [key, value] of Object.entries({ name, queue, text })) {
    if (value !== undefined && (typeof value !== "string" || value === "")) {
      throw new QueueError("CONFIG", `${key}=${show(value)}: expected text`);
    }
  }
  for (const [key, value] of Object.entries({ since, before })) {
    if (value !== undefined && !Number.isFinite(value)) {
      throw new QueueError("CONFIG", `${key}=${show(value)}: expected epoch milliseconds`);
    }
  }
  return { name, queue, since, before, text };
}

function isEmpty(filter: FailedFilter): boolean {
  return Object.values(filter).every((value) => value === undefined);
}
