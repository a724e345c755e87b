/**
 * The dashboard in a real browser, beside a live worker, on SQLite and on Redis. Run by `deno task ok browser`.
 *
 * @module
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { dashboard, type DashboardOptions, toNodeHandler } from "../../dashboard.ts";
import { type Job, Queue, type QueueOptions } from "../../mod.ts";
import { newFolder } from "../folder.ts";
import { noRedis, RedisServer } from "../redis_server.ts";
import { PATIENCE, until } from "../until.ts";
import { launch, noChromium } from "./chromium.ts";
import { serve, type Serving } from "./serving.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TOKEN = "correct-horse-battery";
const HTML = "<img src=x onerror=\"document.title='run'\">";

/** A shop's jobs, with a worker that runs them. */
class Shop {
  readonly queue: Queue;
  /** What was charged in the end. */
  readonly charged: string[] = [];
  /** Whether invoices have a customer. */
  mended = false;
  /** What its dashboards answered to changes: the action, and the status. */
  readonly answers: string[] = [];
  readonly #stop = new AbortController();
  readonly #working: Promise<void>;
  readonly #serving: Serving[] = [];

  constructor(store: Partial<QueueOptions>) {
    this.queue = new Queue({
      ...store,
      env: {},
      tries: 2,
      backoff: 50,
      log: { warn() {}, error() {} },
      jobs: {
        invoice: (job: Job) => {
          if (!this.mended) throw new Error(`order ${job.payload} has no customer`);
          this.charged.push(job.payload);
        },
        parse: (job: Job) => {
          throw new Error(`cannot read ${job.payload}`);
        },
        video: (job: Job) => {
          job.progress(0.4, "frame 960");
          return new Promise((_, reject) =>
            job.signal.addEventListener("abort", () => reject(job.signal.reason))
          );
        },
      },
    });
    this.#working = this.queue.work({ concurrency: 4, signal: this.#stop.signal, grace: 0 });
  }

  /** Serves a dashboard of it. */
  async serve(options: DashboardOptions = {}): Promise<string> {
    const handler = dashboard(this.queue, options);
    const serving = await serve(toNodeHandler(async (request) => {
      const response = await handler(request);
      const action = new URL(request.url).searchParams.get("do");
      if (action !== null) this.answers.push(`${action} ${response.status}`);
      return response;
    }));
    this.#serving.push(serving);
    return serving.url;
  }

  /** A job that has failed: by the id that it has as such, which on Redis is another one. */
  async failed(name: "invoice" | "parse", payload: string): Promise<string> {
    await this.queue.dispatch(name, payload);
    const found = await until(async () => {
      const jobs = await this.queue.failed({ name, reverse: true });
      return jobs.find((job) => job.payload === payload);
    }, `${name} to fail`);
    return found!.id;
  }

  async end(): Promise<void> {
    for (const { close } of this.#serving) await close();
    this.#stop.abort();
    await this.#working;
    await this.queue.close();
  }
}

/** A page that notes what should not happen in it. */
async function open(
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<Page & { faults: string[] }> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = Object.assign(await context.newPage(), { faults: [] as string[] });
  page.setDefaultTimeout(PATIENCE);
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("dialog", (dialog) => {
    page.faults.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("console", (message) => {
    if (/Content Security Policy/.test(message.text())) page.faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!/^(http:\/\/127\.0\.0\.1:|data:)/.test(request.url())) page.faults.push(request.url());
  });
  return page;
}

/** What is read of what axe answers. */
interface AxeResults {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string }[];
  }[];
}

async function violations(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
  return await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<AxeResults> } };
    const { violations } = await axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
  });
}

async function live(page: Page): Promise<void> {
  await page.getByRole("status").filter({ hasText: "Live" }).waitFor();
}

interface Store {
  readonly name: string;
  readonly skip: string | false;
  open(): Promise<{ options: Partial<QueueOptions>; remove(): void | Promise<void> }>;
}

const STORES: readonly Store[] = [
  {
    name: "SQLite",
    skip: noChromium,
    async open() {
      const folder = newFolder();
      return await Promise.resolve({
        options: { database: join(folder.path, "queue.sqlite") },
        remove: folder.remove,
      });
    },
  },
  {
    name: "Redis",
    skip: noChromium || noRedis,
    async open() {
      const server = await RedisServer.start();
      return {
        options: { connection: "redis", redis: { url: server.url }, failed: "redis" },
        remove: () => server.stop(),
      };
    },
  },
];

