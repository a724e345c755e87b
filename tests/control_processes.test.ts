/** What operators tell workers reaches those of other processes, on SQLite and on Redis. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, test } from "node:test";
import { Queue, type QueueOptions } from "@x/queue";
import { newFolder } from "./folder.ts";
import { type Program, withPrograms } from "./process.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";
import { soon, until } from "./until.ts";

after(endShared);

/** A queue on a store, and a way to start workers of other processes on it. */
interface Place {
  readonly queue: Queue;
  start(options?: Record<string, unknown>): Promise<Program>;
}

const jobs = { obey: {}, record: {} };

const STORES: [name: string, skip: string | false, store: () => Promise<Omit<QueueOptions, "jobs">>][] = [
  ["SQLite", false, () => Promise.resolve({})],
  ["Redis", noRedis, async () => {
    const { url } = await sharedServer();
    return { connection: "redis", redis: { url, prefix: newPrefix() } };
  }],
];

function onBoth(sentence: string, run: (place: Place) => Promise<void>): void {
  for (const [name, skip, open] of STORES) {
    test(`${name}: ${sentence}`, { skip }, async () => {
      const folder = newFolder();
      const store = { ...await open(), database: join(folder.path, "queue.sqlite") };
      const queue = new Queue({ ...store, jobs, env: {} }) as unknown as Queue;
      try {
        await queue.open();
        await withPrograms((start) =>
          run({
            queue,
            async start(options = {}) {
              const program = start("worker", { ...store, ...options });
              await program.says("open");
              return program;
            },
          })
        );
      } finally {
        await queue.close();
        folder.remove();
      }
    });
  }
}

onBoth(
  "a job that runs in another process is cancelled, and its progress read before",
  async ({ queue, start }) => {
    const worker = await start();
    const { id } = await queue.dispatch("obey", "it");
    await worker.says("obeying");
    const progress = await until(() => queue.progress(id), "its progress");
    assert.deepEqual([progress?.fraction, progress?.note], [0.5, "half of it"]);
    assert.equal(await queue.cancel(id), "cancelling");
    assert.deepEqual(await worker.says("failed"), ["failed", id, "cancelled"]);
    assert.deepEqual((await queue.failed()).map(({ error, attempts }) => [error, attempts]), [[
      "cancelled",
      1,
    ]]);
    assert.equal(await queue.progress(id), null);
    assert.equal(await worker.end(), 0);
  },
);

onBoth("a cancelled job whose process is killed does not run again", async ({ queue, start }) => {
  const killed = await start({ retryAfter: 1000 });
  const { id } = await queue.dispatch("obey", "it");
  await killed.says("obeying");
  assert.equal(await queue.cancel(id), "cancelling");
  assert.equal(await killed.end("SIGKILL"), "SIGKILL");
  const worker = await start({ retryAfter: 1000 });
  assert.deepEqual(await worker.says("failed"), ["failed", id, "cancelled"]);
  assert.deepEqual(worker.all("obeying"), []);
  const [failed] = await queue.failed();
  assert.deepEqual(await queue.retry(failed.id), [{ id: failed.id, name: "obey" }]);
  await worker.says("obeying");
  assert.equal(await queue.cancel(id), "cancelling", "it has its id");
  await worker.says("failed", 2);
  assert.equal(await worker.end(), 0);
});

onBoth("a pause holds a worker of another process, and a resume lets it go on", async ({ queue, start }) => {
  const worker = await start();
  await queue.dispatch("record", "before");
  await worker.says("ran");
  await queue.pause("default");
  await queue.dispatch("record", "held");
  for (const payload of ["1", "2", "3"]) await queue.dispatch("record", payload, { queue: "other" });
  await worker.says("completed", 4);
  // Each of those was taken by a look that left the held one, which was in line before.
  assert.deepEqual(worker.all("ran").map(([, payload]) => payload), ["before", "1", "2", "3"]);
  await queue.resume();
  await worker.says("completed", 5);
  assert.equal(worker.all("ran").at(-1)![1], "held");
  assert.equal(await worker.end(), 0);
});

onBoth("a worker that stops when empty ends while all is paused", async ({ queue, start }) => {
  await queue.dispatch("record", "held");
  await queue.pause();
  const worker = await start({ stopWhenEmpty: true });
  assert.equal(await soon(worker.ended, "it to end"), 0);
  assert.equal(await queue.waiting(), 1);
});

onBoth("a restart ends the processes that work by then, with exit status 0", async ({ queue, start }) => {
  const busy = await start();
  const { id } = await queue.dispatch("obey", "it");
  await busy.says("obeying");
  const idle = await start();
  await queue.dispatch("record", "it");
  await idle.says("completed");
  await queue.restart();
  assert.equal(await soon(idle.ended, "the idle one to end"), 0);
  assert.match(idle.errors, /told to restart/);
  await until(() => busy.errors.includes("told to restart"), "the busy one to hear");
  const later = await start();
  await queue.dispatch("record", "that");
  await later.says("completed");
  assert.deepEqual(busy.all("ended"), [], "its job runs yet");
  assert.equal(await queue.cancel(id), "cancelling");
  assert.equal(await soon(busy.ended, "the busy one to end"), 0, "after its job");
  assert.equal(await later.end(), 0);
  assert.doesNotMatch(later.errors, /told to restart/);
});
