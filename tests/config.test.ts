/** Settings: where they come from, and that one which cannot work is refused with what it was and what is expected. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { type Job, Queue, QueueError } from "@x/queue";
import { inFolder } from "./folder.ts";
import { Gate, inSession } from "./session.ts";

/** What `new Queue` takes, whatever its type. */
type Options = Record<string, unknown>;

function make(options: Options): Queue {
  return new Queue({ database: ":memory:", env: {}, jobs: {}, ...options } as never);
}

/** Asserts that a config error begins with `words`, and says what is expected. */
function refused(error: unknown, words: string): boolean {
  assert.equal(error instanceof QueueError && error.code, "CONFIG", String(error));
  const { message } = error as Error;
  assert.equal(message.startsWith(`queue: ${words}`), true, `${message} begins with ${words}`);
  assert.match(message, /expected ./);
  return true;
}

// What cannot work

/** Values that are no whole number from `least` on, and how an error shows them. */
function noWholeNumbers(least: number): [value: unknown, shown: string][] {
  return [
    [least - 1, String(least - 1)],
    [least + 0.5, String(least + 0.5)],
    [Number.NaN, "NaN"],
    [Infinity, "Infinity"],
    [2 ** 53, String(2 ** 53)],
    ["many", '"many"'],
    [true, "true"],
    [[least], `[${least}]`],
    [{}, "{}"],
    [-5n, "-5"],
  ];
}

const noDurations: [value: unknown, shown: string][] = [
  [-1, "-1"],
  [Number.NaN, "NaN"],
  [Infinity, "Infinity"],
  [1e300, "1e+300"],
  ["5 minutes", '"5 minutes"'],
  [null, "null"],
  [{}, "{}"],
  [[], "[]"],
  [{ minutes: -1 }, '{"minutes":-1}'],
  [{ minutes: "5" }, '{"minutes":"5"}'],
  [{ minuets: 5 }, '{"minuets":5}'],
  [{ months: 1 }, '{"months":1}'],
  [{ days: 1, years: 1 }, '{"days":1,"years":1}'],
];

const noQueues: [value: unknown, shown: string][] = [
  ["", '""'],
  ["a b", '"a b"'],
  ["a\n", '"a\\n"'],
  ["a,b", '"a,b"'],
  ["a:1", '"a:1"'],
  ["*", '"*"'],
  ["\0", '"\\u0000"'],
  ["\ud800", '"\\ud800"'],
  ["x".repeat(101), `"${"x".repeat(101)}"`],
  [7, "7"],
  [null, "null"],
  [["a"], '["a"]'],
  [7n, "7"],
];

const noPriorities: [value: unknown, shown: string][] = [
  [101, "101"],
  [-101, "-101"],
  [0.5, "0.5"],
  [Number.NaN, "NaN"],
  ["high", '"high"'],
  [[1], "[1]"],
];

