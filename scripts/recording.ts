// Records the demo in a terminal, for the top of the README:
//
//   deno task recording      writes docs/demo.svg; needs `script` of util-linux, so Linux
//
// What is seen is what the demo wrote, at the times at which it did, but for two things: after a comment it waits, so
// that the comment can be read, and it waits for nothing longer than the lease that the demo waits for.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { InTerminal, noTerminal } from "../tests/pseudo_terminal.ts";
import { soon } from "../tests/until.ts";
import { findRuntime, root } from "./runtimes.ts";
import { type Row, toSvg } from "./terminal_svg.ts";

const WIDTH = 112;
const HEIGHT = 26;

/** More rows than the demo writes, so that none leaves the screen before it is read. */
const ROWS = 400;

/** In milliseconds. */
const LONGEST_WAIT = 2000;
const READING = 2500;
const LAST = 8000;

/** The demo's rows, as they came. */
async function record(deno: string): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "queue-recording-"));
  const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? folder, LANG: "C.UTF-8" };
  const command = [
    "sh",
    "-c",
    'cd "$1"; printf "\\033[36m$ deno task demo\\033[0m\\n"; exec "$2" task demo',
    "sh",
  ];
  const times: { at: number; row: number }[] = [];
  const terminal: InTerminal = new InTerminal([...command, root, deno], {
    ...{ cwd: folder, env, width: WIDTH, height: ROWS },
    onOutput: () => {
      const at = performance.now();
      terminal.screen.written.then(() => times.push({ at, row: terminal.screen.cursorRow }));
    },
  });
  try {
    const status = await soon(terminal.ended, "the demo to end", 120_000);
    await terminal.screen.written;
    if (status !== 0) throw new Error(`the demo ended with exit status ${status}:\n${terminal.screen.text}`);
    const count = terminal.screen.rows.findLastIndex((row) => row !== "") + 1;
    const rows = Array.from({ length: count }, (_, row) => ({
      at: times.find((time) => time.row > row)?.at ?? times.at(-1)!.at,
      spans: terminal.screen.spans(row),
    }));
    // What stands above it is of the helper that gave the terminal, and not the demo's.
    return rows.slice(rows.findIndex(({ spans }) => spans[0]?.text.includes("deno task demo")));
  } finally {
    await terminal.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The same rows at times at which they can be read. */
function paced(rows: readonly Row[]): Row[] {
  const isComment = (row: Row): boolean => row.spans[0]?.text.startsWith("# ") ?? false;
  let at = 0;
  return rows.map((row, index) => {
    const before = rows[index - 1];
    if (before !== undefined) {
      at += Math.min(row.at - before.at, LONGEST_WAIT);
      if (isComment(before) && !isComment(row)) at += READING;
    }
    return { ...row, at: Math.round(at) };
  });
}

const deno = findRuntime("deno");
if (noTerminal) throw new Error(noTerminal);
if (typeof deno === "string") throw new Error(deno);
const rows = paced(await record(deno.path));
const svg = toSvg({
  title: "A terminal: the demo dispatches jobs, retries them, kills a worker, and loses none",
  ...{ rows, width: WIDTH, height: HEIGHT, pause: LAST },
});
const file = join(root, "docs", "demo.svg");
writeFileSync(file, svg);
const seconds = Math.round(rows.at(-1)!.at / 1000);
console.log(`${file}: ${rows.length} rows, ${seconds} s, ${(svg.length / 1024).toFixed(1)} KiB`);
