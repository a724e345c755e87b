import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";
import { Discard, type Driver, type Job, QueueError } from "../mod.ts";
import { dashboard, type DashboardOptions, toNodeHandler } from "../dashboard.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { report } from "./registry.ts";
import { changed, Gate, inSession, type Session } from "./session.ts";
import { until } from "./until.ts";
import { Visitor, Watching } from "./visitor.ts";

const TOKEN = "correct-horse-battery";

/** Jobs that fail at once, until they are told to succeed. */
function failing(): { jobs: { order: (job: Job) => void; letter: (job: Job) => void }; mended: boolean } {
  const state = {
    mended: false,
    jobs: {
      order: (job: Job) => {
        if (!state.mended) throw new Discard(`order ${job.payload} has no customer`);
      },
      letter: () => {
        throw new Discard("no such street");
      },
    },
  };
  return state;
}

/** A queue in which so many jobs have failed, and a browser that has loaded its dashboard. */
async function withFailed(
  session: Session,
  orders: number,
  letters = 0,
  options: DashboardOptions = {},
) {
  const state = failing();
  const queue = await session.queue(state.jobs);
  for (let order = 1; order <= orders; order++) await queue.dispatch("order", String(order));
  for (let letter = 1; letter <= letters; letter++) {
    await queue.dispatch("letter", String(letter), { queue: "post" });
  }
  while (await queue.workOnce(session.clock.now));
  const handler = dashboard(queue, options);
  const visitor = new Visitor(handler);
  await visitor.load();
  return { queue, state, handler, visitor };
}

inSession("the page comes with its own script and style, and nothing of another host", async (session) => {
  const queue = await session.queue({});
  const response = await dashboard(queue)(new Request("http://localhost:9000/"));
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/html; charset=utf-8");
  const policy = response.headers.get("content-security-policy")!;
  assert.match(policy, /^default-src 'none';/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  const html = await response.text();
  const nonce = /script-src 'nonce-([^']+)'/.exec(policy)![1];
  assert.equal(html.split(`nonce="${nonce}"`).length, 3, "a script and a style are marked");
  assert.doesNotMatch(html, /(?:src|href|action)="(?:https?:)?\/\//);
  assert.doesNotMatch(html, /\son\w+=|\sstyle=/, "no handler and no style within HTML");
  const again = await dashboard(queue)(new Request("http://localhost:9000/"));
  assert.ok(!(await again.text()).includes(nonce), "each page has a nonce of its own");
});

inSession("all that a browser loads is below 60 KB, and kept by it", async (session) => {
  const visitor = new Visitor(dashboard(await session.queue({})));
  const html = await visitor.load();
  const links = [...html.matchAll(/(?:src|href)="(\?get=[^"]+)"/g)].map(([, link]) =>
    link.replace("&amp;", "&")
  );
  assert.deepEqual(links.map((link) => /get=([\w.]+)/.exec(link)![1]), ["style.css", "app.js"]);
  let sent = 0, raw = 0;
  for (const link of ["", ...links]) {
    const plain = await visitor.ask(link);
    const zipped = await visitor.ask(link, { headers: { "accept-encoding": "br, gzip" } });
    assert.equal(plain.headers.get("content-encoding"), null);
    assert.equal(zipped.headers.get("content-encoding"), "gzip");
    assert.equal(zipped.headers.get("vary"), "accept-encoding");
    const bytes = new Uint8Array(await zipped.arrayBuffer());
    const text = await plain.text();
    if (link !== "") {
      assert.equal(gunzipSync(bytes).toString(), text);
      assert.match(zipped.headers.get("cache-control")!, /immutable/);
    } else assert.equal(zipped.headers.get("cache-control"), "no-store");
    sent += bytes.length;
    raw += text.length;
  }
  assert.ok(sent < 60_000, `${sent} bytes`);
  assert.ok(raw < 120_000, `${raw} bytes without gzip`);
  const refused = await visitor.ask(links[1], { headers: { "accept-encoding": "gzip;q=0" } });
  assert.equal(refused.headers.get("content-encoding"), null);
  const old = await visitor.ask("?get=app.js&v=old");
  assert.equal(old.headers.get("cache-control"), "no-cache", "another version is not kept");
});

