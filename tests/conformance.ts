/**
 * What every driver must do. A driver's own test file calls {@linkcode conformance} with a way to open a store.
 *
 * The clock is an argument, so these tests bring their own: `T` and what is added to it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type {
  Driver,
  FailedJob,
  Failure,
  NewJob,
  QueueCounts,
  Reservation,
  Reserved,
} from "../core/driver.ts";
import { QueueError } from "../core/errors.ts";
import { controlling } from "./controls.ts";
import { delaying } from "./delaying.ts";
import { registering } from "./registry.ts";
import { searching } from "./searching.ts";
import { soon } from "./until.ts";

/** A driver under test. */
export interface Subject {
  /** Starts the name of each test. */
  readonly name: string;
  /** Why there is no such store on this machine, where that is so. */
  readonly skip?: string | false;
  /** Makes a new, empty store. */
  open(): Store | Promise<Store>;
  /** Why a store has one driver only, where that is so: what takes two is skipped with this reason. */
  readonly alone?: string;
  /** Why a store names queues that had jobs, and have none now, where that is so. */
  readonly remembers?: string;
  /** Why a store does not know since when a ready job has been due, where that is so. */
  readonly timeless?: string;
  /** Why a store refuses payloads with a carriage return, where that is so. */
  readonly plain?: string;
}

/** A store under test. Its drivers are closed by the suite. */
export interface Store {
  /** The first driver on it. */
  readonly driver: Driver;
  /** Another driver on the same store, as another process would have it. */
  another(): Driver;
  /** Removes the store, after its drivers were closed. */
  remove(): void | Promise<void>;
}

/** What a test of the suite gets. */
export interface Session {
  readonly driver: Driver;
  another(): Driver;
}

/** The present of these tests, and the lease that they ask for. */
export const T = 1_800_000_000_000;
const LEASE = 90_000;

/** Texts that some layer between here and the disk may take for something else. */
const TEXTS: readonly string[] = [
  "",
  " ",
  "plain",
  "null",
  "0123",
  "1e3",
  "9007199254740993",
  `it's "quoted" \`three\` ways; -- DROP TABLE jobs`,
  "back\\slash % percent _ under ? ?1 :name $1",
  "line\nbreak, line\r\nbreak, line\rbreak, tab\t",
  "$3\r\nfoo\r\n*1\r\n",
  "naïve, 日本語, עברית, 👩‍👩‍👧, \u{10ffff}, \ufeff, \u2028",
  " spaces at both ends ",
  `{"id":7,"nested":{"list":[1,2,3]}}`,
];

/** Runs the suite. */
export function conformance(subject: Subject): void {
  const check: Check = (sentence, run, needs) => {
    const skip = subject.skip || reason(subject, needs) || false;
    test(`${subject.name}: ${sentence}`, { skip }, async () => {
      const store = await subject.open();
      const drivers = [store.driver];
      try {
        await run({
          driver: store.driver,
          another() {
            const driver = store.another();
            drivers.push(driver);
            return driver;
          },
        });
      } finally {
        for (const driver of drivers) await driver.close();
        await store.remove();
      }
    });
  };

  pushing(check);
  reserving(check);
  leases(check);
  settling(check);
  fencing(check);
  failing(check);
  searching(check);
  looking(check);
  living(check);
  controlling(check);
  delaying(check);
  registering(check);
}

/** What a test takes for granted that not every store has. */
export type Need = "two drivers" | "due times" | "exact queues" | "carriage returns";

function reason(subject: Subject, needs: Need | undefined): string | undefined {
  if (needs === "two drivers") return subject.alone;
  if (needs === "due times") return subject.timeless;
  if (needs === "carriage returns") return subject.plain;
  return needs === "exact queues" ? subject.remembers : undefined;
}

/** Declares a test of the suite. */
export type Check = (
  sentence: string,
  run: (session: Session) => Promise<void>,
  needs?: Need,
) => void;

function pushing(check: Check): void {
  check("a pushed job is reserved once, as it was pushed", async ({ driver }) => {
    const [id] = await driver.push(
      [job({ name: "mail", payload: '{"to":1}', queue: "post", priority: 7 })],
      T,
    );
    assert.equal(typeof id, "string");
    const [held, ...more] = await take(driver, { queues: ["post"], limit: 10 });
    assert.deepEqual(more, []);
    assert.deepEqual(bare(held), {
      id,
      name: "mail",
      payload: '{"to":1}',
      attempt: 1,
      queue: "post",
      priority: 7,
      token: "",
    });
    assert.equal(typeof held.token, "string");
    assert.deepEqual(await take(driver, { queues: ["post"], limit: 10 }), [], "it is held");
  });

  check("payloads come back byte for byte", async ({ driver }) => {
    await driver.push(TEXTS.map((payload) => job({ payload })), T);
    const held = await take(driver, { limit: TEXTS.length });
    assert.deepEqual(held.map(({ payload }) => payload), TEXTS);
    for (const one of held) assert.equal(await driver.fail(one, failure()), true);
    const failed = await driver.failed({ after: null, limit: 100 });
    assert.deepEqual(failed.map(({ payload }) => payload).sort(), [...TEXTS].sort(), "in failed_jobs");
    await driver.retry({ after: null, limit: 100 }, T);
    const again = await take(driver, { limit: TEXTS.length });
    assert.deepEqual(again.map(({ payload }) => payload).sort(), [...TEXTS].sort(), "after a retry");
  }, "carriage returns");

  check("names and queues of any text without a line break come back as they were", async ({ driver }) => {
    const names = TEXTS.filter((text) => text !== "" && !/[\r\n]/.test(text));
    await driver.push(names.map((name) => job({ name, queue: name })), T);
    assert.deepEqual((await driver.queues()).sort(), [...names].sort());
    for (const name of names) {
      const [held] = await take(driver, { queues: [name] });
      assert.deepEqual([held?.name, held?.queue], [name, name]);
    }
  });

  check("a payload of 4 MB comes back whole", async ({ driver }) => {
    const payload = "ünï ".repeat(700_000) + "end";
    await driver.push([job({ payload })], T);
    const [held] = await take(driver);
    assert.equal(held.payload.length, payload.length);
    assert.equal(held.payload === payload, true, "the same text");
  });

  check("a push of nothing stores nothing", async ({ driver }) => {
    assert.deepEqual(await driver.push([], T), []);
    assert.deepEqual(await driver.queues(), []);
  });

  check("a push of 1,000 jobs answers with an id for each, in order", async ({ driver }) => {
    const payloads = Array.from({ length: 1000 }, (_, index) => String(index));
    const ids = await driver.push(payloads.map((payload) => job({ payload })), T);
    assert.equal(new Set(ids).size, 1000);
    const held = await takeAll(driver);
    assert.deepEqual(held.map(({ payload }) => payload), payloads);
    assert.deepEqual(held.map(({ id }) => id), ids);
  });

  check("pushes made in one turn keep their order, and each gets its own ids", async ({ driver }) => {
    const answers = await Promise.all(
      Array.from(
        { length: 50 },
        (_, index) => driver.push([job({ payload: `${index}a` }), job({ payload: `${index}b` })], T),
      ),
    );
    const held = await takeAll(driver);
    assert.deepEqual(
      held.map(({ payload }) => payload),
      answers.flatMap((_, index) => [`${index}a`, `${index}b`]),
    );
    assert.deepEqual(held.map(({ id }) => id), answers.flat());
  });

  check(
    "two drivers push at once: every job is stored under an id of its own",
    async ({ driver, another }) => {
      const other = another();
      const answers = await Promise.all(
        Array.from(
          { length: 60 },
          (_, index) => (index % 2 ? driver : other).push([job({ payload: String(index) })], T),
        ),
      );
      assert.equal(new Set(answers.flat()).size, 60);
      const held = await takeAll(driver);
      assert.deepEqual(
        held.map(({ payload }) => Number(payload)).sort((a, b) => a - b),
        answers.map((_, index) => index),
      );
      for (const { id, payload } of held) assert.equal(answers[Number(payload)][0], id);
    },
    "two drivers",
  );

  check("a job that is pushed again under its key is not stored again", async ({ driver }) => {
    const keyed = (key: string | null, payload: string) => ({ ...job({ payload }), key });
    const [one] = await driver.pushOnce([keyed("k 1", "1")], T);
    assert.equal(one.created, true);
    assert.deepEqual(await driver.pushOnce([keyed("k 1", "other")], T + 1), [{ id: one.id, created: false }]);
    const mixed = await driver.pushOnce([
      keyed(null, "2"),
      keyed("k 1", "1"),
      keyed("k 2", "3"),
      keyed("k 2", "3"),
      keyed(null, "2"),
    ], T + 2);
    assert.deepEqual(mixed.map(({ created }) => created), [true, false, true, false, true]);
    assert.deepEqual([mixed[1].id, mixed[3].id], [one.id, mixed[2].id]);
    const held = await take(driver, { limit: 9, now: T + 10_000 });
    assert.deepEqual(held.map(({ payload }) => payload), ["1", "2", "3", "2"]);
    for (const done of held) await driver.complete(done);
    const [late] = await driver.pushOnce([keyed("k 1", "1")], T + 60_000);
    assert.deepEqual(late, { id: one.id, created: false }, "its job is done");
    assert.deepEqual(await driver.pushOnce([], T), []);
  });

  check("of pushes under one key at once, one stores a job", async ({ driver, another }) => {
    const other = another();
    const pushed = (await Promise.all(
      Array.from(
        { length: 20 },
        (_, index) => (index % 2 ? driver : other).pushOnce([{ ...job({ delay: 5 }), key: "the one" }], T),
      ),
    )).flat();
    assert.equal(pushed.filter(({ created }) => created).length, 1);
    assert.equal(new Set(pushed.map(({ id }) => id)).size, 1);
    assert.equal((await take(driver, { limit: 9, now: T + 5 })).length, 1);
  }, "two drivers");

  check("an id is not given again after its job is gone", async ({ driver }) => {
    const seen = new Set<string>();
    for (let round = 0; round < 5; round++) {
      for (const id of await driver.push([job(), job()], T)) {
        assert.equal(seen.has(id), false, `id ${id} was given before`);
        seen.add(id);
      }
      const [first, second] = await take(driver, { limit: 2 });
      await driver.complete(first);
      await driver.fail(second, failure());
      await driver.forget({ after: null, limit: 10 });
    }
  });
}

