/**
 * How a job is written in Redis, in the original's format: `"<attempts> <id> <name>\n<payload>"`.
 *
 * A retry of a failed job counts its attempts from 0 again. So that a worker which still holds an attempt of before cannot
 * settle one of after, each retry starts a generation: the attempts get one leading zero more, which is the same number to
 * the original, too. A snooze, which takes an attempt back, ends the first generation, which has no zero: only in that one
 * a job has been due since the time in its id. It leaves the others as they are, as there are few of them, and a job may be
 * snoozed every second.
 *
 * @module
 */
import type { Reservation } from "../../core/driver.ts";
import { dueOf } from "./id.ts";

/** How many generations there are, the second of which comes after the last: no worker stalls through that many retries. */
const GENERATIONS = 8;

/** A reservation that nobody has seen yet: something may be added to it. */
export type Taking = Reservation & { cancelled?: true; trace?: string };

/** What this process knows of a reservation, beyond what the contract says. */
interface Known {
  /** As it stands in Redis. */
  readonly member: string;
  /** Whether it was settled here: that is done once, and one handed back looks like the next one of its job. */
  settled: boolean;
  /** Whether it may have been settled, by a call whose reply was lost. */
  uncertain: boolean;
  /** For how many milliseconds its progress is kept, where it may have some. */
  reported: string | null;
}

/** A reservation, with what is known of it: in sets of weak references that costs a short job more than its settlement. */
class RedisReservation implements Reservation {
  readonly id: string;
  readonly name: string;
  readonly payload: string;
  readonly attempt: number;
  readonly queue: string;
  readonly priority: number;
  readonly token: string;
  // Not there where they do not hold.
  declare waited?: number;
  declare cancelled?: true;
  declare trace?: string;
  readonly #known: Known;

  constructor(member: string, queue: string, priority: number, mark: string, now: number) {
    const space = member.indexOf(" ");
    const nameAt = member.indexOf(" ", space + 1) + 1;
    const line = member.indexOf("\n", nameAt);
    // Most run for the first time.
    const isFirst = space === 1 && member.charCodeAt(0) === 49;
    const attempt = isFirst ? 1 : Number(member.slice(0, space));
    const generation = isFirst ? 0 : space - String(attempt).length;
    this.id = member.slice(space + 1, nameAt - 1);
    this.name = member.slice(nameAt, line);
    this.payload = member.slice(line + 1);
    this.attempt = attempt;
    this.queue = queue;
    this.priority = priority;
    this.token = `${generation}.${mark}`;
    this.#known = { member, settled: false, uncertain: false, reported: null };
    const due = attempt === 1 && generation === 0 ? dueOf(this.id) : null;
    if (due !== null) this.waited = Math.max(0, now - due);
  }

  static known(held: Reservation): Known {
    return #known in held ? held.#known : knownOfCopy(held);
  }
}

/** What is known of those that are copies of others. */
const copies = new WeakMap<Reservation, Known>();

function knownOfCopy(held: Reservation): Known {
  let about = copies.get(held);
  if (about === undefined) {
    const member = toMember(held.attempt, held.id, held.name, held.payload, generationOf(held));
    copies.set(held, about = { member, settled: false, uncertain: false, reported: null });
  }
  return about;
}

/** What is known of a reservation here. */
export function known(held: Reservation): Known {
  return RedisReservation.known(held);
}

/** The generation that follows. */
export function nextGeneration(generation: number): number {
  return generation % (GENERATIONS - 1) + 1;
}

/** The generation of a reservation, which its token begins with. */
export function generationOf(held: Reservation): number {
  return held.token.charCodeAt(0) - 48;
}

/** The member of a job. */
export function toMember(
  attempts: number,
  id: string,
  name: string,
  payload: string,
  generation: number = 0,
): string {
  return `${"0".repeat(generation)}${attempts} ${id} ${name}\n${payload}`;
}

/** The member of a job that is given back as if it had not been reserved. */
export function memberBefore(held: Reservation, keepsPlace: boolean): string {
  const generation = generationOf(held);
  const next = keepsPlace ? generation : Math.max(1, generation);
  return toMember(held.attempt - 1, held.id, held.name, held.payload, next);
}

/** The members that a reservation's job may have once it was reserved anew, by up to so many attempts, and snoozed. */
export function membersAfter(held: Reservation, attempts: number): string[] {
  const generation = generationOf(held);
  return [...new Set([generation, Math.max(1, generation)])].flatMap((generation) =>
    Array.from(
      { length: attempts + 1 },
      (_, more) => toMember(held.attempt + more, held.id, held.name, held.payload, generation),
    )
  );
}

/** The member under which a reservation is held. */
export function memberOf(held: Reservation): string {
  return known(held).member;
}

/**
 * Reads a member that RESERVE answered, which has checked its form.
 *
 * @param mark Tells this reservation from every other one of this process.
 * @param now The present, in epoch milliseconds.
 */
export function fromMember(
  member: string,
  queue: string,
  priority: number,
  mark: string,
  now: number,
): Taking {
  return new RedisReservation(member, queue, priority, mark, now);
}
