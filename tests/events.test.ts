/** `queue.on`: who listens hears what becomes of jobs and workers. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type Job, type Queue, QueueError, type QueueEvents, Snooze } from "@x/queue";
import { changed, Gate, inSession } from "./session.ts";

const NAMES: (keyof QueueEvents)[] = [
  "dispatched",
  "reserved",
  "started",
  "completed",
  "released",
  "failed",
  "lost",
  "storeFailed",
  "workerStarted",
  "workerStopped",
];

type AnyEvent = QueueEvents[keyof QueueEvents];

/** Everything that a queue tells, in order; how long handlers took is left out, but that it is told. */
function all(queue: Queue): Record<string, unknown>[] {
  const heard: Record<string, unknown>[] = [];
  for (const name of NAMES) {
    queue.on(name, (event: AnyEvent) => {
      assert.equal(event.type, name);
      const { duration, ...rest } = event as AnyEvent & { duration?: number | null };
      heard.push({ ...rest, ...(typeof duration === "number" ? { timed: true } : {}) });
    });
  }
  return heard;
}

inSession("the life of a job is told, from its dispatch to its end", async ({ clock, queue, work }) => {
  const jobs: Queue = await queue({
    good: () => {},
    bad: () => {
      throw new Error("no");
    },
    nap: (job: Job) => {
      if (job.payload === "null") throw new Snooze(60_000, "not yet");
    },
  }, { tries: 2 });
  const heard = all(jobs);
  const worker = await work(jobs, { concurrency: 3 });
  assert.deepEqual(heard.splice(0), [{ type: "workerStarted", concurrency: 3 }]);

  const { id } = await jobs.dispatch("good", 1, { queue: "mail" });
  await clock.rest();
  const job = { id, name: "good", queue: "mail" };
  const attempt = { ...job, attempt: 1, tries: 2 };
  assert.deepEqual(heard.splice(0), [
    { type: "dispatched", job, duplicate: false },
    { type: "reserved", job: { ...job, attempt: 1 }, waited: 0 },
    { type: "started", job: attempt },
    { type: "completed", job: attempt, timed: true },
  ]);

  const bad = { id: (await jobs.dispatch("bad")).id, name: "bad", queue: "default", attempt: 1, tries: 2 };
  await clock.rest();
  assert.deepEqual(heard.splice(0).slice(3), [
    { type: "released", job: bad, why: "failed", retryIn: 10_000, error: "no", timed: true },
  ]);
  await clock.advance(10_000);
  assert.deepEqual(heard.splice(0).slice(2), [
    { type: "failed", job: { ...bad, attempt: 2 }, error: "no", timed: true },
  ]);

  const nap = { id: (await jobs.dispatch("nap")).id, name: "nap", queue: "default", attempt: 1, tries: 2 };
  await clock.rest();
  assert.deepEqual(heard.splice(0).slice(3), [
    { type: "released", job: nap, why: "snoozed", retryIn: 60_000, error: "not yet", timed: true },
  ]);
  await worker.stop();
  assert.deepEqual(heard, [{ type: "workerStopped", concurrency: 3, jobs: 4 }]);
});

inSession(
  "each event of a job is heard by one who listens to nothing else, until they leave",
  async ({ queue }) => {
    const database = new DatabaseSync(":memory:");
    const jobs: Queue = await queue({
      good: () => {},
      bad: () => {
        throw new Error("no");
      },
      robbed: () => database.exec("UPDATE jobs SET token = token + 1"),
    }, { database, tries: 2 });
    const life = async (): Promise<void> => {
      for (const name of ["good", "bad", "robbed"]) {
        await jobs.dispatch(name);
        await jobs.work({ stopWhenEmpty: true, maxJobs: 1 });
        await jobs.workOnce(Date.now() + 60_000);
      }
      database.exec("DELETE FROM jobs");
    };
    for (const name of NAMES.slice(0, 7)) {
      let heard = 0;
      const leave = jobs.on(name, () => heard++);
      await life();
      assert.ok(heard > 0, name);
      leave();
      const before = heard;
      await life();
      assert.equal(heard, before, name);
    }
  },
);

inSession("what a stop hands back is told, begun or not", async ({ clock, queue, work }) => {
  const gate = new Gate();
  const jobs: Queue = await queue({ gate: gate.handle, quick: () => {} });
  await jobs.dispatchMany(Array.from({ length: 40 }, () => ["quick"]));
  await jobs.dispatchMany([["gate", "runs"], ["gate", "waits"]]);
  const worker = await work(jobs, { prefetch: 100 });
  await clock.until(() => gate.inside === 1, "it to be stuck");
  const heard = all(jobs);
  await worker.force();
  const job = { name: "gate", queue: "default", attempt: 1 };
  const back = { type: "released", why: "stopped", retryIn: 0, error: null };
  assert.deepEqual(
    heard.slice(0, 2),
    [
      { ...back, job: { id: "42", ...job } },
      { ...back, job: { id: "41", ...job, tries: 3 }, timed: true },
    ],
  );
  assert.deepEqual(heard.slice(2).map(({ type }) => type), ["workerStopped"]);
});

