import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { formatDuration, parseDuration } from "../cli/duration.ts";
import { flat, oneLine } from "../cli/one_line.ts";
import { storeName } from "../cli/open_queue.ts";
import { slipsOf } from "../cli/slips.ts";
import { suggest } from "../cli/suggest.ts";
import { table } from "../cli/table.ts";
import { eventLine } from "../cli/work_lines.ts";
import { type Jobs, Queue, VARIABLES } from "../mod.ts";
import { VERSION } from "../version.ts";
import { inFolder } from "./folder.ts";
import { sendSignal } from "./signal.ts";
import { until } from "./until.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const CLI_URL = pathToFileURL(CLI).href;
const CONFIG = fileURLToPath(new URL("../deno.json", import.meta.url));

const COMMANDS = [
  "queue:work",
  "queue:retry",
  "queue:forget",
  "queue:failed",
  "queue:status",
  "queue:monitor",
  "queue:dispatch",
  "queue:pause",
  "queue:resume",
  "queue:restart",
  "queue:cancel",
  "queue:dashboard",
  "queue:show",
  "queue:workers",
  "queue:doctor",
  "queue:flush",
  "queue:prune-failed",
  "queue:clear",
];

/** Jobs that end in each way; `patient` until there is a file `go`. */
const JOBS = `
import { existsSync } from "node:fs";
export default {
  echo: (job) => console.log("echo " + job.payload),
  flaky: { backoff: [10_000], handle: () => { throw new Error("upstream 503\\nand more"); } },
  broken: { tries: 1, handle: () => { throw new Error("broken " + "x".repeat(4000)); } },
  patient: () => new Promise((resolve) => {
    const timer = setInterval(() => {
      if (!existsSync("go")) return;
      clearInterval(timer);
      console.log("patient went");
      resolve();
    }, 5);
  }),
  obedient: (job) => new Promise((_, reject) => {
    job.signal.addEventListener("abort", () => reject(job.signal.reason));
  }),
  stubborn: () => new Promise(() => {}),
};
`;

interface Runtime {
  readonly name: "deno" | "bun" | "node";
  readonly command: readonly string[];
}

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

interface Options {
  readonly cwd: string;
  readonly env?: Record<string, string>;
  readonly input?: string;
}

/** A line of a stack trace. */
const STACK = /^\s+at /m;

/** The one that runs this: the suite runs on each. */
function ownRuntime(): Runtime {
  const { deno, bun } = process.versions;
  return runtime(deno ? "deno" : bun ? "bun" : "node", process.execPath);
}

function runtime(name: Runtime["name"], executable: string): Runtime {
  return { name, command: name === "deno" ? [executable, "run", "-A", `--config=${CONFIG}`] : [executable] };
}

/** Only what a runtime needs: the settings of whoever runs the tests must not be seen. */
function environment(extra: Record<string, string> = {}): Record<string, string> {
  const env: Record<string, string> = { NODE_NO_WARNINGS: "1", ...extra };
  for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  return env;
}

type StopSignal = "SIGTERM" | "SIGINT" | "SIGHUP";

class Running {
  stdout = "";
  stderr = "";
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;

  constructor(command: readonly string[], { cwd, env, input }: Options) {
    this.child = spawn(command[0]!, command.slice(1), { cwd, env: environment(env), stdio: "pipe" });
    this.child.stdout!.setEncoding("utf8").on("data", (text: string) => this.stdout += text);
    this.child.stderr!.setEncoding("utf8").on("data", (text: string) => this.stderr += text);
    if (input !== undefined) this.child.stdin!.end(input);
    this.ended = new Promise((resolve, reject) => {
      this.child.on("error", reject);
      this.child.on("close", (status) => resolve({ status, stdout: this.stdout, stderr: this.stderr }));
    });
  }

  /** Waits until it printed `text` to standard output. */
  async saw(text: string): Promise<void> {
    await until(() => this.stdout.includes(text), `${JSON.stringify(text)} in ${JSON.stringify(this)}`);
  }

  signal(signal: StopSignal): void {
    sendSignal(this.child.pid!, signal);
  }

  toJSON(): unknown {
    return { stdout: this.stdout, stderr: this.stderr };
  }
}

/** An app that runs several command lines, one after another, in one process: most tests need no more. */
const SESSION = `
import process from "node:process";
import { main } from ${JSON.stringify(CLI_URL)};
for (const line of process.argv.slice(2)) {
  const status = await main(line === "" ? [] : line.split(" "));
  process.stdout.write("\\u0000" + status + "\\u0000");
  process.stderr.write("\\u0000");
}
`;

/** Uses the database that the command line finds in `cwd`. */
async function withQueue(cwd: string, jobs: Jobs, use: (queue: Queue) => Promise<unknown>): Promise<void> {
  const log = { warn: () => {}, error: () => {} };
  const queue = new Queue({ jobs, database: join(cwd, "storage/database.sqlite"), env: {}, log });
  try {
    await use(queue);
  } finally {
    await queue.close();
  }
}

/** Stores jobs with the payloads 1, 2, … */
async function seed(cwd: string, names: readonly string[]): Promise<void> {
  const jobs = Object.fromEntries(names.map((name) => [name, () => {}]));
  await withQueue(cwd, jobs, (queue) => queue.dispatchMany(names.map((name, at) => [name, at + 1])));
}

/** Sends signals to a worker with a running job, some more once it stops, and sees it give the job its time. */
async function stopsInTime(
  cwd: string,
  begin: () => Running,
  signals: readonly StopSignal[],
  more: readonly StopSignal[] = [],
): Promise<void> {
  await seed(cwd, ["patient"]);
  const worker = begin();
  await worker.saw("START");
  for (const signal of signals) worker.signal(signal);
  await worker.saw("a second signal stops at once\n");
  for (const signal of more) worker.signal(signal);
  writeFileSync(join(cwd, "go"), "");
  const { status, stdout, stderr } = await worker.ended;
  assert.equal(status, 0, stderr);
  assert.doesNotMatch(stdout, /stopping at once/, signals.join(", "));
  assert.match(stdout, /DONE\n$/);
}

/** Leaves failed jobs whose errors are long. */
async function seedFailed(cwd: string, count: number): Promise<void> {
  const broken = (): never => {
    throw new Error("broken " + "x".repeat(4000));
  };
  await withQueue(cwd, { broken: { tries: 1, handle: broken } }, async (queue) => {
    await queue.dispatchMany(Array.from({ length: count }, () => ["broken", null]));
    await queue.work({ stopWhenEmpty: true });
  });
}

function inProject(use: (cwd: string) => Promise<void>): Promise<void> {
  return inFolder((cwd) => {
    writeFileSync(join(cwd, "jobs.ts"), JOBS);
    return use(cwd);
  });
}

