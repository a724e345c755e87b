/**
 * What every driver must tell of delayed jobs. Part of the conformance suite.
 *
 * @module
 */
import assert from "node:assert/strict";
import type { Driver } from "../core/driver.ts";
import { type Check, job, T, take } from "./conformance.ts";

/** The tests. */
export function delaying(check: Check): void {
  check(
    "delayed jobs are read in the order in which they are due, of all queues or of one",
    async ({ driver }) => {
      const delays = [["a", 0, 5000], ["b", 0, 3000], ["a", 9, 4000], ["a", 0, 1500], [
        "b",
        -3,
        9000,
      ]] as const;
      for (const [queue, priority, delay] of delays) await driver.push([job({ queue, priority, delay })], T);
      await driver.push([job({ queue: "a" })], T);
      assert.deepEqual(
        await due(driver, null, 9),
        [1500, 3000, 4000, 5000, 9000],
        "the one that is ready is not",
      );
      assert.deepEqual(await due(driver, null, 3), [1500, 3000, 4000]);
      assert.deepEqual(await due(driver, "b", 9), [3000, 9000]);
      assert.deepEqual(await due(driver, "b", 1), [3000]);
      assert.deepEqual(await due(driver, "none", 9), []);
      assert.deepEqual(
        await due(driver, null, 9, T + 3000),
        [1000, 2000, 6000],
        "what is due is not delayed",
      );
    },
  );

  check("a delayed job is told by its id, name, queue, priority and attempts", async ({ driver }) => {
    const name = `it's "a" [job] *?`;
    const [id] = await driver.push([job({ name, payload: "1 2 3\n4", queue: "a b", priority: 7 })], T);
    const [held] = await take(driver, { queues: ["a b"] });
    await driver.release(held, { delay: 60_500, counted: true }, T);
    const found = await driver.delayed("a b", 9, T);
    assert.deepEqual(found, [{ id, name, queue: "a b", priority: 7, attempts: 1, dueIn: 60_500 }]);
    assert.equal(await driver.cancel(id), "removed");
    assert.deepEqual(await driver.delayed(null, 9, T), []);
  });
}

async function due(driver: Driver, queue: string | null, limit: number, now = T): Promise<number[]> {
  return (await driver.delayed(queue, limit, now)).map(({ dueIn }) => dueIn);
}
