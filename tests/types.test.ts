/**
 * Names and payloads are checked against `jobs` by the compiler. What must not compile is marked as an expected error:
 * were it to compile, the mark itself would be one.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  type Database,
  Discard,
  type DispatchEntry,
  type Duration,
  type FailedHook,
  type FailedJob,
  type Handler,
  type Job,
  type JobOptions,
  type Jobs,
  Queue,
  QueueError,
  type QueueEvents,
  type QueueListener,
  type WorkEvent,
} from "@x/queue";

/** Whether two types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;

function same<A, B>(..._: Same<A, B> extends true ? [] : ["these types differ"]): void {}

/** Code that is compiled and never runs. */
function compiled(_code: () => unknown): void {}

const ran: [string, unknown][] = [];

function note(job: Job): void {
  ran.push([job.name, job.data]);
}

const jobs = {
  thumbnail: (job: Job<{ id: number }>) => note(job),
  invoice: { tries: 5, handle: async (job: Job<{ to: string; cc?: string[] }>) => note(await job) },
  text: (job: Job<string>) => note(job),
  maybe: (job: Job<{ id: number } | undefined>) => note(job),
  list: { handle: (job: Job<readonly number[]>) => note(job) },
  anything: (job: Job) => note(job),
  nothing: () => ran.push(["nothing", null]),
  elsewhere: { queue: "theirs" },
} satisfies Jobs;

function open(): Queue<typeof jobs> {
  return new Queue({ database: ":memory:", env: {}, jobs });
}

const skip = process.versions.deno === undefined && "the checker is Deno's";

test("what must not compile does not, and the rest does", { skip }, () => {
  const { status, stderr } = spawnSync(process.execPath, ["check", fileURLToPath(import.meta.url)], {
    encoding: "utf8",
    env: { ...process.env, NO_COLOR: "1" },
  });
  assert.equal(status, 0, stderr);
});

test("a payload is the one that its handler takes", async () => {
  const queue = open();
  const { id } = await queue.dispatch("thumbnail", { id: 7 });
  same<typeof id, string>();
  await queue.dispatch("invoice", { to: "you", cc: ["me"] }, { delay: 0, queue: "default", priority: 0 });
  await queue.dispatch("text", "hello");
  await queue.dispatch("list", [1, 2]);
  await queue.dispatchLater("thumbnail", { id: 8 }, { seconds: 0 });
  const many = await queue.dispatchMany([["thumbnail", { id: 9 }], ["text", "x", { priority: -1 }], [
    "nothing",
  ]]);
  same<typeof many[number]["id"], string>();
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(ran.splice(0), [
    ["thumbnail", { id: 7 }],
    ["invoice", { to: "you", cc: ["me"] }],
    ["text", "hello"],
    ["list", [1, 2]],
    ["thumbnail", { id: 8 }],
    ["thumbnail", { id: 9 }],
    ["nothing", null],
    ["text", "x"],
  ]);
  compiled(() => {
    // @ts-expect-error a text is no number
    queue.dispatch("thumbnail", { id: "7" });
    // @ts-expect-error the id is missing
    queue.dispatch("thumbnail", {});
    // @ts-expect-error nothing else is in it
    queue.dispatch("thumbnail", { id: 7, size: 3 });
    // @ts-expect-error nor is it null
    queue.dispatch("thumbnail", null);
    // @ts-expect-error the payload is that of another job
    queue.dispatch("invoice", { id: 7 });
    // @ts-expect-error the handler stands in an object
    queue.dispatch("invoice", { to: 7 });
    // @ts-expect-error a text
    queue.dispatch("text", 7);
    // @ts-expect-error a list of numbers
    queue.dispatch("list", ["1"]);
    // @ts-expect-error dispatchLater checks it, too
    queue.dispatchLater("thumbnail", { id: "7" }, 1000);
    // @ts-expect-error and so does dispatchMany
    queue.dispatchMany([["thumbnail", { id: "7" }]]);
    // @ts-expect-error each entry by its own name
    queue.dispatchMany([["thumbnail", { id: 7 }], ["invoice", { id: 7 }]]);
  });
  await queue.close();
});

test("a payload may be left out only where its handler takes none", async () => {
  const queue = open();
  await queue.dispatch("nothing");
  await queue.dispatch("maybe");
  await queue.dispatch("maybe", undefined, { delay: 0 });
  await queue.dispatch("maybe", { id: 1 });
  await queue.dispatch("anything");
  await queue.dispatch("anything", [1, "a"]);
  await queue.dispatch("elsewhere", { what: "ever" });
  await queue.dispatchLater("nothing", undefined, 0);
  await queue.dispatchMany([["maybe"], ["anything"]]);
  assert.equal(await queue.waiting(), 10);
  compiled(() => {
    // @ts-expect-error the payload is missing
    queue.dispatch("thumbnail");
    // @ts-expect-error also where an object has the handler
    queue.dispatch("invoice");
    // @ts-expect-error a text is missing
    queue.dispatch("text");
    // @ts-expect-error in dispatchMany
    queue.dispatchMany([["thumbnail"]]);
    // @ts-expect-error dispatchLater wants a delay
    queue.dispatchLater("nothing", undefined);
  });
  await queue.close();
});

