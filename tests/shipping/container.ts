/**
 * The files in deploy/ for containers, as a user of Docker has them: compose.yaml builds the image and starts Redis and
 * two workers, which are stopped with jobs in hand. Run by `deno task ok container`.
 *
 * It needs Docker with its compose plugin, and the base images or a registry that has them. Where Docker does not run,
 * it is skipped.
 *
 * @module
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { run } from "../../scripts/command.ts";
import { root } from "../../scripts/runtimes.ts";
import { inFolder } from "../folder.ts";
import { until } from "../until.ts";

/** Why there is no Docker to build with, or no image to build on. */
function missing(): string | false {
  return refusal(10, "version") || refusal(10, "compose", "version") ||
    baseImages().reduce(
      (why: string | false, image) =>
        why || refusal(10, "image", "inspect", image) && refusal(300, "pull", "--quiet", image),
      false,
    );
}

/** Why `docker` refuses a command, or does not do it within so many seconds. */
function refusal(seconds: number, ...args: readonly string[]): string | false {
  const { error, status, stderr } = spawnSync("docker", args, { encoding: "utf8", timeout: seconds * 1000 });
  if (status === 0) return false;
  return `docker ${args.join(" ")}: ${error?.message ?? stderr.trim().split("\n").at(-1)}`;
}

/** The images of others that the files in deploy/ name. */
function baseImages(): string[] {
  const read = (name: string): string => readFileSync(join(root, "deploy", name), "utf8");
  const stages = [...read("Dockerfile").matchAll(/^FROM (\S+)/gm)];
  const services = [...read("compose.yaml").matchAll(/^ +image: (\S+)$/gm)];
  return [...new Set([...stages, ...services].map(([, image]) => image!))];
}

/** Jobs that a stop meets while they run. */
const JOBS = `
export default {
  slow: async (job) => {
    console.log("begun", job.id);
    await new Promise((resolve) => setTimeout(resolve, 5000));
    console.log("ended", job.id);
  },
};
`;

interface Container {
  readonly Service: string;
  readonly ExitCode: number;
  readonly State: string;
  readonly Health: string;
}

class Composition {
  readonly #files: readonly string[];
  readonly #name: string = `queue-test-${process.pid}`;

  constructor(...files: readonly string[]) {
    this.#files = files;
  }

  /** What a command of `docker compose` printed; fails unless it ends with status 0. */
  async run(...args: readonly string[]): Promise<string> {
    const files = this.#files.flatMap((file) => ["--file", file]);
    const before = ["compose", "--ansi=never", "--project-name", this.#name, ...files];
    const { why, output } = await run("docker", [...before, ...args], { seconds: 600, output: "keep" });
    assert.equal(why, undefined, `docker compose ${args.join(" ")}: ${output}`);
    return output;
  }

  /** A command of the queue, in one of the workers. */
  queue(...args: readonly string[]): Promise<string> {
    return this.run("exec", "-T", "worker", "queue", ...args);
  }

  /** The jobs of which the workers have printed this. */
  async printed(what: "begun" | "ended"): Promise<string[]> {
    const logs = await this.run("logs", "--no-log-prefix", "worker");
    return [...logs.matchAll(new RegExp(`${what} (\\S+)`, "g"))].map(([, id]) => id!).sort();
  }

  async workers(): Promise<Container[]> {
    const lines = await this.run("ps", "--all", "--format=json", "worker");
    return lines.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  }
}

test(
  "workers of the image, on Redis, are healthy, and finish their jobs at a stop",
  { skip: missing() },
  () =>
    inFolder(async (folder) => {
      const jobs = join(folder, "jobs.mjs");
      writeFileSync(jobs, JOBS);
      const own = join(folder, "own.json");
      writeFileSync(
        own,
        JSON.stringify({ services: { worker: { volumes: [`${jobs}:/app/jobs.ts:ro`] } } }),
      );
      const composition = new Composition("deploy/compose.yaml", own);
      try {
        await composition.run("up", "--build", "--wait", "--scale", "worker=2");
        assert.deepEqual((await composition.workers()).map(({ State, Health }) => `${State} ${Health}`), [
          "running healthy",
          "running healthy",
        ]);
        assert.equal((await composition.run("exec", "-T", "worker", "id", "-u")).trim(), "10001");
        assert.match(await composition.queue("queue:doctor"), /^0 bad, 0 to look at/m);

        for (let count = 0; count < 3; count++) await composition.queue("queue:dispatch", "slow");
        const begun = await until(async () => {
          const ids = await composition.printed("begun");
          return ids.length === 3 && ids;
        }, "the jobs to begin");
        await composition.run("stop", "worker");
        assert.deepEqual(await composition.printed("ended"), begun, "finished, and not cut off");
        assert.deepEqual((await composition.workers()).map(({ State, ExitCode }) => `${State} ${ExitCode}`), [
          "exited 0",
          "exited 0",
        ]);
      } finally {
        await composition.run("down", "--volumes", "--rmi", "local", "--timeout", "1");
      }
    }),
);
