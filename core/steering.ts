/**
 * What a handler throws to say what becomes of its job: no more tries, or again later.
 *
 * Both carry a brand of the global symbol registry, since a jobs module that a compiled command line loads may have a
 * copy of this library of its own, whose classes are not these.
 *
 * @module
 */
import { describe } from "./describe.ts";
import { type Duration, LONGEST_DURATION, toMilliseconds } from "./duration.ts";
import { QueueError } from "./errors.ts";
import { show } from "./show.ts";

const DISCARD = Symbol.for("@x/queue.Discard");
const SNOOZE = Symbol.for("@x/queue.Snooze");

/**
 * Thrown by a handler, it fails the job now, however many tries are left: it goes to `failed_jobs` with the reason as
 * its error. It also holds where the attempt's timeout, or a stop, has aborted `job.signal` before.
 *
 * @example
 * ```ts
 * import { Discard, type Job, Queue } from "@x/queue";
 * import assert from "node:assert/strict";
 *
 * const queue = new Queue({
 *   database: ":memory:",
 *   log: { warn() {}, error() {} },
 *   jobs: {
 *     greet: (job: Job<{ user: number }>) => {
 *       throw new Discard(`there is no user ${job.data.user}`);
 *     },
 *   },
 * });
 * await queue.dispatch("greet", { user: 7 });
 * await queue.work({ stopWhenEmpty: true });
 * const [failed] = await queue.failed();
 * assert.deepEqual([failed.error, failed.attempts], ["there is no user 7", 1]);
 * await queue.close();
 * ```
 */
export class Discard extends Error {
  /** `Discard`. */
  override readonly name: string = "Discard";

  /**
   * Says why no further try can help.
   *
   * @param reason What is stored as the job's error.
   * @param options The error that led to it, as `cause`: its stack is stored, too.
   * @throws {QueueError} `CONFIG` for a reason that is no text, or empty.
   */
  constructor(reason: string, options?: ErrorOptions) {
    if (typeof reason !== "string" || reason === "") {
      throw new QueueError(
        "CONFIG",
        `Discard=${show(reason)}: expected text that says why the job is discarded`,
      );
    }
    super(reason, options);
  }
}

/**
 * Thrown by a handler, it has the job run again after a time, without spending an attempt: for what is not ready yet,
 * as often as it takes. After the attempt's timeout it does not hold: that attempt has failed.
 *
 * @example
 * ```ts
 * import { Queue, Snooze } from "@x/queue";
 * import assert from "node:assert/strict";
 *
 * let open = false;
 * const attempts: number[] = [];
 * const queue = new Queue({
 *   database: ":memory:",
 *   jobs: {
 *     pay: (job) => {
 *       attempts.push(job.attempt);
 *       if (!open) throw new Snooze({ minutes: 5 }, "the bank is closed");
 *     },
 *   },
 * });
 * await queue.dispatch("pay");
 * const now = Date.now();
 * await queue.workOnce(now);
 * open = true;
 * assert.equal(await queue.workOnce(now + 299_999), false);
 * assert.equal(await queue.workOnce(now + 300_000), true);
 * assert.deepEqual(attempts, [1, 1]);
 * await queue.close();
 * ```
 */
export class Snooze extends Error {
  /** `Snooze`. */
  override readonly name: string = "Snooze";
  /** When the job runs again, in milliseconds from now. */
  readonly delay: number;

  /**
   * Says how long to wait.
   *
   * @param duration When the job runs again, from now.
   * @param reason What events say of it. Default: none.
   * @throws {QueueError} `CONFIG` for what is no duration, naming it, or a reason that is no text.
   */
  constructor(duration: Duration, reason: string = "") {
    const delay = toMilliseconds(duration, "Snooze");
    if (typeof reason !== "string") {
      throw new QueueError("CONFIG", `Snooze reason=${show(reason)}: expected text`);
    }
    super(reason);
    this.delay = delay;
  }
}

for (const [kind, brand] of [[Discard, DISCARD], [Snooze, SNOOZE]] as const) {
  Object.defineProperty(kind.prototype, brand, { value: true });
}

/** What a handler decided. */
export type Steering =
  | { readonly kind: "discard"; readonly reason: string }
  | { readonly kind: "snooze"; readonly reason: string; readonly delay: number };

/** What the handler that threw this decided; `null` where it is an error like any other. Never throws. */
export function steeringOf(thrown: unknown): Steering | null {
  if (typeof thrown !== "object" || thrown === null) return null;
  try {
    const { message, delay } = thrown as { message?: unknown; delay?: unknown };
    if (DISCARD in thrown) return { kind: "discard", reason: describe(message) };
    if (!(SNOOZE in thrown && typeof delay === "number" && delay >= 0 && delay <= LONGEST_DURATION)) {
      return null;
    }
    return { kind: "snooze", reason: message === "" ? "" : describe(message), delay };
  } catch {
    // A proxy, or a getter, that throws.
    return null;
  }
}
