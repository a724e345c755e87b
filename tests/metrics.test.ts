/** What a queue says of itself in numbers: the text that Prometheus reads, and whether it is well. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import parsePrometheus from "parse-prometheus-text-format";
import { type Job, type Jobs, type Queue, QueueError, Snooze } from "@x/queue";
import { type Metrics, metrics, type MetricsOptions } from "@x/queue/metrics";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { changed, Gate, inSession, type Session } from "./session.ts";

/** A sample as the parser gives it. */
interface Sample {
  readonly labels?: Record<string, string>;
  readonly value: string;
}

/** A metric as the parser gives it. */
interface Parsed {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly metrics: readonly Sample[];
}

/** The parser joins histograms whatever their labels are: without their type, it gives each line as it stands. */
function parse(text: string): Parsed[] {
  return (parsePrometheus as unknown as (text: string) => Parsed[])(
    text.replace(/^# TYPE \w+ histogram\n/gm, ""),
  );
}

/** What a scrape says, by name. */
async function scrape(measured: Metrics): Promise<Map<string, Parsed>> {
  const found = new Map<string, Parsed>();
  for (const metric of parse(await measured.text())) {
    // The parts of a histogram take turns.
    const before = found.get(metric.name)?.metrics ?? [];
    found.set(metric.name, { ...metric, metrics: [...before, ...metric.metrics] });
  }
  return found;
}

/** The values of a metric, by its labels' values. */
function valuesOf(found: Map<string, Parsed>, name: string): Record<string, number> {
  const metric = found.get(name);
  assert.ok(metric !== undefined, `${name} is there`);
  return Object.fromEntries(
    metric.metrics.map(({ labels = {}, value }) => [Object.values(labels).join(" "), Number(value)]),
  );
}

/** Those that are not 0. */
function counted(values: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== 0));
}

/** A queue and its metrics. */
async function measuredQueue<const J extends Jobs>(
  { queue }: Session,
  jobs: J,
  options: Parameters<Session["queue"]>[1] = {},
  how: MetricsOptions = {},
): Promise<{ jobs: Queue<J>; measured: Metrics }> {
  const made = await queue(jobs, options as never);
  return { jobs: made as Queue<J>, measured: metrics(made as unknown as Queue, how) };
}

function get(measured: Metrics, path: string, init: RequestInit = {}): Promise<Response> {
  return measured.handler(new Request(`http://127.0.0.1:9464${path}`, init));
}

const broken = (): never => {
  throw new Error("no");
};

inSession("what became of jobs is counted by queue, name and outcome", async (session) => {
  const { clock, work } = session;
  const { jobs, measured } = await measuredQueue(session, {
    good: () => {},
    bad: { handle: broken, tries: 2, queue: "mail" },
    nap: (job: Job) => {
      if (job.payload === "null") throw new Snooze(60_000, "not yet");
    },
  });
  await work(jobs, { concurrency: 3 });
  await jobs.dispatchMany([["good", 1], ["good", 2], ["bad", null], ["nap", null]]);
  await jobs.dispatch("good", 3, { id: "once" });
  await jobs.dispatch("good", 3, { id: "once" });
  await clock.advance(10_000);
  const found = await scrape(measured);
  assert.deepEqual(valuesOf(found, "queue_dispatched_total"), {
    "default good": 3,
    "mail bad": 1,
    "default nap": 1,
  }, "a duplicate stores nothing");
  assert.deepEqual(counted(valuesOf(found, "queue_attempts_total")), {
    "default good completed": 3,
    "mail bad released": 1,
    "mail bad failed": 1,
    "default nap snoozed": 1,
  });
  assert.deepEqual(counted(valuesOf(found, "queue_jobs")), { "default delayed": 1, "mail failed": 1 });
  assert.deepEqual(valuesOf(found, "queue_run_seconds_count"), {
    "default good": 3,
    "mail bad": 2,
    "default nap": 1,
  });
  assert.deepEqual(valuesOf(found, "queue_up"), { "": 1 });
  assert.deepEqual(valuesOf(found, "queue_process_workers"), { "": 1 });
  assert.deepEqual(valuesOf(found, "queue_process_slots"), { "": 3 });
  const text = await measured.text();
  for (const name of found.keys()) {
    const histogram = /^queue_(run|wait)_seconds/.exec(name)?.[0];
    const family = histogram ?? name;
    const type = histogram !== undefined ? "histogram" : name.endsWith("_total") ? "counter" : "gauge";
    assert.match(text, new RegExp(`^# HELP ${family} .+\\n# TYPE ${family} ${type}\\n${family}`, "m"));
  }
});

