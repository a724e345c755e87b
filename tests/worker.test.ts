/** Workers: slots, waking, queues, limits, stopping. Time stands still unless a test moves it, so no poll helps out. */
import assert from "node:assert/strict";
import { unlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate } from "node:timers";
import { type Job, Queue, QueueError } from "@x/queue";
import type { Settlement } from "../core/driver.ts";
import { withPrograms } from "./process.ts";
import { changed, Gate, inSession, numbered, type Session } from "./session.ts";

/** A handler that writes down what it ran. */
function recorder(): { ran: string[]; record(job: Job): void } {
  const ran: string[] = [];
  return { ran, record: (job) => void ran.push(job.payload) };
}

/** The jobs as the store has them. */
function stored(db: DatabaseSync): { payload: string; attempts: number; held: boolean }[] {
  return db.prepare("SELECT payload, attempts, reserved_at FROM jobs ORDER BY id").all().map((row) => ({
    payload: row.payload as string,
    attempts: Number(row.attempts),
    held: row.reserved_at !== null,
  }));
}

/** What a job that never ran, or was handed back, looks like. */
function untouched(payload: string): { payload: string; attempts: number; held: boolean } {
  return { payload, attempts: 0, held: false };
}

// Slots

inSession("as many jobs run at a time as there are slots, and no more", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatchMany(numbered(10).map((payload) => ["gate", payload]));
  const worker = await work(jobs, { concurrency: 3 });
  assert.deepEqual(gate.payloads, ["0", "1", "2"]);
  for (let done = 1; done <= 7; done++) {
    gate.open();
    await clock.rest();
    assert.equal(gate.inside, 3, `${done} have ended`);
  }
  gate.open(3);
  await clock.until(() => worker.events.length === 20, "the last to be done");
  assert.deepEqual(gate.payloads, numbered(10));
  assert.equal(gate.most, 3);
  assert.equal(await jobs.waiting(), 0);
});

inSession(
  "jobs run one at a time, in the order of their dispatch, unless told otherwise",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: gate.handle });
    for (const payload of numbered(5)) await jobs.dispatch("gate", payload);
    await work(jobs);
    for (const payload of numbered(5)) {
      await clock.rest();
      assert.equal(gate.payloads.at(-1), payload);
      gate.open();
    }
    assert.equal(gate.most, 1);
  },
);

inSession("a job that comes while slots are free runs beside the others", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await work(jobs, { concurrency: 3 });
  for (const payload of numbered(5)) {
    await jobs.dispatch("gate", payload);
    await clock.rest();
  }
  assert.deepEqual(gate.payloads, ["0", "1", "2"]);
  gate.open(2);
  await clock.until(() => gate.came.length === 5, "the freed slots to be filled");
});

