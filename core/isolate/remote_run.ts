/**
 * One call of a handler, or of a `failed` hook, in a child process. The worker keeps its time, since a handler may
 * block its process, and kills the process of one that does not end when told to.
 *
 * @module
 */
import type { FailedOutcome, Outcome } from "../attempt.ts";
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
    this.#child?.abort(this.#number, reason);
  }

  began(): void {
    const { timeout, killAfter } = this.#terms;
    if (timeout === null) return;
    this.#cancel = after(timeout, () => {
      this.#timedOut = true;
      this.abort(new QueueError("TIMEOUT", `the attempt timed out after ${timeout / 1000} s`));
      this.#child!.suspect(1);
      const label = `job ${this.held.name} (id ${this.held.id})`;
      this.#cancel = after(killAfter, () => this.#child!.kill(`${label} outlived its timeout`));
    });
  }

  ended(outcome: Outcome): void {
    this.#cancel();
    if (!this.#timedOut) return this.#terms.settle({ how: "returned", outcome });
    this.#child!.suspect(-1);
    this.#terms.settle({ how: "timed out", outcome });
  }

  cutOff({ how, killed }: Ending): void {
    this.#cancel();
    if (this.#timedOut) this.#terms.settle({ how: "timed out", outcome: null });
    else if (killed !== null) this.#terms.settle({ how: "killed", why: killed });
    else this.#terms.settle({ how: "crashed", by: how });
  }
}
