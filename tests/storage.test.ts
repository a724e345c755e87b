/** What another program of the original's and this library do to each other on one file. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import type { Reservation } from "../core/driver.ts";
import { QueueError } from "../core/errors.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { failure, job, take } from "./conformance.ts";
import { inFolder } from "./folder.ts";
import { CREATE_TABLES, Original } from "./original.ts";
import { record, report } from "./registry.ts";

/** The present: in milliseconds for this library, in seconds for the original. */
const T = 1_800_000_000_000;
const S = 1_800_000_000;
const LEASE = 90_000;

/** Both on one new file; ours comes first, so the file is ours. */
function together(
  sentence: string,
  run: (ours: SqliteDriver, theirs: Original) => Promise<void>,
): void {
  onOneFile(sentence, async (file) => {
    const ours = new SqliteDriver({ database: file });
    await ours.open();
    return [ours, new Original(file)];
  }, run);
}

/** Both on a file that the original made. */
function upgraded(
  sentence: string,
  fill: (theirs: Original) => void,
  run: (ours: SqliteDriver, theirs: Original) => Promise<void>,
): void {
  onOneFile(sentence, async (file) => {
    const theirs = new Original(file);
    fill(theirs);
    const ours = new SqliteDriver({ database: file });
    await ours.open();
    return [ours, theirs];
  }, run);
}

function onOneFile(
  sentence: string,
  open: (file: string) => Promise<[SqliteDriver, Original]>,
  run: (ours: SqliteDriver, theirs: Original) => Promise<void>,
): void {
  test(sentence, async () => {
    await inFolder(async (folder) => {
      const [ours, theirs] = await open(join(folder, "app.sqlite"));
      try {
        await run(ours, theirs);
        assert.deepEqual(rows(theirs.db, "PRAGMA integrity_check"), [{ integrity_check: "ok" }]);
      } finally {
        theirs.close();
        await ours.close();
      }
    });
  });
}

together("the original's CREATE statements change nothing in our file", async (ours, theirs) => {
  const before = schema(theirs.db);
  theirs.db.exec(CREATE_TABLES);
  assert.deepEqual(schema(theirs.db), before);
  const indexes = rows(theirs.db, "SELECT sql FROM sqlite_schema WHERE name = 'jobs_available'");
  assert.match(String(indexes[0].sql), /queue/, "the index of that name is ours");
  await ours.push([job()], T);
  assert.equal((await take(ours)).length, 1);
});

together("a job that the original inserts is ours to run, on the default queue", async (ours, theirs) => {
  theirs.push("mail", '{"to":"you"}', S);
  theirs.push("mail", "later", S + 60);
  assert.deepEqual(await ours.queues(), ["default"]);
  const [held, ...more] = await take(ours, { limit: 9 });
  assert.deepEqual(more, []);
  assert.deepEqual({ ...held, id: "", token: "" }, {
    id: "",
    name: "mail",
    payload: '{"to":"you"}',
    attempt: 1,
    queue: "default",
    priority: 0,
    token: "",
  });
  assert.equal(await ours.complete(held), true);
  assert.equal(theirs.waiting(), 1, "the delayed one");
  assert.deepEqual(await take(ours, { now: T + 59_999 }), []);
  assert.equal((await take(ours, { now: T + 60_000 })).length, 1);
});

together("a job that we push is the original's to run", async (ours, theirs) => {
  const [id] = await ours.push([job({ name: "mail", payload: "ünï\n'\"" })], T);
  assert.deepEqual(theirs.reserve(S), { id: BigInt(id), name: "mail", payload: "ünï\n'\"", attempt: 1n });
  assert.equal(theirs.reserve(S), null, "it is held");
  theirs.remove({ id: BigInt(id), name: "mail", payload: "", attempt: 1n });
  assert.deepEqual(await ours.counts(T, LEASE), []);
});

together("a job dispatched within a second is the original's within that second", async (ours, theirs) => {
  await ours.push([job()], T + 999);
  assert.equal(theirs.reserve(S)?.attempt, 1n);
});

