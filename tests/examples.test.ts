import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Queue } from "@x/queue";
import sharp from "sharp";
import { isAsPromised, night } from "../examples/night/main.ts";
import thumbnailJobs, { thumbnailPath } from "../examples/thumbnails/jobs.ts";
import { createReceiver, type Taken } from "../examples/webhooks/receiver.ts";
import { serve, type Server } from "../examples/webhooks/serve.ts";

const silent = { warn: () => {}, error: () => {} };

describe("the webhook app", () => {
  let receiver: Server;
  let app: Server;
  let queue: Queue<typeof import("../examples/webhooks/jobs.ts").default>;

  before(async () => {
    receiver = await serve(createReceiver({ slowness: 0 }), 0);
    process.env.RECEIVER_URL = receiver.url; // read when the endpoints are loaded, so those are imported after this
    const { default: jobs } = await import("../examples/webhooks/jobs.ts");
    const { createApp } = await import("../examples/webhooks/server.ts");
    queue = new Queue({ jobs, database: ":memory:", log: silent, env: {} });
    app = await serve(createApp(queue), 0);
  });

  after(async () => {
    await app.close();
    await queue.close();
    await receiver.close();
    delete process.env.RECEIVER_URL;
  });

  const post = async (event: unknown): Promise<Response> =>
    await fetch(`${app.url}/events`, { method: "POST", body: JSON.stringify(event) });

  const taken = async (event: string): Promise<string[]> => {
    const all: Taken[] = await (await fetch(receiver.url)).json();
    return all.filter(({ id }) => id === event).map(({ hook, times }) => `${hook} ×${times}`).sort();
  };

  /** Runs what is due at `now`, one after another. */
  const work = async (now: number): Promise<number> => {
    let jobs = 0;
    while (await queue.workOnce(now)) jobs++;
    return jobs;
  };

  it("delivers an event to every endpoint that wants it, and again after the backoff where one was busy", async () => {
    const response = await post({ id: "order-1", type: "order.paid", data: { order: 1 } });
    assert.equal(response.status, 202);
    const { event, jobs } = await response.json();
    assert.equal(event, "order-1");
    assert.deepEqual(jobs.map(({ endpoint }: { endpoint: string }) => endpoint), ["billing", "mailer"]);
    assert.equal(await queue.waiting(), 2);

    const now = Date.now();
    assert.equal(await work(now), 2);
    assert.deepEqual(await taken("order-1"), ["billing ×1"], "the mailer is busy");
    assert.equal(await work(now + 500), 0, "1 s backoff");
    assert.equal(await work(now + 1500), 1);
    assert.deepEqual(await taken("order-1"), ["billing ×1", "mailer ×1"]);
    assert.equal(await queue.waiting(), 0);
  });

  it("sets a job aside with the endpoint's answer once it is out of tries, and delivers it after a retry", async () => {
    assert.equal((await post({ id: "user-1", type: "user.joined" })).status, 202);
    const now = Date.now();
    for (const seconds of [0, 10, 20]) {
      assert.equal(await work(now + seconds * 1000), 1, `after ${seconds} s`);
    }
    const [failed, ...others] = await queue.failed();
    assert.deepEqual(others, []);
    assert.equal(failed.attempts, 3);
    assert.match(failed.error, /crm answered 404: no such hook/);

    await fetch(`${receiver.url}/crm`, { method: "PUT" });
    await queue.retry(failed.id);
    assert.equal(await work(now + 30_000), 1);
    assert.deepEqual(await taken("user-1"), ["crm ×1"]);
    assert.deepEqual(await queue.failed(), []);
  });

  it("gives an event that is delivered twice the same id, so that it counts once", async () => {
    for (let i = 0; i < 2; i++) await post({ id: "month-1", type: "month.closed" });
    assert.equal(await work(Date.now()), 2);
    assert.deepEqual(await taken("month-1"), ["archive ×2"]);
  });

  it("gives an event without an id one", async () => {
    const { event } = await (await post({ type: "nobody.cares" })).json();
    assert.match(event, /^evt_[\w-]{36}$/);
    assert.equal(await queue.waiting(), 0, "nobody wants it");
  });

  it("refuses what is no event", async () => {
    for (
      const body of [[], null, {}, { type: "" }, { type: 7 }, { type: "a", id: "" }, { type: "a", id: 7 }]
    ) {
      assert.equal((await post(body)).status, 400, JSON.stringify(body));
    }
    assert.equal((await fetch(`${app.url}/events`, { method: "POST", body: "{" })).status, 400);
    assert.equal((await fetch(`${app.url}/events`)).status, 405);
    assert.equal((await fetch(`${app.url}/`)).status, 404);
    assert.equal((await post({ type: "order.paid", data: "x".repeat(1_048_576) })).status, 413);
    assert.equal(await queue.waiting(), 0);
  });

  it("answers 503 when the jobs cannot be stored, so that the sender repeats itself", async () => {
    const { default: jobs } = await import("../examples/webhooks/jobs.ts");
    const { createApp } = await import("../examples/webhooks/server.ts");
    const closed = new Queue({ jobs, database: ":memory:", env: {} });
    await closed.close();
    const body = JSON.stringify({ type: "order.paid" });
    const response = await createApp(closed)(new Request("http://app/events", { method: "POST", body }));
    assert.equal(response.status, 503);
  });

  it("signs what it sends: the receiver turns away what it did not sign", async () => {
    const response = await fetch(`${receiver.url}/billing`, {
      method: "POST",
      body: '{"id":"forged"}',
      headers: { "webhook-id": "forged", "webhook-timestamp": "0", "webhook-signature": "v1,AAAA" },
    });
    assert.equal(response.status, 401);
    assert.deepEqual(await taken("forged"), []);
  });
});