inSession("of two workers on one queue each has slots of its own", async ({ queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatchMany(numbered(9).map((payload) => ["gate", payload]));
  await work(jobs, { concurrency: 2 });
  await work(jobs, { concurrency: 3 });
  assert.deepEqual(gate.payloads, numbered(5));
});

inSession("2,000 jobs on 50 slots run once each", async ({ queue, work }) => {
  const runs = new Map<string, number>();
  const jobs = await queue({
    count: async (job: Job) => {
      await Promise.resolve();
      runs.set(job.payload, (runs.get(job.payload) ?? 0) + 1);
    },
  });
  await jobs.dispatchMany(numbered(2000).map((payload) => ["count", payload]));
  await (await work(jobs, { concurrency: 50, stopWhenEmpty: true })).ended;
  assert.equal(runs.size, 2000);
  assert.deepEqual([...runs.values()].filter((times) => times !== 1), []);
});

/** Runs 200 prefetched jobs of `cost` milliseconds in one slot, and tells how many ran in each turn of the event loop. */
async function turnsOf({ clock, queue, work }: Session, cost: number): Promise<number[]> {
  const turns = [0];
  const { ran, record } = recorder();
  let over = false;
  const turn = (): void => {
    if (turns.at(-1) !== 0) turns.push(0);
    if (!over) setImmediate(turn);
  };
  const jobs = await queue({
    record: (job: Job) => {
      record(job);
      turns[turns.length - 1]++;
      clock.spend(cost);
    },
  });
  await jobs.dispatchMany(numbered(200).map((payload) => ["record", payload]));
  turn();
  try {
    await (await work(jobs, { prefetch: 100, stopWhenEmpty: true })).ended;
  } finally {
    over = true;
  }
  assert.deepEqual(ran, numbered(200));
  return turns;
}

inSession("short jobs that were prefetched share a turn of the event loop, up to 25", async (session) => {
  const turns = await turnsOf(session, 0);
  assert.equal(Math.max(...turns) > 10, true, `${turns}`);
  // One or two more begin it, in a slot that was free.
  assert.equal(Math.max(...turns) <= 27, true, `${turns}`);
});

inSession("jobs that were prefetched leave a turn to others after 5 ms", async (session) => {
  assert.equal(Math.max(...await turnsOf(session, 2)) <= 4, true);
});

inSession("jobs that were prefetched and compute for long have a turn each", async (session) => {
  assert.equal(Math.max(...await turnsOf(session, 30)) <= 2, true);
});

inSession("what was prefetched runs one at a time in one slot", async ({ queue, work }) => {
  let [inside, most, ran] = [0, 0, 0];
  const jobs = await queue({
    brief: async () => {
      most = Math.max(most, ++inside);
      await Promise.resolve();
      inside--;
      ran++;
    },
  });
  await jobs.dispatchMany(numbered(500).map((payload) => ["brief", payload]));
  await (await work(jobs, { prefetch: 100, stopWhenEmpty: true })).ended;
  assert.deepEqual([most, ran], [1, 500]);
});

inSession("a limit of jobs holds where more were prefetched", async ({ queue, work }) => {
  const { ran, record } = recorder();
  const jobs = await queue({ record });
  await jobs.dispatchMany(numbered(200).map((payload) => ["record", payload]));
  await (await work(jobs, { prefetch: 100, maxJobs: 77 })).ended;
  assert.deepEqual(ran, numbered(77));
  assert.equal(await jobs.waiting(), 123);
});

// Waking. The clock stands still: none of these waits for the poll.

inSession("a dispatch wakes an idle worker of the same queue", async ({ clock, queue, work }) => {
  const { ran, record } = recorder();
  const jobs = await queue({ record });
  await work(jobs);
  for (const payload of numbered(3)) {
    await jobs.dispatch("record", payload);
    await clock.until(() => ran.includes(payload), "the job to run");
  }
});

inSession("a job that a handler dispatches runs next", async ({ clock, queue, work }) => {
  const { ran, record } = recorder();
  const jobs: Queue = await queue({
    record,
    parent: async (): Promise<void> => void await jobs.dispatch("record", "child"),
  });
  await work(jobs);
  await jobs.dispatch("parent");
  await clock.until(() => ran.length === 1, "the child to run");
});

/** Well after the real time, so that what another process dispatches is due already. */
const ahead = (): number => Date.now() + 600_000;

inSession("a dispatch of another process wakes an idle worker", async ({ clock, queue, work, file }) => {
  const { ran, record } = recorder();
  const jobs = await queue({ record }, { database: file });
  await work(jobs);
  clock.short = 50;
  await withPrograms(async (start) => {
    // Those after the first are dispatched while the worker sleeps, or it would not run them one after another.
    const dispatcher = start("dispatcher", { database: file, jobs: 20 });
    await clock.until(() => ran.length === 20, "the jobs to run");
    assert.equal(await dispatcher.ended, 0, dispatcher.errors);
  });
  assert.deepEqual(ran, numbered(20));
}, { now: ahead });

inSession(
  "two queues work one file: a dispatch through one wakes the worker of the other",
  async (session) => {
    const { clock, file } = session;
    const { ran, record } = recorder();
    const other = recorder();
    const one = await session.queue({ record }, { database: file });
    const two = await session.queue({ record: other.record }, { database: file });
    await session.work(two);
    const { id } = await one.dispatch("record", "p");
    await clock.until(() => other.ran.length === 1, "the other to run it");
    await clock.until(async () => await one.waiting() === 0, "its settlement");
    assert.notEqual((await two.dispatch("record", "q")).id, id);
    await clock.until(() => other.ran.length === 2, "its own to run");
    assert.deepEqual(ran, []);
  },
);

inSession(
  "what a program stores that rings no bell is found within a second",
  async ({ clock, queue, work }) => {
    const { ran, record } = recorder();
    const db = new DatabaseSync(":memory:");
    const jobs = await queue({ record }, { database: db });
    await work(jobs);
    db.prepare("INSERT INTO jobs (name, payload, available_at) VALUES ('record', 'p', 0)").run();
    await clock.rest();
    assert.deepEqual(ran, [], "nobody knows of it yet");
    await clock.advance(1000);
    assert.deepEqual(ran, ["p"]);
  },
);

inSession("a delay is kept to the millisecond", async ({ clock, queue, work }) => {
  const { ran, record } = recorder();
  const jobs = await queue({ record });
  await work(jobs);
  await jobs.dispatch("record", "soon", { delay: 250 });
  await jobs.dispatchLater("record", "later", { minutes: 2, seconds: 0.125 });
  await clock.advance(249);
  assert.deepEqual(ran, []);
  await clock.advance(1);
  assert.deepEqual(ran, ["soon"]);
  await clock.advance(119_874);
  assert.deepEqual(ran, ["soon"]);
  await clock.advance(1);
  assert.deepEqual(ran, ["soon", "later"]);
});

inSession(
  "a worker that sleeps towards a job wakes for one that is due before",
  async ({ clock, queue, work }) => {
    const { ran, record } = recorder();
    const jobs = await queue({ record });
    await work(jobs);
    await jobs.dispatch("record", "later", { delay: 900 });
    await clock.advance(100);
    await jobs.dispatch("record", "sooner", { delay: 200 });
    await clock.advance(200);
    assert.deepEqual(ran, ["sooner"]);
    await clock.advance(600);
    assert.deepEqual(ran, ["sooner", "later"]);
  },
);

inSession(
  "a job that is due in 50 days wakes nobody before, and then does",
  async ({ clock, queue, work }) => {
    const { record } = recorder();
    const driver = changed(
      new (await import("../drivers/sqlite.ts")).SqliteDriver({ database: ":memory:" }),
      {},
    );
    const jobs = await queue({ record }, { driver });
    const now = clock.now;
    await jobs.dispatch("record", "p", { delay: { days: 50 } });
    const worker = await work(jobs, { maxTime: { days: 51 } });
    await clock.advance(3000);
    assert.equal(await jobs.workOnce(now + 50 * 86_400_000 - 1), false);
    assert.equal(await jobs.workOnce(now + 50 * 86_400_000), true);
    assert.equal(worker.over, false, "a maxTime beyond 24.8 days has not passed at once");
  },
);

inSession("a retry of a failed job wakes an idle worker", async ({ clock, queue, work }) => {
  let broken = true;
  const { ran, record } = recorder();
  const jobs = await queue({
    mend: (job: Job) => {
      if (broken) throw new Error("broken");
      record(job);
    },
  }, { tries: 1 });
  const { id } = await jobs.dispatch("mend", "p");
  await work(jobs);
  assert.equal((await jobs.failed()).length, 1);
  broken = false;
  assert.deepEqual(await jobs.retry(id), [{ id, name: "mend" }]);
  await clock.until(() => ran.length === 1, "the job to run");
});

inSession("an attempt that is to be made at once is made at once", async ({ clock, queue, work }) => {
  const attempts: number[] = [];
  const jobs = await queue({
    stubborn: (job: Job) => {
      attempts.push(job.attempt);
      throw new Error("no");
    },
  }, { backoff: 0, tries: 4 });
  await work(jobs);
  await jobs.dispatch("stubborn");
  await clock.until(async () => (await jobs.failed()).length === 1, "the last attempt");
  assert.deepEqual(attempts, [1, 2, 3, 4]);
});

// Queues

inSession(
  "queues in strict order: the next one only while those before it are empty",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: gate.handle });
    const dispatch = (on: string, ...payloads: string[]): Promise<unknown> =>
      jobs.dispatchMany(payloads.map((payload) => ["gate", payload, { queue: on }]));
    await dispatch("low", "l1", "l2");
    await dispatch("middle", "m1", "m2");
    await dispatch("high", "h1", "h2");
    await work(jobs, { queues: "high, middle,low" });
    const next = async (): Promise<void> => {
      gate.open();
      await clock.rest();
    };
    await next();
    await next();
    assert.deepEqual(gate.payloads, ["h1", "h2", "m1"]);
    await dispatch("high", "h3");
    for (let more = 0; more < 4; more++) await next();
    assert.deepEqual(gate.payloads, ["h1", "h2", "m1", "h3", "m2", "l1", "l2"]);
  },
);

