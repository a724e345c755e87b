/** A history by its jobs, dispatches, processes and faults: what the rules look things up in. */
import type { Fact, FactOf, FaultKind, History, Kind } from "./history.ts";
import { TRIES } from "./work.ts";

/** All that is known of one payload. */
export interface Entry {
  readonly n: string;
  readonly tried: FactOf<"tried">[];
  readonly accepted: FactOf<"accepted">[];
  readonly refused: FactOf<"refused">[];
  readonly unknown: FactOf<"unknown">[];
  /** In the order of their starts. */
  readonly runs: Run[];
  readonly settled: FactOf<"settled">[];
  readonly kept: FactOf<"kept">[];
  /** Every id that it was seen with. */
  readonly ids: Set<string>;
}

/** A handler's call. */
export interface Run {
  readonly started: FactOf<"started">;
  /** `null` where its process was killed, or has not said. */
  ended: FactOf<"ended"> | null;
  /** What the worker told of it; `null` likewise. */
  settled: FactOf<"settled"> | null;
}

/** A strike of the nemesis, with its effect. */
export interface Fault {
  readonly kind: FaultKind;
  /** A process, or the `store`. */
  readonly on: string;
  readonly from: number;
  to: number;
}

/** A time in which a process did not run its event loop. */
export interface Stall {
  readonly by: string;
  readonly since: number;
  readonly at: number;
}

/** The index. */
export class Ledger {
  readonly history: History;
  readonly entries = new Map<string, Entry>();
  readonly faults: Fault[] = [];
  readonly stalls: Stall[] = [];
  /** Which settlements met an error of the store at first, as the worker logged it. */
  readonly #troubled = new Set<string>();
  /** When each process wrote its last line. */
  readonly lastAt = new Map<string, number>();
  /** How many jobs each process runs at a time, and since when it is up. */
  readonly up = new Map<string, FactOf<"up">>();
  readonly gone = new Map<string, FactOf<"gone">>();
  /** What was said of an id that no dispatch and no run names. */
  readonly strangers: Fact[] = [];
  left = 0;
  readonly #byId = new Map<string, Entry>();

  constructor(history: History) {
    this.history = history;
    const strikes = new Map<number, Fault>();
    // Settlements may name an id before the dispatch's own line does: the job was quicker than its producer.
    for (const fact of history.facts) this.#note(fact, strikes);
    for (const fact of history.facts) if (fact.fact === "settled") this.#settle(fact);
    this.#nameUnheard();
    // One that was killed while it stalled could not say so.
    for (const { process, at, how } of this.gone.values()) {
      const since = this.lastAt.get(process) ?? at;
      if (how === "SIGKILL") this.stalls.push({ by: process, since, at });
    }
    const end = history.facts.at(-1)?.at ?? 0;
    for (const fault of this.faults) if (fault.to === Infinity) fault.to = end;
  }

  /** What the job was dispatched as; of a job that nobody dispatched, `undefined`. */
  kindOf(entry: Entry): Kind | undefined {
    return entry.tried[0]?.kind;
  }

  /** Whether the worker logged that it could not settle the run at once. */
  wasTroubled({ started: { by, id } }: Run): boolean {
    return this.#troubled.has(`${by} ${id}`);
  }

  /** All lines that name the job, and the faults from a lease before its first to its last. */
  storyOf(entry: Entry): Fact[] {
    const own = (fact: Fact): boolean =>
      "n" in fact && fact.n === entry.n || "id" in fact && entry.ids.has(fact.id) ||
      fact.fact === "said" && [...entry.ids].some((id) => fact.line.includes(`id ${id})`));
    const { facts, lease } = this.history;
    const mine = facts.filter(own);
    const from = (mine[0]?.at ?? 0) - lease;
    const to = mine.findLast(({ fact }) => fact !== "kept")?.at ?? 0;
    const numbers = new Set<number>();
    const processes = new Set(mine.map(({ by }) => by));
    const around = (fact: Fact): boolean => {
      if (fact.at < from || fact.at > to + lease) return false;
      if (fact.fact === "strike") {
        const near = fact.on === "store" || processes.has(fact.on);
        if (near) numbers.add(fact.number);
        return near;
      }
      if (fact.fact === "over") return numbers.has(fact.number);
      if (fact.fact === "gone") return processes.has(fact.process);
      return fact.fact === "stalled" && (fact.by === "store" || processes.has(fact.by));
    };
    return facts.filter((fact) => own(fact) || around(fact));
  }

