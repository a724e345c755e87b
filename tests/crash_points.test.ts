/**
 * A process is killed before and after each thing that it does to its store. Whoever opens the store next finds every
 * call that was answered done, the one under way done wholly or not at all, and no job twice.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import type { Driver } from "../core/driver.ts";
import { RedisDriver } from "../drivers/redis.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { failure, job, take } from "./conformance.ts";
import { newFolder } from "./folder.ts";
import { Program } from "./process.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";

// A hundred processes of the same few files: Node compiles them once.
const compiled = newFolder();
process.env.NODE_COMPILE_CACHE = compiled.path;

after(async () => {
  await endShared();
  compiled.remove();
});

const T = 1_800_000_000_000;
const LEASE = 90_000;
const KEYED = { ...job({ payload: "d" }), key: "d" };

/** How many processes run at a time. */
const AT_ONCE = 3;

/** Where each job is, by its payload, with the attempts that it had. */
type Picture = Record<string, string>;

/** The calls of `programs/crashing.ts`, and the picture after each. */
const HISTORY: ReadonlyArray<[call: string, after: Picture]> = [
  ["push", { a: "ready 0", b: "ready 0", c: "delayed 0" }],
  ["push once", { a: "ready 0", b: "ready 0", c: "delayed 0", d: "ready 0" }],
  ["reserve", { a: "reserved 1", b: "reserved 1", c: "delayed 0", d: "ready 0" }],
  ["complete", { b: "reserved 1", c: "delayed 0", d: "ready 0" }],
  ["extend", { b: "reserved 1", c: "delayed 0", d: "ready 0" }],
  ["release", { b: "delayed 1", c: "delayed 0", d: "ready 0" }],
  ["reserve", { b: "delayed 1", c: "delayed 0", d: "reserved 1" }],
  ["fail", { b: "delayed 1", c: "delayed 0", d: "failed 1" }],
  ["retry", { b: "delayed 1", c: "delayed 0", d: "ready 0" }],
  ["reserve", { b: "delayed 1", c: "delayed 0", d: "reserved 1" }],
  ["hand back", { b: "delayed 1", c: "delayed 0", d: "ready 0" }],
  ["reserve", { b: "reserved 2", c: "reserved 1", d: "reserved 1" }],
  ["complete in one turn", {}],
];

/** Where failed jobs are in another store than the others, they may be in both for a while, and never in neither. */
const BETWEEN: Record<string, Picture> = {
  fail: { b: "delayed 1", c: "delayed 0", d: "failed 1, reserved 1" },
  retry: { b: "delayed 1", c: "delayed 0", d: "failed 1, ready 0" },
};

/** A store that a process can be killed on. */
interface Store {
  /** What the program must know of it. */
  readonly options: Record<string, unknown>;
  open(): Driver;
  remove(): void;
}

/** Takes the store apart: all that is ready, then all that is delayed, then all that is held, and what has failed. */
async function pictureOf(driver: Driver): Promise<Picture> {
  const found: [payload: string, state: string][] = [];
  for (const { payload, attempts } of await driver.failed({ after: null, limit: 100 })) {
    found.push([payload, `failed ${attempts}`]);
  }
  for (const [state, passed] of [["ready", 0], ["delayed", 5000], ["reserved", 2 * LEASE]] as const) {
    // Held until then, so that none is seen again.
    const held = await take(driver, { limit: 100, now: T + passed, retryAfter: LEASE });
    for (const { payload, attempt } of held) found.push([payload, `${state} ${attempt - 1}`]);
    for (const one of held) await driver.complete(one);
  }
  const picture: Picture = {};
  for (const [payload, state] of found) {
    picture[payload] = picture[payload] === undefined ? state : `${picture[payload]}, ${state}`;
  }
  return picture;
}

/** Runs the history, to be killed at a point: how many calls were answered, or `null` where there is no such point. */
async function killedAt(point: number, store: Store): Promise<number | null> {
  const program = new Program("crashing", { ...store.options, killAt: point, now: T, lease: LEASE });
  const end = await program.ended;
  const answered = program.all("did").map(([, call]) => call);
  assert.deepEqual(answered, HISTORY.slice(0, answered.length).map(([call]) => call));
  if (end === "SIGKILL") return answered.length;
  assert.equal(end, 0, program.errors);
  assert.equal(answered.length, HISTORY.length, "all was done");
  return null;
}