test("a name is one of the jobs", async () => {
  const queue = open();
  const unknown = (error: unknown): boolean => error instanceof QueueError && error.code === "UNKNOWN";
  // @ts-expect-error no such name
  await assert.rejects(queue.dispatch("thumbnial", { id: 7 }), unknown);
  // @ts-expect-error no such name
  await assert.rejects(queue.dispatchLater("", { id: 7 }, 1), unknown);
  // @ts-expect-error no such name
  await assert.rejects(queue.dispatchMany([["Text", "x"]]), unknown);
  await queue.close();
});

test("entries can be gathered before they are dispatched", async () => {
  const queue = open();
  const entries: DispatchEntry<typeof jobs>[] = [["text", "a"]];
  for (const id of [1, 2]) entries.push(["thumbnail", { id }, { delay: { hours: 1 } }]);
  // @ts-expect-error they are checked as they are gathered
  compiled(() => entries.push(["thumbnail", { id: "1" }]));
  assert.equal((await queue.dispatchMany(entries)).length, 3);
  const set = new Set<DispatchEntry<typeof jobs>>([["text", "b"], ["nothing"]]);
  assert.equal((await queue.dispatchMany(set)).length, 2);
  await queue.close();
});

test("a queue whose jobs are not known takes any name and payload", async () => {
  const queue: Queue = new Queue({ database: ":memory:", env: {}, jobs: { a: note } as Jobs });
  await queue.dispatch("a");
  await queue.dispatch("a", { any: "thing" });
  await queue.dispatchMany([["a", 1]]);
  const known: Queue = open();
  await known.dispatch("text", "a");
  assert.equal(await queue.waiting() + await known.waiting(), 4);
  await queue.close();
  await known.close();
});

test("handlers may be written in place, or apart", async () => {
  const handle: Handler<{ id: number }> = (job) => void ran.push([job.name, job.data.id]);
  const apart: JobOptions<{ id: number }> = { handle, backoff: [1, { minutes: 5 }], timeout: 1000 };
  const queue = new Queue({
    database: ":memory:",
    env: {},
    jobs: {
      handle,
      apart,
      inline: (job: Job<{ id: number }>) => {
        same<typeof job.data.id, number>();
        same<typeof job.attempt, number>();
        same<typeof job.signal, AbortSignal>();
        same<typeof job.payload, string>();
        same<typeof job.db, Database>();
        ran.push([job.name, job.data.id]);
        compiled(() => {
          // @ts-expect-error a job is not to be changed
          job.attempt = 2;
          // @ts-expect-error there is no more in it
          job.data.size;
        });
      },
      untyped: (job) => void ran.push([job.name, job.data.id]),
    },
  });
  await queue.dispatch("handle", { id: 1 });
  await queue.dispatch("apart", { id: 2 });
  await queue.dispatch("inline", { id: 3 });
  await queue.dispatch("untyped", { id: 4 });
  // @ts-expect-error the handler that was written apart has a type, too
  compiled(() => queue.dispatch("handle", { id: "1" }));
  // @ts-expect-error and so do options
  compiled(() => queue.dispatch("apart", { id: "1" }));
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(ran.splice(0), [["handle", 1], ["apart", 2], ["inline", 3], ["untyped", 4]]);
  await queue.close();
});

test("a hook takes the job of its handler", async () => {
  const failed: FailedHook<{ id: number }> = (job) => void ran.push([job.name, job.data.id]);
  const apart: JobOptions<{ id: number }> = { handle: (job) => void note(job), failed };
  const hooked = {
    apart,
    inline: {
      tries: 1,
      handle: (job: Job<{ id: number }>) => {
        throw new Discard(String(job.data.id));
      },
      failed: (job: Job<{ id: number }>, error) => {
        same<typeof job.data.id, number>();
        same<typeof job.db, Database>();
        same<typeof error, Error>();
        ran.push([error.message, job.data.id]);
      },
    },
  } satisfies Jobs;
  const queue = new Queue({ database: ":memory:", env: {}, log: { warn() {}, error() {} }, jobs: hooked });
  await queue.dispatch("inline", { id: 7 });
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(ran.splice(0), [["7", 7]]);
  compiled(() => {
    // @ts-expect-error the payload is the handler's, with a hook, too
    queue.dispatch("inline", { id: "7" });
    // @ts-expect-error and where both were written apart
    queue.dispatch("apart", { id: "7" });
    // @ts-expect-error a hook of another payload
    const _odd: JobOptions<{ id: number }> = { failed: (job: Job<{ name: string }>) => job.data.name };
    // @ts-expect-error a hook is a function
    const _none: JobOptions = { failed: true };
    const _unknown: JobOptions<{ id: number }> = {
      failed: (job) => {
        // @ts-expect-error there is no more in it
        job.data.size;
      },
    };
  });
  const odd = { a: { failed: "log" } } as unknown as Jobs;
  const refused = "queue: jobs.a.failed is string: expected a function";
  assert.throws(() => new Queue({ env: {}, jobs: odd }), { name: "QueueError", message: refused });
  await queue.close();
});

