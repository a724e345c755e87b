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

/**
 * Looks at a selection as a worker would: before there is a queue to give it to.
 *
 * @example
 * ```ts
 * import { checkQueueSelection, QueueError } from "@x/queue";
 * import assert from "node:assert/strict";
 *
 * assert.deepEqual(checkQueueSelection("high:3,low:1"), ["high", "low"]);
 * assert.throws(() => checkQueueSelection("high,high"), QueueError);
 * ```
 *
 * @param selection What is to be `queues` of a worker.
 * @returns The names of its queues, in its order.
 * @throws {QueueError} `CONFIG` for a selection that cannot work.
 */
export function checkQueueSelection(selection: QueueSelection): string[] {
  return parse(selection).map(({ name }) => name);
}

/** One queue's account. */
interface Account {
  readonly weight: number;
  /** How many jobs the others owe it: the queue with the most is next. */
  credit: number;
  /** What its credit changes by if the requests under way are answered as they were dealt. */
  ahead: number;
  /** Whether it had nothing to give when it was last asked: its part goes to the others then. */
  idle: boolean;
}

/** What one request asks for. */
interface Asked {
  readonly want: number;
  readonly probed: readonly string[];
  readonly parts: ReadonlyMap<string, number>;
  /** What it put ahead. Not by name: a queue that is gone for a moment comes back with another account. */
  readonly ahead: ReadonlyMap<Account, number>;
}

/**
 * Divides what a worker asks for among its queues: smooth weighted round robin, as nginx does it, among those that have
 * jobs. Each job that comes adds to every queue's credit its part of it, and the queue that gave it pays the whole. That is
 * counted in jobs, and not in weights as there, because the sum of the weights changes as queues run dry.
 */
export class Shares {
  /** Whether it takes from every queue that the store has. */
  readonly everything: boolean;
  readonly #strict: boolean;
  /** The queues that stay known whether or not the store has jobs of theirs. */
  readonly #own: ReadonlySet<string>;
  readonly #queues: Map<string, Account>;
  /** What was asked for, by the shares of each request that is under way. */
  readonly #asked = new WeakMap<readonly QueueShare[], Asked>();
  /** Where probing the idle ones goes on. */
  #turn = 0;

  /**
   * @param selection What the worker was told; `undefined` for every queue.
   * @param own The queues to begin with, where it takes from every one.
   * @throws {QueueError} `CONFIG` for a selection that cannot work.
   */
  constructor(selection: QueueSelection | undefined, own: Iterable<string>) {
    this.everything = selection === undefined;
    const parsed = selection === undefined
      ? [...own].map((name) => ({ name, weight: null }))
      : parse(selection);
    this.#strict = !this.everything && parsed.every(({ weight }) => weight === null);
    this.#queues = new Map(parsed.map(({ name, weight }) => [name, account(weight ?? 1)]));
    this.#own = new Set(this.#queues.keys());
  }

