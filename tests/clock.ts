/**
 * A clock that the test moves: what waits for a time happens when the test says so, however slow the machine is, and
 * what happens while the clock stands still did not wait for a poll.
 *
 * It takes the place of `Date.now`, `performance.now` and `setTimeout`; what measures or waits outside of JavaScript goes on as ever.
 */
import { setImmediate } from "node:timers";
import { PATIENCE } from "./until.ts";

interface Timer {
  readonly dueAt: number;
  run(): void;
}

/** How many turns of the event loop a step waits for what it set off. The longest chain here takes about five. */
const TURNS = 30;

/** A stopped clock. */
export class Clock {
  /** Waits shorter than this pass in real time, as those for another process's lock must. None, unless a test sets it. */
  short = 0;
  #now: number;
  readonly #timers = new Set<Timer>();
  readonly #real = {
    now: Date.now,
    performanceNow: performance.now.bind(performance),
    setTimeout: globalThis.setTimeout,
    clearTimeout: globalThis.clearTimeout,
  };

  /** Takes over the time, which stands still at `now`. */
  constructor(now: number = Date.now()) {
    this.#now = now;
    const { setTimeout, clearTimeout } = this.#real;
    Date.now = () => this.#now;
    const started = this.#real.performanceNow() - now;
    performance.now = () => started + this.#now;
    globalThis.setTimeout = ((run: (...rest: unknown[]) => void, delay = 0, ...rest: unknown[]) => {
      if (delay < this.short) return setTimeout(run, delay, ...rest);
      // As the real one: what is too long goes off at once.
      const wait = delay >= 1 && delay < 2 ** 31 ? Math.trunc(delay) : 1;
      const timer = {
        dueAt: this.#now + wait,
        run: () => run(...rest),
        ref,
        unref: ref,
      };
      this.#timers.add(timer);
      return timer;
    }) as unknown as typeof setTimeout;
    globalThis.clearTimeout = ((timer: unknown) => {
      if (!this.#timers.delete(timer as Timer)) clearTimeout(timer as number);
    }) as typeof clearTimeout;
  }

  /** The present, in epoch milliseconds. */
  get now(): number {
    return this.#now;
  }

  /** How many timers wait. */
  get waiting(): number {
    return this.#timers.size;
  }

  /** Lets `milliseconds` pass: each timer goes off at its time, and what it sets off comes to rest before the next. */
  async advance(milliseconds: number): Promise<void> {
    const end = this.#now + milliseconds;
    for (;;) {
      await this.rest();
      const [next] = [...this.#timers].filter(({ dueAt }) => dueAt <= end).sort((a, b) => a.dueAt - b.dueAt);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.dueAt);
      next.run();
    }
    this.#now = end;
    await this.rest();
  }

  /** Lets `milliseconds` pass at once, as a handler that computes does: no timer goes off meanwhile. */
  spend(milliseconds: number): void {
    this.#now += milliseconds;
  }

  /** Lets what has begun come to rest, while the clock stands still. */
  async rest(): Promise<void> {
    for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
  }

  /**
   * Waits until `condition` holds, while the clock stands still.
   *
   * @throws {Error} Naming `what`, when it does not come to hold.
   */
  async until(condition: () => unknown, what: string): Promise<void> {
    const deadline = this.#real.performanceNow() + PATIENCE;
    while (!await condition()) {
      if (this.#real.performanceNow() > deadline) throw new Error(`waited in vain for ${what}`);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Gives the time back. */
  release(): void {
    Date.now = this.#real.now;
    performance.now = this.#real.performanceNow;
    globalThis.setTimeout = this.#real.setTimeout;
    globalThis.clearTimeout = this.#real.clearTimeout;
  }
}

function ref(this: unknown): unknown {
  return this;
}
