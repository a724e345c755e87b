/**
 * What the processes of a torture wrote down, each in a file of its own, and how it is read.
 *
 * A line is a fact. A process writes it before it relies on it: that a dispatch will be tried before it is, that a
 * handler has started before it does its work. What is missing after a crash is thereby known, too.
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The kinds of jobs; see `work.ts`. */
export type Kind = "quick" | "slow" | "flaky" | "doomed" | "spinning" | "ordered";

/** What a process knows to have happened. */
export type Happening =
  /** A producer will dispatch the job `n` now. */
  | {
    readonly fact: "tried";
    readonly n: string;
    readonly kind: Kind;
    readonly priority: number;
    readonly delay: number;
    /** The `id` of a dispatch that may be repeated. */
    readonly key: string | null;
    /** Those that were dispatched in one call, all or none. */
    readonly batch: string | null;
  }
  /** The dispatch resolved. */
  | { readonly fact: "accepted"; readonly n: string; readonly id: string; readonly duplicate: boolean }
  /** The dispatch rejected, and says that nothing was stored. */
  | { readonly fact: "refused"; readonly n: string; readonly why: string }
  /** The dispatch rejected, and says that the job may have been stored. */
  | { readonly fact: "unknown"; readonly n: string; readonly why: string }
  /** A worker works; a producer is one without slots. */
  | { readonly fact: "up"; readonly concurrency: number }
  /** The handler was called. */
  | { readonly fact: "started"; readonly n: string; readonly id: string; readonly attempt: number }
  /** The handler returned, or threw. */
  | {
    readonly fact: "ended";
    readonly n: string;
    readonly id: string;
    readonly attempt: number;
    readonly how: "returned" | "threw";
  }
  /** The worker told of the outcome: stored, or `lost`, which is not. */
  | { readonly fact: "settled"; readonly id: string; readonly attempt: number; readonly how: Settlement }
  /** The process runs its event loop, and had nothing else to say for a while. */
  | { readonly fact: "alive" }
  /** The process did not get to run its event loop since then; or the `store` did not answer. */
  | { readonly fact: "stalled"; readonly since: number }
  /** The queue's own log. */
  | { readonly fact: "said"; readonly line: string }
  /** The nemesis strikes now: a process by its name, or the `store`. */
  | { readonly fact: "strike"; readonly number: number; readonly kind: FaultKind; readonly on: string }
  /** The effect of that strike is over. */
  | { readonly fact: "over"; readonly number: number }
  /** A process ended: its exit code, or the signal; and whether it was told to. */
  | {
    readonly fact: "gone";
    readonly process: string;
    readonly how: number | string;
    readonly expected: boolean;
  }
  /** At the end: a job in `failed_jobs`. */
  | { readonly fact: "kept"; readonly n: string; readonly id: string; readonly attempts: number | null }
  /** At the end: how many jobs are still stored, and not in `failed_jobs`. */
  | { readonly fact: "left"; readonly count: number };

/** How a worker's events name the end of an attempt. */
export type Settlement = "completed" | "released" | "failed" | "lost";

/** What the nemesis does. */
export type FaultKind =
  // To a process.
  | "kill"
  | "kill alone"
  | "kill producer"
  | "stop"
  | "deploy"
  | "force"
  | "clock"
  | "half-open"
  | "lost replies"
  // To an SQLite file.
  | "lock"
  | "full disk"
  // To a Redis server.
  | "restart"
  | "freeze"
  | "pause"
  | "kill clients"
  | "flush scripts";

/** A fact, with the process that wrote it and the time, in epoch milliseconds by the machine's own clock. */
export type Fact = Happening & { readonly at: number; readonly by: string };

/** A fact of one sort. */
export type FactOf<Name extends Fact["fact"]> = Extract<Fact, { fact: Name }>;

/** What happened in one run. */
export interface History {
  /** Which rules of time and of doubt hold. */
  readonly driver: "sqlite" | "redis";
  /** How long a lease lasts, in milliseconds. */
  readonly lease: number;
  /** All that was written down, in the order of time. */
  readonly facts: readonly Fact[];
}

/** Reads the files of a folder. A last line that a kill cut short is none. */
export function readFacts(folder: string): Fact[] {
  if (!existsSync(folder)) return [];
  const facts = readdirSync(folder).filter((file) => file.endsWith(".jsonl")).sort().flatMap((file) => {
    const by = file.slice(0, -".jsonl".length);
    const lines = readFileSync(join(folder, file), "utf8").split("\n");
    return lines.slice(0, -1).map((line): Fact => ({ ...JSON.parse(line), by }));
  });
  return facts.sort((a, b) => a.at - b.at);
}
