/**
 * Which queues a worker takes from, and in which proportion.
 *
 * @module
 */
import type { QueueShare } from "./driver.ts";
import { QueueError } from "./errors.ts";
import { checkQueue } from "./registry.ts";
import { show } from "./show.ts";

/**
 * The queues of a worker: `"high,default"` or a list in strict order (the next only when those before it are empty),
 * `"high:3,low:1"` or a record by weight (none starves). Left out: every queue that has jobs, with equal weight.
 */
export type QueueSelection = string | readonly string[] | Readonly<Record<string, number>>;

/** Divides what a worker asks for among its queues. */
export class Shares {
  /** Whether it takes from every queue that the store has. */
  readonly everything: boolean;
  readonly #strict: boolean;
  #queues: { name: string; weight: number; credit: number }[];

  /**
   * @param selection What the worker was told; `undefined` for every queue.
   * @param known The queues to begin with, where it takes from every one.
   * @throws {QueueError} `CONFIG` for a selection that cannot work.
   */
  constructor(selection: QueueSelection | undefined, known: Iterable<string>) {
    this.everything = selection === undefined;
    const parsed = selection === undefined
      ? [...known].map((name) => ({ name, weight: null }))
      : parse(selection);
    this.#strict = !this.everything && parsed.every(({ weight }) => weight === null);
    this.#queues = parsed.map(({ name, weight }) => ({ name, weight: weight ?? 1, credit: 0 }));
  }

  /** Takes note of queues that were found in the store; whether any was new. */
  discover(names: readonly string[]): boolean {
    const added = names.filter((name) => !this.#queues.some((queue) => queue.name === name));
    for (const name of added) this.#queues.push({ name, weight: 1, credit: 0 });
    return added.length > 0;
  }

  /** What to ask the driver for: each queue's part of `want`, and then whatever the others leave. */
  divide(want: number): QueueShare[] {
    const rest = this.#queues.map(({ name }) => ({ queue: name, limit: want }));
    if (this.#strict || rest.length < 2) return rest;
    const parts = this.#deal(want);
    return [...parts].map(([queue, limit]) => ({ queue, limit })).concat(rest);
  }

  /**
   * Smooth weighted round robin, as nginx does it: each draw adds every weight to its queue's credit, and the one
   * with the most pays the sum. Credits outlive the call, so that draws of one are fair, too.
   */
  #deal(draws: number): Map<string, number> {
    const sum = this.#queues.reduce((total, { weight }) => total + weight, 0);
    const parts = new Map<string, number>();
    for (let draw = 0; draw < draws; draw++) {
      for (const queue of this.#queues) queue.credit += queue.weight;
      const next = this.#queues.reduce((best, queue) => queue.credit > best.credit ? queue : best);
      next.credit -= sum;
      parts.set(next.name, (parts.get(next.name) ?? 0) + 1);
    }
    return parts;
  }
}

/** Weights beyond this say nothing more about fairness. */
const HEAVIEST = 1000;

function parse(selection: QueueSelection): { name: string; weight: number | null }[] {
  if (selection === null || !["string", "object"].includes(typeof selection)) {
    throw new QueueError(
      "CONFIG",
      `queues=${show(selection)}: expected names in order, or a record of weights`,
    );
  }
  const entries: [string, unknown][] = typeof selection === "string"
    ? selection.split(",").map(splitWeight)
    : Array.isArray(selection)
    ? (selection as readonly string[]).map((name) => [name, undefined])
    : Object.entries(selection);
  const parsed = entries.map(([name, weight]) => ({
    name: checkQueue(name, "queues"),
    weight: weight === undefined ? null : checkWeight(name, weight),
  }));
  const names = new Set(parsed.map(({ name }) => name));
  if (
    parsed.length === 0 || names.size < parsed.length ||
    parsed.some(({ weight }) => (weight === null) !== (parsed[0].weight === null))
  ) {
    throw new QueueError(
      "CONFIG",
      `queues=${
        show(selection)
      }: expected names in order (high,default), or each once with a weight (high:3,low:1)`,
    );
  }
  return parsed;
}

function splitWeight(part: string): [name: string, weight: string | undefined] {
  const colon = part.indexOf(":");
  return colon < 0 ? [part.trim(), undefined] : [part.slice(0, colon).trim(), part.slice(colon + 1).trim()];
}

function checkWeight(name: string, weight: unknown): number {
  const written = typeof weight === "string" && /^\d+$/.test(weight);
  const number = typeof weight === "number" || written ? Number(weight) : NaN;
  if (!Number.isInteger(number) || number < 1 || number > HEAVIEST) {
    throw new QueueError(
      "CONFIG",
      `queues: the weight of ${name} is ${show(weight)}: expected a whole number from 1 to ${HEAVIEST}`,
    );
  }
  return number;
}
