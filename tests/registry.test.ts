/** What a worker tells its store of itself, and what is kept of each attempt. */
import assert from "node:assert/strict";
import { hostname } from "node:os";
import process from "node:process";
import { type Job, type Queue, Snooze } from "@x/queue";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { VERSION } from "../version.ts";
import { changed, Gate, inSession } from "./session.ts";

const SECOND = 1000;

/** The name of this machine, as Deno tells it only where it may. */
const WORKER = `${hostname()}:${process.pid}`;

inSession("a worker is in the store from its beginning to its end", async ({ clock, queue, work, file }) => {
  const jobs = await queue({ mail: () => {}, elsewhere: { queue: "other" }, call: { handle: () => {} } }, {
    database: file,
  });
  const other = await queue({}, { database: file });
  clock.short = 50;
  assert.deepEqual(await other.workers(), []);
  const began = clock.now;
  const working = await work(jobs, { concurrency: 3 });
  await clock.until(async () => (await other.workers()).length === 1, "the worker to be seen");
  const [{ id, ...worker }] = await other.workers();
  assert.equal(typeof id === "string" && id.length > 0, true);
  assert.deepEqual(worker, {
    host: hostname(),
    pid: process.pid,
    startedAt: began,
    seenAt: began,
    queues: null,
    concurrency: 3,
    names: ["call", "mail"],
    processed: 0,
    busy: 0,
    running: [],
    version: VERSION,
  });
  await working.stop();
  assert.deepEqual(await other.workers(), []);
});

inSession("a worker names the queues that it was given", async ({ queue, work }) => {
  const jobs = await queue({ mail: () => {} });
  await work(jobs, { queues: "high:3,low:1" });
  assert.deepEqual((await jobs.workers()).map(({ queues }) => queues), [["high", "low"]]);
});

inSession("what a worker runs is known a second after it changed", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ hang: { handle: gate.handle, queue: "slow" } });
  await work(jobs, { concurrency: 2 });
  await clock.advance(5 * SECOND);
  const { id } = await jobs.dispatch("hang");
  await clock.until(() => gate.inside === 1, "the job to run");
  const since = clock.now;
  await clock.advance(SECOND);
  const [worker] = await jobs.workers();
  assert.deepEqual(worker.running, [{ id, name: "hang", queue: "slow", attempt: 1, since }]);
  assert.deepEqual([worker.busy, worker.processed], [1, 0]);
  gate.open();
  await clock.rest();
  await clock.advance(SECOND);
  const [after] = await jobs.workers();
  assert.deepEqual([after.busy, after.processed, after.running], [0, 1, []]);
});

inSession("a busy worker tells of itself once a second, an idle one each 10 s", async (session) => {
  const { clock, queue, work } = session;
  const driver = new SqliteDriver({ database: ":memory:" });
  let beats = 0;
  const counting = changed(driver, {
    beat: (...rest) => {
      beats++;
      return driver.beat(...rest);
    },
  });
  const jobs = await queue({ quick: () => {} }, { driver: counting });
  await work(jobs);
  assert.equal(beats, 1);
  await clock.advance(60 * SECOND);
  assert.equal(beats, 7);
  for (let second = 0; second < 10; second++) {
    for (let part = 0; part < 4; part++) {
      await jobs.dispatch("quick");
      await clock.advance(SECOND / 4);
    }
  }
  assert.equal(beats >= 16 && beats <= 18, true, String(beats));
});

inSession("of many running jobs those that have run longest are named", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ hang: gate.handle });
  const ids = (await jobs.dispatchMany(Array.from({ length: 120 }, () => ["hang"]))).map(({ id }) => id);
  await work(jobs, { concurrency: 150 });
  await clock.until(() => gate.inside === 120, "all to run");
  await clock.advance(SECOND);
  const [{ busy, running }] = await jobs.workers();
  assert.equal(busy, 120);
  assert.deepEqual(running.map(({ id }) => id), ids.slice(0, 100));
});

inSession("a worker that died is there no more 30 s after its last word", async ({ clock, queue, work }) => {
  const driver = new SqliteDriver({ database: ":memory:" });
  let dead = false;
  const dying = changed(driver, {
    beat: (...rest) => dead ? new Promise<never>(() => {}) : driver.beat(...rest),
  });
  const jobs = await queue({ mail: () => {} }, { driver: dying });
  await work(jobs);
  await clock.advance(9 * SECOND);
  dead = true;
  await clock.advance(20 * SECOND);
  assert.equal((await jobs.workers()).length, 1);
  await clock.advance(SECOND);
  assert.deepEqual(await jobs.workers(), []);
});

