/** What operators tell workers: pause, restart, cancel; and what jobs say of their progress. Time stands still. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Driver, type Job, type Progress, Queue, QueueError } from "@x/queue";
import { take } from "./conformance.ts";
import { changed, Gate, inSession, type Session } from "./session.ts";

/** What the events of a worker say. */
function told(worker: Awaited<ReturnType<Session["work"]>>): string[] {
  return worker.events.map(({ type, job, error }) =>
    `${job.name} ${type}${error === undefined ? "" : `: ${error}`}`
  );
}

/** Ends when its signal is aborted, with the reason, as `fetch` does. */
function obedient(job: Job): Promise<never> {
  return new Promise((_, reject) => {
    job.signal.addEventListener("abort", () => reject(job.signal.reason));
  });
}

function isConfig(part: string): (error: unknown) => boolean {
  return (error) => error instanceof QueueError && error.code === "CONFIG" && error.message.includes(part);
}

// Pausing

inSession("a paused queue's jobs wait, and what runs finishes", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatch("gate", "runs");
  const worker = await work(jobs, { concurrency: 2 });
  assert.equal(await jobs.pause("default"), true);
  await jobs.dispatch("gate", "waits");
  await jobs.dispatch("gate", "other", { queue: "other" });
  await clock.advance(5000);
  assert.deepEqual(gate.payloads, ["runs", "other"]);
  gate.open(2);
  await clock.until(() => worker.events.length === 4, "both to be done");
  await clock.advance(5000);
  assert.deepEqual(gate.payloads, ["runs", "other"]);
  assert.deepEqual(await jobs.paused(), { all: false, queues: ["default"] });
  assert.equal(await jobs.resume("default"), true);
  await clock.rest();
  assert.deepEqual(gate.payloads, ["runs", "other", "waits"], "at once");
});

inSession(
  "while all queues are paused a worker ends that stops when empty",
  async ({ queue, work, clock }) => {
    const ran: string[] = [];
    const jobs = await queue({ record: (job: Job) => void ran.push(job.payload) });
    await jobs.dispatch("record", "1");
    await jobs.pause();
    assert.deepEqual(await jobs.paused(), { all: true, queues: [] });
    const worker = await work(jobs, { stopWhenEmpty: true });
    await clock.until(() => worker.over, "the worker to end");
    assert.equal(await jobs.workOnce(), false, "workOnce finds nothing, either");
    assert.equal(await jobs.waiting(), 1);
    assert.equal(await jobs.resume(), true);
    assert.equal(await jobs.resume(), false);
    assert.equal(await jobs.workOnce(), true);
    assert.deepEqual(ran, ["1"]);
  },
);

inSession("what is no queue's name is refused", async ({ queue }) => {
  const jobs = await queue({});
  for (const name of ["", "a b", "a,b", "*", 7 as unknown as string, null as unknown as string]) {
    await assert.rejects(jobs.pause(name), isConfig("queue="), String(name));
    await assert.rejects(jobs.resume(name), isConfig("queue="), String(name));
  }
});

// Restarting

inSession("a restart ends the workers that run by then", async ({ clock, queue, work, lines }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  const idle = await work(jobs, { queues: ["idle"] });
  await jobs.dispatch("gate", "1");
  await jobs.dispatch("gate", "2");
  const busy = await work(jobs, { queues: ["default"] });
  await clock.advance(3000);
  assert.deepEqual([idle.over, busy.over], [false, false]);
  await jobs.restart();
  const later = await work(jobs, { queues: ["later"] });
  await clock.advance(2000);
  assert.deepEqual([idle.over, busy.over], [true, false], "one runs a job yet");
  gate.open();
  await clock.until(() => busy.over, "the busy one to end");
  assert.deepEqual(gate.payloads, ["1"], "it took nothing new");
  assert.equal(await jobs.waiting(), 1);
  await clock.advance(5000);
  assert.equal(later.over, false, "it started after the restart");
  assert.deepEqual(lines, Array(2).fill("warn queue: told to restart: ending after the running jobs"));
});

