/**
 * One structured record for each change in a job's life, by LogTape. It imports nothing: the app passes its logger.
 *
 * @example
 * ```ts
 * import { configure, getLogger, type LogRecord } from "@logtape/logtape";
 * import { Queue } from "@x/queue";
 * import { logEvents } from "@x/queue/logs";
 * import assert from "node:assert/strict";
 *
 * const records: LogRecord[] = []; // in an app: getConsoleSink()
 * await configure({
 *   sinks: { list: (record) => void records.push(record) },
 *   loggers: [
 *     { category: "queue", sinks: ["list"] },
 *     { category: ["logtape", "meta"], lowestLevel: "warning", sinks: ["list"] },
 *   ],
 * });
 * const queue = new Queue({ database: ":memory:", jobs: { mail: () => {} } });
 * logEvents(queue, getLogger("queue"));
 * await queue.dispatch("mail");
 * await queue.work({ stopWhenEmpty: true });
 * await queue.close();
 *
 * const events = records.map(({ properties }) => properties.event);
 * assert.ok(events.includes("dispatched") && events.includes("completed"));
 * ```
 *
 * @module
 */
import type { Queue, QueueEvents } from "./mod.ts";

/** A logger of LogTape's, as far as it is used. */
export interface Logger {
  /** The logger of a category below this one. */
  getChild(category: string): Logger;
  /** Logs what happens all the time. */
  debug(message: string, properties: Record<string, unknown>): void;
  /** Logs what is worth knowing. */
  info(message: string, properties: Record<string, unknown>): void;
  /** Logs what somebody may have to look at. */
  warn(message: string, properties: Record<string, unknown>): void;
  /** Logs what somebody has to look at. */
  error(message: string, properties: Record<string, unknown>): void;
}

type AnyEvent = QueueEvents[keyof QueueEvents];

/** The level of each event, and what its record says. The properties are named as those of the event; a payload is never among them. */
const RECORDS: { readonly [Event in keyof QueueEvents]: [keyof Omit<Logger, "getChild">, string] } = {
  dispatched: ["debug", "dispatched {name} {id}"],
  reserved: ["debug", "reserved {name} {id}"],
  started: ["debug", "started {name} {id}, attempt {attempt} of {tries}"],
  completed: ["info", "completed {name} {id} in {duration} ms"],
  released: ["warn", "released {name} {id} to run again in {retryIn} ms ({why}): {error}"],
  failed: ["error", "failed {name} {id} after attempt {attempt} of {tries}: {error}"],
  lost: ["warn", "lost the lease of {name} {id}: the outcome was not stored"],
  storeFailed: ["error", "the store failed ({during}): {error}"],
  workerStarted: ["info", "a worker started, {concurrency} at a time"],
  workerStopped: ["info", "a worker stopped after {jobs} jobs"],
};

/**
 * Logs what a queue tells, from now on: jobs below the category `job`, workers below `worker`, store errors below `store`.
 *
 * @param queue The queue.
 * @param logger What takes the records, such as `getLogger("queue")`.
 * @returns What ends it.
 */
export function logEvents(queue: Pick<Queue, "on">, logger: Logger): () => void {
  const children = {
    job: logger.getChild("job"),
    worker: logger.getChild("worker"),
    store: logger.getChild("store"),
  };
  const removes = (Object.keys(RECORDS) as (keyof QueueEvents)[]).map((name) => {
    const [level, message] = RECORDS[name];
    return queue.on(name, (event: AnyEvent) => {
      children[subjectOf(event)][level](message, propertiesOf(event));
    });
  });
  return () => removes.forEach((remove) => remove());
}

function subjectOf(event: AnyEvent): "job" | "worker" | "store" {
  if ("job" in event) return "job";
  return event.type === "storeFailed" ? "store" : "worker";
}

/** All that an event has, the job's own beside them, and durations to the microsecond. */
function propertiesOf(event: AnyEvent): Record<string, unknown> {
  const { type, ...rest } = event;
  const properties: Record<string, unknown> = { event: type };
  for (const [key, value] of Object.entries(rest)) {
    if (key === "job") Object.assign(properties, value);
    else properties[key] = typeof value === "number" ? Number(value.toFixed(3)) : value;
  }
  return properties;
}
