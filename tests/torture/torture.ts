/**
 * One run: processes that dispatch and work, a nemesis that strikes, a drain, and the check of what they wrote down.
 *
 * @module
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pass } from "node:timers/promises";
import { type FailedJob, Queue } from "../../mod.ts";
import { check, type Findings } from "./checker.ts";
import { type Camp, type Executable, Slot } from "./fleet.ts";
import { type History, readFacts } from "./history.ts";
import { Journal } from "./journal.ts";
import { Nemesis } from "./nemesis.ts";
import { Random } from "./random.ts";
import { schedule } from "./schedule.ts";
import { RedisStore, SqliteStore } from "./store.ts";
import { watchStore } from "./watch.ts";
import { TRIES } from "./work.ts";

/** What a run is. */
export interface Torture {
  readonly driver: "sqlite" | "redis";
  readonly seed: number;
  /** How long the nemesis strikes, in milliseconds. */
  readonly lasts: number;
  /** How long a lease lasts, in milliseconds. */
  readonly lease: number;
  /** What producers and workers run on, in turn. */
  readonly runtimes: readonly Executable[];
  readonly workers: number;
  readonly producers: number;
  /** The mean time between strikes, in milliseconds. */
  readonly gap: number;
  /** The mean time between the dispatches of a producer, in milliseconds. */
  readonly pace: number;
  /** With Redis: where failed jobs are kept. */
  readonly failed: "database" | "redis";
  /** How often, in milliseconds, a worker is killed while nothing else is amiss; once at the end in any case. */
  readonly quietEvery: number;
  /** Ends the strikes early; what was stored is still drained, and checked. */
  readonly signal?: AbortSignal;
  /** Hears how it goes. */
  readonly tell?: (line: string) => void;
}

/** What came of it. */
export interface Result {
  readonly findings: Findings;
  readonly history: History;
  /** Faults that this machine does not permit, with the reason. */
  readonly left: readonly string[];
  /** Where the logs are; they are removed unless a rule was broken. */
  readonly folder: string;
}

/** Jobs at a time in each worker. */
const CONCURRENCY = 4;

/** How many jobs the phase without faults starts in order. */
const ORDERED = 60;

/** The waits between attempts, in leases. */
const BACKOFF = [0.05, 0.1, 0.2];

/** How long nothing may come off what is left once all faults are over, in milliseconds. */
const DRAIN = 90_000;

/** Makes a run. */
export async function torture(options: Torture): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), "queue-torture-"));
  const logs = join(folder, "logs");
  mkdirSync(logs);
  const store = options.driver === "sqlite"
    ? new SqliteStore(folder)
    : await RedisStore.start(folder, options.failed);
  const journal = new Journal(logs, "nemesis");
  const ofStore = new Journal(logs, "store");
  const run = new Run(options, { folder: logs, store, journal });
  const watched = watchStore(store, ofStore);
  try {
    await run.all();
  } finally {
    await run.end();
    await watched();
    await ofStore.close();
    await journal.close();
    await store.remove();
  }
  const history: History = { driver: options.driver, lease: options.lease, facts: readFacts(logs) };
  const findings = check(history);
  if (findings.breaches.length === 0) rmSync(folder, { recursive: true });
  return { findings, history, left: store.left, folder };
}

class Run {
  readonly #options: Torture;
  readonly #camp: Camp;
  readonly #slots: Slot[] = [];

  constructor(options: Torture, camp: Camp) {
    this.#options = options;
    this.#camp = camp;
  }

  async all(): Promise<void> {
    const { tell = () => {} } = this.#options;
    tell("in order, without faults");
    await this.#ordered();
    const { workers, producers, lasts, seed, lease, gap, quietEvery } = this.#options;
    const { signal = new AbortController().signal } = this.#options;
    const working = this.#fill("worker", workers, () => ({ concurrency: CONCURRENCY }));
    const producing = this.#fill("producer", producers, (slot, incarnation) => ({
      seed: seed + 1000 * slot + incarnation,
      pace: this.#options.pace,
    }));
    for (const slot of [...working, ...producing]) await slot.start();

    const { store, journal } = this.#camp;
    const random = new Random(seed);
    const nemesis = new Nemesis({ workers: working, producers: producing, store, journal, lease, signal });
    const strikes = schedule(random, Nemesis.kinds(store), lease, gap);
    const end = performance.now() + lasts;
    for (let left = lasts; left > 0 && !signal.aborted; left = end - performance.now()) {
      tell(`the nemesis strikes, for ${Math.ceil(left / 1000)} s more`);
      await nemesis.rage(strikes, Math.min(left, quietEvery));
      await nemesis.killAlone(random.next());
    }

    tell("no more faults: the workers drain the store");
    for (const slot of producing) slot.tell();
    for (const slot of producing) await slot.ends();
    await this.#drain();
    for (const slot of working) slot.tell();
    for (const slot of working) await slot.ends();
  }

  /** Ends what still runs. */
  async end(): Promise<void> {
    for (const slot of this.#slots) {
      slot.signal("SIGCONT");
      await slot.kill();
    }
  }

  #fill(
    role: "producer" | "worker",
    count: number,
    own: (slot: number, incarnation: number) => Record<string, unknown>,
  ): Slot[] {
    const { lease, runtimes } = this.#options;
    const backoff = BACKOFF.map((leases) => Math.ceil(leases * lease));
    return Array.from({ length: count }, (_, index) => {
      const runtime = runtimes[(index + this.#slots.length) % runtimes.length];
      const number = this.#slots.length + index;
      return new Slot(this.#camp, runtime, role, number, (incarnation) => ({
        lease,
        backoff,
        ...own(number, incarnation),
      }));
    }).map((slot) => {
      this.#slots.push(slot);
      return slot;
    });
  }

  /** One producer, then one worker, and nothing else. */
  async #ordered(): Promise<void> {
    const { seed } = this.#options;
    for (
      const [slot] of [
        this.#fill("producer", 1, () => ({ seed, pace: 1, ordered: ORDERED })),
        this.#fill("worker", 1, () => ({ concurrency: 1, queues: "ordered", stopWhenEmpty: true })),
      ]
    ) {
      await slot.start();
      await slot.ends();
    }
  }

  /** Waits until the workers have worked off what is stored, and writes down what is there then. */
  async #drain(): Promise<void> {
    const { journal, store } = this.#camp;
    const log = { warn: () => {}, error: () => {} };
    const queue = new Queue({
      ...store.direct,
      retryAfter: this.#options.lease,
      env: {},
      log,
      jobs: Object.fromEntries(Object.keys(TRIES).map((kind) => [kind, {}])),
    });
    try {
      let left = await queue.waiting();
      let least = left;
      let deadline = performance.now() + DRAIN;
      while (left > 0 && performance.now() < deadline) {
        await pass(100);
        left = await queue.waiting();
        if (left >= least) continue;
        // A slow machine may take long: it is stuck where nothing comes off any more.
        least = left;
        deadline = performance.now() + DRAIN;
      }
      journal.note({ fact: "left", count: left });
      const pages: FailedJob[] = [];
      for (let page: FailedJob[] = [], after: string | undefined;; after = page.at(-1)!.id) {
        page = await queue.failed({ limit: 1000, ...(after === undefined ? {} : { after }) });
        pages.push(...page);
        if (page.length < 1000) break;
      }
      for (const { id, payload, attempts } of pages) {
        journal.note({ fact: "kept", n: JSON.parse(payload).n, id, attempts });
      }
    } finally {
      await queue.close();
    }
  }
}

/** A seed of its own for each run. */
export function newSeed(): number {
  return Math.floor(Math.random() * 2 ** 31);
}
