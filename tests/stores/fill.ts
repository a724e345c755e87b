/**
 * Jobs in every state, and all that a store keeps besides. Each store in this folder was made of them by the release
 * whose it is.
 *
 * @module
 */
import type { Driver } from "../../core/driver.ts";
import { job, T, take } from "../conformance.ts";
import { record, report } from "../registry.ts";

/** A payload that a dump, and whoever reads it, may get wrong. */
export const PAYLOAD = `it's "naïve": \\n\n日本 👩‍👩‍👧`;

/** How long a worker of these stores counts as there, in milliseconds. */
export const LIFE = 30_000;

/** What the held job with progress said. */
export const PROGRESS = { fraction: 0.25, note: "a quarter" };

/** Each queue is named after the state of the job on it; only `default` has plain ones. */
export async function fill(driver: Driver): Promise<void> {
  await driver.push([job({ name: "ready", payload: PAYLOAD }), job({ name: "done" })], T - 300_000);
  await driver.push([
    job({ name: "urgent", queue: "post", priority: 5 }),
    job({ name: "usual", queue: "post" }),
    job({ name: "delayed", queue: "delayed", delay: 360_250 }),
    job({ name: "abandoned", queue: "abandoned" }),
    job({ name: "retrying", queue: "retrying" }),
    job({ name: "failed", queue: "failed", priority: 2, payload: PAYLOAD }),
    job({ name: "held", queue: "held" }),
    job({ name: "cancelled", queue: "cancelled" }),
    job({ name: "parked", queue: "paused" }),
  ], T - 300_000);
  await driver.pushOnce(
    [job({ name: "keyed", queue: "keyed" })].map((one) => ({ ...one, key: "order 7" })),
    T,
  );

  const next = async (queue: string, now: number) => (await take(driver, { queues: [queue], now }))[0];
  const both = await take(driver, { limit: 2 });
  await driver.complete(both.find(({ name }) => name === "done")!);
  await driver.release(both.find(({ name }) => name === "ready")!, { delay: null, counted: false }, T);
  await driver.release(
    await next("retrying", T),
    { delay: 10_000, counted: true, record: record(1) },
    T,
  );
  await driver.fail(await next("failed", T), {
    error: "upstream 503",
    stack: "Error: upstream 503\n    at handle",
    failedAt: T,
    record: record(1),
  });
  await driver.report(await next("held", T), PROGRESS, 86_400_000, T);
  await driver.cancel((await next("cancelled", T)).id);
  await driver.pause("paused");
  await driver.restart();
  await driver.beat(report(), LIFE, T);
  // Last, as any other reservation would find that its lease is over.
  await next("abandoned", T - 200_000);
}
