/** Handlers in child processes: `queue.work({ processes })` and `queue:work --processes`, on the runtime that runs this. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { childCommand, withoutDebugger } from "../core/isolate/command.ts";
import { dieWithParent } from "../core/isolate/orphan.ts";
import { planProcesses } from "../core/isolate/options.ts";
import { type ProcessesOptions, Queue, QueueError, type WorkEvent, type WorkOptions } from "../mod.ts";
import { inFolder } from "./folder.ts";
import { isAlive } from "./process.ts";
import type { Told } from "./programs/isolated_jobs.ts";
import { noRedis, RedisServer } from "./redis_server.ts";
import { sendSignal } from "./signal.ts";
import { soon, until } from "./until.ts";

const MODULE = fileURLToPath(new URL("programs/isolated_jobs.ts", import.meta.url));
const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../deno.json", import.meta.url));
const isDeno = process.versions.deno !== undefined;

/** A line that a job wrote. */
type Said = [word: string, pid: number, attempt: number, ...rest: unknown[]];

/** What the jobs of one test wrote, and how to let them go on. */
class Site {
  readonly folder: string;
  readonly file: string;

  constructor(folder: string) {
    this.folder = folder;
    this.file = join(folder, "said");
    writeFileSync(this.file, "");
  }

  get database(): string {
    return join(this.folder, "queue.sqlite");
  }

  payload(text?: string): Told {
    return { file: this.file, text };
  }

  /** The lines so far that begin with `word`. */
  said(word: string): Said[] {
    const lines = readFileSync(this.file, "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line));
    return lines.filter(([first]) => first === word);
  }

  async hears(word: string, count = 1): Promise<Said[]> {
    await until(() => this.said(word).length >= count, `${count} × ${word}`);
    return this.said(word);
  }

  allow(name: string): void {
    writeFileSync(`${this.file}.${name}`, "");
  }
}

const jobs = Object.fromEntries(
  [
    "note",
    "echo",
    "throws",
    "database",
    "meet",
    "wait",
    "block",
    "spin",
    "forever",
    "hang",
    "polite",
    "obey",
    "stubborn",
    "spiteful",
    "exit",
    "abort",
    "crash",
    "stray",
    "talk",
    "leak",
    "print",
    "rights",
    "discard",
    "snooze",
    "regret",
    "regretCrash",
    "badHook",
    "deadlyHook",
    "steps",
  ].map((name) => [name, {}]),
) as Record<string, Record<never, never>>;

/** A worker with processes, and what it told. */
class Bench extends Site {
  readonly lines: string[] = [];
  readonly events: WorkEvent[] = [];
  readonly queue: Queue;
  readonly #stop = new AbortController();
  readonly #force = new AbortController();
  #ended: Promise<void> | null = null;

  constructor(folder: string, database: string = join(folder, "queue.sqlite"), retryAfter?: number) {
    super(folder);
    const log = {
      warn: (line: string) => this.lines.push(line),
      error: (line: string) => this.lines.push(line),
    };
    this.queue = new Queue({ jobs, database, retryAfter, log, maxPayload: 4_000_000, env: {} });
  }

  async dispatch(name: string, text?: string): Promise<string> {
    return (await this.queue.dispatch(name, this.payload(text))).id;
  }

