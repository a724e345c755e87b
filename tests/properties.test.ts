/** Rules that hold for any input, tried with many. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Job, Queue, QueueError } from "@x/queue";
import { backoffAfter } from "../core/backoff.ts";
import { type DurationRecord, toMilliseconds } from "../core/duration.ts";
import { Shares } from "../core/shares.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { job } from "./conformance.ts";

const T = 1_800_000_000_000;

// Payloads

/** Dispatches values, runs the jobs, and returns what their handlers saw. */
async function roundTrip(values: readonly unknown[]): Promise<{ payload: string; data: unknown }[]> {
  const seen: { payload: string; data: unknown }[] = [];
  const queue = new Queue({
    database: ":memory:",
    env: {},
    jobs: { any: (job: Job) => void seen.push({ payload: job.payload, data: job.data }) },
  });
  await queue.dispatchMany(values.map((value) => ["any", value]));
  await queue.work({ stopWhenEmpty: true, concurrency: 7 });
  await queue.close();
  return seen;
}

test("any JSON value comes back as it was dispatched", async () => {
  const value = fc.jsonValue({ maxDepth: 4 }).filter((value) => typeof value !== "string");
  await fc.assert(
    fc.asyncProperty(fc.array(value, { minLength: 1, maxLength: 20 }), async (values) => {
      const seen = await roundTrip(values);
      assert.deepEqual(seen.map(({ payload }) => payload), values.map((value) => JSON.stringify(value)));
      // JSON has no negative zero: what it makes of the value is what counts.
      assert.deepEqual(
        seen.map(({ data }) => data),
        values.map((value) => JSON.parse(JSON.stringify(value))),
      );
    }),
    { numRuns: 40 },
  );
});

/** Any text, and now and then text that looks like something else. */
const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 200 }),
  fc.string({ unit: "grapheme", maxLength: 200 }),
  fc.jsonValue().map((value) => JSON.stringify(value)),
  fc.constantFrom("", "null", "0123", "1e999", "'; DROP TABLE jobs; --", "\r\n", "\ufeff", "?1"),
);

test("any text without NUL is stored as it is", async () => {
  const stored = text.filter((text) => !text.includes("\0"));
  await fc.assert(
    fc.asyncProperty(fc.array(stored, { minLength: 1, maxLength: 20 }), async (texts) => {
      const seen = await roundTrip(texts);
      assert.deepEqual(seen.map(({ payload }) => payload), texts);
      for (const { payload, data } of seen) {
        let parsed: unknown = payload;
        try {
          parsed = JSON.parse(payload);
        } catch {
          // No JSON: its own text.
        }
        assert.deepEqual(data, parsed);
      }
    }),
    { numRuns: 40 },
  );
});

test("text that a store would change is refused", async () => {
  const spoilt = fc.tuple(text, fc.constantFrom("\0", "\ud800", "\udfff", "\udc00\ud800"), text);
  const queue = new Queue({ database: ":memory:", env: {}, jobs: { any: () => {} } });
  await fc.assert(
    fc.asyncProperty(spoilt, async ([before, bad, after]) => {
      // A half may meet its other half in the text beside it.
      const payload = `${before}x${bad}x${after}`;
      await assert.rejects(
        queue.dispatch("any", payload),
        (error) => error instanceof QueueError && error.code === "PAYLOAD",
      );
      // In a value it is escaped, so nothing is changed.
      await queue.dispatch("any", { payload });
    }),
    { numRuns: 60 },
  );
  assert.equal(await queue.waiting(), 60, "of the refused ones nothing was stored");
  await queue.close();
});

test("what JSON cannot hold is refused", async () => {
  const queue = new Queue({ database: ":memory:", env: {}, jobs: { any: () => {} } });
  const cycle: unknown[] = [];
  cycle.push({ cycle });
  const throws = {
    toJSON() {
      throw new Error("not me");
    },
  };
  for (
    const payload of [5n, { deep: [5n] }, cycle, () => 1, Symbol("x"), throws, { toJSON: () => undefined }]
  ) {
    await assert.rejects(
      queue.dispatch("any", payload),
      (error) =>
        error instanceof QueueError && error.code === "PAYLOAD" &&
        /^queue: the payload of "any" /.test(error.message),
    );
    await assert.rejects(queue.dispatchMany([["any", 1], ["any", payload], ["any", 2]]));
  }
  assert.equal(await queue.waiting(), 0, "also of many, nothing was stored");
  await queue.close();
});

