/**
 * Joins the calls of one turn of the event loop to one command.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Returns a function whose calls of one turn are sent together; each gets its own part of the answer. */
export function coalesce<Item, Result>(
  send: (items: Item[]) => Promise<readonly Result[]>,
): (item: Item) => Promise<Result> {
  let waiting: { item: Item; resolve(result: Result): void; reject(error: unknown): void }[] = [];
  const flush = (): void => {
    const calls = waiting;
    waiting = [];
    send(calls.map(({ item }) => item)).then(
      (results) => calls.forEach((call, index) => call.resolve(results[index])),
      (error) => calls.forEach((call) => call.reject(error)),
    );
  };
  return (item) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(flush);
      waiting.push({ item, resolve, reject });
    });
}
