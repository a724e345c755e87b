// What of a release can be tried before it is one:
//
//   deno task release prepare 0.2.0     writes the version into every file that has it, and dates the changelog
//   deno task release check v0.2.0      says whether the tree is what the tag says; the workflow does so first
//   deno task release notes v0.2.0      prints what the changelog says of it
//   deno task release try dist/queue    uses a binary as its user would, with nothing on the PATH, on whatever system
//   deno task release checksums dist    writes SHA256SUMS for what users download, all of which must be there
//
// CONTRIBUTING.md has the steps of a release, .github/workflows/release.yml what a tag sets going.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { fileOf, targets } from "./compile.ts";
import { root } from "./runtimes.ts";

/** `1.2.3`, or `1.2.3-rc.1` for one that is tried first. */
const VERSION = /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?$/;

/** The files that have the version, whatever they are about, and where. */
const VERSIONED: Record<string, RegExp> = {
  "deno.json": /(?<=^ {2}"version": ")[^"]+/m,
  "package.json": /(?<=^ {2}"version": ")[^"]+/m,
  "version.ts": /(?<=^export const VERSION = ")[^"]+/m,
};

/** Where documents name the tarball. */
const TARBALL = /(?<=\bx-queue-)\d[\w.-]*(?=\.tgz)/g;

/** Where the changelog keeps what is not released. */
const UNRELEASED = "Unreleased";

/** A section of the changelog. */
interface Section {
  readonly version: string;
  /** `null` where there is none. */
  readonly date: string | null;
  readonly text: string;
}

/** What users download besides the package on JSR: a binary for each target, and the tarball for npm. */
export function downloads(version: string): string[] {
  return [...targets.map((target) => fileOf(target)), `x-queue-${version}.tgz`].sort();
}

/**
 * The version that a tag names.
 *
 * @throws {Error} Where it names none.
 */
export function versionOf(tag: string): string {
  if (!tag.startsWith("v") || !VERSION.test(tag.slice(1))) {
    throw new Error(`the tag ${JSON.stringify(tag)}: expected v and a version, such as v0.2.0`);
  }
  return tag.slice(1);
}

/** Why the tree in `folder` is not what the tag says; nothing where it is. */
export function problems(tag: string, folder: string = root): string[] {
  const version = versionOf(tag);
  const found: string[] = [];
  for (const [file, place] of places(folder)) {
    const named = readFileSync(join(folder, file), "utf8").match(place) ?? [];
    if (named.length === 0 && file in VERSIONED) found.push(`${file} has no version`);
    for (const other of new Set(named)) {
      if (other !== version) found.push(`${file} has the version ${other}, and not ${version}`);
    }
  }
  const [newest, ...older] = sections(folder).filter((section) => section.version !== UNRELEASED);
  const unreleased = sections(folder).find((section) => section.version === UNRELEASED);
  if (unreleased?.text) found.push("CHANGELOG.md still has changes under Unreleased");
  if (older.some((section) => section.version === version)) {
    found.push(`CHANGELOG.md has ${newest.version} before ${version}`);
  } else if (newest?.version !== version) {
    found.push(`CHANGELOG.md has no section ## [${version}]`);
  } else {
    if (newest.date === null || !isDay(newest.date)) found.push(`CHANGELOG.md has no date for ${version}`);
    if (newest.text === "") found.push(`CHANGELOG.md says nothing of ${version}`);
  }
  return found;
}

/**
 * What the changelog says of a version.
 *
 * @throws {Error} Where it says nothing.
 */
export function notes(tag: string, folder: string = root): string {
  const version = versionOf(tag);
  const text = sections(folder).find((section) => section.version === version)?.text;
  if (!text) throw new Error(`CHANGELOG.md says nothing of ${version}`);
  return text;
}

/**
 * Writes a version into every file that has it, and makes of what is unreleased the section of that version.
 *
 * @param day As `2026-12-31`.
 * @throws {Error} Where it is no version, or there is nothing to release; nothing is written then.
 */
export function prepare(version: string, day: string, folder: string = root): void {
  if (!VERSION.test(version)) {
    throw new Error(`${JSON.stringify(version)}: expected a version, such as 0.2.0`);
  }
  if (!isDay(day)) throw new Error(`${JSON.stringify(day)}: expected a day, such as 2026-12-31`);
  const known = sections(folder);
  if (known.some((section) => section.version === version)) {
    throw new Error(`CHANGELOG.md has a section of ${version} already`);
  }
  if (!known.find((section) => section.version === UNRELEASED)?.text) {
    throw new Error("CHANGELOG.md has nothing under Unreleased");
  }
  for (const [file, place] of places(folder)) edit(folder, file, place, version);
  const heading = `## [${UNRELEASED}]`;
  edit(folder, "CHANGELOG.md", heading, `${heading}\n\n## [${version}] - ${day}`);
}

/**
 * The digests of all that users download from a folder, as `sha256sum --check` reads them.
 *
 * @throws {Error} Where something is missing, empty, or not meant for them.
 */
export function checksums(folder: string, version: string): string {
  const wanted = downloads(version);
  const present = readdirSync(folder).filter((name) => name !== "SHA256SUMS");
  const missing = wanted.filter((name) => !present.includes(name));
  const strange = present.filter((name) => !wanted.includes(name));
  if (missing.length > 0) throw new Error(`${folder} has no ${missing.join(", ")}`);
  if (strange.length > 0) {
    throw new Error(`${folder} has ${strange.join(", ")}, which is no part of a release`);
  }
  return wanted.map((name) => {
    const file = join(folder, name);
    if (statSync(file).size === 0) throw new Error(`${file} is empty`);
    return `${createHash("sha256").update(readFileSync(file)).digest("hex")}  ${name}\n`;
  }).join("");
}

