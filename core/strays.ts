/**
 * Errors that a handler leaves behind: a promise that nobody awaits, or a timer that throws. They must not end the
 * process with the other jobs that it holds.
 *
 * @module
 */
import { AsyncLocalStorage } from "node:async_hooks";
import process from "node:process";
import { setImmediate } from "node:timers";
import { describe, stackOf } from "./describe.ts";
import type { Log } from "./log.ts";

/** Which job an error comes from. */
interface Origin {
  readonly id: string;
  readonly name: string;
}

/** A worker that wants to know. */
export interface StrayWatcher {
  /** Where it logs. */
  readonly log: Log;
  /** The jobs whose handlers run now, or did a moment ago. */
  suspects(): Origin[];
}

/** How long after a job started it is still suspected, in milliseconds, where nothing runs. */
const SUSPECT = 1000;

/** Whose a stray may be that the runtime ascribes to nobody. */
export class Suspects {
  /**
   * Of this turn of the event loop. Bun tells of a rejection at the end of the turn, in which the timers of other jobs, and
   * of the one that left it behind, may have gone off.
   */
  readonly #justEnded: Origin[] = [];
  #last: Origin | null = null;
  #lastAt = -Infinity;

  /** A handler begins, at this time of `performance.now()`. */
  began(job: Origin, at: number): void {
    this.#last = job;
    this.#lastAt = at;
  }

  /** A handler has ended. */
  ended(job: Origin): void {
    if (this.#justEnded.push(job) === 1) setImmediate(() => this.#justEnded.length = 0);
  }

  /** All of them, besides those that run: first those that have just ended, in the order of their ends. */
  with(running: Iterable<Origin>): Origin[] {
    const all = [...this.#justEnded, ...running];
    if (all.length > 0) return all;
    return this.#last !== null && performance.now() - this.#lastAt < SUSPECT ? [this.#last] : [];
  }
}

const origins = new AsyncLocalStorage<Origin>();
const watchers = new Set<StrayWatcher>();

/** Runs a handler so that what it leaves behind can be traced to it. */
export function tracedTo<Result>(job: Origin, run: () => Result): Result {
  return origins.run(job, run);
}

/** Catches strays until the returned function is called. */
export function watchStrays(watcher: StrayWatcher): () => void {
  watchers.add(watcher);
  if (watchers.size === 1) {
    process.on("unhandledRejection", onRejection);
    process.on("uncaughtException", onException);
  }
  return () => {
    watchers.delete(watcher);
    if (watchers.size === 0) standAside();
  };
}

function standAside(): void {
  process.off("unhandledRejection", onRejection);
  process.off("uncaughtException", onException);
}

function onRejection(reason: unknown): void {
  catchStray("unhandledRejection", "left a promise behind that rejected", reason);
}

function onException(error: unknown): void {
  catchStray("uncaughtException", "left a callback behind that threw", error);
}

/**
 * Node knows the context of both kinds; Bun loses it for rejections and Deno for exceptions (measured on Bun 1.4 and
 * Deno 2.9). There, jobs that run at that moment are suspected.
 */
function losesContext(event: string): boolean {
  return event === "unhandledRejection"
    ? process.versions.bun !== undefined
    : process.versions.deno !== undefined;
}

function catchStray(event: "unhandledRejection" | "uncaughtException", what: string, error: unknown): void {
  const origin = origins.getStore();
  const suspects = origin !== undefined
    ? [origin]
    : losesContext(event)
    ? [...watchers].flatMap((watcher) => watcher.suspects())
    : [];
  const text = stackOf(error) ?? describe(error);
  const watcher = [...watchers].find((one) => one.suspects().includes(suspects[0])) ?? [...watchers][0];
  if (watcher !== undefined && suspects.length > 0) {
    const jobs = suspects.slice(0, 10).map(({ id, name }) => `${name} (id ${id})`).join(" or ");
    watcher.log.error(`queue: job ${jobs} ${what}: ${text}`);
    return;
  }
  // Not a job's. Where the app listens, it decides; else the runtime does what it would without us: end the process.
  if (process.listenerCount(event) > 1) return;
  standAside();
  setImmediate(() => {
    throw error;
  });
}
