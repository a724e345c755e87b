// Preloaded by the test runner into each test file, in Deno only, to tell it what Deno's report leaves out: which files
// were loaded, and what was thrown outside of a test (at the top level, or by a timer). Once a file has called
// node:test, Deno drops the latter and calls the run a success; Bun and Node do not.

import { appendFileSync } from "node:fs";
import process from "node:process";

/** A line of the file in TEST_WITNESS: a test file that was loaded, or what was thrown in it. */
export interface Note {
  readonly file: string;
  readonly thrown?: string;
}

const path = process.env.TEST_WITNESS;

function note(thrown?: unknown): void {
  const text = thrown instanceof Error ? thrown.stack ?? thrown.message : thrown && String(thrown);
  if (path) appendFileSync(path, JSON.stringify({ file: process.argv[1], thrown: text }) + "\n");
}

note();
globalThis.addEventListener("error", (event) => note(event.error ?? event.message));
globalThis.addEventListener("unhandledrejection", (event) => {
  // With a listener on the process, the code under test looks after its rejections itself.
  if (process.listenerCount("unhandledRejection") === 0) note(event.reason ?? "undefined");
});