function reserving(check: Check): void {
  check("a delayed job waits until it is due, to the millisecond", async ({ driver }) => {
    for (const delay of [1, 333, 999, 1000, 86_400_001]) {
      const dueAt = T + delay;
      await driver.push([job({ payload: String(delay), delay })], T);
      const early = await reserve(driver, { now: dueAt - 1 });
      assert.deepEqual(early.jobs, [], `not yet after ${delay - 1} ms`);
      assert.equal(early.nextIn, 1);
      const [held] = await take(driver, { now: dueAt });
      assert.equal(held?.payload, String(delay), `due after ${delay} ms`);
      await driver.complete(held);
    }
  });

  check(
    "the next due time is that of the earliest delayed job of the queues asked for",
    async ({ driver }) => {
      assert.equal((await reserve(driver)).nextIn, null, "an empty store");
      await driver.push([
        job({ delay: 5000 }),
        job({ delay: 3000, priority: -1 }),
        job({ delay: 4000, priority: 9 }),
        job({ delay: 1000, queue: "other" }),
      ], T);
      assert.equal((await reserve(driver)).nextIn, 3000);
      assert.equal((await reserve(driver, { queues: ["default", "other"], now: T + 400 })).nextIn, 600);
      assert.equal((await reserve(driver, { queues: ["third"] })).nextIn, null, "a queue without jobs");
    },
  );

  check("the next due time is told also where due jobs were taken, of each priority", async ({ driver }) => {
    for (const priority of [0, 5]) {
      const delay = 4000 - priority;
      await driver.push([job({ priority }), job({ priority, delay })], T);
      const { jobs, nextIn } = await reserve(driver, { limit: 9 });
      assert.deepEqual([jobs.length, nextIn], [1, delay]);
    }
  });

  check(
    "higher priorities go first, then what was due first, then what was dispatched first",
    async ({ driver }) => {
      // Each batch is pushed at the time it is due, save what is delayed.
      await driver.push([job({ payload: "11", priority: -1_000_000 })], T - 9001);
      await driver.push([job({ payload: "10", priority: -1 })], T - 9000);
      await driver.push([
        job({ payload: "6" }),
        job({ payload: "late", priority: 1_000_000, delay: 5001 }),
      ], T - 5000);
      await driver.push([job({ payload: "7" }), job({ payload: "2", priority: 5 })], T - 1000);
      await driver.push([
        job({ payload: "8" }),
        job({ payload: "9" }),
        job({ payload: "1", priority: 1_000_000 }),
        job({ payload: "3", priority: 5 }),
        job({ payload: "4", priority: 5 }),
        job({ payload: "5", priority: 1 }),
      ], T);
      const together = await take(driver, { limit: 4 });
      const alone: Reservation[] = [];
      for (let next = await take(driver); next.length > 0; next = await take(driver)) alone.push(...next);
      assert.deepEqual(
        [...together, ...alone].map(({ payload }) => payload),
        Array.from({ length: 11 }, (_, index) => String(index + 1)),
      );
    },
  );

  check("what was due first goes first, also where it was delayed", async ({ driver }) => {
    await driver.push([job({ payload: "1", delay: 900 }), job({ payload: "3", delay: 1100 })], T);
    await driver.push([job({ payload: "2" })], T + 1000);
    const held = await take(driver, { limit: 3, now: T + 2000 });
    assert.deepEqual(held.map(({ payload }) => payload), ["1", "2", "3"]);
  }, "due times");

  check("no more jobs are taken than asked for", async ({ driver }) => {
    await driver.push([job(), job(), job(), job(), job()], T);
    assert.equal((await take(driver, { limit: 2 })).length, 2);
    assert.equal((await take(driver, { limit: 2 })).length, 2);
    assert.equal((await take(driver, { limit: 2 })).length, 1);
    assert.equal((await take(driver, { limit: 2 })).length, 0);
  });

  check("queues are emptied in the order asked for, and no other is touched", async ({ driver }) => {
    await driver.push([
      job({ queue: "low", payload: "l1", priority: 100 }),
      job({ queue: "other", payload: "o1" }),
      job({ queue: "high", payload: "h1" }),
      job({ queue: "low", payload: "l2" }),
      job({ queue: "high", payload: "h2" }),
    ], T);
    const first = await take(driver, { queues: ["high", "low"], limit: 3 });
    assert.deepEqual(first.map(({ payload }) => payload), ["h1", "h2", "l1"]);
    const rest = await take(driver, { queues: ["high", "low"], limit: 3 });
    assert.deepEqual(rest.map(({ payload }) => payload), ["l2"]);
  });

  check("a queue gives no more than its share, and may stand in a request twice", async ({ driver }) => {
    const jobs = ["h1", "h2", "h3", "h4"].map((payload) => job({ queue: "high", payload }));
    await driver.push(
      [...jobs, job({ queue: "low", payload: "l1" }), job({ queue: "low", payload: "l2" })],
      T,
    );
    const shares = [{ queue: "high", limit: 2 }, { queue: "low", limit: 1 }];
    const { jobs: some } = await driver.reserve({
      queues: shares,
      limit: 9,
      prefetch: 0,
      now: T,
      retryAfter: LEASE,
    });
    assert.deepEqual(some.map(({ payload }) => payload), ["h1", "h2", "l1"]);
    const twice = [{ queue: "high", limit: 1 }, { queue: "low", limit: 1 }, { queue: "high", limit: 9 }];
    const { jobs: rest } = await driver.reserve({
      queues: twice,
      limit: 9,
      prefetch: 0,
      now: T,
      retryAfter: LEASE,
    });
    assert.deepEqual(rest.map(({ payload }) => payload), ["h3", "l2", "h4"]);
  });

  check("a queue gives no more than its share, also where leases end meanwhile", async ({ driver }) => {
    await driver.push([job({ queue: "high", payload: "h1" })], T);
    await take(driver, { queues: ["high"] });
    // A look just before the lease ends, so that a store that looks for ended ones now and then does not soon do so again.
    await driver.push([job({ queue: "low", payload: "l1" })], T);
    await take(driver, { queues: ["low"], now: T + LEASE - 1 });
    await driver.push([job({ queue: "high", payload: "h2" })], T + LEASE);
    const queues = [{ queue: "high", limit: 1 }, { queue: "low", limit: 1 }];
    const asked = { queues, limit: 2, prefetch: 0, now: T + LEASE, retryAfter: LEASE };
    assert.equal((await driver.reserve(asked)).jobs.length, 1);
    assert.equal((await driver.reserve(asked)).jobs.length, 1, "the other one is left for the next");
  });

  check("an empty queue leaves its share to those after it", async ({ driver }) => {
    await driver.push(["1", "2", "3"].map((payload) => job({ queue: "low", payload })), T);
    const queues = [{ queue: "high", limit: 3 }, { queue: "low", limit: 3 }];
    const { jobs } = await driver.reserve({ queues, limit: 3, prefetch: 0, now: T, retryAfter: LEASE });
    assert.deepEqual(jobs.map(({ payload }) => payload), ["1", "2", "3"]);
  });

  check("prefetch takes more, of jobs that never ran", async ({ driver }) => {
    await driver.push(["1", "2", "3", "4", "5"].map((payload) => job({ payload })), T);
    const first = await take(driver, { limit: 1, prefetch: 2 });
    assert.deepEqual(first.map(({ payload }) => payload), ["1", "2", "3"]);
    assert.deepEqual(first.map(({ attempt }) => attempt), [1, 1, 1]);
    const rest = await take(driver, { limit: 1, prefetch: 100 });
    assert.deepEqual(rest.map(({ payload }) => payload), ["4", "5"]);
  });

  check("prefetch leaves jobs that ran before", async ({ driver }) => {
    const payloads = ["ran 1", "ran 2", "ran 3"];
    await driver.push(payloads.map((payload) => job({ payload })), T - 1000);
    for (const held of await take(driver, { limit: 3, now: T - 1000 })) {
      await driver.release(held, { delay: 0, counted: true }, T - 1000);
    }
    await driver.push([job({ payload: "new 1" }), job({ payload: "new 2" })], T);
    const [first, ...beyond] = await take(driver, { limit: 1, prefetch: 10 });
    assert.deepEqual([first.payload, first.attempt], ["ran 1", 2]);
    assert.deepEqual(
      beyond.filter(({ attempt }) => attempt !== 1),
      [],
      "beyond the limit: first attempts only",
    );
    const rest = await take(driver, { limit: 10 });
    assert.deepEqual(
      [...beyond, ...rest].map(({ payload }) => payload).sort(),
      ["new 1", "new 2", "ran 2", "ran 3"],
      "nothing is lost",
    );
  });

  check("two drivers reserve at once: every job goes to one of them", async ({ driver, another }) => {
    const other = another();
    const ids = await driver.push(Array.from({ length: 120 }, () => job()), T);
    const taken = await Promise.all(
      Array.from({ length: 40 }, (_, index) => take(index % 2 ? driver : other, { limit: 3 })),
    );
    assert.deepEqual(taken.flat().map(({ id }) => id).sort(), [...ids].sort());
    assert.equal(new Set(taken.flat().map(({ token }) => token)).size >= 1, true);
  }, "two drivers");

  check("reservations asked for in one turn never share a job", async ({ driver }) => {
    const ids = await driver.push(Array.from({ length: 40 }, () => job()), T);
    const taken = await Promise.all(Array.from({ length: 20 }, () => take(driver, { limit: 2 })));
    assert.deepEqual(taken.flat().map(({ id }) => id).sort(), [...ids].sort());
  });
}