test("a payload is refused from the first byte of UTF-8 above the limit", async () => {
  const queue = new Queue({ database: ":memory:", env: {}, maxPayload: 50, jobs: { any: () => {} } });
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: "grapheme", maxLength: 60 }), async (text) => {
      const fits = new TextEncoder().encode(text).length <= 50;
      const dispatch = queue.dispatch("any", text);
      if (fits) await dispatch;
      else {
        await assert.rejects(dispatch, (error) => {
          assert.equal(error instanceof QueueError && error.code, "PAYLOAD");
          assert.match((error as Error).message, /QUEUE_MAX_PAYLOAD/);
          return true;
        });
      }
    }),
  );
  await queue.close();
});

// Order

test("jobs go by priority, then when they are due, then in the order of their dispatch", async () => {
  const due = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 2500 }));
  const pushes = fc.array(
    fc.array(fc.record({ priority: fc.integer({ min: -2, max: 2 }), due }), { maxLength: 8 }),
    {
      maxLength: 8,
    },
  );
  await fc.assert(
    fc.asyncProperty(pushes, fc.array(fc.integer({ min: 1, max: 7 })), async (pushes, limits) => {
      const driver = new SqliteDriver({ database: ":memory:" });
      const expected: { id: string; priority: number; due: number; place: number }[] = [];
      for (const push of pushes) {
        const ids = await driver.push(push.map(({ priority, due }) => job({ priority, delay: due })), T);
        push.forEach((one, index) => expected.push({ ...one, id: ids[index], place: expected.length }));
      }
      expected.sort((a, b) => b.priority - a.priority || a.due - b.due || a.place - b.place);
      const ids: string[] = [];
      for (let round = 0;; round++) {
        const limit = limits[round] ?? 3;
        const { jobs } = await driver.reserve({
          queues: [{ queue: "default", limit }],
          limit,
          prefetch: 0,
          now: T + 5000,
          retryAfter: 90_000,
        });
        if (jobs.length === 0) break;
        ids.push(...jobs.map(({ id }) => id));
      }
      assert.deepEqual(ids, expected.map(({ id }) => id));
      await driver.close();
    }),
    { numRuns: 60 },
  );
});

// Durations and backoff

const UNITS: ReadonlyArray<[keyof DurationRecord, number]> = [
  ["days", 86_400_000],
  ["hours", 3_600_000],
  ["minutes", 60_000],
  ["seconds", 1000],
  ["milliseconds", 1],
];

test("a duration is the sum of its parts", () => {
  const part = fc.option(fc.integer({ min: 0, max: 10_000 }), { nil: undefined });
  fc.assert(
    fc.property(fc.tuple(part, part, part, part, part), (parts) => {
      const record: DurationRecord = {};
      let sum = 0;
      UNITS.forEach(([unit, size], index) => {
        if (parts[index] === undefined) return;
        record[unit] = parts[index];
        sum += parts[index] * size;
      });
      if (Object.keys(record).length === 0) return;
      assert.equal(toMilliseconds(record, "delay"), sum);
      assert.equal(toMilliseconds(sum, "delay"), sum, "a number is milliseconds");
    }),
  );
});

test("a fraction of a duration is rounded to the millisecond", () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1e9, noNaN: true }), (amount) => {
      assert.equal(toMilliseconds(amount, "delay"), Math.round(amount));
      assert.equal(toMilliseconds({ seconds: amount / 1000 }, "delay"), Math.round(amount / 1000 * 1000));
    }),
  );
});