together(
  "a job due at a fraction of a second is the original's with the next second",
  async (ours, theirs) => {
    await ours.push([job({ delay: 1500 })], T);
    assert.equal(theirs.reserve(S + 1), null);
    assert.equal(theirs.reserve(S + 2)?.attempt, 1n);
  },
);

together("a fraction in available_at is kept to the millisecond", async (ours, theirs) => {
  theirs.db.exec(`INSERT INTO jobs (name, payload, available_at) VALUES ('job', 'p', ${S}.25)`);
  const { nextIn } = await ours.reserve({
    queues: [{ queue: "default", limit: 1 }],
    limit: 1,
    prefetch: 0,
    now: T + 249,
    retryAfter: LEASE,
  });
  assert.equal(nextIn, 1);
  assert.deepEqual(await take(ours, { now: T + 249 }), []);
  assert.equal((await take(ours, { now: T + 250 })).length, 1);
});

together("what we store has the types that the original reads", async (ours, theirs) => {
  await ours.push([job(), job({ payload: "123", delay: 5000 }), job(), job({ payload: "456" })], T);
  const [done, failed, released] = await take(ours, { limit: 3 });
  await ours.extend([done, failed, released], T + 10_500);
  await ours.fail(failed, { error: "1", stack: null, failedAt: T + 1999 });
  await ours.release(released, { delay: 60_000, counted: true }, T);
  const types = rows(
    theirs.db,
    `SELECT DISTINCT typeof(id) || ' ' || typeof(name) || ' ' || typeof(payload) || ' ' || typeof(attempts) AS types
      FROM jobs UNION SELECT 'failed ' || typeof(id) || ' ' || typeof(name) || ' ' || typeof(payload) || ' ' ||
      typeof(error) || ' ' || typeof(failed_at) FROM failed_jobs ORDER BY 1`,
  );
  assert.deepEqual(types.map((row) => row.types), [
    "failed integer text text text integer",
    "integer text text integer",
  ]);
  const whole = rows(theirs.db, "SELECT count(*) AS jobs FROM jobs WHERE typeof(available_at) = 'integer'");
  assert.deepEqual(whole, [{ jobs: 3 }], "whole seconds are integers");
});

together("the two respect each other's reservations", async (ours, theirs) => {
  await ours.push([job({ payload: "1" }), job({ payload: "2" })], T);
  const held = theirs.reserve(S)!;
  assert.equal(held.payload, "1");
  const mine = await take(ours, { limit: 9 });
  assert.deepEqual(mine.map(({ payload }) => payload), ["2"]);
  assert.equal(theirs.reserve(S), null);
  assert.deepEqual((await ours.counts(T, LEASE)).map(({ reserved }) => reserved), [2]);
  await ours.complete(mine[0]);
  theirs.remove(held);
  assert.equal(theirs.waiting(), 0);
});

together("a job that the original left behind is ours after its lease", async (ours, theirs) => {
  theirs.push("job", "p", S);
  assert.equal(theirs.reserve(S)?.attempt, 1n);
  assert.deepEqual(await take(ours, { now: T + LEASE - 1 }), []);
  const [held] = await take(ours, { now: T + LEASE });
  assert.deepEqual([held.payload, held.attempt], ["p", 2]);
  assert.equal(await ours.complete(held), true);
});

together("a job that we left behind is the original's after its lease", async (ours, theirs) => {
  await ours.push([job({ payload: "p" })], T);
  await take(ours, { now: T + 500 });
  assert.equal(theirs.reserve(S + 89), null);
  assert.equal(theirs.reserve(S + 90), null, "half a second is left");
  assert.equal(theirs.reserve(S + 91)?.attempt, 2n);
});

together("a lease that we renew keeps the original away", async (ours, theirs) => {
  await ours.push([job()], T);
  const held = await take(ours);
  await ours.extend(held, T + 60_000);
  assert.equal(theirs.reserve(S + 149), null);
  assert.equal(await ours.complete(held[0]), true);
});

const TOOK_OVER: ReadonlyArray<
  [string, (ours: SqliteDriver, stale: Reservation) => Promise<unknown>, unknown]