function leases(check: Check): void {
  check("a job whose lease ended runs again, and the dead run counts", async ({ driver }) => {
    for (const start of [T, T + 333, T + 999]) {
      const [id] = await driver.push([job({ payload: "p", queue: "post", priority: 3 })], start);
      const [dead] = await take(driver, { queues: ["post"], now: start });
      assert.deepEqual(
        await take(driver, { queues: ["post"], now: start + LEASE - 1 }),
        [],
        "still reserved",
      );
      const [held] = await take(driver, { queues: ["post"], now: start + LEASE });
      assert.deepEqual(bare(held), {
        id,
        name: "job",
        payload: "p",
        attempt: 2,
        queue: "post",
        priority: 3,
        token: "",
      });
      assert.notEqual(held.token, dead.token);
      assert.equal(await driver.complete(held), true);
    }
  });

  check("the lease is the one of the worker that asks", async ({ driver }) => {
    await driver.push([job()], T);
    await take(driver);
    assert.deepEqual(await take(driver, { now: T + 999, retryAfter: 1000 }), []);
    assert.equal((await take(driver, { now: T + 1000, retryAfter: 1000 })).length, 1);
  });

  check("many ended leases are all taken again", async ({ driver }) => {
    const ids = await driver.push(Array.from({ length: 450 }, () => job()), T);
    assert.equal((await takeAll(driver)).length, 450);
    const again = await takeAll(driver, { now: T + LEASE });
    assert.deepEqual(again.map(({ id }) => id).sort(), [...ids].sort());
    assert.deepEqual(new Set(again.map(({ attempt }) => attempt)), new Set([2]));
  });

  check("attempts go on counting through ended leases", async ({ driver }) => {
    await driver.push([job()], T);
    for (let attempt = 1; attempt <= 5; attempt++) {
      const [held] = await take(driver, { now: T + attempt * LEASE });
      assert.equal(held.attempt, attempt);
    }
  });

  check("a renewed lease does not end", async ({ driver }) => {
    await driver.push([job()], T);
    const held = await take(driver);
    for (const passed of [30_000, 60_000, 90_000, 150_000]) {
      assert.deepEqual(await driver.extend(held, T + passed), [], "none is lost");
      assert.deepEqual(await take(driver, { now: T + passed }), [], `held ${passed} ms on`);
    }
    assert.deepEqual(await take(driver, { now: T + 150_000 + LEASE - 1 }), []);
    const [again] = await take(driver, { now: T + 150_000 + LEASE });
    assert.equal(again.attempt, 2, "the renewals counted as no attempts");
  });

  check("a renewed lease is settled with the same reservation", async ({ driver }) => {
    await driver.push([job(), job(), job()], T);
    const [one, two, three] = await take(driver, { limit: 3 });
    await driver.extend([one, two, three], T + 30_000);
    await driver.extend([one, two, three], T + 60_001);
    assert.equal(await driver.complete(one), true);
    assert.equal(await driver.release(two, { delay: 0, counted: true }, T), true);
    assert.equal(await driver.fail(three, failure()), true);
  });

  check("renewing answers with those that are lost", async ({ driver }) => {
    assert.deepEqual(await driver.extend([], T), []);
    await driver.push(
      ["kept", "done", "released", "failed", "kept too"].map((payload) => job({ payload })),
      T,
    );
    const held = await take(driver, { limit: 5 });
    const [, done, released, failed] = held;
    await driver.complete(done);
    await driver.release(released, { delay: 0, counted: true }, T);
    await driver.fail(failed, failure());
    const lost = await driver.extend(held, T + 1);
    assert.equal(lost.length, 3);
    assert.deepEqual(new Set(lost), new Set([done, released, failed]));
    assert.equal([done, released, failed].every((one) => lost.includes(one)), true, "the same objects");
  });

  check("200 leases are renewed in one call", async ({ driver }) => {
    await driver.push(Array.from({ length: 200 }, () => job()), T);
    const held = await takeAll(driver);
    await driver.complete(held[77]);
    assert.deepEqual(await driver.extend(held, T + 60_000), [held[77]]);
    assert.deepEqual(await take(driver, { now: T + LEASE, limit: 200 }), []);
  });
}

