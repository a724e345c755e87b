/**
 * One call of a handler, or of a `failed` hook, in a child process. The worker keeps its time, since a handler may
 * block its process, and kills the process of one that does not end when told to.
 *
 * @module
 */
import type { FailedOutcome, Outcome, Report } from "../attempt.ts";
import type { Reservation } from "../driver.ts";
import { QueueError } from "../errors.ts";
import { after } from "../timer.ts";
import type { Child, Ending, Run } from "./child.ts";

/** How a call ended. */
export type RunEnd =
  | { readonly how: "returned"; readonly outcome: Outcome }
  /** `outcome` where it returned after all. */
  | { readonly how: "timed out"; readonly outcome: Outcome | null }
  | { readonly how: "crashed"; readonly by: string }
  /** For the sake of another call, or before it had begun. */
  | { readonly how: "killed"; readonly why: string };

/** The time of a call, and who hears of its end. */
export interface RunTerms {
  /** In milliseconds; `null` for no limit. */
  readonly timeout: number | null;
  /** How long it may take after that, in milliseconds. */
  readonly killAfter: number;
  /** Hears how far the handler is. */
  readonly report: Report;
  /** Called once. */
  settle(end: RunEnd): void;
}

/** A call that a child makes. */
export class RemoteRun implements Run {
  readonly held: Reservation;
  readonly failed: FailedOutcome | null;
  readonly #terms: RunTerms;
  #child: Child | null = null;
  #number = 0;
  #timedOut = false;
  #condemned = false;
  #cancel = (): void => {};

  /**
   * @param held The job.
   * @param failed For its `failed` hook, what that gets; `null` for its handler.
   */
  constructor(held: Reservation, failed: FailedOutcome | null, terms: RunTerms) {
    this.held = held;
    this.failed = failed;
    this.#terms = terms;
  }

  /** Sends it to `child`. */
  start(child: Child): void {
    this.#child = child;
    this.#number = child.start(this);
  }

  /** Aborts the signal of its job. Only the first reason counts there. */
  abort(reason: QueueError): void {
    if (this.#child === null) return;
    this.#child.abort(this.#number, reason);
    // A stop ends the process by itself, and a lost lease is no reason to.
    if (reason.code === "CANCELLED") this.#condemn("was cancelled, and did not end");
  }

  began(): void {
    const { timeout } = this.#terms;
    if (timeout === null || this.#condemned) return;
    this.#cancel = after(timeout, () => {
      this.#timedOut = true;
      this.abort(new QueueError("TIMEOUT", `the attempt timed out after ${timeout / 1000} s`));
      this.#condemn("outlived its timeout");
    });
  }

  reported(fraction: number, note: string | null): void {
    this.#terms.report(fraction, note);
  }

  ended(outcome: Outcome): void {
    this.#cancel();
    if (this.#condemned) this.#child!.suspect(-1);
    if (this.#timedOut) this.#terms.settle({ how: "timed out", outcome });
    else this.#terms.settle({ how: "returned", outcome });
  }

  /** It has been told to end: if it does not, its process is. */
  #condemn(why: string): void {
    if (this.#condemned) return;
    this.#condemned = true;
    this.#child!.suspect(1);
    this.#cancel();
    const label = `job ${this.held.name} (id ${this.held.id})`;
    this.#cancel = after(this.#terms.killAfter, () => this.#child!.kill(`${label} ${why}`));
  }

  cutOff({ how, killed }: Ending): void {
    this.#cancel();
    if (this.#timedOut) this.#terms.settle({ how: "timed out", outcome: null });
    else if (killed !== null) this.#terms.settle({ how: "killed", why: killed });
    else this.#terms.settle({ how: "crashed", by: how });
  }
}
