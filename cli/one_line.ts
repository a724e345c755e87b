// deno-lint-ignore no-control-regex -- control characters are what it removes
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g;

/**
 * The first line of a text that has one, safe to print: names and errors come from payloads and other machines, and
 * a terminal would obey the control characters in them.
 */
export function oneLine(text: string): string {
  const first = text.split(/[\r\n\u2028\u2029]/).find((line) => line.trim() !== "") ?? "";
  return first.replace(CONTROL, " ").trim();
}