inSession(
  "what there is not is 404, what cannot be done there 405, and HEAD is GET without a body",
  async (session) => {
    const { visitor } = await withFailed(session, 1);
    const statuses = async (path: string, ...methods: string[]): Promise<number[]> =>
      await Promise.all(methods.map(async (method) => (await visitor.ask(path, { method })).status));
    assert.deepEqual(await statuses("?get=nothing", "GET", "HEAD"), [404, 404]);
    assert.deepEqual(await statuses("?get=toString", "GET"), [404]);
    assert.deepEqual(await statuses("?get=job&id=99", "GET"), [404]);
    assert.deepEqual(await statuses("?do=nothing", "POST", "GET"), [404, 404]);
    assert.deepEqual(await statuses("", "POST", "PUT", "DELETE", "OPTIONS"), [405, 405, 405, 405]);
    assert.deepEqual(await statuses("?get=failed", "POST"), [405]);
    assert.deepEqual(await statuses("?do=retry", "GET", "HEAD", "PUT"), [405, 405, 405]);
    assert.equal((await visitor.ask("?do=retry")).headers.get("allow"), "POST");
    assert.equal((await visitor.ask("", { method: "PUT" })).headers.get("allow"), "GET, HEAD");
    for (const path of ["", "?get=failed", "?get=app.js", "?get=events"]) {
      const head = await visitor.ask(path, { method: "HEAD" });
      assert.deepEqual([head.status, await head.text()], [200, ""], path);
    }
  },
);

inSession("it answers under the path that it was given, or where it is mounted", async (session) => {
  const queue = await session.queue({});
  const status = async (options: DashboardOptions, path: string): Promise<number> =>
    (await dashboard(queue, options)(new Request(`http://localhost${path}`))).status;
  const paths = ["/", "/admin/queue", "/admin/queue/", "/admin/queue/x", "/favicon.ico"];
  const under = (options: DashboardOptions) => Promise.all(paths.map((path) => status(options, path)));
  assert.deepEqual(await under({ basePath: "/admin/queue" }), [404, 200, 200, 404, 404]);
  assert.deepEqual(await under({ basePath: "/admin/queue/" }), [404, 200, 200, 404, 404]);
  assert.deepEqual(await under({ basePath: "/" }), [200, 404, 404, 404, 404]);
  assert.deepEqual(await under({}), [200, 200, 200, 200, 200]);
});

inSession("without a token it is reached by the loopback's names only", async (session) => {
  const queue = await session.queue({});
  const status = async (options: DashboardOptions, host: string): Promise<number> =>
    (await dashboard(queue, options)(new Request("http://127.0.0.1:9000/", { headers: { host } }))).status;
  const hosts = [
    "localhost:9000",
    "127.0.0.1",
    "[::1]:9000",
    "LOCALHOST",
    "evil.example",
    "localhost.evil.example:9000",
  ];
  const each = (options: DashboardOptions) => Promise.all(hosts.map((host) => status(options, host)));
  assert.deepEqual(await each({}), [200, 200, 200, 200, 421, 421]);
  assert.deepEqual(await each({ hosts: ["evil.example"] }), [421, 421, 421, 421, 200, 421]);
  assert.deepEqual(await each({ hosts: "any" }), [200, 200, 200, 200, 200, 200]);
  assert.deepEqual(await each({ token: TOKEN }), [401, 401, 401, 401, 401, 401], "the login page");
  assert.equal(await status({ origin: "https://ops.example" }, "ops.example"), 200);
});

inSession("a change that its own page did not ask for is refused, and changes nothing", async (session) => {
  const { queue, handler, visitor } = await withFailed(session, 2);
  const other = new Visitor(handler);
  await other.load();
  const asked = { ids: ["1"] };
  const refused: [why: string, headers: Record<string, string | null>][] = [
    ["without a proof", { "x-csrf-token": null }],
    ["with a wrong proof", { "x-csrf-token": "0".repeat(64) }],
    ["with the proof of another session", { "x-csrf-token": other.proof }],
    ["without a session", { cookie: "" }],
    ["with a session that was made up", { cookie: visitor.cookie.replace(/=./, "=x") }],
    ["from another origin", { origin: "https://evil.example" }],
    ["from another port", { origin: "http://localhost:9001" }],
    ["from no origin", { origin: "null" }],
    ["from another site", { "sec-fetch-site": "cross-site" }],
    ["from a sibling", { "sec-fetch-site": "same-site" }],
    ["from the address bar", { "sec-fetch-site": "none" }],
    ["from nowhere", { origin: null, "sec-fetch-site": null }],
  ];
  for (const [why, headers] of refused) {
    const response = await visitor.post("retry", asked, headers);
    assert.equal(response.status, 403, why);
    assert.match((await response.json()).error, /session has ended|own page/, why);
  }
  assert.equal((await queue.failed()).length, 2, "nothing was changed");
  // Without TLS a browser says the Origin alone; one of before 2020, too.
  assert.equal((await visitor.post("retry", asked, { "sec-fetch-site": null })).status, 200);
  assert.equal((await queue.failed()).length, 1);
});

