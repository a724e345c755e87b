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

/** How many generations there are, the second of which comes after the last: no worker stalls through that many retries. */
const GENERATIONS = 8;

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
  return toMember(held.attempt, held.id, held.name, held.payload, generationOf(held));
}

/**
 * Reads a member that RESERVE answered, which has checked its form.
 *
 * @param mark Tells this reservation from every other one of this process.
 */
export function fromMember(
  member: string,
  queue: string,
  priority: number,
  mark: number,
): { -readonly [Key in keyof Reservation]: Reservation[Key] } {
  const id = member.indexOf(" ") + 1;
  const name = member.indexOf(" ", id) + 1;
  const line = member.indexOf("\n", name);
  const attempt = Number(member.slice(0, id - 1));
  const generation = id - 1 - String(attempt).length;
  return {
    id: member.slice(id, name - 1),
    name: member.slice(name, line),
    payload: member.slice(line + 1),
    attempt,
    queue,
    priority,
    token: `${generation}.${mark}`,
  };
}