function settling(check: Check): void {
  check(
    "what a turn completes and what it reserves next do not get in each other's way",
    async ({ driver }) => {
      const payloads = Array.from({ length: 40 }, (_, index) => String(index));
      await driver.push(
        payloads.map((payload) =>
          job({ payload, priority: Number(payload) % 3, queue: Number(payload) % 2 ? "a" : "b" })
        ),
        null,
      );
      const request = {
        queues: [{ queue: "a", limit: 10 }, { queue: "b", limit: 10 }],
        limit: 10,
        prefetch: 0,
        now: null,
        retryAfter: LEASE,
      };
      const ran: string[] = [];
      let stale: Reservation | null = null;
      let held = (await driver.reserve(request)).jobs;
      while (held.length > 0) {
        ran.push(...held.map(({ payload }) => payload));
        const again: Promise<boolean>[] = stale === null ? [] : [driver.complete({ ...stale })];
        const done = held.map((one) => driver.complete(one));
        const next = driver.reserve(request);
        assert.deepEqual(await Promise.all(done), held.map(() => true));
        assert.deepEqual(await Promise.all(again), again.map(() => false), "it is gone");
        stale = held[3];
        held = (await next).jobs;
      }
      assert.deepEqual(ran.sort(), payloads.sort());
      assert.equal(await driver.waiting(), 0);
    },
  );

  check("a completion goes well beside a reservation from another queue", async ({ driver }) => {
    await driver.push([job({ payload: "a", queue: "a" }), job({ payload: "b", queue: "b" })], null);
    const from = (queue: string) => ({
      queues: [{ queue, limit: 1 }],
      limit: 1,
      prefetch: 0,
      now: null,
      retryAfter: LEASE,
    });
    const [a] = (await driver.reserve(from("a"))).jobs;
    const done = driver.complete(a);
    const next = driver.reserve(from("b"));
    assert.equal(await done, true);
    assert.deepEqual((await next).jobs.map(({ payload }) => payload), ["b"]);
  });

  check("a completed job is gone", async ({ driver }) => {
    await driver.push([job()], T);
    const [held] = await take(driver);
    assert.equal(await driver.complete(held), true);
    assert.deepEqual(await driver.counts(T, LEASE), []);
    assert.deepEqual(await take(driver, { now: T + 10 * LEASE }), []);
    assert.equal(await driver.complete(held), false, "it was settled");
  });

  check("completions that tell an object go with the others of their turn", async ({ driver }) => {
    await driver.push([0, 1, 2, 3, 4, 5].map((payload) => job({ payload: String(payload) })), null);
    const held = await take(driver, { limit: 5, now: null });
    const [done, ...answers] = [
      driver.complete(held[0]),
      completeFor(driver, held[1]),
      completeFor(driver, held[2]),
      completeFor(driver, held[2]),
      driver.complete(held[1]),
      driver.release(held[3], { delay: 0, counted: true }, null),
    ];
    const [next] = await take(driver, { now: null, limit: 1 });
    assert.deepEqual(await Promise.all([done, ...answers]), [true, true, true, false, false, true]);
    assert.equal(next.payload, "5");
    assert.equal(await completeFor(driver, next), true);
    assert.equal(await completeFor(driver, next), false, "it was settled");
    assert.equal(await completeFor(driver, held[3]), false, "it was given back");
    assert.equal(await completeFor(driver, held[4]), true);
    assert.deepEqual((await take(driver, { limit: 9, now: null })).map(({ payload }) => payload), ["3"]);
  });

  check("what is kept of a job is gone with it, however its completion is told", async ({ driver }) => {
    await driver.push([job({ trace: "00-1-2-01" })], null);
    const [held] = await take(driver, { now: null, traces: true });
    await driver.report(held, { fraction: 0.5, note: null }, LEASE, null);
    assert.equal(await driver.cancel(held.id), "cancelling");
    assert.deepEqual((await driver.controls()).cancelled, [held.id]);
    assert.equal(await completeFor(driver, held), true);
    assert.equal(await driver.progress(held.id), null);
    assert.deepEqual((await driver.controls()).cancelled, []);
  });

  check("a released job runs again when it is due, as it was", async ({ driver }) => {
    const [id] = await driver.push([job({ payload: "p", queue: "post", priority: -4 })], T);
    const [held] = await take(driver, { queues: ["post"] });
    assert.equal(await driver.release(held, { delay: 10_001, counted: true }, T), true);
    const early = await reserve(driver, { queues: ["post"], now: T + 10_000 });
    assert.deepEqual([early.jobs, early.nextIn], [[], 1]);
    const [again] = await take(driver, { queues: ["post"], now: T + 10_001 });
    assert.deepEqual(bare(again), {
      id,
      name: "job",
      payload: "p",
      attempt: 2,
      queue: "post",
      priority: -4,
      token: "",
    });
  });

  check("a job handed back unrun gets its attempt back and keeps its place", async ({ driver }) => {
    await driver.push(["1", "2", "3"].map((payload) => job({ payload })), T);
    const [one, two] = await take(driver, { limit: 2 });
    assert.equal(await driver.release(two, { delay: null, counted: false }, T), true);
    assert.equal(await driver.release(one, { delay: null, counted: false }, T), true);
    const again = await take(driver, { limit: 3, now: T + 500 });
    assert.deepEqual(again.map(({ payload, attempt }) => [payload, attempt]), [["1", 1], ["2", 1], ["3", 1]]);
  });

  check("a job handed back unrun keeps its place, and is not put first", async ({ driver }) => {
    await driver.push(["1", "2", "3"].map((payload) => job({ payload })), T);
    const [one, _two, three] = await take(driver, { limit: 3 });
    await driver.release(three, { delay: null, counted: false }, T);
    await driver.release(one, { delay: 0, counted: true }, T);
    const order = (await take(driver, { limit: 3, now: T + 500 })).map(({ payload }) => payload);
    assert.deepEqual(order, ["1", "3"]);
  }, "due times");

  check("a job can be handed back unrun, to wait", async ({ driver }) => {
    await driver.push([job()], T);
    const [held] = await take(driver);
    assert.equal(await driver.release(held, { delay: 700, counted: false }, T), true);
    assert.deepEqual(await take(driver, { now: T + 699 }), []);
    assert.equal((await take(driver, { now: T + 700 }))[0].attempt, 1);
  });

  check("a job handed back unrun on its third attempt has had two", async ({ driver }) => {
    await driver.push([job()], T);
    for (let attempt = 1; attempt <= 2; attempt++) {
      const [held] = await take(driver);
      await driver.release(held, { delay: 0, counted: true }, T);
    }
    const [third] = await take(driver);
    await driver.release(third, { delay: null, counted: false }, T);
    const [again] = await take(driver);
    assert.deepEqual([third.attempt, again.attempt], [3, 3]);
  });

  check("settlements made in one turn each get their own answer", async ({ driver }) => {
    await driver.push(Array.from({ length: 40 }, (_, index) => job({ payload: String(index) })), T);
    const held = await takeAll(driver);
    await driver.complete(held[7]);
    const answers = await Promise.all(held.map((one, index) => {
      if (index % 3 === 0) return driver.complete(one);
      if (index % 3 === 1) return driver.release(one, { delay: 0, counted: true }, T);
      return driver.fail(one, failure());
    }));
    assert.deepEqual(answers, held.map((_, index) => index !== 7));
    const [counts] = await driver.counts(T, LEASE);
    assert.deepEqual([counts.ready, counts.delayed, counts.reserved, counts.failed], [12, 0, 0, 13]);
  });

  check("of two completions of one reservation in one turn the first holds", async ({ driver }) => {
    for (const count of [1, 40]) {
      await driver.push(Array.from({ length: count }, () => job()), T);
      const held = await takeAll(driver);
      const answers = await Promise.all([...held, held[0]].map((one) => driver.complete(one)));
      assert.deepEqual(answers, [...held.map(() => true), false], `among ${count}`);
    }
  });

  check("a job that is completed twice in one turn takes no other one with it", async ({ driver }) => {
    await driver.push(["1", "2", "3"].map((payload) => job({ payload })), T);
    const [first, second, third] = await take(driver, { limit: 3 });
    const answers = await Promise.all([first, first, third].map((one) => driver.complete(one)));
    assert.deepEqual(answers, [true, false, true]);
    assert.deepEqual(await driver.extend([second], T), [], "it is still held");
  });

  check("of two settlements of one reservation the first holds", async ({ driver }) => {
    await driver.push([job()], T);
    const [held] = await take(driver);
    const answers = await Promise.all([
      driver.fail(held, failure()),
      driver.complete(held),
      driver.release(held, { delay: 0, counted: true }, T),
    ]);
    assert.deepEqual(answers, [true, false, false]);
    assert.equal((await driver.failed({ after: null, limit: 10 })).length, 1);
    assert.deepEqual(await take(driver, { limit: 9 }), []);
  });
}

