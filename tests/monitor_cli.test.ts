import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Jobs, Queue } from "../mod.ts";
import { inFolder } from "./folder.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";
import { sendSignal } from "./signal.ts";
import { soon, until } from "./until.ts";

after(endShared);

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../deno.json", import.meta.url));

/** `queue:monitor` in a process of its own, without a terminal. */
class Monitor {
  stdout = "";
  stderr = "";
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;

  constructor(args: readonly string[], cwd: string, extra: Record<string, string> = {}) {
    const before = process.versions.deno === undefined
      ? []
      : ["run", "-A", "--no-check", `--config=${CONFIG}`];
    const env: Record<string, string> = { NODE_NO_WARNINGS: "1", ...extra };
    for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
      const value = process.env[name];
      if (value !== undefined) env[name] = value;
    }
    const words = [...before, CLI, "queue:monitor", ...args];
    this.#child = spawn(process.execPath, words, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    this.#child.stdout!.setEncoding("utf8").on("data", (text: string) => this.stdout += text);
    this.#child.stderr!.setEncoding("utf8").on("data", (text: string) => this.stderr += text);
    this.ended = new Promise((resolve) => this.#child.on("close", resolve));
  }

  end(): Promise<number | null> {
    return soon(this.ended, "queue:monitor to end");
  }

  signal(signal: "SIGTERM" | "SIGKILL"): void {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      sendSignal(this.#child.pid!, signal);
    }
  }
}

interface Parts {
  readonly queue: Queue;
  /** Starts it. */
  readonly start: (...args: string[]) => Monitor;
  /** Runs it to its end. */
  readonly run: (...args: string[]) => Promise<{ status: number | null; stdout: string; stderr: string }>;
}

const JOBS: Jobs = {
  mail: () => {},
  broken: {
    tries: 1,
    handle: () => {
      throw new Error("no route to host");
    },
  },
};

function withMonitor(sentence: string, use: (parts: Parts) => Promise<void>): void {
  test(sentence, () =>
    inFolder(async (cwd) => {
      const log = { warn: () => {}, error: () => {} };
      const database = join(cwd, "storage/database.sqlite");
      const queue = new Queue({ jobs: JOBS, database, env: {}, log });
      const started: Monitor[] = [];
      const start = (...args: string[]): Monitor => {
        started.push(new Monitor(args, cwd));
        return started.at(-1)!;
      };
      try {
        await queue.open();
        await use({
          queue,
          start,
          run: async (...args) => {
            const monitor = start(...args);
            return { status: await monitor.end(), stdout: monitor.stdout, stderr: monitor.stderr };
          },
        });
      } finally {
        for (const monitor of started) {
          monitor.signal("SIGKILL");
          await monitor.end();
        }
        await queue.close();
      }
    }));
}

withMonitor("queue:monitor looks once, and exits with 0 where nothing is wrong", async ({ queue, run }) => {
  await queue.dispatch("broken");
  await queue.work({ stopWhenEmpty: true });
  await queue.dispatchLater("mail", 1, { hours: 1 });
  const { status, stdout, stderr } = await run("--max=0", "--oldest=0");
  assert.deepEqual([status, stderr], [0, ""]);
  assert.match(stdout, /^QUEUE +READY +DELAYED +RESERVED +FAILED +OLDEST WAITS\ndefault +0 +1 +0 +1 +-\n/);
  assert.match(
    stdout,
    /\nFAILED AT +NAME +ID +QUEUE +ERROR\n[-\d]+ [:\d]+ +broken +1 +default +no route to host\n$/,
  );
});

withMonitor("queue:monitor exits with 1 on an alert, and says why and what to do", async ({ queue, run }) => {
  await queue.dispatchMany([["mail", 1], ["mail", 2], ["mail", 3, { queue: "held" }]]);
  await queue.pause("held");
  const { status, stdout, stderr } = await run("--max=1", "--oldest=0");
  assert.equal(status, 1);
  assert.match(stdout, /^held \(paused\) +1 /m);
  const lines = stderr.trimEnd().split("\n");
  const expected = [
    /^queue: held is paused, and 1 job waits: queue:resume --queue=held lets workers go on$/,
    /^queue: in default 2 jobs wait, more than 1: start more workers/,
    /^queue: in default a job has been waiting for .*, longer than 0 ms: start more workers/,
  ];
  for (const pattern of expected) {
    assert.ok(lines.some((line) => pattern.test(line)), `${pattern}: ${stderr}`);
  }

  const asJson = await run("--max=1", "--json");
  assert.equal(asJson.status, 1);
  const { alerts, queues, total } = JSON.parse(asJson.stdout);
  assert.deepEqual(
    queues.map((one: Record<string, unknown>) => [one.queue, one.ready, one.paused]),
    [["default", 2, false], ["held", 1, true]],
  );
  assert.equal(total.ready, 3);
  assert.ok(alerts.some((one: Record<string, unknown>) => one.kind === "workers" && one.queue === null));
  assert.ok(alerts.some((one: Record<string, unknown>) => one.kind === "max" && one.queue === "default"));
});

