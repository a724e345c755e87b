/** Workers on a store that answers several reservations at once: the same slots, the same limits, the same order. */
import assert from "node:assert/strict";
import { setImmediate } from "node:timers";
import type { Driver, Job, Reserved, ReserveRequest } from "@x/queue";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { changed, Gate, inSession, numbered, type Session } from "./session.ts";

/** A store whose answers to `reserve` each take some turns, and how it was asked. */
function slow(
  session: Session,
  overlap: number,
): { driver: Driver; asked: ReserveRequest[]; most(): number } {
  const driver = session.driver(":memory:");
  const asked: ReserveRequest[] = [];
  let under = 0;
  let most = 0;
  const reserve = async (request: ReserveRequest): Promise<Reserved> => {
    asked.push(request);
    most = Math.max(most, ++under);
    const answer = await SqliteDriver.prototype.reserve.call(driver, request);
    for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
    under--;
    return answer;
  };
  return { driver: changed(driver, { overlap, reserve }), asked, most: () => most };
}

inSession("a store that takes one reservation at a time gets one at a time", async (session) => {
  const { driver, most } = slow(session, 1);
  const jobs = await session.queue({ quick: () => {} }, { driver });
  await jobs.dispatchMany(numbered(300).map((payload) => ["quick", payload]));
  const worker = await session.work(jobs, { concurrency: 100, stopWhenEmpty: true });
  await session.clock.until(() => worker.over, "the jobs to be done");
  assert.equal(most(), 1);
});

inSession("of short jobs, the next are asked for while others are started", async (session) => {
  const { driver, most } = slow(session, 4);
  const ran: string[] = [];
  const jobs = await session.queue({ quick: (job: Job) => void ran.push(job.payload) }, { driver });
  await jobs.dispatchMany(numbered(1000).map((payload) => ["quick", payload]));
  const worker = await session.work(jobs, { concurrency: 100, stopWhenEmpty: true });
  await session.clock.until(() => worker.over, "the jobs to be done");
  assert.deepEqual(ran, numbered(1000), "each once, in the order of their dispatch");
  assert.ok(most() > 1 && most() <= 4, `${most()} at once`);
  assert.equal(await jobs.waiting(), 0);
});

inSession("reservations under way never add up to more than the free slots", async (session) => {
  const { clock } = session;
  const { driver, asked } = slow(session, 4);
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle }, { driver });
  await jobs.dispatchMany(numbered(60).map((payload) => ["gate", payload]));
  await session.work(jobs, { concurrency: 40 });
  await clock.until(() => gate.inside === 40, "the slots to fill");
  for (let ended = 1; ended <= 20; ended++) {
    // One at a time: each frees a slot while the question for the one before is under way.
    gate.open();
    await new Promise((resolve) => setImmediate(resolve));
    const reserved = (await jobs.counts())[0]?.reserved ?? 0;
    assert.ok(reserved <= 40, `${reserved} reserved after ${ended}`);
  }
  await clock.until(() => gate.came.length === 60, "the freed slots to fill");
  assert.equal(gate.most, 40);
  assert.ok(asked.every(({ limit }) => limit >= 1 && limit <= 40));
  gate.open(40);
  await clock.until(async () => await jobs.waiting() === 0, "the last to be done");
});

inSession("with a limit of jobs, no more are reserved by several questions", async (session) => {
  const { driver } = slow(session, 4);
  let ran = 0;
  const jobs = await session.queue({ quick: () => void ran++ }, { driver });
  await jobs.dispatchMany(numbered(200).map((payload) => ["quick", payload]));
  const worker = await session.work(jobs, { concurrency: 50, maxJobs: 130 });
  await session.clock.until(() => worker.over, "the worker to end");
  assert.equal(ran, 130);
  assert.equal(await jobs.waiting(), 70);
});

inSession("a push while all slots are asked for is not overlooked", async (session) => {
  const { clock } = session;
  const { driver } = slow(session, 4);
  const ran: string[] = [];
  const jobs = await session.queue({ quick: (job: Job) => void ran.push(job.payload) }, { driver });
  await session.work(jobs, { concurrency: 2 });
  // The clock stands still: neither is found by the poll.
  void jobs.dispatch("quick", "first");
  await clock.until(() => ran.length === 1, "the first to run");
  const second = jobs.dispatch("quick", "second");
  await new Promise((resolve) => setImmediate(resolve));
  const third = jobs.dispatch("quick", "third");
  await Promise.all([second, third]);
  await clock.until(() => ran.length === 3, "the others to run");
});

inSession("a reservation that fails beside one that does not: the worker goes on", async (session) => {
  const { clock } = session;
  const driver = session.driver(":memory:");
  const under: { answer(): void; fail(error: Error): void }[] = [];
  let hold = false;
  const reserve = async (request: ReserveRequest): Promise<Reserved> => {
    if (hold) await new Promise<void>((answer, fail) => under.push({ answer, fail }));
    return await SqliteDriver.prototype.reserve.call(driver, request);
  };
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle }, {
    driver: changed(driver, { overlap: 2, reserve }),
  });
  await jobs.dispatch("gate", "first");
  const worker = await session.work(jobs, { concurrency: 2 });
  hold = true;
  await clock.advance(1000);
  gate.open();
  await clock.until(() => under.length === 2, "the freed slot to be asked for, too");
  hold = false;
  under[0].fail(new Error("busy"));
  await clock.rest();
  under[1].answer();
  await clock.rest();
  await jobs.dispatch("gate", "second");
  await clock.advance(1000);
  assert.deepEqual(gate.payloads, ["first", "second"]);
  assert.deepEqual(session.lines, ["error busy"]);
  gate.open();
  await worker.stop();
});

inSession("a stop hands back what several questions bring yet", async (session) => {
  const { clock } = session;
  const { driver } = slow(session, 4);
  const gate = new Gate();
  const jobs = await session.queue({ gate: gate.handle }, { driver });
  await jobs.dispatchMany(numbered(100).map((payload) => ["gate", payload]));
  const worker = await session.work(jobs, { concurrency: 30 });
  await clock.until(() => gate.inside === 30, "the slots to fill");
  gate.open(30);
  const stopping = worker.stop();
  while (!worker.over) {
    await new Promise((resolve) => setImmediate(resolve));
    gate.open(gate.inside);
  }
  await stopping;
  const [counts] = await jobs.counts();
  assert.equal(counts.ready, 100 - gate.came.length);
  assert.equal(counts.reserved, 0);
});