/** What a worker does that comes back after its lease ended. */
const STALE: ReadonlyArray<[string, (driver: Driver, stale: Reservation) => Promise<unknown>, unknown]> = [
  ["completes", (driver, stale) => driver.complete(stale), false],
  ["completes, and is told without a promise, ", (driver, stale) => completeFor(driver, stale), false],
  ["releases", (driver, stale) => driver.release(stale, { delay: 0, counted: true }, T), false],
  ["hands back", (driver, stale) => driver.release(stale, { delay: 0, counted: false }, T), false],
  ["fails", (driver, stale) => driver.fail(stale, failure()), false],
  ["renews", async (driver, stale) => (await driver.extend([stale], T + LEASE + 5))[0] === stale, true],
];

function fencing(check: Check): void {
  for (const [does, act, answer] of STALE) {
    check(
      `a stale worker that ${does} a job changes nothing for the one who holds it`,
      async ({ driver }) => {
        await driver.push([job({ payload: "p" })], T);
        const [stale] = await take(driver);
        const [held] = await take(driver, { now: T + LEASE });
        const before = await picture(driver, T + LEASE);
        assert.equal(await act(driver, stale), answer, "the stale worker is told");
        assert.deepEqual(await picture(driver, T + LEASE), before);
        assert.deepEqual(await take(driver, { now: T + 2 * LEASE - 1 }), [], "still held");
        assert.deepEqual(await driver.extend([held], T + 2 * LEASE - 1), [], "and not lost");
        assert.equal(await driver.complete(held), true);
      },
    );

    check(`a stale worker that ${does} a job after it is gone changes nothing`, async ({ driver }) => {
      await driver.push([job({ payload: "p" })], T);
      const [stale] = await take(driver);
      const [held] = await take(driver, { now: T + LEASE });
      await driver.complete(held);
      await driver.push([job({ payload: "another" })], T);
      const [another] = await take(driver);
      assert.equal(await act(driver, stale), answer);
      assert.deepEqual(await driver.failed({ after: null, limit: 10 }), []);
      assert.equal(await driver.complete(another), true, "a job that came after it is untouched");
    });

    check(
      `a worker that ${does} a job it gave back, and another took, changes nothing`,
      async ({ driver }) => {
        await driver.push([job({ payload: "p" })], T);
        const [stale] = await take(driver);
        await driver.release(stale, { delay: 0, counted: false }, T);
        assert.equal(await act(driver, stale), answer, "while it waits");
        const [held] = await take(driver);
        assert.deepEqual(
          [held.id, held.attempt],
          [stale.id, stale.attempt],
          "the same job, attempt and time",
        );
        assert.notEqual(held.token, stale.token, "the token alone differs");
        assert.equal(await act(driver, stale), answer, "while another holds it");
        assert.equal(await driver.complete(held), true);
      },
    );
  }

  for (const [does, act, answer] of STALE) {
    check(`a worker that ${does} an attempt of before a retry changes nothing`, async ({ driver }) => {
      await driver.push([job({ payload: "p" })], T);
      const [stale] = await take(driver);
      // Twice, so that an attempt of the first retry is stale, too.
      const [second] = await take(driver, { now: T + LEASE });
      await driver.fail(second, failure());
      const [failed] = await driver.failed({ after: null, limit: 1 });
      assert.equal((await driver.retry({ ids: [failed.id] }, T + LEASE)).length, 1);
      const [third] = await take(driver, { now: T + LEASE });
      const [fourth] = await take(driver, { now: T + 2 * LEASE });
      await driver.fail(fourth, failure());
      const [again] = await driver.failed({ after: null, limit: 1 });
      await driver.retry({ ids: [again.id] }, T + 2 * LEASE);
      const [held] = await take(driver, { now: T + 2 * LEASE });
      assert.deepEqual([held.id, held.attempt], [stale.id, stale.attempt], "the same job and attempt");
      const before = await picture(driver, T + 2 * LEASE);
      assert.equal(await act(driver, stale), answer, "of before the first retry");
      assert.equal(await act(driver, third), answer, "of before the second");
      assert.deepEqual(await picture(driver, T + 2 * LEASE), before);
      assert.deepEqual(await driver.extend([held], T + 2 * LEASE), [], "it is still held");
      assert.equal(await driver.complete(held), true);
    });
  }

  check("of many stale completions in one turn none holds", async ({ driver }) => {
    await driver.push(Array.from({ length: 40 }, () => job()), T);
    const first = await takeAll(driver);
    await Promise.all(first.map((held) => driver.release(held, { delay: null, counted: false }, T)));
    const second = await takeAll(driver);
    const third = await takeAll(driver, { now: T + LEASE });
    assert.deepEqual([first.length, second.length, third.length], [40, 40, 40]);
    const answers = await Promise.all(
      third.flatMap((_, index) =>
        [first[index], third[index], second[index]].map((one) => driver.complete(one))
      ),
    );
    assert.deepEqual(answers, third.flatMap(() => [false, true, false]));
  });

  check("of many completions in one turn a token that was given back does not hold", async ({ driver }) => {
    await driver.push(Array.from({ length: 40 }, () => job()), T);
    const first = await takeAll(driver);
    await Promise.all(first.map((held) => driver.release(held, { delay: null, counted: false }, T)));
    const second = await takeAll(driver);
    const answers = await Promise.all(first.map((held) => driver.complete(held)));
    assert.deepEqual(answers, first.map(() => false), "the attempt is the same, the token is not");
    assert.deepEqual(await driver.extend(second, T), []);
  });

  check("a stale worker cannot settle a job that was retried", async ({ driver }) => {
    await driver.push([job()], T);
    const [stale] = await take(driver);
    await driver.fail(stale, failure());
    await driver.retry({ after: null, limit: 10 }, T);
    assert.equal(await driver.complete(stale), false);
    const [held] = await take(driver);
    assert.equal(await driver.complete(stale), false);
    assert.equal(await driver.fail(stale, failure()), false);
    assert.equal(await driver.complete(held), true);
  });

  check("a stale worker of another process changes nothing", async ({ driver, another }) => {
    const other = another();
    await driver.push([job()], T);
    const [stale] = await take(other);
    const [held] = await take(driver, { now: T + LEASE });
    for (const [does, act, answer] of STALE) assert.equal(await act(other, stale), answer, does);
    assert.deepEqual(await other.failed({ after: null, limit: 10 }), []);
    assert.equal(await driver.complete(held), true);
  }, "two drivers");

  check(
    "a job can be settled through another driver that has the reservation",
    async ({ driver, another }) => {
      await driver.push([job()], T);
      const [held] = await take(driver);
      const other = another();
      assert.deepEqual(await other.extend([held], T + 1), []);
      assert.equal(await other.complete(held), true);
      assert.equal(await driver.complete(held), false);
    },
    "two drivers",
  );
}

