/**
 * What traces a queue: a span for each dispatch and each attempt, and the context that joins them. And what counts: it
 * is called with what there is, where a listener has an event made up for each, which costs more than the counting.
 *
 * @module
 */
import type { Outcome } from "./attempt.ts";
import type { NewJob, Reservation } from "./driver.ts";
import type { EventJob, WorkEvent } from "./events.ts";
import type { Dispatched } from "./job.ts";

/**
 * Is called around each dispatch and each attempt of a queue. `metrics(queue, { openTelemetry })` makes one; whoever
 * writes another must call what it is given, once, and pass on what that answers or throws.
 */
export interface Telemetry {
  /**
   * Around a dispatch.
   *
   * @param jobs What is to be stored.
   * @param store Stores jobs: those given, each with the `trace` that is to travel with it.
   */
  dispatch<Stored extends NewJob>(
    jobs: readonly Stored[],
    store: (jobs: readonly Stored[]) => Promise<Dispatched[]>,
  ): Promise<Dispatched[]>;
  /**
   * Around an attempt. What runs within `run` is the handler, or what waits for one in another process.
   *
   * @param job The job, and the `trace` that travelled with it, where one did.
   * @param run Runs the handler, and resolves with what becomes of the job. Never rejects.
   */
  attempt(job: EventJob & { readonly trace?: string }, run: () => Promise<Outcome>): Promise<Outcome>;
}

/** How an attempt ended, as a worker tells it. */
export type AttemptEnd = Exclude<WorkEvent["type"], "started">;

/** Counts what a queue does. It is called for each job, so it must be quick, keep nothing of what it gets, and never throw. */
export interface Meter {
  /** The store has accepted jobs. */
  dispatched(jobs: readonly NewJob[], stored: readonly Dispatched[]): void;
  /** A worker holds jobs. */
  reserved(jobs: readonly Reservation[]): void;
  /** An attempt has ended, whose handler ran for so many milliseconds. */
  ended(job: Pick<EventJob, "name" | "queue">, how: AttemptEnd, duration: number): void;
}
