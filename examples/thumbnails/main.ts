/**
 * Makes thumbnails of every image in a folder: dispatches a job for each, and works in the same process until all are
 * done.
 *
 * ```sh
 * deno run -A examples/thumbnails/main.ts [FOLDER [TARGET]]
 * ```
 *
 * With Bun or Node 24, write `bun` or `node` for `deno run -A`.
 *
 * @module
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { Queue } from "@x/queue";
import jobs from "./jobs.ts";

const [
  source = fileURLToPath(new URL("images", import.meta.url)),
  folder = "storage/thumbnails",
] = process.argv.slice(2);

const queue = new Queue({ jobs });
for (const name of (await readdir(source)).sort()) {
  if (!/\.(jpe?g|png|webp|gif|avif|tiff?)$/i.test(name)) continue;
  const { id } = await queue.dispatch("thumbnail", { source: join(source, name), folder });
  console.log(`job ${id}: ${name}`);
}
await queue.work({
  concurrency: 4,
  stopWhenEmpty: true,
  onEvent: ({ type, job, duration }) => {
    if (type === "completed") console.log(`job ${job.id}: done in ${Math.round(duration ?? 0)} ms`);
  },
});
await queue.close();
console.log(`the thumbnails are in ${folder}`);