test("a listener gets the event that it asked for", async () => {
  const queue = open();
  const seen: string[] = [];
  queue.on("completed", (event) => {
    same<typeof event, QueueEvents["completed"]>();
    same<typeof event.duration, number>();
    seen.push(event.type);
  });
  queue.on("released", ({ why, error }) => {
    same<typeof why, "failed" | "snoozed" | "stopped">();
    same<typeof error, string | null>();
  });
  const remove = queue.on("dispatched", ({ duplicate }) => same<typeof duplicate, boolean>());
  same<typeof remove, () => void>();
  const any: QueueListener<keyof QueueEvents> = (event) => {
    if (event.type === "dispatched") same<typeof event.duplicate, boolean>();
    // @ts-expect-error not every event has one
    compiled(() => event.duration);
    seen.push(event.type);
  };
  queue.on("workerStopped", any);
  await queue.dispatch("nothing");
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(seen, ["completed", "workerStopped"]);
  ran.splice(0);
  compiled(() => {
    // @ts-expect-error no such event
    queue.on("done", () => {});
    // @ts-expect-error a dispatch takes no time
    queue.on("dispatched", ({ duration }) => duration);
  });
  await queue.close();
});

test("a handler may say which connection the app has", async () => {
  const db = new DatabaseSync(":memory:");
  const seen: boolean[] = [];
  const queue = new Queue({
    database: db,
    env: {},
    jobs: {
      own: (job: Job<unknown, DatabaseSync>) => {
        same<typeof job.db, DatabaseSync>();
        seen.push(job.db === db);
      },
    },
  });
  await queue.dispatch("own", null);
  await queue.work({ stopWhenEmpty: true });
  assert.deepEqual(seen, [true]);
  await queue.close();
});

test("options are checked, also by the compiler", async () => {
  const queue = open();
  const config = (error: unknown): boolean => error instanceof QueueError && error.code === "CONFIG";
  const duration: Duration = { days: 1, hours: 2, minutes: 3, seconds: 4, milliseconds: 5 };
  await queue.dispatch("nothing", undefined, { delay: duration });
  // @ts-expect-error misspelt
  await assert.rejects(queue.dispatch("nothing", undefined, { dealy: 5 }), config);
  // @ts-expect-error a text is no duration
  await assert.rejects(queue.dispatch("nothing", undefined, { delay: "5 s" }), config);
  // @ts-expect-error a month is not always as long
  await assert.rejects(queue.dispatchLater("nothing", undefined, { months: 1 }), config);
  // @ts-expect-error a queue has a name
  await assert.rejects(queue.dispatch("nothing", undefined, { queue: 5 }), config);
  // @ts-expect-error a number
  await assert.rejects(queue.work({ concurrency: "many" }), config);
  // @ts-expect-error a weight is a number
  await assert.rejects(queue.work({ queues: { a: "x" } }), config);
  // @ts-expect-error a text is no number of tries
  assert.throws(() => new Queue({ tries: "many", jobs }), config);
  // @ts-expect-error misspelt
  assert.throws(() => new Queue({ jobs, env: {}, retryafter: 5 }), config);
  // @ts-expect-error jobs are needed
  assert.throws(() => new Queue({ env: {} }), config);
  // @ts-expect-error a handler is a function
  assert.throws(() => new Queue({ env: {}, jobs: { a: "handler" } }), config);
  // @ts-expect-error also in an object
  assert.throws(() => new Queue({ env: {}, jobs: { a: { handle: 5 } } }), config);
  // @ts-expect-error a job type has a number of tries
  assert.throws(() => new Queue({ env: {}, jobs: { a: { handle: note, tries: "many" } } }), config);
  await queue.close();
});

test("what is asked of a queue has its types", async () => {
  const queue = open();
  await queue.dispatch("thumbnail", { id: 1 });
  const events: WorkEvent["type"][] = [];
  await queue.work({ stopWhenEmpty: true, onEvent: ({ type }) => void events.push(type) });
  assert.deepEqual(events, ["started", "completed"]);
  const failed = await queue.failed({ after: "0", limit: 10 });
  same<typeof failed, FailedJob[]>();
  for (const ids of ["all", "1", 1, ["1", 2]] as const) {
    const moved = await queue.retry(ids);
    same<typeof moved[number]["name"], string>();
    assert.deepEqual([...moved, ...await queue.forget(ids)], []);
  }
  compiled(() => {
    // @ts-expect-error which ones?
    queue.retry();
    // @ts-expect-error not so
    queue.forget(true);
    // @ts-expect-error the number of slots is the first argument of start()
    queue.start(1, { concurrency: 1 });
    // @ts-expect-error its workers are stopped by what it returns
    queue.start(1, { signal: new AbortController().signal });
    // @ts-expect-error an event of no such type
    queue.work({ onEvent: ({ type }) => type === "ended" });
    // @ts-expect-error no such code
    new QueueError("NOPE", "why");
  });
  const workers = queue.start(0);
  same<ReturnType<typeof workers.stop>, Promise<void>>();
  await workers.stop();
  await queue.close();
});
