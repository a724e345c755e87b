/**
 * Renews what a worker holds, and tells a handler when its job was lost.
 *
 * @module
 */
import type { Attempt } from "./attempt.ts";
import type { Driver, Moment, Reservation } from "./driver.ts";
import { QueueError } from "./errors.ts";
import type { Log } from "./log.ts";
import { after } from "./timer.ts";

/** One reservation in the keeper's hands. */
interface Held {
  readonly reservation: Reservation;
  /** The attempt that runs it; `null` while it waits for a slot. */
  attempt: Attempt | null;
  /** When it was reserved or last renewed, in epoch milliseconds. */
  renewedAt: number;
}

/** Keeps the leases of one worker. */
export class LeaseKeeper {
  readonly #driver: Driver;
  readonly #retryAfter: number;
  readonly #now: () => number;
  readonly #moment: () => Moment;
  readonly #log: Log;
  readonly #held = new Map<Reservation, Held>();
  #cancel: (() => void) | null = null;
  #closed = false;

  /**
   * @param retryAfter How long a lease lasts, in milliseconds.
   * @param now The worker's clock, by which it measures how long ago something was.
   * @param moment What it tells the driver that the time is.
   */
  constructor(driver: Driver, retryAfter: number, now: () => number, moment: () => Moment, log: Log) {
    this.#driver = driver;
    this.#retryAfter = retryAfter;
    this.#now = now;
    this.#moment = moment;
    this.#log = log;
  }

  /** Takes charge of a reservation. */
  hold(reservation: Reservation, reservedAt: number): void {
    this.#held.set(reservation, { reservation, attempt: null, renewedAt: reservedAt });
    this.#arm(this.#retryAfter / 3);
  }

  /** Says which attempt to abort when it is lost. */
  started(attempt: Attempt): void {
    const held = this.#held.get(attempt.held);
    if (held !== undefined) held.attempt = attempt;
  }

  /** The handler has returned: nothing is left to abort, while the outcome is being stored. */
  finished(reservation: Reservation): void {
    const held = this.#held.get(reservation);
    if (held !== undefined) held.attempt = null;
  }

  /** Whether it is held, as far as known without asking the store: its lease has not run out by the clock. */
  holds(reservation: Reservation): boolean {
    const held = this.#held.get(reservation);
    return held !== undefined && this.#now() - held.renewedAt < this.#retryAfter;
  }

  /** Lets go: settled, or handed back. */
  drop(reservation: Reservation): void {
    this.#held.delete(reservation);
  }

  /** Stops renewing. */
  close(): void {
    this.#closed = true;
    this.#cancel?.();
  }

  #arm(delay: number): void {
    if (!this.#closed) this.#cancel ??= after(delay, () => this.#renew());
  }

  async #renew(): Promise<void> {
    this.#cancel = null;
    const now = this.#now();
    // What was reserved a moment ago is mostly done by the next time; at the latest, it is renewed at half its lease.
    const due = [...this.#held.values()].filter((held) => now - held.renewedAt >= this.#retryAfter / 6);
    let next = this.#retryAfter / 3;
    if (due.length > 0) {
      try {
        const lost = await this.#driver.extend(due.map((held) => held.reservation), this.#moment());
        for (const held of due) held.renewedAt = now;
        for (const reservation of lost) this.#lose(reservation);
      } catch (error) {
        next = Math.min(this.#retryAfter / 10, 1000);
        this.#log.error(`${(error as Error).message} (while renewing ${due.length} leases)`);
      }
    }
    if (this.#held.size > 0) this.#arm(next);
  }

  #lose(reservation: Reservation): void {
    // Settled while the renewal was under way: then it is not lost.
    const held = this.#held.get(reservation);
    if (held === undefined) return;
    this.#held.delete(reservation);
    held.attempt?.abort(
      new QueueError(
        "LEASE_LOST",
        `job ${reservation.name} (id ${reservation.id}) was not renewed within its lease of ${
          this.#retryAfter / 1000
        } s: ` +
          "another worker may run it now, and this attempt's outcome will not be stored",
      ),
    );
  }
}
