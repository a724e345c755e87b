/**
 * Redis's time, as this process last heard it: the times in ids, and waits, are by one clock, whichever machine asks.
 *
 * @module
 */

/** For how long what was heard is good, in milliseconds: two machines' clocks drift apart. */
const GOOD_FOR = 60_000;

/** Redis's clock, on this process's monotonic one. */
export class ServerClock {
  #heardAt = -Infinity;
  #ahead = 0;

  /** Redis's time, in epoch milliseconds; this machine's own until Redis told its. */
  now(): number {
    return this.isKnown ? Math.round(performance.now() + this.#ahead) : Date.now();
  }

  /** Whether Redis told its time yet. */
  get isKnown(): boolean {
    return this.#heardAt !== -Infinity;
  }

  /** Whether Redis should be asked again. */
  get isOld(): boolean {
    return performance.now() - this.#heardAt >= GOOD_FOR;
  }

  /** Takes what Redis answers to TIME. */
  hear([seconds, microseconds]: readonly (string | number)[]): void {
    const time = Number(seconds) * 1000 + Number(microseconds) / 1000;
    if (!Number.isFinite(time)) return;
    this.#heardAt = performance.now();
    this.#ahead = time - this.#heardAt;
  }
}