inSession("queues in strict order fill several slots from one reservation", async ({ queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatchMany(numbered(3, "low").map((payload) => ["gate", payload, { queue: "low" }]));
  await jobs.dispatchMany(numbered(2, "high").map((payload) => ["gate", payload, { queue: "high" }]));
  await work(jobs, { queues: ["high", "low"], concurrency: 4 });
  assert.deepEqual(gate.payloads, ["high0", "high1", "low0", "low1"]);
});

/** Runs 60 jobs of each queue, and returns of which queue they were, in order. */
async function order(
  { queue, work }: Session,
  names: readonly string[],
  options: Parameters<Session["work"]>[1],
): Promise<string[]> {
  const ran: string[] = [];
  const jobs = await queue({ record: (job: Job) => void ran.push(job.queue) });
  for (const name of names) {
    await jobs.dispatchMany(numbered(60).map((payload) => ["record", payload, { queue: name }]));
  }
  await (await work(jobs, { stopWhenEmpty: true, ...options })).ended;
  assert.equal(ran.length, 60 * names.length);
  return ran;
}

function howMany(ran: readonly string[], name: string): number {
  return ran.filter((one) => one === name).length;
}

for (const concurrency of [1, 4]) {
  inSession(
    `weighted queues share ${concurrency === 1 ? "one slot" : "four slots"} by their weights`,
    async (session) => {
      const ran = await order(session, ["low", "high"], { queues: "high:3,low:1", concurrency });
      for (let from = 0; from < 80; from += 4) {
        assert.equal(howMany(ran.slice(from, from + 4), "high"), 3, `jobs ${from} to ${from + 3}`);
      }
      assert.deepEqual(new Set(ran.slice(80)), new Set(["low"]), "what is left");
    },
  );
}

inSession("a queue of little weight does not starve", async (session) => {
  const ran = await order(session, ["high", "low"], { queues: { high: 29, low: 1 } });
  for (let from = 0; from < 60; from += 30) {
    assert.equal(howMany(ran.slice(from, from + 30), "low"), 1, `jobs ${from} to ${from + 29}`);
  }
});

inSession("a weighted queue takes what the others leave", async (session) => {
  const ran = await order(session, ["low"], { queues: { high: 999, low: 1 }, concurrency: 4 });
  assert.equal(ran.length, 60);
});

inSession("without a choice every queue is served, and none starves", async (session) => {
  const ran = await order(session, ["default", "a", "b"], {});
  for (let from = 3; from < 177; from += 3) {
    const names = new Set(ran.slice(from, from + 3));
    assert.equal(names.size, 3, `jobs ${from} to ${from + 2}: ${[...names]}`);
  }
});

inSession(
  "a queue that is first seen while a worker idles is served, too",
  async ({ clock, queue, work }) => {
    const { ran, record } = recorder();
    const jobs = await queue({ record });
    await work(jobs);
    await jobs.dispatch("record", "p", { queue: "brand-new" });
    await clock.until(() => ran.length === 1, "the job to run");
    await jobs.dispatch("record", "later", { queue: "newer", delay: 300 });
    await clock.advance(300);
    assert.deepEqual(ran, ["p", "later"]);
  },
);

inSession(
  "a queue that is first seen while every slot is busy gets its share",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: gate.handle });
    await jobs.dispatchMany(numbered(50).map((payload) => ["gate", payload]));
    await work(jobs);
    await jobs.dispatch("gate", "new", { queue: "brand-new" });
    for (let turn = 0; turn < 50 && !gate.payloads.includes("new"); turn++) {
      gate.open();
      // Each turn takes a while: a worker that looks at its queues once a second has its chance.
      await clock.advance(1000);
    }
    assert.equal(gate.payloads.includes("new"), true);
    assert.equal(gate.payloads.length < 20, true, `it ran after ${gate.payloads.length} others`);
  },
);

inSession("a worker takes nothing from queues that it was not given", async ({ clock, queue, work }) => {
  const { ran, record } = recorder();
  const jobs = await queue({ record });
  await jobs.dispatch("record", "theirs", { queue: "theirs" });
  await jobs.dispatch("record", "default");
  const worker = await work(jobs, { queues: ["mine"] });
  await clock.advance(10_000);
  await jobs.dispatch("record", "mine", { queue: "mine" });
  await clock.until(() => ran.length === 1, "its own to run");
  await worker.stop();
  assert.deepEqual(ran, ["mine"]);
  assert.equal(await jobs.waiting(), 2);
});

inSession(
  "a job has the queue and the priority of its type, or those of its dispatch",
  async ({ queue, work }) => {
    const ran: unknown[] = [];
    const handle = (job: Job): void => void ran.push([job.payload, job.queue, job.priority]);
    const jobs = await queue({ plain: handle, mail: { handle, queue: "mail", priority: 5 } });
    await jobs.dispatch("plain", "1");
    await jobs.dispatch("mail", "2", { priority: -1 });
    await jobs.dispatch("mail", "3");
    await jobs.dispatch("plain", "4", { queue: "mail" });
    await jobs.dispatch("plain", "5", { priority: 100 });
    await jobs.dispatch("mail", "6", { queue: "default", priority: -100 });
    await jobs.dispatch("mail", "7");
    await (await work(jobs, { queues: "mail,default", stopWhenEmpty: true })).ended;
    assert.deepEqual(ran, [
      ["3", "mail", 5],
      ["7", "mail", 5],
      ["4", "mail", 0],
      ["2", "mail", -1],
      ["5", "default", 100],
      ["1", "default", 0],
      ["6", "default", -100],
    ]);
  },
);

