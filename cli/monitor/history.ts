import type { Look } from "./look.ts";

/** How many looks are kept: what a line of a wide terminal can show. */
const KEPT = 60;

/** Over which time a trend is taken, in milliseconds: shorter ones jump, longer ones come late. */
const TREND_SPAN = 10_000;

/** A worker's count at one of its heartbeats. */
interface Beat {
  readonly at: number;
  readonly processed: number;
}

/** The last two heartbeats of a worker that differ. */
interface Beats {
  readonly before: Beat | null;
  readonly last: Beat;
}

/** What several looks tell together: how fast, and in which direction. */
export class History {
  #looks: Look[] = [];
  /** Of each worker: its count changes with its heartbeats, and not with our looks. */
  #beats: ReadonlyMap<string, Beats> = new Map();

  /** Takes note of a look, which is later than those before it. */
  add(found: Look): void {
    this.#looks = [...this.#looks, found].slice(-KEPT);
    const beats = new Map<string, Beats>();
    for (const { id, seenAt: at, processed } of found.workers) {
      const known = this.#beats.get(id);
      const last = { at, processed };
      if (known === undefined) beats.set(id, { before: null, last });
      else beats.set(id, at > known.last.at ? { before: known.last, last } : known);
    }
    this.#beats = beats;
  }

  /** How many ready jobs a queue had at each look, the latest last. */
  ready(queue: string): number[] {
    return this.#looks.map((found) => readyOf(found, queue));
  }

  /** By how many ready jobs a second a queue has been growing in the last 10 s; `null` after one look. */
  trend(queue: string): number | null {
    return this.#slope((found) => readyOf(found, queue));
  }

  /** The same for all queues together. */
  totalTrend(): number | null {
    return this.#slope(({ queues }) => queues.reduce((total, { ready }) => total + ready, 0));
  }

  /** How many attempts a second the workers end, between their last two heartbeats; `null` before the second one. */
  rate(): number | null {
    let rate: number | null = null;
    for (const { before, last } of this.#beats.values()) {
      if (before === null) continue;
      // A count that went back is another worker's under a known id.
      const ended = Math.max(0, last.processed - before.processed);
      rate = (rate ?? 0) + ended / ((last.at - before.at) / 1000);
    }
    return rate;
  }

  #slope(count: (found: Look) => number): number | null {
    const last = this.#looks.at(-1);
    const first = this.#looks.find(({ at }) => last !== undefined && at >= last.at - TREND_SPAN);
    if (last === undefined || first === undefined || last.at <= first.at) return null;
    return (count(last) - count(first)) / ((last.at - first.at) / 1000);
  }
}

function readyOf({ queues }: Look, name: string): number {
  return queues.find(({ queue }) => queue === name)?.ready ?? 0;
}