test("what is no duration is refused, and named", () => {
  const wrong = fc.oneof(
    fc.constantFrom<unknown>(
      NaN,
      Infinity,
      -Infinity,
      -1,
      1e300,
      "5",
      "",
      null,
      undefined,
      true,
      {},
      [],
      [1],
      () => 1,
    ),
    fc.double({ max: -0.5000001, noNaN: true }),
    fc.record({ minutes: fc.constantFrom<unknown>("5", null, -1, NaN, Infinity, {}, 5n) }),
    fc.constantFrom<unknown>({ minute: 5 }, { months: 1 }, { years: 1 }, { minutes: 5, months: 1 }, {
      ms: 3,
    }),
    // Not JSON, so that an error which shows the value must not trip over it.
    fc.constantFrom<unknown>(5n, Symbol("x"), new Date(), new Map()),
  );
  fc.assert(
    fc.property(wrong, (value) => {
      assert.throws(
        () => toMilliseconds(value as number, "backoff"),
        (error) =>
          error instanceof QueueError && error.code === "CONFIG" &&
          error.message.startsWith("queue: backoff="),
      );
    }),
    { numRuns: 300 },
  );
});

interface TemporalLike {
  Duration: { from(record: Record<string, number>): DurationRecord };
}
const Temporal = (globalThis as { Temporal?: TemporalLike }).Temporal;

test(
  "a Temporal.Duration is a duration",
  { skip: Temporal === undefined && "this runtime has no Temporal" },
  () => {
    fc.assert(
      fc.property(fc.nat(1000), fc.nat(1000), fc.nat(1000), (hours, minutes, milliseconds) => {
        const duration = Temporal!.Duration.from({ hours, minutes, milliseconds });
        assert.equal(toMilliseconds(duration, "delay"), hours * 3_600_000 + minutes * 60_000 + milliseconds);
      }),
    );
    const unfixed: Record<string, number>[] = [{ months: 1 }, { years: 2 }];
    for (const record of unfixed) {
      assert.throws(
        () => toMilliseconds(Temporal!.Duration.from(record), "delay"),
        /^QueueError: queue: delay=/,
      );
    }
  },
);

test("the wait after an attempt is its entry of the backoff, and then the last one", () => {
  const backoff = fc.array(fc.nat(1_000_000), { minLength: 1, maxLength: 10 });
  fc.assert(
    fc.property(backoff, fc.integer({ min: 1, max: 100 }), (backoff, attempt) => {
      const wait = backoffAfter(attempt, backoff);
      assert.equal(wait, attempt <= backoff.length ? backoff[attempt - 1] : backoff[backoff.length - 1]);
    }),
  );
});

// Queues

const names = fc.uniqueArray(
  fc.string({ unit: fc.constantFrom(..."abcXYZ019-_./é日"), minLength: 1, maxLength: 8 }),
  {
    minLength: 1,
    maxLength: 6,
  },
);
const weights = names.chain((names) =>
  fc.tuple(...names.map((name) => fc.tuple(fc.constant(name), fc.integer({ min: 1, max: 12 }))))
) as fc.Arbitrary<[string, number][]>;

/** Which queue each of `draws` jobs comes from, one after another, when all have jobs enough. */
function draw(shares: Shares, draws: number): string[] {
  return Array.from({ length: draws }, () => {
    const asked = shares.divide(1);
    const [{ queue }] = asked;
    shares.took(asked, [{ queue }]);
    return queue;
  });
}

test("a list of names is an order, written either way", () => {
  fc.assert(
    fc.property(names, fc.integer({ min: 1, max: 50 }), (names, want) => {
      const expected = names.map((queue) => ({ queue, limit: want }));
      assert.deepEqual(new Shares(names, []).divide(want), expected);
      assert.deepEqual(new Shares(names.join(","), []).divide(want), expected);
      assert.deepEqual(new Shares(` ${names.join(" , ")} `, []).divide(want), expected);
    }),
  );
});

test("weights are the same, written either way", () => {
  fc.assert(
    fc.property(weights, fc.integer({ min: 1, max: 50 }), (weights, want) => {
      const text = weights.map(([name, weight]) => `${name}:${weight}`).join(",");
      const spaced = weights.map(([name, weight]) => ` ${name} : ${weight} `).join(",");
      // An object puts names that are whole numbers first, so the queues are compared without their order.
      const divided = (shares: Shares): unknown => draw(shares, want).sort();
      const period = weights.reduce((sum, [, weight]) => sum + weight, 0);
      assert.deepEqual(new Shares(text, []).divide(want), new Shares(spaced, []).divide(want));
      if (want % period === 0) {
        assert.deepEqual(divided(new Shares(Object.fromEntries(weights), [])), divided(new Shares(text, [])));
      }
    }),
  );
});

