/** What goes wrong around a queue: killed and stopped processes, locks, full and read-only disks, files that are none. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { DatabaseSync } from "node:sqlite";
import { type Job, Queue, QueueError } from "@x/queue";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { job, take } from "./conformance.ts";
import { inFolder } from "./folder.ts";
import { Original } from "./original.ts";
import { type Program, withPrograms } from "./process.ts";
import { soon, until } from "./until.ts";

/** A queue on `database` that keeps its log lines. */
function open<const Map extends Record<string, (job: Job) => unknown>>(
  database: string,
  jobs: Map,
  retryAfter = 60_000,
): { queue: Queue<Map>; lines: string[] } {
  const lines: string[] = [];
  const log = {
    warn: (line: string) => void lines.push(line),
    error: (line: string) => void lines.push(line),
  };
  return { queue: new Queue({ database, jobs, retryAfter, log, env: {} }), lines };
}

function isDatabaseError(error: unknown): error is QueueError {
  return error instanceof QueueError && error.code === "DB";
}

/** A test with a folder of its own, the path of a database in it, and a way to start programs. */
function inProcesses(
  sentence: string,
  run: (file: string, start: (name: string, options: Record<string, unknown>) => Program) => Promise<void>,
): void {
  test(
    sentence,
    () => inFolder((folder) => withPrograms((start) => run(join(folder, "queue.sqlite"), start))),
  );
}

// Processes

inProcesses("a job runs again after its lease when its worker was killed", async (file, start) => {
  const ran: [string, number][] = [];
  const { queue } = open(file, { hang: (job) => void ran.push([job.payload, job.attempt]) }, 500);
  await queue.dispatch("hang", "p");
  const worker = start("worker", { database: file, retryAfter: 500 });
  assert.deepEqual(await worker.says("hanging"), ["hanging", "p", 1]);
  assert.equal(await worker.end("SIGKILL"), "SIGKILL");
  assert.deepEqual(ran, []);
  await until(() => queue.workOnce(), "the job to run again");
  assert.deepEqual(ran, [["p", 2]]);
  assert.equal(await queue.waiting(), 0);
  await queue.close();
});

inProcesses("of a killed worker's many jobs none is lost", async (file, start) => {
  const ran: string[] = [];
  const { queue } = open(file, { hang: (job) => void ran.push(`${job.payload} ${job.attempt}`) }, 500);
  const payloads = Array.from({ length: 30 }, (_, index) => String(index));
  await queue.dispatchMany(payloads.map((payload) => ["hang", payload]));
  const worker = start("worker", { database: file, retryAfter: 500, concurrency: 20 });
  await worker.says("hanging", 20);
  await worker.end("SIGKILL");
  await until(async () => {
    await queue.work({ stopWhenEmpty: true, concurrency: 10 });
    return await queue.waiting() === 0;
  }, "all jobs to run");
  assert.deepEqual(ran.sort(), payloads.map((payload, index) => `${payload} ${index < 20 ? 2 : 1}`).sort());
  await queue.close();
});

inProcesses("what was accepted before a dispatcher was killed is stored", async (file, start) => {
  const dispatcher = start("dispatcher", { database: file });
  await dispatcher.says("accepted", 150);
  await dispatcher.end("SIGKILL");
  const accepted = dispatcher.all("accepted").map(([, payload]) => payload);
  const db = new DatabaseSync(file);
  assert.equal(db.prepare("PRAGMA integrity_check").get()?.integrity_check, "ok");
  const stored = new Set(db.prepare("SELECT payload FROM jobs").all().map((row) => row.payload));
  assert.deepEqual(accepted.filter((payload) => !stored.has(payload as string)), []);
  db.close();
});

inProcesses("two processes on one file run every job once", async (file, start) => {
  const { queue } = open(file, { record: () => {} });
  const payloads = Array.from({ length: 400 }, (_, index) => String(index));
  await queue.dispatchMany(payloads.slice(0, 200).map((payload) => ["record", payload]));
  const workers = [0, 10].map((prefetch) => start("worker", { database: file, concurrency: 5, prefetch }));
  await Promise.all(workers.map((worker) => worker.says("open")));
  for (const payload of payloads.slice(200)) await queue.dispatch("record", payload);
  await until(async () => await queue.waiting() === 0, "every job to be done");
  for (const worker of workers) assert.equal(await worker.end(), 0, worker.errors);
  const ran = workers.flatMap((worker) => worker.all("ran").map(([, payload]) => payload));
  assert.deepEqual(ran.map(Number).sort((a, b) => a - b), payloads.map(Number));
  assert.deepEqual(await queue.failed(), []);
  await queue.close();
});

