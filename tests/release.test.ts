/** What scripts/release.ts finds wrong with a release, before a tag sets it going. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { checksums, downloads, notes, prepare, problems, tryProgram, versionOf } from "../scripts/release.ts";
import { VERSION } from "../version.ts";
import { inFolder } from "./folder.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

const CHANGELOG = `# Changelog

## [Unreleased]

### Added

- What is new.

## [0.1.0] - 2026-12-01

### Fixed

- What was old: see ## here.
`;

/** A test with the files of the repository that have its version, and a changelog of its own. */
function inTree(sentence: string, run: (folder: string) => void, changelog = CHANGELOG): void {
  test(sentence, async () => {
    await inFolder((folder) => {
      for (const file of ["deno.json", "package.json", "version.ts", "README.md"]) {
        const text = readFileSync(join(root, file), "utf8");
        writeFileSync(join(folder, file), text.replaceAll(VERSION, "0.1.0"));
      }
      mkdirSync(join(folder, "docs"));
      writeFileSync(
        join(folder, "docs", "start.md"),
        "npm install x-queue-0.1.0.tgz, then x-queue-0.1.0.tgz",
      );
      writeFileSync(join(folder, "CHANGELOG.md"), changelog);
      run(folder);
    });
  });
}

function change(folder: string, file: string, from: string, to: string): void {
  const path = join(folder, file);
  const before = readFileSync(path, "utf8");
  const after = before.replace(from, to);
  assert.notEqual(after, before, `${file} has ${from}`);
  writeFileSync(path, after);
}