function failing(check: Check): void {
  check("a failed job is kept with all that is known of it", async ({ driver }) => {
    await driver.push([job({ name: "mail", payload: "p", queue: "post", priority: 8 })], T);
    const [first] = await take(driver, { queues: ["post"] });
    await driver.release(first, { delay: 1, counted: true }, T);
    const [held] = await take(driver, { queues: ["post"], now: T + 1 });
    const why = { error: "upstream 503\nof 'it' — naïve", stack: "Error: x\n    at y", failedAt: T + 1999 };
    assert.equal(await driver.fail(held, why), true);
    const [failed, ...more] = await driver.failed({ after: null, limit: 10 });
    assert.deepEqual(more, []);
    assert.equal(Math.abs(failed.failedAt - why.failedAt) < 1000, true, "to the second");
    assert.deepEqual({ ...failed, id: "", failedAt: 0 }, {
      id: "",
      name: "mail",
      payload: "p",
      queue: "post",
      priority: 8,
      attempts: 2,
      error: why.error,
      stack: why.stack,
      failedAt: 0,
      history: [],
    });
    assert.deepEqual(
      await take(driver, { queues: ["post"], now: T + 10 * LEASE }),
      [],
      "it is no longer a job",
    );
    assert.equal(await driver.fail(held, why), false, "it was settled");
    assert.equal((await driver.failed({ after: null, limit: 10 })).length, 1);
  });

  check("a failed job is found by the id that it was dispatched with, and keeps it", async ({ driver }) => {
    const ids = await driver.push([job({ payload: "1" }), job({ payload: "2" })], T);
    for (const held of await take(driver, { limit: 2 })) await driver.fail(held, failure());
    const [found, ...more] = await driver.failed({ ids: [ids[1]] });
    assert.deepEqual([found.id, found.payload, more], [ids[1], "2", []]);
    assert.deepEqual(await driver.retry({ ids: [ids[1]] }, T), [{ id: ids[1], name: "job" }]);
    const [again] = await take(driver, { now: T + 1000 });
    assert.deepEqual([again.id, again.payload], [ids[1], "2"]);
    // At once, and for the same reason: it must not be taken for the failure that was retried.
    await driver.fail(again, failure());
    assert.equal((await driver.retry({ ids: [ids[1]] }, T)).length, 1);
    assert.equal((await take(driver, { limit: 9, now: T + 1000 })).length, 1);
    assert.deepEqual(await driver.forget({ ids }), [{ id: ids[0], name: "job" }]);
  });

  check("a failure without a stack has none", async ({ driver }) => {
    await failSome(driver, ["p"]);
    assert.equal((await driver.failed({ after: null, limit: 1 }))[0].stack, null);
  });

  check("failed jobs are read by their ids, or page by page in the order of them", async ({ driver }) => {
    const all = await failSome(driver, ["1", "2", "3", "4", "5"]);
    const read: FailedJob[] = [];
    let after: string | null = null;
    for (let pages = 0; pages < 3; pages++) {
      const page = await driver.failed({ after, limit: 2 });
      assert.equal(page.length, pages < 2 ? 2 : 1);
      read.push(...page);
      after = page[page.length - 1].id;
    }
    assert.deepEqual(read, all);
    assert.deepEqual(await driver.failed({ after, limit: 2 }), [], "no page after the last");
    assert.deepEqual(await driver.failed({ ids: [all[3].id, all[1].id] }), [all[1], all[3]]);
    assert.deepEqual(await driver.failed({ ids: [] }), []);
  });

  check("ids of no failed job are passed over", async ({ driver }) => {
    const [one] = await failSome(driver, ["1"]);
    const strange = [
      "99",
      "0",
      "-1",
      "1.5",
      "",
      " ",
      "all",
      "1; DROP TABLE jobs",
      "9".repeat(40),
      "1e3",
      "0x1",
    ];
    const none = strange.filter((id) => id !== one.id);
    assert.deepEqual(await driver.failed({ ids: none }), []);
    assert.deepEqual(await driver.retry({ ids: none }, T), []);
    assert.deepEqual(await driver.forget({ ids: none }), []);
    assert.deepEqual(await driver.retry({ ids: [...none, one.id] }, T), [{ id: one.id, name: "job" }]);
  });

  check("a retried job starts over, with its queue, its priority and its payload", async ({ driver }) => {
    await driver.push([job({ name: "mail", payload: "p", queue: "post", priority: 8 })], T);
    const [held] = await take(driver, { queues: ["post"] });
    await driver.fail(held, failure());
    const [failed] = await driver.failed({ after: null, limit: 10 });
    const later = T + 86_400_123;
    assert.deepEqual(await driver.retry({ ids: [failed.id] }, later), [{ id: failed.id, name: "mail" }]);
    assert.deepEqual(await driver.failed({ after: null, limit: 10 }), []);
    const [again] = await take(driver, { queues: ["post"], now: later });
    assert.deepEqual(
      [again.name, again.payload, again.queue, again.priority, again.attempt],
      ["mail", "p", "post", 8, 1],
    );
    assert.deepEqual(await driver.retry({ ids: [failed.id] }, later), [], "it is there no longer");
  });

  check("a retried job is due from the retry on", async ({ driver }) => {
    await failSome(driver, ["p"]);
    await driver.retry({ after: null, limit: 10 }, T + 5000);
    assert.deepEqual(await take(driver, { now: T + 4000 }), []);
    assert.equal((await take(driver, { now: T + 5000 })).length, 1);
  }, "due times");

  check("failed jobs are retried page by page", async ({ driver }) => {
    const all = await failSome(driver, ["1", "2", "3", "4", "5"]);
    const moved = all.map(({ id, name }) => ({ id, name }));
    assert.deepEqual(await driver.retry({ after: all[0].id, limit: 2 }, T), moved.slice(1, 3));
    assert.deepEqual((await driver.failed({ after: null, limit: 10 })).map(({ payload }) => payload), [
      "1",
      "4",
      "5",
    ]);
    assert.deepEqual(await driver.retry({ after: null, limit: 10 }, T + 1000), [
      moved[0],
      moved[3],
      moved[4],
    ]);
    assert.deepEqual(await driver.retry({ after: null, limit: 10 }, T + 1000), []);
    const held = await take(driver, { limit: 10, now: T + 1000 });
    assert.deepEqual(
      held.map(({ payload }) => payload),
      ["2", "3", "1", "4", "5"],
      "in the order of the retries",
    );
  });

  check("a job named twice is retried once", async ({ driver }) => {
    const [one] = await failSome(driver, ["1"]);
    assert.equal((await driver.retry({ ids: [one.id, one.id] }, T)).length, 1);
    assert.equal((await take(driver, { limit: 10 })).length, 1);
  });

  check("of two that retry a job at once, one does", async ({ driver, another }) => {
    const other = another();
    const all = await failSome(driver, Array.from({ length: 20 }, (_, index) => String(index)));
    const moved = await Promise.all(
      [driver, other, driver, other].map((one) => one.retry({ after: null, limit: 20 }, T)),
    );
    assert.deepEqual(moved.flat().map(({ id }) => id).sort(), all.map(({ id }) => id).sort());
    assert.equal((await takeAll(driver)).length, 20);
  }, "two drivers");

  check("failed jobs are forgotten by their ids, or page by page", async ({ driver }) => {
    const all = await failSome(driver, ["1", "2", "3", "4", "5"]);
    const moved = all.map(({ id, name }) => ({ id, name }));
    assert.deepEqual(await driver.forget({ ids: [all[2].id, "99999"] }), [moved[2]]);
    assert.deepEqual(await driver.forget({ ids: [all[2].id] }), [], "already gone");
    assert.deepEqual(await driver.forget({ after: all[0].id, limit: 2 }), [moved[1], moved[3]]);
    assert.deepEqual(await driver.forget({ after: null, limit: 10 }), [moved[0], moved[4]]);
    assert.deepEqual(await driver.failed({ after: null, limit: 10 }), []);
    assert.deepEqual(await take(driver, { limit: 10, now: T + 10 * LEASE }), [], "none came back");
  });
}

