/**
 * A process that works, and writes down what it ran and what the queue made of it.
 *
 * Its clock is the machine's, plus what stands in the file `clock`, by which a nemesis sets it.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as pass } from "node:timers/promises";
import { type Job, Queue } from "../../mod.ts";
import type { Kind } from "./history.ts";
import { Journal, machineTime } from "./journal.ts";
import { TRIES, type Work } from "./work.ts";

const { name, folder, store, lease, backoff, concurrency, queues, stopWhenEmpty, clock } = JSON.parse(
  process.argv[2],
);
const journal = new Journal(folder, name);
const note = (line: string) => journal.note({ fact: "said", line });

/** How often the clock is set, and how long a turn of the event loop may take without being written down. */
const LOOK = 100, STALL = 250;

function readShift(): number {
  try {
    return Number(readFileSync(clock, "utf8"));
  } catch {
    return 0;
  }
}

let shift = readShift();
Date.now = () => machineTime() + shift;
let lookedAt = machineTime();
const looking = setInterval(() => {
  const now = machineTime();
  if (now - lookedAt > STALL) journal.note({ fact: "stalled", since: lookedAt });
  // By this, silence before a kill is known to have been a stall.
  else if (now - journal.notedAt > STALL) journal.note({ fact: "alive" });
  lookedAt = now;
  shift = readShift();
}, LOOK);

async function perform(job: Job<Work>, kind: string): Promise<void> {
  const { n, lasts, fails } = job.data;
  const run = { n, id: job.id, attempt: job.attempt };
  const startedAt = machineTime();
  await journal.keep({ fact: "started", ...run });
  // Half of them heed their signal.
  const signal = n.length % 2 === 0 ? job.signal : undefined;
  try {
    if (kind === "spinning") { while (machineTime() - startedAt < lasts); }
    else if (lasts > 0) await pass(lasts, undefined, { signal });
    if (job.attempt <= fails) throw new Error(`meant to fail ${fails} times`);
  } catch (error) {
    journal.note({ fact: "ended", ...run, how: "threw" });
    throw error;
  }
  journal.note({ fact: "ended", ...run, how: "returned" });
}

const queue = new Queue({
  ...store,
  retryAfter: lease,
  backoff,
  env: {},
  log: { warn: note, error: note },
  jobs: Object.fromEntries(
    (Object.keys(TRIES) as Kind[]).map((kind) => [kind, {
      tries: TRIES[kind],
      handle: (job: Job<Work>) => perform(job, kind),
    }]),
  ),
});

const stopping = new AbortController();
const forcing = new AbortController();
process.on("SIGTERM", () => stopping.signal.aborted ? forcing.abort() : stopping.abort());
// Ctrl-C is for the one who started all of these.
process.on("SIGINT", () => {});
journal.note({ fact: "up", concurrency });
if (await open()) {
  await queue.work({
    signal: stopping.signal,
    forceSignal: forcing.signal,
    concurrency,
    queues,
    stopWhenEmpty,
    logFailures: false,
    onEvent: ({ type, job: { id, attempt } }) => {
      // A job that is handed back is not settled: its attempt runs once more.
      if (type === "started" || type === "handedBack" || type === "snoozed") return;
      journal.note({ fact: "settled", id, attempt, how: type });
    },
  });
}
clearInterval(looking);
await queue.close();
await journal.close();

/** Opens the store, which may be away just now; `false` where it was told to stop before. */
async function open(): Promise<boolean> {
  while (!stopping.signal.aborted) {
    try {
      await queue.open();
      return true;
    } catch (error) {
      note(`could not open: ${error}`);
      await pass(LOOK);
    }
  }
  return false;
}
