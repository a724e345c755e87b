/**
 * What operators tell the workers of a store, and how far its jobs say that they are.
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import type { Cancelled, Controls, Moment, Progress, QueueShare, Reservation } from "../../core/driver.ts";
import { QueueError } from "../../core/errors.ts";
import {
  CONTROLS,
  MARK,
  MOST_MARKS,
  PAUSE,
  REMOVE_DELAYED,
  REMOVE_READY,
  REPORT,
  RESTART,
  RESUME,
  UNMARK,
} from "./control_scripts.ts";
import type { Lanes } from "./lanes.ts";
import type { Link, Script } from "./link.ts";
import { unmarked } from "./marked.ts";
import { known, memberOf } from "./member.ts";

/** How often a job is looked for that was not found: it may have moved to where was looked before. */
const LOOKS = 2;

/** How many ids one command of a script takes at most. */
const LOT = 1000;

/** What workers were told at a revision. */
export interface Told {
  readonly revision: string;
  readonly restarts: number;
  readonly all: boolean;
  readonly queues: ReadonlySet<string>;
  readonly cancelled: ReadonlySet<string>;
}

/** This process's knowledge of what workers are told. */
export class RedisControls {
  readonly #link: Link;
  readonly #lanes: Lanes;
  /** The key of the revision. */
  readonly key: string;
  readonly #paused: string;
  readonly #restarts: string;
  /** The key of the cancelled jobs. */
  readonly cancelled: string;
  readonly #bell: string;
  readonly #progress: string;
  #told: Told | null = null;

  /** @param prefix Stands before every key. */
  constructor(link: Link, lanes: Lanes, prefix: string) {
    this.#link = link;
    this.#lanes = lanes;
    this.key = `${prefix}queue:controls`;
    this.#paused = `${prefix}queue:paused`;
    this.#restarts = `${prefix}queue:restarts`;
    this.cancelled = `${prefix}queue:cancelled`;
    this.#bell = `${prefix}queue:bell`;
    this.#progress = `${prefix}queue:progress:`;
  }

  /** What is known; `null` before anything was read. */
  get told(): Told | null {
    return this.#told;
  }