inProcesses("processes that start at once on a new file all work", async (file, start) => {
  const database = join(file, "..", "not", "there", "yet.sqlite");
  const at = Date.now() + 1500;
  const dispatchers = Array.from({ length: 6 }, () => start("dispatcher", { database, jobs: 10, at }));
  for (const dispatcher of dispatchers) assert.equal(await dispatcher.ended, 0, dispatcher.errors);
  const ids = dispatchers.flatMap((dispatcher) => dispatcher.all("accepted").map(([, , id]) => id));
  assert.equal(new Set(ids).size, 60);
  const { queue } = open(database, {});
  assert.equal(await queue.waiting(), 60);
  await queue.close();
});

inProcesses("processes that start at once on a file of the original all work", async (file, start) => {
  const theirs = new Original(file);
  for (let index = 0; index < 50; index++) theirs.push("record", `old ${index}`, 1);
  theirs.close();
  const at = Date.now() + 1200;
  const dispatchers = Array.from({ length: 4 }, () => start("dispatcher", { database: file, jobs: 10, at }));
  for (const dispatcher of dispatchers) assert.equal(await dispatcher.ended, 0, dispatcher.errors);
  const ran: string[] = [];
  const { queue } = open(file, { record: (job) => void ran.push(job.payload) });
  await queue.work({ stopWhenEmpty: true, concurrency: 20 });
  assert.equal(ran.length, 90);
  assert.equal(new Set(ran.filter((payload) => payload.startsWith("old"))).size, 50);
  await queue.close();
});

for (
  const [way, what] of Object.entries({
    dispatched: "a process that only dispatched",
    stopped: "a process whose workers were stopped",
    idle: "a process whose workers were stopped before they had work",
    aborted: "a process whose worker's signal was aborted",
    closed: "a process that closed its queue",
    delayed: "a process with a job that is due in 300 days",
  })
) {
  inProcesses(`${what} exits by itself`, async (file, start) => {
    const program = start("leaving", { database: file, way });
    await program.says("done");
    assert.equal(await soon(program.ended, "its end"), 0, program.errors);
  });
}

/** A worker in another process that holds a job, stopped until its lease has ended and the job is ours. */
async function suspended(
  file: string,
  start: (name: string, options: Record<string, unknown>) => Program,
): Promise<{ worker: Program; driver: SqliteDriver; held: Awaited<ReturnType<typeof take>>[number] }> {
  const driver = new SqliteDriver({ database: file });
  await driver.push([job({ name: "hang", payload: "p" })], null);
  const worker = start("worker", { database: file, retryAfter: 600 });
  await worker.says("hanging");
  worker.signal("SIGSTOP");
  const [held] = await until(async () => {
    const jobs = await take(driver, { now: Date.now(), retryAfter: 600 });
    return jobs.length > 0 && jobs;
  }, "the lease to end") as Awaited<ReturnType<typeof take>>;
  // Long enough that the worker, once it goes on, does not take the job back.
  assert.deepEqual(await driver.extend([held], Date.now() + 600_000), []);
  return { worker, driver, held };
}

inProcesses(
  "a worker that was stopped past its lease leaves the job to the one who holds it",
  async (file, start) => {
    const { worker, driver, held } = await suspended(file, start);
    assert.equal(held.attempt, 2);
    worker.signal("SIGCONT");
    assert.deepEqual(await worker.says("aborted"), ["aborted", "LEASE_LOST"]);
    assert.deepEqual(await worker.says("lost"), ["lost", held.id]);
    assert.deepEqual(worker.all("completed"), []);
    assert.deepEqual(await driver.extend([held], Date.now()), [], "it is still held");
    assert.equal(await driver.complete(held), true);
    assert.equal(await worker.end(), 0, worker.errors);
    await driver.close();
  },
);

