/**
 * What was seen, by the second for a quarter of an hour and by the minute for a week: kept in memory, so that it begins
 * with the process.
 *
 * @module
 */

/** How many jobs there are at a moment, in all queues. */
export interface Gauge {
  readonly ready: number;
  readonly delayed: number;
  readonly running: number;
  /** How long the oldest ready job has been waiting, in milliseconds; `null` where none is, or the store does not know. */
  readonly wait: number | null;
}

/**
 * One point of a chart: epoch seconds; jobs done and jobs failed per second; then those of a {@linkcode Gauge}. `null`
 * where it is not known.
 */
export type Point = readonly [
  at: number,
  done: number | null,
  failed: number | null,
  ready: number | null,
  running: number | null,
  wait: number | null,
];

interface Bucket {
  done: number;
  failed: number;
  gauge: Gauge | null;
}

/** How much each chart shows: seconds in all, and for one point. */
export const RANGES: Readonly<Record<string, { readonly span: number; readonly step: number }>> = {
  "15m": { span: 900, step: 2 },
  "3h": { span: 10_800, step: 60 },
  "24h": { span: 86_400, step: 300 },
  "7d": { span: 604_800, step: 1800 },
};

/** What was counted and seen. */
export class History {
  readonly #seconds = new Series(1, 900);
  readonly #minutes = new Series(60, 7 * 1440);

  /** Counts what happened from one time to another, in epoch milliseconds, as if evenly. */
  count(what: "done" | "failed", many: number, from: number, to: number): void {
    if (many <= 0) return;
    for (const series of [this.#seconds, this.#minutes]) series.count(what, many, from / 1000, to / 1000);
  }

  /** Takes down how it is now. */
  note(gauge: Gauge, now: number): void {
    for (const series of [this.#seconds, this.#minutes]) series.note(gauge, now / 1000);
  }

  /**
   * The points of a range, the oldest first.
   *
   * @param known Until when what was done is known, in epoch milliseconds: workers tell it with a delay.
   */
  points({ span, step }: { span: number; step: number }, now: number, known: number): Point[] {
    const series = step < 60 ? this.#seconds : this.#minutes;
    return series.points(span, step, now / 1000, known / 1000);
  }
}

/** Buckets of one width, in seconds. */
class Series {
  readonly #width: number;
  readonly #most: number;
  readonly #buckets = new Map<number, Bucket>();

  constructor(width: number, most: number) {
    this.#width = width;
    this.#most = most;
  }

  count(what: "done" | "failed", many: number, from: number, to: number): void {
    const start = Math.max(Math.min(from, to), to - this.#most * this.#width);
    const span = Math.max(to - start, 1e-3);
    for (let number = Math.floor(start / this.#width); number * this.#width < start + span; number++) {
      const begin = Math.max(start, number * this.#width);
      const end = Math.min(start + span, (number + 1) * this.#width);
      this.#at(number)[what] += many * (end - begin) / span;
    }
  }

  note(gauge: Gauge, now: number): void {
    const number = Math.floor(now / this.#width);
    const bucket = this.#at(number);
    // Of a minute, the longest wait: a short jam must not be missed.
    const wait = Math.max(bucket.gauge?.wait ?? -1, gauge.wait ?? -1);
    bucket.gauge = { ...gauge, wait: wait < 0 ? null : wait };
    for (const old of this.#buckets.keys()) if (old <= number - this.#most) this.#buckets.delete(old);
  }

  points(span: number, step: number, now: number, known: number): Point[] {
    const last = Math.floor(now / step) * step;
    const points: Point[] = [];
    for (let at = last - span + step; at <= last; at += step) {
      points.push(this.#point(at, Math.max(step, this.#width), now, known));
    }
    const first = points.findIndex(([, ...values]) => values.some((value) => value !== null));
    return first < 0 ? [] : points.slice(first);
  }

  #point(at: number, step: number, now: number, known: number): Point {
    let done = 0, failed = 0, gauge: Gauge | null = null, wait: number | null = null;
    for (let number = at / this.#width; number < (at + step) / this.#width; number++) {
      const bucket = this.#buckets.get(number);
      if (bucket === undefined) continue;
      done += bucket.done;
      failed += bucket.failed;
      gauge = bucket.gauge ?? gauge;
      if (bucket.gauge?.wait != null) wait = Math.max(wait ?? 0, bucket.gauge.wait);
    }
    if (gauge === null) return [at, done > 0 ? done / step : null, null, null, null, null];
    // The last one is not over yet.
    const passed = Math.max(1, Math.min(step, now - at));
    return [
      at,
      at + step <= known ? done / step : at < known ? done / Math.max(1, known - at) : null,
      failed / passed,
      gauge.ready,
      gauge.running,
      wait,
    ];
  }

  #at(number: number): Bucket {
    let bucket = this.#buckets.get(number);
    if (bucket === undefined) this.#buckets.set(number, bucket = { done: 0, failed: 0, gauge: null });
    return bucket;
  }
}
