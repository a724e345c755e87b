/** A stop, whoever asks for it: a grace, then the signal, then the hand-back, within a bound that nothing extends. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { type Job, type Jobs, Queue, QueueError, type WorkEvent, type WorkOptions } from "@x/queue";
import { STOP_MARGIN } from "../core/stopping.ts";
import { inFolder } from "./folder.ts";
import { changed, Gate, inSession, numbered, type Session } from "./session.ts";
import { soon, until } from "./until.ts";

const GRACE = 30_000;

/** How a worker is started, and told to stop. */
interface Way {
  readonly what: string;
  /** Starts to work on what is there, and returns what stops it. */
  start(session: Session, queue: Queue, options: WorkOptions): Promise<() => Promise<void>>;
}

const WAYS: Way[] = [
  {
    what: "the signal of work()",
    start: async (session, queue, options) => {
      const worker = await session.work(queue, options);
      return () => worker.stop();
    },
  },
  {
    what: "stop() of start()",
    start: async (session, queue, options) => {
      const workers = queue.start(1, options);
      await session.clock.rest();
      return () => workers.stop();
    },
  },
  {
    what: "close()",
    start: async (session, queue, options) => {
      await session.work(queue, options);
      return () => queue.close();
    },
  },
];

/** The jobs as the store has them. */
function stored(db: DatabaseSync): [payload: string, attempts: number, held: boolean][] {
  return db.prepare("SELECT payload, attempts, reserved_at FROM jobs ORDER BY id").all()
    .map((row) => [String(row.payload), Number(row.attempts), row.reserved_at !== null]);
}

/** A job that is running, on a database that shows what becomes of it. */
async function running(session: Session, way: Way, jobs: Jobs, options: WorkOptions = {}) {
  const db = new DatabaseSync(":memory:");
  const queue: Queue = await session.queue(jobs, { database: db });
  const [name] = Object.keys(jobs);
  await queue.dispatchMany([[name, "1"], [name, "2"]]);
  const events: WorkEvent[] = [];
  const stop = await way.start(session, queue, { ...options, onEvent: (event) => events.push(event) });
  const state = { over: false };
  return {
    ...{ db, queue, state },
    /** What became of the jobs, and which. */
    events: () => events.map(({ type, job }) => `${type} ${job.id}`),
    stop: () => void stop().then(() => state.over = true),
    /** Waits for the end, for which no time passes. */
    over: () => session.clock.until(() => state.over, `the end of ${way.what}`),
  };
}

for (const way of WAYS) {
  const { what } = way;

  inSession(`${what} takes nothing more, and lets what runs end within the grace`, async (session) => {
    const gate = new Gate();
    const one = await running(session, way, { gate: gate.handle });
    one.stop();
    await session.clock.advance(GRACE - 1);
    assert.equal(one.state.over, false);
    assert.equal(gate.came[0].signal.aborted, false);
    gate.open();
    await one.over();
    assert.deepEqual(one.events(), ["started 1", "completed 1"]);
    assert.deepEqual(stored(one.db), [["2", 0, false]]);
    assert.deepEqual(session.lines, []);
  });

  inSession(
    `${what} aborts what runs after the grace, and a handler that then returns is done`,
    async (session) => {
      const codes: string[] = [];
      const one = await running(session, way, {
        polite: (job: Job) =>
          new Promise<void>((done) =>
            job.signal.addEventListener("abort", () => {
              codes.push((job.signal.reason as QueueError).code);
              setTimeout(done, 900);
            })
          ),
      });
      one.stop();
      await session.clock.advance(GRACE);
      assert.deepEqual(codes, ["STOPPED"]);
      await session.clock.advance(900);
      await one.over();
      assert.deepEqual(one.events(), ["started 1", "completed 1"]);
      assert.deepEqual(stored(one.db), [["2", 0, false]]);
      assert.deepEqual(session.lines, [
        "warn queue: the worker stops, and its grace of 30 s is over: 1 job is aborted",
      ]);
    },
  );

  inSession(`${what} hands back, unspent, a job whose handler throws when it is aborted`, async (session) => {
    const one = await running(session, way, {
      obedient: (job: Job) =>
        new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason))),
    });
    one.stop();
    await session.clock.advance(GRACE);
    await one.over();
    assert.deepEqual(one.events(), ["started 1", "handedBack 1"]);
    assert.deepEqual(stored(one.db), [["1", 0, false], ["2", 0, false]]);
  });

  inSession(
    `${what} hands back, unspent, a job whose handler does not listen, after a second`,
    async (session) => {
      const gate = new Gate();
      const one = await running(session, way, { gate: gate.handle });
      one.stop();
      await session.clock.advance(GRACE + 999);
      assert.equal(one.state.over, false);
      await session.clock.advance(1);
      await one.over();
      assert.deepEqual(one.events(), ["started 1", "handedBack 1"]);
      assert.deepEqual(stored(one.db), [["1", 0, false], ["2", 0, false]]);
      gate.open();
      await session.clock.rest();
      assert.deepEqual(stored(one.db), [["1", 0, false], ["2", 0, false]], "its end counts for nothing");
    },
  );

  inSession(`${what} takes its grace from the options`, async (session) => {
    const gate = new Gate();
    const one = await running(session, way, { gate: gate.handle }, { grace: { seconds: 2 } });
    one.stop();
    await session.clock.advance(1999);
    assert.equal(gate.came[0].signal.aborted, false);
    await session.clock.advance(1);
    assert.equal(gate.came[0].signal.aborted, true);
    await session.clock.advance(1000);
    await one.over();
  });
}