inSession(
  "queue and priority are kept through retries, failure and queue.retry",
  async ({ clock, queue, work }) => {
    const ran: unknown[] = [];
    const jobs = await queue({
      flaky: (job: Job) => {
        ran.push([job.attempt, job.queue, job.priority]);
        throw new Error("no");
      },
    }, { tries: 2 });
    const { id } = await jobs.dispatch("flaky", "p", { queue: "mail", priority: 7 });
    await work(jobs, { queues: "mail" });
    await clock.advance(10_000);
    const [failed] = await jobs.failed();
    assert.deepEqual([failed.id, failed.queue, failed.priority, failed.attempts], [id, "mail", 7, 2]);
    await jobs.retry("all");
    await clock.advance(10_000);
    assert.deepEqual(ran, [[1, "mail", 7], [2, "mail", 7], [1, "mail", 7], [2, "mail", 7]]);
  },
);

// Limits

inSession(
  "stopWhenEmpty ends a worker once nothing is due and nothing runs",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs: Queue = await queue({
      gate: gate.handle,
      parent: async (): Promise<void> => void await jobs.dispatch("gate", "child", { queue: "brand-new" }),
    });
    await jobs.dispatch("parent");
    await jobs.dispatch("gate", "delayed", { delay: 1 });
    const worker = await work(jobs, { concurrency: 2, stopWhenEmpty: true });
    assert.deepEqual(gate.payloads, ["child"]);
    assert.equal(worker.over, false, "one runs");
    gate.open();
    await worker.ended;
    assert.equal(await jobs.waiting(), 1, "the delayed one");
    await clock.advance(1);
    const next = await work(jobs, { stopWhenEmpty: true });
    gate.open();
    await next.ended;
    assert.equal(await jobs.waiting(), 0);
    await (await work(jobs, { stopWhenEmpty: true })).ended;
  },
);

inSession(
  "stopWhenEmpty makes the attempts that are due at once, and leaves those that are not",
  async ({ queue, work }) => {
    const fail = (): never => {
      throw new Error("no");
    };
    const jobs = await queue({ now: { handle: fail, backoff: 0 }, later: { handle: fail, backoff: 1 } });
    await jobs.dispatchMany([["later"], ["now"]]);
    await (await work(jobs, { stopWhenEmpty: true, concurrency: 2 })).ended;
    assert.deepEqual((await jobs.failed()).map(({ name }) => name), ["now"]);
    assert.equal(await jobs.waiting(), 1);
  },
);

for (const { concurrency, prefetch } of [{ concurrency: 1, prefetch: 0 }, { concurrency: 4, prefetch: 10 }]) {
  inSession(
    `maxJobs starts exactly so many jobs, on ${concurrency} slots with a prefetch of ${prefetch}`,
    async (session) => {
      const db = new DatabaseSync(":memory:");
      const { ran, record } = recorder();
      const jobs = await session.queue({ record }, { database: db });
      await jobs.dispatchMany(numbered(100).map((payload) => ["record", payload]));
      await (await session.work(jobs, { concurrency, prefetch, maxJobs: 50 })).ended;
      assert.deepEqual(ran, numbered(50));
      assert.deepEqual(stored(db), numbered(100).slice(50).map(untouched));
    },
  );
}

inSession("maxJobs waits for those that run", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatchMany(numbered(9).map((payload) => ["gate", payload]));
  const worker = await work(jobs, { concurrency: 3, maxJobs: 5 });
  gate.open(2);
  await clock.rest();
  gate.open(2);
  await clock.rest();
  assert.equal(worker.over, false, "one runs");
  gate.open();
  await worker.ended;
  assert.deepEqual(gate.payloads, numbered(5));
  assert.equal(await jobs.waiting(), 4);
});

inSession("maxTime ends a worker, after the jobs that run", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatchMany(numbered(2).map((payload) => ["gate", payload]));
  const worker = await work(jobs, { maxTime: { minutes: 1 } });
  await clock.advance(59_999);
  assert.equal(worker.over, false);
  await clock.advance(1);
  gate.open();
  await worker.ended;
  assert.deepEqual(gate.payloads, ["0"]);
});

inSession("maxTime ends an idle worker", async ({ clock, queue, work }) => {
  const worker = await work(await queue({}), { maxTime: 1500 });
  await clock.advance(1499);
  assert.equal(worker.over, false);
  await clock.advance(1);
  await worker.ended;
});

// Prefetch

/** A worker that had quick jobs, and is stuck in a slow one: with a prefetch, it holds some that it did not start. */
async function stuck({ clock, queue, work }: Session, prefetch: number): Promise<{
  db: DatabaseSync;
  jobs: Queue;
  gate: Gate;
  worker: Awaited<ReturnType<Session["work"]>>;
  holds(): number;
}> {
  const db = new DatabaseSync(":memory:");
  const gate = new Gate();
  const jobs: Queue = await queue({ gate: gate.handle, quick: () => {} }, { database: db });
  await jobs.dispatchMany(numbered(40).map((payload) => ["quick", payload]));
  await jobs.dispatchMany(numbered(100, "gate").map((payload) => ["gate", payload]));
  const worker = await work(jobs, { prefetch });
  const holds = (): number => stored(db).filter(({ held }) => held).length;
  // Time stands still, so the slow ones are quick, too; it may have come to the end of a batch.
  for (let ended = 0; ended < 20; ended++) {
    await clock.until(() => gate.inside > 0, "it to be stuck");
    await clock.rest();
    if (prefetch === 0 || holds() > 2) break;
    gate.open();
    await clock.rest();
  }
  return { db, jobs, gate, worker, holds };
}

inSession("prefetch holds jobs beyond the slots, no more than it may", async (session) => {
  const { gate, holds } = await stuck(session, 10);
  assert.equal(holds() > 2, true, "it holds more than it runs");
  let most = 0;
  for (let ended = 0; ended < 30; ended++) {
    most = Math.max(most, holds());
    gate.open();
    await session.clock.rest();
  }
  assert.equal(most <= 11, true, `it held ${most}`);
  assert.equal(gate.most, 1, "and ran one at a time");
});

inSession("without prefetch nothing is held beyond the slots", async (session) => {
  const { holds } = await stuck(session, 0);
  assert.equal(holds(), 1);
});

inSession("prefetch leaves jobs that ran before to workers that have a free slot", async (session) => {
  const { clock } = session;
  const db = new DatabaseSync(":memory:");
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle, quick: () => {} }, { database: db });
  await jobs.dispatchMany(numbered(40).map((payload) => ["quick", payload]));
  await jobs.dispatchMany(numbered(6).map((payload) => ["gate", payload]));
  db.exec("UPDATE jobs SET attempts = 1 WHERE name = 'gate' AND payload IN ('2', '4')");
  await session.work(jobs, { concurrency: 1, prefetch: 100 });
  await clock.until(() => gate.came.length > 0, "it to be stuck");
  const held = stored(db).filter(({ held }) => held).map(({ payload }) => payload);
  assert.deepEqual(held, ["0", "1", "3", "5"]);
});