> = [
  ["completed", (ours, stale) => ours.complete(stale), false],
  ["released", (ours, stale) => ours.release(stale, { delay: 0, counted: true }, T), false],
  ["handed back", (ours, stale) => ours.release(stale, { delay: null, counted: false }, T), false],
  ["failed", (ours, stale) => ours.fail(stale, failure()), false],
  ["renewed", async (ours, stale) => (await ours.extend([stale], T + LEASE))[0] === stale, true],
];

for (const [done, act, answer] of TOOK_OVER) {
  together(`a job that the original took over is not ${done} by us`, async (ours, theirs) => {
    await ours.push([job()], T);
    const [stale] = await take(ours);
    const taken = theirs.reserve(S + 90)!;
    const before = rows(theirs.db, "SELECT * FROM jobs");
    assert.equal(await act(ours, stale), answer);
    assert.deepEqual(rows(theirs.db, "SELECT * FROM jobs"), before);
    assert.deepEqual(rows(theirs.db, "SELECT * FROM failed_jobs"), []);
    theirs.release(taken, S + 100);
    assert.equal(await act(ours, stale), answer, "nor after it gave the job back");
    assert.deepEqual(rows(theirs.db, "SELECT attempts, reserved_at, available_at FROM jobs"), [
      { attempts: 2, reserved_at: null, available_at: S + 100 },
    ]);
  });
}

together(
  "a job that the original took over and gave back is ours again, under a new token",
  async (ours, theirs) => {
    await ours.push([job()], T);
    const [stale] = await take(ours);
    theirs.release(theirs.reserve(S + 90)!, S + 100);
    assert.deepEqual(await take(ours, { now: T + 99_999 }), [], "its backoff");
    const [held] = await take(ours, { now: T + 100_000 });
    assert.equal(held.attempt, 3);
    assert.equal(await ours.complete(stale), false);
    assert.equal(await ours.complete(held), true);
  },
);

together(
  "a job that we released waits for the original, too, with its attempt counted",
  async (ours, theirs) => {
    await ours.push([job()], T);
    const [held] = await take(ours);
    await ours.release(held, { delay: 10_000, counted: true }, T);
    assert.equal(theirs.reserve(S + 9), null);
    assert.equal(theirs.reserve(S + 10)?.attempt, 2n);
  },
);

together("what the original failed is listed, retried and forgotten by us", async (ours, theirs) => {
  for (const payload of ["1", "2"]) {
    theirs.push("mail", payload, S);
    theirs.fail(theirs.reserve(S)!, "upstream 503", S + 5);
  }
  const failed = await ours.failed({ after: null, limit: 9 });
  assert.deepEqual(
    failed,
    ["1", "2"].map((payload, index) => ({
      id: String(index + 1),
      name: "mail",
      payload,
      queue: "default",
      priority: 0,
      attempts: null,
      error: "upstream 503",
      stack: null,
      failedAt: T + 5000,
      history: [],
    })),
  );
  assert.deepEqual((await ours.counts(T, LEASE)).map((one) => [one.queue, one.failed]), [["default", 2]]);
  assert.deepEqual(await ours.retry({ ids: ["1"] }, T), [{ id: "1", name: "mail" }]);
  assert.deepEqual(await ours.forget({ ids: ["2"] }), [{ id: "2", name: "mail" }]);
  assert.deepEqual(theirs.forget(null), [], "none is left");
  assert.deepEqual((await take(ours, { limit: 9 })).map(({ payload, attempt }) => [payload, attempt]), [[
    "1",
    1,
  ]]);
});

together("what we failed is retried and forgotten by the original", async (ours, theirs) => {
  const ids = await ours.push(["1", "2", "3"].map((payload) => job({ payload })), T);
  for (const held of await take(ours, { limit: 3 })) await ours.fail(held, failure());
  assert.deepEqual(theirs.retry(99, S), []);
  assert.deepEqual(theirs.retry(Number(ids[1]), S), [[BigInt(ids[1]), "job"]]);
  const again = theirs.reserve(S)!;
  assert.deepEqual([again.payload, again.attempt], ["2", 1n]);
  theirs.remove(again);
  assert.deepEqual(theirs.forget(Number(ids[0])), [[BigInt(ids[0]), "job"]]);
  assert.deepEqual(theirs.forget(null), [[BigInt(ids[2]), "job"]]);
  assert.deepEqual(await ours.failed({ after: null, limit: 9 }), []);
});

