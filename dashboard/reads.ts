/**
 * What a page asks for besides the events: `GET ?get=…`, answered as JSON.
 *
 * @module
 */
import { BadRequest } from "./bad_request.ts";
import type { Collector } from "./collector.ts";
import { readFilter } from "./failed_filter.ts";
import { RANGES } from "./history.ts";
import type { DashboardQueue } from "./settings.ts";

/** How many rows a page of jobs has. */
const PAGE = 50;

/** What a read needs. */
export interface Reading {
  readonly queue: DashboardQueue;
  readonly collector: Collector;
  readonly asked: URLSearchParams;
}

/** Every read that there is, by its name; `null` where there is no such job. */
export const READS: Readonly<Record<string, (reading: Reading) => unknown>> = {
  history: ({ collector, asked }) => {
    const name = asked.get("range") ?? "15m";
    if (!Object.hasOwn(RANGES, name)) {
      throw new BadRequest(`range: expected one of ${Object.keys(RANGES).join(", ")}`);
    }
    return {
      range: name,
      ...RANGES[name],
      points: collector.history.points(RANGES[name], Date.now(), collector.known),
    };
  },
  failed: async ({ queue, asked }) => {
    const filter = readFilter((key) => asked.get(key));
    const after = idOf(asked, "from");
    const [jobs, count] = await Promise.all([
      queue.failed({ ...filter, limit: PAGE + 1, reverse: true, ...(after === null ? {} : { after }) }),
      queue.countFailed(filter),
    ]);
    const rows = jobs.slice(0, PAGE).map(({ id, name, queue, attempts, error, failedAt }) => (
      { id, name, queue, attempts, error: error.slice(0, 300), failedAt }
    ));
    return { rows, count, next: jobs.length > PAGE ? rows[PAGE - 1].id : null };
  },
  delayed: async ({ queue, asked }) => {
    const name = asked.get("queue") || undefined;
    const found = await queue.delayed({ queue: name, limit: PAGE + 1 });
    const now = Date.now();
    const rows = found.slice(0, PAGE).map(({ dueIn, ...job }) => ({ ...job, dueAt: now + dueIn }));
    return { rows, more: found.length > PAGE };
  },
  job: async ({ queue, asked }) => {
    const id = idOf(asked, "id");
    if (id === null) throw new BadRequest("id: expected the id of a job");
    return await queue.find(id);
  },
};

function idOf(asked: URLSearchParams, key: string): string | null {
  const id = asked.get(key);
  if (id === null || id === "") return null;
  if (!/^[\w-]{1,64}$/.test(id)) throw new BadRequest(`${key}: expected the id of a job`);
  return id;
}