/** Each: the setting as an error names it, options with `value`, and the values that cannot work. */
const SETTINGS: [setting: string, options: (value: unknown) => Options, values: [unknown, string][]][] = [
  ["QUEUE_TRIES", (tries) => ({ tries }), noWholeNumbers(0)],
  ["QUEUE_WORKERS", (workers) => ({ workers }), noWholeNumbers(0)],
  ["QUEUE_MAX_PAYLOAD", (maxPayload) => ({ maxPayload }), noWholeNumbers(1)],
  ["retryAfter", (retryAfter) => ({ retryAfter }), [[0, "0"], [0.4, "0"], ...noDurations]],
  ["grace", (grace) => ({ grace }), noDurations],
  ["timeout", (timeout) => ({ timeout }), [[0, "0"], ...noDurations]],
  ["backoff", (backoff) => ({ backoff }), noDurations],
  ["backoff", (wait) => ({ backoff: [1000, wait] }), noDurations],
  ["QUEUE_CONNECTION", (connection) => ({ connection }), [["sqs", '"sqs"'], [7, "7"], [
    "Database",
    '"Database"',
  ]]],
  ["QUEUE_SYNCHRONOUS", (synchronous) => ({ synchronous }), [["off", '"off"'], [true, "true"]]],
  ["jobs.a.tries", (tries) => ({ jobs: { a: { tries } } }), [[null, "null"], ...noWholeNumbers(1)]],
  ["jobs.a.backoff", (backoff) => ({ jobs: { a: { backoff } } }), noDurations],
  ["jobs.a.backoff", (wait) => ({ jobs: { a: { backoff: [wait] } } }), noDurations],
  ["jobs.a.timeout", (timeout) => ({ jobs: { a: { timeout } } }), [[0, "0"], ...noDurations]],
  ["jobs.a.queue", (queue) => ({ jobs: { a: { queue } } }), noQueues],
  ["jobs.a.priority", (priority) => ({ jobs: { a: { priority } } }), [[null, "null"], ...noPriorities]],
  ...(["QUEUE_TRIES", "QUEUE_WORKERS", "QUEUE_RETRY_AFTER", "QUEUE_GRACE", "QUEUE_MAX_PAYLOAD"] as const).map(
    (
      name,
    ): typeof SETTINGS[number] => [
      name,
      (value) => ({ env: { [name]: value } }),
      ["-1", "1.5", "many", "0x10", "1e3", "NaN", "Infinity", "5 s", "9007199254740992"].map((
        value,
      ) => [value, `"${value}"`]),
    ],
  ),
  ["QUEUE_RETRY_AFTER", (value) => ({ env: { QUEUE_RETRY_AFTER: value } }), [["0", '"0"']]],
  ["QUEUE_MAX_PAYLOAD", (value) => ({ env: { QUEUE_MAX_PAYLOAD: value } }), [["0", '"0"']]],
  ["QUEUE_CONNECTION", (value) => ({ env: { QUEUE_CONNECTION: value } }), [["redis ", '"redis "']]],
  ["QUEUE_SYNCHRONOUS", (value) => ({ env: { QUEUE_SYNCHRONOUS: value } }), [["FULL", '"FULL"']]],
];

for (const [setting, options, values] of SETTINGS) {
  const sample = JSON.stringify(options("…"));
  test(`a ${setting} that cannot work is refused, and named: ${sample}`, () => {
    for (const [value, shown] of values) {
      const words = `${setting}=${shown}`;
      assert.throws(() => make(options(value)), (error) => refused(error, words), words);
    }
  });
}

test("an empty backoff is refused, and named", () => {
  assert.throws(() => make({ backoff: [] }), (error) => refused(error, "backoff=[]"));
  assert.throws(() => make({ jobs: { a: { backoff: [] } } }), (error) => refused(error, "jobs.a.backoff=[]"));
});

test("an entry of jobs that is no job type is refused, and named", () => {
  for (
    const [jobs, words] of [
      [{ a: null }, "jobs.a is null"],
      [{ a: undefined }, "jobs.a is undefined"],
      [{ a: 7 }, "jobs.a is number"],
      [{ a: "handler" }, "jobs.a is string"],
      [{ a: [() => {}] }, "jobs.a is an array"],
      [{ a: { handle: null } }, "jobs.a.handle is null"],
      [{ a: { handle: "send" } }, "jobs.a.handle is string"],
      [{ a: { handel: () => {} } }, "jobs.a.handel: no such setting"],
      [{ a: { handle: () => {}, retries: 5 } }, "jobs.a.retries: no such setting"],
      [{ "": () => {} }, 'the job name ""'],
      [{ "a\nb": () => {} }, 'the job name "a\\nb"'],
      [{ "a\0": () => {} }, 'the job name "a\\u0000"'],
      [{ "\ud800": () => {} }, 'the job name "\\ud800"'],
    ] as const
  ) {
    assert.throws(() => make({ jobs }), (error) => refused(error, words), words);
  }
});

test("jobs that are no object of handlers by name are refused", () => {
  for (
    const [jobs, shown] of [
      [undefined, "undefined"],
      [null, "null"],
      ["jobs", '"jobs"'],
      [7, "7"],
      [[() => {}], ""],
      [new Map([["a", () => {}]]), ""],
    ] as const
  ) {
    assert.throws(() => make({ jobs }), (error) => refused(error, `jobs=${shown}`), String(jobs));
  }
});