inSession("how long jobs waited and ran lies in buckets of seconds", async (session) => {
  const { clock, work } = session;
  const gate = new Gate();
  const { jobs, measured } = await measuredQueue(session, { slow: gate.handle });
  await jobs.dispatch("slow");
  await clock.advance(700);
  await work(jobs);
  await clock.until(() => gate.inside === 1, "the handler to begin");
  await clock.advance(7000);
  gate.open();
  await clock.rest();
  const found = await scrape(measured);
  const of = (name: string, ...bounds: string[]): number[] => {
    const buckets = valuesOf(found, `${name}_bucket`);
    const rest = ["sum", "count"].map((part) => valuesOf(found, `${name}_${part}`)["default slow"]);
    return [...bounds.map((bound) => buckets[`default slow ${bound}`]), ...rest];
  };
  assert.deepEqual(of("queue_wait_seconds", "0.001", "0.5", "1", "+Inf"), [0, 0, 1, 1, 0.7, 1]);
  assert.deepEqual(of("queue_run_seconds", "5", "10", "1800", "+Inf"), [0, 1, 1, 1, 7, 1]);
});

inSession("the store is asked once a second, however many look", async (session) => {
  const { clock } = session;
  let asked = 0;
  const sqlite = new SqliteDriver({ database: ":memory:" });
  const driver = changed(sqlite, {
    counts: (now, retryAfter) => {
      asked++;
      return sqlite.counts(now, retryAfter);
    },
  });
  const { jobs, measured } = await measuredQueue(session, { mail: () => {} }, { driver });
  await Promise.all([measured.text(), measured.health(), measured.text()]);
  await jobs.dispatch("mail");
  await clock.advance(999);
  assert.equal((await scrape(measured)).has("queue_jobs"), false, "as it was");
  assert.equal(asked, 1);
  await clock.advance(1);
  assert.deepEqual(counted(valuesOf(await scrape(measured), "queue_jobs")), { "default ready": 1 });
  assert.equal(asked, 2);
});

inSession("the oldest wait, and what is paused, are told for each queue", async (session) => {
  const { clock } = session;
  // Whole seconds, as what is due at once has.
  const { jobs, measured } = await measuredQueue(session, { mail: () => {} });
  await jobs.dispatchLater("mail", null, 1);
  await jobs.dispatch("mail", null, { queue: "held" });
  await jobs.pause("held");
  await clock.advance(30_001);
  const found = await scrape(measured);
  assert.equal(valuesOf(found, "queue_oldest_ready_seconds").default, 30);
  assert.deepEqual(valuesOf(found, "queue_paused"), { default: 0, held: 1 });
});

inSession(
  "names that the app does not have, and queues beyond a hundred, are counted as other",
  async (session) => {
    const { queue, work, file, clock } = session;
    const names = Object.fromEntries(Array.from({ length: 130 }, (_, at) => [`job ${at}`, () => {}]));
    const foreign = await queue({ stranger: () => {} }, { database: file });
    const { jobs, measured } = await measuredQueue(session, names, { database: file });
    await foreign.dispatch("stranger", null, { queue: "q0" });
    const last = await jobs.dispatchMany(
      Object.keys(names).map((name, at) => [name, null, { queue: `q${at}` }]),
    );
    assert.equal(last.length, 130);
    const before = await scrape(measured);
    const dispatched = valuesOf(before, "queue_dispatched_total");
    assert.equal(Object.keys(dispatched).length, 101);
    assert.equal(dispatched["other other"], 30);
    const inStore = valuesOf(before, "queue_jobs");
    assert.equal(Object.keys(inStore).length, 101 * 4, "four states of each");
    assert.equal(inStore["other ready"], 30);
    const worker = await work(jobs, { stopWhenEmpty: true, concurrency: 10 });
    await clock.until(() => worker.over, "the worker to have found nothing more");
    const outcomes = counted(valuesOf(await scrape(measured), "queue_attempts_total"));
    assert.equal(outcomes["q0 other released"], 1, "no handler named stranger");
    assert.equal(outcomes["other other completed"], 30);
  },
);

