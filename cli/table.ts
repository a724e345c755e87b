import { oneLine } from "./one_line.ts";

/** A column: its heading, and whether its cells are numbers, which line up on the right. */
export interface Column {
  readonly title: string;
  readonly right?: boolean;
}

/** The lines of a table, each cut to `width` where one is given: only the last column should be long. */
export function table(columns: readonly Column[], rows: readonly string[][], width?: number): string[] {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map(oneLine))];
  const widths = columns.map((_, at) => Math.max(...cells.map((row) => length(row[at]!))));
  return cells.map((row) => {
    const padded = row.map((cell, at) => {
      const space = " ".repeat(widths[at]! - length(cell));
      return columns[at]!.right ? space + cell : cell + space;
    });
    return cut(padded.join("  ").trimEnd(), width);
  });
}

/** The text, ended with an ellipsis where it is longer than `width`. */
export function cut(text: string, width: number | undefined): string {
  if (width === undefined || length(text) <= width) return text;
  return [...text].slice(0, Math.max(0, width - 1)).join("") + "…";
}

/** Code points, so that no character is cut in half. */
function length(text: string): number {
  return [...text].length;
}
