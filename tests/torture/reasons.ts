/**
 * Why a job may have run once more: a crash of its holder, or a lease that could not be renewed, must be on record.
 *
 * @module
 */
import type { FaultKind } from "./history.ts";
import type { Fault, Ledger, Run } from "./ledger.ts";

/** Faults by which no holder can renew its lease, where they last. */
const STORE_IS_AWAY: readonly FaultKind[] = ["lock", "full disk", "restart", "freeze", "pause"];

/** Faults of one process's way to the store. */
const LINK_IS_BROKEN: readonly FaultKind[] = ["half-open", "lost replies"];

/** Faults by which a reply may be lost, of any process. */
const REPLIES_ARE_LOST: readonly FaultKind[] = ["restart", "freeze", "pause", "kill clients"];

/** How long a process may take to connect to Redis again, in milliseconds. */
const LINK_RECOVERS = 3000;

/** Looks for reasons. */
export class Reasons {
  readonly #ledger: Ledger;
  /** A lease is renewed at a third of it, so that less cannot cost one. */
  readonly #lasting: number;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
    this.#lasting = ledger.history.lease / 3;
  }

  /** Why the holder of `run` may have lost its job before `until`; `null` where nothing on record explains it. */
  ofLoss(run: Run, until: number): string | null {
    const { at: from, by: holder } = run.started;
    const gone = this.#ledger.gone.get(holder);
    const onHolder = this.#between(from, until).filter(({ on }) => on === holder);
    const own = onHolder.find(({ kind }) => kind === "force") ??
      onHolder.find(({ kind }) => kind.startsWith("kill")) ?? onHolder.find(({ kind }) => kind === "stop");
    if (own !== undefined && (own.kind !== "stop" || this.#lasts(own))) return REASONS[own.kind]!;
    // Told to stop, it gives up what it cannot store for 10 s.
    if (gone !== undefined && gone.at >= from && gone.at <= until && run.settled === null) {
      return "its worker ended";
    }
    // A release that it did not get to tell of, too.
    const isSilent = (this.#ledger.lastAt.get(holder) ?? 0) <= until;
    if (isSilent && this.isUntold(run)) return "its worker fell silent, and was killed";
    if (this.#stalled(from, until, (by) => by === holder)) return "its worker stalled";
    return this.#ofOutage(from, until, (process) => process === holder);
  }

  /** Why an attempt may have been spent between the two times although no run of it is known. */
  ofGap(from: number, until: number): string | null {
    const during = this.#between(from, until);
    const killed = during.find(({ kind, on }) =>
      on !== "store" && kind !== "clock" && REASONS[kind] !== undefined
    );
    if (killed !== undefined) return `${REASONS[killed.kind]}, before the handler started`;
    if (this.#stalled(from, until, () => true)) return "a worker stalled, before the handler started";
    return this.#ofOutage(from, until, () => true);
  }

  /** Why `run` may have started after its job went to somebody else. */
  ofLateStart(run: Run, since: number): string | null {
    const { at, by } = run.started;
    const before = since - this.#ledger.history.lease;
    const during = this.#between(before, at).filter(({ on }) => on === by);
    if (during.some(({ kind }) => kind === "stop")) return "it was stopped just before the handler started";
    // Whose clock is ahead takes what was reserved a moment ago.
    if (this.isClockOff(before, at)) return REASONS.clock!;
    if (this.#stalled(before, at, (process) => process === by)) {
      return "it stalled before the handler started";
    }
    return null;
  }

  /**
   * Why a worker may have taken a settlement for stored that was not: on Redis one is repeated after a lost reply, and
   * what is not found then counts as stored by the first call. The worker logs the first error of a settlement.
   */
  ofDoubt(run: Run): string | null {
    const isRedis = this.#ledger.history.driver === "redis";
    return isRedis && this.#ledger.wasTroubled(run) ? "the reply to the settlement was lost" : null;
  }

  /** Whether nothing disturbed the store and the clocks, and nobody was stopped. */
  isQuiet(from: number, until: number, except: Fault): boolean {
    const fine = (fault: Fault): boolean =>
      fault === except || (fault.kind.startsWith("kill") && fault.kind !== "kill clients");
    return this.#padded(from, until).every(fine) && !this.#stalled(from, until, (by) => by === "store");
  }

  /** Whether the process missed some turns of its event loop. */
  isStalled(process: string, from: number, until: number): boolean {
    return this.#stalled(from, until, (by) => by === process, 0);
  }

  /** Whether a clock was off. */
  isClockOff(from: number, until: number): boolean {
    return this.#ledger.history.driver === "sqlite" &&
      this.#between(from, until).some(({ kind }) => kind === "clock");
  }

  /** Whether the process ended, by force, before it could say what became of the run. */
  isUntold(run: Run): boolean {
    const { by, at } = run.started;
    const gone = this.#ledger.gone.get(by);
    const struck = this.#ledger.faults.some(({ kind, on, to }) =>
      on === by && to >= at && (kind.startsWith("kill") || kind === "force")
    );
    return run.settled === null && gone !== undefined && struck;
  }

  #ofOutage(from: number, until: number, isConcerned: (process: string) => boolean): string | null {
    const during = this.#padded(from, until);
    const { driver } = this.#ledger.history;
    // On Redis, the time is the server's.
    const clock = driver === "sqlite" && during.some(({ kind }) => kind === "clock");
    if (clock) return REASONS.clock!;
    const away = during.find((fault) => STORE_IS_AWAY.includes(fault.kind) && this.#lasts(fault));
    if (away !== undefined) return `the store was away: ${away.kind}`;
    const broken = during.find(({ kind, on }) => LINK_IS_BROKEN.includes(kind) && isConcerned(on));
    if (broken !== undefined) return `its link was broken: ${broken.kind}`;
    if (driver === "redis") {
      if (this.#stalled(from, until, (process) => process === "store")) return "the store stalled";
      const cut = during.find(({ kind }) => REPLIES_ARE_LOST.includes(kind));
      return cut === undefined ? null : `a reply was lost: ${cut.kind}`;
    }
    // Whoever is stopped in a transaction holds the write lock as long.
    const other = during.some((fault) => fault.kind === "stop" && this.#lasts(fault)) ||
      this.#stalled(from, until, () => true);
    return other ? "another process was stopped, perhaps with the write lock" : null;
  }

  #between(from: number, until: number): Fault[] {
    return this.#ledger.faults.filter((fault) => fault.from <= until && fault.to >= from);
  }

  /** As `#between`, with the time that it takes to get over a fault of the store. */
  #padded(from: number, until: number): Fault[] {
    return this.#ledger.faults.filter((fault) => fault.from <= until && this.#overAt(fault) >= from);
  }

  #overAt({ kind, from, to }: Fault): number {
    // The waits of those who try again have grown as long as the fault at most.
    const waits = to - from + 1000;
    if (kind === "lock" || kind === "full disk") return to + waits;
    const isRedis = STORE_IS_AWAY.includes(kind) || LINK_IS_BROKEN.includes(kind) || kind === "kill clients";
    return isRedis ? to + Math.max(LINK_RECOVERS, waits) : to;
  }

  #lasts({ from, to }: Fault): boolean {
    return to - from >= this.#lasting;
  }

  #stalled(from: number, until: number, of: (process: string) => boolean, least = this.#lasting): boolean {
    return this.#ledger.stalls.some(({ since, at, by }) =>
      at - since >= least && since <= until && at >= from && of(by)
    );
  }
}

const REASONS: Partial<Record<FaultKind, string>> = {
  kill: "its worker was killed",
  "kill alone": "its worker was killed",
  stop: "its worker was stopped",
  force: "its worker was told to stop at once",
  clock: "a clock was set",
};
