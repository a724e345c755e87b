/**
 * Where jobs were dispatched, for those who trace. A member has no room for it, as its format is the original's: so it
 * stands beside, for a day at most, and costs nothing where nobody traces.
 *
 * @module
 */
import type { NewJob } from "../../core/driver.ts";
import type { Link } from "./link.ts";
import type { Taking } from "./member.ts";

/** How long it is kept, in seconds: a job that waits for longer runs without. */
const LIFE = "86400";

/** How many keys one command takes at most. */
const LOT = 1000;

/** The traces of jobs. */
export class Traces {
  readonly #link: Link;
  readonly #before: string;

  /** @param prefix Stands before every key. */
  constructor(link: Link, prefix: string) {
    this.#link = link;
    this.#before = `${prefix}queue:trace:`;
  }

  /**
   * Keeps the traces of jobs that are about to be pushed on the same connection, so that whoever reserves them finds
   * these. Only those that are recorded (the flag `sampled`). Answers what rejects where one was not stored.
   */
  keep(jobs: readonly NewJob[], ids: readonly string[]): Promise<unknown> | null {
    const setting: Promise<unknown>[] = [];
    jobs.forEach(({ trace }, index) => {
      if (trace === undefined || !isSampled(trace)) return;
      setting.push(this.#link.call(["SET", this.#before + ids[index], trace, "EX", LIFE]));
    });
    return setting.length === 0 ? null : Promise.all(setting);
  }

  /** Adds to each reservation its trace, where there is one. */
  async addTo(jobs: readonly Taking[]): Promise<void> {
    for (let from = 0; from < jobs.length; from += LOT) {
      const lot = jobs.slice(from, from + LOT);
      const traces = await this.#link.call(["MGET", ...lot.map(({ id }) => this.#before + id)]);
      lot.forEach((held, index) => {
        const trace = (traces as (string | null)[])[index];
        if (trace !== null) held.trace = trace;
      });
    }
  }

  /** Forgets those of jobs that are not in the store, or not any more. */
  forget(ids: readonly string[]): Promise<unknown> {
    return this.#link.call(["DEL", ...ids.map((id) => this.#before + id)]);
  }
}

/** Whether the last bit of a `traceparent` is set. */
function isSampled(trace: string): boolean {
  return (parseInt(trace.slice(-2), 16) & 1) === 1;
}
