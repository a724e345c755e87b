/** Jobs for child processes. Each writes lines of JSON to the file that its payload names: word, process, attempt. */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Discard, type Job, Snooze } from "../../mod.ts";

/** What each payload holds. */
export interface Told {
  /** Where the job writes. */
  readonly file: string;
  /** Whatever else it needs. */
  readonly text?: string;
}

type ToldJob = Job<Told>;

function say(job: ToldJob, word: string, ...rest: unknown[]): void {
  const line = [word, process.pid, job.attempt, ...rest];
  appendFileSync(job.data.file, JSON.stringify(line) + "\n");
}

/** Waits, without blocking, for a file of that name beside the one that the payload names. */
async function waitFor({ data }: ToldJob, name: string): Promise<void> {
  while (!existsSync(`${data.file}.${name}`)) await new Promise((resolve) => setTimeout(resolve, 5));
}

function fail(): never {
  throw new Error("no way");
}

const kept: Uint8Array[] = [];

const started = `${process.pid} ${performance.timeOrigin}`;

/** For the tests of what happens when a process can start at first and not later. */
const broken = process.env.ISOLATED_JOBS_BROKEN;
if (broken !== undefined && existsSync(broken)) throw new Error("broken by the test");

export default {
  note: (job: ToldJob) => say(job, "note", job.data.text),
  echo: (job: ToldJob) => writeFileSync(`${job.data.file}.echo`, job.payload),
  throws: {
    tries: 1,
    handle: (job: ToldJob) => {
      throw new RangeError(job.data.text);
    },
  },
  database: (job: ToldJob) => {
    job.db.exec("CREATE TABLE IF NOT EXISTS seen (text TEXT)");
    job.db.prepare("INSERT INTO seen VALUES (?)").run(job.data.text);
  },
  print: (job: ToldJob) => console.log(`{"event": "forged by ${job.data.text}`),
  /** Ends once as many processes as the text says have come. */
  meet: async (job: ToldJob) => {
    say(job, "meet");
    const processes = () =>
      new Set(
        readFileSync(job.data.file, "utf8").split("\n").filter((line) => line !== "")
          .map((line) => JSON.parse(line)[1]),
      ).size;
    while (processes() < Number(job.data.text)) await new Promise((resolve) => setTimeout(resolve, 5));
  },
  wait: async (job: ToldJob) => {
    say(job, "waiting");
    await waitFor(job, "go");
    say(job, "waited");
  },
  /** Blocks its process until there is a file `unblock`. */
  block: (job: ToldJob) => {
    say(job, "block");
    while (!existsSync(`${job.data.file}.unblock`));
    say(job, "blocked");
  },
  spin: {
    tries: 1,
    timeout: 100,
    handle: (job: ToldJob) => {
      say(job, "spin");
      for (;;);
    },
  },
  forever: (job: ToldJob) => {
    say(job, "forever");
    for (;;);
  },
  hang: {
    tries: 1,
    timeout: 100,
    handle: (job: ToldJob) => {
      say(job, "hang");
      return new Promise(() => {});
    },
  },
  polite: {
    tries: 1,
    timeout: 100,
    handle: async (job: ToldJob) => {
      await new Promise((resolve) => job.signal.addEventListener("abort", resolve));
      const { code, message } = job.signal.reason as { code: string; message: string };
      say(job, "aborted", code, message);
    },
  },
  obey: async (job: ToldJob) => {
    say(job, "obey");
    await new Promise((resolve) => job.signal.addEventListener("abort", resolve));
    say(job, "obeyed", (job.signal.reason as { code: string }).code);
  },
  stubborn: (job: ToldJob) => {
    say(job, "stubborn");
    return new Promise(() => {});
  },
  /** Blocks its process once it is told to end. */
  spiteful: {
    tries: 1,
    timeout: 100,
    handle: (job: ToldJob) =>
      new Promise(() =>
        job.signal.addEventListener("abort", () => {
          say(job, "spiteful");
          for (;;);
        })
      ),
  },
  exit: {
    tries: 2,
    backoff: 1,
    handle: (job: ToldJob) => {
      say(job, "exit");
      process.exit(3);
    },
  },
  abort: {
    tries: 1,
    handle: (job: ToldJob) => {
      say(job, "abort");
      process.kill(process.pid, "SIGABRT");
      for (;;);
    },
  },
  /** Blocks its process until there is a file `crash`, and ends it. */
  crash: {
    tries: 1,
    handle: (job: ToldJob) => {
      say(job, "crash");
      while (!existsSync(`${job.data.file}.crash`));
      process.exit(4);
    },
  },
  steps: async (job: ToldJob) => {
    for (let step = 1; step <= 50; step++) {
      job.progress(step / 100, step === 50 ? "half of it" : "some of it");
    }
    say(job, "steps");
    await new Promise((resolve) => job.signal.addEventListener("abort", resolve));
    say(job, "aborted", (job.signal.reason as { code: string }).code);
    throw job.signal.reason;
  },
  discard: () => {
    throw new Discard("there is no such user");
  },
  snooze: () => {
    throw new Snooze({ hours: 1 }, "not yet");
  },
  regret: {
    tries: 1,
    handle: fail,
    failed: (job: ToldJob, error: Error) => say(job, "regretted", `${job.name}: ${error.message}`),
  },
  regretCrash: {
    tries: 1,
    handle: () => process.exit(6),
    failed: (job: ToldJob, error: Error) => say(job, "regretted", `${job.name}: ${error.message}`),
  },
  badHook: {
    tries: 1,
    handle: fail,
    failed: () => {
      throw new Error("the hook, too");
    },
  },
  deadlyHook: { tries: 1, handle: fail, failed: () => process.exit(7) },
  stray: (job: ToldJob) => {
    Promise.reject(new Error("nobody awaits this"));
    say(job, "stray");
  },
  /** As a library does that tells a process manager of its state: everything that JSON can hold, near misses included. */
  talk: async (job: ToldJob) => {
    const words = [{ type: "ready" }, "ready", 7, null, true, [], [null], [{ type: "ended", run: 1 }], {}];
    for (const word of words) await new Promise((sent) => process.send!(word, undefined, undefined, sent));
    say(job, "talk");
  },
  leak: (job: ToldJob) => {
    kept.push(new Uint8Array(300 * 2 ** 20).fill(1));
    say(job, "leak", started);
  },
  rights: (job: ToldJob) => {
    const { Deno } = globalThis as unknown as {
      Deno: { permissions: { querySync(what: { name: string }): { state: string } } };
    };
    const state = (name: string) => Deno.permissions.querySync({ name }).state;
    say(job, "rights", ...["read", "net", "ffi", "sys"].map((name) => `${name} ${state(name)}`));
  },
};
