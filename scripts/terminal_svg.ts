// A recording of a terminal as an SVG that plays by itself: text that can be selected, and one animation in CSS. It is
// light or dark as its reader's system is, and stands still at the last rows where motion is not wanted.

import type { Span } from "../tests/screen.ts";

/** A row of the recording. */
export interface Row {
  /** When it is there, in milliseconds from the start. */
  readonly at: number;
  readonly spans: readonly Span[];
}

/** A recording. */
export interface Recording {
  /** Read out, and shown by a browser that is asked what this is. */
  readonly title: string;
  readonly rows: readonly Row[];
  /** How wide the terminal is, in columns. */
  readonly width: number;
  /** How many rows are seen at once. */
  readonly height: number;
  /** How long the last rows stand before it begins anew, in milliseconds. */
  readonly pause: number;
}

/** A cell, and what is around all of them, in pixels. */
const CELL = { width: 8.4, height: 19 };
const MARGIN = 16;

/** The colours of a terminal's palette that are used, each with 4.5:1 or more on its background. */
const LIGHT = {
  back: "#f6f8fa",
  text: "#1f2328",
  palette: paletteOf("cf222e 116329 7d4e00 0550ae 8250df 1b6b72"),
};
const DARK = {
  back: "#161b22",
  text: "#e6edf3",
  palette: paletteOf("ff7b72 3fb950 d29922 79c0ff d2a8ff 56d4dd"),
};

/** From 1, red, to 6, cyan. */
function paletteOf(colours: string): string[] {
  return colours.split(" ").map((colour) => `#${colour}`);
}

/** The recording as an SVG. */
export function toSvg({ title, rows, width, height, pause }: Recording): string {
  const size = { width: width * CELL.width + 2 * MARGIN, height: height * CELL.height + 2 * MARGIN };
  const end = (rows.at(-1)?.at ?? 0) + pause;
  const move = (rows: number): string => `transform:translateY(${rows * CELL.height}px)`;
  // Rows that come together are one step.
  const steps = rows.flatMap((row, index) =>
    rows[index + 1]?.at === row.at ? [] : { at: percent(row.at / end), shown: index + 1 }
  );
  // At first a cover goes down, and what is under it is seen; once the screen is full, the rows go up.
  const room = steps.filter(({ shown }) => shown < height);
  const full = steps.slice(room.length);
  const filling = [...room, ...full.slice(0, 1)].map(({ at, shown }) =>
    `${at}{${move(Math.min(shown, height))}}`
  );
  const scrolling = full.map(({ at, shown }) => `${at}{${move(height - shown)}}`);
  return `<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="${escape(title)}"
  viewBox="0 0 ${round(size.width)} ${round(size.height)}" width="${round(size.width)}" height="${
    round(size.height)
  }">
<title>${escape(title)}</title>
<style>
svg{${variables(LIGHT)};font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media(prefers-color-scheme:dark){svg{${variables(DARK)}}}
.back{fill:var(--back)}text{fill:var(--text);white-space:pre}.b{font-weight:600}
${LIGHT.palette.map((_, index) => `.c${index + 1}{fill:var(--c${index + 1})}`).join("")}
.rows,.cover{animation:rows ${round(end / 1000)}s step-end infinite}
.rows{${move(Math.min(height - rows.length, 0))}}
.cover{${move(height)};animation-name:cover}
@keyframes cover{0%{${move(0)}}
${filling.join("\n")}}
@keyframes rows{0%{${move(0)}}
${scrolling.join("\n")}}
@media(prefers-reduced-motion:reduce){.rows,.cover{animation:none}}
</style>
<rect class="back" width="100%" height="100%" rx="8"/>
<svg x="${MARGIN}" y="${MARGIN}" width="${round(width * CELL.width)}" height="${round(height * CELL.height)}">
<g class="rows">
${rows.map((row, index) => row.spans.map((span) => textOf(span, index)).join("")).filter(Boolean).join("\n")}
</g>
<rect class="back cover" width="100%" height="100%"/>
</svg>
</svg>
`;
}

/** Each part says how wide it is, so that columns are straight in every font. */
function textOf(span: Span, row: number): string {
  // Spaces at the ends have no width of their own in some browsers.
  const text = span.text.trim();
  if (text === "") return "";
  const column = span.column + span.text.length - span.text.trimStart().length;
  const classes = [span.isBold ? "b" : "", span.colour === null ? "" : `c${span.colour}`].filter(Boolean);
  const look = classes.length > 0 ? ` class="${classes.join(" ")}"` : "";
  const x = round(column * CELL.width), y = row * CELL.height + 14;
  return `<text${look} x="${x}" y="${y}" textLength="${round(text.length * CELL.width)}">${
    escape(text)
  }</text>`;
}

function variables({ back, text, palette }: typeof LIGHT): string {
  const colours = palette.map((colour, index) => `--c${index + 1}:${colour}`);
  return [`--back:${back}`, `--text:${text}`, ...colours].join(";");
}

function percent(part: number): string {
  return `${round(part * 100, 3)}%`;
}

function round(number: number, digits = 1): number {
  return Number(number.toFixed(digits));
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll('"', "&quot;");
}