inSession("a store that refuses the workers' words disturbs no job, and is told once", async (session) => {
  const { clock, queue, work, lines } = session;
  const driver = new SqliteDriver({ database: ":memory:" });
  let refuses = true;
  const refuse = () => refuses ? Promise.reject(new Error("read-only")) : null;
  const refusing = changed(driver, {
    beat: (...rest) => refuse() ?? driver.beat(...rest),
    leave: (id) => refuse() ?? driver.leave(id),
  });
  const ran: string[] = [];
  const jobs = await queue({ mail: (job: Job) => void ran.push(job.payload) }, { driver: refusing });
  const working = await work(jobs);
  for (let minute = 0; minute < 3; minute++) {
    await jobs.dispatch("mail", String(minute));
    await clock.advance(60 * SECOND);
  }
  assert.deepEqual(ran, ["0", "1", "2"]);
  const told = "error read-only (while telling the store of this worker)";
  assert.deepEqual(lines, [told]);
  refuses = false;
  await clock.advance(10 * SECOND);
  assert.equal((await jobs.workers()).length, 1);
  refuses = true;
  await clock.advance(30 * SECOND);
  assert.deepEqual(lines, [told, told], "once more, as it came back meanwhile");
  await working.stop();
});

inSession("a stop waits a second at most for the store to forget the worker", async (session) => {
  const { clock, queue } = session;
  const driver = new SqliteDriver({ database: ":memory:" });
  const hanging = changed(driver, { leave: () => new Promise<never>(() => {}) });
  const jobs = await queue({ mail: () => {} }, { driver: hanging });
  const stopping = new AbortController();
  let over = false;
  const ended = jobs.work({ signal: stopping.signal }).then(() => over = true);
  await clock.rest();
  stopping.abort();
  await clock.advance(SECOND - 1);
  assert.equal(over, false);
  await clock.advance(1);
  assert.equal(over, true);
  await ended;
});

inSession("each failed attempt is kept: when, how long, whose, and why", async ({ clock, queue, work }) => {
  let runs = 0;
  const flaky = async () => {
    await new Promise((resolve) => setTimeout(resolve, 250));
    throw new TypeError(`run ${++runs}`);
  };
  const jobs = await queue({ flaky }, { tries: 2, log: { warn() {}, error() {} } });
  const began = clock.now;
  await jobs.dispatch("flaky");
  await work(jobs);
  await clock.advance(20 * SECOND);
  const [{ history, error, stack }] = await jobs.failed();
  assert.deepEqual(history.map(({ stack: _, ...rest }) => rest), [
    { attempt: 1, startedAt: began, duration: 250, worker: WORKER, error: "TypeError: run 1" },
    { attempt: 2, startedAt: began + 10_250, duration: 250, worker: WORKER, error: "TypeError: run 2" },
  ]);
  assert.match(history[0].stack!, /run 1[^]*registry\.test\.ts/);
  assert.deepEqual([history[1].error, history[1].stack], [error, stack]);
});

inSession("an attempt that was not spent leaves no record", async ({ clock, queue, work }) => {
  let runs = 0;
  const jobs = await queue({
    nap: () => {
      if (++runs < 3) throw new Snooze({ seconds: 1 }, "not yet");
      throw new Error("at last");
    },
  }, { tries: 1, log: { warn() {}, error() {} } });
  await jobs.dispatch("nap");
  await work(jobs);
  await clock.advance(5 * SECOND);
  const [{ history }] = await jobs.failed();
  assert.deepEqual(history.map(({ attempt, error }) => [attempt, error]), [[1, "at last"]]);
});

inSession("what is kept of an attempt is bounded", async ({ queue, work }) => {
  const error = Object.assign(new Error("x".repeat(5000)), { stack: "s".repeat(9000) });
  const jobs = await queue({
    long: () => {
      throw error;
    },
  }, { tries: 1, log: { warn() {}, error() {} } });
  await jobs.dispatch("long");
  await work(jobs);
  const [{ history: [attempt], ...failed }] = await jobs.failed();
  assert.deepEqual([failed.error.length, failed.stack!.length], [5000, 9000]);
  assert.deepEqual([attempt.error.length, attempt.stack!.length], [1024, 4096]);
  assert.equal(attempt.error.endsWith("x…") && attempt.stack!.endsWith("s…"), true);
});

inSession(
  "an attempt whose worker died is missing between the others",
  async (session) => {
    const { clock, queue, work } = session;
    const store = session.driver(":memory:");
    const jobs = await queue({
      mail: () => {
        throw new Error("no route");
      },
    }, { driver: store, tries: 2, log: { warn() {}, error() {} } });
    await jobs.dispatch("mail");
    await store.reserve({
      queues: [{ queue: "default", limit: 1 }],
      limit: 1,
      prefetch: 0,
      now: null,
      retryAfter: 90_000,
    });
    await clock.advance(90 * SECOND);
    await work(jobs);
    const [{ history }] = await jobs.failed();
    assert.deepEqual(history.map(({ attempt }) => attempt), [2]);
  },
);

/** The reasons why a job is not running, as codes. */
async function codes(queue: Pick<Queue, "find">, id: string): Promise<string[] | undefined> {
  return (await queue.find(id))?.reasons.map(({ code }) => code);
}

