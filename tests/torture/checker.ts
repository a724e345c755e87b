/**
 * The rules, as a pure function over a history.
 *
 * @module
 */
import type { Fact, FactOf, FaultKind, History } from "./history.ts";
import { type Entry, Ledger, type Run } from "./ledger.ts";
import { Reasons } from "./reasons.ts";
import { TRIES } from "./work.ts";

/** The rules by their names. */
export const RULES = {
  lost: "every accepted job ends once: completed, or in failed_jobs",
  unexpected: "nothing runs that was not dispatched, or that was refused",
  "second run": "a job runs once more only where its holder is known to have lost it",
  settlement: "an attempt is settled once, and nothing is settled after the end",
  attempts: "attempts count up by one, and not beyond the tries",
  order: "one worker starts the jobs of a queue by priority, then in the order of dispatch",
  recovery: "what a killed worker held runs again within its lease and 2 s",
  key: "one job for one key, and one for one dispatch",
  batch: "of a dispatch of many, all are stored or none",
  delay: "no job starts before it is due",
  process: "no process ends by itself, and each ends when it is told to",
} as const;

/** The name of a rule. */
export type Rule = keyof typeof RULES;

/** A rule that does not hold. */
export interface Breach {
  readonly rule: Rule;
  /** What is wrong, in a sentence. */
  readonly says: string;
  /** What happened to the job, and the faults around it. */
  readonly story: readonly Fact[];
}

/** What the checker found. */
export interface Findings {
  readonly breaches: readonly Breach[];
  readonly jobs: {
    readonly accepted: number;
    readonly refused: number;
    readonly unknown: number;
    readonly completed: number;
    readonly failed: number;
    /** Ended with their process before it could say so. */
    readonly untold: number;
    readonly lost: number;
  };
  readonly runs: number;
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>;
  /** How often a job ran once more, by the reason. */
  readonly secondRuns: Readonly<Record<string, number>>;
  /** How often a settlement counted as stored by a lost reply. */
  readonly doubted: number;
  /** How long jobs of killed workers waited to run again while nothing else was amiss; `null` where there was none. */
  readonly recoveries: { readonly count: number; readonly slowest: number | null };
}

/** What a killed worker's job may take beyond its lease, in milliseconds. */
const RECOVERY = 2000;

/** By how much the clock of a file's line may be behind what it tells of, in milliseconds. */
const ROUNDING = 5;

/** Checks every rule. */
export function check(history: History): Findings {
  return new Checker(history).run();
}

class Checker {
  readonly #ledger: Ledger;
  readonly #reasons: Reasons;
  readonly #breaches: Breach[] = [];
  readonly #secondRuns: Record<string, number> = {};
  readonly #lost = new Set<Entry>();
  #completed = 0;
  #failed = 0;
  #untold = 0;
  #doubted = 0;
  #recoveries = 0;
  #slowest: number | null = null;

  constructor(history: History) {
    this.#ledger = new Ledger(history);
    this.#reasons = new Reasons(this.#ledger);
  }

