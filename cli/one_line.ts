/** Control characters, line breaks, and what turns the direction of writing around. */
// deno-lint-ignore no-control-regex -- control characters are what it removes
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]+/g;

/**
 * The first line of a text that has one, safe to print: names and errors come from payloads and other machines, and
 * a terminal would obey the control characters in them.
 */
export function oneLine(text: string): string {
  return flat(text.split(/[\r\n\u2028\u2029]/).find((line) => line.trim() !== "") ?? "");
}

/** All of a text on one line, as safe to print: where its later lines matter, as those of a stack do. */
export function flat(text: string): string {
  return text.replace(UNSAFE, " ").trim();
}