withMonitor(
  "queue:monitor --watch prints lines without a terminal, and says when an alert begins and is over",
  async ({ queue, start }) => {
    const monitor = start("--watch", "--interval=100ms");
    const saw = (text: RegExp, where: "stdout" | "stderr" = "stdout"): Promise<boolean> =>
      until(() => text.test(monitor[where]), `${text} in ${where}`);
    await saw(/^[-\d]+ [:\d]+ {2}no jobs\n/m);
    await queue.pause("held");
    await queue.dispatch("mail", 1, { queue: "held" });
    await saw(
      / {2}held \(paused\) {2}ready 1 {2}delayed 0 {2}reserved 0 {2}failed 0 {2}oldest waits [\d.]+ m?s\b/,
    );
    await saw(/^queue: held is paused, and 1 job waits: queue:resume --queue=held/m, "stderr");
    await queue.resume("held");
    await saw(/^queue: over: held is paused, and 1 job waits$/m, "stderr");
    const looks = (): number => monitor.stdout.split(/ {2}held {2}ready 1 /).length;
    const before = looks();
    await until(() => looks() > before + 2, "it to go on");
    assert.equal(monitor.stderr.match(/held is paused/g)!.length, 2, "each once, and not with every look");
    assert.ok(!monitor.stdout.includes("\u001b"));
  },
);

withMonitor(
  "queue:monitor --watch ends by a signal, with the status of its last look",
  async ({ queue, start }) => {
    const calm = start("--watch", "--interval=100ms", "--json");
    await until(() => calm.stdout.split("\n").length > 3, "some looks");
    calm.signal("SIGTERM");
    assert.equal(await calm.end(), 0);
    const documents = calm.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
    assert.ok(documents.every(({ alerts, queues }) => alerts.length === 0 && queues.length === 0));
    assert.ok(documents[0].time < documents.at(-1).time);

    await queue.dispatch("mail", 1);
    await queue.pause();
    const alarmed = start("--watch", "--interval=100ms", "--json");
    await until(() => alarmed.stderr !== "", "the alert");
    alarmed.signal("SIGTERM");
    assert.equal(await alarmed.end(), 1);
    assert.equal(JSON.parse(alarmed.stdout.split("\n")[0]!).alerts[0].kind, "paused");
  },
);

withMonitor("queue:monitor makes no database, and refuses what cannot be meant", async ({ run }) => {
  const missing = await run("--database=nowhere.sqlite");
  assert.deepEqual(missing, { status: 1, stdout: "", stderr: "queue: no database at nowhere.sqlite\n" });
});

test(
  "Redis: queue:monitor works there, and watches the same limits",
  { skip: noRedis },
  async () => {
    const { url } = await sharedServer();
    await inFolder(async (cwd) => {
      const prefix = newPrefix();
      const env = { QUEUE_CONNECTION: "redis", QUEUE_FAILED: "redis", REDIS_URL: url, REDIS_PREFIX: prefix };
      const queue = new Queue({ jobs: JOBS, env, log: { warn: () => {}, error: () => {} } });
      try {
        await queue.dispatchMany([["mail", 1], ["mail", 2]]);
        const full = new Monitor(["--max=1"], cwd, env);
        assert.equal(await full.end(), 1, full.stderr);
        assert.match(full.stdout, /^default +2 +0 +0 +0 +[\d.]+ m?s$/m);
        assert.match(full.stderr, /^queue: in default 2 jobs wait, more than 1: /m);
        const early = new Monitor(["--oldest=5m"], cwd, env);
        await early.end();
        assert.doesNotMatch(early.stderr, /longer than/);
        const late = new Monitor(["--oldest=0"], cwd, env);
        assert.equal(await late.end(), 1);
        assert.match(late.stderr, /^queue: .*longer than/m);
      } finally {
        await queue.close();
      }
    });
  },
);
