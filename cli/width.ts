import stringWidth from "string-width";

/** How many columns a terminal gives a text of one line. */
export function widthOf(text: string): number {
  return stringWidth(text);
}

/** The text, with spaces after it up to `width` columns. */
export function padEnd(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - widthOf(text)));
}

/** The text, with spaces before it up to `width` columns. */
export function padStart(text: string, width: number): string {
  return " ".repeat(Math.max(0, width - widthOf(text))) + text;
}

/** The text, ended with an ellipsis where it is wider than `width`; no character is cut in half. */
export function cut(text: string, width: number | undefined): string {
  if (width === undefined || widthOf(text) <= width) return text;
  let left = width - 1;
  let kept = "";
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    left -= widthOf(segment);
    if (left < 0) break;
    kept += segment;
  }
  return `${kept}…`;
}
