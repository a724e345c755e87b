/**
 * How a stop goes: first a grace, then the signal, then nothing is waited for any more.
 *
 * @module
 */
import { QueueError } from "./errors.ts";
import { after } from "./timer.ts";

/** How long handlers whose signal a stop aborted may take to end, in milliseconds. */
const REACTION = 1000;

/** How long handing back may take after that, in milliseconds. */
const HAND_BACK = 2000;

/** A stop takes its grace and this at most, in milliseconds, whatever handlers and the store do. */
export const STOP_MARGIN: number = REACTION + HAND_BACK;

/** What is done at each stage of a stop. */
export interface StopActs {
  /** Running jobs are told to end: the grace is over (`late`), or they have none. */
  abort(reason: QueueError, late: boolean): void;
  /** What still runs is handed back. */
  force(): void;
  /** What is not stored by now is left to its lease. */
  over(): void;
}

/** Leads through the stages of one stop. */
export class Countdown {
  readonly #grace: number;
  readonly #acts: StopActs;
  #stage: "none" | "grace" | "reaction" | "forced" | "over" = "none";
  #cancel = (): void => {};

  /**
   * @param grace How long running jobs may take, in milliseconds.
   * @param acts What to do at each stage.
   */
  constructor(grace: number, acts: StopActs) {
    this.#grace = grace;
    this.#acts = acts;
  }

  /** Begins the stop; a second call changes nothing. */
  begin(): void {
    if (this.#stage !== "none") return;
    this.#stage = "grace";
    this.#cancel = after(this.#grace, () => {
      this.#stage = "reaction";
      this.#cancel = after(REACTION, () => this.force());
      const grace = `${this.#grace / 1000} s`;
      this.#acts.abort(
        new QueueError("STOPPED", `the worker stops, and its grace of ${grace} is over`),
        true,
      );
    });
  }

  /** Waits no longer for what runs. */
  force(): void {
    if (this.#stage === "forced" || this.#stage === "over") return;
    const early = this.#stage !== "reaction";
    this.#stage = "forced";
    this.#cancel();
    this.#cancel = after(HAND_BACK, () => this.#acts.over());
    if (early) this.#acts.abort(new QueueError("STOPPED", "the worker was told to stop at once"), false);
    this.#acts.force();
  }

  /** Ends it: everything is done, and what is told to stop after that has stopped. */
  cancel(): void {
    this.#stage = "over";
    this.#cancel();
  }
}