inProcesses(
  "a worker that was stopped past its lease does not run again what another has done",
  async (file, start) => {
    const { worker, driver, held } = await suspended(file, start);
    assert.equal(await driver.complete(held), true);
    await driver.push([job({ name: "record", payload: "next" })], null);
    worker.signal("SIGCONT");
    await worker.says("lost");
    assert.deepEqual(await worker.says("ran"), ["ran", "next", 1], "and it goes on working");
    assert.equal(await worker.end(), 0, worker.errors);
    assert.equal(worker.all("hanging").length, 1);
    assert.deepEqual(await driver.counts(Date.now(), 600), []);
    await driver.close();
  },
);

inProcesses(
  "a worker that keeps its lease is not disturbed, however long the job takes",
  async (file, start) => {
    const { queue } = open(file, { hang: () => assert.fail("it ran twice") }, 600);
    const { id } = await queue.dispatch("hang", "p");
    const worker = start("worker", { database: file, retryAfter: 600 });
    await worker.says("hanging");
    const leasedUntil = async () => (await queue.find(id))!.leasedUntil!;
    let end = await leasedUntil();
    for (let leases = 0; leases < 3; leases++) {
      const before = end;
      end = await until(async () => {
        const now = await leasedUntil();
        return now > before && now;
      }, "a renewal") as typeof end;
      // By whatever clock somebody looks: this machine may stand still for longer than a lease.
      assert.equal(await queue.workOnce(before), false, "it is held");
    }
    assert.deepEqual(worker.all("aborted"), []);
    await queue.close();
  },
);

// Locks and store errors

test("a dispatch waits for another connection's write lock, and the process goes on", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const { queue } = open(file, { record: () => {} });
    await queue.open();
    const other = new DatabaseSync(file);
    other.exec(
      "BEGIN IMMEDIATE; INSERT INTO jobs (name, payload, available_at) VALUES ('record', 'theirs', 0)",
    );
    let stored = false;
    let ticks = 0;
    const ticking = setInterval(() => ticks++, 10);
    const dispatch = queue.dispatch("record", "ours").then(() => stored = true);
    await until(() => ticks > 50, "timers to run meanwhile");
    clearInterval(ticking);
    assert.equal(stored, false, "nothing is promised before it is stored");
    other.exec("COMMIT");
    await soon(dispatch, "the dispatch");
    assert.equal(await queue.waiting(), 2);
    other.close();
    await queue.close();
  }));

test("a job that ends while another connection holds the write lock is settled afterwards", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const other = new DatabaseSync(file);
    const runs: number[] = [];
    const { queue } = open(file, {
      lock: (job) => {
        runs.push(job.attempt);
        other.exec("BEGIN IMMEDIATE");
      },
    });
    await queue.dispatch("lock", "p");
    const completed = Promise.withResolvers<void>();
    const stopping = new AbortController();
    const working = queue.work({
      signal: stopping.signal,
      onEvent: ({ type }) => type === "completed" && completed.resolve(),
    });
    await until(() => runs.length > 0, "the job to run");
    await new Promise((resolve) => setTimeout(resolve, 1000));
    other.exec("COMMIT");
    await soon(completed.promise, "its settlement");
    stopping.abort();
    await working;
    assert.deepEqual(runs, [1]);
    assert.equal(await queue.waiting(), 0);
    other.close();
    await queue.close();
  }));

test("what the store refuses does not take the rest of the turn with it", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const { queue } = open(file, { good: () => {}, bad: () => {} });
    await queue.open();
    const other = new DatabaseSync(file);
    other.exec(`CREATE TRIGGER refuse BEFORE INSERT ON jobs WHEN new.name = 'bad'
      BEGIN SELECT RAISE(ABORT, 'no bad jobs'); END`);
    const results = await Promise.allSettled([
      queue.dispatch("good", "1"),
      queue.dispatchMany([["good", "all or none"], ["bad", "all or none"]]),
      queue.dispatch("good", "2"),
      queue.dispatch("bad", "3"),
      queue.dispatch("good", "4"),
    ]);
    assert.deepEqual(results.map(({ status }) => status), [
      "fulfilled",
      "rejected",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    for (const result of results) {
      if (result.status !== "rejected") continue;
      assert.equal(isDatabaseError(result.reason), true);
      assert.match(result.reason.message, /no bad jobs/);
    }
    const stored = other.prepare("SELECT id, payload FROM jobs ORDER BY id").all();
    assert.deepEqual(stored.map((row) => row.payload), ["1", "2", "4"]);
    const ids = results.flatMap((result) => result.status === "fulfilled" ? [result.value] : []) as {
      id: string;
    }[];
    assert.deepEqual(ids.map(({ id }) => id), stored.map((row) => String(row.id)), "each got its own id");
    other.close();
    await queue.close();
  }));