describe("the thumbnail job", () => {
  const images = fileURLToPath(new URL("../examples/thumbnails/images", import.meta.url));
  let folder: string;
  let queue: Queue<typeof thumbnailJobs>;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "queue-thumbnails-"));
    queue = new Queue({ jobs: thumbnailJobs, database: ":memory:", log: silent, env: {}, tries: 1 });
  });

  after(async () => {
    await queue.close();
    await rm(folder, { recursive: true });
  });

  /** Runs one job on an image, and returns the width and height of each thumbnail. */
  const thumbnails = async (name: string): Promise<string[]> => {
    const data = { source: join(images, name), folder };
    await queue.dispatch("thumbnail", data);
    assert.equal(await queue.workOnce(), true);
    return await Promise.all([96, 320].map(async (size) => {
      const { format, width, height } = await sharp(await readFile(thumbnailPath(data, size))).metadata();
      return `${format} ${width}×${height}`;
    }));
  };

  it("makes two sizes of a JPEG and of a PNG, and enlarges neither", async () => {
    assert.deepEqual(await thumbnails("julia.jpg"), ["webp 96×60", "webp 320×200"]);
    assert.deepEqual(await thumbnails("waves.png"), ["webp 96×72", "webp 300×225"]);
  });

  it("turns an image upright that was stored on its side", async () => {
    assert.deepEqual(await thumbnails("hills.jpg"), ["webp 64×96", "webp 213×320"]);
  });

  it("leaves the same files when it runs twice", async () => {
    const read = async (): Promise<string[]> => {
      const names = (await readdir(folder)).sort();
      return await Promise.all(
        names.map(async (name) => `${name} ${await readFile(join(folder, name), "hex")}`),
      );
    };
    await thumbnails("julia.jpg");
    const once = await read();
    await thumbnails("julia.jpg");
    assert.deepEqual(await read(), once);
  });

  it("fails for half an image, and leaves no file of it", async () => {
    const source = join(folder, "half.jpg");
    const whole = await readFile(join(images, "julia.jpg"));
    await writeFile(source, whole.subarray(0, whole.length / 2));
    await queue.dispatch("thumbnail", { source, folder });
    await queue.workOnce();
    const [failed] = await queue.failed();
    assert.match(failed.error, /premature end/i);
    assert.deepEqual((await readdir(folder)).filter((name) => name.startsWith("half")), ["half.jpg"]);
  });
});

it("the night: what hangs, spins, leaks or crashes costs itself and no other job", async () => {
  const morning = await night();
  const counts = new Map<string, number>();
  for (const { name, done } of morning.fates) counts.set(name, (counts.get(name) ?? 0) + done);
  const seen = JSON.stringify(morning, null, 2);
  assert.deepEqual(
    Object.fromEntries(counts),
    { report: 30, hang: 0, spin: 0, crash: 0, leak: 5 },
    seen,
  );
  assert.equal(isAsPromised(morning), true, seen);
});