inSession("prefetched jobs run in their turn, once", async (session) => {
  const { jobs, gate } = await stuck(session, 10);
  for (let ended = gate.came.length; ended < 100; ended++) {
    gate.open();
    await session.clock.until(() => gate.came.length === ended + 1, "the next");
  }
  gate.open();
  await session.clock.until(async () => await jobs.waiting() === 0, "the last");
  assert.deepEqual(gate.payloads, numbered(100, "gate"));
});

inSession("prefetch stops while jobs are slow", async (session) => {
  const { clock } = session;
  const { gate, holds } = await stuck(session, 10);
  for (let ended = 0; ended < 40; ended++) {
    await clock.advance(100);
    gate.open();
    await clock.rest();
  }
  assert.equal(holds(), 1);
});

inSession(
  "prefetched jobs are handed back on stop, without costing an attempt or their place",
  async (session) => {
    const { db, gate, worker, holds } = await stuck(session, 10);
    const stopping = worker.stop();
    await session.clock.until(() => holds() === 1, "them to be handed back");
    assert.equal(worker.over, false, "one runs");
    gate.open();
    await stopping;
    const rest = numbered(100, "gate").slice(gate.came.length);
    assert.deepEqual(stored(db), rest.map(untouched));
    const other = new Gate();
    await session.work(await session.queue({ gate: other.handle }, { database: db }));
    assert.deepEqual(other.payloads, rest.slice(0, 1));
  },
);

// Stopping

inSession(
  "a worker that is told to stop finishes what runs, and takes no more",
  async ({ clock, queue, work }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: gate.handle });
    await jobs.dispatchMany(numbered(5).map((payload) => ["gate", payload]));
    const worker = await work(jobs, { concurrency: 2 });
    const stopping = worker.stop();
    await jobs.dispatch("gate", "late");
    gate.open();
    await clock.advance(5000);
    assert.equal(worker.over, false, "one runs");
    assert.equal(gate.came[1].signal.aborted, false);
    gate.open();
    await stopping;
    assert.deepEqual(gate.payloads, ["0", "1"]);
    assert.deepEqual(worker.events.map(({ type }) => type), ["started", "started", "completed", "completed"]);
    assert.equal(await jobs.waiting(), 4);
  },
);

inSession("a worker that was told to stop before it began takes nothing", async ({ queue, work }) => {
  for (const option of ["signal", "forceSignal"]) {
    const { ran, record } = recorder();
    const jobs = await queue({ record });
    await jobs.dispatch("record", "p");
    await (await work(jobs, { [option]: AbortSignal.abort() })).ended;
    assert.deepEqual(ran, [], option);
    assert.equal((await jobs.counts())[0].ready, 1, option);
  }
});

inSession("an idle worker stops at once", async ({ queue, work }) => {
  const jobs = await queue({});
  await (await work(jobs)).stop();
  await (await work(jobs)).force();
});

inSession(
  "a worker that is told to stop at once aborts what runs, and hands it back unspent",
  async (session) => {
    const db = new DatabaseSync(":memory:");
    const gate = new Gate();
    const jobs = await session.queue({ gate: gate.handle }, { database: db });
    await jobs.dispatchMany(numbered(3).map((payload) => ["gate", payload]));
    const worker = await session.work(jobs, { concurrency: 2 });
    const { signal } = gate.came[0];
    await worker.force();
    for (const reason of [signal.reason, gate.came[1].signal.reason]) {
      assert.equal(reason instanceof QueueError && reason.code, "STOPPED");
    }
    assert.deepEqual(stored(db), ["0", "1", "2"].map(untouched));
    assert.equal(gate.inside, 2, "it did not wait for its handlers");
    gate.open(2);
    await session.clock.rest();
    assert.deepEqual(
      stored(db),
      ["0", "1", "2"].map(untouched),
      "what they do afterwards counts for nothing",
    );
    assert.deepEqual(
      worker.events.map(({ type, job }) => `${type} ${job.id}`),
      ["started 1", "started 2", "handedBack 1", "handedBack 2"],
    );
    const again = new Gate();
    await session.work(await session.queue({ gate: again.handle }, { database: db }));
    assert.deepEqual([again.came[0].payload, again.came[0].attempt], ["0", 1]);
  },
);

inSession("a worker that is stopping can be told to stop at once", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatch("gate", "p");
  const worker = await work(jobs);
  const stopping = worker.stop();
  await clock.advance(20_000);
  assert.equal(worker.over, false, "it waits for the job");
  await worker.force();
  await stopping;
  assert.equal((await jobs.counts())[0].ready, 1);
});

inSession("a handler that ends because it was told to is not a failure", async (session) => {
  const db = new DatabaseSync(":memory:");
  const jobs = await session.queue({
    polite: (job: Job) =>
      new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason))),
  }, { database: db });
  await jobs.dispatch("polite", "p");
  const worker = await session.work(jobs);
  await worker.force();
  await session.clock.rest();
  assert.deepEqual(stored(db), [untouched("p")]);
  assert.deepEqual(session.lines, []);
});

inSession(
  "a worker that is told to stop at once does not wait for a store that does not answer",
  async (session) => {
    const { clock } = session;
    const gate = new Gate();
    const driver = changed(session.driver(":memory:"), { release: () => new Promise(() => {}) });
    const jobs = await session.queue({ gate: gate.handle }, { driver });
    await jobs.dispatch("gate", "p");
    const worker = await session.work(jobs);
    const forced = worker.force();
    await clock.advance(1999);
    assert.equal(worker.over, false);
    await clock.advance(1);
    await forced;
  },
);

inSession(
  "a worker that is told to stop at once while it reserves hands back what it gets",
  async (session) => {
    const db = new DatabaseSync(":memory:");
    const { ran, record } = recorder();
    const jobs = await session.queue({ record }, { database: db });
    await jobs.dispatch("record", "p");
    const forcing = new AbortController();
    const working = jobs.work({ forceSignal: forcing.signal });
    // As soon as it has asked for jobs, before it has any.
    for (let tick = 0; tick < 20; tick++) await Promise.resolve();
    forcing.abort();
    await working;
    await jobs.close();
    assert.deepEqual(ran, []);
    assert.deepEqual(stored(db), [untouched("p")]);
  },
);

