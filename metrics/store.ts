/**
 * What the store says of its jobs, asked at most once a second, however many ask here.
 *
 * @module
 */
import type { Paused, QueueCounts, WorkerInfo } from "../mod.ts";
import type { MeasuredQueue } from "./measured_queue.ts";

/** What the store said. */
export interface Look {
  /** When, in epoch milliseconds. */
  readonly at: number;
  /** By queue. */
  readonly counts: readonly QueueCounts[];
  /** Which queues are held. */
  readonly paused: Paused;
  /** Who works. */
  readonly workers: readonly WorkerInfo[];
}

/** Why it said nothing. */
export interface FailedLook {
  /** When, in epoch milliseconds. */
  readonly at: number;
  /** In one sentence. */
  readonly error: string;
}

/** For how long an answer holds, in milliseconds. */
const HOLDS = 1000;

/** How long the store may take to answer, in milliseconds. */
const DEADLINE = 5000;

/** Looks at one store. */
export class Looks {
  readonly #queue: MeasuredQueue;
  readonly #heard: (look: Look | FailedLook) => void;
  #last: Promise<Look | FailedLook> | null = null;
  #askedAt = -Infinity;

  /** @param heard Gets each answer, once. */
  constructor(queue: MeasuredQueue, heard: (look: Look | FailedLook) => void) {
    this.#queue = queue;
    this.#heard = heard;
  }

  /** The last answer, or a new one where that is older than a second. Never rejects. */
  now(): Promise<Look | FailedLook> {
    if (this.#last !== null && performance.now() - this.#askedAt < HOLDS) return this.#last;
    this.#askedAt = performance.now();
    return this.#last = this.#ask().then((look) => {
      this.#heard(look);
      return look;
    });
  }

  async #ask(): Promise<Look | FailedLook> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`the store did not answer within ${DEADLINE / 1000} s`)),
        DEADLINE,
      );
    });
    try {
      const asked = Promise.all([this.#queue.counts(), this.#queue.paused(), this.#queue.workers()]);
      const [counts, paused, workers] = await Promise.race([asked, late]);
      return { at: Date.now(), counts, paused, workers };
    } catch (error) {
      return { at: Date.now(), error: error instanceof Error ? error.message : String(error) };
    } finally {
      clearTimeout(timer);
    }
  }
}
