/**
 * How a worker makes itself known to its store: who it is, and what it runs.
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import process from "node:process";
import { VERSION } from "../version.ts";
import type { Attempt } from "./attempt.ts";
import { describe } from "./describe.ts";
import type { Driver, RunningJob, WorkerReport } from "./driver.ts";
import type { Log } from "./log.ts";
import { after } from "./timer.ts";

/** How often a worker says that it is there, in milliseconds, though nothing has changed. */
export const BEAT_EVERY = 10_000;

/** How long it counts as there after that: three times are missed before it is taken for dead. */
export const BEAT_LIFE: number = 3 * BEAT_EVERY;

/** How often it says so at most while what it runs changes, in milliseconds. */
const CHANGES_EVERY = 1000;

/** How many running jobs it names at most, those that have run longest; and how many job types. */
const MOST_RUNNING = 100;
const MOST_NAMES = 1000;

/** How long the end of a worker waits for the store to forget it, in milliseconds: else its time passes there. */
const LEAVE_DEADLINE = 1000;

/** An attempt that runs. */
export interface Running {
  readonly attempt: Attempt;
  /** Since when, in milliseconds of `performance.now()`. */
  readonly startedAt: number;
}

/** What a presence speaks of. */
export interface PresenceParts {
  readonly driver: Driver;
  readonly log: Log;
  readonly concurrency: number;
  readonly queues: readonly string[] | null;
  /** The job types with a handler. */
  readonly names: () => readonly string[];
  /** What runs, in any order. */
  readonly running: () => readonly Running[];
  /** How many slots are taken. */
  readonly busy: () => number;
  /** Whether the worker has said itself that its store fails. */
  readonly isFailing: () => boolean;
}

/** The presence of one worker. What fails here is never the worker's affair. */
export class Presence {
  readonly #parts: PresenceParts;
  readonly #id: string = randomUUID();
  readonly #startedAt: number = Date.now();
  #processed = 0;
  #changed = false;
  #beating: Promise<void> | null = null;
  #beatAt = -Infinity;
  #cancel: (() => void) | null = null;
  /** How often it failed in a row. */
  #failures = 0;
  #left = false;

  /** @param parts What it speaks of. */
  constructor(parts: PresenceParts) {
    this.#parts = parts;
  }

  /** Says that the worker has begun. */
  begin(): void {
    this.#beat();
  }

  /** What runs has changed: an attempt began. */
  began(): void {
    this.#change();
  }

  /** What runs has changed: an attempt ended. */
  ended(): void {
    this.#processed++;
    this.#change();
  }

  /** Says no more, and has the store forget the worker: waits for that until `over`, and a second at most. Never rejects. */
  async leave(over: Promise<void>): Promise<void> {
    this.#left = true;
    this.#cancel?.();
    if (this.#beatAt === -Infinity) return;
    // In the order of their calls, and not side by side: a beat that comes late would bring the worker back.
    const leaving = (this.#beating ?? Promise.resolve())
      .then(() => this.#parts.driver.leave(this.#id))
      .catch((error) => this.#failed(error));
    let cancel = (): void => {};
    const late = new Promise<void>((resolve) => cancel = after(LEAVE_DEADLINE, resolve));
    await Promise.race([leaving, over, late]);
    cancel();
  }

  #change(): void {
    if (this.#changed) return;
    this.#changed = true;
    if (this.#beating === null) this.#arm();
  }

  #arm(): void {
    if (this.#left) return;
    this.#cancel?.();
    const every = this.#changed ? CHANGES_EVERY : BEAT_EVERY;
    this.#cancel = after(Math.max(1, this.#beatAt + every - performance.now()), () => this.#beat());
  }

  #beat(): void {
    this.#changed = false;
    this.#beatAt = performance.now();
    this.#beating = this.#send().then(
      () => void (this.#failures = 0),
      (error) => this.#failed(error),
    ).finally(() => {
      this.#beating = null;
      this.#arm();
    });
  }

  async #send(): Promise<void> {
    await this.#parts.driver.beat(this.#report(), BEAT_LIFE, null);
  }

  /** One that failed is followed by another: only what lasts is worth a line, and of that the worker may have told. */
  #failed(error: unknown): void {
    this.#failures++;
    if (this.#failures !== 2 || this.#left || this.#parts.isFailing()) return;
    this.#parts.log.error(`${describe(error)} (while telling the store of this worker)`);
  }

  #report(): WorkerReport {
    const { concurrency, queues, names, running, busy } = this.#parts;
    const ahead = Date.now() - performance.now();
    const oldest = [...running()].sort((a, b) => a.startedAt - b.startedAt).slice(0, MOST_RUNNING);
    const jobs = oldest.map(({ attempt: { held: { id, name, queue, attempt } }, startedAt }): RunningJob => (
      { id, name, queue, attempt, since: Math.round(startedAt + ahead) }
    ));
    return {
      id: this.#id,
      host: HOST,
      pid: process.pid,
      startedAt: this.#startedAt,
      queues,
      concurrency,
      names: [...names()].sort().slice(0, MOST_NAMES),
      processed: this.#processed,
      busy: busy(),
      running: jobs,
      version: VERSION,
    };
  }
}

/** The name of this machine, which Deno tells with a permission only, and must not ask a person for. */
const HOST: string = hostName();

function hostName(): string {
  const { Deno } = globalThis as { Deno?: { permissions: { querySync(what: object): { state: string } } } };
  try {
    const state = Deno?.permissions.querySync({ name: "sys", kind: "hostname" }).state ?? "granted";
    return state === "granted" ? hostname() || "unknown" : "unknown";
  } catch {
    // A machine that has none, or a runtime that knows no such permission.
    return "unknown";
  }
}

/** How records of attempts name this worker's process. */
export const WORKER: string = `${HOST}:${process.pid}`;