inSession("behind a proxy that changes the host, the origin is the one that it was told", async (session) => {
  const { visitor } = await withFailed(session, 1, 0, { origin: "https://ops.example" });
  const status = async (origin: string) => (await visitor.post("pause", { queue: null }, { origin })).status;
  assert.equal(await status("http://localhost:9000"), 403);
  assert.equal(await status("https://ops.example"), 200);
});

inSession("with a token, nothing is shown or changed without it", async (session) => {
  const { queue, handler, visitor } = await withFailed(session, 1, 0, { token: TOKEN });
  const login = await visitor.load();
  assert.match(login, /type="password"/);
  assert.doesNotMatch(login, /app\.js/);
  for (const get of ["failed", "events", "job&id=1", "history", "delayed"]) {
    const response = await visitor.ask(`?get=${get}`);
    assert.deepEqual([response.status, response.headers.get("www-authenticate")], [401, "Bearer"], get);
  }
  assert.equal((await visitor.post("forget", { ids: ["1"] })).status, 401);
  assert.equal((await queue.failed()).length, 1);
  const bearer = (token: string) => ({ headers: { authorization: `Bearer ${token}` } });
  const stranger = new Visitor(handler);
  assert.equal((await stranger.ask("?get=failed", bearer(TOKEN))).status, 200);
  for (const wrong of [TOKEN + "x", TOKEN.slice(1), "", "%", TOKEN.toUpperCase()]) {
    assert.equal((await stranger.ask("?get=failed", bearer(wrong))).status, 401, wrong);
  }
});

inSession(
  "the token is given once, by a form, and then a cookie says so that no script reads",
  async (session) => {
    const { handler, visitor } = await withFailed(session, 1, 0, { token: TOKEN });
    const before = visitor.cookie;
    const wrong = await visitor.send("login", { token: "wrong" });
    assert.equal(wrong.status, 403);
    assert.match(await wrong.text(), /That is not the token/);
    assert.equal((await visitor.ask("?get=failed")).status, 401);
    const forged = new Visitor(handler);
    await forged.load();
    assert.notEqual(
      (await forged.send("login", { token: TOKEN, csrf: "x" })).status,
      303,
      "a form of another page",
    );
    const right = await visitor.send("login", { token: TOKEN });
    assert.deepEqual([right.status, right.headers.get("location")], [303, "?"]);
    assert.match(right.headers.get("set-cookie")!, /; Max-Age=43200; HttpOnly; SameSite=Strict$/);
    assert.ok(!right.headers.get("set-cookie")!.includes(TOKEN));
    assert.notEqual(visitor.cookie, before, "the session is a new one");
    assert.match(await visitor.load(), /app\.js/);
    assert.equal((await visitor.get("failed")).rows.length, 1);
    const { cookie } = visitor;
    const raised = new Visitor(handler);
    raised.cookie = before.replace(".any.0.", `.known.${session.clock.now + 1e9}.`);
    assert.equal((await raised.ask("?get=failed")).status, 401, "a session cannot be raised");
    assert.equal((await visitor.send("logout", {})).status, 303);
    assert.equal((await visitor.ask("?get=failed")).status, 401);
    visitor.cookie = cookie;
    await session.clock.advance(12 * 3_600_000);
    assert.equal((await visitor.ask("?get=failed")).status, 401, "after 12 hours");
  },
);