/** Jobs that leave a trace: one in the folder, one in `failed_jobs`. */
const JOBS = `import { writeFileSync } from "node:fs";
export default {
  greet: (job) => writeFileSync("greeted.txt", job.data.name + " " + job.attempt),
  crash: { tries: 1, handle: () => process.exit(3) },
};
`;

/** What a program needs of its environment on Windows, whatever it is. */
const SYSTEM = ["SystemRoot", "TEMP", "TMP"];

/**
 * Uses the command line that `command` starts, in an empty folder: dispatches, works, also in processes, and looks at
 * what failed. It is short, as it runs on every system that there is a binary for; tests/shipping/ has the rest.
 *
 * @param env What the program needs besides the system's own; nothing for a binary.
 * @throws {Error} Where it does not do what its user expects.
 */
export function tryProgram(
  command: readonly string[],
  version: string,
  env: Record<string, string> = {},
): void {
  const folder = mkdtempSync(join(tmpdir(), "queue-release-"));
  const own = Object.fromEntries(SYSTEM.flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  }));
  const run = (expected: RegExp, ...args: string[]): void => {
    const [program, ...before] = command;
    const ended = spawnSync(program, [...before, ...args], {
      cwd: folder,
      env: { PATH: "", NO_COLOR: "1", ...own, ...env },
      encoding: "utf8",
      timeout: 60_000,
    });
    if (ended.error) throw new Error(`${program}: ${ended.error.message}`);
    const seen = `${ended.stdout}${ended.stderr}`;
    if (ended.status !== 0 || !expected.test(seen)) {
      const how = `status ${ended.status ?? ended.signal}`;
      throw new Error(`${args.join(" ")}: ${how}, expected 0 and ${expected}, and not:\n${seen}`);
    }
  };
  try {
    writeFileSync(join(folder, "jobs.js"), JOBS);
    run(new RegExp(`^${version.replaceAll(".", "\\.")}\\s*$`), "--version");
    run(/^dispatched 1 greet/, "queue:dispatch", "greet", '{"name":"Ada"}');
    run(/greet .* DONE/, "queue:work", "--stop-when-empty");
    run(/^dispatched 2 crash/, "queue:dispatch", "crash");
    run(/crash .* FAIL/, "queue:work", "--processes=1", "--stop-when-empty");
    run(/crashed: exit 3/, "queue:failed");
    run(/"failed":\s*1\b/, "queue:status", "--json");
    const greeted = readFileSync(join(folder, "greeted.txt"), "utf8");
    if (greeted !== "Ada 1") throw new Error(`the job wrote ${JSON.stringify(greeted)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Each file that may name the version, and where it does. */
function places(folder: string): [file: string, place: RegExp][] {
  const docs = readdirSync(join(folder, "docs")).filter((name) => name.endsWith(".md"));
  const documents = ["README.md", ...docs.map((name) => `docs/${name}`)];
  return [...Object.entries(VERSIONED), ...documents.map((file): [string, RegExp] => [file, TARBALL])];
}

function edit(folder: string, file: string, from: string | RegExp, to: string): void {
  const path = join(folder, file);
  writeFileSync(path, readFileSync(path, "utf8").replace(from, to));
}

/** The changelog's sections, in their order. */
function sections(folder: string): Section[] {
  const text = readFileSync(join(folder, "CHANGELOG.md"), "utf8");
  const found = [...text.matchAll(/^## \[([^\]\n]+)\](?: - (.*))?$/gm)];
  return found.map((heading, index) => ({
    version: heading[1],
    date: heading[2] ?? null,
    text: text.slice(heading.index + heading[0].length, found[index + 1]?.index).trim(),
  }));
}

function isDay(text: string): boolean {
  const date = new Date(`${text}T00:00:00Z`);
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(date.getTime()) &&
    date.toISOString().startsWith(text);
}

/** The version of the tree. */
function present(): string {
  return JSON.parse(readFileSync(join(root, "deno.json"), "utf8")).version;
}

/** @returns The exit status. */
function main([command, argument, ...rest]: readonly string[]): number {
  const usage = "expected prepare VERSION, check TAG, notes TAG, try BINARY, or checksums FOLDER";
  if (argument === undefined || rest.length > 0) throw new Error(usage);
  switch (command) {
    case "prepare":
      prepare(argument, new Date().toISOString().slice(0, 10));
      console.log(`the tree is ${argument}: look at it, commit it, and tag it v${argument}`);
      return 0;
    case "check": {
      const found = problems(argument);
      for (const problem of found) console.error(problem);
      if (found.length === 0) console.log(`the tree is ${argument}`);
      return found.length === 0 ? 0 : 1;
    }
    case "notes":
      console.log(notes(argument));
      return 0;
    case "try":
      tryProgram([resolve(argument)], present());
      console.log(`${argument} works`);
      return 0;
    case "checksums":
      writeFileSync(join(argument, "SHA256SUMS"), checksums(argument, present()));
      return 0;
    default:
      throw new Error(usage);
  }
}

if (import.meta.main) {
  try {
    process.exitCode = main(process.argv.slice(2));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 2;
  }
}
