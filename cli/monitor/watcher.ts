import { type Queue, QueueError } from "../../mod.ts";
import { type Alert, alertsOf, type Limits } from "./alerts.ts";
import { History } from "./history.ts";
import { type Look, look } from "./look.ts";

/** Looks at a store again and again, one look at a time, and keeps what it saw. */
export class Watcher {
  /** The last look; `null` before the first. */
  found: Look | null = null;
  /** What was wrong then. */
  alerts: readonly Alert[] = [];
  /** Why the store could not be looked at since; `null` where it could. */
  problem: string | null = null;
  /** What the looks tell together. */
  readonly history: History = new History();
  /** The time between two looks, in milliseconds. */
  readonly interval: number;
  readonly #queue: Queue;
  readonly #limits: Limits;
  #wake: () => void = () => {};

  constructor(queue: Queue, limits: Limits, interval: number) {
    this.#queue = queue;
    this.#limits = limits;
    this.interval = interval;
  }

  /** Looks once, and rejects where the store fails. */
  async once(): Promise<Look> {
    const found = await look(this.#queue);
    this.found = found;
    this.history.add(found);
    this.alerts = alertsOf(found, this.#limits);
    this.problem = null;
    return found;
  }

  /** Looks at each interval until it is told to stop, and calls `then` after each look. A store that fails ends nothing. */
  async run(signal: AbortSignal, then: () => void): Promise<void> {
    const stopped = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    while (!signal.aborted) {
      const due = performance.now() + this.interval;
      // A look at a store that hangs must not keep anybody from leaving.
      await Promise.race([stopped, this.#try()]);
      if (signal.aborted) return;
      then();
      await Promise.race([stopped, this.#until(due)]);
    }
  }

  /** Looks now instead of at the end of the interval. */
  hurry(): void {
    this.#wake();
  }

  async #try(): Promise<void> {
    try {
      await this.once();
    } catch (error) {
      if (!(error instanceof QueueError)) throw error;
      this.problem = error.message;
    }
  }

  #until(due: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.max(0, due - performance.now()));
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