inSession("labels of any text stay what they are", async (session) => {
  const name = `say "hi" to C:\\temp, {a="b"} 日本語`;
  const { jobs, measured } = await measuredQueue(session, { [name]: () => {} });
  await jobs.dispatch(name, null, { queue: `a"b\\c` });
  const [sample] = (await scrape(measured)).get("queue_dispatched_total")!.metrics;
  assert.deepEqual({ ...sample.labels }, { queue: `a"b\\c`, name });
});

inSession(
  "a store that fails is counted by what it failed at, and the text is still there",
  async (session) => {
    const { clock, work } = session;
    let down = false;
    const sqlite = new SqliteDriver({ database: ":memory:" });
    const failing = <Name extends "push" | "reserve" | "complete" | "counts">(name: Name) =>
      ((...given: never[]) =>
        down
          ? Promise.reject(new QueueError("DB", "disk I/O error"))
          : (sqlite[name] as (...given: never[]) => unknown)(...given)) as SqliteDriver[Name];
    const driver = changed(sqlite, {
      push: failing("push"),
      reserve: failing("reserve"),
      complete: failing("complete"),
      counts: failing("counts"),
    });
    const gate = new Gate();
    const { jobs, measured } = await measuredQueue(session, { slow: gate.handle }, { driver });
    await jobs.dispatch("slow");
    await work(jobs, { concurrency: 2 });
    await clock.until(() => gate.inside === 1, "the handler to begin");
    down = true;
    await assert.rejects(jobs.dispatch("slow"), { code: "DB" });
    await assert.rejects(jobs.dispatchMany([["slow", null]]), { code: "DB" });
    gate.open();
    await clock.advance(1000);
    const found = await scrape(measured);
    const errors = valuesOf(found, "queue_store_errors_total");
    assert.deepEqual([errors.dispatch, errors.look, errors.extend], [2, 1, 0]);
    assert.ok(errors.reserve > 0 && errors.settle > 0, JSON.stringify(errors));
    assert.deepEqual(valuesOf(found, "queue_up"), { "": 0 });
    assert.equal(found.has("queue_jobs"), false);
    const health = await get(measured, "/health");
    assert.equal(health.status, 503);
    const { status, reasons } = await health.json();
    assert.deepEqual([status, reasons], ["down", ["queue: disk I/O error"]]);
    down = false;
    await clock.advance(11_000);
    assert.equal((await get(measured, "/health")).status, 200);
  },
);

inSession("a store that does not answer is down after five seconds", async (session) => {
  const driver = changed(new SqliteDriver({ database: ":memory:" }), { counts: () => new Promise(() => {}) });
  const { measured } = await measuredQueue(session, {}, { driver });
  const health = measured.health();
  await session.clock.advance(5000);
  assert.deepEqual((await health).reasons, ["the store did not answer within 5 s"]);
  assert.equal((await health).status, "down");
});

inSession("jobs that are due while nothing moves are stuck, after the bound", async (session) => {
  const { clock, queue, work, file } = session;
  const { jobs, measured } = await measuredQueue(session, { mail: () => {} }, { database: file }, {
    stuckAfter: { minutes: 1 },
  });
  await jobs.dispatchMany([["mail", null], ["mail", null, { delay: 120_000 }]]);
  assert.deepEqual((await measured.health()).status, "ready");
  await clock.advance(59_000);
  assert.deepEqual((await measured.health()).status, "ready");
  await clock.advance(3000);
  const answer = await get(measured, "/health");
  assert.equal(answer.status, 503);
  const health = await answer.json();
  assert.equal(health.status, "stuck");
  assert.match(
    health.reasons[0],
    /^default: 1 job has been due, the oldest for 6\d s, and nothing has moved for 62 s \(no workers\)$/,
  );
  assert.equal(health.ready, 1);

  const elsewhere = await queue({ mail: () => {} }, { database: file });
  const worker = await work(elsewhere);
  await clock.advance(1000);
  assert.equal((await measured.health()).status, "ready", "another process took it");
  await worker.stop();
  await clock.advance(120_000);
  assert.equal((await measured.health()).status, "stuck", "the delayed one is due by now");
  await jobs.pause();
  await clock.advance(1000);
  assert.equal((await measured.health()).status, "ready", "what is paused is to wait");
});

