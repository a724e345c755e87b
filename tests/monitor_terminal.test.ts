import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Job, Queue } from "../mod.ts";
import { inFolder } from "./folder.ts";
import { InTerminal, noTerminal } from "./pseudo_terminal.ts";
import { until } from "./until.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../deno.json", import.meta.url));
const CRASH = fileURLToPath(new URL("programs/terminal_crash.ts", import.meta.url));
const isDeno = process.versions.deno !== undefined;
const RUNTIME = isDeno
  ? [process.execPath, "run", "-A", "--no-check", `--config=${CONFIG}`]
  : [process.execPath];
const MONITOR = [...RUNTIME, CLI, "queue:monitor", "--watch", "--interval=100ms"];

/** Only what a runtime needs. */
function environment(extra: Record<string, string>): Record<string, string> {
  const env: Record<string, string> = { NODE_NO_WARNINGS: "1", ...extra };
  for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  return env;
}

interface Parts {
  readonly queue: Queue;
  /** The path of its database. */
  readonly database: string;
  /** Starts a program in a terminal. */
  readonly start: (command?: readonly string[], options?: Options) => InTerminal;
}

interface Options {
  readonly env?: Record<string, string>;
  readonly width?: number;
  readonly height?: number;
}

/** A test with a store of its own, and a terminal. */
function inTerminal(sentence: string, use: (parts: Parts) => Promise<void>): void {
  test(sentence, { skip: noTerminal }, () =>
    inFolder(async (cwd) => {
      const log = { warn: () => {}, error: () => {} };
      const database = join(cwd, "storage/database.sqlite");
      const queue = new Queue({ jobs: { mail: () => {}, thumbnail: () => {} }, database, env: {}, log });
      let program: InTerminal | undefined;
      try {
        await queue.open();
        await use({
          queue,
          database,
          start: (command = MONITOR, { env = {}, width = 80, height = 24 } = {}) =>
            program = new InTerminal(command, { cwd, env: environment(env), width, height }),
        });
      } finally {
        await program?.kill();
        await queue.close();
      }
    }));
}

/** The terminal is as it was: its screen, its cursor, its lines, and how it takes keys. */
function assertRestored(program: InTerminal): void {
  assert.equal(program.screen.isAlternate, false, "the screen of before is back");
  assert.match(program.screen.rows[0]!, /^a line of before$/);
  for (const [set, reset] of [["?25l", "?25h"], ["?7l", "?7h"], ["?1049h", "?1049l"]] as const) {
    const last = program.output.lastIndexOf(`\u001b[${set}`);
    assert.notEqual(last, -1, set);
    assert.ok(program.output.lastIndexOf(`\u001b[${reset}`) > last, `${reset} after the last ${set}`);
  }
  assert.equal(program.settings("after"), program.settings("before"));
}

inTerminal(
  "the live view shows what changes in the store, and q leaves the terminal as it was",
  async ({ queue, start }) => {
    await queue.dispatchLater("mail", 1, { hours: 1 }, { queue: "slow" });
    const program = start();
    await program.shows(/^› slow +0 +1 +0 +0 +- /m);
    assert.equal(program.screen.isAlternate, true);
    await program.showsRow(0, /^queue:monitor · storage\/database\.sqlite · every 100 ms +\d\d:\d\d:\d\d$/);
    await program.showsRow(23, /^q quit/);
    await queue.dispatchLater("mail", 1, { hours: 1 });
    await program.shows(/^ {2}default +0 +1 [^]*^› slow +0 +1 [^]*^ {2}total +0 +2 /m);
    program.type("q");
    assert.equal(await program.end(), 0);
    assertRestored(program);
    assert.equal(program.screen.text.trim(), "a line of before");
  },
);

inTerminal("the live view is drawn anew where the terminal changes its size", async ({ queue, start }) => {
  for (let at = 10; at < 40; at++) {
    await queue.dispatchLater("mail", 1, { hours: 1 }, { queue: `queue-${at}` });
  }
  const program = start();
  await program.shows(/1–\d+ of 30/);
  await program.shows("DELAYED");
  program.resize(40, 15);
  await program.shows(/^q quit {2}↑↓ queue {2}p pause or resume it$/m);
  await program.shows(/^ {2}1–\d of 30 +READY +FAILED +WAITS$/m);
  assert.equal(program.screen.rows.length, 15);
  await program.showsRow(14, /^q quit/);
  program.type("\u001b[F");
  await program.shows("› queue-39");
  program.resize(100, 40);
  await program.shows(/^ {2}QUEUE .*LAST LOOKS$[^]*^ {2}queue-10 [^]*^› queue-39 /m);
  await program.showsRow(39, /^q quit/);
  program.type("q");
  assert.equal(await program.end(), 0);
  assertRestored(program);
});

