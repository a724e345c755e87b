/**
 * liteque on better-sqlite3 under Node, by the example of its README: WAL, synchronous=NORMAL, failed jobs not kept.
 * It has no bulk dispatch: bulk is `Promise.all` over `enqueue`. Its validator is left out, in its favour. Its worker
 * hands an async function to better-sqlite3's `transaction`, which current versions refuse: the old behaviour is put
 * back here, so that it runs at all.
 */
import { peer } from "../peers.ts";
import { countdown, type Payload, type Subject } from "../subject.ts";

export default async function open(file: string): Promise<Subject> {
  const { buildDBClient, Runner, SqliteQueue } = await peer("liteque/dist/index.js");
  const db = buildDBClient(file, { runMigrations: true });
  allowAsyncTransactions(db.session.client);
  const queue = new SqliteQueue("bench", db, { defaultJobArgs: { numRetries: 2 }, keepFailedJobs: false });
  return {
    dispatch: (data) => queue.enqueue(data),
    dispatchMany: (data: readonly Payload[]) => Promise.all(data.map((one) => queue.enqueue(one))),
    work(jobs, concurrency) {
      const { tick, done } = countdown(jobs);
      const worker = new Runner(
        queue,
        { run: async () => {}, onComplete: () => Promise.resolve(tick()) },
        { concurrency, pollIntervalMs: 1000, timeoutSecs: 60 },
      );
      const running = worker.run();
      return { done, stop: () => (worker.stop(), running) };
    },
    async left() {
      const { pending, pending_retry, running } = await queue.stats();
      return pending + pending_retry + running;
    },
    close: () => {},
  };
}

// deno-lint-ignore no-explicit-any -- better-sqlite3, untyped here
function allowAsyncTransactions(connection: any): void {
  const [begin, commit] = [connection.prepare("BEGIN"), connection.prepare("COMMIT")];
  connection.transaction = (body: (...parameters: unknown[]) => unknown) => {
    const run = (...parameters: unknown[]) => {
      begin.run();
      const result = body(...parameters);
      commit.run();
      return result;
    };
    return Object.assign(run, { deferred: run, immediate: run, exclusive: run });
  };
}