inSession(
  "a session is kept by another process with the same token, and its cookie is for TLS where there is some",
  async (session) => {
    const queue = await session.queue({});
    const visitor = new Visitor(dashboard(queue, { token: TOKEN }), "https://ops.example/");
    await visitor.load();
    const entered = await visitor.send("login", { token: TOKEN });
    assert.match(entered.headers.get("set-cookie")!, /; Secure$/);
    const other = new Visitor(dashboard(queue, { token: TOKEN }), "https://ops.example/");
    other.cookie = visitor.cookie;
    assert.equal((await other.ask("?get=failed")).status, 200);
    const strange = new Visitor(dashboard(queue, { token: TOKEN + "!" }), "https://ops.example/");
    strange.cookie = visitor.cookie;
    assert.equal((await strange.ask("?get=failed")).status, 401, "another token");
  },
);

inSession("a program changes things by the bearer header alone, and no page does by it", async (session) => {
  const { queue, handler } = await withFailed(session, 2, 0, { token: TOKEN });
  const program = new Visitor(handler);
  const bare = { origin: null, "sec-fetch-site": null, "x-csrf-token": null };
  const authorization = `Bearer ${TOKEN}`;
  assert.equal((await program.post("retry", { ids: ["1"] }, bare)).status, 403);
  assert.equal((await program.post("retry", { ids: ["1"] }, { ...bare, authorization })).status, 200);
  const page = { ...bare, authorization, origin: "https://evil.example" };
  assert.equal((await program.post("retry", { ids: ["2"] }, page)).status, 403);
  assert.equal((await queue.failed()).length, 1);
});

inSession("read-only, it refuses every change and offers none", async (session) => {
  const { queue, visitor } = await withFailed(session, 1, 0, { readOnly: true });
  for (const action of ["retry", "forget", "cancel", "pause", "resume"]) {
    const response = await visitor.post(action, { ids: ["1"], queue: null });
    assert.deepEqual([response.status, (await response.json()).error], [403, "this dashboard is read-only"]);
  }
  assert.deepEqual(await queue.paused(), { all: false, queues: [] });
  assert.equal((await queue.failed()).length, 1);
  const html = await visitor.load();
  assert.doesNotMatch(html, /id="(failed-retry|failed-forget|delayed-cancel|pause-all)"/);
});

inSession(
  "failed jobs are read by pages, the newest first, and by what they have in common",
  async (session) => {
    const { visitor } = await withFailed(session, 60, 2);
    const first = await visitor.get("failed");
    assert.deepEqual([first.rows.length, first.count, first.rows[0].id], [50, 62, "62"]);
    assert.equal("payload" in first.rows[0], false, "a list needs no payloads");
    const second = await visitor.get("failed", { from: first.next });
    assert.deepEqual([second.rows.length, second.next], [12, null]);
    const ids = [...first.rows, ...second.rows].map(({ id }: { id: string }) => Number(id));
    assert.deepEqual(ids, Array.from({ length: 62 }, (_, index) => 62 - index), "each once");
    const found = async (filter: Record<string, string>) => (await visitor.get("failed", filter)).count;
    assert.equal(await found({ name: "letter" }), 2);
    assert.equal(await found({ queue: "post", text: "STREET" }), 2);
    assert.equal(await found({ text: "order 7 " }), 1);
    assert.equal(await found({ since: String(session.clock.now + 60_000) }), 0);
    assert.equal(await found({ before: String(session.clock.now + 60_000) }), 62);
    for (const wrong of ["since=yesterday", `text=${"x".repeat(501)}`, "from=%27"]) {
      assert.equal((await visitor.ask(`?get=failed&${wrong}`)).status, 400, wrong);
    }
  },
);

inSession("a job is read with its payload, its error and its stack, as text", async (session) => {
  const html = "<img src=x onerror=alert(1)>";
  const queue = await session.queue({
    parse: (job: Job<{ html: string }>) => {
      throw new Discard(`cannot read ${job.data.html}`);
    },
  });
  await queue.dispatch("parse", { html });
  await queue.workOnce(session.clock.now);
  const visitor = new Visitor(dashboard(queue));
  const response = await visitor.ask("?get=job&id=1");
  assert.equal(response.headers.get("content-type"), "application/json; charset=utf-8");
  assert.equal(response.headers.get("x-content-type-options"), "nosniff");
  const job = await response.json();
  assert.deepEqual([job.state, job.error, job.payload], [
    "failed",
    `cannot read ${html}`,
    JSON.stringify({ html }),
  ]);
});