together("a job fails also where the original's failures have its id", async (ours, theirs) => {
  const [id] = await ours.push([job({ payload: "ours" })], T);
  theirs.db.prepare(
    "INSERT INTO failed_jobs (id, name, payload, error, failed_at) VALUES (?, 'x', 'theirs', 'e', 1)",
  )
    .run(BigInt(id));
  const [held] = await take(ours);
  assert.equal(await ours.fail(held, failure()), true);
  const failed = await ours.failed({ after: null, limit: 9 });
  assert.deepEqual(failed.map(({ payload }) => payload), ["theirs", "ours"]);
  assert.notEqual(failed[0].id, failed[1].id);
  assert.equal((await ours.retry({ after: null, limit: 9 }, T)).length, 2);
  assert.equal((await take(ours, { limit: 9 })).length, 2);
});

together(
  "a failed job is retried also where the original has given its id to a new one",
  async (ours, theirs) => {
    await ours.push([job({ payload: "ours" })], T);
    const [held] = await take(ours);
    await ours.fail(held, failure());
    theirs.db.prepare("INSERT INTO jobs (id, name, payload, available_at) VALUES (?, 'x', 'theirs', ?)")
      .run(BigInt(held.id), BigInt(S));
    assert.equal((await ours.retry({ after: null, limit: 9 }, T)).length, 1);
    const jobs = await take(ours, { limit: 9 });
    assert.deepEqual(jobs.map(({ payload }) => payload).sort(), ["ours", "theirs"]);
  },
);

together("both work off one file: each job goes to one of them", async (ours, theirs) => {
  for (let index = 0; index < 100; index++) {
    if (index % 2) theirs.push("job", String(index), S);
    else await ours.push([job({ payload: String(index) })], T);
  }
  const seen: string[] = [];
  for (;;) {
    const held = theirs.reserve(S);
    const mine = await take(ours, { limit: 2 });
    if (held === null && mine.length === 0) break;
    if (held !== null) {
      seen.push(held.payload);
      theirs.remove(held);
    }
    for (const one of mine) {
      seen.push(one.payload);
      assert.equal(await ours.complete(one), true);
    }
  }
  assert.deepEqual(seen.map(Number).sort((a, b) => a - b), Array.from({ length: 100 }, (_, index) => index));
  assert.equal(theirs.waiting(), 0);
});

upgraded("a file of the original is upgraded in place: nothing of it is lost", (theirs) => {
  for (const name of ["done", "running", "backing off", "failed"]) theirs.push(name, "p", S);
  theirs.remove(theirs.reserve(S)!);
  theirs.reserve(S);
  theirs.release(theirs.reserve(S)!, S + 10);
  theirs.fail(theirs.reserve(S)!, "nope", S);
  theirs.push("dead", "p", S - 200);
  theirs.reserve(S - 100);
  theirs.push("waiting", "1", S + 1);
  theirs.push("waiting", "2", S + 1);
  theirs.push("delayed", "p", S + 60);
}, async (ours, theirs) => {
  assert.deepEqual(
    rows(
      theirs.db,
      "SELECT id, name, payload, attempts, available_at, reserved_at, queue, priority FROM jobs",
    ),
    [
      { id: 2, name: "running", attempts: 1, available_at: S, reserved_at: S },
      { id: 3, name: "backing off", attempts: 1, available_at: S + 10, reserved_at: null },
      { id: 4, name: "dead", attempts: 1, available_at: S - 200, reserved_at: S - 100 },
      { id: 5, name: "waiting", payload: "1", attempts: 0, available_at: S + 1, reserved_at: null },
      { id: 6, name: "waiting", payload: "2", attempts: 0, available_at: S + 1, reserved_at: null },
      { id: 7, name: "delayed", attempts: 0, available_at: S + 60, reserved_at: null },
    ].map((row) => ({ payload: "p", queue: "default", priority: 0, ...row })),
  );
  assert.deepEqual(
    (await ours.failed({ after: null, limit: 9 })).map((one) => [one.id, one.name, one.error]),
    [
      ["1", "failed", "nope"],
    ],
  );
  const due = async (now: number): Promise<[string, number][]> =>
    (await take(ours, { limit: 9, now })).map(({ name, attempt }) => [name, attempt]);
  assert.deepEqual(await due(T), [["dead", 2]], "its lease has ended");
  assert.deepEqual(await due(T + 1000), [["waiting", 1], ["waiting", 1]]);
  assert.deepEqual(await due(T + LEASE - 11_000), [["backing off", 2], ["delayed", 1]]);
  assert.deepEqual(await due(T + LEASE - 1), [], "one is still reserved by the original");
  assert.deepEqual(await due(T + LEASE), [["dead", 3], ["running", 2]], "both leases have ended");
});