inSession("a job says why it is not running, from its dispatch to its end", async (session) => {
  const { clock, queue, work } = session;
  const gate = new Gate();
  const jobs = await queue({
    hang: async (job: Job) => {
      job.progress(0.5, "half");
      await gate.handle(job);
      throw new Error("no use");
    },
    strange: {},
  }, { tries: 2, backoff: 30_000, log: { warn() {}, error() {} } });
  const { id } = await jobs.dispatch("hang", undefined, { delay: 5000 });
  assert.deepEqual(await codes(jobs, id), ["delayed", "noWorker"]);
  await work(jobs, { queues: "other" });
  assert.deepEqual(await codes(jobs, id), ["delayed", "noWorker"], "none for its queue");
  await jobs.pause("default");
  await jobs.pause();
  await clock.advance(5000);
  assert.deepEqual(await codes(jobs, id), ["paused", "paused", "noWorker"]);
  // What is due at once is due since the whole second.
  await clock.advance(1000);
  const { id: second } = await jobs.dispatch("strange");
  await work(jobs);
  assert.deepEqual(await codes(jobs, second), ["paused", "paused", "noHandler", "behind"]);
  await jobs.cancel(second);
  assert.equal(await jobs.find(second), null);

  await jobs.resume();
  await clock.until(() => gate.inside === 1, "the job to run");
  await clock.advance(1000);
  const running = (await jobs.find(id))!;
  const [worker] = (await jobs.workers()).filter(({ busy }) => busy > 0);
  assert.deepEqual([running.state, running.attempts], ["reserved", 1]);
  assert.deepEqual(running.holder, {
    worker: worker.id,
    host: worker.host,
    pid: process.pid,
    since: worker.running[0].since,
  });
  assert.deepEqual(running.progress && [running.progress.fraction, running.progress.note], [0.5, "half"]);
  assert.deepEqual(running.reasons, [
    { code: "leased", text: `${WORKER} runs it`, until: running.leasedUntil! },
  ]);
  const { id: third } = await jobs.dispatch("hang");
  await clock.rest();
  assert.deepEqual(await codes(jobs, third), ["busy"]);

  await jobs.cancel(id);
  assert.deepEqual(await codes(jobs, id), ["cancelled", "leased"]);
  await clock.advance(1000);
  gate.open();
  await clock.until(() => gate.inside === 1 && gate.came.length === 2, "the next job to run");
  const failed = (await jobs.find(id))!;
  assert.deepEqual([failed.state, failed.error, failed.attempts], ["failed", "cancelled", 1]);
  assert.deepEqual(failed.reasons.map(({ code, text }) => [code, text]), [
    ["failed", `it has failed: queue:retry ${id} runs it again`],
  ]);
  gate.open();
  await clock.rest();
  const retried = (await jobs.find(third))!;
  assert.deepEqual([retried.state, retried.dueAt], ["delayed", clock.now + 30_000]);
  assert.deepEqual(retried.history.map(({ attempt, error }) => [attempt, error]), [[1, "no use"]]);
});

inSession("a job whose worker died is told from one that runs", async ({ clock, queue, work }) => {
  const store = new SqliteDriver({ database: ":memory:" });
  const jobs = await queue({ mail: () => {} }, { driver: store });
  const { id } = await jobs.dispatch("mail");
  await store.reserve({
    queues: [{ queue: "default", limit: 1 }],
    limit: 1,
    prefetch: 0,
    now: null,
    retryAfter: 90_000,
  });
  const [leased] = (await jobs.find(id))!.reasons;
  assert.deepEqual([leased.code, leased.until], ["leased", clock.now + 90_000]);
  assert.match(leased.text, /has not told of it yet, or has died/);
  await clock.advance(90_000);
  assert.deepEqual(await codes(jobs, id), ["abandoned", "noWorker"]);
  await work(jobs);
  assert.equal(await jobs.find(id), null, "it was run");
});

inSession("an examination finds what keeps jobs from running", async ({ clock, queue, work }) => {
  const jobs = await queue({ mail: () => {}, call: { queue: "phone" }, strange: {} });
  const bad = async () => {
    const findings = await jobs.examine();
    return findings.filter(({ level }) => level !== "ok").map((
      { what, level, found },
    ) => [what, level, found]);
  };
  assert.deepEqual(await bad(), [["workers", "warn", "none is running"]]);
  await jobs.dispatch("call");
  assert.deepEqual(await bad(), [["workers", "bad", "none is running, and jobs wait"]]);
  await jobs.pause("default");
  await work(jobs, { queues: "default" });
  await jobs.dispatch("strange");
  assert.deepEqual(await bad(), [
    ["queues", "bad", "jobs wait on phone, and no worker takes from there"],
    ["handlers", "bad", "jobs wait that no worker of their queue has a handler for: strange"],
    ["pauses", "warn", "default is paused, with 1 job ready"],
  ]);
  await clock.advance(5 * 60_000);
  assert.deepEqual((await bad()).at(-1), ["oldest wait", "warn", "300 s, on phone"]);
  await clock.advance(60 * 60_000);
  assert.deepEqual((await bad()).at(-1)?.slice(0, 2), ["oldest wait", "bad"]);
});