inSession("workOnce is stopped by close(), as a worker is", async (session) => {
  const db = new DatabaseSync(":memory:");
  const gate = new Gate();
  const queue = await session.queue({ gate: gate.handle }, { database: db, env: { QUEUE_GRACE: "5" } });
  await queue.dispatch("gate", "1");
  let ran: boolean | null = null;
  let closed = false;
  queue.workOnce().then((result) => ran = result);
  await session.clock.until(() => gate.inside === 1, "the job to run");
  queue.close().then(() => closed = true);
  await session.clock.advance(5000);
  assert.equal((gate.came[0].signal.reason as QueueError).code, "STOPPED");
  await session.clock.advance(999);
  assert.deepEqual([ran, closed], [null, false]);
  await session.clock.advance(1);
  await session.clock.until(() => closed, "the queue to close");
  assert.equal(ran, true);
  assert.deepEqual(stored(db), [["1", 0, false]]);
});

inSession("the grace is QUEUE_GRACE seconds, or the queue's option", async (session) => {
  const settings = [{ env: { QUEUE_GRACE: "7" } }, { env: { QUEUE_GRACE: "9" }, grace: { seconds: 7 } }];
  for (const setting of settings) {
    const gate = new Gate();
    const queue = await session.queue({ gate: gate.handle }, setting);
    await queue.dispatch("gate", "1");
    const worker = await session.work(queue);
    const stopping = worker.stop();
    await session.clock.advance(6999);
    assert.equal(gate.came[0].signal.aborted, false);
    await session.clock.advance(1);
    assert.equal(gate.came[0].signal.aborted, true);
    await session.clock.advance(1000);
    await stopping;
  }
});

inSession("a worker that is forced while handlers react waits no longer", async (session) => {
  const gate = new Gate();
  const queue = await session.queue({ gate: gate.handle });
  await queue.dispatch("gate", "1");
  const worker = await session.work(queue);
  const stopping = worker.stop();
  await session.clock.advance(GRACE + 1);
  assert.equal(worker.over, false);
  await worker.force();
  await stopping;
  assert.equal((await queue.counts())[0].ready, 1);
});

inSession("no grace means that what runs is aborted at once, and may still react", async (session) => {
  const queue = await session.queue({
    polite: (job: Job) => new Promise<void>((done) => job.signal.addEventListener("abort", () => done())),
  });
  await queue.dispatch("polite");
  const worker = await session.work(queue, { grace: 0 });
  const stopping = worker.stop();
  await session.clock.advance(1);
  await stopping;
  assert.deepEqual(worker.events.map(({ type }) => type), ["started", "completed"]);
});

for (const limit of [{ maxTime: 1000 }, { maxJobs: 1 }, { stopWhenEmpty: true }]) {
  const [name] = Object.keys(limit);
  inSession(`${name} is no stop: it waits for what runs, beyond any grace`, async (session) => {
    const gate = new Gate();
    const queue = await session.queue({ gate: gate.handle });
    await queue.dispatch("gate", "1");
    const worker = await session.work(queue, { ...limit, grace: 1000 });
    await session.clock.advance(3_600_000);
    assert.deepEqual([worker.over, gate.came[0].signal.aborted], [false, false]);
    // A stop that comes then has its grace from then on.
    const stopping = worker.stop();
    await session.clock.advance(999);
    assert.equal(gate.came[0].signal.aborted, false);
    await session.clock.advance(1001);
    await stopping;
  });
}

// The bound, whatever the store does

const NEVER = () => new Promise<never>(() => {});
const FAULT = () => Promise.reject(new QueueError("DB", "the disk is on fire"));

for (const [how, answer] of [["does not answer", NEVER], ["refuses everything", FAULT]] as const) {
  for (const handler of ["stubborn", "obedient", "quick", "failing", "idle"]) {
    inSession(`a stop is over in time though the store ${how}: a ${handler} handler`, async (session) => {
      let broken = false;
      const driver = session.driver(":memory:");
      const methods = ["complete", "release", "fail", "extend", "reserve", "queues"] as const;
      const changes = Object.fromEntries(methods.map((method) => [
        method,
        (...args: never[]) => broken ? answer() : (driver[method] as (...args: never[]) => unknown)(...args),
      ]));
      const gate = new Gate();
      const queue: Queue = await session.queue({
        stubborn: NEVER,
        obedient: (job: Job) =>
          new Promise((_, reject) =>
            job.signal.addEventListener("abort", () => reject(new Error("aborted")))
          ),
        quick: gate.handle,
        failing: {
          tries: 1,
          handle: (job: Job) => gate.handle(job).then(() => Promise.reject(new Error("no"))),
        },
        idle: () => {},
      }, { driver: changed(driver, changes) });
      await queue.dispatchMany(numbered(2).map(() => [handler]));
      const worker = await session.work(queue, { grace: 20_000 });
      broken = true;
      worker.ended.catch(() => {});
      const stopping = worker.stop();
      if (gate.inside > 0) gate.open();
      await session.clock.advance(20_000 + STOP_MARGIN);
      assert.equal(worker.over, true);
      await stopping;
      broken = false;
    });
  }
}

