/**
 * The numbers that a process counts, by labels of which there is a bounded number.
 *
 * @module
 */
import type { AttemptEnd } from "../mod.ts";

/** What stands for every value of a label that is not known, or is one too many. */
export const OTHER = "other";

/** How many values one label has at most, beside {@linkcode OTHER}. */
export const MOST_VALUES = 100;

/** Lets the values of one label through, up to so many. */
export class Values {
  readonly #known: ReadonlySet<string> | null;
  readonly #seen = new Set<string>();

  /** @param known Only these; `null` where any will do. */
  constructor(known: readonly string[] | null) {
    this.#known = known === null ? null : new Set(known);
  }

  /** The value itself, or {@linkcode OTHER}. */
  of(value: string): string {
    if (this.#seen.has(value)) return value;
    if (this.#known !== null && !this.#known.has(value)) return OTHER;
    if (this.#seen.size >= MOST_VALUES) return OTHER;
    this.#seen.add(value);
    return value;
  }
}

/** The upper ends of what histograms of durations count into, in seconds. */
export const BOUNDS: readonly number[] = [
  ...[0.001, 0.005, 0.01, 0.05, 0.1, 0.5],
  ...[1, 5, 10, 30, 60, 300, 1800],
];

/** How often something took how long. */
export class Histogram {
  /** How many came to lie in each bound and in no smaller one; the last is for those above all. */
  readonly counts: number[] = new Array(BOUNDS.length + 1).fill(0);
  /** All of them together, in seconds. */
  sum = 0;
  /** How many. */
  count = 0;

  /** Counts one, in seconds. */
  observe(seconds: number): void {
    let at = 0;
    while (at < BOUNDS.length && seconds > BOUNDS[at]) at++;
    this.counts[at]++;
    this.sum += seconds;
    this.count++;
  }
}

/** How an attempt can have ended, and what that is called. */
export const OUTCOMES: readonly (readonly [AttemptEnd, string])[] = [
  ["completed", "completed"],
  ["released", "released"],
  ["snoozed", "snoozed"],
  ["handedBack", "stopped"],
  ["failed", "failed"],
  ["lost", "lost"],
];

/** What is counted of the jobs of one name in one queue. */
export class JobSeries {
  dispatched = 0;
  readonly attempts: Record<AttemptEnd, number> = {
    completed: 0,
    released: 0,
    snoozed: 0,
    handedBack: 0,
    failed: 0,
    lost: 0,
  };
  readonly run: Histogram = new Histogram();
  readonly wait: Histogram = new Histogram();

  /** The queue. */
  readonly queue: string;
  /** The name of the job type. */
  readonly name: string;

  /** Nothing yet. */
  constructor(queue: string, name: string) {
    this.queue = queue;
    this.name = name;
  }
}
