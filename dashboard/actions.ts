/**
 * What can be changed, and how it is asked for: `POST ?do=…` with a document of JSON.
 *
 * @module
 */
import type { FailedFilter } from "../mod.ts";
import { BadRequest } from "./bad_request.ts";
import { readFilter } from "./failed_filter.ts";
import type { DashboardQueue } from "./settings.ts";

/** The largest document. */
const LARGEST = 256 * 1024;

/** How many ids a change may name. */
const MOST_IDS = 1000;

/** How many jobs that match a filter one request moves: the page asks again until none is left. */
const STEP = 500;

/** One change: what it does, and what it answers. */
export type Action = (queue: DashboardQueue, asked: Record<string, unknown>) => Promise<unknown>;

/** Every change that there is, by its name. */
export const ACTIONS: Readonly<Record<string, Action>> = {
  retry: (queue, asked) => move(asked, (which, options) => queue.retry(which, options)),
  forget: (queue, asked) => move(asked, (which, options) => queue.forget(which, options)),
  cancel: async (queue, asked) => {
    const found = await Promise.all(idsOf(asked).map((id) => queue.cancel(id)));
    const many = (what: string | null): number => found.filter((one) => one === what).length;
    return { removed: many("removed"), cancelling: many("cancelling"), unknown: many(null) };
  },
  pause: async (queue, asked) => ({ changed: await queue.pause(queueOf(asked)) }),
  resume: async (queue, asked) => ({ changed: await queue.resume(queueOf(asked)) }),
};

/** Reads a request's document, up to a limit. */
export async function readDocument(request: Request): Promise<Record<string, unknown>> {
  if (!/^application\/json\b/i.test(request.headers.get("content-type") ?? "")) {
    throw new BadRequest("expected a document of JSON", 415);
  }
  let value: unknown;
  try {
    value = JSON.parse(await readText(request));
  } catch (error) {
    if (error instanceof BadRequest) throw error;
    throw new BadRequest("the document is no JSON");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new BadRequest("expected an object");
  }
  return value as Record<string, unknown>;
}

/** Reads a request's body as text, up to a limit. */
export async function readText(request: Request): Promise<string> {
  const parts: Uint8Array[] = [];
  let size = 0;
  if (request.body !== null) {
    const reader = request.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      if (size > LARGEST) {
        await reader.cancel();
        throw new BadRequest(`the body is larger than ${LARGEST} bytes`, 413);
      }
      parts.push(value);
    }
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return new TextDecoder().decode(whole);
}

async function move(
  asked: Record<string, unknown>,
  act: (which: readonly string[] | FailedFilter, options?: { limit: number }) => Promise<unknown[]>,
): Promise<{ moved: number; more: boolean }> {
  if ("ids" in asked) {
    const moved = await act(idsOf(asked));
    return { moved: moved.length, more: false };
  }
  const { filter } = asked;
  if (typeof filter !== "object" || filter === null) throw new BadRequest("expected ids, or a filter");
  const moved = await act(readFilter((key) => (filter as Record<string, unknown>)[key]), { limit: STEP });
  return { moved: moved.length, more: moved.length === STEP };
}

function idsOf({ ids }: Record<string, unknown>): string[] {
  const fine = Array.isArray(ids) && ids.length > 0 && ids.length <= MOST_IDS &&
    ids.every((id) => typeof id === "string" && id !== "" && id.length <= 100);
  if (!fine) throw new BadRequest(`ids: expected a list of 1 to ${MOST_IDS} texts`);
  return ids;
}

function queueOf({ queue }: Record<string, unknown>): string | undefined {
  if (queue === null) return undefined;
  if (typeof queue !== "string") throw new BadRequest("queue: expected a name, or null for every queue");
  return queue;
}