upgraded("an upgraded file goes on being the original's", (theirs) => theirs.push("job", "before", S), async (
  ours,
  theirs,
) => {
  const before = schema(theirs.db);
  theirs.db.exec(CREATE_TABLES);
  assert.deepEqual(schema(theirs.db), before);
  theirs.push("job", "after", S);
  assert.equal(theirs.reserve(S)?.payload, "before");
  assert.deepEqual((await take(ours, { limit: 9 })).map(({ payload }) => payload), ["after"]);
  theirs.fail(theirs.reserve(S + 90)!, "nope", S);
  assert.deepEqual(theirs.retry(1, S), [[1n, "job"]]);
  assert.equal(theirs.waiting(), 2);
});

upgraded(
  "an upgraded file is indexed as a new one",
  (theirs) => theirs.push("job", "p", S),
  async (_, theirs) => {
    await inFolder(async (folder) => {
      const file = join(folder, "new.sqlite");
      const driver = new SqliteDriver({ database: file });
      await driver.open();
      const fresh = new DatabaseSync(file);
      const indexes = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY name";
      assert.deepEqual(rows(theirs.db, indexes), rows(fresh, indexes));
      fresh.close();
      await driver.close();
    });
  },
);

upgraded("an upgraded file runs named queues, priorities and fractions", () => {}, async (ours) => {
  await ours.push([
    job({ payload: "2", queue: "post", priority: 1 }),
    job({ payload: "1", queue: "post", priority: 5 }),
    job({ payload: "3", queue: "post", delay: 1 }),
  ], T);
  const held = await take(ours, { queues: ["post"], limit: 9, now: T + 1 });
  assert.deepEqual(held.map(({ payload }) => payload), ["1", "2", "3"]);
  await ours.fail(held[0], failure());
  assert.deepEqual((await ours.failed({ after: null, limit: 9 })).map((one) => [one.queue, one.priority]), [
    ["post", 5],
  ]);
});

upgraded("in an upgraded file, too, an id is given once", (theirs) => {
  for (const payload of ["1", "2"]) theirs.push("job", payload, S);
  theirs.remove(theirs.reserve(S)!);
  theirs.remove(theirs.reserve(S)!);
  theirs.db.exec("INSERT INTO failed_jobs VALUES (41, 'job', 'p', 'e', 1)");
}, async (ours, theirs) => {
  const ids: string[] = [];
  for (let round = 0; round < 3; round++) {
    ids.push(...await ours.push([job()], T));
    assert.equal(await ours.complete((await take(ours))[0]), true);
  }
  assert.deepEqual(ids, ["42", "43", "44"], "nor one of a failed job");
  theirs.push("job", "p", S);
  assert.equal(theirs.reserve(S)?.id, 45n, "to the original's jobs, too");
});

