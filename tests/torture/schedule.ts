/** What the nemesis will do, and when: all of it follows from the seed. */
import type { FaultKind } from "./history.ts";
import type { Random } from "./random.ts";

/** One strike to come. */
export interface Strike {
  readonly kind: FaultKind;
  /** How long after the one before, in milliseconds. */
  readonly after: number;
  /** How long it lasts, in milliseconds. */
  readonly lasts: number;
  /** Who is struck, where it is one of several: a number from 0 to just below 1. */
  readonly who: number;
  /** By how much a clock is set, in milliseconds. */
  readonly shift: number;
}

/** How long each kind lasts, in leases. */
const LASTS: Readonly<Partial<Record<FaultKind, readonly [least: number, most: number]>>> = {
  stop: [0.3, 1.8],
  clock: [0.5, 2],
  "half-open": [0.2, 1.5],
  "lost replies": [0.1, 0.5],
  lock: [0.2, 1.6],
  "full disk": [0.2, 1.2],
  restart: [0.2, 1.5],
  freeze: [0.2, 1.5],
  pause: [0.2, 1.5],
};

/** The strikes, without end: each kind once, in some order, before any comes again. */
export function* schedule(
  random: Random,
  kinds: readonly FaultKind[],
  lease: number,
  gap: number,
): Generator<Strike> {
  for (;;) {
    for (const kind of random.shuffle(kinds)) {
      const [least, most] = LASTS[kind] ?? [0, 0.5];
      const shift = random.whole(lease / 2, lease * 2) * (random.chance(0.5) ? 1 : -1);
      yield {
        kind,
        after: random.whole(gap / 4, gap * 1.75),
        lasts: random.whole(lease * least, lease * most),
        who: random.next(),
        shift,
      };
    }
  }
}
