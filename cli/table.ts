import { oneLine } from "./one_line.ts";
import { cut, padEnd, padStart, widthOf } from "./width.ts";

/** A column: its heading, and whether its cells are numbers, which line up on the right. */
export interface Column {
  readonly title: string;
  readonly right?: boolean;
}

/** The lines of a table, each cut to `width` where one is given: only the last column should be long. */
export function table(columns: readonly Column[], rows: readonly string[][], width?: number): string[] {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map(oneLine))];
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => widthOf(row[at]!))));
  return cells.map((row) => {
    const padded = row.map((cell, at) => (columns[at]!.right ? padStart : padEnd)(cell, widths[at]!));
    return cut(padded.join("  ").trimEnd(), width);
  });
}
