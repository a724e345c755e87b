/**
 * Which versions of Node run this: an older one fails at the first thing that it does not know, each time another.
 *
 * @module
 */

/** The first that takes TypeScript as it is, and has SQLite: as in `engines` of package.json. */
const OLDEST = [22, 18];

/** Why this runtime will not do; `null` where it will. @param versions As in `process.versions`. */
export function unsupported(versions: Readonly<Record<string, string | undefined>>): string | null {
  const { node = "", bun, deno } = versions;
  if (bun !== undefined || deno !== undefined) return null;
  const [major, minor] = node.split(".").map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return null;
  return `Node ${node}: expected ${OLDEST.join(".")} or newer`;
}