inTree("a version is prepared: then its tag, and no other, may be released", (folder) => {
  prepare("0.2.0", "2026-12-24", folder);
  assert.deepEqual(problems("v0.2.0", folder), []);
  assert.equal(notes("v0.2.0", folder), "### Added\n\n- What is new.");
  assert.equal(notes("v0.1.0", folder), "### Fixed\n\n- What was old: see ## here.");
  const changelog = readFileSync(join(folder, "CHANGELOG.md"), "utf8");
  assert.match(changelog, /^## \[Unreleased\]\n\n## \[0\.2\.0\] - 2026-12-24\n\n### Added$/m);
  assert.match(readFileSync(join(folder, "version.ts"), "utf8"), /VERSION = "0\.2\.0"/);
  for (const file of ["deno.json", "package.json"]) {
    assert.equal(JSON.parse(readFileSync(join(folder, file), "utf8")).version, "0.2.0", file);
  }
  const named = [...readFileSync(join(folder, "README.md"), "utf8").matchAll(/x-queue-([\w.-]+)\.tgz/g)];
  assert.deepEqual(named.filter(([, version]) => version !== "0.2.0"), []);
  const start = readFileSync(join(folder, "docs", "start.md"), "utf8");
  assert.equal(start, "npm install x-queue-0.2.0.tgz, then x-queue-0.2.0.tgz");
  assert.deepEqual(problems("v0.1.0", folder).slice(0, 1), [
    "deno.json has the version 0.2.0, and not 0.1.0",
  ]);
  assert.ok(problems("v0.1.0", folder).includes("CHANGELOG.md has 0.2.0 before 0.1.0"));
  assert.ok(problems("v0.3.0", folder).includes("CHANGELOG.md has no section ## [0.3.0]"));
});

inTree("a version that is tried first has a name of its own", (folder) => {
  prepare("1.0.0-rc.1", "2026-12-24", folder);
  assert.deepEqual(problems("v1.0.0-rc.1", folder), []);
});

inTree("each file must have the version", (folder) => {
  prepare("0.2.0", "2026-12-24", folder);
  change(folder, "package.json", '"version": "0.2.0"', '"version": "0.1.9"');
  change(folder, "version.ts", "export const VERSION", "const VERSION");
  assert.deepEqual(problems("v0.2.0", folder), [
    "package.json has the version 0.1.9, and not 0.2.0",
    "version.ts has no version",
  ]);
});

inTree("the changelog must have the version's day and changes, and no others", (folder) => {
  prepare("0.2.0", "2026-12-24", folder);
  change(folder, "CHANGELOG.md", "2026-12-24\n\n### Added\n\n- What is new.", "2026-02-30");
  change(folder, "CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n- One more.\n");
  assert.deepEqual(problems("v0.2.0", folder), [
    "CHANGELOG.md still has changes under Unreleased",
    "CHANGELOG.md has no date for 0.2.0",
    "CHANGELOG.md says nothing of 0.2.0",
  ]);
  assert.throws(() => notes("v0.2.0", folder), /says nothing of 0\.2\.0/);
});

inTree("nothing is prepared of a version that is none, or was released, or without changes", (folder) => {
  const before = readFileSync(join(folder, "deno.json"), "utf8");
  assert.throws(() => prepare("v0.2.0", "2026-12-24", folder), /"v0\.2\.0": expected a version/);
  assert.throws(() => prepare("0.2.0", "24.12.2026", folder), /"24\.12\.2026": expected a day/);
  assert.throws(() => prepare("0.1.0", "2026-12-24", folder), /has a section of 0\.1\.0 already/);
  change(folder, "CHANGELOG.md", "### Added\n\n- What is new.\n", "");
  assert.throws(() => prepare("0.2.0", "2026-12-24", folder), /nothing under Unreleased/);
  assert.equal(readFileSync(join(folder, "deno.json"), "utf8"), before);
});

test("the changelog of the repository can be released as it is", async () => {
  await inFolder((folder) => {
    cpSync(join(root, "docs"), join(folder, "docs"), { recursive: true });
    for (const file of ["deno.json", "package.json", "version.ts", "README.md", "CHANGELOG.md"]) {
      writeFileSync(join(folder, file), readFileSync(join(root, file)));
    }
    const next = "999.0.0";
    const hasChanges = !/^## \[Unreleased\]\s+## /m.test(readFileSync(join(folder, "CHANGELOG.md"), "utf8"));
    if (hasChanges) prepare(next, "2026-12-24", folder);
    assert.deepEqual(problems(`v${hasChanges ? next : VERSION}`, folder), []);
  });
});

test("a tag is v and a version", () => {
  assert.equal(versionOf("v1.2.3"), "1.2.3");
  for (const tag of ["1.2.3", "v1.2", "v1.2.3.4", "v1.2.3-", "v1.2.3 ", "vv1.2.3", "", "v1.2.3; ls"]) {
    assert.throws(() => versionOf(tag), /expected v and a version/, tag);
  }
});

test("the digests are of all that is downloaded, and of nothing else", async () => {
  await inFolder((folder) => {
    const names = downloads("0.2.0");
    assert.equal(names.length, 6);
    for (const name of names) writeFileSync(join(folder, name), name);
    const text = checksums(folder, "0.2.0");
    writeFileSync(join(folder, "SHA256SUMS"), text);
    assert.equal(checksums(folder, "0.2.0"), text, "made again, it leaves itself out");
    assert.deepEqual(text.trim().split("\n").map((line) => line.slice(66)), names);
    for (const line of text.trim().split("\n")) assert.match(line, /^[0-9a-f]{64} {2}\S/);
    const tool = spawnSync("sha256sum", ["--check", "--strict", "SHA256SUMS"], {
      cwd: folder,
      encoding: "utf8",
    });
    if (tool.error === undefined) assert.equal(tool.status, 0, tool.stdout + tool.stderr);

    writeFileSync(join(folder, "notes.md"), "");
    assert.throws(() => checksums(folder, "0.2.0"), /has notes\.md, which is no part of a release/);
    assert.throws(() => checksums(folder, "0.3.0"), /has no x-queue-0\.3\.0\.tgz$/);
  });
  await inFolder((folder) => {
    for (const name of downloads("0.2.0")) {
      writeFileSync(join(folder, name), name.endsWith(".tgz") ? "" : name);
    }
    assert.throws(() => checksums(folder, "0.2.0"), /x-queue-0\.2\.0\.tgz is empty/);
  });
});

test("a binary is used before it is released: what does not work is none", () => {
  const env: Record<string, string> = { NODE_NO_WARNINGS: "1" };
  for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  const before = process.versions.deno === undefined
    ? []
    : ["run", "-A", "--no-check", `--config=${join(root, "deno.json")}`];
  const command = [process.execPath, ...before, join(root, "cli.ts")];
  tryProgram(command, VERSION, env);
  assert.throws(() => tryProgram(command, "999.0.0", env), /^Error: --version: status 0, expected 0 and/);
  assert.throws(() => tryProgram(["no such program"], VERSION, env), /^Error: no such program: /);
});

test("the command's exit status says how it went", () => {
  const before = process.versions.deno === undefined ? [] : ["run", "-A", "--no-check"];
  const run = (...args: string[]): [number | null, string] => {
    const program = [...before, join(root, "scripts", "release.ts"), ...args];
    const { status, stdout, stderr } = spawnSync(process.execPath, program, { encoding: "utf8" });
    return [status, stdout + stderr];
  };
  const [status, found] = run("check", "v999.0.0");
  assert.equal(status, 1);
  assert.match(found, /^deno\.json has the version \S+, and not 999\.0\.0$/m);
  assert.equal(run("check", "main")[0], 2);
  assert.match(run("publish", "v1.0.0")[1], /expected prepare VERSION, check TAG/);
});