// start()

inSession("start() works in the background until stop()", async ({ clock, queue }) => {
  const gate = new Gate();
  const jobs = await queue({ gate: gate.handle });
  await jobs.dispatchMany(numbered(5).map((payload) => ["gate", payload]));
  const workers = jobs.start(2);
  await clock.rest();
  assert.equal(gate.inside, 2);
  let over = false;
  const stopping = workers.stop().then(() => over = true);
  gate.open();
  await clock.rest();
  assert.equal(over, false, "it waits for what runs");
  gate.open();
  await stopping;
  assert.deepEqual(gate.payloads, ["0", "1"]);
  await workers.stop();
});

inSession(
  "start() runs QUEUE_WORKERS jobs at a time, and one where that is not set",
  async ({ clock, queue }) => {
    for (const [env, slots] of [[{}, 1], [{ QUEUE_WORKERS: "3" }, 3]] as const) {
      const gate = new Gate();
      const jobs = await queue({ gate: gate.handle }, { env });
      await jobs.dispatchMany(numbered(5).map((payload) => ["gate", payload]));
      const workers = jobs.start();
      await clock.rest();
      assert.equal(gate.inside, slots);
      const stopping = workers.stop();
      gate.open(slots);
      await stopping;
    }
  },
);

inSession("start() takes the options of work()", async ({ clock, queue }) => {
  const events: string[] = [];
  const { ran, record } = recorder();
  const jobs = await queue({ record });
  await jobs.dispatch("record", "theirs");
  await jobs.dispatch("record", "mine", { queue: "mine" });
  const workers = jobs.start(1, { queues: "mine", onEvent: ({ type }) => void events.push(type) });
  await clock.until(() => events.includes("completed"), "its job");
  await workers.stop();
  assert.deepEqual(ran, ["mine"]);
});

inSession("with no workers in the app, a line says so if jobs are waiting", async (session) => {
  const { ran, record } = recorder();
  for (const [env, workers] of [[{ APP_ENV: "production" }, undefined], [{}, 0]] as const) {
    const jobs = await session.queue({ record }, { env });
    await jobs.start(workers).stop();
    assert.deepEqual(session.lines.splice(0), [], "none is waiting");
    await jobs.dispatch("record", "1");
    await jobs.start(workers).stop();
    assert.deepEqual(session.lines.splice(0), [
      "warn queue: QUEUE_WORKERS=0 and 1 job is waiting: run queue:work as a service of its own",
    ]);
    await jobs.dispatchLater("record", "2", { hours: 1 });
    await jobs.start(workers).stop();
    assert.deepEqual(session.lines.splice(0), [
      "warn queue: QUEUE_WORKERS=0 and 2 jobs are waiting: run queue:work as a service of its own",
    ]);
  }
  assert.deepEqual(ran, []);
});

inSession("workers that start before the store can be opened work once it can", async (session) => {
  const { clock, file, lines } = session;
  const { ran, record } = recorder();
  writeFileSync(file, "in the way");
  const jobs = new Queue({
    database: join(file, "queue.sqlite"),
    jobs: { record },
    env: {},
    log: { warn: (line) => void lines.push(line), error: (line) => void lines.push(line) },
  });
  const workers = jobs.start();
  await clock.until(() => lines.length > 0, "the first try");
  assert.match(lines[0], /^queue: .*queue\.sqlite/);
  unlinkSync(file);
  const dispatched = jobs.dispatch("record", "p");
  await clock.until(() => dispatched.then(() => true), "the store to be made");
  await clock.advance(10_000);
  assert.deepEqual(ran, ["p"]);
  await workers.stop();
  await jobs.close();
});

// Events

inSession("a listener hears of each attempt as it starts and ends", async ({ clock, queue, work, lines }) => {
  const jobs = await queue({
    good: () => {},
    bad: () => {
      throw new TypeError("upstream 503");
    },
  }, { tries: 2 });
  const good = await jobs.dispatch("good", "1", { queue: "mail" });
  const { events } = await work(jobs);
  assert.equal(events.length, 2);
  assert.deepEqual(events[0], {
    type: "started",
    job: { id: good.id, name: "good", queue: "mail", attempt: 1, tries: 2 },
  });
  const { duration, ...completed } = events[1];
  assert.deepEqual(completed, { type: "completed", job: events[0].job });
  assert.equal(typeof duration === "number" && duration >= 0, true);

  const bad = await jobs.dispatch("bad", "2");
  await clock.rest();
  await clock.advance(10_000);
  const job = { id: bad.id, name: "bad", queue: "default", tries: 2 };
  assert.deepEqual(events.slice(2).map(({ duration: _, ...event }) => event), [
    { type: "started", job: { ...job, attempt: 1 } },
    { type: "released", job: { ...job, attempt: 1 }, error: "TypeError: upstream 503", retryIn: 10_000 },
    { type: "started", job: { ...job, attempt: 2 } },
    { type: "failed", job: { ...job, attempt: 2 }, error: "TypeError: upstream 503" },
  ]);
  assert.deepEqual(events.slice(2).map(({ duration }) => typeof duration), [
    "undefined",
    "number",
    "undefined",
    "number",
  ]);
  assert.deepEqual(lines, [
    "warn queue: job bad failed (attempt 1), retrying: TypeError: upstream 503",
    "error queue: job bad failed after 2 attempts: TypeError: upstream 503",
  ]);
});

inSession("an end is told once it is stored", async ({ clock, queue, work }) => {
  const seen: Promise<number>[] = [];
  const jobs = await queue({ good: () => {} });
  await work(jobs, {
    onEvent: ({ type }) => {
      if (type === "completed") seen.push(jobs.waiting());
    },
  });
  await jobs.dispatch("good", "1");
  await clock.until(() => seen.length === 1, "the job to be done");
  assert.deepEqual(await Promise.all(seen), [0]);
});