inSession("a restart hands back what was reserved with it", async (session) => {
  const { clock, queue, work } = session;
  const driver = session.driver(":memory:");
  const jobs = await queue({ job: () => assert.fail("it is not to run") }, {
    // The restart is counted between the worker's first look and the one that brings jobs.
    driver: changed(driver, {
      push: async (pushed, now) => {
        await driver.restart();
        return await driver.push(pushed, now);
      },
    }),
  });
  const worker = await work(jobs, { concurrency: 3 });
  await jobs.dispatch("job");
  await clock.until(() => worker.over, "the worker to end");
  const [held] = await take(driver, { now: null });
  assert.equal(held.attempt, 1, "no attempt was spent");
});

inSession("workers inside an app go on", async ({ clock, queue }) => {
  const ran: string[] = [];
  const jobs = await queue({ record: (job: Job) => void ran.push(job.payload) });
  const workers = jobs.start();
  await clock.rest();
  await jobs.restart();
  await clock.advance(3000);
  await jobs.dispatch("record", "1");
  await clock.until(() => ran.length === 1, "the job to run");
  await workers.stop();
});

// Cancelling

inSession("a running job is cancelled: aborted, and failed for good", async ({ clock, queue, work }) => {
  const reasons: unknown[] = [];
  const jobs = await queue({
    obedient: (job: Job) => {
      job.signal.addEventListener("abort", () => reasons.push((job.signal.reason as QueueError).code));
      return obedient(job);
    },
    other: obedient,
  });
  const { id } = await jobs.dispatch("obedient");
  await jobs.dispatch("other");
  const worker = await work(jobs, { concurrency: 2 });
  assert.equal(await jobs.cancel(id), "cancelling");
  await clock.advance(2000);
  assert.deepEqual(reasons, ["CANCELLED"]);
  assert.deepEqual(told(worker), ["obedient started", "other started", "obedient failed: cancelled"]);
  const [failed] = await jobs.failed();
  assert.deepEqual([failed.id, failed.error, failed.stack, failed.attempts], [id, "cancelled", null, 1]);
  assert.equal(await jobs.cancel(id), null, "it has failed");
  assert.deepEqual(await jobs.retry(id), [{ id, name: "obedient" }]);
  await clock.advance(3000);
  assert.equal(told(worker).at(-1), "obedient started", "retried, it is like any other");
});

inSession("a waiting job is removed", async ({ queue, clock }) => {
  const jobs = await queue({ job: () => assert.fail("it is not to run") });
  const { id } = await jobs.dispatch("job");
  const later = await jobs.dispatchLater("job", undefined, { hours: 1 });
  assert.equal(await jobs.cancel(Number(id)), "removed");
  assert.equal(await jobs.cancel(later.id), "removed");
  assert.equal(await jobs.cancel(id), null);
  assert.equal(await jobs.workOnce(clock.now + 4_000_000), false);
  assert.deepEqual(await jobs.failed(), []);
});

inSession("a cancelled job whose handler finishes is done", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  const { id } = await jobs.dispatch("gate");
  const worker = await work(jobs);
  await jobs.cancel(id);
  await clock.advance(2000);
  assert.equal(gate.came[0].signal.aborted, true);
  gate.open();
  await clock.until(() => worker.events.length === 2, "it to be done");
  assert.deepEqual(told(worker), ["gate started", "gate completed"]);
  assert.equal(await jobs.waiting(), 0);
});

inSession(
  "a cancelled job is settled 5 s later though its handler goes on, and its slot stays taken",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: gate.handle });
    const { id } = await jobs.dispatch("gate", "1");
    await jobs.dispatch("gate", "2");
    const worker = await work(jobs);
    await jobs.cancel(id);
    await clock.advance(5000);
    assert.deepEqual(told(worker), ["gate started"], "it has 5 s from the abort on");
    await clock.advance(1000);
    assert.deepEqual(told(worker), ["gate started", "gate failed: cancelled"]);
    assert.equal((await jobs.failed())[0].id, id);
    await clock.advance(5000);
    assert.deepEqual(gate.payloads, ["1"]);
    gate.open();
    await clock.until(() => gate.came.length === 2, "the slot to be free");
  },
);

inSession("a cancelled job that timed out is not tried again", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: { timeout: 1500, handle: gate.handle } });
  const { id } = await jobs.dispatch("gate");
  const worker = await work(jobs);
  await jobs.cancel(id);
  await clock.advance(10_000);
  assert.deepEqual(told(worker), ["gate started", "gate failed: cancelled"]);
  gate.open();
});

