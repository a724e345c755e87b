/**
 * An attempt whose handler runs in a child process. The worker keeps its time, and kills the process of a handler that
 * does not end when told to.
 *
 * @module
 */
import { type Attempt, LocalAttempt, type Outcome } from "../attempt.ts";
import type { Reservation } from "../driver.ts";
import { QueueError } from "../errors.ts";
import type { JobType } from "../registry.ts";
import { after } from "../timer.ts";
import type { Child, Ending, Run } from "./child.ts";

/** What an attempt needs of those that run it. */
export interface RemoteParts {
  /** The child with the most free slots; `null` where none has one. */
  readonly choose: () => Child | null;
  /** How long a handler may take to return once its timeout aborted its signal, in milliseconds. */
  readonly killAfter: number;
}

/** An attempt in another process. */
export class RemoteAttempt implements Attempt, Run {
  readonly held: Reservation;
  readonly job: Attempt["job"];
  readonly runs = true;
  /** Never: what does not return is killed. */
  readonly overrun = null;
  readonly #type: JobType;
  readonly #parts: RemoteParts;
  #child: Child | null = null;
  #run = 0;
  #abortReason: QueueError | null = null;
  #timedOut = false;
  #cancel = (): void => {};
  #resolve: (outcome: Outcome | Promise<Outcome>) => void = () => {};

  /** @param type What the children say of its job type; its handler is not looked at. */
  constructor(held: Reservation, type: JobType, parts: RemoteParts) {
    this.held = held;
    const { id, name, queue, attempt } = held;
    this.job = { id, name, queue, attempt, tries: type.tries };
    this.#type = type;
    this.#parts = parts;
  }

  abort(reason: QueueError): void {
    if (this.#abortReason !== null) return;
    this.#abortReason = reason;
    this.#child?.abort(this.#run, reason);
  }

  run(): Promise<Outcome> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.#child = this.#parts.choose();
      if (this.#child === null) return resolve(handedBack("no process was there to run it"));
      this.#run = this.#child.start(this);
      if (this.#abortReason !== null) this.#child.abort(this.#run, this.#abortReason);
    });
  }

  began(): void {
    const { timeout } = this.#type;
    if (timeout === null) return;
    this.#cancel = after(timeout, () => {
      this.#timedOut = true;
      this.abort(new QueueError("TIMEOUT", `the attempt timed out after ${timeout / 1000} s`));
      this.#child!.suspect(1);
      const job = `job ${this.held.name} (id ${this.held.id})`;
      this.#cancel = after(this.#parts.killAfter, () => this.#child!.kill(`${job} outlived its timeout`));
    });
  }

  ended(outcome: Outcome): void {
    this.#cancel();
    if (!this.#timedOut) return this.#resolve(outcome);
    this.#child!.suspect(-1);
    this.#resolve(this.#failed(this.#lateness()));
  }

  cutOff({ how, killed }: Ending): void {
    this.#cancel();
    if (this.#timedOut) this.#resolve(this.#failed(this.#lateness()));
    else if (killed !== null) this.#resolve(handedBack(`its process was ended: ${killed}`));
    else this.#resolve(this.#failed(`crashed: ${how}`));
  }

  #lateness(): string {
    return `timed out after ${this.#type.timeout! / 1000} s`;
  }

  /** As if its handler had thrown that. */
  #failed(problem: string): Promise<Outcome> {
    const error = new Error(problem);
    // The stack would be the worker's, and say nothing of the handler.
    error.stack = "";
    const handle = (): never => {
      throw error;
    };
    const { tries, backoff } = this.#type;
    const type = { ...this.#type, timeout: null, handle };
    return new LocalAttempt(this.held, type, { tries, backoff }, () => null).run();
  }
}

function handedBack(problem: string): Outcome {
  return { verdict: "handBack", problem };
}