test("by weight each queue gets exactly its part of every period, so none starves", () => {
  fc.assert(
    fc.property(weights, fc.nat(5), (weights, periods) => {
      const sum = weights.reduce((sum, [, weight]) => sum + weight, 0);
      const drawn = draw(new Shares(Object.fromEntries(weights), []), sum * (periods + 1));
      for (let period = 0; period <= periods; period++) {
        const part = drawn.slice(period * sum, (period + 1) * sum);
        for (const [name, weight] of weights) {
          assert.equal(part.filter((queue) => queue === name).length, weight, `${name} in period ${period}`);
        }
      }
    }),
  );
});

test("queues without jobs change nothing of the others' parts", () => {
  fc.assert(
    fc.property(weights, weights, fc.integer({ min: 1, max: 4 }), (busy, idle, want) => {
      const names = new Set(busy.map(([name]) => name));
      const shares = new Shares(Object.fromEntries([...idle, ...busy]), []);
      const sum = busy.reduce((sum, [, weight]) => sum + weight, 0);
      const given: string[] = [];
      while (given.length < sum * 20) {
        // As a driver with endless jobs of the busy queues does.
        const jobs: { queue: string }[] = [];
        const asked = shares.divide(want);
        for (const { queue, limit } of asked) {
          for (let left = limit; names.has(queue) && left > 0 && jobs.length < want; left--) {
            jobs.push({ queue });
          }
        }
        shares.took(asked, jobs);
        given.push(...jobs.map(({ queue }) => queue));
      }
      for (const [name, weight] of busy) {
        const part = given.filter((queue) => queue === name).length / given.length;
        assert.equal(Math.abs(part - weight / sum) <= 0.1, true, `${name} gets ${part}, not ${weight / sum}`);
      }
    }),
    // Debts made while the idle ones still counted once weighed twelve times as much when they no longer did.
    { examples: [[[["a", 1], ["b", 1]], [["c", 1], ["d", 1], ["e", 4], ["f", 6], ["g", 6], ["h", 6]], 2]] },
  );
});

test("a queue that is gone and back while a question is under way owes nothing for that", () => {
  const names = ["a", "b", "c"];
  const shares = new Shares(undefined, []);
  shares.discover(names);
  for (let time = 0; time < 5; time++) {
    const asked = shares.divide(1);
    shares.discover([]);
    shares.discover(names);
    shares.forget(asked);
  }
  const fresh = new Shares(undefined, []);
  fresh.discover(names);
  assert.deepEqual(draw(shares, 9), draw(fresh, 9));
});

test("weights hold over several questions that are under way at once", () => {
  fc.assert(
    fc.property(
      weights,
      fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 2, maxLength: 9 }),
      fc.integer({ min: 3, max: 9 }),
      (weights, wants, fails) => {
        const shares = new Shares(Object.fromEntries(weights), []);
        const sum = weights.reduce((sum, [, weight]) => sum + weight, 0);
        const given: string[] = [];
        const under: { want: number; asked: ReturnType<Shares["divide"]> }[] = [];
        for (let turn = 0; given.length < sum * 50; turn++) {
          const want = wants[turn % wants.length];
          under.push({ want, asked: shares.divide(want) });
          if (under.length < 4) continue;
          // As a driver with endless jobs answers, in the order in which it was asked.
          const { want: most, asked } = under.shift()!;
          if (turn % fails === 0) {
            // The store was away.
            shares.forget(asked);
            continue;
          }
          const jobs = asked.flatMap(({ queue, limit }) => Array.from({ length: limit }, () => ({ queue })))
            .slice(0, most);
          shares.took(asked, jobs);
          given.push(...jobs.map(({ queue }) => queue));
        }
        for (const [name, weight] of weights) {
          const part = given.filter((queue) => queue === name).length / given.length;
          assert.equal(
            Math.abs(part - weight / sum) <= 0.05,
            true,
            `${name} gets ${part}, not ${weight / sum}`,
          );
        }
      },
    ),
    // Each of them asked for the same once, because none knew what the others had asked for.
    { examples: [[[["a", 1], ["b", 1]], [3, 4], 1e6]] },
  );
});

