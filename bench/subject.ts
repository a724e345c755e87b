/**
 * What a queue must offer to be measured, and the work that every one of them is given.
 *
 * @module
 */

/** A queue under measurement, open on one database file. */
export interface Subject {
  /** Stores one job, accepted by the queue's own word once this returns or resolves. */
  dispatch(data: Payload): unknown;
  /** Stores many jobs the fastest way that the queue's documentation has. */
  dispatchMany(data: readonly Payload[]): unknown;
  /** Begins to work off the stored jobs, of which there are this many. */
  work(jobs: number, concurrency: number): Work | Promise<Work>;
  /** How many jobs are still to be worked off: 0 after `work`, or the figure is worth nothing. */
  left(): number | Promise<number>;
  /** Lets go of the file. */
  close(): unknown;
}

/** How a row of ours differs from the defaults. */
export interface Variant {
  readonly synchronous?: "normal" | "full";
  readonly prefetch?: number;
}

/** Jobs being worked off. */
export interface Work {
  /** Resolves when the last one is done. */
  readonly done: Promise<unknown>;
  /** Stops the worker, outside of the time that is measured. */
  stop(): unknown;
}

/** The payload of every benchmark: about 90 bytes of JSON. */
export interface Payload {
  readonly id: number;
  readonly image: string;
  readonly width: number;
  readonly sentAt: number;
}

/** The payload of one job. */
export function payload(id: number): Payload {
  return { id, image: "uploads/2026/07/30/a-photo-from-a-user.jpg", width: 320, sentAt: 1785369600000 };
}

/** The payloads of many jobs. */
export function payloads(count: number): Payload[] {
  return Array.from({ length: count }, (_, id) => payload(id));
}

/** A promise, and what resolves it at the given call. */
export function countdown(calls: number): { tick: () => void; done: Promise<void> } {
  let left = calls;
  let finish = () => {};
  const done = new Promise<void>((resolve) => finish = resolve);
  return { tick: () => void (--left === 0 && finish()), done };
}