  /** Reads what has changed. */
  async read(): Promise<Told> {
    const before = this.#told;
    const keys = [this.key, this.#restarts, this.#paused, this.cancelled];
    // No revision is a space: so the first look is answered.
    const answer = await this.#link.run(CONTROLS, keys, ["", before?.revision ?? " "]);
    const [revision, restarts, paused, cancelled] = answer as [string, string, string[], string[]];
    if (revision === undefined) return before!;
    const queues = new Set(unmarked(paused));
    const all = queues.delete("");
    return this.#told = { revision, restarts: Number(restarts), all, queues, cancelled: new Set(cancelled) };
  }

  /** As the contract has it. */
  async controls(): Promise<Controls> {
    const { restarts, all, queues, cancelled } = await this.read();
    return { restarts, paused: { all, queues: [...queues].sort() }, cancelled: [...cancelled] };
  }

  /** Pauses. */
  async pause(queue: string | null): Promise<boolean> {
    return await this.#link.run(PAUSE, [this.key, this.#paused], [randomUUID(), queue ?? ""]) === 1;
  }

  /** Lifts pauses. */
  async resume(queue: string | null): Promise<boolean> {
    const keys = [this.key, this.#paused, this.#bell];
    return Number(await this.#link.run(RESUME, keys, [randomUUID(), queue ?? ""])) > 0;
  }

  /** Counts a restart. */
  async restart(): Promise<void> {
    await this.#link.run(RESTART, [this.key, this.#restarts], [randomUUID()]);
  }

  /**
   * Looks for a job where it is on its way: delayed, in line, held. So it is met, unless it is given back meanwhile.
   *
   * @throws {QueueError} `REDIS` where too many cancelled jobs are remembered.
   */
  async cancel(id: string): Promise<Cancelled | null> {
    if (!/^[^ \n]+$/.test(id)) return null;
    const pattern = `[0-9]* ${id.replace(/[\\*?[\]]/g, "\\$&")} *`;
    for (let look = 0; look < LOOKS; look++) {
      for (const { keys: [jobs, delayed, reserved] } of this.#lanes.all()) {
        if (await this.#scan(REMOVE_DELAYED, delayed, id, pattern) === 1) return "removed";
        if (await this.#removeReady(jobs, id)) return "removed";
        const marked = await this.#scan(MARK, reserved, id, pattern);
        if (marked === 1) return "cancelling";
        if (marked === -1) {
          throw new QueueError(
            "REDIS",
            `${MOST_MARKS} cancelled jobs wait for their workers: try again later`,
          );
        }
      }
    }
    return null;
  }

  /** Runs a script over some members at a time until one was found. */
  async #scan(script: Script, key: string, id: string, pattern: string): Promise<number> {
    let cursor = "0";
    do {
      const keys = [key, this.key, this.cancelled];
      const answer = await this.#link.run(script, keys, [id, pattern, cursor, randomUUID()]);
      const [found, next] = answer as [number, string];
      if (found !== 0) return found;
      cursor = String(next);
    } while (cursor !== "0");
    return 0;
  }

  async #removeReady(jobs: string, id: string): Promise<boolean> {
    let below = "";
    do {
      const keys = [jobs, this.key, this.cancelled];
      below = String(await this.#link.run(REMOVE_READY, keys, [id, below, randomUUID()]));
      if (below === "-1") return true;
    } while (below !== "0");
    return false;
  }

  /** Forgets that jobs were cancelled which are about to run again under their ids. */
  async forget(ids: readonly string[]): Promise<void> {
    for (let from = 0; from < ids.length; from += LOT) {
      const lot = ids.slice(from, from + LOT);
      await this.#link.run(UNMARK, [this.key, this.cancelled], [randomUUID(), ...lot]);
    }
  }

  /** Keeps how far a held job is. */
  async report(
    held: Reservation,
    { fraction, note }: Omit<Progress, "at">,
    life: number,
    now: Moment,
  ): Promise<boolean> {
    const [, , reserved] = this.#lanes.of(held.queue, held.priority).keys;
    const kept = String(Math.ceil(life));
    known(held).reported = kept;
    // JSON has no CR in it, so that any client can read it back.
    const said = JSON.stringify([fraction, note]);
    const at = now === null ? "" : (now / 1000).toFixed(3);
    const keys = [reserved, this.#progress + held.id];
    return await this.#link.run(REPORT, keys, [at, memberOf(held), kept, said]) === 1;
  }

  /** Keeps what these said for as long again, as they are held on. */
  async renew(held: readonly Reservation[]): Promise<void> {
    const said = held.filter((one) => known(one).reported !== null);
    // The leases are renewed by now: that a word is forgotten too soon is no failure of theirs.
    await Promise.allSettled(
      said.map((one) => this.#link.call(["PEXPIRE", this.#progress + one.id, known(one).reported!])),
    );
  }

  /** Clears what earlier attempts at jobs said, whose workers died: else it would pass for that of these ones. */
  async began(jobs: readonly Reservation[]): Promise<void> {
    const again = jobs.filter(({ attempt }) => attempt > 1);
    if (again.length === 0) return;
    // The jobs are held by now, and what could not be cleared ends by itself: that is no failure of the reservation's.
    await this.#link.call(["DEL", ...again.map(({ id }) => this.#progress + id)]).catch(() => {});
  }

  /** Reads how far a job is. */
  async progress(id: string): Promise<Progress | null> {
    const kept = await this.#link.call(["GET", this.#progress + id]) as string | null;
    if (kept === null) return null;
    const space = kept.indexOf(" ");
    const [fraction, note] = JSON.parse(kept.slice(space + 1)) as [number, string | null];
    return { fraction, note, at: Math.round(Number(kept.slice(0, space)) * 1000) };
  }

  /** Whether something is kept for a reservation that its end clears. */
  concerns(held: Reservation): boolean {
    return known(held).reported !== null || this.#told?.cancelled.has(held.id) === true;
  }

  /** Clears what is kept for a reservation that has ended, and for its job where that is done or failed. */
  async ended(held: Reservation, settled: boolean): Promise<void> {
    const clearing: Promise<unknown>[] = [];
    const about = known(held);
    if (about.reported !== null) clearing.push(this.#link.call(["DEL", this.#progress + held.id]));
    about.reported = null;
    if (settled && this.#told?.cancelled.has(held.id)) clearing.push(this.forget([held.id]));
    // The outcome is stored, and what could not be cleared ends by itself: that is no failure of the caller's.
    await Promise.allSettled(clearing);
  }

  /** The shares of queues that are not paused. */
  unpaused(shares: readonly QueueShare[], { all, queues }: Told): readonly QueueShare[] {
    if (all) return [];
    return queues.size === 0 ? shares : shares.filter(({ queue }) => !queues.has(queue));
  }
}