inSession("a listener that throws is logged, and changes nothing", async ({ clock, queue, work, lines }) => {
  const { ran, record } = recorder();
  const jobs = await queue({
    record,
    bad: () => {
      throw new Error("no");
    },
  }, { tries: 1 });
  await jobs.dispatchMany([["record", "1"], ["bad", "2"], ["record", "3"]]);
  const worker = await work(jobs, {
    onEvent: ({ type }) => {
      throw new Error(`cannot bear ${type}`);
    },
  });
  await clock.until(async () => await jobs.waiting() === 0, "the jobs to be done");
  assert.deepEqual(ran, ["1", "3"]);
  assert.equal((await jobs.failed()).length, 1);
  assert.equal(worker.over, false);
  const about = (type: string): string =>
    `error queue: a listener of ${type} events threw: cannot bear ${type}`;
  assert.deepEqual(lines.filter((line) => line.includes("listener")), [
    ...[about("started"), about("completed")],
    ...[about("started"), about("failed")],
    ...[about("started"), about("completed")],
  ]);
});

inSession("the log is the console's unless told otherwise", async ({ queue, work }) => {
  const { warn, error } = console;
  const lines: unknown[] = [];
  console.warn = (line: unknown) => void lines.push(["warn", line]);
  console.error = (line: unknown) => void lines.push(["error", line]);
  try {
    const jobs = await queue({
      bad: () => {
        throw new Error("no");
      },
    }, { log: undefined, tries: 2, backoff: 0 });
    await jobs.dispatch("bad");
    await (await work(jobs, { stopWhenEmpty: true })).ended;
  } finally {
    Object.assign(console, { warn, error });
  }
  assert.deepEqual(lines, [
    ["warn", "queue: job bad failed (attempt 1), retrying: no"],
    ["error", "queue: job bad failed after 2 attempts: no"],
  ]);
});

// Store errors

const FAULT = new QueueError("DB", "the disk is on fire");

inSession("a worker whose store fails tries again, later each time, and goes on", async (session) => {
  const { clock, lines } = session;
  const { ran, record } = recorder();
  const driver = session.driver(":memory:");
  const tries: number[] = [];
  let broken = true;
  const jobs = await session.queue({ record }, {
    driver: changed(driver, {
      reserve(request) {
        tries.push(clock.now);
        return broken ? Promise.reject(FAULT) : driver.reserve(request);
      },
    }),
  });
  const began = clock.now;
  const worker = await session.work(jobs);
  await jobs.dispatch("record", "a dispatch does not make it hurry");
  await clock.advance(60_000);
  assert.deepEqual(tries.map((at) => at - began), [
    0,
    100,
    300,
    700,
    1500,
    3100,
    6300,
    12_700,
    22_700,
    32_700,
    42_700,
    52_700,
  ]);
  assert.deepEqual(lines, tries.map(() => "error queue: the disk is on fire"));
  assert.equal(worker.over, false);
  broken = false;
  await clock.advance(10_000);
  assert.equal(ran.length, 1);
  await jobs.dispatch("record", "2");
  await clock.until(() => ran.length === 2, "the next job");
  await clock.rest();
  broken = true;
  tries.length = 0;
  await clock.advance(2000);
  assert.deepEqual(
    tries.slice(0, 3).map((at) => at - tries[0]),
    [0, 100, 300],
    "the first wait is short again",
  );
});

inSession("a worker that cannot see which queues there are goes on", async (session) => {
  const { clock } = session;
  const { ran, record } = recorder();
  const driver = session.driver(":memory:");
  let broken = true;
  const jobs = await session.queue({ record }, {
    driver: changed(driver, { queues: () => broken ? Promise.reject(FAULT) : driver.queues() }),
  });
  await jobs.dispatch("record", "1", { queue: "brand-new" });
  await session.work(jobs);
  await clock.advance(1000);
  await jobs.dispatch("record", "2");
  await clock.advance(10_000);
  assert.deepEqual(ran, ["2"]);
  assert.equal(session.lines.every((line) => line === "error queue: the disk is on fire"), true);
  broken = false;
  await clock.advance(10_000);
  assert.deepEqual(ran, ["2", "1"]);
});

const UNKNOWING =
  "queue: the store has failed for 30 s, so whether a job is due is not known: the disk is on fire";

inSession(
  "a worker that is to stop when nothing is due waits 30 s for a store that fails",
  async (session) => {
    const { clock } = session;
    const driver = session.driver(":memory:");
    const { ran, record } = recorder();
    let broken = true;
    const jobs = await session.queue({ record }, {
      driver: changed(driver, {
        reserve: (request) => broken ? Promise.reject(FAULT) : driver.reserve(request),
      }),
    });
    await jobs.dispatch("record", "1");
    const patient = await session.work(jobs, { stopWhenEmpty: true });
    await clock.advance(29_000);
    broken = false;
    await clock.advance(10_000);
    await patient.ended;
    assert.deepEqual(ran, ["1"], "one that is back in time is no fault");

    broken = true;
    const worker = await session.work(jobs, { stopWhenEmpty: true });
    await clock.advance(29_000);
    assert.equal(worker.over, false);
    await clock.advance(10_000);
    await assert.rejects(worker.ended, { name: "QueueError", code: "DB", message: UNKNOWING });
    const error = await worker.ended.catch((error) => error);
    assert.equal(error.cause, FAULT);
  },
);

inSession("nor does it wait longer for one that takes no outcomes", async (session) => {
  const { clock, lines } = session;
  const driver = session.driver(":memory:");
  const { ran, record } = recorder();
  const jobs = await session.queue({ record }, {
    driver: changed(driver, { complete: () => Promise.reject(FAULT) }),
  });
  await jobs.dispatchMany([["record", "1"], ["record", "2"]]);
  const worker = await session.work(jobs, { stopWhenEmpty: true });
  await clock.advance(29_000);
  assert.deepEqual([worker.over, ran], [false, ["1", "2"]]);
  await clock.advance(30_000);
  await assert.rejects(worker.ended, { message: UNKNOWING });
  assert.match(lines.at(-1)!, /the outcome of job record \(id 2\) was not stored: it will run again/);
});

const throws = (): never => {
  throw FAULT;
};