function looking(check: Check): void {
  check("the queues are those that have jobs, waiting or delayed", async ({ driver }) => {
    assert.deepEqual(await driver.queues(), []);
    await driver.push([job({ queue: "a" }), job({ queue: "b", delay: 60_000 }), job({ queue: "a" })], T);
    await failSome(driver, ["x"], "broken");
    assert.deepEqual((await driver.queues()).sort(), ["a", "b"]);
    for (const held of await take(driver, { queues: ["a", "b"], limit: 10, now: T + 60_000 })) {
      await driver.complete(held);
    }
    assert.deepEqual(await driver.queues(), []);
  }, "exact queues");

  check("the queues are named that have jobs, waiting or delayed", async ({ driver }) => {
    await driver.push([job({ queue: "a" }), job({ queue: "b", delay: 60_000 }), job()], T);
    const named = new Set(await driver.queues());
    assert.deepEqual(["a", "b", "default"].filter((queue) => !named.has(queue)), []);
  });

  check("a worker that asks for the queues finds a job whose worker died", async ({ driver }) => {
    await driver.push([job({ queue: "alone" })], T);
    await take(driver, { queues: ["alone"] });
    const found: Reservation[] = [];
    for (let round = 0; round < 3 && found.length === 0; round++) {
      found.push(...await take(driver, { queues: await driver.queues(), now: T + LEASE + round * 1000 }));
    }
    assert.deepEqual(found.map(({ queue, attempt }) => [queue, attempt]), [["alone", 2]]);
  });

  check("the counts say how many jobs each queue has in each state", async ({ driver }) => {
    assert.deepEqual(await driver.counts(T, LEASE), []);
    await driver.push([job({ queue: "a" })], T - 7000);
    await driver.push([job({ queue: "a", priority: -3 })], T - 5000);
    await driver.push([job({ queue: "a" })], T - 4000);
    await driver.push([job({ queue: "a", delay: 1 }), job({ queue: "b", delay: 60_000 })], T);
    await failSome(driver, ["1", "2"], "c");
    await take(driver, { queues: ["a"] });
    assert.deepEqual(byQueue(await driver.counts(T, LEASE)).map((one) => ({ ...one, oldest: null })), [
      { queue: "a", ready: 2, delayed: 1, reserved: 1, failed: 0, oldest: null },
      { queue: "b", ready: 0, delayed: 1, reserved: 0, failed: 0, oldest: null },
      { queue: "c", ready: 0, delayed: 0, reserved: 0, failed: 2, oldest: null },
    ]);
  });

  check("the counts say since when the oldest ready job has been due", async ({ driver }) => {
    await driver.push([job({ queue: "a" })], T - 7000);
    await driver.push([job({ queue: "a", priority: -3 })], T - 5000);
    await driver.push([job({ queue: "a" }), job({ queue: "b", delay: 60_000 })], T - 4000);
    await take(driver, { queues: ["a"] });
    const oldest = byQueue(await driver.counts(T, LEASE)).map(({ queue, oldest }) => [queue, oldest]);
    assert.deepEqual(oldest, [["a", T - 5000], ["b", null]]);
  });

  check(
    "the oldest ready job may be one that was delayed, and that no worker has met since",
    async ({ driver }) => {
      await driver.push([job({ delay: 2500 }), job({ delay: 9000 })], T - 5000);
      assert.equal((await driver.counts(T, LEASE))[0].oldest, T - 2500);
      await driver.push([job({ queue: "b" })], T - 1000);
      assert.equal((await take(driver, { queues: ["none"] })).length, 0);
      assert.deepEqual((await driver.counts(T, LEASE)).map(({ oldest }) => oldest), [T - 1000, T - 2500]);
    },
  );

  check("what was given back is no older than it was", async ({ driver }) => {
    await driver.push([job()], T - 5000);
    const oldest = async (now: number): Promise<number | null> => (await driver.counts(now, LEASE))[0].oldest;
    await driver.release((await take(driver))[0], { delay: null, counted: false }, T);
    assert.equal(await oldest(T), T - 5000, "handed back: it kept its place");
    const [snoozed] = await take(driver);
    await driver.release(snoozed, { delay: 1000, counted: false }, T);
    assert.equal(await oldest(T), null, "snoozed");
    assert.equal(await oldest(T + 4000), T + 1000);
    await driver.push([job()], T + 3000);
    const both = await take(driver, { now: T + 4000, limit: 2 });
    const again = both.find(({ id }) => id === snoozed.id)!;
    assert.equal(again.waited ?? 3000, 3000);
    assert.equal(both.find(({ id }) => id !== snoozed.id)!.waited, 1000);
    await driver.release(again, { delay: null, counted: false }, T + 4000);
    assert.ok(
      [T + 1000, null].includes(await oldest(T + 4000)),
      "it ran before: since its snooze, or not known",
    );
  });

  check("a reservation says for how long its job had been due", async ({ driver }) => {
    await driver.push([job(), job({ queue: "later", delay: 3000 })], T + 250);
    const [first] = await take(driver, { now: T + 1000 });
    assert.equal(first.waited, 750, "to the millisecond, also where it was due at once");
    assert.equal((await take(driver, { queues: ["later"], now: T + 3300 }))[0].waited, 50);
    await driver.release(first, { delay: null, counted: false }, T + 2000);
    assert.equal((await take(driver, { now: T + 2500 }))[0].waited, 2250, "as it was handed back");
  });

  check(
    "a reservation of a job that ran before says for how long that one had been due",
    async ({ driver }) => {
      await driver.push([job()], T);
      const [first] = await take(driver, { now: T + 1000 });
      await driver.release(first, { delay: 500, counted: true }, T + 2000);
      const [second] = await take(driver, { now: T + 2600 });
      assert.equal(second.waited, 100, "since its backoff was over");
      await driver.fail(second, failure());
      await driver.retry({ after: null, limit: 10 }, T + 5000);
      assert.equal((await take(driver, { now: T + 5010 }))[0].waited, 10, "since it was put back");
    },
    "due times",
  );

  check("the trace of a dispatch comes with each reservation that asks for it", async ({ driver }) => {
    const [trace, other] = ["1", "2"].map((one) => `00-${one.repeat(32)}-${one.repeat(16)}-01`);
    await driver.push([job({ trace }), job({ queue: "plain" })], T);
    await driver.pushOnce([{ ...job({ trace: other, queue: "keyed" }), key: "k" }], T);
    const again = `00-${"3".repeat(32)}-${"3".repeat(16)}-01`;
    await driver.pushOnce([{ ...job({ trace: again, queue: "keyed" }), key: "k" }], T);
    const [held] = await take(driver, { traces: true });
    assert.equal(held.trace, trace);
    await driver.release(held, { delay: 0, counted: true }, T);
    const [second] = await take(driver, { traces: true });
    assert.deepEqual([second.attempt, second.trace], [2, trace], "with the next attempt, too");
    const [plain] = await take(driver, { queues: ["plain"], traces: true });
    assert.equal("trace" in plain, false, "nobody traced it");
    const [keyed] = await take(driver, { queues: ["keyed"], traces: true });
    assert.equal(keyed.trace, other, "of the dispatch that stored it");
    assert.equal(await driver.complete(second), true);
    await driver.fail(keyed, failure());
    await driver.retry({ after: null, limit: 10 }, T);
    const [retried] = await take(driver, { queues: ["keyed"], traces: true });
    assert.equal("trace" in retried, false, "a retry is no part of what once dispatched it");
  });

  check("the oldest ready job may be one whose lease ended", async ({ driver }) => {
    await driver.push([job()], T - 5000);
    assert.equal((await take(driver)).length, 1);
    await driver.push([job()], T);
    const oldest = async (now: number): Promise<number | null> => (await driver.counts(now, LEASE))[0].oldest;
    assert.equal(await oldest(T + LEASE - 1), T, "it is held");
    assert.equal(await oldest(T + LEASE), T - 5000);
  });

  check("waiting are the ready, the delayed and the reserved of all queues", async ({ driver }) => {
    assert.equal(await driver.waiting(), 0);
    await failSome(driver, ["1"]);
    await driver.push(
      [job(), job({ delay: 5000 }), job({ queue: "b" }), job({ queue: "b", priority: 3 })],
      T,
    );
    assert.equal((await take(driver, { queues: ["b"] })).length, 1);
    assert.equal(await driver.waiting(), 4);
  });

  check("an ended lease counts as ready, and a running one as reserved", async ({ driver }) => {
    await driver.push([job()], T);
    await take(driver);
    const states = async (now: number): Promise<number[]> => {
      const [counts] = await driver.counts(now, LEASE);
      return [counts.ready, counts.delayed, counts.reserved];
    };
    assert.deepEqual(await states(T + LEASE - 1), [0, 0, 1]);
    assert.deepEqual(await states(T + LEASE), [1, 0, 0]);
  });
}

