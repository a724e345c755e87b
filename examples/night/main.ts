/**
 * A night with `queue:work --processes`: a job that hangs, one that spins, some that leak and one that crashes its
 * process, side by side with good ones. Each misbehaviour costs that job, and no other; what became of each is printed,
 * and the exit status is 1 where that is not so.
 *
 * ```sh
 * deno run -A examples/night/main.ts
 * ```
 *
 * With Bun or Node 24, write `bun` or `node` for `deno run -A`. It takes about ten seconds.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Queue } from "@x/queue";
import type jobs from "./jobs.ts";

/** How one job ended. */
export interface Fate {
  readonly name: keyof typeof jobs;
  /** How often it was stored as done. */
  done: number;
  /** What stands in `failed_jobs`, and how many attempts it took. */
  failed: string | null;
  /** The attempts that failed and were made good by another one. */
  retried: string[];
  /** How often it was handed back, as its process was killed for another job's sake. */
  handedBack: number;
}

/** What the night has brought. */
export interface Morning {
  readonly fates: readonly Fate[];
  /** What the worker said of its processes. */
  readonly lines: readonly string[];
  /** Its exit status. */
  readonly status: number | null;
}

const GOOD = 30;
/** More than two processes can take before they are too large, even if one of them is replaced meanwhile. */
const LEAKS = 5;
const PATIENCE = 240_000;

/** Dispatches the jobs, has a worker run them, and tells what became of each. */
export async function night(): Promise<Morning> {
  const folder = await mkdtemp(join(tmpdir(), "queue-night-"));
  const database = join(folder, "queue.sqlite");
  const queue = new Queue({ jobs: { report: {}, hang: {}, spin: {}, leak: {}, crash: {} }, database });
  try {
    const fates = new Map<string, Fate>();
    const dispatch = async (name: Fate["name"], data?: number): Promise<void> => {
      const { id } = await queue.dispatch(name, data);
      fates.set(id, { name, done: 0, failed: null, retried: [], handedBack: 0 });
    };
    for (let i = 0; i < GOOD; i++) {
      await dispatch("report", i);
      if (i === 4) { for (const name of ["hang", "spin", "crash"] as const) await dispatch(name); }
      if (i >= GOOD - LEAKS) await dispatch("leak");
    }
    const worker = startWorker(database, fates);
    const deadline = performance.now() + PATIENCE;
    while (await queue.waiting() > 0 && performance.now() < deadline && !worker.over) await sleep(50);
    worker.stop();
    const status = await worker.ended;
    for (const { id, error, attempts } of await queue.failed()) {
      fates.get(id)!.failed = `${error}, attempt ${attempts}`;
    }
    return { fates: [...fates.values()], lines: worker.lines, status };
  } finally {
    await queue.close();
    await rm(folder, { recursive: true, force: true });
  }
}

interface NightWorker {
  readonly lines: string[];
  readonly ended: Promise<number | null>;
  over: boolean;
  stop(): void;
}

/** `queue:work` in two processes, whose events are noted as they come. */
function startWorker(database: string, fates: Map<string, Fate>): NightWorker {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const args = ["cli.ts", "queue:work", "--jobs", "examples/night/jobs.ts", "--database", database]
    .concat("--processes=2", "--memory=200", "--json");
  const before = "Deno" in globalThis ? ["run", "-A"] : [];
  const child = spawn(process.execPath, [...before, ...args], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const worker: NightWorker = {
    lines: [],
    over: false,
    ended: new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (status) => {
        worker.over = true;
        resolve(status);
      });
    }),
    stop: () => {
      if (!worker.over) process.kill(child.pid!, "SIGTERM");
    },
  };
  createInterface({ input: child.stdout! }).on("line", (line) => {
    const { event, id, error, attempt } = JSON.parse(line);
    const fate = fates.get(id)!;
    if (event === "completed") fate.done++;
    else if (event === "released") fate.retried.push(`${error}, attempt ${attempt}`);
    else if (event === "handedBack") fate.handedBack++;
  });
  createInterface({ input: child.stderr! }).on("line", (line) => void worker.lines.push(line));
  return worker;
}

/** Whether each misbehaviour has cost only the job that it was. */
export function isAsPromised({ fates, lines, status }: Morning): boolean {
  const of = (name: Fate["name"]): Fate[] => fates.filter((fate) => fate.name === name);
  const done = [...of("report"), ...of("leak")].every((fate) =>
    fate.done === 1 && fate.failed === null && fate.retried.length === 0 && fate.handedBack === 0
  );
  const late = [...of("hang"), ...of("spin")].every((fate) =>
    fate.failed === "timed out after 1 s, attempt 1"
  );
  const [crash] = of("crash");
  const crashed = crash.failed === "crashed: SIGKILL, attempt 2" && crash.retried.length === 1;
  return status === 0 && done && late && crashed && lines.some((line) => / is replaced: it has /.test(line));
}

function show(morning: Morning): void {
  console.log("What the worker said of its processes:\n");
  for (const line of morning.lines) console.log(`  ${line}`);
  console.log("\nWhat became of each job:\n");
  for (const { name, done, failed, retried, handedBack } of morning.fates) {
    const notes = [
      ...retried.map((error) => `retried (${error})`),
      ...handedBack > 0 ? [`handed back ×${handedBack}`] : [],
      failed === null ? `done ×${done}` : `FAILED: ${failed}`,
    ];
    console.log(`  ${name.padEnd(7)} ${notes.join(", ")}`);
  }
}

if (import.meta.main) {
  const morning = await night();
  show(morning);
  const promised = isAsPromised(morning);
  console.log(promised ? "\nEach cost itself, and no other." : "\nThis is not what was promised.");
  process.exitCode = promised ? 0 : 1;
}
