/** What a user of the command line does with it, whatever way it came. */
import assert from "node:assert/strict";
import { VERSION } from "../../version.ts";
import type { Command, Ended, Place } from "./place.ts";

/** The module of jobs, in a project that has the package. Whom it greets has a file then, with the runtime that did it. */
export const TYPED_JOBS = `
import type { Job, Jobs } from "@x/queue";
import { appendFileSync } from "node:fs";
import process from "node:process";

const runtime = process.versions.bun ? "Bun" : process.versions.deno ? "Deno" : "Node";

export default {
  greet: (job: Job<{ name: string }>) => appendFileSync(\`\${job.data.name}.txt\`, runtime + "\\n"),
  crash: { tries: 1, handle: (): void => process.exit(3) },
  refuse: {
    tries: 1,
    handle: (): void => {
      throw new Error("no");
    },
  },
} satisfies Jobs;
`;

/** The same where there is no package to take a type from. */
export const PLAIN_JOBS: string = TYPED_JOBS.replace(/^import type .*$/m, "type Job<Data> = { data: Data };")
  .replace(" satisfies Jobs", "");

/** Dispatches, works, repairs and looks on, in a place that has a \`jobs.ts\`. */
export async function tour(place: Place, command: Command, runtime: "Deno" | "Bun" | "Node"): Promise<void> {
  const queue = (status: number, ...args: string[]): Promise<Ended> =>
    place.run([...command, ...args], status);
  assert.equal((await queue(0, "--version")).stdout, `${VERSION}\n`);
  assert.match((await queue(2, "queue:wrok")).stderr, /Did you mean queue:work\?/);

  // In processes, of which one ends in the middle of a job.
  for (const name of ["crash", "refuse", "greet"]) await queue(0, "queue:dispatch", name, '{"name":"Ada"}');
  const apart = await queue(0, "queue:work", "--processes=2", "--stop-when-empty");
  assert.match(apart.stdout, / 2 processes\n/);
  assert.equal(place.read("Ada.txt"), `${runtime}\n`, apart.stderr);
  const failed: { id: string; name: string; error: string }[] =
    JSON.parse((await queue(0, "queue:failed", "--json")).stdout).failed;
  assert.deepEqual(failed.map(({ name, error }) => `${name} ${error}`).sort(), [
    "crash crashed: exit 3",
    "refuse no",
  ]);

  // In one, until it is told to stop.
  assert.match((await queue(0, "queue:retry", "--name=refuse")).stdout, /^retried \d+ refuse\n$/);
  await queue(1, "queue:retry", "404");
  const worker = place.start([...command, "queue:work"]);
  await worker.says("FAIL: no");
  const stopped = await worker.end("SIGTERM");
  assert.equal(stopped.status, 0, stopped.stderr);
  assert.match(stopped.stdout, /^working every queue · .* · 3 job types\n/);

  const dashboard = place.start([...command, "queue:dashboard", "--port=0", "--json"]);
  const { url } = JSON.parse(await dashboard.says("}"));
  const page = await (await fetch(url)).text();
  const assets = [...page.matchAll(/ (?:href|src)="(\?get=[^"]*)"/g)].map(([, path]) =>
    path.replace("&amp;", "&")
  );
  assert.ok(assets.length >= 2, page);
  for (const asset of assets) {
    const answer = await fetch(new URL(asset, url));
    assert.equal(answer.status, 200, asset);
    assert.ok((await answer.text()).length > 10_000, asset);
  }
  assert.equal((await dashboard.end("SIGTERM")).status, 0);
}
