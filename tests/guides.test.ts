/**
 * Runs the guides in docs/: our side of each row of their tables, and their examples.
 *
 * A row is run as it is printed: code in a function of its own, a part of a job type as one, a command by the command
 * line of this process, on a file. What it must have done stands here, under what the others call it: a row without
 * that turns the test red, and so does code of a row that was not run.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import {
  Discard,
  type FailedJob,
  type Job,
  type JobOptions,
  type Jobs,
  Queue,
  type QueueOptions,
  Snooze,
} from "@x/queue";
import { dashboard } from "../dashboard.ts";
import { metrics } from "../metrics.ts";
import { command, type Said } from "./command_line.ts";
import { allBlocks, blocks, outside, read, ROOT, section, tables } from "./documents.ts";
import { inFolder } from "./folder.ts";
import { inSession, type Session } from "./session.ts";
import { soon } from "./until.ts";

const GUIDES = ["from-bullmq", "from-laravel", "from-deno-kv", "from-sidekiq"] as const;
const isDeno = process.versions.deno !== undefined;

/** Whose jobs are never run by the test that dispatches them. */
const idle = { mail: () => assert.fail("nobody works here") };

/** Fails each of its attempts. */
const busy = {
  mail: () => {
    throw new Error("no route to host");
  },
};

/** Our side of a row, in the session of its test. */
class Row {
  readonly session: Session;
  /** What a snippet told of. */
  readonly told: unknown[][] = [];
  /** The code that was not run yet. */
  readonly left: string[];
  #database: string | undefined;

