/** A process in which a job, or the app itself, leaves an error behind that nobody catches. */
import process from "node:process";
import { setTimeout as pass } from "node:timers/promises";
import { type Job, Queue } from "../../mod.ts";
import { options, say } from "./say.ts";

const { stray, from, listening } = options;

const strays: Record<string, () => void> = {
  rejection: () => void Promise.reject(new Error("a forgotten promise")),
  "late rejection": () => void pass(5).then(() => Promise.reject(new Error("a forgotten promise"))),
  "rejection with a text": () => void Promise.reject("a forgotten text"),
  exception: () => {
    setTimeout(() => {
      throw new Error("a forgotten timer");
    }, 5);
  },
};
const leaveStray = strays[stray];

const queue = new Queue({
  database: ":memory:",
  env: {},
  tries: 1,
  log: { warn: (line) => say("warn", line), error: (line) => say("error", line) },
  jobs: {
    forgetful: async () => {
      leaveStray();
      await pass(100);
    },
    quick: () => leaveStray(),
    /** The event loop stands still, so that the others are late to end. */
    blocking: () => {
      for (const end = performance.now() + 300; performance.now() < end;);
    },
    other: async (job: Job) => {
      await pass(100);
      say("ran", job.payload);
    },
  },
});

/** Runs jobs, and one more after `during`. */
async function working(
  names: ("forgetful" | "quick" | "other" | "blocking")[],
  during = () => {},
): Promise<void> {
  await queue.open();
  const workers = queue.start(3);
  await queue.dispatchMany(names.map((name, index) => [name, String(index)] as ["other", string]));
  await pass(50);
  during();
  await pass(200);
  await queue.dispatch("other", "last");
  while (await queue.waiting() > 0) await pass(5);
  await workers.stop();
  say("failed", (await queue.failed()).length);
}

const sources: Record<string, () => Promise<void>> = {
  "a job": () => working(["forgetful", "other", "other"]),
  "a job that has ended": () => working(["quick"]),
  "a job beside one that blocks": () => working(["forgetful", "other", "blocking"]),
  "an app beside a job": () => working(["other"], leaveStray),
  "an app with an idle worker": () => working([], leaveStray),
  async "an app whose worker has stopped"() {
    await working(["other"]);
    leaveStray();
    await pass(200);
  },
  async "an app without a worker"() {
    leaveStray();
    await pass(200);
  },
};

if (listening) process.on("unhandledRejection", (reason) => say("heard", String(reason)));
await sources[from]();
say("survived");
