/**
 * Joins the calls of one turn of the event loop to one command.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** A call of a lot. */
export interface Call<Item, Result> {
  /** What it is about. */
  readonly item: Item;
  /** Gets its own part of the answer. */
  resolve(result: Result): void;
  /** Hears of a failure of all. */
  reject(error: unknown): void;
}

/** Calls of one kind that wait for the end of the turn, and are then sent together. */
export class Lot<Item, Result> {
  readonly #send: (items: Item[]) => Promise<readonly Result[]>;
  #calls: Call<Item, Result>[] = [];

  /** @param send Sends them, and answers in the same order. */
  constructor(send: (items: Item[]) => Promise<readonly Result[]>) {
    this.#send = send;
  }

  /** Whether any will be sent at the end of this turn. */
  get isWaiting(): boolean {
    return this.#calls.length > 0;
  }

  /** Adds a call, and resolves with its own part of the answer. */
  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => this.put({ item, resolve, reject }));
  }

  /** Adds a call that is no promise. */
  put(call: Call<Item, Result>): void {
    if (this.#calls.length === 0) setImmediate(() => this.#flush());
    this.#calls.push(call);
  }

  #flush(): void {
    const calls = this.#calls;
    this.#calls = [];
    this.#send(calls.map(({ item }) => item)).then(
      (results) => calls.forEach((call, index) => call.resolve(results[index])),
      (error) => calls.forEach((call) => call.reject(error)),
    );
  }
}