for (
  const [how, complete, completeFor] of [
    ["tells that", () => Promise.reject(FAULT), (done) => queueMicrotask(() => done.failed(FAULT))],
    [
      "tells that in another turn",
      () => Promise.reject(FAULT),
      (done) => void setImmediate(() => done.failed(FAULT)),
    ],
    ["throws", throws, throws],
    ["throws, and knows promises only", throws, null],
    ["rejects, and knows promises only", () => Promise.reject(FAULT), null],
  ] as [string, () => Promise<boolean>, ((done: Settlement) => void) | null][]
) {
  inSession(`a completion that fails is made again, where the store ${how}`, async (session) => {
    const driver = session.driver(":memory:");
    const { ran, record } = recorder();
    // Both jobs, and the second try of each.
    let failures = 4;
    const jobs = await session.queue({ record }, {
      driver: changed(driver, {
        complete: (held) => failures-- > 0 ? complete() : driver.complete(held),
        ...completeFor === null ? {} : {
          completeFor: (held, done) => failures-- > 0 ? completeFor(done) : driver.completeFor(held, done),
        },
      }),
    });
    await jobs.dispatchMany([["record", "1"], ["record", "2"]]);
    const worker = await session.work(jobs);
    await session.clock.until(() => ran.length === 2, "both to run");
    await session.clock.advance(5000);
    await worker.stop();
    assert.equal(await jobs.waiting(), 0);
    assert.deepEqual(ran, ["1", "2"]);
    assert.equal(worker.events.filter(({ type }) => type === "completed").length, 2);
    assert.deepEqual(
      session.lines,
      [1, 2].map((id) =>
        `error queue: the disk is on fire (while storing the outcome of job record (id ${id}))`
      ),
    );
  });
}

inSession("a meter that throws holds up neither its job nor others", async (session) => {
  const jobs = await session.queue({ quick: () => {} });
  jobs.measure({ dispatched() {}, reserved() {}, ended: throws });
  await jobs.dispatchMany(numbered(5).map((payload) => ["quick", payload]));
  const worker = await session.work(jobs, { stopWhenEmpty: true, concurrency: 5 });
  await session.clock.until(() => worker.over, "the worker to end");
  assert.equal(await jobs.waiting(), 0);
  assert.deepEqual(
    session.lines,
    [1, 2, 3, 4, 5].map((id) =>
      `error queue: the disk is on fire (while telling of the end of job quick (id ${id}))`
    ),
  );
});

inSession("a worker that waits for its store to come back stops when told to", async (session) => {
  const driver = changed(session.driver(":memory:"), { reserve: () => Promise.reject(FAULT) });
  const worker = await session.work(await session.queue({}, { driver }));
  await session.clock.advance(30_000);
  await worker.stop();
});

inSession("an outcome is stored again and again until it is, and the other slots go on", async (session) => {
  const { clock, lines } = session;
  const ran: string[] = [];
  const driver = session.driver(":memory:");
  const broken = new Set(["complete", "release", "fail"]);
  const guard = <Result>(verb: string, settle: () => Promise<Result>): Promise<Result> =>
    broken.has(verb) ? Promise.reject(FAULT) : settle();
  const jobs = await session.queue({
    bad: (job: Job) => {
      ran.push(`bad ${job.attempt}`);
      throw new Error("no");
    },
    good: (job: Job) => void ran.push(`good ${job.attempt}`),
  }, {
    driver: changed(driver, {
      complete: (held) => guard("complete", () => driver.complete(held)),
      release: (held, how, now) => guard("release", () => driver.release(held, how, now)),
      fail: (held, why) => guard("fail", () => driver.fail(held, why)),
    }),
    tries: 2,
  });
  await jobs.dispatchMany([["good"], ["bad"]]);
  const worker = await session.work(jobs);
  const ends = (): string[] => worker.events.map(({ type }) => type).filter((type) => type !== "started");
  assert.deepEqual(ran, ["good 1", "bad 1"], "a failed settlement does not block the slot");
  await clock.advance(3000);
  assert.deepEqual(ends(), []);
  assert.deepEqual(lines, [
    "error queue: the disk is on fire (while storing the outcome of job good (id 1))",
    "warn queue: job bad failed (attempt 1), retrying: no",
    "error queue: the disk is on fire (while storing the outcome of job bad (id 2))",
  ]);
  broken.clear();
  await clock.advance(5000);
  assert.deepEqual(ends(), ["completed", "released"]);
  assert.deepEqual(ran, ["good 1", "bad 1"], "neither ran again");
  broken.add("fail");
  await clock.advance(10_000);
  assert.deepEqual(ran, ["good 1", "bad 1", "bad 2"]);
  assert.equal((await jobs.failed()).length, 0);
  broken.clear();
  await clock.advance(10_000);
  assert.deepEqual(ends(), ["completed", "released", "failed"]);
  assert.equal((await jobs.failed()).length, 1);
  assert.equal(await jobs.waiting(), 0);
});

inSession(
  "a worker that stops while its store fails says what it could not store, after 10 s",
  async (session) => {
    const { clock, lines } = session;
    const gate = new Gate();
    const driver = changed(session.driver(":memory:"), { complete: () => Promise.reject(FAULT) });
    const jobs = await session.queue({ gate: gate.handle }, { driver });
    await jobs.dispatch("gate", "p");
    const worker = await session.work(jobs);
    const stopping = worker.stop();
    gate.open();
    await clock.advance(9000);
    assert.equal(worker.over, false, "it tries");
    await clock.advance(15_000);
    await stopping;
    assert.equal(
      lines.at(-1),
      "error queue: the disk is on fire (the outcome of job gate (id 1) was not stored: it will run again)",
    );
  },
);

inSession(
  "a worker that cannot hand back a prefetched job ends all the same, and says so",
  async (session) => {
    const db = new DatabaseSync(":memory:");
    const gate = new Gate();
    const driver = changed(session.driver(db), { release: () => Promise.reject(FAULT) });
    const jobs: Queue = await session.queue({ gate: gate.handle, quick: () => {} }, { driver });
    await jobs.dispatchMany(numbered(40).map((payload) => ["quick", payload]));
    await jobs.dispatchMany([["gate", "runs"], ["gate", "next"]]);
    const worker = await session.work(jobs, { prefetch: 100 });
    await session.clock.until(() => gate.inside === 1, "it to be stuck");
    const stopping = worker.stop();
    gate.open();
    await stopping;
    assert.deepEqual(session.lines, [
      "error queue: the disk is on fire (while handing back job gate (id 42))",
    ]);
    assert.deepEqual(stored(db), [{ payload: "next", attempts: 1, held: true }]);
  },
);