inSession(
  "failed jobs are retried and forgotten, by their ids or by what they have in common",
  async (session) => {
    const { queue, state, visitor } = await withFailed(session, 4, 3);
    const change = async (action: string, asked: unknown) => (await visitor.post(action, asked)).json();
    assert.deepEqual(await change("retry", { ids: ["1", "2", "99"] }), { moved: 2, more: false });
    state.mended = true;
    while (await queue.workOnce(session.clock.now));
    assert.equal((await visitor.get("failed")).count, 5, "they were retried, and succeeded");
    assert.deepEqual(await change("forget", { ids: ["3"] }), { moved: 1, more: false });
    assert.deepEqual(await change("forget", { filter: { queue: "post" } }), { moved: 3, more: false });
    assert.deepEqual(await change("retry", { filter: { text: "order" } }), { moved: 1, more: false });
    assert.equal((await visitor.get("failed")).count, 0);
    assert.equal(await queue.waiting(), 1);
  },
);

inSession("many are moved in steps, so that no request lasts for long", async (session) => {
  const { visitor, queue } = await withFailed(session, 501);
  const asked = { filter: { before: session.clock.now + 60_000 } };
  assert.deepEqual(await (await visitor.post("retry", asked)).json(), { moved: 500, more: true });
  assert.deepEqual(await (await visitor.post("retry", asked)).json(), { moved: 1, more: false });
  assert.equal(await queue.waiting(), 501);
});

inSession("waiting jobs are cancelled, running ones told, and queues paused and resumed", async (session) => {
  const gate = new Gate();
  const queue = await session.queue({ slow: gate.handle });
  await queue.dispatch("slow", "1");
  const worker = await session.work(queue);
  await queue.dispatchLater("slow", "2", { hours: 1 });
  const visitor = new Visitor(dashboard(queue));
  await visitor.load();
  const change = async (action: string, asked: unknown) => (await visitor.post(action, asked)).json();
  const { rows, more } = await visitor.get("delayed");
  assert.deepEqual([rows.length, rows[0].id, rows[0].name, more], [1, "2", "slow", false]);
  assert.deepEqual(await visitor.get("delayed", { queue: "other" }), { rows: [], more: false });
  assert.deepEqual(await change("cancel", { ids: ["1", "2", "3"] }), {
    removed: 1,
    cancelling: 1,
    unknown: 1,
  });
  assert.deepEqual(await change("pause", { queue: "default" }), { changed: true });
  assert.deepEqual(await change("pause", { queue: null }), { changed: true });
  assert.deepEqual(await queue.paused(), { all: true, queues: ["default"] });
  assert.deepEqual(await change("resume", { queue: null }), { changed: true });
  assert.deepEqual(await queue.paused(), { all: false, queues: [] });
  gate.open();
  await worker.stop();
});

inSession("what cannot be meant is refused with a sentence that says why", async (session) => {
  const { visitor, queue } = await withFailed(session, 1);
  const cases: [action: string, asked: unknown, status: number, why: RegExp][] = [
    ["retry", {}, 400, /ids, or a filter/],
    ["retry", { ids: [] }, 400, /^ids: /],
    ["retry", { ids: [1] }, 400, /^ids: /],
    ["retry", { ids: Array(1001).fill("1") }, 400, /^ids: /],
    ["retry", { filter: { before: "soon" } }, 400, /^before: /],
    ["forget", { filter: {} }, 400, /filter/],
    ["pause", {}, 400, /^queue: /],
    ["pause", { queue: "" }, 400, /queue/],
    ["cancel", [], 400, /an object/],
    ["cancel", "{", 400, /no JSON/],
    ["cancel", `"${"x".repeat(300_000)}"`, 413, /larger than/],
  ];
  for (const [action, asked, status, why] of cases) {
    const response = await visitor.post(action, asked);
    assert.equal(response.status, status, `${action} ${JSON.stringify(asked).slice(0, 40)}`);
    assert.match((await response.json()).error, why);
  }
  const form = await visitor.post("retry", { ids: ["1"] }, { "content-type": "text/plain" });
  assert.equal(form.status, 415, "what a form of another site could send");
  assert.equal((await queue.failed()).length, 1);
});