  constructor(session: Session, ours: string) {
    this.session = session;
    this.left = [...ours.matchAll(/`([^`]+)`/g)].map(([, code]) => code);
  }

  /** A queue of the test's, in memory. */
  queue<const J extends Jobs>(jobs: J, options: Partial<QueueOptions<J>> = {}): Promise<Queue<J>> {
    return this.session.queue(jobs, options);
  }

  /** One in the file that the row's command looks at. */
  stored<const J extends Jobs>(jobs: J, options: Partial<QueueOptions<J>> = {}): Promise<Queue<J>> {
    this.#database = this.session.file;
    return this.session.queue(jobs, { database: this.#database, ...options });
  }

  /** Runs the next code with these names, and answers with its value where it is an expression. */
  async run(names: Record<string, unknown> = {}): Promise<unknown> {
    return await compiled(this.#next(), { ...this.#names(), ...names })();
  }

  /** The next code as members of a job type. */
  async type(): Promise<JobOptions> {
    return await compiled(`{ ${this.#next()} }`, this.#names())() as JobOptions;
  }

  /** The next code as what a handler does. */
  handler(): (job: Job) => Promise<unknown> {
    const code = this.#next();
    return (job) => compiled(code, { ...this.#names(), job })();
  }

  /** Runs the next code as a command, with `more` at its end. */
  async command(
    jobs: Jobs = idle,
    more: readonly string[] = [],
    hear?: (line: string) => void,
  ): Promise<Said> {
    assert.notEqual(this.#database, undefined, "there is a store");
    return await command(this.#next(), jobs, [`--database=${this.#database}`, ...more], hear);
  }

  #next(): string {
    const code = this.left.shift();
    assert.notEqual(code, undefined, "there is more code in the row");
    return code!;
  }

  #names(): Record<string, unknown> {
    const { session, told } = this;
    class InMemory extends Queue {
      constructor(options: QueueOptions) {
        super({ database: ":memory:", env: {}, log: { warn() {}, error() {} }, ...options });
        session.closing(this);
      }
    }
    return {
      Queue: InMemory,
      Discard,
      Snooze,
      dashboard,
      metrics,
      jobs: idle,
      tell: (...words: unknown[]) => told.push(words),
    };
  }
}

const AsyncFunction = (async () => {}).constructor as new (
  ...parts: string[]
) => (...values: unknown[]) => Promise<unknown>;

/** A snippet as a function: its value where it is an expression, else what it does. */
function compiled(code: string, names: Record<string, unknown>): () => Promise<unknown> {
  let made;
  try {
    made = new AsyncFunction(...Object.keys(names), `return (${code}\n);`);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    made = new AsyncFunction(...Object.keys(names), code);
  }
  return () => made(...Object.values(names));
}

/** Sends this process's command the signal, without the process's other listeners hearing it. */
function stop(): void {
  const [listener] = process.listeners("SIGTERM").slice(-1);
  assert.notEqual(listener, undefined, "something listens");
  (listener as () => void)();
}

type Check = (row: Row) => Promise<void>;
type Checks = Record<string, Check>;

/** Jobs that are mails to users 7, 8 and so on, stored as they are said to be. */
function stores(
  { count = 1, queue = "default", priority = 0, delay = 0 }: {
    count?: number;
    queue?: string;
    priority?: number;
    delay?: number;
  } = {},
): Check {
  return async (row) => {
    const store = await row.queue(idle);
    const time = row.session.clock.now + delay;
    const answer = await row.run({ queue: store, time }) as { id: string } | { id: string }[];
    const ids = [answer].flat().map(({ id }) => id);
    assert.equal(await store.waiting(), count);
    assert.equal(ids.length, count);
    for (const [index, id] of ids.entries()) {
      const job = await store.find(id);
      assert.deepEqual(
        [job?.name, job?.payload, job?.queue, job?.priority, job?.state],
        ["mail", `{"user":${7 + index}}`, queue, priority, delay === 0 ? "ready" : "delayed"],
      );
      if (delay > 0) assert.equal(job!.dueAt, time);
    }
  };
}

/** A dispatch that is stored once. */
const storesOnce: Check = async (row) => {
  const store = await row.queue(idle);
  const [code] = row.left;
  const first = await row.run({ queue: store }) as { id: string };
  row.left.unshift(code);
  assert.deepEqual(await row.run({ queue: store }), { id: first.id, duplicate: true });
  assert.equal(await store.waiting(), 1);
};

/** A queue that works. */
const makesQueue: Check = async (row) => {
  const made = await row.run() as Queue;
  await made.dispatch("mail", { user: 7 });
  assert.equal(await made.waiting(), 1);
};

/** A queue whose lease is so long, in milliseconds. */
function leases(lease: number): Check {
  return async (row) => {
    const leased = Promise.withResolvers<number | null>();
    const jobs = {
      mail: async (job: Job) => leased.resolve((await made.find(job.id))!.leasedUntil),
    };
    const made = await row.run({ jobs }) as Queue;
    await made.dispatch("mail", { user: 7 });
    const worker = await row.session.work(made);
    assert.equal(await soon(leased.promise, "the job to run"), row.session.clock.now + lease);
    await worker.stop();
  };
}

/** A job type with so many attempts, and these waits between them. */
function tries(attempts: number, waits: readonly number[]): Check {
  return async (row) => {
    const queue = await row.queue({ mail: { ...await row.type(), handle: busy.mail } });
    const waited: number[] = [];
    queue.on("released", ({ retryIn }) => waited.push(retryIn));
    await queue.dispatch("mail");
    let now = row.session.clock.now;
    while (await queue.workOnce(now)) now += waited.at(-1) ?? 0;
    assert.equal((await queue.failed())[0].attempts, attempts);
    assert.deepEqual(waited, waits);
  };
}

/** A job type whose attempts end after so many milliseconds. */
function timesOut(milliseconds: number): Check {
  return async (row) => {
    const obedient = (job: Job): Promise<never> =>
      new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason)));
    const queue = await row.queue({ mail: { tries: 1, ...await row.type(), handle: obedient } });
    await queue.dispatch("mail");
    const worker = await row.session.work(queue);
    await row.session.clock.advance(milliseconds - 1);
    assert.equal(await queue.countFailed(), 0, "it has a millisecond left");
    await row.session.clock.advance(1);
    await row.session.clock.until(() => queue.countFailed(), "the attempt to fail");
    assert.match((await queue.failed())[0].error, /timed out after/);
    await worker.stop();
  };
}

/** A job type whose hook is told of the failure. */
const hears: Check = async (row) => {
  const queue = await row.queue({ mail: { tries: 1, ...await row.type(), handle: busy.mail } });
  await queue.dispatch("mail");
  await queue.workOnce();
  assert.deepEqual(row.told, [["mail", "no route to host"]]);
};

/** A job type whose jobs go to that queue. */
const goesTo = (name: string): Check => async (row) => {
  const queue = await row.queue({ mail: { ...await row.type(), handle: idle.mail } });
  const { id } = await queue.dispatch("mail");
  assert.equal((await queue.find(id))!.queue, name);
};

/** A handler after which the job has failed, with tries left. */
const discards: Check = async (row) => {
  const queue = await row.queue({ mail: row.handler() });
  await queue.dispatch("mail");
  await queue.workOnce();
  const [failed] = await queue.failed();
  assert.deepEqual([failed.error, failed.attempts], ["no such user", 1]);
};

/** A handler after which the job runs again in so many milliseconds, and has spent no attempt. */
const snoozes = (milliseconds: number): Check => async (row) => {
  const queue = await row.queue({ mail: row.handler() });
  await queue.dispatch("mail");
  await queue.workOnce();
  const [{ dueIn, attempts }] = await queue.delayed();
  assert.deepEqual([dueIn, attempts], [milliseconds, 0]);
};

/** What a handler reads of its job. */
const reads = (expected: (job: Job) => unknown): Check => async (row) => {
  const seen: unknown[] = [];
  const handler = row.handler();
  const queue = await row.queue({
    mail: async (job: Job<{ user: number }>) => void seen.push(await handler(job), expected(job)),
  });
  await queue.dispatch("mail", { user: 7 });
  await queue.workOnce();
  assert.equal(seen.length, 2, JSON.stringify(await queue.failed()));
  assert.deepEqual(seen[0], seen[1]);
  assert.notEqual(seen[0], undefined);
};

/** A listener that is told of a job which is done, or of one that fails. */
const listens = (jobs: "works" | "fails", check: (told: unknown[]) => void): Check => async (row) => {
  const queue = await row.queue({ mail: jobs === "works" ? () => {} : busy.mail }, { tries: 1 });
  const remove = await row.run({ queue });
  assert.equal(typeof remove, "function");
  await queue.dispatch("mail");
  await queue.workOnce();
  assert.equal(row.told.length, 1);
  check(row.told[0]);
};

/** A worker that runs so many jobs at a time, by `start`, and no more. */
const starts = (slots: number): Check => async (row) => {
  let inside = 0;
  const hold = Promise.withResolvers<void>();
  const queue = await row.queue({ mail: () => (inside++, hold.promise) });
  await queue.dispatchMany(Array.from({ length: slots + 1 }, () => ["mail"] as const));
  const workers = await row.run({ queue }) as { stop(): Promise<void> };
  await row.session.clock.until(() => inside === slots, "the slots to fill");
  await row.session.clock.rest();
  assert.equal(inside, slots);
  hold.resolve();
  await row.session.clock.until(() => inside === slots + 1, "the rest");
  await workers.stop();
};

/** Failed jobs in the store: mails to `outbound` that found no route. */
async function outage(row: Row, count: number, kept: "memory" | "file"): Promise<Queue> {
  const jobs = { mail: { queue: "outbound", handle: busy.mail } };
  const queue = kept === "file" ? await row.stored(jobs, { tries: 1 }) : await row.queue(jobs, { tries: 1 });
  await queue.dispatchMany(Array.from({ length: count }, () => ["mail", { user: 7 }] as const));
  while (await queue.workOnce());
  assert.equal(await queue.countFailed(), count);
  return queue as unknown as Queue;
}

/** A call that puts the one failed job back, of several where it is `all`. */
const retries = (count: number): Check => async (row) => {
  const queue = await outage(row, count, "memory");
  await row.run({ queue });
  assert.deepEqual([await queue.countFailed(), await queue.waiting()], [0, count]);
};

/** A command on failed jobs, and how many then are failed, and how many wait. */
const repairs = (failed: number, waiting: number): Check => async (row) => {
  const queue = await outage(row, 2, "file");
  const { status, errors } = await row.command();
  assert.deepEqual([status, errors], [0, ""]);
  assert.deepEqual([await queue.countFailed(), await queue.waiting()], [failed, waiting]);
  // Where one of the two was meant, it is the first.
  if (failed === 1) assert.equal((await queue.failed())[0].id, "2");
};

/** What forgets failures of three days ago, and not those of now. */
const forgetsOld = (how: "call" | "command"): Check => async (row) => {
  const queue = await outage(row, 1, how === "call" ? "memory" : "file");
  await row.session.clock.advance(3 * 86_400_000);
  await queue.dispatch("mail");
  await queue.workOnce();
  if (how === "call") await row.run({ queue });
  else assert.equal((await row.command()).status, 0);
  const [{ failedAt }, ...others] = await queue.failed();
  assert.equal(others.length, 0);
  assert.ok(row.session.clock.now - failedAt < 1000, "the failure of now is left");
};

/** A `queue:work`, and the names of the queues whose jobs it ran, in order. Each has one job, put in backwards. */
const works = (ran: readonly string[], besides: (said: Said) => void = () => {}): Check => async (row) => {
  const queue = await row.stored(idle);
  for (const name of ["rest", "default", "critical", "high"]) {
    await queue.dispatch("mail", undefined, { queue: name });
  }
  const seen: string[] = [];
  const jobs = { mail: (job: Job) => void seen.push(job.queue) };
  const said = await row.command(jobs, ["--stop-when-empty"]);
  assert.deepEqual([said.status, said.errors], [0, ""]);
  if (ran.length === 0) assert.deepEqual(seen.sort(), ["critical", "default", "high", "rest"]);
  else assert.deepEqual(seen, ran);
  besides(said);
};

/** A `queue:work` that runs so many jobs at a time. */
const worksAtATime = (slots: number): Check => async (row) => {
  const queue = await row.stored(idle);
  await queue.dispatchMany(Array.from({ length: slots }, () => ["mail"] as const));
  const all = Promise.withResolvers<void>();
  let inside = 0;
  const mail = (): Promise<void> => {
    if (++inside === slots) all.resolve();
    return all.promise;
  };
  await soon(row.command({ mail }, ["--stop-when-empty"]), `${slots} jobs at a time`);
  assert.equal(inside, slots);
};

/** A `queue:work` that ends after so many jobs. */
const worksOff = (most: number): Check => async (row) => {
  const queue = await row.stored(idle);
  await queue.dispatchMany(Array.from({ length: most + 1 }, () => ["mail"] as const));
  assert.equal((await row.command({ mail: () => {} }, ["--stop-when-empty"])).status, 0);
  assert.equal(await queue.waiting(), 1);
};

/** A command that only looks, and what it must have printed. */
const shows = (expected: RegExp, status = 0): Check => async (row) => {
  await outage(row, 1, "file");
  const queue = await row.stored(idle);
  await queue.dispatchLater("mail", undefined, { hours: 1 }, { queue: "outbound" });
  const said = await row.command();
  assert.equal(said.status, status, said.errors);
  assert.match(said.out, expected);
};

const showsWorkers: Check = async (row) => {
  const worker = await row.session.work(await row.stored(idle), { concurrency: 3 });
  const { status, out } = await row.command();
  assert.equal(status, 0);
  assert.match(out, new RegExp(`\\b${process.pid}\\b`));
  await worker.stop();
};

const pauses = (paused: { all: boolean; queues: string[] }): Check => async (row) => {
  const queue = await row.stored(idle);
  assert.equal((await row.command()).status, 0);
  assert.deepEqual(await queue.paused(), paused);
};

const resumes: Check = async (row) => {
  const queue = await row.stored(idle);
  await queue.pause("outbound");
  assert.equal((await row.command()).status, 0);
  assert.deepEqual(await queue.paused(), { all: false, queues: [] });
};

const restarts: Check = async (row) => {
  const worker = await row.session.work(await row.stored(idle));
  assert.equal((await row.command()).status, 0);
  await row.session.clock.advance(5000);
  await row.session.clock.until(() => worker.over, "the worker to end");
};

const servesDashboard: Check = async (row) => {
  await row.stored(idle);
  const heard = Promise.withResolvers<string>();
  const ended = row.command(idle, ["--port=0"], (line) => heard.resolve(line));
  const url = /http:\S+/.exec(await heard.promise)![0];
  assert.match(await (await fetch(url)).text(), /<!doctype html>/i);
  stop();
  assert.equal((await ended).status, 0);
};

const counts: Check = async (row) => {
  const queue = await row.queue(idle);
  await queue.dispatch("mail", undefined, { queue: "outbound" });
  const answer = await row.run({ queue }) as { queue: string; ready: number }[];
  assert.equal(answer.find(({ queue: name }) => name === "outbound")!.ready, 1);
};

const countsFailed: Check = async (row) => {
  assert.equal(await row.run({ queue: await outage(row, 2, "memory") }), 2);
};

const finds: Check = async (row) => {
  const queue = await row.queue(idle);
  await queue.dispatch("mail");
  const job = await row.run({ queue }) as { state: string; reasons: { code: string }[] };
  assert.deepEqual([job.state, job.reasons.map(({ code }) => code)], ["ready", ["noWorker"]]);
};

const cancels: Check = async (row) => {
  const queue = await row.queue(idle);
  await queue.dispatch("mail");
  assert.equal(await row.run({ queue }), "removed");
  assert.equal(await queue.waiting(), 0);
};

const listsDelayed: Check = async (row) => {
  const queue = await row.queue(idle);
  const { id } = await queue.dispatchLater("mail", undefined, { hours: 1 });
  assert.deepEqual((await row.run({ queue }) as { id: string }[]).map((job) => job.id), [id]);
};

const listsFailed: Check = async (row) => {
  const [failed] = await row.run({ queue: await outage(row, 1, "memory") }) as FailedJob[];
  assert.deepEqual([failed.name, failed.error], ["mail", "no route to host"]);
};

const listsWorkers: Check = async (row) => {
  const queue = await row.queue(idle);
  const worker = await row.session.work(queue);
  assert.deepEqual((await row.run({ queue }) as { pid: number }[]).map(({ pid }) => pid), [process.pid]);
  await worker.stop();
};

/** Removes what waits and what is delayed. */
const clears: Check = async (row) => {
  const queue = await row.queue(idle);
  await queue.dispatch("mail", undefined, { queue: "outbound" });
  await queue.dispatchLater("mail", undefined, { hours: 1 }, { queue: "outbound" });
  assert.equal(await row.run({ queue }), 2);
};

const CHECKS: Record<typeof GUIDES[number], Checks> = {
  "from-bullmq": {
    'new Queue("mail", { connection })': makesQueue,
    'queue.add("mail", data)': stores(),
    'queue.add("mail", data, { delay: 5000 })': stores({ delay: 5000 }),
    "queue.addBulk(jobs)": stores({ count: 2 }),
    '{ jobId: "order-7" }': storesOnce,
    "{ priority: 1 }": stores({ priority: 10 }),
    "{ attempts: 5 }": tries(5, [10_000, 60_000, 300_000, 300_000]),
    '{ backoff: { type: "fixed", delay: 1000 } }': tries(3, [1000, 1000]),
    '{ backoff: { type: "exponential", delay: 1000 } }': tries(5, [1000, 2000, 4000, 8000]),
    "{ removeOnComplete: true }": async (row) => {
      const queue = await row.queue({ mail: () => {} });
      const { id } = await row.run({ queue }) as { id: string };
      await queue.workOnce();
      assert.equal(await queue.find(id), null);
    },
    'new Worker("mail", handler, { concurrency: 50 })': starts(50),
    'new Worker("outbound", handler)': async (row) => {
      const queue = await row.queue({ mail: () => {} });
      await queue.dispatchMany([["mail", undefined, { queue: "outbound" }], ["mail"]]);
      let over = false;
      const working = row.run({ queue }).then(() => over = true);
      await row.session.clock.until(async () => await queue.waiting() === 1, "the job of its queue to run");
      await row.session.clock.rest();
      assert.deepEqual(
        [await queue.waiting(), over],
        [1, false],
        "it leaves the other queue alone, and goes on",
      );
      await queue.close();
      await working;
    },
    'a file as processor: new Worker("mail", file)': async (row) => {
      row.session.clock.release(); // other processes have clocks of their own
      const file = join(row.session.file, "..", "jobs.ts");
      const done = join(row.session.file, "..", "done.txt");
      writeFileSync(
        file,
        `import { appendFileSync } from "node:fs";
         export default { mail: () => appendFileSync(${JSON.stringify(done)}, process.pid + "\\n") };`,
      );
      row.left[0] = row.left[0].replace('"./jobs.ts"', JSON.stringify(file)).replace(
        "({",
        "({ stopWhenEmpty: true,",
      );
      const queue = await row.stored(idle);
      await queue.dispatch("mail");
      await row.run({ queue });
      assert.equal(await queue.waiting(), 0);
      assert.notEqual(
        readFileSync(done, "utf8").trim(),
        String(process.pid),
        "it ran in a process of its own",
      );
    },
    "job.data, job.id, job.name": reads(({ data, id, name }) => [data, id, name]),
    "job.attemptsMade": reads(() => 1),
    "job.updateProgress(40)": async (row) => {
      const handler = row.handler();
      let seen: unknown;
      const queue: Queue = await row.queue({
        mail: async (job: Job) => {
          await handler(job);
          await row.session.clock.until(async () => seen = await queue.progress(job.id), "the progress");
        },
      });
      await queue.dispatch("mail");
      const worker = await row.session.work(queue);
      await row.session.clock.until(async () => await queue.waiting() === 0, "the job to be done");
      assert.equal((seen as { fraction: number }).fraction, 0.4);
      await worker.stop();
    },
    'throw new UnrecoverableError("no such user")': discards,
    "job.moveToDelayed(time, token), and throw new DelayedError()": snoozes(60_000),
    "the third argument of a processor, an AbortSignal": async (row) => {
      const handler = row.handler();
      const ended: string[] = [];
      const queue = await row.queue({
        mail: async (job: Job) => {
          await handler(job); // nothing has aborted it yet
          await queue.cancel(job.id);
          await new Promise((resolve) => job.signal.addEventListener("abort", resolve));
          row.left.unshift("job.signal.throwIfAborted()");
          await row.handler()(job).catch((error) => ended.push(error.code));
        },
      });
      await queue.dispatch("mail");
      const worker = await row.session.work(queue);
      await row.session.clock.advance(5000);
      await row.session.clock.until(() => ended.length, "the signal");
      assert.deepEqual(ended, ["CANCELLED"]);
      await worker.stop();
    },
    'worker.on("failed", (job, error) => …)': listens("fails", (told) => {
      assert.deepEqual(told, ["mail", "no route to host"]);
    }),
    'worker.on("completed", …)': listens("works", ([name, duration]) => {
      assert.deepEqual([name, typeof duration], ["mail", "number"]);
    }),
    "worker.close()": async (row) => {
      const queue = await row.queue(idle);
      const told: string[] = [];
      queue.on("workerStarted", ({ type }) => told.push(type));
      queue.on("workerStopped", ({ type }) => told.push(type));
      const workers = queue.start();
      await row.session.clock.until(() => told.length, "the worker to start");
      await row.run({ workers });
      assert.deepEqual(told, ["workerStarted", "workerStopped"]);
    },
    "{ lockDuration: 30000 }": leases(30_000),
    "queue.getJobCounts()": counts,
    "queue.getJob(id)": finds,
    "queue.getDelayed()": listsDelayed,
    "queue.getFailed()": listsFailed,
    "job.retry()": retries(1),
    "queue.retryJobs()": retries(2),
    'queue.clean(86400000, 0, "failed")': forgetsOld("call"),
    "job.remove()": cancels,
    "queue.drain(true)": clears,
    "queue.pause(), queue.resume()": async (row) => {
      const queue = await row.queue(idle);
      await row.run({ queue });
      assert.deepEqual((await queue.paused()).queues, ["outbound"]);
      await row.run({ queue });
      assert.deepEqual((await queue.paused()).queues, []);
    },
    "queue.getWorkers()": listsWorkers,
    "queue.exportPrometheusMetrics()": async (row) => {
      assert.match(String(await row.run({ queue: await row.queue(idle) })), /^queue_up 1$/m);
    },
    "Bull Board": async (row) => {
      const handler = await row.run({ queue: await row.queue(idle) }) as (
        request: Request,
      ) => Promise<Response>;
      const { status } = await handler(new Request("http://127.0.0.1/queue/"));
      assert.equal(status, 200);
    },
    "–": shows(/no route to host/),
  },
  "from-laravel": {
    "queue:work": works([]),
    "queue:work --queue=high,default": works(["high", "default"]),
    "queue:work --once": worksOff(1),
    "queue:work --stop-when-empty": async (row) => {
      const queue = await row.stored(idle);
      await queue.dispatch("mail");
      assert.equal((await row.command({ mail: () => {} })).status, 0);
      assert.equal(await queue.waiting(), 0);
    },
    "queue:work --max-jobs=100": worksOff(100),
    "queue:work --max-time=3600": async (row) => {
      await row.stored(idle);
      let over = false;
      const ended = row.command().finally(() => over = true);
      await row.session.clock.advance(3_599_000);
      assert.equal(over, false);
      await row.session.clock.advance(1000);
      await row.session.clock.until(() => over, "the hour to end it");
      assert.equal((await ended).status, 0);
    },
    "queue:work --tries=5": async (row) => {
      const queue = await row.stored(idle);
      await queue.dispatch("mail");
      assert.match((await row.command(busy, ["--stop-when-empty"])).out, / 1\/5 .* RETRY in 10 s/);
    },
    "queue:work --json": works([], ({ out }) => {
      const events = out.trim().split("\n").map((line) => JSON.parse(line).event);
      assert.equal(events.filter((event) => event === "completed").length, 4);
    }),
    "queue:failed": shows(/no route to host/),
    "queue:retry 1": repairs(1, 1),
    "queue:retry all": repairs(0, 2),
    "queue:retry --queue=outbound": repairs(0, 2),
    "queue:forget 1": repairs(1, 0),
    "queue:flush": repairs(0, 0),
    "queue:flush --hours=48": forgetsOld("command"),
    "queue:prune-failed --hours=48": forgetsOld("command"),
    "queue:clear --queue=outbound": async (row) => {
      const queue = await row.stored(idle);
      await queue.dispatchMany([["mail", undefined, { queue: "outbound" }], ["mail"]]);
      assert.equal((await row.command()).status, 0);
      assert.equal(await queue.waiting(), 1);
    },
    "queue:monitor database:outbound --max=100": async (row) => {
      const queue = await row.stored(idle);
      await queue.dispatchMany(
        Array.from({ length: 101 }, () => ["mail", undefined, { queue: "outbound" }] as const),
      );
      const { status, errors } = await row.command();
      assert.equal(status, 1);
      assert.match(errors, /outbound/);
      assert.match(errors, /\b101\b.*\b100\b/, "more than the option allows");
    },
    "queue:restart": restarts,
    "queue:pause database:outbound": pauses({ all: false, queues: ["outbound"] }),
    "queue:resume database:outbound": resumes,
    "horizon:supervisors": showsWorkers,
    "Horizon's dashboard": servesDashboard,
    "a look into the table jobs": async (row) => {
      const queue = await row.stored(idle);
      await queue.dispatch("mail");
      assert.match((await row.command()).out, /no worker/);
    },
    "–": shows(/workers +none is running/),
    "SendMail::dispatch($user)": stores(),
    "->delay(now()->addMinutes(10))": stores({ delay: 600_000 }),
    "->onQueue('low')": stores({ queue: "low" }),
    "->afterResponse()": stores(),
    "Queue::bulk($jobs)": stores({ count: 2 }),
    "ShouldBeUnique, with uniqueId()": storesOnce,
    "Queue::fake()": makesQueue,
    "public $tries = 5;": tries(5, [10_000, 60_000, 300_000, 300_000]),
    "public function backoff() { return [1, 5, 10]; }": tries(4, [1000, 5000, 10_000]),
    "public $timeout = 120;": timesOut(120_000),
    "public function failed(Throwable $e)": hears,
    "$this->attempts()": reads(() => 1),
    "$this->job->uuid()": reads(({ id }) => id),
    "$this->release(30)": snoozes(30_000),
    "$this->fail('no such user')": discards,
    "Queue::before(…)": listens("works", (told) => assert.deepEqual(told, ["mail"])),
    "Queue::after(…)": listens("works", (told) => assert.deepEqual(told, ["mail"])),
    "Queue::failing(…)": listens("fails", (told) => assert.deepEqual(told, ["mail", "no route to host"])),
    "Queue::size('outbound')": counts,
    "'retry_after' => 90": leases(90_000),
  },
  "from-deno-kv": {
    "await Deno.openKv()": makesQueue,
    'await Deno.openKv(":memory:")': makesQueue,
    "kv.enqueue(value)": stores(),
    "kv.enqueue(value, { delay: 5000 })": stores({ delay: 5000 }),
    "kv.enqueue(value, { backoffSchedule: [1000, 5000] })": tries(3, [1000, 5000]),
    "kv.enqueue(value, { keysIfUndelivered: [key] })": listsFailed,
    "reading that key, and enqueue again": retries(2),
    "kv.listenQueue(handler)": starts(10),
    "a check that the key is new, and enqueue": storesOnce,
    "many enqueue in one kv.atomic()": stores({ count: 2 }),
    "kv.close()": async (row) => {
      const queue = await row.queue(idle);
      await row.run({ queue });
      await assert.rejects(queue.dispatch("mail"), { code: "CLOSED" });
    },
  },
  "from-sidekiq": {
    "MailJob.perform_async(7)": stores(),
    "MailJob.perform_in(5.minutes, 7)": stores({ delay: 300_000 }),
    "MailJob.perform_at(time, 7)": stores({ delay: 60_000 }),
    "MailJob.perform_bulk([[7], [8]])": stores({ count: 2 }),
    'MailJob.set(queue: "low").perform_async(7)': stores({ queue: "low" }),
    "sidekiq_options unique_for: 1.day (Enterprise)": storesOnce,
    'sidekiq_options queue: "low"': goesTo("low"),
    "sidekiq_options retry: 5": tries(6, [10_000, 60_000, 300_000, 300_000, 300_000]),
    "sidekiq_options retry: 0": tries(1, []),
    "sidekiq_retry_in { 10 }": tries(3, [10_000, 10_000]),
    ":kill from sidekiq_retry_in": discards,
    "sidekiq_retries_exhausted { … }": hears,
    "jid": reads(({ id }) => id),
    "MailJob.perform_in(60, …) inside perform": snoozes(60_000),
    "config.death_handlers << …": listens("fails", (told) => {
      assert.deepEqual(told, ["mail", "no route to host"]);
    }),
    "server middleware that counts or logs": listens("works", ([name, duration]) => {
      assert.deepEqual([name, typeof duration], ["mail", "number"]);
    }),
    "client middleware that counts or logs": listens("works", (told) => assert.deepEqual(told, ["mail"])),
    "bundle exec sidekiq": works([]),
    "sidekiq -c 10": worksAtATime(10),
    "sidekiq -q critical -q default": works(["critical", "default"]),
    "sidekiq -q critical,3 -q default,1": async (row) => {
      const queue = await row.stored(idle);
      for (const name of ["rest", "default", "critical"]) {
        await queue.dispatchMany(
          Array.from({ length: 40 }, () => ["mail", undefined, { queue: name }] as const),
        );
      }
      const seen: string[] = [];
      await row.command({ mail: (job: Job) => void seen.push(job.queue) }, ["--max-jobs=40"]);
      const taken = (name: string): number => seen.filter((one) => one === name).length;
      assert.deepEqual([taken("critical"), taken("default"), taken("rest")], [30, 10, 0]);
    },
    "sidekiq -t 25": async (row) => {
      const queue = await row.stored(idle);
      await queue.dispatch("mail");
      const { status, out } = await row.command({ mail: stop });
      assert.equal(status, 0);
      assert.match(out, /waiting up to 25 s for 1 running job/);
    },
    "kill -TSTP, quiet": pauses({ all: true, queues: [] }),
    "kill -TERM": restarts,
    "kill -TTIN": showsWorkers,
    "Web UI": servesDashboard,
    "Sidekiq::Stats.new": shows(/outbound +0 +1 +0 +1/),
    "Sidekiq::DeadSet.new.each(&:retry)": retries(2),
    "the same": repairs(0, 2),
    "Sidekiq::DeadSet.new.size": countsFailed,
    "Sidekiq::DeadSet.new.clear": repairs(0, 0),
    "Sidekiq::RetrySet.new, Sidekiq::ScheduledSet.new": listsDelayed,
    'Sidekiq::Queue.new("outbound").size': counts,
    'Sidekiq::Queue.new("outbound").clear': clears,
    'Sidekiq::Queue.new("outbound").find_job(jid)': finds,
    'Sidekiq::Queue.new("outbound").find_job(jid).delete': cancels,
    "Sidekiq::ProcessSet.new": listsWorkers,
    "Sidekiq::Testing.fake!": makesQueue,
    "MailJob.drain": async (row) => {
      let ran = 0;
      const queue = await row.queue({ mail: () => void ran++ });
      await queue.dispatchMany([["mail"], ["mail"]]);
      await row.run({ queue });
      assert.equal(ran, 2);
    },
  },
};

for (const guide of GUIDES) {
  const text = read(`docs/${guide}.md`);
  const rows = tables(text).filter(([[, heading]]) => heading === "here").flatMap((table) => table.slice(1));
  const checks = new Map(Object.entries(CHECKS[guide]));

  describe(`docs/${guide}.md`, () => {
    it("has a row for each check here", () => {
      assert.deepEqual(rows.map(([theirs]) => theirs.replaceAll("`", "")), [...checks.keys()]);
    });

    it("has no code that is not run", () => {
      // What is of the other one's language, or needs what is not here; KV's is run below.
      const theirs = ["php", "ruby", "ts ignore"];
      const others = allBlocks(text).filter(({ info }) => !["ts", "sh", ...theirs].includes(info));
      assert.deepEqual(others, []);
    });

    for (const [index, code] of blocks(text, "ts").entries()) {
      it(`has an example that runs: ${index + 1}`, () =>
        inFolder(async (folder) => {
          const file = join(folder, "example.ts");
          writeFileSync(file, outside(code));
          await import(pathToFileURL(file).href);
        }));
    }

    for (const code of blocks(text, "sh")) {
      it(`has commands that run: ${code.split("\n")[0]}`, () =>
        inFolder(async (folder) => {
          for (const line of code.trim().split("\n")) {
            const [typed, said = ""] = line.split(/ +# /);
            const { status, out, errors } = await command(typed, idle, [
              `--database=${join(folder, "queue.sqlite")}`,
            ]);
            assert.deepEqual([status, errors], [0, ""], typed);
            assert.ok(out.includes(said.replaceAll('"', "")), out);
          }
        }));
    }
  });

  it(`docs/${guide}.md: has no command and no option that there is not`, async () => {
    const ours = text.replace(/^```(php|ruby)\n[^]*?^```$/gm, "").replace(/^\|[^|]*\|/gm, "|");
    const typed = [...ours.matchAll(/(queue:[\w-]+)([^`\n]*)/g)];
    assert.ok(typed.length > 2);
    for (const [line, name, rest] of typed) {
      const { out } = await command(`queue ${name} --help`, idle, []);
      for (const [, option] of rest.matchAll(/--([\w-]+)/g)) {
        assert.match(out, new RegExp(`^ {2}(?:-\\w, )?--${option}\\b`, "m"), line);
      }
    }
  });

  for (const [theirs, ours] of rows) {
    inSession(`docs/${guide}.md: ${theirs}`, async (session) => {
      const row = new Row(session, ours);
      await checks.get(theirs.replaceAll("`", ""))!(row);
      assert.deepEqual(row.left, [], "all of the row was run");
    });
  }
}

it(
  "docs/from-deno-kv.md: the listener hands over what is in KV, and what is delayed there",
  { skip: !isDeno && "only Deno has KV" },
  () =>
    inFolder(async (folder) => {
      const [bridge] = blocks(section(read("docs/from-deno-kv.md"), "Moving"), "ts ignore");
      writeFileSync(
        join(folder, "before.ts"),
        `const kv = await Deno.openKv("old.kv");
         await kv.enqueue({ kind: "mail", user: 7 });
         await kv.enqueue({ kind: "mail", user: 8 }, { delay: 50 });
         kv.close();`,
      );
      writeFileSync(
        join(folder, "bridge.ts"),
        `${outside(bridge)}
         while (await queue.waiting() < 2) await new Promise((resolve) => setTimeout(resolve, 10));
         console.log((await queue.find(1))!.payload, (await queue.find(2))!.payload);
         Deno.exit(0);`,
      );
      let printed = "";
      for (const file of ["before.ts", "bridge.ts"]) {
        const rights = ["-A", "--unstable-kv", "--no-check", `--config=${join(ROOT, "deno.json")}`];
        const child = spawn(process.execPath, ["run", ...rights, file], {
          cwd: folder,
          stdio: ["ignore", "pipe", "inherit"],
        });
        child.stdout.setEncoding("utf8").on("data", (text: string) => printed += text);
        try {
          const ended = new Promise((resolve) => child.once("close", resolve));
          assert.equal(await soon(ended, `${file} to end`), 0, file);
        } finally {
          child.kill("SIGKILL");
        }
      }
      assert.equal(printed.trim(), '{"user":7} {"user":8}');
    }),
);

it("docs/from-laravel.md: a database of Laravel's is refused, and left as it is", () =>
  inFolder(async (folder) => {
    const file = join(folder, "database.sqlite");
    const db = new DatabaseSync(file);
    const laravels =
      "CREATE TABLE jobs (id integer primary key autoincrement not null, queue varchar not null, payload text not null, attempts integer not null, reserved_at integer, available_at integer not null, created_at integer not null)";
    db.exec(laravels);
    const queue = new Queue({ jobs: idle, database: file, env: {} });
    await assert.rejects(queue.open(), /jobs is not a queue's.*a database of its own/);
    await queue.close();
    const tablesOf = db.prepare(
      "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    );
    assert.deepEqual(tablesOf.all().map(({ sql }) => sql), [laravels]);
    db.close();
  }));

it("docs/from-sidekiq.md: a time that has passed is refused", async () => {
  const queue = new Queue({ jobs: idle, database: ":memory:", env: {} });
  await assert.rejects(queue.dispatchLater("mail", { user: 7 }, -1), { code: "CONFIG" });
  await queue.close();
});
