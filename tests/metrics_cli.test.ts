/** `queue:work --metrics`, and `--log`. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseAddress } from "../cli/address.ts";
import { Queue } from "../mod.ts";
import { inFolder } from "./folder.ts";
import { sendSignal } from "./signal.ts";
import { soon, until } from "./until.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const CONFIG = fileURLToPath(new URL("../deno.json", import.meta.url));

const JOBS = `export default {
  mail: () => {},
  bad: { tries: 1, handle: () => { throw new Error("no \\u001b[31mroute"); } },
};
`;

interface Command {
  readonly child: ChildProcess;
  /** What it printed so far, and what it said of problems. */
  output: string;
  errors: string;
  readonly ended: Promise<number | null>;
}

/** Starts a command line in a folder with jobs. */
function start(cwd: string, line: string, env: Record<string, string> = {}): Command {
  writeFileSync(join(cwd, "jobs.ts"), JOBS);
  const before = process.versions.deno === undefined ? [] : ["run", "-A", `--config=${CONFIG}`];
  const child = spawn(process.execPath, [...before, CLI, ...line.split(" ")], {
    cwd,
    env: { ...process.env, NODE_NO_WARNINGS: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const command: Command = {
    child,
    output: "",
    errors: "",
    ended: once(child, "close").then(([status]) => status as number | null),
  };
  child.stdout!.setEncoding("utf8").on("data", (text: string) => command.output += text);
  child.stderr!.setEncoding("utf8").on("data", (text: string) => command.errors += text);
  return command;
}

/** Runs a test with a folder and what it starts there, which ends with it. */
function inProject(
  run: (start: (line: string, env?: Record<string, string>) => Command, cwd: string) => Promise<void>,
): Promise<void> {
  return inFolder(async (cwd) => {
    const started: Command[] = [];
    try {
      await run((line, env) => {
        started.push(start(cwd, line, env));
        return started.at(-1)!;
      }, cwd);
    } finally {
      for (const { child, ended } of started) {
        child.kill("SIGKILL");
        await ended;
      }
    }
  });
}

/** Stores jobs where the command line finds them. */
async function store(cwd: string, ...names: ("mail" | "bad")[]): Promise<void> {
  const queue = new Queue({
    jobs: { mail: {}, bad: {} },
    env: {},
    database: join(cwd, "storage/database.sqlite"),
  });
  await queue.dispatchMany(names.map((name) => [name, { secret: "hunter2" }]));
  await queue.close();
}

test("queue:work --metrics serves metrics and health beside the worker, on this machine alone", () =>
  inProject(async (start, cwd) => {
    await store(cwd, "mail", "bad");
    const worker = start("queue:work --metrics 0");
    await until(() => /FAIL/.test(worker.output), `the jobs to have run: ${worker.errors}`);
    const url = /^metrics on (http:\/\/127\.0\.0\.1:\d+)\/metrics$/m.exec(worker.output)?.[1];
    assert.ok(url !== undefined, worker.output);
    const text = await (await fetch(`${url}/metrics`)).text();
    assert.match(text, /^queue_attempts_total\{queue="default",name="mail",outcome="completed"\} 1$/m);
    assert.match(text, /^queue_jobs\{queue="default",state="failed"\} 1$/m);
    assert.match(text, /^process_resident_memory_bytes \d+$/m);
    const health = await fetch(`${url}/health`);
    assert.deepEqual([health.status, (await health.json()).status], [200, "ready"]);
    assert.equal((await fetch(url)).status, 404);
    assert.equal((await fetch(`${url}/metrics`, { method: "POST" })).status, 405);
    sendSignal(worker.child.pid!, "SIGTERM");
    assert.equal(await soon(worker.ended, "the worker to end"), 0);
    await assert.rejects(fetch(`${url}/health`), "nobody listens any more");
  }));

test("QUEUE_METRICS says where, with processes too", () =>
  inProject(async (start, cwd) => {
    await store(cwd, "mail");
    const worker = start("queue:work --processes 1", { QUEUE_METRICS: "127.0.0.1:0" });
    await until(() => /DONE/.test(worker.output), `the job to have run: ${worker.errors}`);
    const url = /^metrics on (\S+)$/m.exec(worker.output)?.[1];
    const text = await (await fetch(url!)).text();
    assert.match(text, /^queue_run_seconds_count\{queue="default",name="mail"\} 1$/m);
  }));

test("an address that cannot be listened on is named", () =>
  inProject(async (start) => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    const taken = start(`queue:work --metrics ${port}`);
    assert.equal(await soon(taken.ended, "the command to end"), 1);
    assert.match(
      taken.errors,
      new RegExp(`^queue: --metrics: cannot listen on http://127.0.0.1:${port}: .*\n$`),
    );
    other.close();
    for (
      const [line, env, expected] of [
        ["queue:work --metrics here", {}, /--metrics.*here.*Expected a port/s],
        [
          "queue:work",
          { QUEUE_METRICS: "here" },
          /^queue: QUEUE_METRICS="here": expected a port, or an address and a port/,
        ],
        ["queue:work", { QUEUE_OTEL: "yes" }, /^queue: QUEUE_OTEL="yes": expected 1 or 0/],
        ["queue:work --log xml", {}, /--log.*xml.*Expected json or pretty/s],
        ["queue:work --log json --json", {}, /^queue: --log: expected no --json beside it/],
      ] as const
    ) {
      const command = start(line, env);
      assert.equal(await soon(command.ended, "the command to end"), 2, line);
      assert.match(command.errors, expected);
    }
  }));

test("--log json prints a record for each event, and nothing else", () =>
  inProject(async (start, cwd) => {
    await store(cwd, "mail", "bad");
    const worker = start("queue:work --log json --stop-when-empty");
    assert.equal(await soon(worker.ended, "the worker to end"), 0, worker.errors);
    const records = worker.output.trimEnd().split("\n").map((line) => JSON.parse(line));
    const of = (event: string) => records.filter(({ properties }) => properties.event === event);
    assert.deepEqual(records.map(({ logger }) => logger).sort()[0], "queue.job");
    assert.equal(of("workerStarted")[0].logger, "queue.worker");
    assert.equal(of("completed")[0].properties.name, "mail");
    assert.equal(typeof of("completed")[0].properties.duration, "number");
    assert.match(of("failed")[0].properties.error, /route/);
    assert.equal(of("failed")[0].level, "ERROR");
    assert.equal(worker.output.includes("hunter2"), false, "no payload");
    assert.equal(worker.output.includes("\u001b"), false);
    assert.equal(worker.errors, "");
  }));

test("--log pretty prints a line for each event that no terminal obeys", () =>
  inProject(async (start, cwd) => {
    await store(cwd, "bad");
    const worker = start("queue:work --log pretty --stop-when-empty");
    assert.equal(await soon(worker.ended, "the worker to end"), 0, worker.errors);
    assert.match(worker.output, /failed .*bad.*after attempt 1 of 1.*route/);
    assert.equal(worker.output.includes("\u001b[31m"), false);
  }));

test("an address is a port, or a host and a port", () => {
  assert.deepEqual(parseAddress("9464"), { host: "127.0.0.1", port: 9464 });
  assert.deepEqual(parseAddress("0.0.0.0:80"), { host: "0.0.0.0", port: 80 });
  assert.deepEqual(parseAddress("[::1]:80"), { host: "::1", port: 80 });
  assert.deepEqual(parseAddress("localhost:0"), { host: "localhost", port: 0 });
  for (const text of ["", "x", ":80", "::1:80", "1:65536", "http://a:80", "a b:80", "-1"]) {
    assert.equal(parseAddress(text), undefined, text);
  }
});
