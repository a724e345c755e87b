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
export function fromMember(member: string, queue: string, priority: number, token: string): Reservation {
  const id = member.indexOf(" ") + 1;
  const name = member.indexOf(" ", id) + 1;
  const line = member.indexOf("\n", name);
  return {
    id: member.slice(id, name - 1),
    name: member.slice(name, line),
    payload: member.slice(line + 1),
    attempt: Number(member.slice(0, id - 1)),
    queue,
    priority,
    token,
  };
}
