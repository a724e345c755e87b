/**
 * The keys. A lane is one priority of one queue, with three keys; the lane of plain jobs has those of the original.
 *
 * @module
 */

/** One priority of one queue. */
export interface Lane {
  readonly queue: string;
  readonly priority: number;
  /** How it stands in the set of lanes; empty for that of plain jobs, which needs no entry. */
  readonly name: string;
  /** `jobs`, `delayed` and `reserved`. */
  readonly keys: readonly [jobs: string, delayed: string, reserved: string];
}

/** The keys of an app, by what stands before each. */
export class Lanes {
  /** The set that names the lanes. */
  readonly set: string;
  readonly #prefix: string;
  readonly #lanes = new Map<string, Map<number, Lane>>();
  /** The lanes that the store is known to have, by queue, the highest priority first. */
  readonly #stored = new Map<string, Lane[]>();
  /** How many the set had when it was read; `null` where it must be read. */
  count: number | null = null;

  /** @param prefix Stands before every key. */
  constructor(prefix: string) {
    this.#prefix = prefix;
    this.set = `${prefix}queue:lanes`;
    this.read([]);
    this.count = null;
  }

  /** The lane of a queue and priority. */
  of(queue: string, priority: number): Lane {
    let lanes = this.#lanes.get(queue);
    if (lanes === undefined) this.#lanes.set(queue, lanes = new Map());
    let lane = lanes.get(priority);
    if (lane === undefined) {
      const plain = queue === "default" && priority === 0;
      const at = `${this.#prefix}queue:${plain ? "" : `${queue}:${priority}:`}`;
      const keys = [`${at}jobs`, `${at}delayed`, `${at}reserved`] as const;
      lanes.set(priority, lane = { queue, priority, name: plain ? "" : `${priority} ${queue}`, keys });
    }
    return lane;
  }

  /** The stored lanes of a queue. */
  in(queue: string): readonly Lane[] {
    return this.#stored.get(queue) ?? [];
  }

  /** Takes note of lanes that got jobs here: where one is new, the set must be read before the next look. */
  note(lanes: Iterable<Lane>): void {
    for (const lane of lanes) if (!this.in(lane.queue).includes(lane)) this.count = null;
  }

  /** All stored lanes. */
  all(): Lane[] {
    return [...this.#stored.values()].flat();
  }

  /** Takes note of the set's members. */
  read(names: readonly string[]): void {
    this.count = names.length;
    this.#stored.clear();
    this.#stored.set("default", [this.of("default", 0)]);
    for (const name of names) {
      const space = name.indexOf(" ");
      const lane = this.of(name.slice(space + 1), Number(name.slice(0, space)));
      const others = this.#stored.get(lane.queue) ?? [];
      if (others.includes(lane)) continue;
      this.#stored.set(lane.queue, [...others, lane].sort((a, b) => b.priority - a.priority));
    }
  }
}
