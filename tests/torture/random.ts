/** Choices that a seed decides. */

/** Pseudo-random numbers (mulberry32): the same ones for the same seed, on every runtime. */
export class Random {
  #state: number;

  /** Starts at `seed`, of which 32 bits count. */
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 to just below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let bits = this.#state;
    bits = Math.imul(bits ^ (bits >>> 15), bits | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from `least` to `most`, both included. */
  whole(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** Whether something happens that does so with this probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** One of them. */
  pick<One>(among: readonly One[]): One {
    return among[this.whole(0, among.length - 1)];
  }

  /** All of them, in another order. */
  shuffle<One>(all: readonly One[]): One[] {
    const mixed = [...all];
    for (let last = mixed.length - 1; last > 0; last--) {
      const other = this.whole(0, last);
      [mixed[last], mixed[other]] = [mixed[other], mixed[last]];
    }
    return mixed;
  }
}
