/**
 * Renews what a worker holds, and tells a handler when its job was lost.
 *
 * @module
 */
import type { Attempt } from "./attempt.ts";
import { Bag, type Bagged } from "./bag.ts";
import { describe } from "./describe.ts";
import type { Driver, Moment, Reservation } from "./driver.ts";
import { QueueError } from "./errors.ts";
import type { Log } from "./log.ts";
import { after } from "./timer.ts";

/** One reservation in the keeper's hands. */
export interface Lease extends Bagged {
  /** What is held. */
  readonly reservation: Reservation;
  /** The attempt that runs it, to be aborted when it is lost; `null` while it waits for a slot. */
  attempt: Attempt | null;
  /** Whether its handler has returned, and its outcome is being stored. */
  isOver: boolean;
  /** When it was reserved or last renewed. */
  renewedAt: Instant;
}

/** By both clocks of a machine: one may be set, the other stands still while the machine is suspended. */
export interface Instant {
  readonly wall: number;
  readonly monotonic: number;
}

/** The present. */
export function instant(): Instant {
  return { wall: Date.now(), monotonic: performance.now() };
}

/** The longest time between renewals, so that workers of one store with different lease times do not rob each other. */
const LONGEST_INTERVAL = 10_000;

/** Keeps the leases of one worker. */
export class LeaseKeeper {
  readonly #driver: Driver;
  readonly #retryAfter: number;
  readonly #interval: number;
  readonly #moment: () => Moment;
  readonly #log: Log;
  readonly #failed: (error: unknown) => void;
  readonly #held = new Bag<Lease>();
  #cancel: (() => void) | null = null;
  /** When the timer fires, by the monotonic clock. */
  #firesAt = Infinity;
  #closed = false;

  /**
   * @param retryAfter How long a lease lasts, in milliseconds.
   * @param moment What it tells the driver that the time is.
   * @param failed Hears of store errors, besides the log.
   */
  constructor(
    driver: Driver,
    retryAfter: number,
    moment: () => Moment,
    log: Log,
    failed: (error: unknown) => void,
  ) {
    this.#driver = driver;
    this.#retryAfter = retryAfter;
    this.#interval = Math.min(retryAfter / 3, LONGEST_INTERVAL);
    this.#moment = moment;
    this.#log = log;
    this.#failed = failed;
  }

  /** Takes charge of a reservation that was asked for at `since`. */
  hold(reservation: Reservation, since: Instant): Lease {
    const lease: Lease = { reservation, attempt: null, isOver: false, renewedAt: since, place: 0 };
    this.#held.add(lease);
    // One that is armed fires within the interval.
    if (this.#firesAt === Infinity) this.#arm(this.#interval);
    return lease;
  }

  /** Its handler has returned: nothing is left to abort, while the outcome is being stored. */
  finished(lease: Lease): void {
    lease.attempt = null;
    lease.isOver = true;
  }

  /** Whether it is held at `now`, as far as known without asking the store: its lease has not run out by either clock. */
  holds(lease: Lease, now: Instant): boolean {
    return this.#held.has(lease) && age(lease, now) < this.#retryAfter;
  }

  /**
   * Renews at once what is overdue, as after the machine was suspended. To be called before a reservation, which would
   * take back what has expired, this worker's own jobs too.
   */
  catchUp(): void {
    if (this.#held.size === 0) return;
    const now = instant();
    for (const held of this.#held.items) {
      if (age(held, now) >= this.#retryAfter / 2) return void this.#renew();
    }
  }

  /** Lets go: settled, or handed back. */
  drop(lease: Lease): void {
    this.#held.delete(lease);
  }

  /** Stops renewing. */
  close(): void {
    this.#closed = true;
    this.#cancel?.();
  }

  #arm(delay: number): void {
    const firesAt = performance.now() + delay;
    if (this.#closed || this.#firesAt <= firesAt) return;
    this.#cancel?.();
    this.#firesAt = firesAt;
    this.#cancel = after(delay, () => {
      this.#cancel = null;
      this.#firesAt = Infinity;
      this.#renew();
    });
  }

  async #renew(): Promise<void> {
    const now = instant();
    // What was reserved a moment ago is mostly done by the next time; at the latest, it is renewed at half its lease.
    const due = this.#held.items.filter((held) => age(held, now) >= this.#interval / 2);
    let next = this.#interval;
    if (due.length > 0) {
      try {
        const lost = await this.#driver.extend(due.map((held) => held.reservation), this.#moment());
        for (const held of due) held.renewedAt = now;
        const gone = new Set(lost);
        for (const held of due) if (gone.has(held.reservation)) this.#lose(held);
      } catch (error) {
        next = Math.min(this.#retryAfter / 10, 1000);
        this.#log.error(`${describe(error)} (while renewing ${due.length} leases)`);
        this.#failed(error);
      }
    }
    if (this.#held.size > 0) this.#arm(next);
  }

  #lose(lease: Lease): void {
    // Settled while the renewal was under way: then it is not lost. Being settled just now: should that fail, its lease must
    // go on.
    if (lease.isOver || !this.#held.has(lease)) return;
    this.#held.delete(lease);
    const { name, id } = lease.reservation;
    lease.attempt?.abort(
      new QueueError(
        "LEASE_LOST",
        `the lease of job ${name} (id ${id}) was lost, as it was not renewed in time: ` +
          "another worker may run it now, and this attempt's outcome will not be stored",
      ),
    );
  }
}

function age(held: Lease, now: Instant): number {
  return Math.max(now.wall - held.renewedAt.wall, now.monotonic - held.renewedAt.monotonic);
}