upgraded("an upgrade keeps what the app added to the table", (theirs) => {
  theirs.db.exec(`ALTER TABLE jobs ADD COLUMN "the user" TEXT DEFAULT 'ada' CHECK ("the user" <> '');
    CREATE INDEX mine ON jobs ("the user")`);
  theirs.push("job", "p", S);
}, async (ours, theirs) => {
  await ours.push([job()], T);
  assert.deepEqual(rows(theirs.db, 'SELECT id, "the user" AS user FROM jobs'), [
    { id: 1, user: "ada" },
    { id: 2, user: "ada" },
  ]);
  assert.throws(() => theirs.db.exec(`UPDATE jobs SET "the user" = ''`), /CHECK/);
  const [table] = rows(theirs.db, "SELECT sql FROM sqlite_schema WHERE name = 'jobs'");
  assert.match(String(table.sql), /AUTOINCREMENT/);
  assert.equal(rows(theirs.db, "SELECT 1 FROM sqlite_schema WHERE name = 'mine'").length, 1);
});

const ENTANGLED: Record<string, string> = {
  "a trigger":
    "CREATE TABLE gone (id); CREATE TRIGGER t AFTER DELETE ON jobs BEGIN INSERT INTO gone VALUES (old.id); END",
  "a view": "CREATE VIEW v AS SELECT id FROM jobs",
  "a foreign key":
    "CREATE TABLE r (job INTEGER REFERENCES jobs (id) ON DELETE CASCADE); INSERT INTO r VALUES (1)",
  "an id of 63 bits": "UPDATE jobs SET id = 9223372036854775807 WHERE id = 2",
};

for (const [what, sql] of Object.entries(ENTANGLED)) {
  upgraded(`a table with ${what} is upgraded as it stands`, (theirs) => {
    theirs.push("job", "1", S);
    theirs.push("job", "2", S);
    theirs.db.exec(sql);
  }, async (ours, theirs) => {
    const [table] = rows(theirs.db, "SELECT sql FROM sqlite_schema WHERE name = 'jobs'");
    assert.doesNotMatch(String(table.sql), /AUTOINCREMENT/);
    if (what === "a trigger") assert.deepEqual(rows(theirs.db, "SELECT * FROM gone"), []);
    if (what === "a foreign key") assert.equal(rows(theirs.db, "SELECT * FROM r").length, 1);
    await ours.push([job({ payload: "3" })], T);
    const held = await take(ours, { limit: 9 });
    assert.deepEqual(held.map(({ payload }) => payload).sort(), ["1", "2", "3"]);
  });
}

together("a job that the original delayed for ever is no hindrance", async (ours, theirs) => {
  const insert = theirs.db.prepare(
    "INSERT INTO jobs (name, payload, available_at) VALUES ('job', 'never', ?)",
  );
  insert.run(2n ** 63n - 1n);
  insert.run(-(2n ** 63n));
  const ask = { queues: [{ queue: "default", limit: 1 }], limit: 1, prefetch: 0, now: T, retryAfter: LEASE };
  assert.equal((await ours.reserve(ask)).jobs.length, 1, "the one that was always due");
  const { jobs, nextIn } = await ours.reserve(ask);
  assert.deepEqual(jobs, []);
  assert.equal(Number.isFinite(nextIn), true);
  await ours.push([job({ payload: "now" })], T);
  assert.deepEqual((await take(ours)).map(({ payload }) => payload), ["now"]);
  assert.deepEqual((await ours.counts(T, LEASE)).map(({ delayed, reserved }) => [delayed, reserved]), [[
    1,
    2,
  ]]);
});