inSession("a lost lease is told", async ({ queue, work }) => {
  const db = new DatabaseSync(":memory:");
  const jobs: Queue = await queue({
    robbed: () => db.exec("UPDATE jobs SET token = token + 1"),
  }, { database: db });
  const heard = all(jobs);
  const { id } = await jobs.dispatch("robbed");
  await work(jobs);
  const job = { id, name: "robbed", queue: "default", attempt: 1, tries: 3 };
  assert.deepEqual(heard.at(-1), { type: "lost", job, timed: true });
});

inSession("workOnce tells what a worker does", async ({ queue }) => {
  const jobs: Queue = await queue({ good: () => {} });
  await jobs.dispatch("good");
  const heard = all(jobs);
  await jobs.workOnce();
  assert.deepEqual(heard.map(({ type }) => type), ["reserved", "started", "completed"]);
});

inSession(
  "a dispatch is told for each job once it is stored, and whether it was there before",
  async (session) => {
    const driver = session.driver(":memory:");
    let refuses = true;
    const push: typeof driver.push = (...args) =>
      refuses
        ? Promise.reject(new QueueError("DB", "full"))
        : Object.getPrototypeOf(driver).push.apply(driver, args);
    const jobs: Queue = await session.queue({ a: () => {}, b: { queue: "mail" } }, {
      driver: changed(driver, { push }),
    });
    const heard: [string, string, string, boolean][] = [];
    jobs.on("dispatched", ({ job, duplicate }) => heard.push([job.id, job.name, job.queue, duplicate]));
    await assert.rejects(jobs.dispatch("a"));
    await assert.rejects(jobs.dispatchMany([["a"], ["b"]]));
    assert.deepEqual(heard, []);
    refuses = false;
    await jobs.dispatch("a");
    await jobs.dispatchLater("a", null, { hours: 1 }, { queue: "slow" });
    await jobs.dispatchMany([["b"], ["a"]]);
    await jobs.dispatch("a", 1, { id: "order 7" });
    await jobs.dispatchMany([["b"], ["a", 1, { id: "order 7" }]]);
    assert.deepEqual(heard, [
      ["1", "a", "default", false],
      ["2", "a", "slow", false],
      ["3", "b", "mail", false],
      ["4", "a", "default", false],
      ["5", "a", "default", false],
      ["6", "b", "mail", false],
      ["5", "a", "default", true],
    ]);
  },
);

inSession("a listener leaves by what it got, or by its signal, each on its own", async ({ queue }) => {
  const jobs: Queue = await queue({ a: () => {} });
  const heard: string[] = [];
  const listener = () => heard.push("twice");
  const first = jobs.on("dispatched", listener);
  jobs.on("dispatched", listener);
  const leaving = new AbortController();
  jobs.on("dispatched", () => heard.push("signal"), { signal: leaving.signal });
  jobs.on("dispatched", () => heard.push("never"), { signal: AbortSignal.abort() });
  const once = jobs.on("dispatched", () => {
    once();
    heard.push("once");
  });
  jobs.on("dispatched", () => heard.push("last"));
  await jobs.dispatch("a");
  assert.deepEqual(heard.splice(0), ["twice", "twice", "signal", "once", "last"]);
  first();
  first();
  leaving.abort();
  await jobs.dispatch("a");
  assert.deepEqual(heard, ["twice", "last"]);
});

inSession(
  "a listener that throws or rejects is logged, and changes nothing",
  async ({ queue, work, lines }) => {
    const jobs: Queue = await queue({ a: () => {} });
    const heard: string[] = [];
    for (const name of NAMES) {
      jobs.on(name, ({ type }: AnyEvent) => {
        throw new Error(`cannot bear ${type}`);
      });
      // deno-lint-ignore require-await -- it rejects
      jobs.on(name, async ({ type }: AnyEvent) => {
        throw new Error(`nor ${type}`);
      });
      jobs.on(name, ({ type }: AnyEvent) => heard.push(type));
    }
    await jobs.dispatch("a");
    await (await work(jobs, { stopWhenEmpty: true })).ended;
    const expected = ["dispatched", "workerStarted", "reserved", "started", "completed", "workerStopped"];
    assert.deepEqual(heard, expected);
    const about = expected.flatMap((type) =>
      [`cannot bear ${type}`, `nor ${type}`].map((what) =>
        `error queue: a listener of ${type} events threw: ${what}`
      )
    );
    assert.deepEqual([...lines].sort(), about.sort());
    assert.equal(await jobs.waiting(), 0);
  },
);

inSession("what cannot be listened to, or cannot listen, is refused and named", async ({ queue }) => {
  const jobs = await queue({});
  const refusals: [() => unknown, RegExp][] = [
    [
      () => jobs.on("done" as "completed", () => {}),
      /^queue: event="done": expected one of dispatched, reserved, /,
    ],
    [() => jobs.on("toString" as "completed", () => {}), /^queue: event="toString": expected one of/],
    [() => jobs.on("completed", "log" as never), /^queue: listener="log": expected a function$/],
    [
      () => jobs.on("completed", () => {}, { signal: 1 as never }),
      /^queue: signal=1: expected an AbortSignal$/,
    ],
    [() => jobs.on("completed", () => {}, { once: true } as never), /^queue: options\.once: no such setting/],
  ];
  for (const [listen, message] of refusals) {
    assert.throws(
      listen,
      (error) => error instanceof QueueError && error.code === "CONFIG" && message.test(error.message),
    );
  }
});
