/**
 * The bell: a sorted set of at most one member, which a push fills and one resting worker takes.
 *
 * It wakes exactly one worker, at once, wherever it is. It is a hint: a ring that is lost with a connection costs at most
 * the second until the next poll.
 *
 * @module
 */
import type { Listener } from "../../core/driver.ts";
import type { Link } from "./link.ts";

/** How long one look at the bell blocks, in seconds. */
const BLOCK = 1;

/** How long to let the bell be after an error, in milliseconds. */
const PAUSE = 500;

/** This process's end of the bell. */
export class RedisBell {
  readonly #link: Link;
  readonly #key: string;
  readonly #ring: () => Promise<unknown>;
  readonly #resting = new Set<() => boolean>();
  #hearing = false;
  #closed = false;
  #pause: ReturnType<typeof setTimeout> | null = null;
  #woken = false;

  /**
   * @param link A connection of its own, since it blocks.
   * @param key The bell's key.
   * @param ring Rings, for a worker elsewhere.
   */
  constructor(link: Link, key: string, ring: () => Promise<unknown>) {
    this.#link = link;
    this.#key = key;
    this.#ring = ring;
  }

  /** Whether a ring woke a worker here since this was asked last. */
  takeWoken(): boolean {
    const woken = this.#woken;
    this.#woken = false;
    return woken;
  }

  /** Whether a worker rests in this process. */
  get isHeardHere(): boolean {
    return this.#resting.size > 0;
  }

  /** Wakes one that rests here. Whoever does not look, as all its slots are busy by now, leaves the ring to another one. */
  wakeOne(): void {
    for (const wake of this.#resting) {
      this.#resting.delete(wake);
      this.#woken = true;
      if (wake()) return;
    }
    this.#woken = false;
    this.#ring().catch(() => {});
  }

  /** Wakes `wake` at a ring, once for each time that it rests. */
  listen(wake: () => boolean): Listener {
    return {
      rest: () => {
        this.#resting.add(wake);
        void this.#hear();
      },
      close: () => void this.#resting.delete(wake),
    };
  }

  /** Stops. */
  close(): void {
    this.#closed = true;
    this.#resting.clear();
    if (this.#pause !== null) clearTimeout(this.#pause);
    this.#link.close();
  }

  async #hear(): Promise<void> {
    if (this.#hearing) return;
    this.#hearing = true;
    while (this.#resting.size > 0 && !this.#closed) {
      try {
        const rung = await this.#link.call(["BZPOPMIN", this.#key, String(BLOCK)], BLOCK * 1000);
        if (rung !== null && !this.#closed) this.wakeOne();
      } catch {
        // The command connection meets the same error, and the worker logs it.
        if (!this.#closed) await new Promise<void>((resolve) => this.#pause = setTimeout(resolve, PAUSE));
      }
    }
    this.#hearing = false;
  }
}