  /** Starts the worker, unless it runs. */
  work(processes: Partial<ProcessesOptions>, options: Omit<WorkOptions, "processes"> = {}): Promise<void> {
    this.#ended = this.queue.work({
      signal: this.#stop.signal,
      forceSignal: this.#force.signal,
      logFailures: false,
      ...options,
      processes: { count: 1, module: MODULE, killAfter: 100, ...processes },
      onEvent: (event) => this.events.push(event),
    });
    this.#ended.catch(() => {});
    return this.#ended;
  }

  /** The event of that type for the job of that name. */
  async event(type: WorkEvent["type"], name: string, count = 1): Promise<WorkEvent> {
    const found = () => this.events.filter((event) => event.type === type && event.job.name === name);
    await until(() => found().length >= count, `${type} ${name}: ${this.lines}`);
    return found()[count - 1];
  }

  /** All of its events for jobs of that name: the type, and the attempt. */
  story(name: string): string[] {
    return this.events.filter(({ job }) => job.name === name).map(({ type, job, error }) =>
      `${type} ${job.attempt}${error === undefined ? "" : `: ${error}`}`
    );
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await soon(this.#ended!, "the worker to stop");
  }

  async force(): Promise<void> {
    this.#force.abort();
    await soon(this.#ended!, "the worker to stop at once");
  }

  async close(): Promise<void> {
    this.#force.abort();
    await soon(this.queue.close(), "the queue to close");
  }
}

/** A test of a worker with processes. */
function onBench(
  sentence: string,
  run: (bench: Bench) => Promise<void>,
  { database, retryAfter }: { database?: string; retryAfter?: number } = {},
): void {
  it(sentence, () =>
    inFolder(async (folder) => {
      const bench = new Bench(folder, database, retryAfter);
      try {
        await run(bench);
      } finally {
        await bench.close();
      }
    }));
}

test("a process that cannot watch for the end of its worker says so, and goes on", async () => {
  const lines: string[] = [];
  await dieWithParent((() => "no data for a thread") as never, (line) => void lines.push(line));
  assert.equal(lines.length, 1);
  assert.match(lines[0], /^queue: no thread to watch for the end of the worker, .*: .*Error/);
});

describe("handlers in processes", () => {
  onBench("run in as many as were asked for, and not in the worker's", async (bench) => {
    for (let i = 0; i < 3; i++) await bench.dispatch("meet", "3");
    await bench.work({ count: 3 }, { stopWhenEmpty: true });
    const pids = new Set(bench.said("meet").map(([, pid]) => pid));
    assert.equal(pids.size, 3);
    assert.ok(!pids.has(process.pid));
    assert.deepEqual([...pids].filter(isAlive), [], "they end with the worker");
    assert.equal(await bench.queue.waiting(), 0);
  });

  onBench("take turns of the worker's concurrency, dealt evenly", async (bench) => {
    for (let i = 0; i < 4; i++) await bench.dispatch("wait");
    bench.work({ count: 2 }, { concurrency: 4 });
    const pids = (await bench.hears("waiting", 4)).map(([, pid]) => pid);
    assert.deepEqual([...new Set(pids)].map((pid) => pids.filter((one) => one === pid).length), [2, 2]);
    bench.allow("go");
    await bench.stop();
    assert.equal(bench.said("waited").length, 4);
  });

  onBench("get every payload as it was dispatched, and their errors come back", async (bench) => {
    const text = 'é\u0000\ud800 😀\u2028\r\n\ufeff\\"'.repeat(60_000);
    await bench.dispatch("echo", text);
    await bench.dispatch("throws", "a message\nof two lines 😀");
    await bench.work({}, { stopWhenEmpty: true });
    const echoed = readFileSync(`${bench.file}.echo`, "utf8");
    assert.ok(echoed.length > 1_000_000);
    assert.ok(echoed === JSON.stringify(bench.payload(text)), "the payload is the same");
    const [failed] = await bench.queue.failed();
    assert.equal(failed.error, "RangeError: a message\nof two lines 😀");
    assert.match(failed.stack!, /isolated_jobs\.ts/);
  });

  onBench("have the queue's file as job.db", async (bench) => {
    await bench.dispatch("database", "in the file");
    await bench.work({}, { stopWhenEmpty: true });
    assert.deepEqual(bench.story("database"), ["started 1", "completed 1"]);
    const { DatabaseSync } = await import("node:sqlite");
    const db = new DatabaseSync(bench.database);
    try {
      assert.equal(db.prepare("SELECT text FROM seen").get()!.text, "in the file");
    } finally {
      db.close();
    }
  });

  onBench("have no job.db where the database is in the worker's memory, but run", async (bench) => {
    await bench.dispatch("note");
    await bench.dispatch("database", "nowhere");
    await bench.work({}, { stopWhenEmpty: true });
    assert.deepEqual(bench.story("note"), ["started 1", "completed 1"]);
    assert.match(bench.story("database")[1], /^released 1: queue: job\.db: .* in the worker's memory$/);
  }, { database: ":memory:" });

  onBench("keep their lease while they block their process", async (bench) => {
    const id = await bench.dispatch("block");
    bench.work({});
    await bench.hears("block");
    const leasedUntil = async () => (await bench.queue.find(id))!.leasedUntil!;
    const end = await leasedUntil();
    await until(async () => await leasedUntil() > end, "a renewal");
    // By its first lease another one would take it now.
    assert.equal(await bench.queue.workOnce(end), false, "it is held");
    bench.allow("unblock");
    await bench.event("completed", "block");
    assert.deepEqual(bench.story("block"), ["started 1", "completed 1"]);
    assert.equal(bench.said("block").length, 1);
  }, { retryAfter: 600 });

  onBench("do not end with a promise that one of them left behind", async (bench) => {
    await bench.dispatch("stray");
    bench.work({});
    await until(() => bench.lines.some((line) => /job stray \(id 1\) left a promise/.test(line)), "the line");
    await bench.dispatch("note");
    await bench.event("completed", "note");
    assert.equal(bench.said("note")[0][1], bench.said("stray")[0][1], "in the same process");
  });

  onBench("may send whoever started the process what they like: it is not the worker's", async (bench) => {
    await bench.dispatch("talk");
    await bench.dispatch("note");
    bench.work({});
    await bench.event("completed", "note");
    assert.deepEqual(bench.story("talk"), ["started 1", "completed 1"]);
    assert.equal(bench.said("note")[0][1], bench.said("talk")[0][1], "in the same process");
    assert.deepEqual(bench.lines, []);
  });
});

describe("what a handler decides", () => {
  onBench("crosses: a Discard, and a Snooze", async (bench) => {
    await bench.dispatch("discard");
    await bench.dispatch("snooze");
    bench.work({});
    assert.equal((await bench.event("failed", "discard")).error, "there is no such user");
    const { error, retryIn } = await bench.event("snoozed", "snooze");
    assert.deepEqual([error, retryIn], ["not yet", 3_600_000]);
  });

  onBench("is told to its failed hook, in a process, once", async (bench) => {
    for (const name of ["regret", "regretCrash"]) await bench.dispatch(name);
    bench.work({});
    await bench.hears("regretted", 2);
    await bench.dispatch("note");
    await bench.event("completed", "note");
    const [[, , , first], [, , , second]] = bench.said("regretted");
    assert.deepEqual([first, second], ["regret: no way", "regretCrash: crashed: exit 6"]);
    assert.ok(!bench.said("regretted").some(([, pid]) => pid === process.pid));
    assert.equal(bench.said("regretted").length, 2);
  });

  onBench("run a failed hook where nothing is about to be killed", async (bench) => {
    bench.work({ count: 2, killAfter: { minutes: 1 } }, { concurrency: 6 });
    await bench.dispatch("spiteful");
    const [[, spiteful]] = await bench.hears("spiteful");
    // More jobs than there, so that it is not for the other one's being idle.
    for (let i = 0; i < 2; i++) await bench.dispatch("wait");
    await bench.hears("waiting", 2);
    await bench.dispatch("regret");
    const [[, regretted]] = await bench.hears("regretted");
    assert.notEqual(regretted, spiteful);
    bench.allow("go");
    await bench.force();
  });

  onBench("is not changed by a hook that throws or that ends its process", async (bench) => {
    for (const name of ["badHook", "deadlyHook"]) await bench.dispatch(name);
    bench.work({});
    const hook = (name: string, why: string): boolean =>
      bench.lines.some((line) => line.includes(`the failed hook of job ${name} `) && line.endsWith(why));
    await until(() => hook("badHook", "threw: the hook, too"), "the first line");
    await until(() => hook("deadlyHook", "threw: crashed: exit 7"), "the second line");
    assert.deepEqual((await bench.queue.failed()).map(({ error }) => error), ["no way", "no way"]);
  });
});

it(
  "handlers in processes work off Redis, and have the app's file as job.db",
  { skip: noRedis },
  () =>
    inFolder(async (folder) => {
      const server = await RedisServer.start();
      const site = new Site(folder);
      const queue = new Queue({
        jobs,
        connection: "redis",
        redis: { url: server.url, prefix: "isolate:" },
        database: site.database,
        log: { warn: () => {}, error: () => {} },
        env: {},
      });
      try {
        for (const name of ["note", "database", "exit", "spin"]) {
          await queue.dispatch(name, site.payload(name));
        }
        const stories: string[] = [];
        await queue.work({
          processes: { count: 2, module: MODULE, killAfter: 100 },
          stopWhenEmpty: true,
          onEvent: ({ type, job, error }) => void stories.push(`${job.name} ${type} ${error ?? ""}`.trim()),
        });
        await until(async () => (await queue.waiting()) <= 1, "all but a retry");
        const ended = stories.filter((story) => !story.includes("started"));
        assert.ok(ended.includes("note completed"), String(stories));
        assert.ok(ended.includes("database completed"), String(stories));
        assert.ok(ended.includes("exit released crashed: exit 3"), String(stories));
        assert.ok(ended.includes("spin failed timed out after 0.1 s"), String(stories));
      } finally {
        await queue.close();
        await server.stop();
      }
    }),
);

describe("what operators tell a worker with processes", () => {
  onBench("reaches its jobs, and how far they are is known", async (bench) => {
    const id = await bench.dispatch("steps");
    bench.work({ killAfter: 60_000 }, { concurrency: 2 });
    await bench.hears("steps");
    const progress = await until(() => bench.queue.progress(id), "the progress");
    assert.deepEqual([progress!.fraction, progress!.note], [0.5, "half of it"]);
    const [[, pid]] = bench.said("steps");
    assert.equal(await bench.queue.cancel(id), "cancelling");
    const event = await bench.event("failed", "steps");
    assert.equal(event.error, "cancelled");
    assert.deepEqual(bench.said("aborted").map(([, , , code]) => code), ["CANCELLED"]);
    await bench.dispatch("note");
    await bench.event("completed", "note");
    assert.equal(bench.said("note")[0][1], pid, "its process goes on");
  });

  onBench("kills a cancelled job that does not end, and tells the worker to end", async (bench) => {
    const id = await bench.dispatch("forever");
    const ended = bench.work({});
    const [[, pid]] = await bench.hears("forever");
    await bench.queue.cancel(id);
    assert.equal((await bench.event("failed", "forever")).error, "cancelled");
    assert.equal(isAlive(pid), false);
    await bench.queue.restart();
    await soon(ended, "the worker to end");
  });
});

describe("a timeout", () => {
  onBench("aborts the signal in the process, which goes on where the handler returns", async (bench) => {
    await bench.dispatch("polite");
    bench.work({ killAfter: 60_000 });
    const event = await bench.event("failed", "polite");
    assert.equal(event.error, "timed out after 0.1 s");
    const [[, pid, , code, message]] = bench.said("aborted");
    assert.deepEqual([code, message], ["TIMEOUT", "queue: the attempt timed out after 0.1 s"]);
    await bench.dispatch("note");
    await bench.event("completed", "note");
    assert.equal(bench.said("note")[0][1], pid);
  });

  for (const name of ["spin", "hang"]) {
    onBench(`kills the process of a job that ${name}s on, and starts another`, async (bench) => {
      await bench.dispatch("note");
      bench.work({});
      await bench.event("completed", "note");
      const [[, pid]] = bench.said("note");
      await bench.dispatch(name);
      const event = await bench.event("failed", name);
      assert.equal(event.error, "timed out after 0.1 s");
      assert.equal(isAlive(pid), false);
      const [failed] = await bench.queue.failed();
      assert.deepEqual([failed.error, failed.attempts], ["timed out after 0.1 s", 1]);
      await bench.dispatch("note");
      await bench.event("completed", "note", 2);
      assert.notEqual(bench.said("note")[1][1], pid);
    });
  }

  onBench("hands back what else ran in that process, without spending its attempt", async (bench) => {
    await bench.dispatch("wait");
    bench.work({}, { concurrency: 2 });
    await bench.hears("waiting");
    await bench.dispatch("hang");
    await bench.event("failed", "hang");
    const event = await bench.event("handedBack", "wait");
    assert.match(event.error!, /^its process was ended: job hang \(id 2\) outlived its timeout$/);
    await bench.hears("waiting", 2);
    bench.allow("go");
    await bench.event("completed", "wait");
    assert.deepEqual(bench.said("waiting").map(([, , attempt]) => attempt), [1, 1]);
  });
});

describe("a crash", () => {
  onBench("settles its job by the retry policy, and says how the process ended", async (bench) => {
    await bench.dispatch("exit");
    await bench.dispatch("abort");
    bench.work({});
    await bench.event("failed", "exit");
    await bench.event("failed", "abort");
    assert.deepEqual(bench.story("exit"), [
      "started 1",
      "released 1: crashed: exit 3",
      "started 2",
      "failed 2: crashed: exit 3",
    ]);
    assert.deepEqual(bench.story("abort"), ["started 1", "failed 1: crashed: SIGABRT"]);
    const stored = (await bench.queue.failed()).map(({ error, stack }) => [error, stack]);
    assert.deepEqual(stored.sort(), [["crashed: SIGABRT", null], ["crashed: exit 3", null]]);
    await bench.dispatch("note");
    await bench.event("completed", "note");
  });

  onBench("by a signal from outside is one, too, long before the lease ends", async (bench) => {
    await bench.dispatch("wait");
    bench.work({});
    const [[, pid]] = await bench.hears("waiting");
    process.kill(pid, "SIGKILL");
    const event = await bench.event("released", "wait");
    assert.equal(event.error, "crashed: SIGKILL");
    assert.ok(
      bench.lines.some((line) => line.startsWith(`queue: process ${pid} crashed: SIGKILL, with wait (id 1)`)),
    );
  });

  onBench("costs each job that ran there its attempt, and none that had not begun", async (bench) => {
    await bench.dispatch("wait");
    bench.work({}, { concurrency: 3 });
    await bench.hears("waiting");
    await bench.dispatch("crash");
    await bench.hears("crash");
    await bench.dispatch("note");
    // From here on the worker has given it to the process, which cannot hear.
    await bench.event("started", "note");
    bench.allow("go");
    bench.allow("crash");
    await bench.event("failed", "crash");
    await bench.event("completed", "note");
    assert.deepEqual(bench.story("crash"), ["started 1", "failed 1: crashed: exit 4"]);
    assert.deepEqual(bench.story("wait"), ["started 1", "released 1: crashed: exit 4"]);
    assert.deepEqual(bench.story("note"), [
      "started 1",
      "handedBack 1: its process was ended: it crashed: exit 4",
      "started 1",
      "completed 1",
    ]);
  });
});

describe("a process", () => {
  onBench("that has grown beyond its memory is replaced, once its jobs have ended", async (bench) => {
    await bench.dispatch("wait");
    bench.work({ memory: 200 }, { concurrency: 2 });
    const [[, pid]] = await bench.hears("waiting");
    await bench.dispatch("leak");
    await bench.event("completed", "leak");
    assert.equal(bench.said("leak")[0][1], pid);
    await until(
      () =>
        bench.lines.some((line) =>
          new RegExp(`process ${pid} is replaced: it has \\d+ MB, more than 200`).test(line)
        ),
      "the line",
    );
    await bench.dispatch("note");
    assert.ok(isAlive(pid), "its other job goes on");
    bench.allow("go");
    await bench.event("completed", "wait");
    await bench.event("completed", "note");
    assert.notEqual(bench.said("note")[0][1], pid);
    assert.deepEqual(bench.story("wait"), ["started 1", "completed 1"]);
  });

  onBench("is replaced after as many jobs as it may run", async (bench) => {
    for (let i = 0; i < 5; i++) await bench.dispatch("note");
    await bench.work({ maxJobs: 2 }, { stopWhenEmpty: true });
    const pids = bench.said("note").map(([, pid]) => pid);
    assert.deepEqual([...new Set(pids)].map((pid) => pids.filter((one) => one === pid).length), [2, 2, 1]);
    assert.deepEqual(bench.lines, []);
  });

  onBench(
    "that cannot start any more is tried again later and later, and holds no job meanwhile",
    async (bench) => {
      const broken = join(bench.folder, "broken");
      process.env.ISOLATED_JOBS_BROKEN = broken;
      try {
        await bench.dispatch("wait");
        bench.work({});
        const [[, pid]] = await bench.hears("waiting");
        writeFileSync(broken, "");
        process.kill(pid, "SIGKILL");
        const waits = (): string[] =>
          bench.lines.flatMap((line) =>
            /cannot start: .*; the next one starts in ([\d.]+) s/.exec(line)?.[1] ?? []
          );
        await until(() => waits().length >= 3, "three starts that fail");
        assert.deepEqual(waits().slice(0, 3), ["0.1", "0.2", "0.4"]);
        assert.match(
          bench.lines.join("\n"),
          /cannot start: jobs module .*isolated_jobs\.ts: failed to load: Error: broken by the test;/,
        );
        // Before the first one, whose backoff may be over by now.
        const { id: dispatched } = await bench.queue.dispatch("note", bench.payload(), { priority: 1 });
        await until(() => waits().length >= 4, "another one");
        const [{ reserved }] = await bench.queue.counts();
        assert.deepEqual([dispatched, reserved], ["2", 0]);
        rmSync(broken);
        await bench.event("completed", "note");
      } finally {
        delete process.env.ISOLATED_JOBS_BROKEN;
      }
    },
  );

  it("that cannot start at first is an error with the reason", () =>
    inFolder(async (folder) => {
      const cases: [string, RegExp][] = [
        ['throw new TypeError("no such luck");', /jobs module .*: failed to load: TypeError: no such luck$/],
        ["export default [];", /jobs module .*: its default export is an array; expected the map of jobs/],
        ["export default { a: { tries: 0 } };", /jobs\.a\.tries=0: expected a whole number, 1 or more/],
        [
          'import process from "node:process"; process.exit(5);',
          /its process ended before it could run jobs: exit 5$/,
        ],
      ];
      for (const [at, [code, expected]] of cases.entries()) {
        const module = join(folder, `jobs${at}.mjs`);
        writeFileSync(module, code);
        const bench = new Bench(folder);
        const error = await bench.work({ count: 2, module }).then(() => null, (error) => error);
        await bench.close();
        assert.ok(error instanceof QueueError, code);
        assert.equal(error.code, "CONFIG");
        assert.match(error.message, expected);
        assert.deepEqual(bench.lines, [], "the error says it all");
      }
      const bench = new Bench(folder);
      await assert.rejects(
        bench.work({ module: join(folder, "none.ts") }),
        /jobs module .*none\.ts: failed to load/,
      );
      await bench.close();
    }));
});

describe("stopping", () => {
  onBench("lets running jobs finish, and ends their processes", async (bench) => {
    await bench.dispatch("wait");
    bench.work({ count: 2 });
    const [[, pid]] = await bench.hears("waiting");
    const stopped = bench.stop();
    bench.allow("go");
    await stopped;
    assert.deepEqual(bench.story("wait"), ["started 1", "completed 1"]);
    assert.equal(isAlive(pid), false);
  });

  onBench("at once aborts them, and hands them back", async (bench) => {
    await bench.dispatch("obey");
    bench.work({});
    const [[, pid]] = await bench.hears("obey");
    await bench.force();
    assert.equal(isAlive(pid), false);
    assert.deepEqual(bench.said("obeyed").map(([, , , code]) => code), ["STOPPED"]);
    const [counts] = await bench.queue.counts();
    assert.deepEqual([counts.ready, counts.reserved], [1, 0]);
    const again = new Bench(bench.folder);
    try {
      again.work({});
      assert.deepEqual((await again.hears("obey"))[0][2], 1, "the attempt was not spent");
    } finally {
      await again.close();
    }
  });

  onBench("at once kills what does not return, and hands that back, too", async (bench) => {
    for (const name of ["stubborn", "forever"]) await bench.dispatch(name);
    bench.work({ count: 2 });
    const pids = await Promise.all(
      ["stubborn", "forever"].map(async (name) => (await bench.hears(name))[0][1]),
    );
    await bench.force();
    assert.deepEqual(pids.filter(isAlive), []);
    const [counts] = await bench.queue.counts();
    assert.deepEqual([counts.ready, counts.reserved], [2, 0]);
  });

  onBench("before a process is ready needs no wait", async (bench) => {
    bench.work({ count: 2 });
    await bench.stop();
    assert.deepEqual(bench.lines, []);
  });
});

describe("the options of processes", () => {
  const refused = async (options: WorkOptions, expected: RegExp): Promise<void> => {
    const queue = new Queue({ jobs: {}, database: ":memory:", env: {} });
    await assert.rejects(queue.work(options), (error) => {
      assert.ok(error instanceof QueueError);
      assert.equal(error.code, "CONFIG");
      assert.match(error.message, expected);
      return true;
    });
    await queue.close();
  };

  it("are refused where they cannot work", async () => {
    const module = MODULE;
    const wrong = (options: unknown): WorkOptions => ({ processes: options as ProcessesOptions });
    await refused(wrong(2), /processes=2: expected \{ count, module \}/);
    await refused(wrong({ module }), /processes\.count: expected a whole number/);
    await refused(wrong({ count: 0, module }), /processes\.count=0: expected a whole number, from 1 to 1000/);
    await refused(wrong({ count: 1 }), /processes\.module=undefined: expected the path or URL/);
    await refused(wrong({ count: 1, module: 7 }), /processes\.module=7: expected the path or URL/);
    await refused(wrong({ count: 1, module, memory: 0 }), /processes\.memory=0/);
    await refused(wrong({ count: 1, module, maxJobs: 0 }), /processes\.maxJobs=0/);
    await refused(wrong({ count: 1, module, killAfter: 0 }), /processes\.killAfter=0/);
    await refused(
      wrong({ count: 1, module, output: "file" }),
      /processes\.output="file": expected stdout or stderr/,
    );
    await refused(
      wrong({ count: 1, module, flags: "-A" }),
      /processes\.flags="-A": expected a list of texts/,
    );
    await refused(
      wrong({ count: 1, module, cuont: 1 }),
      /processes\.cuont: no such setting; expected count, /,
    );
    await refused({ concurrency: 2, processes: { count: 3, module } }, /concurrency=2: expected at least 3/);
  });

  it("divide the concurrency", () => {
    const slots = (count: number, concurrency?: number) =>
      planProcesses({ count, module: MODULE }, concurrency).slots;
    assert.deepEqual(slots(3), [1, 1, 1]);
    assert.deepEqual(slots(3, 8), [3, 3, 2]);
    assert.deepEqual(slots(1, 5), [5]);
  });

  it("give the children the flags of this process, or others", () => {
    const own = childCommand(null, null);
    assert.equal(own[0], process.execPath);
    assert.match(own.at(-1)!, /core\/isolate\/entry\.ts$/);
    if (isDeno) assert.ok(own.includes("--allow-all") || own.includes("-A"), own.join(" "));
    const given = childCommand(["queue:child"], ["--flag"]);
    assert.deepEqual(given.slice(1, isDeno ? 3 : 2), isDeno ? ["run", "--flag"] : ["--flag"]);
    assert.equal(given.at(-1), "queue:child");
  });

  it("leave out those of a debugger, a watcher or the test runner, with their values", () => {
    for (
      const once of [
        ["--inspect"],
        ["--inspect=127.0.0.1:9230"],
        ["--inspect-port", "9230"],
        ["--watch", "--watch-path", "./src"],
        ["--test", "--test-name-pattern", "two words", "--test-reporter=spec"],
        ["-e", "import('./queue.ts')"],
        ["--eval", "1"],
        ["--hot", "run"],
      ]
    ) {
      const kept = ["--require", "./setup.cjs", "--max-old-space-size=64", "-r", "x"];
      assert.deepEqual(withoutDebugger([...kept, ...once]), kept, once.join(" "));
      assert.deepEqual(withoutDebugger([...once, ...kept]), kept, once.join(" "));
    }
  });
});

/** A command line as a process of its own. */
class Running {
  stdout = "";
  stderr = "";
  readonly ended: Promise<{ status: number | null; signal: string | null }>;
  readonly #child: ChildProcess;

  constructor(command: readonly string[], cwd: string, detached = false) {
    const env: Record<string, string> = { NODE_NO_WARNINGS: "1", NO_COLOR: "1" };
    for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
      const value = process.env[name];
      if (value !== undefined) env[name] = value;
    }
    this.#child = spawn(command[0], command.slice(1), {
      cwd,
      env,
      detached,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child.stdout!.setEncoding("utf8").on("data", (text: string) => this.stdout += text);
    this.#child.stderr!.setEncoding("utf8").on("data", (text: string) => this.stderr += text);
    this.ended = new Promise((resolve, reject) => {
      this.#child.on("error", reject);
      this.#child.on("close", (status, signal) => resolve({ status, signal }));
    });
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** Its status, once it has ended. */
  async status(): Promise<number | null> {
    const { status } = await soon(this.ended, `an end: ${this.stdout}${this.stderr}`);
    return status;
  }

  kill(): void {
    sendSignal(this.pid, "SIGKILL");
  }
}

function command(rights: readonly string[] = ["-A"]): string[] {
  return [process.execPath, ...(isDeno ? ["run", "--no-check", `--config=${CONFIG}`, ...rights] : [])];
}

/** A test of the command line, in a folder of its own. */
function onCommandLine(
  sentence: string,
  run: (
    site: Site,
    start: (
      args: readonly string[],
      how?: { detached?: boolean; rights?: string[]; file?: string },
    ) => Running,
  ) => Promise<void>,
  skip: string | false = false,
): void {
  test(sentence, { skip }, () =>
    inFolder(async (folder) => {
      const site = new Site(folder);
      const all: Running[] = [];
      try {
        await run(site, (args, { detached, rights, file } = {}) => {
          const running = new Running([...command(rights), file ?? CLI, ...args], folder, detached);
          all.push(running);
          return running;
        });
      } finally {
        for (const running of all) running.kill();
      }
    }));
}

/** Stores jobs without a process for each. */
async function store(site: Site, ...names: string[]): Promise<void> {
  const queue = new Queue({ jobs, database: site.database, env: {} });
  for (const name of names) await queue.dispatch(name, site.payload(name));
  await queue.close();
}

const WORK = ["queue:work", "--jobs", MODULE, "--database", "queue.sqlite"];

onCommandLine(
  "queue:work --processes prints events as ever, and keeps what handlers print out of --json",
  async (site, start) => {
    await store(site, "print", "exit", "print");
    const plain = start([...WORK, "--processes=2", "--stop-when-empty", "--max-jobs=1"]);
    assert.equal(await plain.status(), 0, plain.stderr);
    assert.match(plain.stdout, /^working every queue · concurrency 2 · queue\.sqlite · 2 processes\n/);
    assert.match(plain.stdout, /exit .* FAIL: crashed: exit 3\n/);
    assert.match(plain.stdout, /^\{"event": "forged by print\n/m);

    await store(site, "print", "note");
    const json = start([...WORK, "--processes=2", "--stop-when-empty", "--json", "--memory=4000"]);
    assert.equal(await json.status(), 0, json.stderr);
    const events = json.stdout.trim().split("\n").map((line) => JSON.parse(line).event).sort();
    assert.deepEqual(events, ["completed", "completed", "started", "started"]);
    assert.match(json.stderr, /forged by print/);
  },
);

onCommandLine(
  "queue:work --processes ends with 2 and the reason where no process can start",
  async (site, start) => {
    writeFileSync(join(site.folder, "bad.ts"), 'throw new Error("on purpose");\n');
    const bad = start(["queue:work", "--jobs=bad.ts", "--processes=3", "--quiet"]);
    assert.equal(await bad.status(), 2);
    assert.match(bad.stderr, /^queue: jobs module .*bad\.ts: failed to load: Error: on purpose\n$/);
    const missing = start(["queue:work", "--jobs=none.ts", "--processes=3"]);
    assert.equal(await missing.status(), 2);
    assert.match(missing.stderr, /^queue: jobs module .*none\.ts \(--jobs\): no such file\n$/);
    for (const option of ["--memory=100", "--child-flags=-A"]) {
      const alone = start(["queue:work", "--jobs=bad.ts", option]);
      assert.equal(await alone.status(), 2);
      assert.match(alone.stderr, /^queue: --[a-z-]+: expected --processes beside it\n$/);
    }
  },
);

onCommandLine(
  "a terminal's Ctrl-C reaches all processes, and the running job still finishes",
  async (site, start) => {
    await store(site, "wait", "note");
    const worker = start([...WORK, "--processes=2"], { detached: true });
    await site.hears("waiting");
    await until(() => /note .* DONE/.test(worker.stdout), "the other job to be done");
    process.kill(-worker.pid, "SIGINT");
    await until(
      () => worker.stdout.includes("stopping: waiting up to 30 s for 1 running job;"),
      "it to hear",
    );
    site.allow("go");
    assert.equal(await worker.status(), 0, worker.stderr);
    assert.equal(site.said("waited").length, 1);
    assert.match(worker.stdout, /wait .* DONE/);
    assert.equal(worker.stderr, "");
  },
);

onCommandLine("no process outlives a worker that is killed, not even one that spins", async (site, start) => {
  await store(site, "forever", "wait");
  const worker = start([...WORK, "--processes=2"]);
  const pids = [(await site.hears("forever"))[0][1], (await site.hears("waiting"))[0][1]];
  assert.deepEqual(pids.map(isAlive), [true, true]);
  process.kill(worker.pid, "SIGKILL");
  await until(() => !pids.some(isAlive), "both processes to end");
});

onCommandLine("an app's own program is started again for its jobs", async (site, start) => {
  await store(site, "note", "note");
  const program = join(site.folder, "app.mjs");
  writeFileSync(
    program,
    `import process from "node:process";
     import { main } from ${JSON.stringify(pathToFileURL(CLI).href)};
     import jobs from ${JSON.stringify(pathToFileURL(MODULE).href)};
     process.exit(await main(process.argv.slice(3), jobs));`,
  );
  const args = ["queue", "queue:work", "--database=queue.sqlite", "--processes=2", "--stop-when-empty"];
  const worker = start(args, { file: program });
  assert.equal(await worker.status(), 0, worker.stderr);
  const pids = site.said("note").map(([, pid]) => pid);
  assert.equal(pids.length, 2);
  assert.ok(!pids.includes(worker.pid));

  const other = join(site.folder, "other.mjs");
  writeFileSync(
    other,
    readFileSync(program, "utf8").replace("process.argv.slice(3)", '["queue:work", "--processes=1"]'),
  );
  const refused = start([], { file: other });
  assert.equal(await refused.status(), 2);
  assert.match(refused.stderr, /^queue: --processes: expected a command line that ends as what main\(\) got/);
});

onCommandLine(
  "Deno's permissions are passed on, and no others",
  async (site, start) => {
    await store(site, "rights");
    const rights = [
      "--no-prompt",
      "--allow-read",
      "--allow-write",
      "--allow-env",
      "--allow-run",
      "--allow-sys",
    ];
    const args = [...WORK, "--processes=1", "--stop-when-empty"];
    const worker = start(args, { rights });
    assert.equal(await worker.status(), 0, worker.stderr);
    const expected = ["read granted", "net prompt", "ffi prompt", "sys granted"];
    assert.deepEqual(site.said("rights")[0].slice(3), expected);

    await store(site, "rights");
    const fewer = start([...args, `--child-flags=--no-prompt --allow-read --allow-write --allow-env`], {
      rights,
    });
    assert.equal(await fewer.status(), 0, fewer.stderr);
    assert.deepEqual(site.said("rights")[1].slice(3), [
      "read granted",
      "net prompt",
      "ffi prompt",
      "sys prompt",
    ]);
  },
  !isDeno && "only Deno has permissions",
);