inSession(
  "one round of questions a second, however many look, and one a minute when nobody does",
  async (session) => {
    let counts = 0;
    const driver = new SqliteDriver({ database: ":memory:" });
    const counting = changed(driver, {
      counts(now, retryAfter) {
        counts++;
        return driver.counts(now, retryAfter);
      },
    });
    const queue = await session.queue({ mail: () => {} }, { driver: counting });
    const handler = dashboard(queue);
    await session.clock.advance(59_000);
    assert.equal(counts, 0, "nobody has looked yet");
    await session.clock.advance(1000);
    assert.equal(counts, 1, "for the charts");
    const watching = await Promise.all(Array.from({ length: 5 }, () => new Visitor(handler).watch()));
    await session.clock.advance(0);
    assert.equal(counts, 2, "at once");
    await queue.dispatch("mail");
    await session.clock.advance(10_000);
    assert.equal(counts, 12, "one a second, for five");
    for (const { events } of watching) {
      const states = events.filter(({ name }) => name === "state");
      assert.ok(states.length >= 11, `${states.length} states`);
      const { total, queues } = states.at(-1)!.data;
      assert.deepEqual([total.ready, queues[0].queue], [1, "default"]);
      assert.equal(Math.floor(total.wait / 1000), 10, "what is due at once is stored with whole seconds");
    }
    for (const one of watching) await one.leave();
    await session.clock.advance(59_000);
    assert.equal(counts, 12, "nobody looks any more");
    await session.clock.advance(120_000);
    assert.ok(counts <= 15, "for the charts");
  },
);

inSession("a change is seen at once by all who look", async (session) => {
  const { visitor, handler } = await withFailed(session, 1);
  const watching = await new Visitor(handler).watch();
  await session.clock.advance(0);
  assert.equal(watching.events.at(-1)!.data.total.failed, 1);
  await visitor.post("forget", { ids: ["1"] });
  await session.clock.advance(1);
  assert.equal(watching.events.at(-1)!.data.total.failed, 0);
  await watching.leave();
});

inSession("workers are shown with what they run, and how far that is", async (session) => {
  const gate = new Gate();
  const queue = await session.queue({
    slow: async (job: Job) => {
      job.progress(0.25, "a quarter");
      await gate.handle(job);
    },
  });
  await queue.dispatch("slow");
  const watching = await new Visitor(dashboard(queue)).watch();
  const worker = await session.work(queue, { concurrency: 3 });
  await session.clock.advance(3000);
  const [seen] = watching.events.at(-1)!.data.workers;
  assert.deepEqual([seen.concurrency, seen.queues, seen.running.length], [3, null, 1]);
  const [job] = seen.running;
  assert.deepEqual([job.name, job.attempt, job.progress.fraction, job.progress.note], [
    "slow",
    1,
    0.25,
    "a quarter",
  ]);
  gate.open();
  await session.clock.advance(3000);
  const { workers, points } = watching.events.at(-1)!.data;
  assert.deepEqual([workers[0].running, workers[0].processed], [[], 1]);
  const done = points.reduce((sum: number, [, rate]: [number, number | null]) => sum + 2 * (rate ?? 0), 0);
  assert.ok(Math.abs(done - 1) < 0.6, `the chart has counted ${done}`);
  await watching.leave();
  await worker.stop();
});

inSession("a store that fails is told of, and asked again", async (session) => {
  const driver = new SqliteDriver({ database: ":memory:" });
  let broken = true;
  const failing: Driver = changed(driver, {
    counts(now, retryAfter) {
      if (broken) return Promise.reject(new QueueError("DB", "the disk is gone"));
      return driver.counts(now, retryAfter);
    },
  });
  const queue = await session.queue({}, { driver: failing });
  const handler = dashboard(queue);
  const watching = await new Visitor(handler).watch();
  await session.clock.advance(0);
  assert.deepEqual(watching.events.at(-1), {
    name: "trouble",
    data: { trouble: "queue: the disk is gone", over: false },
  });
  broken = false;
  await session.clock.advance(10_000);
  assert.equal(watching.events.at(-1)!.name, "state");
  broken = true;
  const search = await new Visitor(handler).ask("?get=failed");
  assert.deepEqual([search.status, (await search.json()).error], [503, "queue: the disk is gone"]);
  await watching.leave();
});

inSession("the streams end with the queue", async (session) => {
  const queue = await session.queue({});
  const handler = dashboard(queue);
  const watching = await new Visitor(handler).watch();
  await session.clock.advance(0);
  const closing = queue.close();
  await session.clock.advance(5000);
  await closing;
  assert.equal(watching.over, true);
  assert.deepEqual(watching.events.at(-1)!.data, { trouble: "queue: the queue is closed", over: true });
  const late = await new Visitor(handler).watch();
  await session.clock.advance(0);
  assert.equal(late.over, true, "one that comes later is told, too");
});