inSession("a cancelled job whose worker died is failed without being run", async (session) => {
  const { clock, queue, work, lines } = session;
  const driver = session.driver(session.file);
  const jobs = await queue({ job: () => assert.fail("it is not to run") }, { database: session.file });
  const { id } = await jobs.dispatch("job");
  await take(driver, { now: null });
  assert.equal(await jobs.cancel(id), "cancelling");
  await clock.advance(90_001);
  const worker = await work(jobs);
  await clock.until(() => worker.events.length === 1, "it to be failed");
  assert.deepEqual(told(worker), ["job failed: cancelled"], "and never started");
  assert.equal((await jobs.failed())[0].error, "cancelled");
  assert.deepEqual(lines, ["error queue: job job failed after 2 attempts: cancelled"]);
});

inSession(
  "a job that failed by itself before its worker heard is not tried again",
  async ({ queue, clock }) => {
    let runs = 0;
    const jobs: Queue = await queue({
      job: async (job: Job) => {
        runs++;
        await jobs.cancel(job.id);
        throw new Error("by itself");
      },
    });
    await jobs.dispatch("job");
    assert.equal(await jobs.workOnce(clock.now), true);
    assert.deepEqual(await jobs.failed(), []);
    assert.equal(await jobs.workOnce(clock.now + 10_000), true);
    assert.equal(runs, 1);
    assert.equal((await jobs.failed())[0].error, "cancelled");
  },
);

inSession("a job of workOnce is cancelled, too", async ({ clock, queue }) => {
  const jobs = await queue({ obedient });
  const { id } = await jobs.dispatch("obedient");
  const working = jobs.workOnce();
  await clock.rest();
  await jobs.cancel(id);
  await clock.advance(2000);
  assert.equal(await working, true);
  assert.equal((await jobs.failed())[0].error, "cancelled");
});

inSession("a worker that stops at once leaves a cancelled job to be failed by another", async (session) => {
  const { queue, work, clock } = session;
  const jobs = await queue({ obedient });
  const { id } = await jobs.dispatch("obedient");
  const first = await work(jobs);
  await jobs.cancel(id);
  await first.force();
  assert.equal(await jobs.waiting(), 1, "handed back");
  const second = await work(jobs);
  await clock.until(() => second.events.length === 1, "it to be failed");
  assert.deepEqual(told(second), ["obedient failed: cancelled"]);
});

inSession("a store that is down while workers are told is logged once, and asked again", async (session) => {
  const { clock, queue, work, lines } = session;
  const driver = session.driver(":memory:");
  let down = true;
  const jobs = await queue({ obedient }, {
    driver: changed(driver, {
      controls: () => down ? Promise.reject(new QueueError("DB", "the disk is away")) : driver.controls(),
    }),
  });
  const { id } = await jobs.dispatch("obedient");
  const worker = await work(jobs);
  await jobs.cancel(id);
  await clock.advance(5000);
  assert.deepEqual(lines, ["error queue: the disk is away (while asking what workers are told)"]);
  down = false;
  await clock.advance(1000);
  assert.deepEqual(told(worker), ["obedient started", "obedient failed: cancelled"]);
});

// Progress

/** A driver that notes what it was told to keep; `down` makes it fail. */
function noting(
  driver: Driver,
): { driver: Driver; kept: [fraction: number, note: string | null][]; down: boolean } {
  const noted = {
    kept: [] as [number, string | null][],
    down: false,
    driver: changed(driver, {
      report: (held, how, life, now) => {
        if (noted.down) return Promise.reject(new QueueError("DB", "the disk is away"));
        noted.kept.push([how.fraction, how.note]);
        return driver.report(held, how, life, now);
      },
    }),
  };
  return noted;
}

/** Runs one job that is told by the test what to report, and when to end. */
async function reporting(session: Session, options: { retryAfter?: number } = {}) {
  const noted = noting(session.driver(":memory:"));
  let job!: Job;
  let end!: () => void;
  const jobs = await session.queue({
    job: (given: Job) => {
      job = given;
      return new Promise<void>((resolve) => end = resolve);
    },
  }, { driver: noted.driver, ...options });
  const { id } = await jobs.dispatch("job");
  const worker = await session.work(jobs);
  return {
    noted,
    job,
    worker,
    end: () => end(),
    progress: (): Promise<Progress | null> => jobs.progress(id),
  };
}