function living(check: Check): void {
  check("a driver can be opened twice, and has a database then", async ({ driver }) => {
    await Promise.all([driver.open(), driver.open()]);
    await driver.open();
    assert.notEqual(driver.database ?? null, null);
    await driver.push([job()], T);
    assert.equal((await take(driver)).length, 1);
  });

  check("two drivers can open a new store at once", async ({ driver, another }) => {
    const drivers = [driver, another(), another(), another()];
    await Promise.all(drivers.map((one) => one.open()));
    await Promise.all(drivers.map((one) => one.push([job()], T)));
    assert.equal((await takeAll(driver)).length, 4);
  }, "two drivers");

  check("a push wakes those who listen", async ({ driver }) => {
    await driver.open();
    let others = 0;
    const woken = Promise.withResolvers<void>();
    const listener = driver.listen(() => {
      woken.resolve();
      return true;
    });
    const other = driver.listen(() => ++others > 0);
    other.rest();
    other.close();
    listener.rest();
    await pushUntil(driver, woken.promise);
    listener.close();
    assert.equal(others, 0, "one that stopped listening is left alone");
  });

  check("a push wakes those who listen in another process", async ({ driver, another }) => {
    const other = another();
    await Promise.all([driver.open(), other.open()]);
    const woken = Promise.withResolvers<void>();
    const listener = other.listen(() => {
      woken.resolve();
      return true;
    });
    listener.rest();
    await pushUntil(driver, woken.promise);
    listener.close();
  }, "two drivers");

  check("closing finishes what is under way", async ({ driver, another }) => {
    const used = another();
    await used.open();
    for (const one of [driver, used]) {
      const pushes = Array.from({ length: 20 }, (_, index) => one.push([job({ payload: String(index) })], T));
      await one.close();
      const ids = (await Promise.all(pushes)).flat();
      assert.deepEqual((await takeAll(another())).map(({ id }) => id), ids);
    }
  }, "two drivers");

  check("a closed driver refuses every call, and can be closed again", async ({ driver }) => {
    await driver.push([job(), job()], T);
    const [held] = await take(driver);
    await driver.close();
    await driver.close();
    const calls: Record<string, () => Promise<unknown>> = {
      open: () => driver.open(),
      push: () => driver.push([job()], T),
      pushOnce: () => driver.pushOnce([{ ...job(), key: "k" }], T),
      reserve: () => reserve(driver),
      extend: () => driver.extend([held], T),
      complete: () => driver.complete(held),
      completeFor: () => completeFor(driver, held),
      release: () => driver.release(held, { delay: 0, counted: true }, T),
      fail: () => driver.fail(held, failure()),
      queues: () => driver.queues(),
      counts: () => driver.counts(T, LEASE),
      waiting: () => driver.waiting(),
      failed: () => driver.failed({ after: null, limit: 1 }),
      findFailed: () => driver.findFailed({ filter: {}, after: null, until: null, reverse: false, limit: 1 }),
      clear: () => driver.clear(null, 1),
      retry: () => driver.retry({ after: null, limit: 1 }, T),
      forget: () => driver.forget({ after: null, limit: 1 }),
      pause: () => driver.pause(null),
      resume: () => driver.resume(null),
      restart: () => driver.restart(),
      cancel: () => driver.cancel(held.id),
      controls: () => driver.controls(),
      report: () => driver.report(held, { fraction: 0.5, note: null }, LEASE, T),
      progress: () => driver.progress(held.id),
    };
    for (const [name, call] of Object.entries(calls)) {
      await assert.rejects(call, (error) => error instanceof QueueError && error.code === "CLOSED", name);
    }
  });

  check("a driver that was never used can be closed", async ({ driver }) => {
    await driver.close();
    await assert.rejects(
      driver.push([job()], T),
      (error) => error instanceof QueueError && error.code === "CLOSED",
    );
  });
}

/** A job to push; due at once, on the default queue. */
export function job(differences: Partial<NewJob> = {}): NewJob {
  return { name: "job", payload: "{}", queue: "default", priority: 0, delay: 0, ...differences };
}

/** A failure to record. */
export function failure(): Failure {
  return { error: "nope", stack: null, failedAt: T };
}

/** What a test asks of a reservation. */
export interface Asked {
  queues?: readonly string[];
  limit?: number;
  prefetch?: number;
  now?: number | null;
  retryAfter?: number;
  traces?: true;
}

/** Reserves, at `T` and one job from the default queue unless asked otherwise. */
export function reserve(driver: Driver, asked: Asked = {}): Promise<Reserved> {
  const { queues = ["default"], limit = 1, prefetch = 0, now = T, retryAfter = LEASE, traces } = asked;
  return driver.reserve({
    queues: queues.map((queue) => ({ queue, limit: limit + prefetch })),
    limit,
    prefetch,
    now,
    retryAfter,
    ...traces === undefined ? {} : { traces },
  });
}

/** Completes as a worker does, which has the driver tell an object, where it can. */
function completeFor(driver: Driver, held: Reservation): Promise<boolean> {
  return new Promise((resolve, reject) => {
    let returned = false;
    const settlement = {
      stored: (done: boolean) =>
        returned ? resolve(done) : reject(new Error("told before the call has returned")),
      failed: (error: unknown) =>
        returned ? reject(error) : reject(new Error("failed before the call has returned")),
    };
    if (driver.completeFor === undefined) driver.complete(held).then(settlement.stored, settlement.failed);
    else driver.completeFor(held, settlement);
    returned = true;
  });
}

/** Reserves jobs, at `T` and one from the default queue unless asked otherwise. */
export async function take(driver: Driver, asked: Asked = {}): Promise<Reservation[]> {
  return [...(await reserve(driver, asked)).jobs];
}

/** Reserves until nothing is left. */
async function takeAll(driver: Driver, asked: Asked = {}): Promise<Reservation[]> {
  const all: Reservation[] = [];
  for (;;) {
    const jobs = await take(driver, { limit: 100, ...asked });
    if (jobs.length === 0) return all;
    all.push(...jobs);
  }
}

/** A reservation without what differs from one to the next: its token, and how long its job was due. */
function bare(held: Reservation): Omit<Reservation, "waited"> {
  const { waited: _, ...rest } = held;
  return { ...rest, token: "" };
}

/** Pushes and fails a job for each payload, and returns the failed jobs. */
async function failSome(
  driver: Driver,
  payloads: readonly string[],
  queue = "default",
): Promise<FailedJob[]> {
  await driver.push(payloads.map((payload) => job({ payload, queue })), T);
  for (const held of await take(driver, { queues: [queue], limit: payloads.length })) {
    assert.equal(await driver.fail(held, failure()), true);
  }
  const failed = await driver.failed({ after: null, limit: 1000 });
  assert.equal(failed.length, payloads.length);
  return failed;
}

/** All that can be seen of a store without changing it. */
async function picture(driver: Driver, now: number): Promise<unknown[]> {
  return [
    await driver.counts(now, LEASE),
    await driver.queues(),
    await driver.failed({ after: null, limit: 100 }),
  ];
}

function byQueue(counts: readonly QueueCounts[]): QueueCounts[] {
  return counts.map((one) => ({ ...one })).sort((a, b) => a.queue < b.queue ? -1 : 1);
}

/** Pushes, more than once if need be: a wake-up is a hint, and a watch may take a moment to be armed. */
async function pushUntil(driver: Driver, woken: Promise<void>): Promise<void> {
  await driver.push([job()], T);
  const again = setInterval(() => void driver.push([job()], T), 250);
  try {
    await soon(woken, "a wake-up");
  } finally {
    clearInterval(again);
  }
}