test("a store error never ends a worker", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const ran: string[] = [];
    const { queue, lines } = open(file, { record: (job) => void ran.push(job.payload) });
    await queue.dispatch("record", "before");
    const stopping = new AbortController();
    let ended = false;
    const working = queue.work({ signal: stopping.signal }).finally(() => ended = true);
    await until(() => ran.length === 1, "the first job");
    await until(async () => await queue.waiting() === 0, "its settlement");
    const other = new DatabaseSync(file);
    other.exec("ALTER TABLE jobs RENAME TO away");
    await until(() => lines.length >= 2, "two tries to fail");
    assert.equal(ended, false);
    assert.match(lines[0], /^queue: .*no such table/);
    other.exec("ALTER TABLE away RENAME TO jobs");
    await queue.dispatch("record", "after");
    await until(() => ran.length === 2, "the second job");
    assert.deepEqual(ran, ["before", "after"]);
    stopping.abort();
    await soon(working, "the worker's end");
    other.close();
    await queue.close();
  }));

test("a settlement that the store refuses is tried again, without running the job again", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const other = new DatabaseSync(file);
    const runs: number[] = [];
    const { queue, lines } = open(file, {
      record: (job) => {
        runs.push(job.attempt);
        other.exec("CREATE TRIGGER refuse BEFORE DELETE ON jobs BEGIN SELECT RAISE(ABORT, 'not now'); END");
      },
    });
    await queue.dispatch("record", "p");
    const events: string[] = [];
    const stopping = new AbortController();
    const working = queue.work({ signal: stopping.signal, onEvent: ({ type }) => void events.push(type) });
    await until(() => lines.some((line) => line.includes("not now")), "the settlement to fail");
    other.exec("DROP TRIGGER refuse");
    await until(() => events.includes("completed"), "the settlement");
    assert.deepEqual(runs, [1]);
    assert.equal(await queue.waiting(), 0);
    stopping.abort();
    await working;
    other.close();
    await queue.close();
  }));

// Disks and files

/** Mounts a small file system in `folder`; `false` where that is not allowed. */
function mount(folder: string): boolean {
  return spawnSync("mount", ["-t", "tmpfs", "-o", "size=2m", "queue-test", folder]).status === 0;
}

function unmount(folder: string): void {
  spawnSync("umount", [folder]);
}

const mountable = process.platform === "linux" && process.getuid?.() === 0 &&
  await inFolder((folder) => {
    const mounted = mount(folder);
    if (mounted) unmount(folder);
    return mounted;
  });
const noMount = !mountable && "no permission to mount a file system here";

async function onSmallDisk(use: (folder: string) => Promise<void>): Promise<void> {
  await inFolder(async (folder) => {
    assert.equal(mount(folder), true);
    try {
      await use(folder);
    } finally {
      unmount(folder);
    }
  });
}

/** Fills the disk to its last page, and returns what frees it. */
function fillUp(folder: string): () => void {
  const ballast = join(folder, "ballast");
  for (const size of [65536, 4096]) {
    try {
      for (;;) writeFileSync(ballast, new Uint8Array(size), { flag: "a" });
    } catch {
      // Full for pieces of this size.
    }
  }
  return () => unlinkSync(ballast);
}

