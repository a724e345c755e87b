import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { inFolder } from "./folder.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";

after(endShared);

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../deno.json", import.meta.url));

const JOBS = `export default {
  echo: (job) => console.log("echo " + job.payload),
  broken: { tries: 1, handle: () => { throw new Error("no route") } },
};`;

for (const failed of ["database", "redis"]) {
  test(`Redis: every command works there, with failures in ${failed}`, { skip: noRedis }, async () => {
    const { url } = await sharedServer();
    await inFolder((cwd) => {
      writeFileSync(join(cwd, "package.json"), '{ "type": "module" }');
      writeFileSync(join(cwd, "jobs.js"), JOBS);
      // The file of the folder has some of it, as an app's does.
      writeFileSync(join(cwd, ".env"), `REDIS_URL=${url}\nREDIS_PREFIX="${newPrefix()}"\n`);
      const runs = (status: number, ...args: string[]): string => {
        const before = process.versions.deno === undefined ? [] : ["run", "-A", `--config=${CONFIG}`];
        const env: Record<string, string> = {
          NO_COLOR: "1",
          QUEUE_CONNECTION: "redis",
          QUEUE_FAILED: failed,
        };
        for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
          const value = process.env[name];
          if (value !== undefined) env[name] = value;
        }
        const ended = spawnSync(process.execPath, [...before, CLI, ...args], { cwd, env, encoding: "utf8" });
        assert.equal(ended.status, status, ended.stdout + ended.stderr);
        return ended.stdout;
      };
      const run = (...args: string[]): string => runs(0, ...args);
      const id = "[0-9a-f]{8}-[0-9a-f-]{27}";
      assert.match(run("queue:dispatch", "echo", "hi", "--id=one"), new RegExp(`^dispatched ${id} echo\n$`));
      assert.match(
        run("queue:dispatch", "echo", "hi", "--id=one"),
        new RegExp(`^one was dispatched before, as ${id} echo`),
      );
      const [, broken] = new RegExp(`(${id})`).exec(
        run("queue:dispatch", "broken", "--queue=mail", "--priority=3"),
      )!;
      const [, doomed] = new RegExp(`(${id})`).exec(
        run("queue:dispatch", "echo", "no", "--delay=1h", "--queue=later"),
      )!;
      assert.match(
        run("queue:work", "--stop-when-empty", "--queue=later"),
        /\n1 job is delayed; the next is due in (1 h|59 m \d+ s)\n$/,
      );
      assert.equal(run("queue:cancel", doomed), `removed ${doomed}\n`);
      assert.equal(run("queue:pause"), "paused every queue\n");
      assert.doesNotMatch(run("queue:work", "--stop-when-empty"), /echo hi\n/);
      assert.match(run("queue:status"), /^default \(paused\) +1 +0 /m);
      assert.equal(run("queue:resume"), "resumed every queue\n");
      assert.match(run("queue:restart"), /^told the workers/);
      assert.match(run("queue:work", "--stop-when-empty"), /echo hi\n/);
      assert.match(run("queue:failed"), /1 {2}broken {2}mail +1 .* no route/);
      assert.match(
        run("queue:show", broken),
        /\nstate {5}failed\n[^]*\nfailed attempts\n {2}1 {2}[^]*no route/,
      );
      assert.equal(JSON.parse(run("queue:show", "1", "--json")).history.length, 1);
      assert.equal(run("queue:retry", broken), `retried ${broken} broken\n`);
      const { queues } = JSON.parse(run("queue:status", "--json"));
      assert.deepEqual(
        queues.map((one: Record<string, unknown>) => [one.queue, one.ready, one.failed]),
        [["mail", 1, 0]],
      );
      const shown = JSON.parse(run("queue:show", broken, "--json"));
      assert.deepEqual([shown.state, shown.queue, shown.priority, shown.attempts], ["ready", "mail", 3, 0]);
      assert.equal(typeof shown.history[0].retriedAt, "string");
      assert.equal(run("queue:workers"), "no workers\n");
      const examined = runs(1, "queue:doctor");
      assert.match(examined, /^OK {4}store +redis:\/\/127\.0\.0\.1:\d+$/m);
      for (
        const fine of [
          "role +primary",
          "eviction +noeviction",
          "clock .* agree",
          "writing +works",
          "leases +none",
        ]
      ) {
        assert.match(examined, new RegExp(`^OK {4}${fine}`, "m"));
      }
      assert.match(examined, /^WARN {2}persistence +no append-only file/m);
      assert.match(examined, /^BAD {3}workers +none is running, and jobs wait$/m);
      assert.match(run("queue:work", "--once", "--quiet"), /^$/);
      assert.match(run("queue:forget", "all"), /^forgotten \d+ broken\n$/);
      assert.equal(run("queue:status"), "no jobs\n");
    });
  });
}