  run(): Findings {
    const entries = [...this.#ledger.entries.values()];
    for (const entry of entries) {
      this.#checkExpected(entry);
      this.#checkEnd(entry);
      this.#checkRuns(entry);
      this.#checkSettlements(entry);
      this.#checkKey(entry);
      this.#checkDelay(entry);
    }
    this.#checkStore();
    this.#checkBatches(entries);
    this.#checkOrder(entries);
    this.#checkRecovery(entries);
    this.#checkProcesses();
    const faults: Partial<Record<FaultKind, number>> = {};
    for (const { kind } of this.#ledger.faults) faults[kind] = (faults[kind] ?? 0) + 1;
    return {
      breaches: this.#breaches,
      jobs: {
        accepted: entries.filter(({ accepted }) => accepted.length > 0).length,
        refused: entries.filter(isRefused).length,
        unknown: entries.filter((entry) => entry.accepted.length === 0 && !isRefused(entry)).length,
        completed: this.#completed,
        failed: this.#failed,
        untold: this.#untold,
        lost: this.#lost.size,
      },
      runs: entries.reduce((sum, { runs }) => sum + runs.length, 0),
      faults,
      secondRuns: this.#secondRuns,
      doubted: this.#doubted,
      recoveries: { count: this.#recoveries, slowest: this.#slowest },
    };
  }

  #breach(rule: Rule, says: string, of: Entry | readonly Fact[]): void {
    const story = "n" in of ? this.#ledger.storyOf(of) : of;
    this.#breaches.push({ rule, says, story });
  }

  // What is stored

  #checkExpected(entry: Entry): void {
    if (entry.tried.length === 0) {
      return this.#breach("unexpected", `${entry.n}: nobody dispatched it`, entry);
    }
    if (isRefused(entry) && isSeen(entry)) {
      this.#breach("unexpected", `${entry.n}: it was refused, and stored`, entry);
    }
  }

  #checkEnd(entry: Entry): void {
    const kept = entry.kept.length > 0;
    const completed = entry.settled.some(({ how }) => how === "completed");
    const failed = entry.settled.some(({ how }) => how === "failed");
    if (kept) this.#failed++;
    else if (completed) this.#completed++;
    if (entry.kept.length > 1) this.#breach("lost", `${entry.n}: it is in failed_jobs twice`, entry);
    if (kept && completed && !this.#wasDoubtedBefore(entry)) {
      this.#breach("lost", `${entry.n}: it was completed, and is in failed_jobs`, entry);
    }
    if (kept) return this.#checkFailure(entry);
    if (failed) return this.#lose(entry, "it was failed, and is not in failed_jobs");
    if (completed || !isSeen(entry)) return;
    const untold = entry.runs.some((run) =>
      run.ended?.how === "returned" && run.settled === null && this.#reasons.isUntold(run)
    );
    if (untold) this.#untold++;
    else if (this.#ledger.left === 0) this.#lose(entry, "it is gone, and nobody completed it");
    else this.#lose(entry, "it was not completed, and jobs are left in the store");
  }

  /** Whether its completion was taken for stored by a lost reply, and a later attempt failed. */
  #wasDoubtedBefore(entry: Entry): boolean {
    return entry.runs.some((run) =>
      run.settled?.how === "completed" && this.#reasons.ofDoubt(run) !== null &&
      entry.settled.some(({ how, attempt }) => how === "failed" && attempt > run.started.attempt)
    );
  }

