/**
 * How a job is written in Redis, in the original's format: `"<attempts> <id> <name>\n<payload>"`.
 *
 * @module
 */
import type { Reservation } from "../../core/driver.ts";

/** The member of a job. */
export function toMember(attempts: number, id: string, name: string, payload: string): string {
  return `${attempts} ${id} ${name}\n${payload}`;
}

/** The member under which a reservation is held. */
export function memberOf(held: Reservation): string {
  return toMember(held.attempt, held.id, held.name, held.payload);
}

/** Reads a member that RESERVE answered, which has checked its form. */
export function fromMember(member: string, queue: string, priority: number): Reservation {
  const line = member.indexOf("\n");
  const [attempt, id] = member.split(" ", 2);
  return {
    id,
    name: member.slice(attempt.length + id.length + 2, line),
    payload: member.slice(line + 1),
    attempt: Number(attempt),
    queue,
    priority,
    // The attempt number is in the member: a stale one is not found.
    token: `${attempt} ${id}`,
  };
}
