/** The tests' own way to send signals: a process may end before its parent hears of it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { sendSignal } from "./signal.ts";

test("a signal reaches a process that runs, and is no fault where it has ended", async () => {
  const child = spawn("sleep", ["60"]);
  const ended = once(child, "exit");
  assert.equal(sendSignal(child.pid!, "SIGKILL"), true);
  assert.deepEqual(await ended, [null, "SIGKILL"]);
  assert.equal(sendSignal(child.pid!, "SIGKILL"), false);
});

test("a signal that there is not is a fault", () => {
  assert.throws(() => sendSignal(2 ** 22 + 1, "SIGNOTHING" as NodeJS.Signals), /signal/i);
});