  #lose(entry: Entry, how: string): void {
    this.#lost.add(entry);
    this.#breach("lost", `${entry.n}: ${how}`, entry);
  }

  /** Whether a job had cause to fail: its last attempt threw, or all were spent. */
  #checkFailure(entry: Entry): void {
    const kind = this.#ledger.kindOf(entry);
    if (kind === undefined) return;
    const last = Math.max(0, ...entry.runs.map(({ started }) => started.attempt));
    const spent = Math.max(last, ...entry.settled.map(({ attempt }) => attempt));
    const gap = this.#reasons.ofGap(entry.tried[0].at, entry.kept[0].at) !== null;
    if (spent < TRIES[kind] && !gap) {
      this.#breach("attempts", `${entry.n}: it failed after ${spent} of ${TRIES[kind]} tries`, entry);
    }
    const returned = entry.runs.some((run) => run.started.attempt === last && run.ended?.how === "returned");
    const poisoned = entry.settled.some(({ attempt, how }) => how === "failed" && attempt > TRIES[kind]);
    const untold = entry.runs.some((run) => run.settled === null && this.#reasons.isUntold(run));
    if (returned && !poisoned && !untold) {
      this.#breach("settlement", `${entry.n}: its last handler returned, and it is in failed_jobs`, entry);
    }
  }

  #checkKey(entry: Entry): void {
    if (entry.ids.size > 1) {
      const of = entry.tried[0]?.key === null ? "dispatch" : "key";
      this.#breach(
        "key",
        `${entry.n}: one ${of} is ${entry.ids.size} jobs: ${[...entry.ids].join(", ")}`,
        entry,
      );
    }
    if (entry.accepted.filter(({ duplicate }) => !duplicate).length > 1) {
      this.#breach("key", `${entry.n}: two dispatches say that they stored it`, entry);
    }
  }

  #checkStore(): void {
    const { left, strangers } = this.#ledger;
    if (left > 0) this.#breach("lost", `${left} jobs are left in the store`, []);
    for (const fact of strangers) {
      this.#breach("unexpected", `a line about a job that nobody dispatched`, [fact]);
    }
  }

  #checkBatches(entries: readonly Entry[]): void {
    const batches = Map.groupBy(
      entries.filter(({ tried }) => tried.length > 0 && tried[0].batch !== null),
      ({ tried }) => tried[0].batch!,
    );
    for (const [batch, members] of batches) {
      const stored = members.filter(isSeen).length;
      if (stored === 0 || stored === members.length) continue;
      const says = `${batch}: ${stored} of ${members.length} jobs of one dispatch were stored`;
      this.#breach("batch", says, members.flatMap((entry) => this.#ledger.storyOf(entry)));
    }
  }

  // What ran

  #checkRuns(entry: Entry): void {
    const kind = this.#ledger.kindOf(entry);
    entry.runs.forEach((run, index) => {
      const { attempt } = run.started;
      if (attempt < 1 || (kind !== undefined && attempt > TRIES[kind])) {
        this.#breach("attempts", `${entry.n}: attempt ${attempt} of ${kind && TRIES[kind]} ran`, entry);
      }
      this.#checkRun(entry, run, entry.runs.slice(0, index));
    });
  }

  #checkRun(entry: Entry, run: Run, before: readonly Run[]): void {
    const { at, attempt } = run.started;
    const completed = entry.runs.find(({ settled }) => settled?.how === "completed");
    if (completed !== undefined && attempt > completed.started.attempt) {
      const doubt = this.#reasons.ofDoubt(completed);
      if (doubt === null) {
        this.#breach(
          "second run",
          `${entry.n}: attempt ${attempt} ran, though attempt ${completed.started.attempt} was completed`,
          entry,
        );
      } else this.#count(doubt);
      return;
    }
    const later = before.find(({ started }) => started.attempt > attempt);
    if (later !== undefined) {
      return this.#explain(entry, run, this.#reasons.ofLateStart(run, later.started.at));
    }
    const same = before.findLast(({ started }) => started.attempt === attempt);
    if (same !== undefined) return this.#explain(entry, run, this.#ofHandBack(same, at));
    const isReleased = entry.settled.some((settled) =>
      settled.how === "released" && settled.attempt === attempt - 1
    );
    if (attempt === 1 || isReleased) return;
    const last = before.findLast(({ started }) => started.attempt === attempt - 1);
    if (last !== undefined) return this.#explain(entry, run, this.#reasons.ofLoss(last, at));
    const since = before.at(-1)?.started.at ?? entry.tried[0]?.at ?? 0;
    const reason = this.#reasons.ofGap(since, at);
    if (reason !== null) return this.#count(reason);
    this.#breach(
      "attempts",
      `${entry.n}: attempt ${attempt} ran, and nobody knows of attempt ${attempt - 1}`,
      entry,
    );
  }

  /** What is handed back keeps its number: only where a worker had to stop at once. */
  #ofHandBack(last: Run, at: number): string | null {
    const reason = this.#reasons.ofLoss(last, at);
    return reason === "its worker was told to stop at once" ? reason : null;
  }

  #explain(entry: Entry, run: Run, reason: string | null): void {
    if (reason !== null) return this.#count(reason);
    this.#breach(
      "second run",
      `${entry.n}: attempt ${run.started.attempt} ran once more in ${run.started.by}, and nothing explains it`,
      entry,
    );
  }

  #count(reason: string): void {
    this.#secondRuns[reason] = (this.#secondRuns[reason] ?? 0) + 1;
  }

  // What was settled

  #checkSettlements(entry: Entry): void {
    const kind = this.#ledger.kindOf(entry);
    const stored = entry.settled.filter(({ how }) => how !== "lost");
    const ends = stored.filter(({ how }) => how !== "released");
    if (ends.length > 1) this.#doubt(entry, `${entry.n}: it ended ${ends.length} times`);
    for (const [attempt, settlements] of Map.groupBy(stored, ({ attempt }) => attempt)) {
      // Handed back, an attempt is made again, and only the second is settled.
      if (settlements.length > 1) this.#doubt(entry, `${entry.n}: attempt ${attempt} was settled twice`);
    }
    const end = ends[0];
    const after = end && stored.find(({ attempt, how }) => how === "released" && attempt >= end.attempt);
    if (after) {
      this.#doubt(entry, `${entry.n}: attempt ${after.attempt} was released after the job had ended`);
    }
    for (const { how, attempt, by, at } of stored) {
      const run = entry.runs.find(({ started }) => started.attempt === attempt && started.by === by);
      if (how === "completed" && run?.ended?.how !== "returned") {
        this.#breach(
          "settlement",
          `${entry.n}: attempt ${attempt} was completed, and no handler of it returned`,
          entry,
        );
      }
      if (how === "released" && run?.ended?.how !== "threw") {
        this.#breach(
          "settlement",
          `${entry.n}: attempt ${attempt} was released, and no handler of it threw`,
          entry,
        );
      }
      if (kind === undefined || attempt <= TRIES[kind] + 1) continue;
      if (how !== "failed" || this.#reasons.ofGap(entry.tried[0].at, at) === null) {
        this.#breach("attempts", `${entry.n}: attempt ${attempt} of ${TRIES[kind]} was settled`, entry);
      }
    }
  }

  /** Two settlements that were both taken for stored: on Redis, a lost reply may be why. */
  #doubt(entry: Entry, says: string): void {
    if (this.#isDoubted(entry)) this.#doubted++;
    else this.#breach("settlement", says, entry);
  }

  #isDoubted(entry: Entry): boolean {
    return entry.runs.some((run) =>
      run.settled !== null && run.settled.how !== "lost" && this.#reasons.ofDoubt(run) !== null
    );
  }

  // When

  #checkDelay(entry: Entry): void {
    const first = entry.runs[0];
    if (entry.tried.length === 0 || first === undefined) return;
    const { at, delay } = entry.tried[0];
    const early = at + delay - first.started.at;
    if (early <= ROUNDING || this.#reasons.isClockOff(at, first.started.at)) return;
    this.#breach("delay", `${entry.n}: it started ${early} ms before it was due`, entry);
  }

  #checkOrder(entries: readonly Entry[]): void {
    const ordered = entries.filter((entry) => this.#ledger.kindOf(entry) === "ordered");
    const due = [...ordered].sort((a, b) =>
      b.tried[0].priority - a.tried[0].priority || a.tried[0].at - b.tried[0].at
    );
    // Lines of one millisecond stand in the order in which their one worker wrote them.
    const { facts } = this.#ledger.history;
    const starts = facts.filter((fact): fact is FactOf<"started"> =>
      fact.fact === "started" && this.#ledger.kindOf(this.#ledger.entries.get(fact.n)!) === "ordered"
    );
    const wrong = starts.findIndex(({ n }, index) => n !== due[index]?.n);
    if (wrong === -1) return;
    const says = `${starts[wrong].n} started as number ${wrong + 1}, in the place of ${
      due[wrong]?.n ?? "none"
    }`;
    this.#breach("order", says, this.#ledger.storyOf(this.#ledger.entries.get(starts[wrong].n)!));
  }

  #checkRecovery(entries: readonly Entry[]): void {
    const open = entries.flatMap((entry) => entry.runs.map((run) => ({ entry, run })))
      .filter(({ run }) => run.ended === null && run.settled === null);
    for (const fault of this.#ledger.faults) {
      if (fault.kind !== "kill" && fault.kind !== "kill alone") continue;
      for (const { entry, run } of open) if (run.started.by === fault.on) this.#recover(entry, run, fault);
    }
  }

  #recover(entry: Entry, run: Run, kill: Ledger["faults"][number]): void {
    const next = this.#nextSign(entry, run, kill.from);
    const bound = kill.from + this.#ledger.history.lease + RECOVERY;
    const until = Math.min(next ?? Infinity, bound);
    if (!this.#reasons.isQuiet(run.started.at, until, kill)) return;
    if (next !== null) {
      const taken = next - kill.from;
      if (next <= bound || this.#wasIdle(kill.from, bound)) {
        this.#recoveries++;
        this.#slowest = Math.max(this.#slowest ?? 0, taken);
      }
    }
    if (next !== null && next <= bound || !this.#wasIdle(kill.from, bound)) return;
    const took = next === null ? "never" : `${next - kill.from} ms`;
    this.#breach("recovery", `${entry.n}: its worker was killed, and it ran again after ${took}`, entry);
  }

  /** When somebody took the job next, or failed it as its tries were spent. */
  #nextSign(entry: Entry, run: Run, since: number): number | null {
    const starts = entry.runs.filter((other) => other !== run).map(({ started }) => started.at);
    const ends = entry.settled.filter(({ how }) => how === "failed").map(({ at }) => at);
    const next = Math.min(...[...starts, ...ends].filter((at) => at > since));
    return next === Infinity ? null : next;
  }

  /** Whether some worker that had not stalled since the kill had a free slot in all of the last moments. */
  #wasIdle(kill: number, until: number): boolean {
    const from = until - RECOVERY;
    const runs = [...this.#ledger.entries.values()].flatMap((entry) => entry.runs);
    return [...this.#ledger.up].some(([name, { at, concurrency }]) => {
      const gone = this.#ledger.gone.get(name)?.at ?? Infinity;
      const struck = this.#ledger.faults.some(({ on, from: start, to }) =>
        on === name && start <= until && to >= from
      );
      if (at > from || gone < until || struck || this.#reasons.isStalled(name, kill, until)) return false;
      const busy = runs.filter(({ started, ended }) =>
        started.by === name && started.at <= until && (ended?.at ?? gone) >= from
      );
      return busy.length < concurrency;
    });
  }

  #checkProcesses(): void {
    const { facts } = this.#ledger.history;
    for (const fact of this.#ledger.gone.values()) {
      const { how, expected, process } = fact;
      // Before it listens to SIGTERM that ends it, and so does a second one when it is about to leave.
      const isForced = this.#ledger.faults.some(({ kind, on }) => kind === "force" && on === process);
      const isDeaf = how === "SIGTERM" && (isForced || !this.#ledger.up.has(process));
      if (expected && (how === 0 || how === "SIGKILL" || isDeaf)) continue;
      const last = facts.filter(({ by }) => by === process).slice(-20);
      this.#breach("process", `${process} ended ${expected ? "badly" : "by itself"}: ${how}`, [
        ...last,
        fact,
      ]);
    }
    // A dispatch that never settles leaves its caller hanging.
    for (const entry of this.#ledger.entries.values()) {
      const { tried, accepted, refused, unknown } = entry;
      const open = tried.length - accepted.length - refused.length - unknown.length;
      const killed = tried.some(({ by }) =>
        this.#ledger.faults.some(({ kind, on }) => kind === "kill producer" && on === by)
      );
      if (open > 0 && !killed) this.#breach("process", `${entry.n}: the dispatch was never answered`, entry);
    }
  }
}

/** Whether every dispatch of it says that nothing was stored. */
function isRefused({ tried, refused, accepted }: Entry): boolean {
  return accepted.length === 0 && tried.length > 0 && refused.length >= tried.length;
}

/** Whether it is known to have been stored. */
function isSeen({ ids, kept }: Entry): boolean {
  return ids.size > 0 || kept.length > 0;
}

/** The breach with the shortest story, where it has one: the one to read first. */
export function shortest(breaches: readonly Breach[]): Breach | undefined {
  const length = ({ story }: Breach): number => story.length || Infinity;
  return breaches.toSorted((a, b) => length(a) < length(b) ? -1 : length(a) > length(b) ? 1 : 0)[0];
}