inSession("an outcome that the store has refused for long is given up with a word", async (session) => {
  const driver = session.driver(":memory:");
  const queue = await session.queue({ quick: () => {} }, { driver: changed(driver, { complete: FAULT }) });
  await queue.dispatch("quick");
  const worker = await session.work(queue, { grace: 0 });
  // By now it waits for 10 s between its tries.
  await session.clock.advance(60_000);
  const stopping = worker.stop();
  await session.clock.advance(STOP_MARGIN);
  await stopping;
  assert.deepEqual(session.lines, [
    "error queue: the disk is on fire (while storing the outcome of job quick (id 1))",
    "error queue: the disk is on fire (the outcome of job quick (id 1) was not stored: it will run again)",
  ]);
  assert.equal(session.clock.waiting, 0, "no timer keeps the process");
});

inSession("a stop does not wait for what a store refuses that was closed", async (session) => {
  const driver = session.driver(":memory:");
  let close = (): void => {};
  const reserve = () =>
    new Promise<never>((_, reject) => close = () => reject(new QueueError("CLOSED", "the queue is closed")));
  const queue = await session.queue({}, { driver: changed(driver, { reserve }) });
  const worker = await session.work(queue);
  const stopping = worker.stop();
  close();
  // No time passes.
  await stopping;
  assert.deepEqual(session.lines, ["error queue: the queue is closed"]);
});

inSession("a queue that is closed as its worker ends leaves no timer", async (session) => {
  const queue = await session.queue({});
  let closed: Promise<void> | null = null;
  queue.on("workerStopped", () => closed = queue.close());
  const worker = await session.work(queue, { stopWhenEmpty: true });
  await session.clock.until(() => worker.over, "the worker to end");
  await closed;
  assert.equal(session.clock.waiting, 0);
});

inSession("a stop does not wait for a store that is being opened", async (session) => {
  const driver = changed(session.driver(":memory:"), { open: NEVER });
  const queue = new Queue({ driver, jobs: {}, env: {} });
  const worker = await session.work(queue);
  await session.clock.advance(60_000);
  assert.equal(worker.over, false);
  await worker.stop();
  const forced = await session.work(queue);
  await forced.force();
  const closed = await session.work(queue);
  await queue.close();
  await session.clock.until(() => closed.over, "the worker to end");
});

test("close() is bounded though another connection holds the write lock", () =>
  inFolder(async (folder) => {
    const file = `${folder}/queue.sqlite`;
    const lines: string[] = [];
    const log = {
      warn: (line: string) => void lines.push(line),
      error: (line: string) => void lines.push(line),
    };
    const gate = new Gate();
    const queue = new Queue({ database: file, jobs: { gate: gate.handle }, env: {}, log });
    await queue.dispatch("gate");
    const forcing = new AbortController();
    const working = queue.work({ forceSignal: forcing.signal });
    await until(() => gate.inside === 1, "the job to run");
    const other = new DatabaseSync(file);
    other.exec("BEGIN IMMEDIATE");
    const pending = queue.dispatch("gate");
    const outcome = pending.catch((error: QueueError) => error.message);
    forcing.abort();
    // 2 s for the worker and 2 s for close(), where a call on its own waits 10 s for the lock.
    await soon(working.then(() => queue.close()), "the queue to close");
    assert.equal(
      await outcome,
      `queue: ${file}: another connection kept the database locked while the queue was closed`,
    );
    assert.match(
      lines.join("\n"),
      /locked while the queue was closed \(while handing back job gate \(id 1\)\)/,
    );
    other.exec("ROLLBACK");
    other.close();
    const later = new Queue({ database: file, jobs: {}, env: {} });
    assert.equal(await later.waiting(), 1, "what was refused was not stored, and the job is still there");
    await later.close();
  }));

test("close() is bounded though the file is locked while it is opened", () =>
  inFolder(async (folder) => {
    const file = `${folder}/queue.sqlite`;
    const other = new DatabaseSync(file);
    other.exec("BEGIN IMMEDIATE; CREATE TABLE t (x)");
    const queue = new Queue({ database: file, jobs: { a: () => {} }, env: {} });
    const outcome = queue.dispatch("a").catch((error: QueueError) => error.message);
    await soon(queue.close(), "the queue to close");
    assert.match(String(await outcome), /locked while the queue was closed/);
    other.close();
  }));
