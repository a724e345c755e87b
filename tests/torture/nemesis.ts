/** Carries the strikes out, and writes each down before it does. */
import { setTimeout as pass } from "node:timers/promises";
import type { Slot } from "./fleet.ts";
import type { FaultKind } from "./history.ts";
import type { Journal } from "./journal.ts";
import type { Strike } from "./schedule.ts";
import type { Store } from "./store.ts";

/** What it strikes. */
export interface Victims {
  readonly workers: readonly Slot[];
  readonly producers: readonly Slot[];
  readonly store: Store;
  readonly journal: Journal;
  readonly lease: number;
  /** Ends the strikes early. */
  readonly signal: AbortSignal;
}

/** How much longer than its lease a killed worker's job may take, and a little, in milliseconds. */
const QUIET = 2500;

/** How long it takes to get over a fault at most: it lasts less than two leases. */
const RECOVERS = { leases: 2, milliseconds: 1500 };

/** What strikes. */
export class Nemesis {
  readonly #victims: Victims;
  readonly #under = new Set<Promise<void>>();
  /** One fault of the store at a time: a server that is frozen cannot be restarted. */
  #storeStrike: Promise<void> = Promise.resolve();
  readonly #ending: Promise<void>;
  #numbers = 0;
  #error: unknown = null;

  constructor(victims: Victims) {
    this.#victims = victims;
    const { signal } = victims;
    this.#ending = new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  /** The kinds of faults that can be done here. */
  static kinds(store: Store): FaultKind[] {
    return [
      ...["kill", "kill producer", "stop", "deploy", "force", "clock"] as const,
      ...Object.keys(store.faults) as FaultKind[],
      ...Object.keys(store.linkFaults) as FaultKind[],
    ];
  }

  /** Strikes until the time is up, and resolves when every effect is over. */
  async rage(strikes: Iterator<Strike, void>, milliseconds: number): Promise<void> {
    const { signal } = this.#victims;
    const end = performance.now() + milliseconds;
    for (;;) {
      // The next time goes on with the one after, where a loop over them would have ended them.
      const { value: strike } = strikes.next();
      if (strike === undefined || performance.now() + strike.after > end) break;
      await this.#wait(strike.after);
      if (signal.aborted) break;
      if (strike.kind in this.#victims.store.faults) await this.#storeStrike;
      const doing = this.#strike(strike).catch((error) => void (this.#error ??= error));
      const one: Promise<void> = doing.then(() => void this.#under.delete(one));
      this.#under.add(one);
      if (strike.kind in this.#victims.store.faults) this.#storeStrike = one;
      if (this.#error !== null) break;
    }
    await this.rest();
  }

  /** Waits until every effect is over. */
  async rest(): Promise<void> {
    await Promise.all(this.#under);
    if (this.#error !== null) throw this.#error;
  }

  /** Kills a worker while nothing else is amiss, and waits as long as its jobs may take to run again. */
  async killAlone(who: number): Promise<void> {
    const { lease } = this.#victims;
    await this.rest();
    await this.#wait(RECOVERS.leases * lease + RECOVERS.milliseconds);
    await this.#strike({ kind: "kill alone", after: 0, lasts: 0, who, shift: 0 });
    await pass(lease + QUIET);
  }

  /** Waits, unless the strikes are to end early. */
  #wait(milliseconds: number): Promise<unknown> {
    return Promise.race([this.#ending, pass(milliseconds)]);
  }

  async #strike(strike: Strike): Promise<void> {
    const { store, workers, producers } = this.#victims;
    const { kind, lasts } = strike;
    const own = store.faults[kind];
    if (own !== undefined) return this.#record(kind, "store", () => own(lasts));
    const link = store.linkFaults[kind];
    const among = kind === "kill producer" ? producers : link ? [...workers, ...producers] : workers;
    const free = among.filter((slot) => slot.isUp && !slot.isStruck);
    // All are down, or struck otherwise.
    if (free.length === 0) return;
    const slot = free[Math.floor(strike.who * free.length)];
    slot.isStruck = true;
    try {
      await this.#strikeAt(slot, strike, link);
    } finally {
      slot.isStruck = false;
    }
  }

  async #strikeAt(
    slot: Slot,
    { kind, lasts, shift }: Strike,
    link: ((slot: string, lasts: number) => Promise<void>) | undefined,
  ): Promise<void> {
    if (link !== undefined) return this.#record(kind, slot.process, () => link(slot.name, lasts));
    switch (kind) {
      case "kill":
      case "kill alone":
      case "kill producer":
        await this.#record(kind, slot.process, () => slot.kill());
        await pass(lasts);
        return slot.start();
      case "stop":
        return this.#record(kind, slot.process, async () => {
          slot.signal("SIGSTOP");
          await pass(lasts);
          slot.signal("SIGCONT");
        });
      case "deploy":
        await this.#record(kind, slot.process, async () => {
          slot.tell();
          await slot.ends();
        });
        return slot.start();
      case "force":
        await this.#record(kind, slot.process, async () => {
          slot.tell();
          await pass(lasts / 4);
          slot.tell();
          await slot.ends();
        });
        return slot.start();
      case "clock":
        return this.#record(kind, slot.process, async () => {
          slot.setClock(shift);
          await pass(lasts);
          slot.setClock(0);
          // It looks at it now and then.
          await pass(500);
        });
      default:
        throw new Error(`no such fault: ${kind}`);
    }
  }

  async #record(kind: FaultKind, on: string, strike: () => Promise<void>): Promise<void> {
    const number = ++this.#numbers;
    const { journal } = this.#victims;
    await journal.keep({ fact: "strike", number, kind, on });
    await strike();
    journal.note({ fact: "over", number });
  }
}