  /** The queues that it takes from; `null`: every one. */
  get names(): readonly string[] | null {
    return this.everything ? null : [...this.#own];
  }

  /** Takes note of the queues that the store has, and forgets those that are gone; whether any is new. */
  discover(names: readonly string[]): boolean {
    const present = new Set(names);
    for (const name of this.#queues.keys()) {
      if (!present.has(name) && !this.#own.has(name)) this.#queues.delete(name);
    }
    const before = this.#queues.size;
    for (const name of present) if (!this.#queues.has(name)) this.#queues.set(name, account(1));
    return this.#queues.size > before;
  }

  /** What to ask the driver for: each queue's part of `want`, and then whatever the others leave. */
  divide(want: number): QueueShare[] {
    const names = [...this.#queues.keys()];
    if (this.#strict || names.length < 2) return names.map((queue) => ({ queue, limit: want }));
    const { parts, credits } = this.#deal(want);
    const idle = names.filter((name) => this.#queues.get(name)!.idle);
    const probed = this.#probe(idle);
    // Whose turn is next gets first what others leave.
    const rest = [...credits.keys()].sort((a, b) => credits.get(b)! - credits.get(a)!).concat(idle);
    const shares = [
      ...probed.map((queue) => ({ queue, limit: 1 })),
      ...[...parts].map(([queue, limit]) => ({ queue, limit })),
      ...rest.map((queue) => ({ queue, limit: want })),
    ];
    const ahead = new Map<Account, number>();
    for (const [name, credit] of credits) {
      const queue = this.#queues.get(name)!;
      const change = credit - queue.credit - queue.ahead;
      queue.ahead += change;
      ahead.set(queue, change);
    }
    this.#asked.set(shares, { want, probed, parts, ahead });
    return shares;
  }

  /** Ends a `divide`: what it put ahead is known now, or never will be. */
  forget(shares: readonly QueueShare[]): void {
    for (const [queue, change] of this.#asked.get(shares)?.ahead ?? []) queue.ahead -= change;
    this.#asked.delete(shares);
  }

  /** Settles the accounts of one `divide`, which answered these shares, by the jobs that came. */
  took(shares: readonly QueueShare[], jobs: readonly { readonly queue: string }[]): void {
    const asked = this.#asked.get(shares);
    if (asked === undefined) return;
    this.forget(shares);
    const given = new Map<string, number>();
    for (const { queue } of jobs) given.set(queue, (given.get(queue) ?? 0) + 1);
    this.#markIdle(asked, given);
    const active = [...this.#queues].filter(([, { idle }]) => !idle);
    const sum = active.reduce((total, [, { weight }]) => total + weight, 0);
    let left = 0;
    for (const [name, queue] of active) {
      queue.credit += jobs.length * queue.weight / sum - (given.get(name) ?? 0);
      left += queue.credit;
    }
    // Around 0, where one starts that comes back: else what the idle ones were forgiven would pile up with the others.
    for (const [, queue] of active) queue.credit -= left * queue.weight / sum;
  }

  #markIdle(asked: Asked, given: Map<string, number>): void {
    let left = asked.want;
    for (const name of asked.probed) left -= Math.min(1, given.get(name) ?? 0);
    for (const [name, part] of asked.parts) {
      const due = Math.min(part, left);
      const got = Math.min(due, given.get(name) ?? 0);
      left -= got;
      const queue = this.#queues.get(name);
      if (queue !== undefined && got < due) [queue.idle, queue.credit] = [true, 0];
    }
    for (const name of given.keys()) {
      const queue = this.#queues.get(name);
      if (queue?.idle && !asked.parts.has(name)) queue.idle = false;
    }
  }

  /** The idle queues to be asked for one job first, some at a time: one that has jobs again must not starve. */
  #probe(idle: readonly string[]): string[] {
    const probed = Array.from(
      { length: Math.min(PROBES, idle.length) },
      (_, index) => idle[(this.#turn + index) % idle.length],
    );
    this.#turn += PROBES;
    return probed;
  }

  /** Who of the others would get the next draws, if all had jobs enough. */
  #deal(draws: number): { parts: Map<string, number>; credits: Map<string, number> } {
    const active = [...this.#queues].filter(([, { idle }]) => !idle);
    const sum = active.reduce((total, [, { weight }]) => total + weight, 0);
    const credits = new Map(active.map(([name, { credit, ahead }]) => [name, credit + ahead]));
    const parts = new Map<string, number>();
    // What is not dealt is taken in the order of the credits.
    const most = active.length === 0 ? 0 : Math.max(1, Math.floor(MOST_STEPS / active.length));
    for (let draw = 0; draw < Math.min(draws, most); draw++) {
      let next = "";
      let highest = -Infinity;
      for (const [name, { weight }] of active) {
        const credit = credits.get(name)! + weight / sum;
        credits.set(name, credit);
        if (credit > highest) [next, highest] = [name, credit];
      }
      credits.set(next, highest - 1);
      parts.set(next, (parts.get(next) ?? 0) + 1);
    }
    return { parts, credits };
  }
}

function account(weight: number): Account {
  return { weight, credit: 0, ahead: 0, idle: false };
}

/** How many idle queues are asked first, each time. */
const PROBES = 8;

/** How many steps dealing may take, so that thousands of queues do not hold up the event loop. */
const MOST_STEPS = 20_000;

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
