/** Reads the documents: their sections, tables and blocks, for the tests that run what they print. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The repository's folder. */
export const ROOT: string = fileURLToPath(new URL("..", import.meta.url));

/** The text of a file of the repository. */
export function read(file: string): string {
  return readFileSync(join(ROOT, file), "utf8");
}

/** The URL of a file of the repository. */
export function url(file: string): string {
  return pathToFileURL(join(ROOT, file)).href;
}

/** The text under a heading, up to the next one of its level. */
export function section(document: string, title: string): string {
  const [, text] = document.split(`\n## ${title}\n`);
  assert.notEqual(text, undefined, `there is a section ${title}`);
  return text.split("\n## ")[0];
}

/** A block of code. */
export interface Block {
  /** What stands after the fence, such as `ts` or `ts ignore`. */
  readonly info: string;
  /** What is in it. */
  readonly code: string;
}

/** Every block of code, in order. */
export function allBlocks(text: string): Block[] {
  return [...text.matchAll(/^```(.*)\n([^]*?)^```$/gm)].map(([, info, code]) => ({ info, code }));
}

/** The blocks of a language, such as `ts` or `ts ignore`. */
export function blocks(text: string, language: string): string[] {
  return allBlocks(text).filter(({ info }) => info === language).map(({ code }) => code);
}

/** The tables, each as its rows, of which the first has the headings. In a cell, `\|` is a bar. */
export function tables(text: string): string[][][] {
  const prose = text.replace(/^```.*\n[^]*?^```$/gm, "");
  return [...prose.matchAll(/(?:^\|.*\n)+/gm)].map(([lines]) => {
    const rows = lines.trimEnd().split("\n").map((line) =>
      line.split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim().replaceAll("\\|", "|"))
    );
    return [rows[0], ...rows.slice(2)];
  });
}

/** The rows of the table whose first heading is this, without their code marks. */
export function table(text: string, heading: string): string[][] {
  const found = tables(text).find(([headings]) => headings[0] === heading);
  assert.notEqual(found, undefined, `there is a table of ${heading}`);
  return found!.slice(1).map((row) => row.map((cell) => cell.replaceAll("`", "")));
}

/** The code of an example as a file of any folder: the package is taken from this repository. */
export function outside(code: string): string {
  const { exports } = JSON.parse(read("deno.json")) as { exports: Record<string, string> };
  return code.replace(/"@x\/queue((?:\/\w+)*)"/g, (name, path: string) => {
    const file = exports[`.${path}`];
    assert.notEqual(file, undefined, `${name} is in the exports of deno.json`);
    return JSON.stringify(url(file));
  });
}

/** The words of a command, as a shell takes it apart: those in quotes as they are. */
export function words(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|"([^"]*)"|\S+/g)].map(([word, one, two]) => one ?? two ?? word);
}

/** Printed lines without what differs from run to run: times, and durations, save the wait before a retry. */
export function timeless(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, "TIME")
    .replace(/ +\d+(\.\d+)? m?s(?=$| {2}(DONE|RETRY|FAIL))/gm, " TOOK");
}
