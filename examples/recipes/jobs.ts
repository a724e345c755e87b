/**
 * The job of the recipes: counts the words of a text, and leaves what it found in a file.
 *
 * It imports nothing of the app, so that `queue:work --jobs jobs.ts` can run it beside the server.
 *
 * @module
 */
import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { Discard, type Job, type Jobs } from "@x/queue";

/** Where reports lie. */
export const folder: string = process.env.REPORTS ?? "storage/reports";

/** What a report says. */
export interface Report {
  /** How many words the text has. */
  readonly words: number;
  /** The one that is there most often. */
  readonly first: string;
}

async function report(job: Job<{ text: string }>): Promise<void> {
  const words = job.data.text.toLowerCase().match(/[\p{L}\p{N}]+/gu);
  if (words === null) throw new Discard("there is no word in it"); // no use trying again
  const counts = Object.entries(Object.groupBy(words, (word) => word));
  const [[first]] = counts.sort(([, a], [, b]) => b!.length - a!.length);
  job.progress(0.5, "counted");

  // A job may run twice, and a reader may come in between: so it is there as a whole, or not at all.
  const path = join(folder, `${job.id}.json`);
  await mkdir(folder, { recursive: true });
  await writeFile(`${path}.part`, JSON.stringify({ words: words.length, first } satisfies Report));
  await rename(`${path}.part`, path);
}

const jobs = {
  report: { handle: report, timeout: { seconds: 30 } },
} satisfies Jobs;

export default jobs;