for (const store of STORES) {
  describe(`the dashboard in Chromium, on ${store.name}`, () => {
    let browser: Browser, shop: Shop, remove: () => void | Promise<void>;

    before(async () => {
      if (store.skip) return;
      browser = await launch();
      const opened = await store.open();
      remove = opened.remove;
      shop = new Shop(opened.options);
    });

    after(async () => {
      if (store.skip) return;
      await browser.close();
      await shop.end();
      await remove();
    });

    const check = (sentence: string, run: () => Promise<void>): void => {
      it(sentence, { skip: store.skip }, run);
    };

    check("a failed job is found, read, retried and seen to succeed", async () => {
      const id = await shop.failed("invoice", "77");
      await shop.failed("parse", "{");
      const page = await open(browser);
      await page.goto(await shop.serve());
      await live(page);
      await page.locator("#total-failed", { hasText: "2" }).waitFor();
      await page.getByRole("link", { name: "Failed" }).click();
      await page.getByLabel("Error contains").fill("CUSTOMER");
      await page.getByText("1 match").waitFor();
      assert.equal(await page.locator("#failed-rows tr").count(), 1);
      await page.getByRole("button", { name: `invoice ${id}` }).click();
      const job = page.getByRole("dialog");
      await job.getByRole("heading", { name: `invoice ${id}` }).waitFor();
      assert.equal(
        await job.getByRole("region", { name: "Error" }).textContent(),
        "order 77 has no customer",
      );
      assert.equal(await job.getByRole("region", { name: "Payload" }).textContent(), "77");
      await job.getByText("Stack").first().click();
      assert.match(
        (await job.getByRole("region", { name: "Stack", exact: true }).textContent())!,
        /Error: order 77/,
      );
      assert.equal(await job.getByText("Attempt 1").count(), 1);
      assert.equal(await job.getByText("Attempt 2").count(), 1, "each attempt is told");
      shop.mended = true;
      await job.getByRole("button", { name: "Retry" }).click();
      const confirm = page.getByRole("dialog", { name: `Retry job ${id}?` });
      await confirm.getByRole("button", { name: "Retry" }).click();
      await page.getByText("Retried 1 job").waitFor();
      await until(() => shop.charged.includes("77"), "the worker to run it");
      await page.getByText("No failed job matches.").waitFor();
      await page.locator("#failed-count", { hasText: "1" }).waitFor();
      await page.getByLabel("Find a job by its id").fill(id);
      await page.keyboard.press("Enter");
      await page.getByText("There is no such job any more").waitFor();
      assert.deepEqual(page.faults, []);
      await page.context().close();
    });

    check("many are chosen, and retried or forgotten at once", async () => {
      shop.mended = false;
      for (const order of ["1", "2", "3"]) await shop.failed("invoice", order);
      const page = await open(browser);
      await page.goto((await shop.serve()) + "#failed");
      await page.getByLabel("Job type").fill("invoice");
      await page.getByRole("button", { name: "Forget all 3" }).waitFor();
      const boxes = page.locator("#failed-rows input");
      await boxes.nth(0).check();
      await page.getByRole("button", { name: "Forget 1 selected" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
      assert.equal(await shop.queue.countFailed({ name: "invoice" }), 3, "nothing without a confirmation");
      await page.getByRole("button", { name: "Forget 1 selected" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Forget" }).click();
      await page.getByText("Forgot 1 job").waitFor();
      shop.mended = true;
      await page.getByRole("button", { name: "Retry all 2" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
      await page.getByText("Retried 2 jobs").waitFor();
      await until(() => ["1", "2"].every((order) => shop.charged.includes(order)), "both to succeed");
      assert.deepEqual(page.faults, []);
      await page.context().close();
    });

    check("a running job is seen with its progress, and cancelled", async () => {
      const { id } = await shop.queue.dispatch("video", "clip");
      const page = await open(browser);
      await page.goto(await shop.serve());
      await page.getByText("40 % frame 960").waitFor();
      assert.equal(await page.getByRole("progressbar", { name: `Progress of video ${id}` }).count(), 1);
      await page.getByRole("button", { name: `Cancel video ${id}` }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Cancel the job" }).click();
      await page.getByText("1 told to stop").waitFor();
      await until(async () => await shop.queue.countFailed({ name: "video" }) === 1, "the job to end");
      await page.getByText("40 % frame 960").waitFor({ state: "hidden" });
      await shop.queue.forget({ name: "video" });
      assert.deepEqual(page.faults, []);
      await page.context().close();
    });

    check("a queue is paused and resumed, and a delayed job cancelled", async () => {
      const { id } = await shop.queue.dispatchLater("invoice", "later", { hours: 2 });
      const page = await open(browser);
      await page.goto(await shop.serve());
      await page.getByRole("button", { name: "Pause default" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
      await page.getByRole("button", { name: "Resume default" }).waitFor();
      assert.deepEqual((await shop.queue.paused()).queues, ["default"]);
      await page.getByRole("button", { name: "Resume default" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Resume" }).click();
      await page.getByRole("button", { name: "Pause default" }).waitFor();
      await page.getByRole("link", { name: "Delayed" }).click();
      await page.getByLabel(`Select invoice ${id}`).check();
      await page.getByRole("button", { name: "Cancel 1 selected" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Cancel the job" }).click();
      await page.getByText("No job is delayed.").waitFor();
      assert.equal(await shop.queue.find(id), null);
      assert.deepEqual(page.faults, []);
      await page.context().close();
    });

    check("a payload and an error that look like HTML stay text", async () => {
      const id = await shop.failed("parse", HTML);
      const page = await open(browser);
      await page.goto((await shop.serve()) + "#failed");
      await page.getByRole("button", { name: `parse ${id}` }).click();
      const job = page.getByRole("dialog");
      assert.equal(await job.getByRole("region", { name: "Payload" }).textContent(), HTML);
      assert.equal(await job.getByRole("region", { name: "Error" }).textContent(), `cannot read ${HTML}`);
      assert.equal(await page.locator("img").count(), 0);
      assert.equal(await page.title(), "Queue", "nothing of it ran");
      assert.deepEqual(page.faults, []);
      await page.context().close();
    });

    check(
      "axe finds nothing, in either colours, wide or narrow, and no page scrolls sideways at 360 px",
      async () => {
        const id = await shop.failed("parse", "x".repeat(300));
        await shop.queue.dispatchLater("invoice", "later", { hours: 2 });
        const url = await shop.serve();
        const locked = await shop.serve({ token: TOKEN });
        for (const colorScheme of ["light", "dark"] as const) {
          for (const width of [1280, 360]) {
            const page = await open(browser, { colorScheme, viewport: { width, height: 800 } });
            const look = async (what: string): Promise<void> => {
              const where = `${what}, ${colorScheme}, ${width} px`;
              assert.deepEqual(await violations(page), [], where);
              const over = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
              assert.ok(over <= 0, `${where}: ${over} px too wide`);
            };
            await page.goto(url);
            await page.locator("#queue-rows tr").first().waitFor();
            await page.locator("#workers li").first().waitFor();
            await look("overview");
            await page.goto(url + "#delayed");
            await page.locator("#delayed-rows tr").first().waitFor();
            await look("delayed");
            await page.goto(url + "#failed");
            await page.getByRole("button", { name: `parse ${id}` }).click();
            await page.getByRole("dialog").getByRole("region", { name: "Payload" }).waitFor();
            await look("a job");
            await page.getByRole("dialog").getByRole("button", { name: "Forget" }).click();
            await page.getByRole("dialog", { name: `Forget job ${id}?` }).waitFor();
            await look("a confirmation");
            await page.goto(locked);
            await look("the login page");
            assert.deepEqual(page.faults, []);
            await page.context().close();
          }
        }
      },
    );

    check("it is used by keyboard alone", async () => {
      const id = await shop.failed("parse", "keys");
      const page = await open(browser);
      await page.goto(await shop.serve());
      await live(page);
      const focused = () => page.evaluate<string>("document.activeElement?.textContent.trim() ?? ''");
      await page.keyboard.press("Tab");
      assert.equal(await focused(), "Skip to content");
      const tabTo = async (text: RegExp): Promise<void> => {
        for (let presses = 0; presses < 40; presses++) {
          if (text.test(await focused())) return;
          await page.keyboard.press("Tab");
        }
        assert.fail(`${text} is not reached by Tab`);
      };
      await tabTo(/^Failed/);
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: `parse ${id}` }).waitFor();
      await tabTo(/^parse$/);
      await page.keyboard.press("Enter");
      await page.getByRole("dialog").getByRole("region", { name: "Payload" }).waitFor();
      await tabTo(/^Forget$/);
      await page.keyboard.press("Enter");
      await page.getByRole("dialog", { name: `Forget job ${id}?` }).waitFor();
      assert.equal(await focused(), "Back", "the safe answer comes first");
      await page.keyboard.press("Escape");
      assert.equal(await focused(), "Forget", "back where it was");
      await page.keyboard.press("Escape");
      assert.equal(await focused(), "parse", "and back in the list");
      assert.equal((await shop.queue.find(id))?.state, "failed");
      assert.deepEqual(page.faults, []);
      await page.context().close();
    });

    check("the token is asked for, and a page of another origin changes nothing", async () => {
      const id = await shop.failed("parse", "guarded");
      const url = await shop.serve({ token: TOKEN });
      const stranger = await serve((_, response) => {
        response.setHeader("content-type", "text/html");
        response.end("<!doctype html><title>elsewhere</title>");
      });
      try {
        const page = await open(browser);
        await page.goto(url);
        await page.getByLabel("Token").fill("wrong");
        await page.keyboard.press("Enter");
        await page.getByText("That is not the token.").waitFor();
        await page.getByLabel("Token").fill(TOKEN);
        await page.keyboard.press("Enter");
        await live(page);
        // Another port of the same host is the same site, so that its cookies come along.
        await page.goto(stranger.url);
        const send = async ([target, id]: string[]): Promise<string> => {
          const body = JSON.stringify({ ids: [id] });
          const init = { method: "POST", mode: "no-cors", credentials: "include", body } as const;
          return await fetch(target + "?do=forget", init).then(() => "answered", String);
        };
        // The answer is not even an opaque one: its policy keeps it from other origins.
        assert.match(await page.evaluate(send, [url, id]), /Failed to fetch/);
        assert.equal(shop.answers.at(-1), "forget 403");
        assert.equal((await shop.queue.find(id))?.state, "failed");
        await page.goto(url);
        await live(page);
        await page.getByRole("button", { name: "Leave" }).click();
        await page.getByLabel("Token").waitFor();
        assert.deepEqual(page.faults, []);
        await page.context().close();
      } finally {
        await stranger.close();
      }
    });
  });
}