inTerminal("p pauses the selected queue and resumes it, each after a yes", async ({ queue, start }) => {
  await queue.dispatch("mail", 1, { queue: "a" });
  await queue.dispatch("mail", 1, { queue: "b" });
  const program = start();
  await program.shows("› a");
  program.type("\u001b[B");
  await program.shows("› b");
  program.type("p");
  await program.shows("pause b? y: yes, any other key: no");
  program.type("n");
  await program.shows("q quit");
  assert.deepEqual((await queue.paused()).queues, [], "not without a yes");
  program.type("p");
  await program.shows("pause b? y");
  program.type("y");
  await program.shows("paused b");
  await program.shows("› b (paused)");
  await program.shows("! b is paused, and 1 job waits");
  assert.deepEqual(await queue.paused(), { all: false, queues: ["b"] });
  program.type("q");
  assert.equal(await program.end(), 1, "something is wrong");
  assertRestored(program);
  assert.match(
    program.screen.text,
    /^queue: b is paused, and 1 job waits: queue:resume --queue=b lets workers go on$/m,
    "it is said again where it stays",
  );
});

inTerminal(
  "other processes' workers are shown: what they run, how far it is, and what failed",
  async (parts) => {
    const { queue, database, start } = parts;
    const gate = Promise.withResolvers<void>();
    const worker = new Queue({
      database,
      env: {},
      log: { warn: () => {}, error: () => {} },
      jobs: {
        mail: {
          tries: 1,
          handle: () => {
            throw new Error("no route to host");
          },
        },
        thumbnail: async (job: Job) => {
          job.progress(0.5, "half of 写真");
          await gate.promise;
        },
      },
    });
    try {
      await queue.dispatch("mail", 1);
      const { id } = await queue.dispatch("thumbnail", 1);
      worker.start(3);
      const program = start(MONITOR, { width: 100 });
      await program.shows(/^WORKERS {2}1 worker · 1 of 3 slots busy/m);
      await program.shows(new RegExp(`^ {2}[^ ]+:${process.pid} {2}1/3 {2}every queue {2}1 ended$`, "m"));
      await program.shows(new RegExp(`^ {4}thumbnail ${id} .* {2}█████░░░░░ 50 % {2}half of 写真$`, "m"));
      await program.shows(/^LAST FAILURES\n {2}[-\d]+ [:\d]+ {2}mail 1 {2}default {2}no route to host$/m);
      await program.shows(/^no alert$/m);
      gate.resolve();
      await program.shows(/^WORKERS {2}1 worker · 0 of 3 slots busy/m);
      await worker.close();
      await program.shows(/^WORKERS {2}no worker/m);
      await queue.dispatch("mail", 2);
      await program.shows("! no worker is alive, and 1 job waits: start queue:work");
      program.type("q");
      assert.equal(await program.end(), 1);
    } finally {
      gate.resolve();
      await worker.close();
    }
  },
);

for (
  const [name, send] of [
    ["SIGTERM", (program: InTerminal) => program.signal("SIGTERM")],
    ["SIGHUP", (program: InTerminal) => program.signal("SIGHUP")],
    ["Ctrl-C", (program: InTerminal) => program.type("\u0003")],
  ] as const
) {
  inTerminal(`the live view ends by ${name}, and leaves the terminal as it was`, async ({ start }) => {
    const program = start();
    await program.shows("no jobs");
    send(program);
    assert.equal(await program.end(), 0);
    assertRestored(program);
  });
}

inTerminal(
  "Ctrl-Z gives the terminal back, and it is taken again when the program goes on",
  async ({ start }) => {
    const program = start();
    await program.shows("no jobs");
    program.type("\u001a");
    const state = (): string =>
      /^State:\s+(\w)/m.exec(readFileSync(`/proc/${program.pid}/status`, "utf8"))![1]!;
    await until(() => state() === "T", "it to stop");
    await until(async () => {
      await program.screen.written;
      return !program.screen.isAlternate;
    }, "the screen of before");
    program.signal("SIGCONT");
    await program.shows("no jobs");
    assert.equal(program.screen.isAlternate, true);
    program.type("q");
    assert.equal(await program.end(), 0);
    assertRestored(program);
  },
);

inTerminal("a program that dies of an error while it has the terminal gives it back", async ({ start }) => {
  const program = start([...RUNTIME, CRASH]);
  await program.shows("about to crash");
  program.type("x");
  assert.notEqual(await program.end(), 0);
  assertRestored(program);
  assert.match(program.screen.text, /nobody expected this/, "and its error can be read");
});

inTerminal(
  "NO_COLOR is honoured, and a terminal that cannot be drawn on gets lines",
  async ({ queue, start }) => {
    await queue.dispatch("mail", 1);
    const plain = start(MONITOR, { env: { NO_COLOR: "1" } });
    await plain.shows("› default");
    plain.type("q");
    await plain.end();
    // deno-lint-ignore no-control-regex -- what paints
    assert.doesNotMatch(plain.output, /\u001b\[[\d;]*m/);
    const dumb = start(MONITOR, { env: { TERM: "dumb" } });
    await dumb.shows(/ {2}default {2}ready 1 {2}delayed 0 {2}reserved 0 {2}failed 0 /);
    dumb.signal("SIGTERM");
    await dumb.end();
    // deno-lint-ignore no-control-regex -- what paints, and the alternate screen; Deno itself writes some others
    assert.doesNotMatch(dumb.output, /\u001b\[([\d;]*m|\?1049h)/);
  },
);
