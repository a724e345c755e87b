/**
 * Random histories of a queue, on each driver and on a model of it: the same answers, and the same state after each
 * step. A failure prints its seed: QUEUE_TEST_SEED=<seed> runs the same histories again. QUEUE_TEST_TIMES=20 tries 20
 * times as many.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { after, test } from "node:test";
import fc from "fast-check";
import type { Driver, FailedSelection, Reservation } from "../core/driver.ts";
import { RedisDriver } from "../drivers/redis.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { job } from "./conformance.ts";
import { newFolder } from "./folder.ts";
import { LEASE, type Line, Model } from "./model.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";

after(endShared);

const T = 1_800_000_000_000;
const QUEUES = ["default", "other"];
const PRIORITIES = [-1, 0, 5];
const WORKERS = 2;
const ERROR = "nope";

/** A store that has a history. */
interface Store {
  readonly line: Line;
  /** Opens a driver of a worker's own; the same one each time where the store has one connection. */
  open(): Driver;
  remove(): void;
}

/** The store under test, and what its workers know. */
class Real {
  readonly store: Store;
  readonly workers: Driver[] = [];
  /** Every reservation that no crash forgot, and whose: most are stale after a while. */
  reservations: { worker: number; held: Reservation }[] = [];
  readonly #opened = new Set<Driver>();
  #named = 0;

  constructor(store: Store) {
    this.store = store;
  }

  /** A new worker in place of one that crashed. */
  async start(worker: number): Promise<void> {
    const driver = this.workers[worker] = this.store.open();
    this.#opened.add(driver);
    await driver.queues();
  }

  /** A name and a payload that no other job has. */
  next(): { name: string; payload: string } {
    const number = ++this.#named;
    return { name: `job-${number}`, payload: `{"n":${number}}` };
  }

  async close(): Promise<void> {
    for (const driver of this.#opened) await driver.close();
    this.store.remove();
  }
}

/** One step of a history. */
class Step implements fc.AsyncCommand<Model, Real> {
  readonly #label: string;
  readonly #act: (model: Model, real: Real) => Promise<void>;

  constructor(label: string, act: (model: Model, real: Real) => Promise<void>) {
    this.#label = label;
    this.#act = act;
  }

  check(): boolean {
    return true;
  }

  async run(model: Model, real: Real): Promise<void> {
    await this.#act(model, real);
    await compare(model, real.workers[0]);
  }

