/**
 * The keys. A lane is one priority of one queue, with three keys; the lane of plain jobs has those of the original.
 *
 * @module
 */

/** One priority of one queue. */
export interface Lane {
  readonly queue: string;
  readonly priority: number;
  readonly jobs: string;
  readonly delayed: string;
  readonly reserved: string;
}

/** The lane of a queue and priority. */
export function laneOf(prefix: string, queue: string, priority: number): Lane {
  const at = `${prefix}queue:${isPlain(queue, priority) ? "" : `${queue}:${priority}:`}`;
  return { queue, priority, jobs: `${at}jobs`, delayed: `${at}delayed`, reserved: `${at}reserved` };
}

/** Whether jobs there are the original's: queue `default`, priority 0. */
export function isPlain(queue: string, priority: number): boolean {
  return queue === "default" && priority === 0;
}

/** How a lane stands in the set of lanes. */
export function laneName({ queue, priority }: Lane): string {
  return `${priority} ${queue}`;
}

/** Reads what {@linkcode laneName} wrote. */
export function parseLane(prefix: string, name: string): Lane {
  const space = name.indexOf(" ");
  return laneOf(prefix, name.slice(space + 1), Number(name.slice(0, space)));
}
