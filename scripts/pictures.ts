// Takes the pictures of the dashboard that the README shows, at 1280 and 360 px in both colour schemes:
//
//   deno task pictures          writes docs/dashboard-….png; needs Chromium and Node
//
// A shop is at work for a quarter of an hour of a clock that runs as fast as it can; then the picture is live.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import sharp from "sharp";
import { dashboard, toNodeHandler } from "../dashboard.ts";
import { type Job, Queue } from "../mod.ts";
import { launch } from "../tests/browser/chromium.ts";
import { serve } from "../tests/browser/serving.ts";
import { Clock } from "../tests/clock.ts";
import { Visitor } from "../tests/visitor.ts";
import { root } from "./runtimes.ts";

const MINUTES = 15;
const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** The same numbers each time. */
let seed = 7;
const random = (): number => (seed = seed * 16_807 % 2_147_483_647) / 2_147_483_647;

const queue = new Queue({
  database: ":memory:",
  env: {},
  backoff: 2000,
  log: { warn() {}, error() {} },
  jobs: {
    receipt: { queue: "mail", handle: () => pause(20 + random() * 40) },
    thumbnail: { queue: "images", handle: () => pause(100 + random() * 300) },
    webhook: {
      queue: "outbound",
      tries: 2,
      handle: (job: Job<{ url: string; order: number }>) => {
        if (job.data.order % 40 === 0) {
          throw new Error(`POST ${job.data.url} answered 503: upstream connect error`);
        }
        return pause(60);
      },
    },
    invoice: {
      queue: "mail",
      tries: 1,
      handle: (job: Job<{ order: number }>) => {
        throw new Error(`order ${job.data.order} has no customer`);
      },
    },
    export: {
      queue: "reports",
      handle: async (job: Job<{ rows: number; done: number }>) => {
        for (let done = job.data.done; done < 1; done += 0.004) {
          job.progress(done, `row ${Math.round(done * job.data.rows).toLocaleString("en")}`);
          await pause(1000);
        }
      },
    },
    reminder: () => {},
  },
});

/** A second of the shop's: quiet at first, then a rush that the workers fall behind in. */
async function second(at: number): Promise<void> {
  const rush = at > 420 && at < 640 ? 3 : 1;
  const many = Math.round((7 + 4 * Math.sin(at / 70) + 3 * random()) * rush);
  for (let job = 0; job < many; job++) {
    const order = Math.floor(random() * 9000);
    const kind = random();
    if (kind < 0.6) await queue.dispatch("receipt", { order });
    else if (kind < 0.8) await queue.dispatch("thumbnail", { image: `${order}.jpg` });
    else await queue.dispatch("webhook", { url: "https://shop.example/hook", order });
  }
  if (at % 97 === 0) await queue.dispatch("invoice", { order: 4000 + at });
}

const clock = new Clock(Date.now() - MINUTES * 60_000);
await queue.open();
const handler = dashboard(queue);
const early = new AbortController();
const first = queue.work({ concurrency: 2, signal: early.signal, grace: 0 });
const watching = await new Visitor(handler).watch();
for (let at = 0; at < MINUTES * 60; at++) {
  await second(at);
  await clock.advance(1000);
}
await watching.leave();
early.abort();
await clock.advance(10_000);
await first;
clock.release();

for (const [hours, order] of [[0.4, 1], [2, 2], [7, 3], [26, 4], [49, 5]]) {
  await queue.dispatchLater("reminder", { order }, { minutes: Math.round(hours * 60) });
}
const stop = new AbortController();
const workers = [
  queue.work({ concurrency: 4, queues: "reports", signal: stop.signal, grace: 0 }),
  queue.work({ concurrency: 4, queues: "mail,images,outbound", signal: stop.signal, grace: 0 }),
];
await queue.dispatch("export", { rows: 250_000, done: 0.62 });
await queue.dispatch("export", { rows: 48_000, done: 0.17 });
let busy = true;
const trade = (async () => {
  for (let at = MINUTES * 60; busy; at++) {
    await second(at);
    await pause(1000);
  }
})();

const serving = await serve(toNodeHandler(handler));
const browser = await launch();
mkdirSync(join(root, "docs"), { recursive: true });
for (const width of [1280, 360]) {
  for (const colorScheme of ["light", "dark"] as const) {
    const page = await browser.newPage({
      viewport: { width, height: width === 360 ? 760 : 860 },
      colorScheme,
    });
    const take = async (view: string, fullPage: boolean): Promise<void> => {
      const path = join(root, "docs", `dashboard-${view}-${width}-${colorScheme}.png`);
      await sharp(await page.screenshot({ fullPage })).png({ palette: true, quality: 95 }).toFile(path);
      process.stdout.write(`${path}\n`);
    };
    await page.goto(serving.url);
    await page.locator("#workers progress").nth(1).waitFor();
    await pause(2000);
    await take("overview", true);
    await page.getByRole("link", { name: "Failed" }).click();
    await page.locator("#failed-rows tr").first().waitFor();
    await take("failed", false);
    await page.getByRole("button", { name: /^webhook/ }).first().click();
    await page.getByRole("dialog").getByRole("region", { name: "Payload" }).waitFor();
    await take("job", false);
    await page.close();
  }
}
await browser.close();
busy = false;
await trade;
await serving.close();
stop.abort();
await Promise.all(workers);
await queue.close();