test(
  "on a full disk a dispatch is refused, and what was accepted stays",
  { skip: noMount },
  () =>
    onSmallDisk(async (folder) => {
      const { queue } = open(join(folder, "queue.sqlite"), { record: () => {} });
      let accepted = 0;
      for (; accepted < 5; accepted++) await queue.dispatch("record", "p");
      const free = fillUp(folder);
      await assert.rejects(async () => {
        for (;; accepted++) await queue.dispatch("record", "x".repeat(50_000));
      }, (error) => {
        assert.equal(isDatabaseError(error), true);
        assert.match((error as Error).message, /full/);
        return true;
      });
      await assert.rejects(
        queue.dispatchMany(Array.from({ length: 9 }, () => ["record", "y".repeat(50_000)])),
      );
      assert.equal(await queue.waiting(), accepted);
      free();
      await queue.dispatch("record", "p");
      assert.equal(await queue.waiting(), accepted + 1);
      await queue.work({ stopWhenEmpty: true });
      assert.equal(await queue.waiting(), 0);
      await queue.close();
    }),
);

test(
  "on a full disk a worker goes on trying to settle",
  { skip: noMount },
  () =>
    onSmallDisk(async (folder) => {
      let free: (() => void) | undefined;
      const runs: number[] = [];
      const { queue, lines } = open(join(folder, "queue.sqlite"), {
        fill: (job) => {
          runs.push(job.attempt);
          free = fillUp(folder);
        },
      });
      await queue.dispatch("fill", "p");
      const events: string[] = [];
      const stopping = new AbortController();
      const working = queue.work({ signal: stopping.signal, onEvent: ({ type }) => void events.push(type) });
      await until(() => lines.length > 0, "the settlement to fail");
      assert.match(lines[0], /full/);
      assert.deepEqual(events, ["started"]);
      free!();
      await until(() => events.includes("completed"), "the settlement");
      assert.deepEqual(runs, [1]);
      assert.equal(await queue.waiting(), 0);
      stopping.abort();
      await working;
      await queue.close();
    }),
);

/** Makes a folder and what is in it read-only. Root may write whatever the mode says, so its disk is remounted. */
function protect(folder: string): void {
  if (process.getuid?.() === 0) spawnSync("mount", ["-o", "remount,ro", folder]);
  else {
    chmodSync(join(folder, "queue.sqlite"), 0o444);
    chmodSync(folder, 0o555);
  }
}

test("a read-only file is refused with an error that names it", {
  skip: process.getuid?.() === 0 ? noMount : process.platform === "win32" && "no modes here",
}, () =>
  (process.getuid?.() === 0 ? onSmallDisk : inFolder)(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const first = open(file, { record: () => {} });
    await first.queue.dispatch("record", "p");
    await first.queue.close();
    const before = readFileSync(file);
    protect(folder);
    const { queue } = open(file, { record: () => {} });
    await assert.rejects(queue.dispatch("record", "p"), (error) => {
      assert.equal(isDatabaseError(error), true);
      assert.equal((error as Error).message.includes(file), true, (error as Error).message);
      return true;
    });
    await queue.close();
    assert.equal(readFileSync(file).equals(before), true);
    if (process.getuid?.() !== 0) chmodSync(folder, 0o755);
  }));

test("a file that is no database is refused, and left as it was", () =>
  inFolder(async (folder) => {
    for (const content of ["#!/bin/sh\necho hello\n".repeat(500), "short"]) {
      const file = join(folder, `notes-${content.length}.txt`);
      writeFileSync(file, content);
      const { queue } = open(file, { record: () => {} });
      await assert.rejects(queue.dispatch("record", "p"), (error) => {
        assert.equal(isDatabaseError(error), true);
        assert.equal((error as Error).message.includes(file), true, (error as Error).message);
        assert.match((error as Error).message, /not a database/);
        return true;
      });
      await assert.rejects(queue.open(), isDatabaseError, "and refused again");
      await queue.close();
      assert.equal(readFileSync(file, "utf8"), content);
    }
  }));

test("a folder, and a path through a file, are refused", () =>
  inFolder(async (folder) => {
    mkdirSync(join(folder, "folder.sqlite"));
    writeFileSync(join(folder, "file"), "");
    for (const path of [join(folder, "folder.sqlite"), join(folder, "file", "queue.sqlite")]) {
      const { queue } = open(path, { record: () => {} });
      await assert.rejects(queue.dispatch("record", "p"), (error) => {
        assert.equal(isDatabaseError(error), true);
        assert.equal((error as Error).message.includes(path), true, (error as Error).message);
        return true;
      });
      await queue.close();
    }
  }));