inSession("a job's progress is stored at once, then each second, the latest word", async (session) => {
  const { clock } = session;
  const { noted, job, worker, end, progress } = await reporting(session);
  assert.equal(await progress(), null);
  for (const fraction of [0, 0.1, 0.2]) job.progress(fraction, `at ${fraction}`);
  await clock.rest();
  assert.deepEqual(noted.kept, [[0, "at 0"]]);
  assert.deepEqual(await progress(), { fraction: 0, note: "at 0", at: clock.now });
  await clock.advance(999);
  job.progress(0.3);
  await clock.advance(1);
  assert.deepEqual(noted.kept.slice(1), [[0.3, null]]);
  await clock.advance(10_000);
  assert.equal(noted.kept.length, 2, "nothing new was said");
  job.progress(0.4);
  job.progress(0.9);
  end();
  await clock.until(() => worker.events.length === 2, "the job to be done");
  await clock.advance(5000);
  assert.deepEqual(noted.kept.slice(2), [[0.4, null]], "after its end, nothing is stored");
  job.progress(1);
  await clock.advance(5000);
  assert.equal(noted.kept.length, 3);
  assert.equal(await progress(), null);
});

inSession("what a job says first after its end is not stored", async (session) => {
  const { clock } = session;
  const { noted, job, worker, end } = await reporting(session);
  end();
  await clock.until(() => worker.events.length === 2, "the job to be done");
  job.progress(1);
  await clock.advance(5000);
  assert.deepEqual(noted.kept, []);
});

inSession("what a job that is silent since said is stored once, and keeps its time", async (session) => {
  const { clock } = session;
  const { noted, job, progress } = await reporting(session, { retryAfter: 30_000 });
  job.progress(0.5, "half");
  await clock.rest();
  const at = clock.now;
  await clock.advance(60_000);
  assert.deepEqual(noted.kept, [[0.5, "half"]]);
  assert.deepEqual(await progress(), { fraction: 0.5, note: "half", at });
});

inSession(
  "a store that is down fails no handler: it is logged once, and the last word is stored later",
  async (session) => {
    const { clock, lines } = session;
    const { noted, job, end, worker, progress } = await reporting(session);
    noted.down = true;
    for (const fraction of [0.1, 0.2, 0.3]) {
      job.progress(fraction);
      await clock.advance(2000);
    }
    const [line, ...more] = lines;
    assert.match(line, /^error queue: the disk is away \(while storing the progress of job job, id \d+\)$/);
    assert.deepEqual(more, []);
    noted.down = false;
    await clock.advance(1000);
    assert.deepEqual(noted.kept, [[0.3, null]]);
    assert.equal((await progress())?.fraction, 0.3);
    end();
    await clock.until(() => worker.events.length === 2, "the job to be done");
    assert.deepEqual(told(worker), ["job started", "job completed"]);
  },
);

inSession("what is no fraction, or no note, is refused by name", async (session) => {
  const { job, noted, clock } = await reporting(session).then((all) => ({ ...all, clock: session.clock }));
  for (const wrong of [-0.1, 1.1, NaN, Infinity, "0.5", null, undefined, true]) {
    assert.throws(() => job.progress(wrong as number), isConfig("fraction="), String(wrong));
  }
  for (const wrong of [7, null, {}]) {
    assert.throws(() => job.progress(0.5, wrong as unknown as string), isConfig("note="), String(wrong));
  }
  await clock.rest();
  assert.deepEqual(noted.kept, []);
  const { progress } = job;
  progress(0, "x".repeat(999) + "\u{1f600}");
  await clock.rest();
  assert.deepEqual(noted.kept, [[0, "x".repeat(999) + "\ufffd"]], "1,000 characters of a note are kept");
});

test("without a worker a job has no progress, and an unknown id neither", async () => {
  const queue = new Queue({ database: ":memory:", env: {}, jobs: { job: () => {} } });
  const { id } = await queue.dispatch("job");
  for (const one of [id, Number(id), "x", 99]) assert.equal(await queue.progress(one), null);
  await queue.close();
});