test("a queue that is made of nothing, or of what nobody reads, is refused", () => {
  for (const options of [undefined, null, 7, "jobs"]) {
    assert.throws(() => new Queue(options as never), (error) => refused(error, ""));
  }
  assert.throws(
    () => make({ retryafter: 5 }),
    (error) => refused(error, "options.retryafter: no such setting"),
  );
  assert.throws(() => make({ job: {} }), (error) => refused(error, "options.job: no such setting"));
});

test("a database that is none is refused when it is opened, and named", async () => {
  for (
    const [database, shown] of [
      ["", '""'],
      ["  ", '"  "'],
      ["file:queue.sqlite", '"file:queue.sqlite"'],
      [7, "7"],
      [null, "null"],
      [true, "true"],
      [{}, "(object)"],
      [{ prepare() {} }, "(object)"],
    ] as const
  ) {
    const queue = make({ database, jobs: { a: () => {} } });
    for (const call of [() => queue.open(), () => queue.dispatch("a"), () => queue.work()]) {
      await assert.rejects(call(), (error) => refused(error, `database=${shown}`), `${shown} at ${call}`);
    }
    await queue.close();
  }
});

test("options of a dispatch that cannot work are refused, and named", async () => {
  const queue = make({ jobs: { a: () => {} } });
  const dispatch = (options: Options) => queue.dispatch("a", null, options as never);
  for (const [value, shown] of noDurations) {
    await assert.rejects(dispatch({ delay: value }), (error) => refused(error, `delay=${shown}`), shown);
    await assert.rejects(
      queue.dispatchLater("a", null, value as never),
      (error) => refused(error, `delay=${shown}`),
    );
  }
  for (const [value, shown] of noQueues) {
    await assert.rejects(dispatch({ queue: value }), (error) => refused(error, `queue=${shown}`), shown);
  }
  for (const [value, shown] of noPriorities) {
    await assert.rejects(
      dispatch({ priority: value }),
      (error) => refused(error, `priority=${shown}`),
      shown,
    );
  }
  await assert.rejects(dispatch({ dealy: 5 }), (error) => refused(error, "options.dealy: no such setting"));
  assert.equal(await queue.waiting(), 0);
  await queue.close();
});

test("options of a worker that cannot work are refused, and named", async () => {
  const queue = make({});
  const cases: [name: string, values: [unknown, string][]][] = [
    ["concurrency", [[10_001, "10001"], ...noWholeNumbers(1)]],
    ["prefetch", [[1001, "1001"], ...noWholeNumbers(0)]],
    ["maxJobs", noWholeNumbers(1).filter(([value]) => value !== Infinity)],
    ["maxTime", [[0, "0"], ...noDurations]],
    ["queues", [["a,a", '"a,a"'], ["a:1,b", '"a:1,b"'], [[], "[]"], [{}, "{}"], [["a", 7], "7"], ["", '""']]],
  ];
  for (const [name, values] of cases) {
    for (const [value, shown] of values) {
      const options = { [name]: value } as never;
      const words = `${name}=${shown}`;
      await assert.rejects(queue.work(options), (error) => refused(error, words), words);
      if (name === "concurrency") continue;
      assert.throws(() => queue.start(1, options), (error) => refused(error, words), `start with ${words}`);
    }
  }
  for (const [value, shown] of [[10_001, "10001"] as [unknown, string], ...noWholeNumbers(0)]) {
    assert.throws(() => queue.start(value as never), (error) => refused(error, `workers=${shown}`), shown);
  }
  for (const weight of ["0", "-1", "1.5", "x", "1001", ""]) {
    await assert.rejects(
      queue.work({ queues: `a:1,b:${weight}` }),
      (error) => refused(error, `queues: the weight of b is "${weight}"`),
    );
  }
  for (const queues of [null, 7, true]) {
    await assert.rejects(
      queue.work({ queues: queues as never }),
      (error) => refused(error, `queues=${queues}`),
    );
  }
  await assert.rejects(
    queue.work({ queue: "a" } as never),
    (error) => refused(error, "options.queue: no such setting"),
  );
  await queue.close();
});