test("a store that could not be opened is opened by a later call", () =>
  inFolder(async (folder) => {
    const file = join(folder, "file", "queue.sqlite");
    writeFileSync(join(folder, "file"), "");
    const { queue } = open(file, { record: () => {} });
    await assert.rejects(queue.dispatch("record", "p"), isDatabaseError);
    rmSync(join(folder, "file"));
    await queue.dispatch("record", "p");
    assert.equal(await queue.waiting(), 1);
    await queue.close();
  }));

/** Writes all of a database to a file beside it. */
function backUp(file: string): void {
  const db = new DatabaseSync(file);
  db.exec(`VACUUM INTO '${file}.backup'`);
  db.close();
}

/** What is in a database, which must be sound. */
function payloads(file: string): unknown[] {
  const db = new DatabaseSync(file);
  const stored = db.prepare("SELECT payload FROM jobs ORDER BY id").all().map((row) => row.payload);
  assert.equal(db.prepare("PRAGMA integrity_check").get()?.integrity_check, "ok");
  db.close();
  return stored;
}

test("after its file was deleted a dispatch is refused, not lost", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const { queue } = open(file, { record: () => {} });
    await queue.dispatch("record", "p");
    unlinkSync(file);
    for (let round = 0; round < 3; round++) {
      await assert.rejects(queue.dispatch("record", "p"), (error) => {
        assert.equal(isDatabaseError(error), true);
        assert.equal((error as Error).message.includes(file), true, (error as Error).message);
        return true;
      });
    }
    assert.equal(existsSync(file), false, "no empty one was made in its place");
    await queue.close();
  }));

test("a refused dispatch does not turn up when the file is moved back", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const { queue } = open(file, { record: () => {} });
    await queue.dispatch("record", "1");
    renameSync(file, `${file}.away`);
    await assert.rejects(queue.dispatch("record", "refused"), isDatabaseError);
    renameSync(`${file}.away`, file);
    await queue.dispatch("record", "2");
    await queue.close();
    assert.deepEqual(payloads(file), ["1", "2"]);
  }));

test("after its file was deleted and restored dispatches go to the restored one", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const { queue } = open(file, { record: () => {} });
    await queue.dispatch("record", "1");
    backUp(file);
    for (const suffix of ["", "-wal", "-shm"]) unlinkSync(file + suffix);
    await assert.rejects(queue.dispatch("record", "refused"), isDatabaseError);
    renameSync(`${file}.backup`, file);
    await queue.dispatch("record", "2");
    await queue.close();
    assert.deepEqual(payloads(file), ["1", "2"]);
  }));

test("after its file was replaced a dispatch is refused once, and then goes to the new one", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const { queue } = open(file, { record: () => {} });
    await queue.dispatch("record", "1");
    backUp(file);
    for (const suffix of ["-wal", "-shm"]) unlinkSync(file + suffix);
    renameSync(`${file}.backup`, file);
    await assert.rejects(queue.dispatch("record", "refused"), isDatabaseError);
    await queue.dispatch("record", "2");
    await queue.close();
    assert.deepEqual(payloads(file), ["1", "2"]);
  }));

test("a worker survives that its file is deleted and restored", () =>
  inFolder(async (folder) => {
    const file = join(folder, "queue.sqlite");
    const ran: string[] = [];
    const { queue, lines } = open(file, { record: (job) => void ran.push(job.payload) });
    await queue.dispatch("record", "1");
    const stopping = new AbortController();
    const working = queue.work({ signal: stopping.signal });
    await until(async () => await queue.waiting() === 0, "the first job");
    backUp(file);
    for (const suffix of ["", "-wal", "-shm"]) unlinkSync(file + suffix);
    await until(() => lines.some((line) => line.includes("deleted")), "the worker to notice");
    renameSync(`${file}.backup`, file);
    await until(() => queue.dispatch("record", "2").then(() => true, () => false), "a dispatch to succeed");
    await until(() => ran.includes("2"), "the second job");
    assert.deepEqual(ran, ["1", "2"]);
    stopping.abort();
    await working;
    await queue.close();
  }));