/** What may be found where so many calls were answered. */
function allowed(answered: number, apart: boolean): Picture[] {
  const pictures = [answered === 0 ? {} : HISTORY[answered - 1][1]];
  const next = HISTORY[answered];
  if (next !== undefined) pictures.push(next[1]);
  if (apart && next?.[0] in BETWEEN) pictures.push(BETWEEN[next[0]]);
  return pictures;
}

/** Kills a process at a point, and says what became of the call under way; `null` where there is no such point. */
async function look(point: number, make: () => Promise<Store>, apart: boolean): Promise<string | null> {
  const store = await make();
  const driver = store.open();
  try {
    const answered = await killedAt(point, store);
    const call = HISTORY[answered ?? -1]?.[0];
    const where = `killed at point ${point}, within "${call}"`;
    // The dispatch that can be repeated is repeated.
    const [{ created }] = await driver.pushOnce([KEYED], T);
    if (answered === null || answered >= 2) assert.equal(created, false, `${where}: stored twice`);
    const picture = await pictureOf(driver);
    if (answered === null) {
      assert.deepEqual(picture, {}, "all was done");
      return null;
    }
    const pictures = allowed(answered, apart).map((one) => answered < 2 ? { ...one, d: "ready 0" } : one);
    const found = pictures.findIndex((one) => same(one, picture));
    assert.notEqual(found, -1, `${where}: ${JSON.stringify(picture)} is none of ${JSON.stringify(pictures)}`);
    if (found === 2) await heal(driver, picture, where);
    const done = call === "push once" ? !created : found === 1;
    return `${call}: ${found === 2 ? "in both" : done ? "done" : "not done"}`;
  } finally {
    await driver.close();
    store.remove();
  }
}

/** A job in both places comes to be in one: its row is one however often it fails, and a second retry adds nothing. */
async function heal(driver: Driver, picture: Picture, where: string): Promise<void> {
  const [failed] = await driver.failed({ after: null, limit: 9 });
  assert.equal((await driver.retry({ ids: [failed.id] }, T)).length, 1, where);
  const held = await take(driver, { limit: 9, now: T + 3 * LEASE });
  // `pictureOf` has taken the one in line; a retry that was cut short pushes no second one.
  const expected = picture.d.includes("ready") ? 0 : 1;
  assert.equal(held.length, expected, `${where}: retried again`);
  for (const one of held) assert.equal(await driver.fail(one, failure()), true);
  assert.equal((await driver.failed({ after: null, limit: 9 })).length, expected, where);
}

function same(a: Picture, b: Picture): boolean {
  const lines = (picture: Picture): string => Object.entries(picture).map(String).sort().join("\n");
  return lines(a) === lines(b);
}

function crashPoints(
  name: string,
  make: () => Promise<Store>,
  apart: boolean,
  skip: string | false = false,
): void {
  test(
    `${name}: wherever a process is killed, no job is lost or there twice`,
    { skip, timeout: 300_000 },
    async () => {
      // Not killed, so that a server knows the scripts, and a point is the same one for all.
      assert.equal(await look(0, make, apart), null);
      const seen = new Set<string | null>();
      let next = 1;
      const some = async (): Promise<void> => {
        while (!seen.has(null)) seen.add(await look(next++, make, apart));
      };
      await Promise.all(Array.from({ length: AT_ONCE }, some));
      // Each call was cut short on both sides of the moment at which it is done; what a renewal changes does not show.
      const expected = HISTORY.filter(([call]) => call !== "extend")
        .flatMap(([call]) => [`${call}: not done`, `${call}: done`]);
      if (apart) expected.push(...Object.keys(BETWEEN).map((call) => `${call}: in both`));
      assert.deepEqual(expected.filter((one) => !seen.has(one)), []);
    },
  );
}

crashPoints("SQLite", () => {
  const folder = newFolder();
  const database = join(folder.path, "queue.sqlite");
  const open = () => new SqliteDriver({ database });
  return Promise.resolve({ options: { database }, open, remove: folder.remove });
}, false);

for (const failed of ["database", "redis"] as const) {
  const name = `Redis, failures in ${failed === "redis" ? "Redis" : "the database"}`;
  crashPoints(
    name,
    async () => {
      const { url } = await sharedServer();
      const folder = newFolder();
      const options = { url, prefix: newPrefix(), database: join(folder.path, "app.sqlite"), failed };
      return { options, open: () => new RedisDriver(options), remove: folder.remove };
    },
    failed === "database",
    noRedis,
  );
}
