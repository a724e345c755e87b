/**
 * A set for what comes and goes with each job: a hash table costs more than the rest of a short job's bookkeeping.
 *
 * @module
 */

/** What may be in one bag at a time. */
export interface Bagged {
  /** Where it is in there; the bag's own. */
  place: number;
}

/** Objects in no order, each of which knows its place. */
export class Bag<Item extends Bagged> {
  readonly #items: Item[] = [];

  /** How many there are. */
  get size(): number {
    return this.#items.length;
  }

  /** All of them, to be changed by nobody else. */
  get items(): readonly Item[] {
    return this.#items;
  }

  /** Whether it is in there. */
  has(item: Item): boolean {
    return this.#items[item.place] === item;
  }

  /** Puts one in that is not there. */
  add(item: Item): void {
    item.place = this.#items.length;
    this.#items.push(item);
  }

  /** Takes one out, where it is there. */
  delete(item: Item): void {
    if (!this.has(item)) return;
    const last = this.#items.pop()!;
    if (last === item) return;
    this.#items[item.place] = last;
    last.place = item.place;
  }
}
