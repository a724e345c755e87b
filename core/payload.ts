/**
 * What a job carries, as text.
 *
 * @module
 */
import { QueueError } from "./errors.ts";

/**
 * The text that is stored: a string as it is, anything else as JSON; nothing at all as `null`.
 *
 * @param name The job's name, for the error.
 * @param most The largest size in bytes of UTF-8.
 * @throws {QueueError} `PAYLOAD` for what JSON cannot hold, text that a store would change, or too much of it.
 */
export function encodePayload(name: string, payload: unknown, most: number): string {
  const text = typeof payload === "string" ? checkText(name, payload) : toJson(name, payload);
  // No character takes more than 3 bytes a UTF-16 unit, so most payloads need no count.
  if (text.length * 3 > most) {
    const bytes = new TextEncoder().encode(text).length;
    if (bytes > most) {
      throw refuse(
        name,
        `is ${bytes} bytes: expected at most ${most} (QUEUE_MAX_PAYLOAD); store it elsewhere and dispatch its key`,
      );
    }
  }
  return text;
}

/** The payload parsed; text that is no JSON is itself. */
export function decodePayload(payload: string): unknown {
  try {
    return JSON.parse(payload);
  } catch {
    return payload;
  }
}

/** SQLite ends text at a NUL in some runtimes, and half a surrogate pair has no UTF-8. */
function checkText(name: string, text: string): string {
  if (text.includes("\0")) throw refuse(name, "has a NUL character: expected text without one, or an object");
  if (!text.isWellFormed()) {
    throw refuse(name, "has half a surrogate pair: expected well-formed text, or an object");
  }
  return text;
}

function toJson(name: string, payload: unknown): string {
  if (payload === undefined) return "null";
  // JSON would make both an empty object.
  if (payload instanceof Map || payload instanceof Set) {
    throw refuse(
      name,
      `is a ${payload.constructor.name}: expected what JSON can hold, such as its entries in an array`,
    );
  }
  let json: string | undefined;
  try {
    json = JSON.stringify(payload);
  } catch (cause) {
    throw refuse(
      name,
      `cannot be stored as JSON: ${cause instanceof Error ? cause.message : String(cause)}`,
      cause,
    );
  }
  if (json === undefined) throw refuse(name, `is a ${typeof payload}: expected what JSON can hold`);
  return json;
}

function refuse(name: string, why: string, cause?: unknown): QueueError {
  return new QueueError(
    "PAYLOAD",
    `the payload of ${JSON.stringify(name)} ${why}`,
    cause === undefined ? undefined : { cause },
  );
}