inSession("an option that cannot work is an error that names it", async (session) => {
  const queue = await session.queue({});
  const wrong: [options: unknown, why: RegExp][] = [
    [null, /options=null/],
    [{ path: "/x" }, /options\.path: no such setting/],
    [{ basePath: "admin" }, /basePath="admin"/],
    [{ token: "short" }, /token: expected at least 16/],
    [{ token: "with spaces in between" }, /token: expected/],
    [{ hosts: [] }, /hosts=\[\]/],
    [{ hosts: ["a:80"] }, /hosts=\["a:80"\]/],
    [{ origin: "https://a/b" }, /origin="https:\/\/a\/b"/],
    [{ readOnly: 1 }, /readOnly=1/],
  ];
  for (const [options, why] of wrong) {
    assert.throws(() => dashboard(queue, options as DashboardOptions), (error: QueueError) => {
      assert.equal(error.code, "CONFIG");
      assert.match(error.message, why);
      assert.doesNotMatch(error.message, /"short"|in between/, "no secret is shown");
      return true;
    });
  }
});

inSession("what is seen in a round is written out once, however many watch", async (session) => {
  let written = 0;
  const worker = {
    ...report(),
    seenAt: session.clock.now,
    toJSON(): object {
      written++;
      return { id: "a" };
    },
  };
  const driver = changed(session.driver(":memory:"), { workers: () => Promise.resolve([worker]) });
  const visitor = new Visitor(dashboard(await session.queue({}, { driver })));
  const watching = await Promise.all([visitor.watch(), visitor.watch(), visitor.watch()]);
  await session.clock.rest();
  await session.clock.advance(1000);
  for (const { events } of watching) {
    assert.deepEqual(events.map(({ data }) => data.workers), [[{ id: "a" }], [{ id: "a" }]]);
  }
  assert.equal(written, 2);
  for (const one of watching) await one.leave();
});

test("node:http writes to a slow reader at its pace, and leaves nothing behind on the response", async () => {
  const chunks = 100;
  const chunk = new Uint8Array(256 * 1024);
  let sent = 0;
  let response!: ServerResponse;
  const handle = toNodeHandler(() => {
    const body = new ReadableStream({
      pull(controller) {
        if (sent++ < chunks) controller.enqueue(chunk);
        else controller.close();
      },
    });
    return Promise.resolve(new Response(body));
  });
  const server = createServer((request, outgoing) => {
    response = outgoing;
    handle(request, outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { body } = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    const reader = body!.getReader();
    let size = 0;
    let listeners = 0;
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      size += value.length;
      listeners = Math.max(listeners, response.listenerCount("drain") + response.listenerCount("close"));
      // Slower than what is sent.
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.equal(size, chunks * chunk.length);
    // Those of the server itself, and two of ours while the response is full.
    assert.ok(listeners < 10, `${listeners} listeners`);
  } finally {
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  }
});

test("node:http serves it: the page, a change, and events until the browser goes away", async () => {
  const { Queue } = await import("../mod.ts");
  const state = failing();
  const queue = new Queue({
    database: ":memory:",
    env: {},
    log: { warn() {}, error() {} },
    jobs: state.jobs,
  });
  await queue.dispatch("order", "7");
  await queue.workOnce();
  const handler = dashboard(queue);
  const server = createServer(toNodeHandler(handler));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  try {
    const visitor = new Visitor((request) => fetch(request), base);
    await visitor.load();
    assert.equal((await visitor.ask("?get=nothing")).status, 404);
    const response = await fetch(base + "?get=events");
    const watching = new Watching(response);
    await until(() => watching.events.some(({ data }) => data.total.failed === 1), "the first state");
    const posted = await fetch(base + "?do=retry", {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "cookie": visitor.cookie,
        "origin": base.slice(0, -1),
        "x-csrf-token": visitor.proof,
      },
      body: JSON.stringify({ ids: ["1"] }),
    });
    assert.deepEqual([posted.status, await posted.json()], [200, { moved: 1, more: false }]);
    await until(() => watching.events.at(-1)!.data.total.ready === 1, "the change");
    await watching.leave();
  } finally {
    await new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
    await queue.close();
  }
});