test("arguments that cannot work are refused, and named", async () => {
  const queue = make({});
  for (
    const [now, shown] of [[Number.NaN, "NaN"], [new Date(Number.NaN), "Invalid Date"], [
      "soon",
      "soon",
    ]] as const
  ) {
    await assert.rejects(queue.workOnce(now as never), (error) => refused(error, `now=${shown}`), shown);
  }
  for (const [limit, shown] of [[1001, "1001"] as [unknown, string], ...noWholeNumbers(1)]) {
    await assert.rejects(
      queue.failed({ limit: limit as never }),
      (error) => refused(error, `limit=${shown}`),
      shown,
    );
  }
  await queue.close();
});

test("the present of workOnce may be a date", async () => {
  const queue = make({ jobs: { a: () => {} } });
  await queue.dispatch("a", null, { delay: { hours: 1 } });
  assert.equal(await queue.workOnce(new Date()), false);
  assert.equal(await queue.workOnce(new Date(Date.now() + 3_600_000)), true);
  await queue.close();
});

// Where settings come from

/** Runs `use` while this process's environment has `variables` besides. */
async function withEnvironment(variables: Record<string, string>, use: () => Promise<void>): Promise<void> {
  const before = Object.keys(variables).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, variables);
  try {
    await use();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

/** How many tries a job of `options` gets. */
async function triesOf(options: Options): Promise<number> {
  const seen: number[] = [];
  const queue = make({ jobs: { a: (job: Job) => void seen.push(job.tries) }, ...options });
  await queue.dispatch("a");
  await queue.workOnce();
  await queue.close();
  return seen[0];
}

test("an option comes before the environment, and that before the default", async () => {
  assert.equal(await triesOf({}), 3);
  assert.equal(await triesOf({ env: { QUEUE_TRIES: "5" } }), 5);
  assert.equal(await triesOf({ env: { QUEUE_TRIES: "5" }, tries: 7 }), 7);
  assert.equal(await triesOf({ env: { QUEUE_TRIES: "" } }), 3, "an empty variable counts as none");
  assert.equal(await triesOf({ env: { QUEUE_TRIES: " 4 " } }), 4);
  assert.equal(
    await triesOf({ env: { QUEUE_TRIES: "many" }, tries: 2 }),
    2,
    "what is not needed is not read",
  );
});

test("env takes the place of the process's environment", async () => {
  await withEnvironment({ QUEUE_TRIES: "6" }, async () => {
    assert.equal(await triesOf({ env: undefined }), 6);
    assert.equal(await triesOf({ env: {} }), 3);
    assert.equal(await triesOf({ env: undefined, tries: 2 }), 2);
  });
});

test("a job type's settings come before the queue's", async () => {
  const jobs = { a: { handle: (job: Job) => void seen.push(job.tries), tries: 9 } };
  const seen: number[] = [];
  const queue = make({ jobs, tries: 2, env: { QUEUE_TRIES: "5" } });
  await queue.dispatch("a");
  await queue.workOnce();
  assert.deepEqual(seen, [9]);
  await queue.close();
});

/** Whether a payload of so many bytes is refused. */
async function refuses(bytes: number, options: Options): Promise<boolean> {
  const queue = make({ jobs: { a: () => {} }, ...options });
  try {
    await queue.dispatch("a", "x".repeat(bytes));
    return false;
  } catch {
    return true;
  } finally {
    await queue.close();
  }
}

test("QUEUE_MAX_PAYLOAD is in bytes, 1 MiB by default", async () => {
  const env = { QUEUE_MAX_PAYLOAD: "10" };
  assert.deepEqual([await refuses(2 ** 20, {}), await refuses(2 ** 20 + 1, {})], [false, true]);
  assert.deepEqual([await refuses(10, { env }), await refuses(11, { env })], [false, true]);
  assert.deepEqual([await refuses(20, { env, maxPayload: 20 }), await refuses(21, { env, maxPayload: 20 })], [
    false,
    true,
  ]);
});

for (
  const [what, options, lease] of [
    ["90 s by default", {}, 90_000],
    ["in seconds in the environment", { env: { QUEUE_RETRY_AFTER: "7" } }, 7000],
    ["in milliseconds as an option", { env: { QUEUE_RETRY_AFTER: "7" }, retryAfter: 1500 }, 1500],
    ["any duration as an option", { retryAfter: { minutes: 1, seconds: 0.5 } }, 60_500],
  ] as const
) {
  inSession(`retryAfter is ${what}`, async ({ clock, queue }) => {
    const gate = new Gate();
    const jobs = await queue({ gate: gate.handle }, options);
    const { now } = clock;
    await jobs.dispatch("gate");
    const first = jobs.workOnce(now);
    await clock.until(() => gate.inside === 1, "the job to run");
    assert.equal(await jobs.workOnce(now + lease - 1), false);
    const second = jobs.workOnce(now + lease);
    await clock.until(() => gate.inside === 2, "it to run again");
    gate.open(2);
    await Promise.all([first, second]);
  });
}

for (
  const [what, options, waits] of [
    ["10 s, 60 s and 300 s by default", {}, [10_000, 60_000, 300_000, 300_000]],
    ["the queue's for every type", { backoff: [{ seconds: 1 }, { minutes: 1 }] }, [1000, 60_000, 60_000]],
    ["one duration", { backoff: 50 }, [50, 50]],
    ["none", { backoff: [0] }, [0, 0]],
  ] as const
) {
  test(`the wait before the next attempt is ${what}`, async () => {
    const queue = make({
      ...options,
      tries: 6,
      jobs: {
        a: () => {
          throw new Error("no");
        },
      },
      log: { warn() {}, error() {} },
    });
    await queue.dispatch("a");
    let now = Date.now();
    for (const wait of waits) {
      assert.equal(await queue.workOnce(now), true);
      if (wait > 0) assert.equal(await queue.workOnce(now + wait - 1), false, `${wait} ms`);
      now += wait;
    }
    assert.equal(await queue.workOnce(now), true);
    await queue.close();
  });
}

test("a job type's backoff comes before the queue's, and its last entry repeats", async () => {
  const waits: (number | undefined)[] = [];
  const queue = make({
    backoff: 5,
    jobs: {
      a: {
        backoff: [{ milliseconds: 1 }, 2],
        tries: 5,
        handle: () => {
          throw new Error("no");
        },
      },
    },
    log: { warn() {}, error() {} },
  });
  await queue.dispatch("a");
  await queue.work({
    maxJobs: 5,
    onEvent({ type, retryIn }) {
      if (type === "released") waits.push(retryIn);
    },
  });
  assert.deepEqual(waits, [1, 2, 2, 2]);
  await queue.close();
});

test("DB_DATABASE is where jobs are stored, unless an option says otherwise", () =>
  inFolder(async (folder) => {
    const [one, two] = ["one", "two"].map((name) => join(folder, name, "queue.sqlite"));
    const byVariable = make({ database: undefined, env: { DB_DATABASE: one } });
    await byVariable.open();
    await byVariable.close();
    assert.deepEqual([existsSync(one), existsSync(two)], [true, false]);
    const byOption = make({ database: two, env: { DB_DATABASE: join(folder, "three") } });
    await byOption.open();
    await byOption.close();
    assert.deepEqual([existsSync(two), existsSync(join(folder, "three"))], [true, false]);
    const inMemory = make({ database: undefined, env: { DB_DATABASE: ":memory:" } });
    await inMemory.open();
    await inMemory.close();
  }));

test("storage/database.sqlite in the current folder is the default", () =>
  inFolder(async (folder) => {
    const before = process.cwd();
    process.chdir(folder);
    try {
      const queue = make({ database: undefined, env: { DB_DATABASE: "" } });
      await queue.open();
      await queue.close();
    } finally {
      process.chdir(before);
    }
    assert.equal(existsSync(join(folder, "storage", "database.sqlite")), true);
  }));

test("QUEUE_SYNCHRONOUS is normal by default, and full where it is asked for", () =>
  inFolder(async (folder) => {
    const modes = async (options: Options): Promise<number> => {
      let mode: unknown;
      const queue = make({
        database: join(folder, "queue.sqlite"),
        jobs: { a: ({ db }: Job) => mode = db.prepare("PRAGMA synchronous").get() },
        ...options,
      });
      await queue.dispatch("a");
      await queue.workOnce();
      await queue.close();
      return (mode as { synchronous: number }).synchronous;
    };
    const [NORMAL, FULL] = [1, 2];
    assert.equal(await modes({}), NORMAL);
    assert.equal(await modes({ env: { QUEUE_SYNCHRONOUS: "full" } }), FULL);
    assert.equal(await modes({ env: { QUEUE_SYNCHRONOUS: "full" }, synchronous: "normal" }), NORMAL);
  }));

test("nothing is opened until it is needed", () =>
  inFolder(async (folder) => {
    const database = join(folder, "queue.sqlite");
    const queue = make({ database });
    assert.equal(existsSync(database), false);
    assert.deepEqual(await queue.counts(), []);
    assert.equal(existsSync(database), true);
    await queue.close();
  }));

// Values that can work

test("the bounds of every setting are taken", async () => {
  const bounds = {
    tries: 0,
    workers: 0,
    maxPayload: 1,
    retryAfter: 1,
    timeout: 1,
    backoff: [0, { days: 3650 }],
  };
  const a = { handle: () => {}, tries: 1, backoff: 0, timeout: 1, queue: "x".repeat(100), priority: -100 };
  make({ ...bounds, connection: "database", synchronous: "full", jobs: { a } });
  const queue = make({ jobs: { a, "any name: *, ünï": { ...a, queue: "ünï/.-_0", priority: 100 } } });
  await queue.dispatch("a", "x", { delay: 0, queue: "q", priority: 100 });
  await queue.dispatch("any name: *, ünï", "x", { delay: { days: 3650 }, priority: -100 });
  const limits = { concurrency: 10_000, prefetch: 1000, maxJobs: 1, maxTime: { days: 365 } };
  await queue.work({ ...limits, queues: { q: 1000, [a.queue]: 1 } });
  assert.deepEqual(await queue.failed({ limit: 1000 }), []);
  assert.equal(await queue.waiting(), 1);
  await queue.close();
});

// deno-lint-ignore no-explicit-any -- not in the types that the three runtimes share
const Temporal = (globalThis as any).Temporal;

test("a Temporal.Duration is taken wherever a duration is", {
  skip: Temporal === undefined && "this runtime has no Temporal",
}, async () => {
  const from = (text: string) => Temporal.Duration.from(text);
  const handle = () => {
    throw new Error("no");
  };
  const queue = make({
    retryAfter: from("PT2M"),
    timeout: from("P1D"),
    backoff: from("PT10S"),
    jobs: { a: handle, b: { handle, backoff: [from("PT1M0.5S")] } },
    log: { warn() {}, error() {} },
  });
  const now = Date.now();
  await queue.dispatch("a", null, { delay: from("PT1H") });
  assert.equal(await queue.workOnce(now + 3_599_999), false);
  const later = Date.now() + 3_600_000;
  assert.equal(await queue.workOnce(later), true);
  assert.equal(await queue.workOnce(later + 9999), false);
  assert.equal(await queue.workOnce(later + 10_000), true);
  await queue.dispatchLater("b", null, from("PT0S"));
  assert.equal(await queue.workOnce(later), true);
  assert.equal(await queue.workOnce(later + 60_499), true, "the other one");
  assert.equal(await queue.workOnce(later + 60_499), false);
  assert.equal(await queue.workOnce(later + 60_500), true);
  assert.throws(() => make({ timeout: from("P1M") }), (error) => refused(error, 'timeout="P1M"'));
  assert.throws(() => make({ timeout: from("-PT1S") }), (error) => refused(error, 'timeout="-PT1S"'));
  await queue.close();
});