together("ids of more than 53 bits are kept to the last digit", async (ours, theirs) => {
  const large = 2n ** 53n + 1n;
  const jobs = theirs.db.prepare(
    "INSERT INTO jobs (id, name, payload, available_at) VALUES (?, 'job', ?, 0)",
  );
  for (let index = 0n; index < 10n; index++) jobs.run(large + index, String(index));
  const failed = theirs.db.prepare(
    "INSERT INTO failed_jobs VALUES (?, 'job', 'f', 'e', 1, 'x', 0, 1, NULL, NULL, NULL, NULL)",
  );
  const FAILED = [-(2n ** 63n), 7n, 2n ** 62n + 1n, 2n ** 63n - 1n];
  for (const id of FAILED) failed.run(id);

  const [pushed] = await ours.push([job()], T);
  assert.equal(pushed, String(large + 10n));
  const held = await take(ours, { limit: 10 });
  assert.deepEqual(
    held.map(({ id }) => id),
    Array.from({ length: 10 }, (_, index) => String(large + BigInt(index))),
  );
  assert.deepEqual(await ours.extend(held, T), []);
  assert.deepEqual(await Promise.all(held.slice(1).map((one) => ours.complete(one))), Array(9).fill(true));
  assert.equal(await ours.fail(held[0], failure()), true);

  const all = await ours.failed({ after: null, limit: 99 });
  const ids = [FAILED[0], FAILED[1], large, FAILED[2], FAILED[3]].map(String);
  assert.deepEqual(all.map(({ id }) => id), ids);
  assert.deepEqual((await ours.failed({ after: ids[2], limit: 99 })).map(({ id }) => id), ids.slice(3));
  assert.deepEqual((await ours.failed({ ids: [...ids].reverse() })).map(({ id }) => id), ids);
  assert.deepEqual(await ours.forget({ ids: [ids[4], String(2n ** 63n)] }), [{ id: ids[4], name: "job" }]);
  assert.deepEqual((await ours.retry({ after: null, limit: 99 }, T)).map(({ id }) => id), ids.slice(0, 4));
  assert.deepEqual(await ours.failed({ after: null, limit: 9 }), []);
  assert.equal((await ours.push([job()], T)).length, 1);
});

test("an upgrade leaves the app's own tables alone, and a second one does nothing", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const theirs = new Original(file);
    theirs.db.exec(
      "CREATE TABLE users (name TEXT); INSERT INTO users VALUES ('ada'); PRAGMA user_version = 7",
    );
    theirs.push("job", "p", S);
    for (let round = 0; round < 2; round++) {
      const ours = new SqliteDriver({ database: file });
      await ours.open();
      await ours.close();
    }
    assert.deepEqual(rows(theirs.db, "SELECT name FROM users"), [{ name: "ada" }]);
    assert.deepEqual(rows(theirs.db, "PRAGMA user_version"), [{ user_version: 7 }], "the app's own version");
    assert.equal(theirs.reserve(S)?.payload, "p");
    theirs.close();
  });
});

test("an upgrade waits for a transaction of the original that is under way", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const theirs = new Original(file);
    theirs.db.exec("PRAGMA journal_mode = WAL; BEGIN IMMEDIATE");
    theirs.push("job", "p", S);
    const ours = new SqliteDriver({ database: file });
    let open = false;
    const opening = ours.open().then(() => open = true);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(open, false);
    theirs.db.exec("COMMIT");
    await opening;
    assert.equal((await take(ours))[0]?.payload, "p");
    theirs.close();
    await ours.close();
  });
});

test("a table of the app's that happens to be named jobs is refused, and left as it was", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const app = new DatabaseSync(file);
    app.exec(
      "CREATE TABLE jobs (id INTEGER PRIMARY KEY, title TEXT, salary REAL); INSERT INTO jobs VALUES (1, 'cook', 9)",
    );
    const before = schema(app);
    const ours = new SqliteDriver({ database: file });
    await assert.rejects(ours.push([job()], T), (error) => {
      assert.equal(error instanceof QueueError && error.code, "DB");
      assert.match((error as Error).message, /jobs/);
      return true;
    });
    await ours.close();
    assert.deepEqual(schema(app), before);
    assert.deepEqual(rows(app, "SELECT title FROM jobs"), [{ title: "cook" }]);
    app.close();
  });
});

