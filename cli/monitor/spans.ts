import { oneLine } from "../one_line.ts";
import { cut, widthOf } from "../width.ts";

const PAINTS = { bold: 1, dim: 2, reverse: 7, red: 31, green: 32, yellow: 33, cyan: 36 };

/** How a text is painted. */
export type Paint = keyof typeof PAINTS;

/** A part of a line, painted as a whole. */
export interface Span {
  readonly text: string;
  readonly paint?: Paint;
}

/** A line of parts, one after another. */
export type Line = readonly Span[];

/**
 * A line as a terminal gets it, cut to `width` columns: cut before it is painted, so that no escape sequence is. What
 * comes from payloads and other machines is made safe here, once for all parts.
 */
export function paintLine(line: Line, width: number, colour: boolean): string {
  let left = width;
  let painted = "";
  for (const { text, paint } of line) {
    if (left <= 0) break;
    const safe = spaced(text);
    const part = cut(safe, left);
    left -= widthOf(part);
    painted += colour && paint !== undefined && part !== ""
      ? `\u001b[${PAINTS[paint]}m${part}\u001b[0m`
      : part;
    if (part !== safe) break;
  }
  return painted;
}

/** A text that is safe to print, with the spaces around it: those hold a table's columns. */
function spaced(text: string): string {
  const safe = oneLine(text);
  const inner = text.trim() === "" ? "" : safe;
  const before = /^ */.exec(text)![0];
  return inner === "" ? before : before + inner + / *$/.exec(text)![0];
}
