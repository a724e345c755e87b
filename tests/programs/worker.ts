/** A worker on a file, or on Redis. It says what it runs, and stops on SIGTERM. */
import process from "node:process";
import { type Job, Queue } from "../../mod.ts";
import { options, say } from "./say.ts";

const { database, connection, redis, retryAfter, concurrency, stopWhenEmpty, prefetch } = options;

/** Hangs until its signal is aborted, and then returns as if it had done its work. */
async function hang(job: Job): Promise<void> {
  say("hanging", job.payload, job.attempt);
  await new Promise<void>((resolve) => job.signal.addEventListener("abort", () => resolve()));
  say("aborted", (job.signal.reason as { code: string }).code);
}

/** Says that it is half done, and hangs until its signal is aborted, which it then throws. */
async function obey(job: Job): Promise<void> {
  job.progress(0.5, `half of ${job.payload}`);
  say("obeying", job.payload, job.attempt);
  await new Promise((_, reject) => job.signal.addEventListener("abort", () => reject(job.signal.reason)));
}

async function record(job: Job): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 4));
  say("ran", job.payload, job.attempt);
}

const queue = new Queue({ database, connection, redis, retryAfter, jobs: { hang, obey, record }, env: {} });
const stopping = new AbortController();
process.on("SIGTERM", () => stopping.abort());
await queue.open();
say("open");
await queue.work({
  signal: stopping.signal,
  concurrency,
  stopWhenEmpty,
  prefetch,
  onEvent: ({ type, job, error }) => say(type, job.id, ...(error === undefined ? [] : [error])),
});
await queue.close();
say("ended");
