/** A value as an error message shows it, whatever it is; text in quotes. */
export function show(value: unknown): string {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "(function)";
  if (typeof value !== "string" && typeof value !== "object") return String(value);
  try {
    return JSON.stringify(value) ?? `(${typeof value})`;
  } catch {
    // A BigInt or a cycle within.
    return `(${typeof value})`;
  }
}
