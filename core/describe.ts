/**
 * Whatever a handler throws, as text for people. Nothing here throws itself: an error may have a message that is no
 * text, or a getter that fails.
 *
 * @module
 */

/** What is longer is cut. */
const LONGEST = 16_384;

/** The message; with the name before it where that says more than `Error`. */
export function describe(error: unknown): string {
  return guarded(() => {
    if (!(error instanceof Error)) {
      return typeof error === "string" ? error : `threw ${JSON.stringify(error) ?? String(error)}`;
    }
    const name = String(error.name);
    const message = String(error.message);
    // A QueueError says by its message what it is.
    if (["Error", "QueueError", ""].includes(name)) return message || "Error";
    return message === "" ? name : `${name}: ${message}`;
  }) ?? "threw something that cannot be shown";
}

/** The stack, and that of each cause; `null` where there is none. */
export function stackOf(error: unknown): string | null {
  return guarded(() => {
    const parts: string[] = [];
    let current = error;
    for (let depth = 0; depth < 5 && current instanceof Error; depth++) {
      parts.push(String(current.stack ?? current));
      current = current.cause;
    }
    return parts.join("\ncaused by: ");
  }) || null;
}

/** Text on one line, without the control characters that a terminal would obey. */
export function oneLine(text: string): string {
  // deno-lint-ignore no-control-regex -- they are what it takes out
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim();
}

function guarded(show: () => string): string | null {
  try {
    const clean = show().replaceAll("\0", "\uFFFD").toWellFormed();
    return clean.length <= LONGEST ? clean : `${clean.slice(0, LONGEST).toWellFormed()}…`;
  } catch {
    return null;
  }
}
