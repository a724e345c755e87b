/** A process that dispatches, and writes down what became of each. */
import process from "node:process";
import { setTimeout as pass } from "node:timers/promises";
import { type DispatchOptions, Queue, QueueError } from "../../mod.ts";
import { Journal } from "./journal.ts";
import { Random } from "./random.ts";
import { nextOrder, type Order, ORDERED_QUEUE, orderedOrders, TRIES, type Work } from "./work.ts";

const { name, folder, store, seed, lease, pace, ordered } = JSON.parse(process.argv[2]);
const journal = new Journal(folder, name);
const note = (line: string) => journal.note({ fact: "said", line });
const queue = new Queue({
  ...store,
  retryAfter: lease,
  env: {},
  log: { warn: note, error: note },
  jobs: Object.fromEntries(Object.keys(TRIES).map((kind) => [kind, {}])),
});
const random = new Random(seed);
let stopped = false;
process.on("SIGTERM", () => stopped = true);
// Ctrl-C is for the one who started all of these.
process.on("SIGINT", () => {});
journal.note({ fact: "up", concurrency: 0 });

function entryOf({ kind, work, priority, delay, key }: Order): [string, Work, DispatchOptions] {
  return [kind, work, {
    priority,
    ...(delay > 0 ? { delay } : {}),
    ...(key === null ? {} : { id: key }),
    ...(kind === "ordered" ? { queue: ORDERED_QUEUE } : {}),
  }];
}

/** Dispatches them in one call; `false` where it is not known whether they were stored. */
async function dispatch(orders: readonly Order[]): Promise<boolean> {
  const batch = orders.length > 1 ? orders[0].work.n : null;
  for (const { kind, work: { n }, priority, delay, key } of orders.slice(1)) {
    journal.note({ fact: "tried", n, kind, priority, delay, key, batch });
  }
  const { kind, work: { n }, priority, delay, key } = orders[0];
  await journal.keep({ fact: "tried", n, kind, priority, delay, key, batch });
  try {
    const stored = orders.length > 1
      ? await queue.dispatchMany(orders.map(entryOf))
      : [await queue.dispatch(...entryOf(orders[0]))];
    stored.forEach(({ id, duplicate = false }, index) =>
      journal.note({ fact: "accepted", n: orders[index].work.n, id, duplicate })
    );
    return true;
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    const uncertain = error.message.includes("may have been stored");
    for (const { work: { n } } of orders) {
      journal.note({ fact: uncertain ? "unknown" : "refused", n, why: error.message });
    }
    return !uncertain;
  }
}

/** One with a key is dispatched again, at times although it need not be, until it is known to be stored. */
async function dispatchOnce(order: Order): Promise<void> {
  const again = random.chance(0.5) ? 2 : 1;
  for (let known = 0; known < again && !stopped;) {
    if (await dispatch([order])) known++;
    else await pass(pace);
  }
}

if (ordered > 0) {
  for (const order of orderedOrders(random, ordered)) await dispatch([order]);
} else {
  // Calls under way at once, as an app has them: one that waits for the store does not hold up the others.
  const under = new Set<Promise<void>>();
  for (let count = 0; !stopped; count++) {
    const order = nextOrder(random, `${name} ${count}`, lease);
    let calling: Promise<unknown>;
    if (order.key !== null) calling = dispatchOnce(order);
    else if (random.chance(0.1)) {
      const rest = Array.from({ length: random.whole(1, 4) }, (_, index) => ({
        ...nextOrder(random, `${name} ${count}.${index}`, lease),
        key: null,
      }));
      calling = dispatch([order, ...rest]);
    } else calling = dispatch([order]);
    const call: Promise<void> = calling.then(() => void under.delete(call));
    under.add(call);
    await pass(random.whole(0, 2 * pace));
    while (under.size >= 50 && !stopped) await Promise.race(under);
  }
  await Promise.all(under);
}
await queue.close();
await journal.close();
