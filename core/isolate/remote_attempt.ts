/**
 * An attempt whose handler runs in a child process.
 *
 * @module
 */
import { type Attempt, type FailedOutcome, LocalAttempt, type Outcome, type Report } from "../attempt.ts";
import type { Reservation } from "../driver.ts";
import type { QueueError } from "../errors.ts";
import type { Handler } from "../job.ts";
import type { Child } from "./child.ts";
import type { JobFacts } from "./messages.ts";
import { RemoteRun, type RunEnd } from "./remote_run.ts";

/** What an attempt needs of those that run it. */
export interface RemoteParts {
  /** The child with the most free slots; `null` where none has one. */
  readonly choose: () => Child | null;
  /**
   * Calls `use` with a child that runs jobs, now or later, whether or not it has a free slot, and rather not with one that
   * may be killed soon; with `null` on stop.
   */
  readonly whenReady: (use: (child: Child | null) => void) => void;
  /** How long a handler may take to return once its timeout aborted its signal, in milliseconds. */
  readonly killAfter: number;
}

/** An attempt in another process. */
export class RemoteAttempt implements Attempt {
  readonly held: Reservation;
  readonly job: Attempt["job"];
  readonly runs: boolean;
  /** Never: what does not return is killed. */
  readonly overrun = null;
  readonly #type: JobFacts;
  readonly #parts: RemoteParts;
  readonly #report: Report;
  #handler: RemoteRun | null = null;
  #hook: RemoteRun | null = null;
  #abortReason: QueueError | null = null;

  /**
   * @param type What the children say of its job type.
   * @param report Hears how far the handler is.
   */
  constructor(held: Reservation, type: JobFacts, parts: RemoteParts, report: Report) {
    this.held = held;
    const { id, name, queue, attempt } = held;
    this.job = { id, name, queue, attempt, tries: type.tries };
    this.runs = type.runs && attempt <= type.tries;
    this.#type = type;
    this.#parts = parts;
    this.#report = report;
  }

  abort(reason: QueueError): void {
    this.#abortReason ??= reason;
    this.#handler?.abort(reason);
    this.#hook?.abort(reason);
  }

  run(): Promise<Outcome> {
    if (!this.runs) return this.#decide(null);
    return new Promise((resolve) => {
      const child = this.#parts.choose();
      if (child === null) return resolve({ verdict: "handBack", problem: "no process was there to run it" });
      this.#handler = this.#run(null, (end) => resolve(this.#judge(end)));
      this.#handler.start(child);
      if (this.#abortReason !== null) this.#handler.abort(this.#abortReason);
    });
  }

  failed(outcome: FailedOutcome): Promise<void> | null {
    if (!this.#type.hooks) return null;
    return new Promise((resolve, reject) => {
      this.#hook = this.#run(outcome, (end) => {
        if (end.how === "returned" && end.outcome.verdict === "complete") resolve();
        else reject(new Error(whyHookFailed(end, this.#lateness())));
      });
      this.#parts.whenReady((child) => {
        if (child === null) reject(new Error("it was not run, as the worker has stopped"));
        else this.#hook!.start(child);
      });
    });
  }

  #run(failed: FailedOutcome | null, settle: (end: RunEnd) => void): RemoteRun {
    const { timeout } = this.#type;
    return new RemoteRun(this.held, failed, {
      timeout,
      killAfter: this.#parts.killAfter,
      report: this.#report,
      settle,
    });
  }

  #judge(end: RunEnd): Outcome | Promise<Outcome> {
    switch (end.how) {
      case "returned":
        return end.outcome;
      case "timed out": {
        // Its handler may have seen meanwhile that no further try can help.
        const discarded = end.outcome?.verdict === "fail" && end.outcome.discarded;
        return discarded ? end.outcome! : this.#decide(this.#lateness());
      }
      case "crashed":
        return this.#decide(`crashed: ${end.by}`);
      case "killed":
        return { verdict: "handBack", problem: `its process was ended: ${end.why}` };
    }
  }

  #lateness(): string {
    return `timed out after ${(this.#type.timeout ?? 0) / 1000} s`;
  }

  /** What becomes of the job as if its handler had thrown that, or where it is not called at all. */
  #decide(problem: string | null): Promise<Outcome> {
    const { tries, backoff } = this.#type;
    const handle = problem === null ? null : throwing(problem);
    const type = { ...this.#type, timeout: null, handle, failed: null };
    return new LocalAttempt(this.held, type, { tries, backoff }, () => null, this.#report).run();
  }
}

function throwing(problem: string): Handler {
  return () => {
    const error = new Error(problem);
    // It would be the worker's, and say nothing of the handler.
    error.stack = "";
    throw error;
  };
}

function whyHookFailed(end: RunEnd, lateness: string): string {
  switch (end.how) {
    case "returned":
      return "problem" in end.outcome && end.outcome.problem ? end.outcome.problem : end.outcome.verdict;
    case "timed out":
      return lateness;
    case "crashed":
      return `crashed: ${end.by}`;
    case "killed":
      return `its process was ended: ${end.why}`;
  }
}
