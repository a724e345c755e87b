/** What the command line does on a terminal: it asks in production, and shows how far long work is. */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { bar, Progress } from "../cli/progress.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import type { Output } from "../cli/output.ts";
import { inFolder } from "./folder.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const isDeno = process.versions.deno !== undefined;
const noTerminal = spawnSync("script", ["--version"]).error === undefined
  ? false
  : "no script(1) on this machine";

/** What a terminal takes as an order to colour. */
// deno-lint-ignore no-control-regex -- it is what is looked for
const COLOUR = /\u001b\[[\d;]*m/;
const ERASE = "\r\u001b[K";

interface Ended {
  readonly status: number | null;
  /** What the terminal got. */
  readonly screen: string;
  /** What went to standard output, which is a file. */
  readonly stdout: string;
}

/** Runs a command line on a terminal, but for its standard output, and types. */
function onTerminal(
  cwd: string,
  line: string,
  keys: string,
  more: Record<string, string> = {},
): Promise<Ended> {
  const before = isDeno ? ["run", "-A", "--no-check"] : [];
  const words = [process.execPath, ...before, CLI].map((word) => `'${word}'`).join(" ");
  const env: Record<string, string> = { NODE_NO_WARNINGS: "1", TERM: "xterm", ...more };
  for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
    if (process.env[name] !== undefined) env[name] = process.env[name]!;
  }
  const child = spawn("script", ["-qec", `${words} ${line} > out`, "/dev/null"], { cwd, env, stdio: "pipe" });
  let screen = "";
  let typed = false;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    screen += text;
    if (typed || keys === "" || !screen.includes("[y/N]")) return;
    typed = true;
    child.stdin.write(keys);
  });
  child.stdin.on("error", () => {});
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (status) => {
      resolve({ status, screen, stdout: readFileSync(join(cwd, "out"), "utf8") });
    });
  });
}

/** A database with so many failed and waiting jobs. */
async function fill(cwd: string, failed: number, waiting: number): Promise<SqliteDriver> {
  const driver = new SqliteDriver({ database: join(cwd, "storage", "database.sqlite") });
  const job = { name: "mail", payload: "1", queue: "default", priority: 0, delay: 0 };
  await driver.push(Array.from({ length: failed }, () => job), null);
  const queues = [{ queue: "default", limit: failed }];
  const { jobs } = await driver.reserve({
    queues,
    limit: failed,
    prefetch: 0,
    now: null,
    retryAfter: 90_000,
  });
  const why = { error: "nope", stack: null, failedAt: Date.now() };
  await Promise.all(jobs.map((held) => driver.fail(held, why)));
  await driver.push(Array.from({ length: waiting }, () => job), null);
  return driver;
}

test(
  "in production it asks before jobs are removed, and no is no",
  { skip: noTerminal, timeout: 300_000 },
  () =>
    inFolder(async (cwd) => {
      const driver = await fill(cwd, 2, 3);
      const production = { APP_ENV: "production" };
      const no = await onTerminal(cwd, "queue:clear", "n\n", production);
      assert.match(
        no.screen,
        /this is production: remove 3 waiting jobs of every queue in storage\/database\.sqlite for good\? \[y\/N\]/,
      );
      assert.match(no.screen, /queue: nothing was changed/);
      assert.deepEqual([no.status, no.stdout], [1, ""]);
      const empty = await onTerminal(cwd, "queue:flush", "\n", production);
      assert.match(empty.screen, /delete 2 failed jobs in /);
      assert.deepEqual([empty.status, empty.stdout], [1, ""], "no answer is no");
      const interrupted = await onTerminal(cwd, "queue:flush", "\u0004", production);
      assert.deepEqual([interrupted.status, interrupted.stdout], [1, ""], "an end is no answer");
      assert.equal((await driver.failed({ after: null, limit: 9 })).length, 2);

      const flushed = await onTerminal(cwd, "queue:flush", "y\n", production);
      assert.deepEqual([flushed.status, flushed.stdout], [0, "forgot 2 failed jobs\n"]);
      const cleared = await onTerminal(cwd, "queue:clear", "Yes\n", production);
      assert.deepEqual([cleared.status, cleared.stdout], [0, "removed 3 waiting jobs of every queue\n"]);
      const unasked = await onTerminal(cwd, "queue:clear", "", production);
      assert.deepEqual([unasked.status, unasked.screen], [0, ""], "of nothing nobody is asked");
      await driver.close();
    }),
);

test("long work shows how far it is on a terminal, in no colours, and leaves nothing there", {
  skip: noTerminal,
  timeout: 300_000,
}, () =>
  inFolder(async (cwd) => {
    const driver = await fill(cwd, 1000, 0);
    const retried = await onTerminal(cwd, "queue:retry all", "");
    assert.equal(retried.stdout.split("\n").length, 1001);
    assert.match(retried.screen, /retrying █+░+ +50 % {2}500 of 1,000/);
    assert.equal(retried.screen.endsWith(ERASE), true);
    assert.doesNotMatch(retried.screen, COLOUR);
    const cleared = await onTerminal(cwd, "queue:clear --json", "", { TERM: "dumb" });
    assert.equal(cleared.screen, "", "one that cannot be drawn on");
    assert.deepEqual(JSON.parse(cleared.stdout), { count: 1000 });
    await driver.close();
  }));

test("a progress bar is as wide as there is room", () => {
  assert.equal(bar("retrying", 500, 1000, 60), "retrying ███████████████░░░░░░░░░░░░░░░  50 %  500 of 1,000");
  for (const width of [0, 1, 5, 12, 30, 40, 80, 200]) {
    for (const [done, total] of [[0, 1], [1, 3], [99_999, 100_000], [5, 5], [0, 0], [7, 5]] as const) {
      assert.equal(
        bar("retrying", done, total, width).length < Math.max(1, width),
        true,
        `${done} in ${width}`,
      );
    }
  }
  assert.match(bar("removing", 99_999, 100_000, 80), / 99 % /, "100 % is the end");
});

test("a progress bar is drawn ten times a second at most, and not without a terminal", () => {
  let screen: string[] = [];
  let now = 0;
  const output = {
    errorWidth: 60 as number | undefined,
    writeError: (text: string) => void screen.push(text),
  };
  const progress = new Progress(output as unknown as Output, "retrying", () => now);
  for (; now < 1000; now += 10) progress.to(now, 1000);
  assert.equal(screen.length, 10);
  progress.hide();
  progress.hide();
  assert.deepEqual(screen.splice(0).slice(-1), [ERASE]);
  progress.to(1000, 1000);
  assert.deepEqual(screen, [], "what is done shows no bar");
  output.errorWidth = undefined;
  progress.to(1, 1000);
  assert.deepEqual(screen, []);
  screen = [];
});

test("a progress bar does not outlive its work, also where that fails", async () => {
  const screen: string[] = [];
  const output = { errorWidth: 60, writeError: (text: string) => void screen.push(text) };
  const progress = new Progress(output as unknown as Output, "retrying");
  const work = () => {
    progress.to(1, 2);
    return Promise.reject(new Error("disk full"));
  };
  await assert.rejects(progress.over(work), { message: "disk full" });
  assert.equal(screen.at(-1), ERASE);
});
