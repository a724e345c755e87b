/** Structured records by LogTape: one for each change in a job's life, and never a payload. */
import assert from "node:assert/strict";
import { configure, getLogger, type LogRecord, reset } from "@logtape/logtape";
import { type Queue, QueueError } from "@x/queue";
import { logEvents } from "@x/queue/logs";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { changed, inSession } from "./session.ts";

/** Runs `use` with what LogTape gets below the category `queue`. */
async function recorded(use: (records: LogRecord[]) => Promise<void>): Promise<void> {
  const records: LogRecord[] = [];
  await configure({
    sinks: { memory: (record) => void records.push(record) },
    loggers: [
      { category: "queue", lowestLevel: "debug", sinks: ["memory"] },
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["memory"] },
    ],
  });
  try {
    await use(records);
  } finally {
    await reset();
  }
}

inSession(
  "each change in a job's life is one record, without its payload",
  ({ clock, queue, work }) =>
    recorded(async (records) => {
      const jobs: Queue = await queue({
        mail: () => {},
        bad: {
          tries: 2,
          handle: () => {
            throw new Error("no route");
          },
        },
      });
      const end = logEvents(jobs, getLogger("queue"));
      const worker = await work(jobs, { concurrency: 2 });
      const { id } = await jobs.dispatch("mail", { secret: "hunter2" }, { queue: "post" });
      await clock.rest();
      assert.deepEqual(
        records.splice(0).map((
          { category, level, properties },
        ) => [category.join(), level, { ...properties }]),
        [
          ["queue,worker", "info", { event: "workerStarted", concurrency: 2 }],
          ["queue,job", "debug", { event: "dispatched", id, name: "mail", queue: "post", duplicate: false }],
          ["queue,job", "debug", {
            event: "reserved",
            id,
            name: "mail",
            queue: "post",
            attempt: 1,
            waited: 0,
          }],
          ["queue,job", "debug", { event: "started", id, name: "mail", queue: "post", attempt: 1, tries: 3 }],
          [
            "queue,job",
            "info",
            { event: "completed", id, name: "mail", queue: "post", attempt: 1, tries: 3, duration: 0 },
          ],
        ],
      );
      await jobs.dispatch("bad", { secret: "hunter2" });
      await clock.advance(10_000);
      const [released] = records.filter(({ properties }) => properties.event === "released");
      assert.equal(released.level, "warning");
      assert.deepEqual(released.properties.error, "no route");
      assert.deepEqual(released.properties.retryIn, 10_000);
      const [failed] = records.filter(({ properties }) => properties.event === "failed");
      assert.deepEqual([failed.level, failed.properties.attempt], ["error", 2]);
      assert.equal(JSON.stringify(records).includes("hunter2"), false);
      records.length = 0;
      end();
      await jobs.dispatch("mail");
      await worker.stop();
      assert.deepEqual(records, []);
    }),
);

inSession("a store that fails is a record of its own category", ({ queue }) =>
  recorded(async (records) => {
    const full = () => Promise.reject(new QueueError("DB", "disk full"));
    const driver = changed(new SqliteDriver({ database: ":memory:" }), { push: full });
    const jobs: Queue = await queue({ mail: () => {} }, { driver });
    logEvents(jobs, getLogger("queue"));
    await assert.rejects(jobs.dispatch("mail"));
    const [{ category, level, properties }] = records;
    assert.deepEqual([category.join(), level], ["queue,store", "error"]);
    assert.deepEqual({ ...properties }, {
      event: "storeFailed",
      during: "dispatch",
      error: "queue: disk full",
    });
  }));