  #of(n: string): Entry {
    let entry = this.entries.get(n);
    if (entry === undefined) {
      entry = {
        n,
        tried: [],
        accepted: [],
        refused: [],
        unknown: [],
        runs: [],
        settled: [],
        kept: [],
        ids: new Set(),
      };
      this.entries.set(n, entry);
    }
    return entry;
  }

  #named(n: string, id: string): Entry {
    const entry = this.#of(n);
    entry.ids.add(id);
    this.#byId.set(id, entry);
    return entry;
  }

  #note(fact: Fact, strikes: Map<number, Fault>): void {
    this.lastAt.set(fact.by, fact.at);
    switch (fact.fact) {
      case "tried":
        return void this.#of(fact.n).tried.push(fact);
      case "accepted":
        return void this.#named(fact.n, fact.id).accepted.push(fact);
      case "refused":
        return void this.#of(fact.n).refused.push(fact);
      case "unknown":
        return void this.#of(fact.n).unknown.push(fact);
      case "started":
        return void this.#named(fact.n, fact.id).runs.push({ started: fact, ended: null, settled: null });
      case "ended": {
        const run = this.#named(fact.n, fact.id).runs.find(({ started, ended }) =>
          ended === null && isSame(started, fact)
        );
        if (run === undefined) this.strangers.push(fact);
        else run.ended = fact;
        return;
      }
      case "kept":
        // Redis with failures in the database numbers them anew.
        if (this.history.driver === "sqlite") this.#named(fact.n, fact.id);
        return void this.#of(fact.n).kept.push(fact);
      case "strike": {
        const fault = { kind: fact.kind, on: fact.on, from: fact.at, to: Infinity };
        strikes.set(fact.number, fault);
        return void this.faults.push(fault);
      }
      case "over": {
        const fault = strikes.get(fact.number);
        if (fault !== undefined) fault.to = fact.at;
        return;
      }
      case "up":
        return void this.up.set(fact.by, fact);
      case "gone":
        return void this.gone.set(fact.process, fact);
      case "said": {
        const id = /\(while storing the outcome of job .* \(id (\S+)\)\)$/.exec(fact.line)?.[1];
        if (id !== undefined) this.#troubled.add(`${fact.by} ${id}`);
        return;
      }
      case "stalled":
        return void this.stalls.push(fact);
      case "left":
        this.left += fact.count;
    }
  }

  /**
   * A job may be told by its end alone: its producer did not live to learn its id, every worker that held it was killed
   * before its handler began, and the last one finds its tries spent. Each such end is that of one that is kept.
   */
  #nameUnheard(): void {
    const unheard = [...this.entries.values()].filter((entry) =>
      entry.kept.length === 1 && entry.tried.length === 1 && entry.accepted.length === 0 &&
      entry.refused.length === 0 && entry.runs.length === 0 && entry.ids.size === 0
    );
    for (const fact of this.strangers.splice(0)) {
      const entry = fact.fact === "settled" && fact.how === "failed"
        ? unheard.find((one) => fact.attempt > TRIES[one.tried[0].kind])
        : undefined;
      if (entry === undefined || fact.fact !== "settled") this.strangers.push(fact);
      else {
        unheard.splice(unheard.indexOf(entry), 1);
        entry.ids.add(fact.id);
        entry.settled.push(fact);
      }
    }
  }

  #settle(fact: FactOf<"settled">): void {
    const entry = this.#byId.get(fact.id);
    if (entry === undefined) return void this.strangers.push(fact);
    entry.settled.push(fact);
    const run = entry.runs.findLast(({ started, settled }) => settled === null && isSame(started, fact));
    if (run !== undefined) run.settled = fact;
  }
}

/** Whether two lines are of one reservation in one process. */
function isSame(
  one: { by: string; id: string; attempt: number },
  other: { by: string; id: string; attempt: number },
): boolean {
  return one.by === other.by && one.id === other.id && one.attempt === other.attempt;
}