test("asked for many at once, the parts add up, and what one leaves the others get", () => {
  fc.assert(
    fc.property(weights, fc.integer({ min: 1, max: 200 }), (weights, want) => {
      const shares = new Shares(Object.fromEntries(weights), []).divide(want);
      const sum = weights.reduce((sum, [, weight]) => sum + weight, 0);
      const parts = shares.slice(0, shares.length - weights.length);
      if (weights.length > 1) {
        assert.equal(parts.reduce((total, { limit }) => total + limit, 0), want);
        for (const [name, weight] of weights) {
          const part = parts.filter(({ queue }) => queue === name).reduce(
            (total, { limit }) => total + limit,
            0,
          );
          assert.equal(
            Math.abs(part - want * weight / sum) < weights.length,
            true,
            `${name} gets ${part} of ${want}`,
          );
        }
      }
      const rest = shares.slice(-weights.length);
      assert.deepEqual(new Set(rest.map(({ queue }) => queue)), new Set(weights.map(([name]) => name)));
      for (const { limit } of rest) assert.equal(limit, want);
    }),
  );
});

test("with no selection every queue is dealt the same, also those found later", () => {
  fc.assert(
    fc.property(names, names, fc.nat(20), (known, found, before) => {
      const shares = new Shares(undefined, known);
      draw(shares, before);
      const all = new Set([...known, ...found]);
      assert.equal(shares.discover(found), all.size > known.length);
      assert.equal(shares.discover(found), false, "nothing new");
      const drawn = draw(shares, all.size * 10);
      for (const name of all) {
        const times = drawn.filter((queue) => queue === name).length;
        assert.equal(Math.abs(times - 10) <= 1, true, `${name} was dealt ${times} of ${drawn.length}`);
      }
    }),
  );
});

test("a selection of queues that cannot work is refused", () => {
  const wrong: unknown[] = [
    "",
    ",",
    "a,",
    "a,,b",
    "a,a",
    "a:0,b:1",
    "a:-1",
    "a:1.5",
    "a:x",
    "a:",
    ":1",
    "a:1,b",
    "a:1:2",
    "a b",
    "*",
    [],
    [""],
    ["a", "a"],
    [7],
    {},
    { a: 0 },
    { a: 1.5 },
    { a: NaN },
    { a: Infinity },
    { "": 1 },
    { "a,b": 1 },
    { a: 1e9 },
  ];
  for (const selection of wrong) {
    assert.throws(
      () => new Shares(selection as string, []),
      (error) => error instanceof QueueError && error.code === "CONFIG" && /queues/.test(error.message),
      JSON.stringify(selection),
    );
  }
});

test("a worker takes by weight, and from what is left when a queue is empty", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 5 }),
      fc.constantFrom(1, 2, 5),
      async (high, low, concurrency) => {
        const ran: string[] = [];
        const queue = new Queue({
          database: ":memory:",
          env: {},
          jobs: { record: (job: Job) => void ran.push(job.queue) },
        });
        const jobs = (name: string) =>
          Array.from({ length: 20 }, () => ["record", name, { queue: name }] as const);
        await queue.dispatchMany([...jobs("high"), ...jobs("low")].map((entry) => [...entry]));
        await queue.work({ queues: { high, low }, concurrency, stopWhenEmpty: true });
        assert.equal(ran.length, 40, "none was left behind");
        // As long as both have jobs, each lot of high + low has both, in proportion.
        const period = high + low;
        const both = Math.floor(20 / Math.max(high, low)) * period;
        const first = ran.slice(0, both);
        const expected = both / period * low;
        const got = first.filter((name) => name === "low").length;
        assert.equal(Math.abs(got - expected) <= concurrency, true, `${got} of ${both} for ${high}:${low}`);
        await queue.close();
      },
    ),
    { numRuns: 12 },
  );
});
