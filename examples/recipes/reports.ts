/**
 * What every recipe serves, whatever its framework: takes a text, and tells what became of it.
 *
 * @module
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Queue, QueueError } from "@x/queue";
import jobs, { folder, type Report } from "./jobs.ts";

/** The app's queue. Jobs run in the app, too, unless `QUEUE_WORKERS` is 0 or `APP_ENV` is production. */
export const queue: Queue<typeof jobs> = new Queue({ jobs });

/** A status of HTTP, and a document. */
export interface Answer {
  /** The status. */
  readonly status: 200 | 202 | 404 | 413 | 503;
  /** The document. */
  readonly body: unknown;
}

/** Takes a text. Once this says 202, the job is on disk, and runs also when the app dies now. */
export async function order(text: string): Promise<Answer> {
  try {
    const { id } = await queue.dispatch("report", { text });
    return { status: 202, body: { id } };
  } catch (error) {
    if (!(error instanceof QueueError)) throw error;
    // Otherwise the store failed, or the app stops: nothing was accepted, and the client may try again.
    return { status: error.code === "PAYLOAD" ? 413 : 503, body: { error: error.message } };
  }
}

/** Tells where a report stands. */
export async function lookUp(id: string): Promise<Answer> {
  const unknown: Answer = { status: 404, body: { error: "there is no such report" } };
  if (!/^[\w-]{1,64}$/.test(id)) return unknown; // it comes from outside, and becomes the name of a file
  const job = await queue.find(id);
  if (job !== null) {
    const progress = await queue.progress(id);
    return { status: 200, body: { id, state: job.state, progress: progress?.fraction ?? null } };
  }
  // The queue forgets a job that is done: what it did is what is left of it.
  const report = await read(join(folder, `${id}.json`));
  return report === null ? unknown : { status: 200, body: { id, state: "done", report } };
}

async function read(path: string): Promise<Report | null> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    if ((error as { code?: string }).code === "ENOENT") return null;
    throw error;
  }
}