for (const { name, command } of [ownRuntime()]) {
  const start = (args: readonly string[], options: Options): Running =>
    new Running([...command, CLI, ...args], options);

  /** Runs one command line in a process of its own; fails when it does not exit with `status`. */
  const expect = async (status: number, args: string, options: Options): Promise<Ended> => {
    const ended = await start(args.split(" ").filter((arg) => arg !== ""), options).ended;
    assert.equal(ended.status, status, `${args}: ${JSON.stringify(ended)}`);
    assert.doesNotMatch(ended.stderr, STACK, args);
    return ended;
  };

  /** Runs several in one process, and returns what each printed and its status. */
  const session = async (lines: readonly string[], options: Options): Promise<Ended[]> => {
    const script = join(options.cwd, "session.mjs");
    writeFileSync(script, SESSION);
    const { status, stdout, stderr } = await new Running([...command, script, ...lines], options).ended;
    rmSync(script);
    assert.equal(status, 0, `the app itself: ${stderr}`);
    assert.doesNotMatch(stderr, STACK);
    const out = stdout.split("\u0000");
    const err = stderr.split("\u0000");
    return lines.map((_, at) => ({
      status: Number(out[2 * at + 1]),
      stdout: out[2 * at]!,
      stderr: err[at]!,
    }));
  };

  describe(`the command line on ${name}`, () => {
    it("explains itself: --help, --version, and the help of each command", () =>
      inFolder(async (cwd) => {
        const nothing = await expect(2, "", { cwd });
        assert.match(nothing.stderr, /^Usage: <command>/, "no command: help, as an error");
        assert.equal(nothing.stdout, "");
        const lines = ["--help", "--version", ...COMMANDS.map((one) => `${one} --help`)];
        const [help, version, ...each] = await session(lines, { cwd });
        for (const one of COMMANDS) assert.match(help!.stdout, new RegExp(`^ +${one} `, "m"));
        assert.deepEqual(version, { status: 0, stdout: `${VERSION}\n`, stderr: "" });
        for (const [at, { status, stdout, stderr }] of each.entries()) {
          assert.deepEqual([status, stderr], [0, ""]);
          assert.match(stdout, new RegExp(`^Usage: ${COMMANDS[at]} `));
          assert.match(stdout, /--json/);
          assert.match(stdout, /--database/);
        }
        assert.deepEqual(readdirSync(cwd), [], "help makes no files");
      }));

    it("answers a slip with usage, a suggestion and exit status 2", () =>
      inProject(async (cwd) => {
        await expect(2, "queue:wrok", { cwd });
        const slips: [line: string, ...answers: RegExp[]][] = [
          [
            "queue:wrok",
            /^queue: unknown command 'queue:wrok'\n\(Did you mean queue:work\?\)\nSee --help\n$/,
          ],
          ["--versoin", /^queue: unknown option '--versoin'\n\(Did you mean --version\?\)\nSee --help\n$/],
          ["work --once", /Did you mean queue:work\?/],
          [
            "queue:work --concurency=3",
            /unknown option '--concurency=3'/,
            /--concurrency\?/,
            /^Usage: queue:work/m,
          ],
          ["queue:work --concurrency=many", /--concurrency/, /'many'/, /whole number, from 1/],
          ["queue:work --max-time=soon", /--max-time/, /'soon'/, /500ms/],
          ["queue:work --max-time=0", /--max-time/, /'0'/, /not 0/],
          ["queue:work --queue=a:b", /^queue: --queue: /, /the weight of a is "b"/],
          ["queue:work --queue=high,high", /^queue: --queue: queues="high,high": expected names in order/],
          ["queue:failed --limit=0", /--limit/, /'0'/, /from 1 to 1000/],
          ["queue:failed --database=", /--database/],
          ["queue:failed now", /too many arguments/],
          ["queue:failed \u001b]0;title\u0007", /too many arguments.*: +\]0;title +\./],
          ["queue:failed --after=abc", /--after/, /'abc'/, /an id as queue:failed shows it/],
          ["queue:list", /^queue: unknown command 'queue:list'\nSee --help\n$/],
          ["queue:retry", /expected ids, all, or --name, --queue, --error, --older-than or --newer-than/],
          ["queue:retry all 7", /either all or ids/],
          ["queue:forget all --name=mail", /either ids or all, or --name, .*, not both/],
          ["queue:forget 7 --dry-run", /--dry-run: expected all, or --name/],
          ["queue:retry --older-than=soon", /--older-than/, /'soon'/, /2026-12-01T03:00/],
          ["queue:failed --newer-than=2026-13-01", /--newer-than/, /or a time, such as/],
          ["queue:forget --error=", /--error/, /Expected something/],
          ["queue:prune-failed", /required option '--hours <n>'/],
          ["queue:prune-failed --hours=0", /--hours/, /from 1/],
          ["queue:clear --queue=a,b", /queue="a,b"/],
          ["queue:clear mail", /too many arguments/],
          ["queue:dispatch echo --delay=-5", /--delay/, /'-5'/],
          ["queue:dispatch echo --priority=high", /--priority/, /from -100 to 100/],
          ["queue:dispatch echo --queue=a,b", /queue="a,b"/],
          ["queue:pause --queue=a,b", /queue="a,b"/],
          ["queue:resume --queue=*", /queue="\*"/],
          ["queue:pause mail", /too many arguments/],
          ["queue:restart now", /too many arguments/],
          ["queue:cancel", /missing required argument/],
          ["queue:monitor --max=many", /--max/, /'many'/, /whole number, 0 or more/],
          ["queue:monitor --oldest=soon", /--oldest/, /'soon'/, /500ms/],
          ["queue:monitor --interval=1s", /^queue: --interval: expected --watch beside it\n$/],
          ["queue:monitor --watch --interval=10ms", /^queue: --interval: expected 100 ms or more\n$/],
          ["queue:pasue", /Did you mean queue:pause\?/],
        ];
        const ended = await session(slips.map(([line]) => line), { cwd, env: { DB_DATABASE: ":memory:" } });
        for (const [at, [line, ...answers]] of slips.entries()) {
          assert.equal(ended[at]!.status, 2, line);
          for (const answer of answers) assert.match(ended[at]!.stderr, answer, line);
          assert.equal(ended[at]!.stdout, "", `${line}: nothing is printed as if it began`);
        }
        assert.ok(
          !ended.at(slips.findIndex(([line]) => line === "queue:list"))!.stderr.includes("Did you mean"),
        );
      }));

    it("takes a job from dispatch to done, and shows it in between", () =>
      inProject(async (cwd) => {
        const piped = await expect(0, "queue:dispatch echo -", { cwd, input: '{"id":7}\n' });
        assert.equal(piped.stdout, "dispatched 1 echo\n");
        const [bare, later, asJson, status] = await session([
          "queue:dispatch echo",
          "queue:dispatch echo later --delay=2h --queue=slow --priority=5",
          "queue:dispatch echo text --json",
          "queue:status",
        ], { cwd });
        assert.equal(bare!.stdout, "dispatched 2 echo\n");
        assert.equal(later!.stdout, "dispatched 3 echo, due in 2 h\n");
        assert.deepEqual(JSON.parse(asJson!.stdout), { id: "4", name: "echo" });
        assert.match(status!.stdout, /^QUEUE +READY +DELAYED +RESERVED +FAILED/);
        assert.match(status!.stdout, /^default +3 +0 +0 +0 +\d/m);
        assert.match(status!.stdout, /^slow +0 +1 +0 +0 +-$/m);
        assert.match(status!.stdout, /^total +3 +1 +0 +0 /m);

        const worked = await expect(0, "queue:work --stop-when-empty", { cwd });
        const [banner, ...lines] = worked.stdout.trimEnd().split("\n");
        assert.equal(banner, "working every queue · concurrency 1 · storage/database.sqlite · 6 job types");
        const time = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`;
        const printed = (pattern: string): void =>
          assert.match(worked.stdout, new RegExp(`^${pattern}$`, "m"));
        printed(String.raw`${time}  echo {6}1 {7}1/3 {14}START`);
        printed('echo {"id":7}'); // handlers print where they like
        printed(String.raw`${time}  echo {6}1 {7}1/3 +[\d.]+ m?s  DONE`);
        printed("echo null"); // where no payload is given
        printed("echo text");
        printed(String.raw`1 job is delayed; the next is due in (2 h|1 h 59 m)`);
        assert.equal(lines.length, 10);
        assert.ok(!worked.stdout.includes("\u001b"), "no colour where there is no terminal");
        assert.equal(worked.stderr, "");

        const after = await expect(0, "queue:status --json", { cwd });
        assert.deepEqual(JSON.parse(after.stdout), {
          queues: [{
            queue: "slow",
            ready: 0,
            delayed: 1,
            reserved: 0,
            failed: 0,
            oldest: null,
            wait: null,
            paused: false,
          }],
          total: { ready: 0, delayed: 1, reserved: 0, failed: 0, oldest: null, wait: null },
          paused: { all: false, queues: [] },
        });
      }));

    it("pauses and resumes a queue, or all, and shows it", () =>
      inProject(async (cwd) => {
        await expect(0, "queue:dispatch echo held", { cwd });
        const said = await session([
          "queue:pause --queue=mail",
          "queue:pause --queue=mail",
          "queue:pause",
          "queue:pause --json",
          "queue:status",
          "queue:status --json",
          "queue:work --stop-when-empty",
          "queue:resume --queue=default",
          "queue:resume --queue=mail",
          "queue:pause --queue=mail",
          "queue:resume",
          "queue:resume",
          "queue:resume --queue=mail",
          "queue:resume --json",
          "queue:status",
          "queue:work --stop-when-empty",
        ], { cwd });
        const outcomes = said.map(({ status, stdout, stderr }) => [status, stdout, stderr] as const);
        assert.deepEqual(outcomes.slice(0, 3), [
          [0, "paused mail\n", ""],
          [0, "mail was paused before\n", ""],
          [0, "paused every queue\n", ""],
        ]);
        const paused = { all: true, queues: ["mail"] };
        assert.deepEqual(JSON.parse(said[3]!.stdout), { changed: false, paused });
        assert.match(said[4]!.stdout, /^default \(paused\) +1 +0 +0 +0 .*\nmail \(paused\) +0 +0 +0 +0 /m);
        assert.match(said[4]!.stdout, /\nevery queue is paused: queue:resume lets workers go on\n$/);
        const shown = JSON.parse(said[5]!.stdout);
        assert.deepEqual(shown.paused, paused);
        assert.deepEqual(
          shown.queues.map((one: Record<string, unknown>) => [one.queue, one.paused]),
          [["default", true], ["mail", true]],
        );
        assert.doesNotMatch(said[6]!.stdout, /held/);
        assert.equal(said[6]!.stderr, "queue: every queue is paused: queue:resume lets workers go on\n");
        const rest = ": every queue is paused, until queue:resume without --queue\n";
        assert.deepEqual(outcomes.slice(7, 13), [
          [1, "", `queue: default is not paused by its name${rest}`],
          [0, `resumed mail${rest}`, ""],
          [0, "paused mail\n", ""],
          [0, "resumed every queue\n", ""],
          [0, "nothing was paused\n", ""],
          [1, "", "queue: mail is not paused by its name\n"],
        ]);
        assert.deepEqual(JSON.parse(said[13]!.stdout), {
          changed: false,
          paused: { all: false, queues: [] },
        });
        assert.doesNotMatch(said[14]!.stdout, /paused/);
        assert.match(said[15]!.stdout, /echo held/);
      }));

    it("says which of its queues are paused when a worker begins, and no others", () =>
      inProject(async (cwd) => {
        await expect(0, "queue:dispatch echo", { cwd });
        const [, , all, some, quiet, none] = await session([
          "queue:pause --queue=mail",
          "queue:pause --queue=slow",
          "queue:work --stop-when-empty",
          "queue:work --stop-when-empty --queue=fast:2,slow:1",
          "queue:work --stop-when-empty --queue=slow --quiet",
          "queue:work --stop-when-empty --queue=fast,default",
        ], { cwd });
        const held = (queue: string): string =>
          `queue: ${queue} is paused: queue:resume --queue=${queue} lets workers go on\n`;
        assert.equal(all!.stderr, held("mail") + held("slow"));
        assert.equal(some!.stderr, held("slow"));
        assert.deepEqual([quiet!.stdout, quiet!.stderr], ["", held("slow")]);
        assert.equal(none!.stderr, "");
      }));

    it("warns of a payload that was meant as JSON and is none, and stores it all the same", () =>
      inProject(async (cwd) => {
        const warning = "queue: the payload begins as JSON does, and is none: it is stored as text\n";
        const said = await session([
          "queue:dispatch echo {name:Ada}",
          "queue:dispatch echo [1,2",
          'queue:dispatch echo "Ada',
          'queue:dispatch echo {"name":"Ada"}',
          "queue:dispatch echo Ada",
          "queue:dispatch echo 007",
        ], { cwd });
        assert.deepEqual(
          said.map(({ status, stdout }) => [status, stdout]),
          [1, 2, 3, 4, 5, 6].map((id) => [
            0,
            `dispatched ${id} echo\n`,
          ]),
        );
        assert.deepEqual(said.map(({ stderr }) => stderr), [warning, warning, warning, "", "", ""]);
        const worked = await expect(0, "queue:work --stop-when-empty", { cwd });
        for (const payload of ["{name:Ada}", "[1,2", '"Ada', '{"name":"Ada"}', "Ada", "007"]) {
          assert.ok(worked.stdout.includes(`echo ${payload}\n`), payload);
        }
      }));

    it("cancels jobs that wait, and one that runs in another process", () =>
      inProject(async (cwd) => {
        await expect(0, "queue:dispatch obedient", { cwd });
        const worker = start(["queue:work"], { cwd });
        await worker.saw("START");
        await expect(0, "queue:dispatch echo --delay=1h", { cwd });
        await expect(0, "queue:dispatch echo --delay=1h", { cwd });
        const [some, asJson, odd] = await session([
          "queue:cancel 1 2 99 2",
          "queue:cancel 3 2 --json",
          "queue:cancel a\u0007b",
        ], { cwd });
        assert.deepEqual(some, {
          status: 1,
          stdout: "cancelling 1\nremoved 2\n",
          stderr: "queue: no job 99 waits or runs\n",
        });
        assert.equal(asJson!.status, 1);
        assert.deepEqual(JSON.parse(asJson!.stdout), { removed: ["3"], cancelling: [], unknown: ["2"] });
        assert.equal(odd!.status, 1);
        await worker.saw("FAIL: cancelled");
        worker.signal("SIGTERM");
        assert.equal((await worker.ended).status, 0);
        const failed = await expect(0, "queue:failed", { cwd });
        assert.match(failed.stdout, /\n 1 +obedient .* cancelled\n$/);
      }));

    it("tells a worker process to end, which finishes its job and exits with 0", () =>
      inProject(async (cwd) => {
        await expect(0, "queue:dispatch patient", { cwd });
        const [busy, idle] = [
          start(["queue:work"], { cwd }),
          start(["queue:work", "--queue=none"], { cwd }),
        ];
        await busy.saw("START");
        await idle.saw("working none");
        // It has looked for jobs by then: what it was not told before is new to it.
        await expect(0, "queue:status", { cwd });
        await until(async () => {
          const told = await expect(0, "queue:restart", { cwd });
          assert.equal(told.stdout, "told the workers to end after their running jobs\n");
          return idle.child.exitCode !== null;
        }, "the idle worker to end");
        assert.equal((await idle.ended).status, 0);
        assert.match((await idle.ended).stderr, /^queue: told to restart: ending after the running jobs\n$/);
        await until(() => busy.stderr.includes("told to restart"), "the busy worker to hear");
        assert.equal(busy.child.exitCode, null, "its job runs yet");
        writeFileSync(join(cwd, "go"), "");
        const ended = await busy.ended;
        assert.equal(ended.status, 0);
        assert.match(ended.stdout, /patient went\n.*DONE\n$/);
        assert.deepEqual(JSON.parse((await expect(0, "queue:restart --json", { cwd })).stdout), {
          restart: true,
        });
      }));

    it("shows, retries and forgets failed jobs, without a jobs module", () =>
      inFolder(async (cwd) => {
        await seedFailed(cwd, 3);
        const [page, next, some, unknown, one, rest, none, empty, status] = await session([
          "queue:failed --limit=2",
          "queue:failed --after=2 --json",
          "queue:retry 2 99 1,2 2",
          "queue:forget 99 --json",
          "queue:forget 3",
          "queue:retry all --json",
          "queue:forget all",
          "queue:failed",
          "queue:status",
        ], { cwd });
        const [heading, first, second, more] = page!.stdout.trimEnd().split("\n");
        assert.match(heading!, /^ID {2}NAME {4}QUEUE {4}ATTEMPTS {2}FAILED AT {12}ERROR$/);
        assert.match(
          first!,
          /^ 1 {2}broken {2}default {9}1 {2}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d {2}broken x{4000}$/,
          "uncut where there is no terminal",
        );
        assert.match(second!, /^ 2 {2}broken /);
        assert.equal(more, "more: queue:failed --after=2");
        const { failed: [job], next: after } = JSON.parse(next!.stdout);
        assert.equal(after, null);
        assert.deepEqual(
          Object.keys(job).sort().join(" "),
          "attempts error failedAt history id name payload priority queue stack",
        );
        assert.equal(job.id, "3");
        assert.match(job.failedAt, /^\d{4}-\d\d-\d\dT.*Z$/);

        assert.deepEqual(some, {
          status: 1,
          stdout: "retried 2 broken\n",
          stderr: "queue: no failed job 99\nqueue: no failed job 1,2\n",
        });
        const odd = await start(["queue:retry", "", "a b"], { cwd }).ended;
        assert.equal(odd.stderr, 'queue: no failed job ""\nqueue: no failed job "a b"\n');
        assert.equal(unknown!.status, 1);
        assert.deepEqual(JSON.parse(unknown!.stdout), { forgotten: [], unknown: ["99"] });
        assert.deepEqual(one, { status: 0, stdout: "forgotten 3 broken\n", stderr: "" });
        assert.deepEqual(JSON.parse(rest!.stdout), { retried: [{ id: "1", name: "broken" }], unknown: [] });
        assert.deepEqual(none, { status: 0, stdout: "no failed jobs\n", stderr: "" });
        assert.deepEqual(empty, { status: 0, stdout: "no failed jobs\n", stderr: "" });
        assert.match(status!.stdout, /^default +2 +0 +0 +0 /m);
      }));

    it("chooses failed jobs by name, queue, error and age, and tries out before", () =>
      inFolder(async (cwd) => {
        const broken = (job: { payload: string }): never => {
          throw new Error(`Upstream ${job.payload}`);
        };
        await withQueue(
          cwd,
          { mail: { tries: 1, handle: broken }, bill: { tries: 1, handle: broken } },
          async (queue) => {
            await queue.dispatchMany([["mail", 503], ["bill", 503, { queue: "slow" }], ["mail", 404]]);
            await queue.work({ stopWhenEmpty: true });
          },
        );
        const [list, none, old, dry, dryAll, missed, retried, forgotten, missedJson, rest] = await session([
          "queue:failed --error=upstream --reverse --limit=2",
          "queue:failed --queue=none",
          "queue:failed --older-than=2h --json",
          "queue:retry --error=503 --newer-than=1h --dry-run",
          "queue:forget all --dry-run --json",
          "queue:retry --name=mail --older-than=1d",
          "queue:retry --error=UPSTREAM --name=mail --queue=default",
          "queue:forget --queue=slow --newer-than=2026-01-01 --json",
          "queue:forget --queue=slow --json",
          "queue:status --json",
        ], { cwd });
        const ids = list!.stdout.split("\n").slice(1, 3).map((line) => line.trim().split(" ")[0]);
        assert.equal(ids[0]! > ids[1]!, true, "the highest first");
        assert.match(list!.stdout, /^more: queue:failed --after=\d --reverse and the same filter$/m);
        assert.deepEqual(none, { status: 0, stdout: "no failed jobs match\n", stderr: "" });
        assert.deepEqual(JSON.parse(old!.stdout), { failed: [], next: null });

        assert.match(dry!.stdout, /^would retry 2 failed jobs\nID {2}NAME/);
        assert.equal(dry!.stdout.trimEnd().split("\n").length, 4);
        const { dryRun, count, first } = JSON.parse(dryAll!.stdout);
        assert.deepEqual([dryRun, count, first.length], [true, 3, 3]);
        assert.deepEqual(Object.keys(first[0]), ["id", "name", "queue", "attempts", "failedAt", "error"]);
        assert.deepEqual(missed, { status: 1, stdout: "", stderr: "queue: no failed job matches\n" });
        assert.match(
          retried!.stdout,
          /^retried \d mail\nretried \d mail\n$/,
          "a dry run had changed nothing",
        );
        assert.deepEqual(JSON.parse(forgotten!.stdout).forgotten.map(({ name }: { name: string }) => name), [
          "bill",
        ]);
        assert.equal(missedJson!.status, 1);
        assert.deepEqual(JSON.parse(missedJson!.stdout), { forgotten: [], unknown: [] });
        const { total } = JSON.parse(rest!.stdout);
        assert.deepEqual([total.ready, total.failed], [2, 0]);
      }));

    it("flushes and prunes failed jobs, and clears waiting ones; in production not without --force", () =>
      inFolder(async (cwd) => {
        await seedFailed(cwd, 3);
        await withQueue(
          cwd,
          { later: () => {} },
          (queue) =>
            queue.dispatchMany([["later", 1], ["later", 2, { queue: "slow", delay: 60_000 }], ["later", 3]]),
        );
        const refused = await session(["queue:flush", "queue:clear", "queue:clear --dry-run"], {
          cwd,
          env: { APP_ENV: "production" },
        });
        for (const { status, stdout, stderr } of refused.slice(0, 2)) {
          assert.deepEqual([status, stdout], [2, ""]);
          assert.match(stderr, /^queue: APP_ENV=production, .* expected --force\n$/);
        }
        assert.equal(refused[2]!.stdout, "would remove 3 waiting jobs of every queue\n");
        const [young, dry, flushed, again, one, json, none, status] = await session([
          "queue:prune-failed --hours=1",
          "queue:flush --dry-run",
          "queue:flush --force",
          "queue:flush --json",
          "queue:clear --queue=slow --force",
          "queue:clear --json --force",
          "queue:clear --queue=slow --force",
          "queue:status",
        ], { cwd, env: { APP_ENV: "production" } });
        assert.deepEqual(young, { status: 0, stdout: "forgot 0 failed jobs\n", stderr: "" });
        assert.match(dry!.stdout, /^would forget 3 failed jobs\n/);
        assert.deepEqual(flushed, { status: 0, stdout: "forgot 3 failed jobs\n", stderr: "" });
        assert.equal(again!.status, 2, "also where there is nothing");
        assert.deepEqual(one, { status: 0, stdout: "removed 1 waiting job of slow\n", stderr: "" });
        assert.deepEqual(JSON.parse(json!.stdout), { count: 2 });
        assert.deepEqual(none, { status: 0, stdout: "removed 0 waiting jobs of slow\n", stderr: "" });
        assert.equal(status!.stdout, "no jobs\n");
        const [local] = await session(["queue:flush --json"], { cwd });
        assert.deepEqual([local!.status, JSON.parse(local!.stdout)], [0, { count: 0 }]);
      }));

    it("says once of each attempt how it ended", () =>
      inProject(async (cwd) => {
        await seed(cwd, ["flaky", "broken"]);
        const { stdout, stderr } = await expect(0, "queue:work --stop-when-empty", { cwd });
        assert.match(stdout, / flaky +1 +1\/3 +[\d.]+ m?s +RETRY in 10 s: upstream 503$/m);
        assert.match(stdout, / broken +2 +1\/1 +[\d.]+ m?s +FAIL: broken x/);
        assert.match(stdout, /\n1 job is delayed; the next is due in [\d.]+ m?s\n$/, "what it leaves");
        assert.equal(stderr, "");
      }));

    it("says what is delayed of its queues when it ends as nothing is due", () =>
      inProject(async (cwd) => {
        const [, , , all, some, none, json, quiet] = await session([
          "queue:dispatch echo 1 --queue=mail --delay=2h",
          "queue:dispatch echo 2 --queue=mail --delay=3h",
          "queue:dispatch echo 3 --queue=images --delay=90m",
          "queue:work --stop-when-empty",
          "queue:work --stop-when-empty --queue=mail:2,other:1",
          "queue:work --stop-when-empty --queue=other",
          "queue:work --stop-when-empty --json",
          "queue:work --stop-when-empty --quiet",
        ], { cwd });
        assert.match(all!.stdout, /^working [^\n]*\n3 jobs are delayed; the next is due in 1 h (30|29) m\n$/);
        assert.match(
          some!.stdout,
          /^working [^\n]*\n2 jobs are delayed; the next is due in (2 h|1 h 59 m)\n$/,
        );
        assert.match(none!.stdout, /^working [^\n]*\n$/);
        assert.deepEqual([json!.stdout, quiet!.stdout], ["", ""]);
      }));

    it("prints a line of JSON for each event, with the same keys in all", () =>
      inProject(async (cwd) => {
        await seed(cwd, ["flaky", "broken"]);
        const { stdout, stderr } = await expect(0, "queue:work --json --max-jobs=2 --concurrency=2", { cwd });
        const events = stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
        for (const event of events) {
          assert.equal(
            Object.keys(event).join(" "),
            "time event id name queue attempt tries duration error retryIn",
          );
          assert.match(event.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
        }
        const of = (id: string): string[] => events.filter((one) => one.id === id).map((one) => one.event);
        assert.deepEqual(of("1"), ["started", "released"]);
        assert.deepEqual(of("2"), ["started", "failed"]);
        const released = events.find((one) => one.event === "released");
        assert.equal(released.error, "upstream 503\nand more");
        assert.equal(released.retryIn, 10_000);
        assert.equal(typeof released.duration, "number");
        assert.match(stderr, /^queue: job flaky failed \(attempt 1\), retrying: upstream 503/m);
      }));

    it("works until told otherwise: --once, --max-jobs, --max-time, --quiet", () =>
      inProject(async (cwd) => {
        await seed(cwd, ["echo", "echo", "echo", "echo"]);
        const quiet = await session([
          "queue:work --quiet --once",
          "queue:work --quiet --max-jobs=2",
          "queue:work --quiet --max-time=100ms",
          "queue:work --quiet --once",
          "queue:dispatch flaky",
          "queue:work --quiet --once",
        ], { cwd });
        const [once, two, ...rest] = quiet.slice(0, 4).map(({ stdout }) => stdout);
        assert.deepEqual([once, two], ["echo 1\n", "echo 2\necho 3\n"]);
        // By the second of these, where the time was over before the job was there.
        assert.deepEqual(rest.toSorted(), ["", "echo 4\n"]);
        assert.deepEqual(quiet.map(({ status }) => status), [0, 0, 0, 0, 0, 0]);
        const failed = quiet.at(-1)!;
        assert.equal(failed.stdout, "");
        assert.match(
          failed.stderr,
          /^queue: job flaky failed \(attempt 1\), retrying/,
          "problems are not quiet",
        );
      }));

    it("takes the queues it is told to, in strict order or by weight", () =>
      inProject(async (cwd) => {
        const ended = await session([
          "queue:dispatch echo low --queue=low",
          "queue:dispatch echo high --queue=high",
          "queue:dispatch echo other --queue=other",
          "queue:work --queue=high,low --stop-when-empty",
          "queue:work --queue=high:3,other:1 --stop-when-empty --concurrency=4",
        ], { cwd });
        assert.deepEqual(ended[3]!.stdout.match(/^echo .*/gm), ["echo high", "echo low"]);
        assert.match(ended[3]!.stdout, /^working high,low · concurrency 1 · /);
        assert.deepEqual(ended[4]!.stdout.match(/^echo .*/gm), ["echo other"]);
        assert.match(ended[4]!.stdout, /^working high:3,other:1 · concurrency 4 · /);
      }));

    it("finishes the running job after SIGTERM, SIGINT or SIGHUP, and exits with 0", () =>
      Promise.all((["SIGTERM", "SIGINT", "SIGHUP"] as const).map((signal) =>
        inProject(async (cwd) => {
          await seed(cwd, ["patient", "echo"]);
          const worker = start(["queue:work"], { cwd });
          await worker.saw("START");
          worker.signal(signal);
          await worker.saw("stopping: waiting up to 30 s for 1 running job; a second signal stops at once\n");
          writeFileSync(join(cwd, "go"), "");
          const { status, stdout, stderr } = await worker.ended;
          assert.equal(status, 0, `${signal}: ${stdout} ${stderr}`);
          assert.match(stdout, /patient went\n.* DONE\n$/);
          assert.doesNotMatch(stdout, /^echo/m, "it takes no other job");
          await withQueue(cwd, {}, async (queue) => assert.equal(await queue.waiting(), 1));
        })
      )).then(() => {}));

    it("gives the running job its time though SIGHUP comes twice, as from a terminal that is closed", () =>
      inProject((cwd) => stopsInTime(cwd, () => start(["queue:work"], { cwd }), ["SIGHUP"], ["SIGHUP"])));

    it("gives the running job its time though SIGHUP comes with another signal, in either order", () =>
      Promise.all(
        ([["SIGTERM", "SIGHUP"], ["SIGHUP", "SIGTERM"]] as const).map((signals) =>
          inProject((cwd) => stopsInTime(cwd, () => start(["queue:work"], { cwd }), signals))
        ),
      ).then(() => {}));

    it("goes on at SIGHUP where that was ignored at its start, as far as the runtime remembers", () =>
      inProject((cwd) => {
        const words = [...command, CLI, "queue:work"].map((word) => `'${word}'`).join(" ");
        const begin = () => new Running(["/bin/sh", "-c", `trap '' HUP; exec ${words}`], { cwd });
        // Two signals would stop it at once.
        return stopsInTime(cwd, begin, name === "node" ? ["SIGHUP"] : ["SIGHUP", "SIGTERM"]);
      }));

    it("ends with 0 at a signal though the store is locked before it is open", () =>
      inProject(async (cwd) => {
        writeFileSync(
          join(cwd, "jobs.ts"),
          `import process from "node:process";
          const look = setInterval(() => {
            if (process.listenerCount("SIGTERM") === 0) return;
            clearInterval(look);
            console.log("it listens");
          }, 5);
          export default { echo: () => {} };`,
        );
        const file = join(cwd, "locked.sqlite");
        const other = new DatabaseSync(file);
        other.exec("BEGIN IMMEDIATE; CREATE TABLE t (x)");
        try {
          const worker = start(["queue:work", "--grace=0", "--database", file], { cwd });
          await worker.saw("it listens");
          worker.signal("SIGTERM");
          const { status, stderr } = await worker.ended;
          assert.equal(status, 0, stderr);
          assert.match(stderr, /locked while the queue was closed\n$/);
        } finally {
          other.close();
        }
      }));

    it("stops at once at a second signal, and hands back what it ran", () =>
      inProject(async (cwd) => {
        await seed(cwd, ["obedient", "stubborn"]);
        const worker = start(["queue:work", "--concurrency=2"], { cwd });
        await until(() => worker.stdout.match(/START/g)?.length === 2, "both jobs");
        worker.signal("SIGTERM");
        await worker.saw("stopping: waiting up to 30 s for 2 running jobs; ");
        worker.signal("SIGINT");
        const { status, stdout, stderr } = await worker.ended;
        assert.equal(status, 0, stderr);
        assert.match(stdout, /^stopping at once\n.* HANDED BACK\n.* HANDED BACK\n$/m);
        const attempts: number[] = [];
        const record = (job: { attempt: number }): void => void attempts.push(job.attempt);
        await withQueue(cwd, { obedient: record, stubborn: record }, (queue) =>
          queue.work({ stopWhenEmpty: true }));
        assert.deepEqual(attempts, [1, 1], "the attempts were not spent");
      }));

    it("aborts and hands back after the grace what still runs, and exits with 0", () =>
      inFolder(async (cwd) => {
        writeFileSync(
          join(cwd, "jobs.ts"),
          `const aborted = (job) => new Promise((done) => job.signal.addEventListener("abort", () => done()));
          export default {
            obedient: (job) => aborted(job).then(() => { throw job.signal.reason; }),
            stubborn: () => new Promise(() => {}),
            polite: aborted,
          };`,
        );
        await seed(cwd, ["obedient", "stubborn", "polite"]);
        const graces = [
          { args: ["--grace=100ms"], env: { QUEUE_GRACE: "60" }, said: "100 ms", grace: "0.1 s" },
          { args: [], env: { QUEUE_GRACE: "1" }, said: "1 s", grace: "1 s" },
        ];
        for (const [round, { args, env, said, grace }] of graces.entries()) {
          const running = 3 - round;
          const worker = start(["queue:work", "--concurrency=3", ...args], { cwd, env });
          await until(() => worker.stdout.match(/START/g)?.length === running, "the jobs");
          worker.signal("SIGTERM");
          await worker.saw(`stopping: waiting up to ${said} for ${running} running jobs; `);
          const { status, stdout, stderr } = await worker.ended;
          assert.equal(status, 0, stderr);
          assert.match(stdout, /^.* obedient +1 .* HANDED BACK$/m);
          assert.match(stdout, /^.* stubborn +2 .* HANDED BACK$/m);
          if (round === 0) assert.match(stdout, /^.* polite +3 .* DONE$/m);
          const line =
            `queue: the worker stops, and its grace of ${grace} is over: ${running} jobs are aborted\n`;
          assert.equal(stderr, line);
        }
        const attempts: number[] = [];
        const record = (job: { attempt: number }): void => void attempts.push(job.attempt);
        await withQueue(
          cwd,
          { obedient: record, stubborn: record },
          (queue) => queue.work({ stopWhenEmpty: true }),
        );
        assert.deepEqual(attempts, [1, 1], "the attempts were not spent");
      }));

    it("says when it stops that nothing runs, and refuses a grace that is none", () =>
      inProject(async (cwd) => {
        const worker = start(["queue:work"], { cwd });
        await worker.saw("working every queue");
        worker.signal("SIGTERM");
        const { status, stdout } = await worker.ended;
        assert.equal(status, 0);
        assert.match(stdout, /^stopping: no job is running\n$/m);
        const refused = await expect(2, "queue:work --grace=long", { cwd });
        assert.match(refused.stderr, /--grace.*'long'.*500ms/);
        const setting = await expect(2, "queue:work", { cwd, env: { QUEUE_GRACE: "long" } });
        assert.match(setting.stderr, /^queue: QUEUE_GRACE="long": expected a whole number/);
      }));

    it("shows what handlers decide themselves", () =>
      inFolder(async (cwd) => {
        writeFileSync(
          join(cwd, "jobs.ts"),
          `import { Discard, Snooze } from ${JSON.stringify(new URL("../mod.ts", import.meta.url).href)};
          export default {
            nap: () => { throw new Snooze({ minutes: 5 }, "the bank is closed"); },
            gone: {
              handle: () => { throw new Discard("no such user"); },
              failed: (job, error) => console.log("hook " + job.id + " " + error.message),
            },
          };`,
        );
        await seed(cwd, ["nap", "gone"]);
        const { stdout, stderr } = await expect(0, "queue:work --stop-when-empty", { cwd });
        assert.match(stdout, / nap +1 +1\/3 +[\d.]+ m?s +SNOOZE for 5 m: the bank is closed$/m);
        assert.match(stdout, / gone +2 +1\/3 +[\d.]+ m?s +FAIL: no such user\nhook 2 no such user\n/);
        assert.equal(stderr, "");
        await seed(cwd, ["nap"]);
        const json = await expect(0, "queue:work --json --once", { cwd });
        const [, { event, error, retryIn }] = json.stdout.trimEnd().split("\n").map((line) =>
          JSON.parse(line)
        );
        assert.deepEqual([event, error, retryIn], ["snoozed", "the bank is closed", 300_000]);
      }));

    it("ends without a stack trace when nobody reads its output", () =>
      inProject(async (cwd) => {
        await seedFailed(cwd, 20);
        /** Runs a command line whose standard output is closed at the other end before it starts. */
        const unread = async (line: string): Promise<string> => {
          const pipe = `{ read go; "$@"; echo "status $?" >&2; } | { exec 0<&-; echo closed >&2; }`;
          const shell = new Running(["sh", "-c", pipe, "sh", ...command, CLI, ...line.split(" ")], { cwd });
          await until(() => shell.stderr.includes("closed"), "the end of the reader");
          shell.child.stdin!.end("go\n");
          return (await shell.ended).stderr;
        };
        const stopping = "queue: nobody reads standard output any more: stopping after the running jobs\n";
        await Promise.all([
          ...["queue:failed", "queue:failed --json", "--help"].map(async (line) =>
            assert.equal(await unread(line), "closed\nstatus 0\n", line)
          ),
          unread("queue:work").then((stderr) => assert.equal(stderr, `closed\n${stopping}status 1\n`)),
        ]);
      }));

    const full = !existsSync("/dev/full") && "there is no /dev/full here";
    it(
      "says in one line that its output could not be written, and exits with 1",
      { skip: full },
      () =>
        inProject(async (cwd) => {
          await seed(cwd, ["echo"]);
          const words = ["sh", "-c", '"$@" > /dev/full', "sh", ...command, CLI, "queue:status"];
          const { status, stderr } = await new Running(words, { cwd }).ended;
          assert.equal(status, 1, stderr);
          assert.match(stderr, /^queue: standard output: [^\n]*no space left[^\n]*\n$/i);
        }),
    );

    it("loses no output to a slow reader", () =>
      inProject(async (cwd) => {
        await seedFailed(cwd, 20);
        // 160,000 characters, and a pipe takes 65,536: the rest must wait until somebody reads.
        const pipe = `"$@" | { read first; echo "$first"; read second; echo "$second"; sleep 0.3; cat; }`;
        const words = ["sh", "-c", pipe, "sh", ...command, CLI, "queue:failed", "--json"];
        const { stdout } = await new Running(words, { cwd }).ended;
        assert.equal(JSON.parse(stdout).failed.length, 20);
      }));

    it("finds the jobs module by --jobs, QUEUE_JOBS, .env, or its usual name", () =>
      inFolder(async (cwd) => {
        const modules = {
          "a.ts": "fromOption",
          "b.js": "fromProcess",
          "c.mjs": "fromDotenv",
          "jobs.js": "usual",
        };
        for (const [file, job] of Object.entries(modules)) {
          writeFileSync(join(cwd, file), `export default { ${job}: () => {} };`);
        }
        const dispatch = async (line: string, env?: Record<string, string>): Promise<string> =>
          (await expect(2, `queue:dispatch nosuch ${line}`, { cwd, env })).stderr;
        assert.match(await dispatch(""), /there are: usual$/m);
        writeFileSync(
          join(cwd, ".env"),
          "QUEUE_JOBS=c.mjs\nDB_DATABASE='data/app.sqlite'\nQUEUE_WORKERS=3\n",
        );
        const env = { QUEUE_JOBS: "./b.js" };
        assert.match(await dispatch(""), /there are: fromDotenv$/m);
        assert.match(await dispatch("", env), /there are: fromProcess$/m, "the process's own wins");
        assert.match(await dispatch("--jobs=a.ts", env), /there are: fromOption$/m);

        const worked = await expect(0, "queue:work --stop-when-empty", { cwd });
        assert.equal(worked.stdout, "working every queue · concurrency 3 · data/app.sqlite · 1 job type\n");
        assert.ok(readdirSync(join(cwd, "data")).includes("app.sqlite"), "the folder is made");
        const other = { DB_DATABASE: "other.sqlite" };
        const missing = await expect(1, "queue:status", { cwd, env: other });
        assert.equal(missing.stderr, "queue: no database at other.sqlite\n");
        const unknown = await expect(2, "queue:status", {
          cwd,
          env: { ...other, QUEUE_CONNECTION: "mysql" },
        });
        assert.match(unknown.stderr, /^queue: QUEUE_CONNECTION="mysql": expected /, "which comes first");
        await expect(0, "queue:status --database=data/app.sqlite", { cwd, env: other });
      }));

    it("shows a job: its attempts, and why it is not running", () =>
      inProject(async (cwd) => {
        await seedFailed(cwd, 1);
        await withQueue(cwd, { echo: () => {} }, async (queue) => {
          await queue.dispatch("echo", "\u001b[31mred\nline", {
            delay: 3_600_000,
            queue: "mail",
            priority: 4,
          });
        });
        const [waiting, failed, json, again, retried, gone, none] = await session([
          "queue:show 2",
          "queue:show 1",
          "queue:show 1 --json",
          "queue:retry 1",
          "queue:show 1 --json",
          "queue:show 99",
          "queue:show",
        ], { cwd });
        assert.equal(
          waiting!.stdout.replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, "TIME").replace(
            /in [\d msh]+\)/g,
            "in N)",
          ),
          [
            "job       2 echo",
            "state     delayed",
            "queue     mail, priority 4",
            "attempts  0",
            "due       TIME (in N)",
            "payload   [31mred line",
            "why it is not running",
            "  - it is not due yet, until TIME (in N)",
            "  - no worker is running",
            "",
          ].join("\n"),
        );
        assert.match(failed!.stdout, /^job {7}1 broken\nstate {5}failed\n/);
        assert.match(
          failed!.stdout,
          /\n {2}- it has failed: queue:retry 1 runs it again\nfailed attempts\n {2}1 {2}/,
        );
        assert.match(
          failed!.stdout,
          /\n {2}1 {2}\S+ \S+, after [\d.]+ m?s, by \S+:\d+\n {5}broken x+…\n {7}Error: /,
        );
        const job = JSON.parse(json!.stdout);
        const FIELDS =
          "attempts cancelled dueAt error failedAt history holder id leasedUntil name payload priority " +
          "progress queue reasons stack state";
        assert.equal(Object.keys(job).sort().join(" "), FIELDS);
        const ATTEMPT = "attempt duration error retriedAt stack startedAt worker";
        assert.equal(Object.keys(job.history[0]).sort().join(" "), ATTEMPT);
        assert.deepEqual([job.state, job.attempts, job.history.length, job.dueAt], ["failed", 1, 1, null]);
        assert.match(job.history[0].startedAt, /^\d{4}-\d\d-\d\dT.*Z$/);
        assert.equal(again!.status, 0);
        const ready = JSON.parse(retried!.stdout);
        assert.deepEqual([ready.state, ready.attempts, ready.failedAt], ["ready", 0, null]);
        assert.match(ready.history[0].retriedAt, /^\d{4}-\d\d-\d\dT.*Z$/);
        assert.deepEqual(gone, {
          status: 1,
          stdout: "",
          stderr: "queue: no job 99: it is done, was cancelled or forgotten, or never was\n",
        });
        assert.equal(none!.status, 2, "an id is needed");
      }));

    it("shows the workers and what they run, and who has a job", () =>
      inProject(async (cwd) => {
        await seed(cwd, ["patient"]);
        const worker = start(["queue:work", "--queue=default", "--concurrency=2"], { cwd });
        await worker.saw("START");
        const listed = await until(async () => {
          const { workers } = JSON.parse((await expect(0, "queue:workers --json", { cwd })).stdout);
          return workers[0]?.running.length === 1 ? workers : null;
        }, "the running job to be told of");
        assert.equal(listed.length, 1);
        const FIELDS = "busy concurrency host id names pid processed queues running seenAt startedAt version";
        assert.equal(Object.keys(listed[0]).sort().join(" "), FIELDS);
        const { pid, host, queues, concurrency, busy, running: [job] } = listed[0];
        assert.deepEqual([pid, queues, concurrency, busy], [worker.child.pid, ["default"], 2, 1]);
        assert.deepEqual([job.id, job.name, job.queue, job.attempt], ["1", "patient", "default", 1]);
        const [table, shown] = await session(["queue:workers", "queue:show 1"], { cwd });
        const [heading, line] = table!.stdout.split("\n");
        assert.match(heading!, /^WORKER +VERSION +STARTED +SEEN +SLOTS +PROCESSED +QUEUES +RUNNING$/);
        assert.equal(line!.startsWith(`${host}:${pid} `), true, line);
        assert.match(line!, / 1\/2 +0 +default +patient 1 \([^)]+\)$/);
        assert.match(shown!.stdout, /\nstate {5}reserved\n/);
        assert.equal(
          shown!.stdout.includes(`\nwho has it\n  - ${host}:${pid} runs it, until `),
          true,
          shown!.stdout,
        );
        writeFileSync(join(cwd, "go"), "");
        await worker.saw("DONE");
        worker.signal("SIGTERM");
        assert.equal((await worker.ended).status, 0);
        assert.equal((await expect(0, "queue:workers", { cwd })).stdout, "no workers\n");
      }));

    it("finds out what is wrong, and says what to do about it", () =>
      inProject(async (cwd) => {
        const missing = await expect(1, "queue:doctor", { cwd });
        assert.match(
          missing.stdout,
          /^BAD {3}store {2}no database at storage\/database\.sqlite\n +-> set DB_DATABASE/,
        );
        assert.equal(existsSync(join(cwd, "storage")), false, "to look makes no file");
        const wrong = await expect(1, "queue:doctor", { cwd, env: { QUEUE_TRIES: "many" } });
        assert.match(wrong.stdout, /^BAD {3}store/, "the first that is in the way");

        await seed(cwd, ["patient"]);
        const unset = await expect(1, "queue:doctor", { cwd, env: { QUEUE_TRIES: "many" } });
        assert.match(unset.stdout, /^BAD {3}settings {2}QUEUE_TRIES="?many"?: .*\n +-> set what is expected/);
        const idle = await expect(1, "queue:doctor", { cwd });
        assert.match(idle.stdout, /^OK {4}store +storage\/database\.sqlite$/m);
        assert.match(idle.stdout, /^OK {4}journal mode +wal$/m);
        assert.match(idle.stdout, /^BAD {3}workers +none is running, and jobs wait\n +-> start queue:work/m);
        assert.match(idle.stdout, /^1 bad, \d to look at, \d+ ok\n$/m);

        const worker = start(["queue:work"], { cwd });
        await worker.saw("START");
        const { findings, bad } = JSON.parse((await expect(0, "queue:doctor --json", { cwd })).stdout);
        assert.equal(bad, 0);
        for (const finding of findings) {
          assert.equal(Object.keys(finding).join(" "), "what level found remedy");
          assert.equal(finding.remedy === null, finding.level === "ok", finding.what);
        }
        const named = new Map(findings.map((one: { what: string; found: string }) => [one.what, one.found]));
        assert.match(String(named.get("workers")), /^1 alive \(\S+:\d+\), [01] of 1 slots taken$/);
        writeFileSync(join(cwd, "go"), "");
        await worker.saw("DONE");
        worker.signal("SIGTERM");
        assert.equal((await worker.ended).status, 0);

        writeFileSync(
          join(cwd, "storage/database.sqlite"),
          "no database at all, but text that is long enough",
        );
        const broken = await expect(1, "queue:doctor", { cwd });
        assert.match(
          broken.stdout,
          /^BAD {3}store {2}.*not a database.*\n +-> set DB_DATABASE, .* if it is this one, restore a backup\n/,
        );
        const folder = await expect(1, "queue:doctor --database=storage", { cwd });
        assert.match(
          folder.stdout,
          /^BAD {3}store {2}storage: .*: this is a folder, and no file\n +-> .* the path of a file\n/,
        );
        if (name !== "node") return;
        const flags = ["--no-experimental-sqlite", CLI, "queue:doctor"];
        const { status, stdout } = await new Running([...command, ...flags], { cwd }).ended;
        assert.equal(status, 1);
        assert.match(
          stdout,
          /^BAD {3}runtime {2}this runtime has no node:sqlite: .*\n +-> install a newer version/,
        );
      }));

    it("takes nothing from .env but the queue's own settings", () =>
      inFolder(async (cwd) => {
        writeFileSync(join(cwd, ".env"), "QUEUE_TRIES=7\nSECRET=hunter2\n");
        writeFileSync(
          join(cwd, "jobs.ts"),
          "export default { ask: (job) => console.log(job.tries, process.env.QUEUE_TRIES, process.env.SECRET) };",
        );
        await expect(0, "queue:dispatch ask", { cwd });
        const { stdout } = await expect(0, "queue:work --once", { cwd });
        // Bun reads .env by itself, before any program.
        assert.match(stdout, name === "bun" ? /^7 7 hunter2$/m : /^7 undefined undefined$/m);
      }));

    it("says which variable is near to a setting and is none, and works with what there is", () =>
      inProject(async (cwd) => {
        writeFileSync(join(cwd, ".env"), "QUEUE_RETRYAFTER=30\nQUEUE_TEST_TRIES=1\nTRIES=1\n");
        const env = { QUEUE_CONECTION: "redis", QUEUE_NAME: "mail", DB_DATABASE: ":memory:" };
        const ended = await expect(0, "queue:work --stop-when-empty", { cwd, env });
        assert.equal(
          ended.stderr,
          "queue: QUEUE_CONECTION is no setting: did you mean QUEUE_CONNECTION?\n" +
            "queue: QUEUE_RETRYAFTER is no setting: did you mean QUEUE_RETRY_AFTER?\n",
        );
        const examined = await expect(0, "queue:doctor --json", { cwd, env });
        assert.equal(examined.stderr, "", "once");
        const { findings } = JSON.parse(examined.stdout);
        assert.deepEqual(findings[1], {
          what: "settings",
          level: "warn",
          found: "QUEUE_RETRYAFTER is no setting: did you mean QUEUE_RETRY_AFTER?",
          remedy:
            "rename it to QUEUE_RETRY_AFTER, or to something less like it where it is another program's",
        });
        assert.equal((await expect(0, "queue:complete names", { cwd, env })).stderr, "", "a shell asks");
        if (name !== "deno") return;
        const rights = ["--no-prompt", `--config=${CONFIG}`, "--allow-read=.", "--allow-env=DB_DATABASE"];
        const limited = await new Running(
          [command[0]!, "run", ...rights, CLI, "queue:work", "--stop-when-empty"],
          { cwd, env },
        ).ended;
        assert.equal(limited.status, 0);
        assert.match(limited.stderr, /^queue: QUEUE_RETRYAFTER [^\n]*\n$/, "what may not be listed is not");
      }));

    it("says in one line which jobs module is at fault, and why", () =>
      inFolder(async (cwd) => {
        const modules: [file: string, text: string, why: RegExp][] = [
          ["throws.ts", "throw new TypeError('no\\nkey');", /: failed to load: TypeError: no$/],
          ["syntax.ts", "export default {", /: failed to load: /],
          ["imports.ts", "import './nowhere.ts'; export default {};", /: failed to load: .*nowhere/],
          // Deno finds the package that this repository is.
          ...(name === "deno" ? [] : [[
            "package.ts",
            "import { Discard } from '@x/queue'; export default { a: () => { throw new Discard('no'); } };",
            /: failed to load: .*@x\/queue.*; put the package into a node_modules beside the module, or bundle/,
          ] as [string, string, RegExp]]),
          ["named.ts", "export const jobs = {};", /: it has no default export; expected the map of jobs/],
          ["function.ts", "export default () => {};", /: its default export is a function; expected/],
          ["array.ts", "export default [];", /: its default export is an array; expected/],
          ["empty.ts", "export default {};", /: its default export has no jobs; expected/],
          [
            "promise.ts",
            "export default (async () => ({}))();",
            /: its default export is a Promise; expected/,
          ],
          ["map.ts", "export default new Map();", /: its default export is a Map; expected/],
          ["value.ts", "export default { mail: 7 };", /: its job "mail" is a number; expected/],
          ["nothing.ts", "throw Object.create(null);", /: failed to load: threw {}$/],
          [
            "getter.ts",
            "export default { get mail() { throw new Error('no key'); } };",
            /: its default export cannot be read: Error: no key$/,
          ],
          [
            "odd.ts",
            "export default { mail: { tries: 0, handle: () => {} } };",
            /jobs\.mail\.tries=0: expected/,
          ],
        ];
        for (const [file, text] of modules) writeFileSync(join(cwd, file), text);
        const others: [line: string, why: RegExp][] = [
          ["queue:work", /no jobs module: expected --jobs FILE, .* jobs\.ts or jobs\.js in \//],
          ["queue:dispatch mail", /no jobs module/],
          ["queue:work --jobs=none.ts", /jobs module .*\/none\.ts \(--jobs\): no such file/],
        ];
        const cases = [
          ...modules.map(([file, , why]) => [`queue:work --jobs=${file}`, why] as const),
          ...others,
        ];
        const ended = await session(cases.map(([line]) => line), { cwd });
        for (const [at, [line, why]] of cases.entries()) {
          assert.equal(ended[at]!.status, 2, line);
          assert.match(ended[at]!.stderr, /^queue: [^\n]+\n$/, line);
          assert.match(ended[at]!.stderr.trimEnd(), why, line);
        }
        for (const [at, [file]] of modules.slice(0, -1).entries()) {
          assert.match(ended[at]!.stderr, new RegExp(`^queue: jobs module .*/${file}: `));
        }
        assert.ok(readdirSync(cwd).every((file) => file.endsWith(".ts")), "no database was made");
      }));

    it("does not end in silence when the jobs module never finishes loading", () =>
      inFolder(async (cwd) => {
        writeFileSync(join(cwd, "jobs.ts"), "await new Promise(() => {});\nexport default {};");
        const { status, stdout, stderr } = await start(["queue:work"], { cwd }).ended;
        assert.equal(stdout, "");
        if (name === "deno") {
          // Deno notices by itself, and ends the process.
          assert.equal(status, 1);
          assert.match(stderr, /Top-level await promise never resolved[^]*jobs\.ts/);
        } else {
          assert.equal(status, 2);
          assert.match(stderr, /^queue: jobs module .*\/jobs\.ts: a top-level await in it never ends\n$/);
        }
      }));

    it("does not end in silence, and with 0, when the jobs module ends the process", () =>
      inFolder(async (cwd) => {
        const told = /^queue: jobs module .*\/jobs\.ts: it ended the process while it was being loaded\n/;
        const ends: [how: string, status: number][] = [
          ["process.exit();", 1],
          [name === "deno" ? "Deno.exit(0);" : "process.exit(0);", 1],
          ["await new Promise((resolve) => setTimeout(resolve, 10)); process.exit(3);", 3],
        ];
        for (const [how, status] of ends) {
          writeFileSync(join(cwd, "jobs.ts"), `${how}\nexport default { mail: () => {} };`);
          const ended = await expect(status, "queue:work", { cwd });
          assert.match(ended.stderr, told, how);
          assert.equal(ended.stdout, "", how);
        }
        const processes = await expect(2, "queue:work --processes=1 --quiet", { cwd });
        assert.match(processes.stderr, told);
        assert.match(processes.stderr, /: its process ended before it could run jobs: exit 3\n$/);
        writeFileSync(join(cwd, "jobs.ts"), "export default { mail: () => process.exit(0) };");
        await expect(0, "queue:dispatch mail", { cwd });
        const late = await expect(0, "queue:work --quiet", { cwd });
        assert.equal(late.stderr, "", "what a handler does is its own affair");
      }));

    it("prints no control characters of errors, names and ids, and no line that they forge", () =>
      inFolder(async (cwd) => {
        const forged = "first\u001b]0;title\u0007\nqueue: forged\r\nqueue: too\u2028";
        const evil = "evil\u001b[2J";
        writeFileSync(
          join(cwd, "jobs.ts"),
          `const problem = ${JSON.stringify(forged)};
          export default {
            ${JSON.stringify(evil)}: { tries: 1, handle: () => { throw new Error(problem); } },
            stray: async () => {
              setTimeout(() => { throw new Error(problem); });
              await new Promise((resolve) => setTimeout(resolve, 50));
            },
          };`,
        );
        const jobs: Jobs = { [evil]: () => {}, stray: () => {} };
        await withQueue(cwd, jobs, (queue) => queue.dispatchMany([[evil, null], ["stray", null]]));
        const printed = [await expect(0, "queue:work --quiet --stop-when-empty", { cwd })];
        assert.match(
          printed[0]!.stderr,
          /^queue: job evil \[2J failed after 1 attempts: first \]0;title queue: forged queue: too$/m,
        );
        assert.match(printed[0]!.stderr, /^queue: job stray .*: first \]0;title queue: forged /m);
        printed.push(
          ...await session(["queue:failed", "queue:retry all", "queue:work --stop-when-empty"], { cwd }),
        );
        assert.equal(printed[2]!.stdout, "retried 1 evil [2J\n");
        for (const { stdout, stderr } of printed) {
          // deno-lint-ignore no-control-regex -- they are what must not be there
          assert.doesNotMatch(stdout + stderr, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029]/);
          assert.doesNotMatch(stdout + stderr, /^queue: (forged|too)/m);
        }
      }));

    it("refuses in one line what cannot be dispatched, and settings that cannot work", () =>
      inProject(async (cwd) => {
        const [unknown, inherited, large, url] = await session([
          "queue:dispatch ehco",
          "queue:dispatch toString",
          "queue:dispatch echo 12345678901",
          "queue:dispatch echo --database=file:x",
        ], { cwd, env: { QUEUE_MAX_PAYLOAD: "10" } });
        assert.equal(
          unknown!.stderr,
          'queue: no job handler named "ehco" (did you mean echo?); ' +
            "there are: echo, flaky, broken, patient, obedient, stubborn\n",
        );
        assert.match(inherited!.stderr, /^queue: no job handler named "toString"; there are: .*\n$/);
        assert.match(large!.stderr, /^queue: .*\b10\b.*\n$/);
        assert.match(url!.stderr, /^queue: database="file:x": expected a path.*\n$/);
        assert.deepEqual([unknown, inherited, large, url].map((ended) => ended!.status), [2, 2, 2, 2]);
        const tries = await expect(2, "queue:work", { cwd, env: { QUEUE_TRIES: "lots" } });
        assert.match(tries.stderr, /^queue: QUEUE_TRIES="lots": expected .*\n$/);
        for (const workers of ["20000", "many", "1.5", "-1"]) {
          const ended = await expect(2, "queue:work", { cwd, env: { QUEUE_WORKERS: workers } });
          assert.equal(
            ended.stderr,
            `queue: QUEUE_WORKERS="${workers}": expected a whole number, from 0 to 10000\n`,
          );
          assert.equal(ended.stdout, "");
        }
      }));

    it("makes no database to look at one, and says in one line what is wrong with one", () =>
      inProject(async (cwd) => {
        writeFileSync(join(cwd, "text.sqlite"), "this is text, not a database\n".repeat(100));
        mkdirSync(join(cwd, "folder.sqlite"));
        const looks = ["queue:failed", "queue:status", "queue:retry all", "queue:forget 1"];
        const broken = ["queue:status", "queue:work", "queue:dispatch echo"].flatMap((line) => [
          `${line} --database=text.sqlite`,
          `${line} --database=folder.sqlite`,
        ]);
        const ended = await session([...looks, ...broken], { cwd });
        for (const [at, line] of [...looks, ...broken].entries()) {
          assert.equal(ended[at]!.status, 1, line);
          assert.match(ended[at]!.stderr, /^queue: [^\n]+\n$/, line);
          assert.equal(ended[at]!.stdout, "", line);
        }
        assert.equal(ended[0]!.stderr, "queue: no database at storage/database.sqlite\n");
        assert.deepEqual(readdirSync(cwd).sort(), ["folder.sqlite", "jobs.ts", "text.sqlite"]);
      }));

    it("is part of an app that gives it its jobs, and leaves no listeners behind", () =>
      inFolder(async (cwd) => {
        writeFileSync(
          join(cwd, "app.mjs"),
          `import process from "node:process";
          import { main } from ${JSON.stringify(CLI_URL)};
          const EVENTS = ["SIGTERM", "SIGINT", "unhandledRejection", "uncaughtException"];
          const listeners = () => [
            ...EVENTS.map((event) => process.listenerCount(event)),
            process.stdout.listenerCount("error"), process.stderr.listenerCount("error"),
          ].join();
          const jobs = { hello: (job) => console.log("hello " + job.payload) };
          const before = listeners();
          console.log(await main(["queue:dispatch", "hello", "you"], jobs));
          console.log(await main(["queue:work", "--stop-when-empty"], jobs));
          console.log(await main(["queue:dispatch", "helo"], jobs));
          console.log(await main(["queue:work", "--jobs=other.ts"], jobs));
          console.log(listeners() === before, process.exitCode);`,
        );
        const app = new Running([...command, "app.mjs"], { cwd, env: { QUEUE_JOBS: "nowhere.ts" } });
        const { status, stdout, stderr } = await app.ended;
        assert.equal(status, 0, stderr);
        assert.match(
          stdout,
          /^dispatched 1 hello\n0\nworking .*\n.* START\nhello you\n.* DONE\n0\n2\n2\ntrue undefined\n$/,
        );
        assert.match(stderr, /^queue: no job handler named "helo" \(did you mean hello\?\)/);
        assert.match(stderr, /^queue: unknown option '--jobs=other\.ts'/m, "its jobs are its own");
      }));

    it("works a jobs module that imports this package itself", () =>
      inFolder(async (cwd) => {
        writeFileSync(
          join(cwd, "jobs.ts"),
          `import { main } from ${JSON.stringify(CLI_URL)};
          export default { hello: () => console.log(typeof main) };`,
        );
        await expect(0, "queue:dispatch hello", { cwd });
        assert.match((await expect(0, "queue:work --once", { cwd })).stdout, /^function$/m);
      }));

    const skip = name !== "deno" && "only Deno has permissions";
    it("needs no permission but those for its files", { skip }, () =>
      inProject(async (cwd) => {
        const rights = ["--no-prompt", `--config=${CONFIG}`, "--allow-read=.", "--allow-write=storage"];
        for (const line of ["queue:dispatch echo free", "queue:work --stop-when-empty", "queue:failed"]) {
          const words = [command[0]!, "run", ...rights, CLI, ...line.split(" ")];
          const ended = await new Running(words, { cwd }).ended;
          assert.deepEqual([ended.status, ended.stderr], [0, ""], `${line}: ${JSON.stringify(ended)}`);
        }
      }));
  });
}

describe("what the command line prints", () => {
  it("reads durations as seconds, or with a unit", () => {
    const cases: [text: string, milliseconds: number | undefined][] = [
      ["90", 90_000],
      ["90s", 90_000],
      ["500ms", 500],
      ["1.5h", 5_400_000],
      ["5m", 300_000],
      ["1d", 86_400_000],
      ["0", 0],
      ["", undefined],
      ["-5", undefined],
      ["5 m", undefined],
      ["5w", undefined],
      ["1e3", undefined],
      ["Infinity", undefined],
    ];
    for (const [text, milliseconds] of cases) assert.equal(parseDuration(text), milliseconds, text);
  });

  it("writes durations in their two largest units", () => {
    const cases: [milliseconds: number, text: string][] = [
      [0.4, "0 ms"],
      [12.3, "12 ms"],
      [999.6, "1 s"],
      [1234, "1.2 s"],
      [10_000, "10 s"],
      [59_940, "59.9 s"],
      [59_960, "1 m"],
      [200_000, "3 m 20 s"],
      [3_599_600, "1 h"],
      [7_500_000, "2 h 5 m"],
      [86_399_000, "1 d"],
      [187_200_000, "2 d 4 h"],
    ];
    for (const [milliseconds, text] of cases) assert.equal(formatDuration(milliseconds), text);
  });

  it("keeps to one line what comes from payloads, without what a terminal would obey", () => {
    assert.equal(oneLine("\n  first\u001b[31m red\u0007\t!\nsecond"), "first [31m red !");
    assert.equal(oneLine("\r\n"), "");
    assert.equal(oneLine("invoice\u202efdp.exe"), "invoice fdp.exe", "nor what turns writing around");
    assert.equal(flat("Error: no\n    at one\u001b[0m\r\n"), "Error: no     at one [0m");
  });

  it("cuts a table to the width of the terminal, between characters", () => {
    const columns = [{ title: "ID", right: true }, { title: "ERROR" }];
    assert.deepEqual(table(columns, [["7", "🙂🙂🙂🙂🙂🙂"], ["12", "short\nmore"]], 8), [
      "ID  ERR…",
      " 7  🙂…",
      "12  sho…",
    ]);
    assert.deepEqual(
      table([{ title: "NAME" }, { title: "QUEUE" }], [["見積書", "日本"], ["mail", "e\u0301te"]]),
      ["NAME    QUEUE", "見積書  日本", "mail    e\u0301te"],
      "what is two columns wide counts as two, and an accent as none",
    );
    assert.deepEqual(
      table(columns, [["7", "x".repeat(200)]])[1],
      ` 7  ${"x".repeat(200)}`,
      "uncut elsewhere",
    );
  });

  it("names the store that it works on, without the password of it", () => {
    const redis = { QUEUE_CONNECTION: "redis", DB_DATABASE: "app.sqlite" };
    assert.equal(storeName(undefined, {}), "storage/database.sqlite");
    assert.equal(storeName("mine.sqlite", { DB_DATABASE: "app.sqlite" }), "mine.sqlite");
    assert.equal(storeName(undefined, redis), "redis://127.0.0.1:6379");
    const REDIS_URL = "rediss://queue:pass/w@rd@cache.example:6380/2";
    assert.equal(storeName(undefined, { ...redis, REDIS_URL }), "rediss://cache.example:6380/2");
  });

  it("takes for a slip what is near to a setting, and leaves alone what may be another program's", () => {
    const meant = (names: string[], env = {}) => slipsOf(names, env).map((slip) => slip.meant);
    const slips: [name: string, meant: string][] = [
      ["QUEUE_CONECTION", "QUEUE_CONNECTION"],
      ["QUEUE_CONNETCION", "QUEUE_CONNECTION"],
      ["QUEUE_RETRYAFTER", "QUEUE_RETRY_AFTER"],
      ["QUEUE_TIRES", "QUEUE_TRIES"],
      ["QUEU_TRIES", "QUEUE_TRIES"],
      ["queue_tries", "QUEUE_TRIES"],
      ["QUEUE_SYNCRONUS", "QUEUE_SYNCHRONOUS"],
      ["QUEUE_WORKER", "QUEUE_WORKERS"],
      ["QUEUE_JOB", "QUEUE_JOBS"],
      ["DB_DATABSE", "DB_DATABASE"],
    ];
    for (const [name, right] of slips) assert.deepEqual(meant([name]), [right], name);
    const others = [
      ...VARIABLES,
      ...[
        "QUEUE_DRIVER",
        "QUEUE_NAME",
        "QUEUE_URL",
        "QUEUE_HOST",
        "QUEUE_PORT",
        "QUEUE_PREFIX",
        "QUEUE_TIMEOUT",
      ],
      ...["QUEUE_RATE", "QUEUE_LOGS", "QUEUE_FAILED_DRIVER", "QUEUE_TEST_TRIES", "REDIS_QUEUE", "DB_QUEUE"],
      ...["DB_DATABASE2", "DB_DATABASES", "REDIS_URI", "REDIS_HOST", "REDIS_DB", "APP_NAME", "HOME", "Q", ""],
    ];
    assert.deepEqual(slipsOf(others, {}), []);
    assert.deepEqual(meant(["REDIS_URI"], { QUEUE_CONNECTION: "redis" }), ["REDIS_URL"]);
    assert.deepEqual(meant(["REDIS_URI"], { QUEUE_CONNECTION: "redis", REDIS_URL: "redis://a" }), []);
    assert.deepEqual(meant(["DB_DATABSE"], { DB_DATABASE: "app.sqlite" }), []);
    assert.deepEqual(
      meant(["QUEUE_JOB", "QUEUE_JOB"]),
      ["QUEUE_JOBS"],
      "in .env and in the environment: once",
    );
  });

  it("suggests what is near, and nothing where all is far", () => {
    const names = ["thumbnail", "mail", "invoice"];
    assert.equal(suggest("thumbnial", names), "thumbnail");
    assert.equal(suggest("Mail", names), "mail");
    assert.equal(suggest("mial", names), "mail");
    assert.equal(suggest("makeThumbnail", ["MakeThumbnails"]), "MakeThumbnails", "as it is written");
    assert.equal(suggest("delete", names), undefined);
    assert.equal(suggest("list", ["work", "retry", "forget"]), undefined);
  });

  it("colours the state of an event where it may", () => {
    const job = { id: "8", name: "invoice", queue: "default", attempt: 1, tries: 5 };
    const event = {
      type: "released",
      job,
      duration: 30,
      error: "upstream 503\nmore",
      retryIn: 10_000,
    } as const;
    const at = new Date(2026, 11, 1, 12, 4, 5);
    assert.equal(
      eventLine(event, at, 9, false),
      "2026-12-01 12:04:05  invoice    8       1/5       30 ms  RETRY in 10 s: upstream 503",
    );
    assert.equal(
      eventLine({ ...event, job: { ...job, name: "見積書" } }, at, 9, false),
      "2026-12-01 12:04:05  見積書     8       1/5       30 ms  RETRY in 10 s: upstream 503",
    );
    assert.ok(eventLine(event, at, 9, true).endsWith("\u001b[33mRETRY in 10 s\u001b[0m: upstream 503"));
  });
});