  toString(): string {
    return this.#label;
  }
}

/** All that can be seen of the store is as the model says. */
async function compare(model: Model, driver: Driver): Promise<void> {
  const [counts, waiting, queues, failed] = await Promise.all([
    driver.counts(model.now, LEASE),
    driver.waiting(),
    driver.queues(),
    driver.failed({ after: null, limit: 1000 }),
  ]);
  const expected = model.counts();
  if (driver instanceof SqliteDriver) assert.deepEqual(counts, expected);
  else {
    assert.deepEqual(counts.map((one) => ({ ...one, oldest: null })), expected);
    for (const { queue, oldest } of counts) {
      const since = model.dueSince(queue);
      assert.ok(oldest === null || since.includes(oldest), `${queue}: ${oldest}, not of ${since}`);
    }
  }
  const stored = expected.reduce((sum, { ready, delayed, reserved }) => sum + ready + delayed + reserved, 0);
  assert.equal(waiting, stored, "waiting");
  const [must, may] = model.queues();
  assert.deepEqual(
    must.filter((queue) => !queues.includes(queue)),
    [],
    "queues with jobs that are not named",
  );
  if (driver instanceof SqliteDriver) {
    assert.deepEqual(queues.filter((queue) => !may.includes(queue)), [], "queues without jobs");
  }
  const seen = failed.map(({ id: _, ...rest }) => ({ ...rest, failedAt: 0 }));
  assert.deepEqual(seen, model.failed(ERROR));
}

const worker = fc.nat(WORKERS - 1);
const delay = fc.constantFrom(0, 0, 0, 1, 700, 1000, 5000, LEASE);
const queue = fc.constantFrom(...QUEUES);
const priority = fc.constantFrom(...PRIORITIES);
const newJob = fc.record({ queue, priority, delay });

const push = fc.tuple(worker, fc.array(newJob, { minLength: 1, maxLength: 4 })).map(([worker, fields]) =>
  new Step(`push by ${worker} ${fc.stringify(fields)}`, async (model, real) => {
    const jobs = fields.map((one) => job({ ...one, ...real.next() }));
    model.push(jobs, await real.workers[worker].push(jobs, model.now));
  })
);

const pushOnce = fc.tuple(worker, newJob, fc.constantFrom(null, "a", "b", "c")).map(([worker, fields, key]) =>
  new Step(`push once by ${worker}, key ${key} ${fc.stringify(fields)}`, async (model, real) => {
    const one = job({ ...fields, ...real.next() });
    const [{ id, created }] = await real.workers[worker].pushOnce([{ ...one, key }], model.now);
    const known = key === null ? undefined : model.known(key);
    assert.equal(created, known === undefined);
    if (known !== undefined) return assert.equal(id, known, "the id of the first");
    model.push([one], [id]);
    if (key !== null) model.remember(key, id);
  })
);

const share = fc.record({ queue, limit: fc.integer({ min: 1, max: 6 }) });
const asked = fc.record({
  queues: fc.array(share, { minLength: 1, maxLength: 3 }),
  limit: fc.integer({ min: 1, max: 4 }),
  prefetch: fc.constantFrom(0, 0, 1, 3),
});

const reserve = fc.tuple(worker, asked).map(([worker, asked]) =>
  new Step(`reserve by ${worker} ${fc.stringify(asked)}`, async (model, real) => {
    const request = { ...asked, now: model.now, retryAfter: LEASE };
    const got = await real.workers[worker].reserve(request);
    model.reserve(request, got);
    real.reservations.push(...got.jobs.map((held) => ({ worker, held })));
  })
);

type Way = "complete" | "release" | "hand back" | "hand back to wait" | "fail" | "extend";

const settlement = fc.record({
  which: fc.nat(100),
  way: fc.constantFrom<Way>(
    ...[
      "complete",
      "complete",
      "release",
      "hand back",
      "hand back to wait",
      "fail",
      "fail",
      "extend",
    ] as Way[],
  ),
  delay,
});

/** Settles, and says what the model makes of the answer. */
async function settle(
  { model, driver, held, way, delay }: {
    model: Model;
    driver: Driver;
    held: Reservation;
    way: Way;
    delay: number;
  },
): Promise<() => void> {
  switch (way) {
    case "complete": {
      const answer = await driver.complete(held);
      return () => model.complete(held, answer);
    }
    case "fail": {
      const answer = await driver.fail(held, { error: ERROR, stack: null, failedAt: model.now });
      return () => model.fail(held, answer);
    }
    case "extend": {
      const lost = await driver.extend([held], model.now);
      assert.equal(lost.length === 0 || lost[0] === held, true, "the same object");
      return () => model.extend(held, lost.length === 0);
    }
    default: {
      const how = { delay: way === "hand back" ? null : delay, counted: way === "release" };
      const answer = await driver.release(held, how, model.now);
      return () => model.release(held, how, answer);
    }
  }
}

/** One, in mostly the order of the reservations: the newest are those that are held. */
const settleOne = settlement.map(({ which, way, delay }) =>
  new Step(`${way} ${which} (delay ${delay})`, async (model, real) => {
    const found = real.reservations.at(-1 - which % Math.max(1, real.reservations.length));
    if (found === undefined) return;
    const driver = real.workers[found.worker];
    (await settle({ model, driver, held: found.held, way, delay }))();
  })
);

/** Several of one worker in a turn: the store may join them, and answers each as if they came one after another. */
const settleMany = fc.tuple(worker, fc.array(fc.nat(12), { minLength: 2, maxLength: 8 })).map(
  ([worker, which]) =>
    new Step(`complete by ${worker} in one turn ${fc.stringify(which)}`, async (model, real) => {
      const own = real.reservations.filter((one) => one.worker === worker);
      if (own.length === 0) return;
      const chosen = which.map((index) => own.at(-1 - index % own.length)!.held);
      const driver = real.workers[worker];
      const answers = await Promise.all(chosen.map((held) => driver.complete(held)));
      chosen.forEach((held, index) => model.complete(held, answers[index]));
    }),
);

const pass = fc.constantFrom(1, 400, 1000, 2500, LEASE - 1, LEASE).map((time) =>
  new Step(`${time} ms pass`, (model) => {
    model.now += time;
    return Promise.resolve();
  })
);

const crash = worker.map((worker) =>
  new Step(`worker ${worker} crashes`, async (_model, real) => {
    real.reservations = real.reservations.filter((one) => one.worker !== worker);
    await real.start(worker);
  })
);

const selection = fc.oneof(
  fc.array(fc.nat(5), { minLength: 1, maxLength: 3 }),
  fc.integer({ min: 1, max: 3 }).map((limit) => ({ limit })),
);

const move = fc.tuple(
  fc.constantFrom("retry" as const, "retry" as const, "forget" as const),
  worker,
  selection,
)
  .map(([way, worker, chosen]) =>
    new Step(`${way} by ${worker} ${fc.stringify(chosen)}`, async (model, real) => {
      const ids = model.failedIds;
      const which: FailedSelection = Array.isArray(chosen)
        ? { ids: [...new Set(chosen.map((index) => ids[index] ?? `none-${index}`))] }
        : { after: null, limit: chosen.limit };
      const driver = real.workers[worker];
      const moved = way === "retry" ? await driver.retry(which, model.now) : await driver.forget(which);
      assert.deepEqual(moved.map(({ name }) => name), model[way](which));
    })
  );

const histories = fc.commands(
  [
    push,
    push,
    pushOnce,
    reserve,
    reserve,
    reserve,
    settleOne,
    settleOne,
    settleOne,
    settleMany,
    pass,
    crash,
    move,
  ],
  { maxCommands: 60, size: "max" },
);

/** Every queue has had each priority: a store may take a look to notice a first one. */
async function begin(store: Store): Promise<{ model: Model; real: Real }> {
  const real = new Real(store);
  for (let worker = 0; worker < WORKERS; worker++) await real.start(worker);
  const [driver] = real.workers;
  const model = new Model(T, store.line);
  const jobs = QUEUES.flatMap((queue) => PRIORITIES.map((priority) => job({ queue, priority })));
  await driver.push(jobs, model.now);
  const { jobs: held } = await driver.reserve({
    queues: QUEUES.map((queue) => ({ queue, limit: jobs.length })),
    limit: jobs.length,
    prefetch: 0,
    now: model.now,
    retryAfter: LEASE,
  });
  for (const one of held) assert.equal(await driver.complete(one), true);
  for (const one of real.workers) await one.queues();
  return { model, real };
}

function sameAsModel(
  name: string,
  numRuns: number,
  open: () => Store | Promise<Store>,
  skip: string | false = false,
) {
  const times = Number(process.env.QUEUE_TEST_TIMES || 1);
  const seed = process.env.QUEUE_TEST_SEED ? Number(process.env.QUEUE_TEST_SEED) : undefined;
  test(`${name}: whatever is done in whatever order, a model says what comes of it`, { skip }, async () => {
    await fc.assert(
      fc.asyncProperty(histories, async (steps) => {
        const { model, real } = await begin(await open());
        try {
          await fc.asyncModelRun(() => ({ model, real }), steps);
        } finally {
          await real.close();
        }
      }),
      { numRuns: numRuns * times, ...(seed === undefined ? {} : { seed }) },
    );
  });
}

sameAsModel("SQLite in memory", 200, () => {
  const driver = new SqliteDriver({ database: ":memory:" });
  return { line: "by due time", open: () => driver, remove() {} };
});

sameAsModel("SQLite in a file", 60, () => {
  const folder = newFolder();
  const database = join(folder.path, "queue.sqlite");
  return { line: "by due time", open: () => new SqliteDriver({ database }), remove: folder.remove };
});

for (const failed of ["database", "redis"] as const) {
  const name = `Redis, failures in ${failed === "redis" ? "Redis" : "the database"}`;
  sameAsModel(name, 50, async () => {
    const { url } = await sharedServer();
    const prefix = newPrefix();
    const database = new DatabaseSync(":memory:");
    return {
      line: "by arrival",
      open: () => new RedisDriver({ url, prefix, database, failed }),
      remove: () => database.close(),
    };
  }, noRedis);
}