test("a file of schema 3 gets what is new, and keeps its jobs, reservations and failures", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const first = new SqliteDriver({ database: file });
    await first.push([job({ payload: "held" }), job({ payload: "failed" }), job({ payload: "ready" })], T);
    const [held, failed] = await take(first, { limit: 2 });
    await first.fail(failed, failure());
    await first.close();
    const db = new DatabaseSync(file);
    const fresh = schema(db);
    db.exec(`DROP INDEX jobs_cancelled;
      DROP INDEX failed_jobs_queue;
      ALTER TABLE jobs DROP COLUMN cancelled;
      ALTER TABLE jobs DROP COLUMN progress;
      ALTER TABLE jobs DROP COLUMN dispatched_at;
      ALTER TABLE jobs DROP COLUMN trace;
      ALTER TABLE jobs DROP COLUMN history;
      ALTER TABLE failed_jobs DROP COLUMN history;
      DROP TABLE queue_workers;
      UPDATE queue_meta SET value = 3 WHERE key = 'schema'`);
    assert.notDeepEqual(schema(db), fresh);

    const ours = new SqliteDriver({ database: file });
    await ours.open();
    assert.deepEqual(rows(db, "SELECT value FROM queue_meta WHERE key = 'schema'"), [{ value: 6 }]);
    const names = (of: Record<string, unknown>[]) => of.map(({ type, name }) => `${type} ${name}`);
    assert.deepEqual(names(schema(db)), names(fresh));
    db.close();
    assert.deepEqual((await ours.failed({ after: null, limit: 9 })).map(({ payload }) => payload), [
      "failed",
    ]);
    assert.equal(await ours.report(held, { fraction: 0.5, note: null }, 1000, T), true, "it is still held");
    assert.equal((await ours.progress(held.id))?.fraction, 0.5);
    assert.equal(await ours.cancel(held.id), "cancelling");
    await ours.beat(report(), 30_000, T);
    assert.deepEqual((await ours.workers(T)).map(({ id }) => id), ["a"]);
    assert.deepEqual((await ours.controls()).cancelled, [held.id]);
    assert.equal(await ours.complete(held), true);
    assert.deepEqual((await take(ours)).map(({ payload }) => payload), ["ready"]);
    await ours.close();
  });
});

test("a file of schema 4 gets the workers and the attempts, and keeps what it has", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const first = new SqliteDriver({ database: file });
    await first.push([job({ payload: "held" }), job({ payload: "failed" })], T);
    const [held, failed] = await take(first, { limit: 2 });
    await first.fail(failed, failure());
    await first.close();
    const db = new DatabaseSync(file);
    db.exec(`ALTER TABLE jobs DROP COLUMN history;
      ALTER TABLE failed_jobs DROP COLUMN history;
      DROP TABLE queue_workers;
      UPDATE queue_meta SET value = 4 WHERE key = 'schema'`);
    db.close();
    const ours = new SqliteDriver({ database: file });
    assert.deepEqual(await ours.workers(T), []);
    assert.deepEqual((await ours.failed({ after: null, limit: 9 })).map(({ history }) => history), [[]]);
    assert.equal(await ours.fail(held, { ...failure(), record: record(1) }), true, "it was still held");
    const histories = (await ours.failed({ after: null, limit: 9 })).map(({ history }) => history);
    assert.deepEqual(histories, [[record(1)], []]);
    assert.equal((await ours.retry({ after: null, limit: 9 }, T)).length, 2);
    await ours.close();
  });
});

test("a file of a newer release is refused, and left as it was", async () => {
  await inFolder(async (folder) => {
    const file = join(folder, "app.sqlite");
    const first = new SqliteDriver({ database: file });
    await first.push([job()], T);
    await first.close();
    const db = new DatabaseSync(file);
    db.exec("UPDATE queue_meta SET value = 999 WHERE key = 'schema'");
    const ours = new SqliteDriver({ database: file });
    await assert.rejects(ours.open(), (error) => {
      assert.equal(error instanceof QueueError && error.code, "DB");
      assert.match((error as Error).message, /newer/);
      return true;
    });
    await ours.close();
    assert.deepEqual(rows(db, "SELECT count(*) AS jobs FROM jobs"), [{ jobs: 1 }]);
    db.close();
  });
});

/** Rows as plain objects: node:sqlite's have no prototype, which deepEqual takes for a difference. */
function rows(db: DatabaseSync, sql: string): Record<string, unknown>[] {
  return db.prepare(sql).all().map((row) => ({ ...row }));
}

function schema(db: DatabaseSync): Record<string, unknown>[] {
  return rows(db, "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name");
}
