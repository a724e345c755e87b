/** Errors that nobody catches: a job's are logged and end nothing, the app's fail the process as they always do. */
import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { type Program, withPrograms } from "./process.ts";
import { soon } from "./until.ts";

const STRAYS = {
  rejection: "left a promise behind that rejected: Error: a forgotten promise",
  "late rejection": "left a promise behind that rejected: Error: a forgotten promise",
  "rejection with a text": "left a promise behind that rejected: a forgotten text",
  exception: "left a callback behind that threw: Error: a forgotten timer",
};

/** Runs the program to its end; its exit code, or the signal that ended it. */
async function run(
  start: (name: string, options: Record<string, unknown>) => Program,
  options: { stray: string; from: string; listening?: boolean },
): Promise<{ program: Program; status: number | string }> {
  const program = start("strays", options);
  return { program, status: await soon(program.ended, "its end") };
}

for (const [stray, words] of Object.entries(STRAYS)) {
  test(`a job's stray ${stray} is logged with its name, and the other jobs finish`, () =>
    withPrograms(async (start) => {
      const { program, status } = await run(start, { stray, from: "a job" });
      assert.equal(status, 0, program.errors);
      assert.deepEqual(program.all("ran").map(([, payload]) => payload).sort(), ["1", "2", "last"]);
      assert.deepEqual(program.all("failed"), [["failed", 0]], "the job itself has not failed");
      const logged = program.all("error").map(([, line]) => String(line));
      assert.equal(logged.length, 1, logged.join("\n"));
      // Where the runtime cannot tell, all that ran at that moment are named.
      assert.match(logged[0], /^queue: job forgetful \(id 1\)( or other \(id \d\))* left /);
      assert.equal(logged[0].includes(` ${words}`), true, logged[0]);
    }));
}

for (const stray of ["rejection", "late rejection", "exception"]) {
  test(`a job's stray ${stray} is logged with its name, though it is heard of late`, () =>
    withPrograms(async (start) => {
      const { program, status } = await run(start, { stray, from: "a job beside one that blocks" });
      assert.equal(status, 0, program.errors);
      const logged = program.all("error").map(([, line]) => String(line));
      assert.equal(logged.length, 1, logged.join("\n"));
      assert.match(
        logged[0],
        /^queue: job (\w+ \(id \d\) or )*forgetful \(id 1\)( or \w+ \(id \d\))* left /,
      );
    }));
}

test("a job's stray that comes after the job has ended is logged with its name", () =>
  withPrograms(async (start) => {
    const { program, status } = await run(start, { stray: "rejection", from: "a job that has ended" });
    assert.equal(status, 0, program.errors);
    const logged = program.all("error").map(([, line]) => String(line));
    assert.equal(logged.length, 1, logged.join("\n"));
    assert.match(
      logged[0],
      /^queue: job quick \(id 1\) left a promise behind that rejected: Error: a forgotten promise/,
    );
  }));

/** Which runtime cannot tell a job's stray from the app's while a job runs, and so takes it for the job's. */
const blind: Record<string, string | false> = {
  "late rejection": process.versions.bun !== undefined && "Bun does not say where a rejection comes from",
  exception: process.versions.deno !== undefined && "Deno does not say where an exception comes from",
};

for (const stray of ["late rejection", "exception"] as const) {
  for (
    const from of ["an app beside a job", "an app with an idle worker", "an app whose worker has stopped"]
  ) {
    const skip = from === "an app beside a job" && blind[stray];
    test(
      `the ${stray} of ${from} fails the process, as without us`,
      { skip },
      () =>
        withPrograms(async (start) => {
          const [own, ours] = await Promise.all([
            run(start, { stray, from: "an app without a worker" }),
            run(start, { stray, from }),
          ]);
          assert.notEqual(own.status, 0);
          assert.equal(ours.status, own.status);
          // Bun goes on after an error that nobody caught, and ends with this status.
          assert.deepEqual(ours.program.all("survived"), own.program.all("survived"));
          const message = STRAYS[stray].split(": ").at(-1)!;
          for (const { program } of [own, ours]) {
            assert.equal(program.errors.includes(message), true, program.errors);
          }
          assert.deepEqual(ours.program.all("error"), [], "no job is blamed");
        }),
    );
  }
}

test("an app that listens to unhandled rejections decides itself", () =>
  withPrograms(async (start) => {
    const stray = "rejection";
    const { program, status } = await run(start, {
      stray,
      from: "an app with an idle worker",
      listening: true,
    });
    assert.equal(status, 0, program.errors);
    assert.deepEqual(program.all("heard"), [["heard", "Error: a forgotten promise"]]);
    assert.deepEqual(program.all("error"), []);
    assert.deepEqual(program.all("survived"), [["survived"]]);
  }));
