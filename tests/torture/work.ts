/** The jobs of a torture: what each does follows from its payload, so that the checker knows what must become of it. */
import type { Kind } from "./history.ts";
import type { Random } from "./random.ts";

/** The payload of a job. */
export interface Work {
  /** Names it, once and for all: no other dispatch has this payload. */
  readonly n: string;
  /** How long its handler waits, or spins, in milliseconds. */
  readonly lasts: number;
  /** How many of its first attempts fail. */
  readonly fails: number;
}

/** A dispatch to be made. */
export interface Order {
  readonly kind: Kind;
  readonly work: Work;
  readonly priority: number;
  readonly delay: number;
  readonly key: string | null;
}

/** How often a job of each kind is tried. Some attempts are spent by the nemesis. */
export const TRIES: Readonly<Record<Kind, number>> = {
  quick: 4,
  slow: 4,
  flaky: 6,
  doomed: 2,
  spinning: 4,
  ordered: 3,
};

/** The queue that the jobs of the first phase wait on, for one worker that takes them in order. */
export const ORDERED_QUEUE = "ordered";

/** The next dispatch of a producer. */
export function nextOrder(random: Random, n: string, lease: number): Order {
  const roll = random.next();
  const kind = roll < 0.6
    ? "quick"
    : roll < 0.7
    ? "slow"
    : roll < 0.9
    ? "flaky"
    : roll < 0.997
    ? "doomed"
    : "spinning";
  const slow = kind === "slow" ? random.whole(lease / 8, lease * 1.5) : random.whole(0, 20);
  return {
    kind,
    work: {
      n,
      lasts: kind === "spinning" ? random.whole(50, lease * 1.3) : Math.floor(slow),
      fails: kind === "doomed" ? 1000 : kind === "flaky" ? random.whole(1, 3) : 0,
    },
    priority: random.chance(0.3) ? random.pick([-5, 5, 50]) : 0,
    delay: random.chance(0.2) ? random.whole(1, lease) : 0,
    key: random.chance(0.15) ? `key of ${n}` : null,
  };
}

/** The dispatches of the first phase, whose order of starts is promised. */
export function orderedOrders(random: Random, count: number): Order[] {
  return Array.from({ length: count }, (_, index) => ({
    kind: "ordered",
    work: { n: `ordered ${index}`, lasts: 0, fails: 0 },
    priority: random.pick([-1, 0, 0, 0, 7]),
    delay: 0,
    key: null,
  }));
}