inSession("a worker that is behind, and works, is not stuck", async (session) => {
  const { clock, work } = session;
  const gate = new Gate();
  const { jobs, measured } = await measuredQueue(session, { slow: gate.handle }, {}, { stuckAfter: 60_000 });
  await jobs.dispatchMany(Array.from({ length: 5 }, () => ["slow", null] as const));
  await work(jobs);
  for (let minute = 0; minute < 4; minute++) {
    await clock.until(() => gate.inside === 1, "a handler to begin");
    await clock.advance(50_000);
    gate.open();
    await clock.rest();
    assert.equal((await measured.health()).status, "ready", `${minute}`);
  }
});

inSession("the handler answers GET and HEAD, wherever it is mounted, and nothing else", async (session) => {
  const { measured } = await measuredQueue(session, { mail: () => {} });
  const answer = await get(measured, "/metrics");
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  assert.ok(parse(await answer.text()).length > 5);
  assert.equal((await get(measured, "/admin/queue/metrics?x=1")).status, 200);
  assert.equal((await get(measured, "/health/")).status, 200);
  const head = await get(measured, "/metrics", { method: "HEAD" });
  assert.deepEqual([head.status, await head.text()], [200, ""]);
  const post = await get(measured, "/metrics", { method: "POST" });
  assert.deepEqual([post.status, post.headers.get("allow")], [405, "GET, HEAD"]);
  for (const path of ["/", "/metrics/more", "/xmetrics"]) {
    assert.equal((await get(measured, path)).status, 404);
  }
});

inSession("README lists the metrics that there are, with their labels", async (session) => {
  const { clock, file } = session;
  const { jobs, measured } = await measuredQueue(session, { mail: () => {} }, { database: file });
  await jobs.dispatchMany([["mail", 1], ["mail", 2]]);
  await jobs.workOnce();
  await clock.advance(2000);
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const [, rows] = /^\| metric .*\n\|.*\n((?:\|.*\n)+)/m.exec(readme)!;
  const listed = rows.trimEnd().split("\n").map((row) => {
    const [name, labels] = row.split("|").slice(1).map((cell) => cell.trim().replaceAll("`", ""));
    return `${name}: ${labels}`;
  });
  const there = new Map<string, string>();
  for (const [name, { metrics: [sample] }] of await scrape(measured)) {
    if (sample === undefined || /_(bucket|sum)$/.test(name)) continue;
    there.set(name.replace(/_count$/, ""), Object.keys(sample.labels ?? {}).join(", "));
  }
  assert.deepEqual(listed.sort(), [...there].map(([name, labels]) => `${name}: ${labels}`).sort());
});

inSession("who asks for OpenMetrics gets that", async (session) => {
  const { jobs, measured } = await measuredQueue(session, { mail: () => {} });
  await jobs.dispatch("mail");
  await jobs.work({ stopWhenEmpty: true });
  const accept = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5";
  const answer = await get(measured, "/metrics", { headers: { accept } });
  assert.match(answer.headers.get("content-type")!, /^application\/openmetrics-text; version=1\.0\.0/);
  const text = await answer.text();
  assert.ok(text.endsWith("\n# EOF\n"));
  assert.match(
    text,
    /^# TYPE queue_dispatched counter\nqueue_dispatched_total\{queue="default",name="mail"\} 1$/m,
  );
  assert.match(text, /^queue_run_seconds_bucket\{queue="default",name="mail",le="1\.0"\} 1$/m);
});

inSession("what was measured is not, once that is closed", async (session) => {
  const { jobs, measured } = await measuredQueue(session, { mail: () => {} });
  await jobs.dispatch("mail");
  measured.close();
  await jobs.dispatch("mail");
  assert.deepEqual(valuesOf(await scrape(measured), "queue_dispatched_total"), { "default mail": 1 });
});

inSession("an option that cannot work is refused and named", async ({ queue }) => {
  const jobs: Queue = await queue({});
  assert.throws(() => metrics(jobs, { stuckAfter: "soon" as never }), /stuckAfter/);
  assert.throws(() => metrics(jobs, { stuck: 1 } as never), /options\.stuck: no such setting/);
});
