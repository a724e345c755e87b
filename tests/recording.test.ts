/** The recording at the top of the README, and how a terminal becomes one. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { type Row, toSvg } from "../scripts/terminal_svg.ts";
import { Screen } from "./screen.ts";

function read(file: string): string {
  return readFileSync(fileURLToPath(new URL(`../${file}`, import.meta.url)), "utf8");
}

/** What is written in an SVG, row by row, as its places say. */
function shown(svg: string): string[] {
  const rows: string[] = [];
  for (const [, x, y, text] of svg.matchAll(/<text[^>]* x="([\d.]+)" y="(\d+)"[^>]*>([^<]*)<\/text>/g)) {
    const row = (Number(y) - 14) / 19, column = Math.round(Number(x) / 8.4);
    rows[row] = (rows[row] ?? "").padEnd(column) +
      text.replaceAll("&lt;", "<").replaceAll("&quot;", '"').replaceAll("&amp;", "&");
  }
  return Array.from(rows, (row) => row ?? "");
}

/** The steps of an animation: after which part of it, in percent, rows have moved by how many. */
function steps(svg: string, name: string): [at: number, rows: number][] {
  const [, frames] = new RegExp(`@keyframes ${name}\\{(.*?\\})\\}`, "s").exec(svg)!;
  return [...frames.matchAll(/([\d.]+)%\{transform:translateY\((-?[\d.]+)px\)\}/g)]
    .map(([, at, pixels]) => [Number(at), Number(pixels) / 19]);
}

test("a recording has the rows of the terminal, in their places and colours", async () => {
  const screen = new Screen(40, 4);
  screen.write('\x1b[36m$ say\x1b[0m  a < b & "c"\r\n\r\n\x1b[1m  bold\x1b[0m and\x1b[31m red\x1b[0m\r\n');
  await screen.written;
  assert.equal(screen.cursorRow, 3);
  const rows: Row[] = [0, 1, 2].map((row) => ({ at: row * 100, spans: screen.spans(row) }));
  const svg = toSvg({ title: 'a "title"', rows, width: 40, height: 4, pause: 800 });
  assert.deepEqual(shown(svg), ['$ say  a < b & "c"', "", "  bold and red"]);
  assert.deepEqual(shown(svg), screen.rows.slice(0, 3));
  assert.match(svg, /<text class="c6"[^>]*>\$ say</);
  assert.match(svg, /<text class="b"[^>]*>bold</);
  assert.match(svg, /<text class="c1"[^>]*>red</);
  assert.match(svg, /<title>a &quot;title&quot;<\/title>/);
  screen.dispose();
});

test("its rows are uncovered until the screen is full, and go up from then on", () => {
  const row = (at: number): Row => ({ at, spans: [{ column: 0, text: "x", colour: null, isBold: false }] });
  const rows = [0, 100, 100, 200, 400].map(row);
  const svg = toSvg({ title: "t", rows, width: 10, height: 3, pause: 600 });
  assert.deepEqual(steps(svg, "cover"), [[0, 0], [0, 1], [10, 3]]);
  assert.deepEqual(steps(svg, "rows"), [[0, 0], [10, 0], [20, -1], [40, -2]]);
  assert.match(svg, /animation:rows 1s step-end infinite/);
  assert.match(svg, /\.rows\{transform:translateY\(-38px\)\}/, "without motion, its end is seen");
});

test("one that never fills the screen is uncovered to its end", () => {
  const rows: Row[] = [{ at: 0, spans: [{ column: 0, text: "x", colour: null, isBold: false }] }];
  const svg = toSvg({ title: "t", rows, width: 10, height: 3, pause: 1000 });
  assert.deepEqual(steps(svg, "cover"), [[0, 0], [0, 1]]);
  assert.deepEqual(steps(svg, "rows"), [[0, 0]]);
});

test("the README begins with the demo, from its start to its end", () => {
  const svg = read("docs/demo.svg");
  assert.match(read("README.md").split("\n## ")[0], /!\[[^\]]+\]\(docs\/demo\.svg\)/);
  assert.ok(svg.length < 60_000, `${svg.length} bytes`);
  assert.doesNotMatch(svg, /<script|https?:\/\/(?!127\.0\.0\.1|www\.w3\.org)|xlink|@import|url\(/);
  const rows = shown(svg);
  assert.equal(rows[0], "$ deno task demo");
  const story = [
    /FAIL: crm answered 404/,
    /^retried 3 deliver$/,
    /^\$ kill -9 \d+$/,
    /^worker 2 .* 2\/3 .* DONE$/,
  ];
  const end = [/ended with exit status 0$/, /^no jobs$/, /^# Every step was checked, in [\d.]+ s\./];
  const places = [...story, ...end].map((step) => rows.findIndex((row) => step.test(row)));
  assert.deepEqual(places, [...places].sort((a, b) => a - b), "in this order");
  assert.equal(places.includes(-1), false);
  const demo = read("examples/demo.ts");
  const comments = rows.filter((row) => row.startsWith("# ") && !/in [\d.]+ m?s\b/.test(row));
  assert.ok(comments.length > 8);
  assert.deepEqual(comments.filter((row) => !demo.includes(row.slice(2))), [], "record it again");
  const scrolled = steps(svg, "rows");
  assert.equal(scrolled.at(-1)![1], 26 - rows.length, "the last row is the last that is seen");
  assert.ok(scrolled.every(([at], index) => index === 0 || at >= scrolled[index - 1][0]));
});
