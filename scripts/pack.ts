// The npm package:   deno task pack   writes dist/x-queue-<version>.tgz.
// (--output FOLDER for another folder; --allow-dirty with changes that are not committed)
//
// `deno pack` makes the JavaScript and its types. What it leaves out of the package's own package.json stands in the one
// here and is taken from there: the command, what the package is, which runtimes it needs, and which of its
// dependencies are optional. A tarball that could not work is not written.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { findRuntime, root } from "./runtimes.ts";

/** What of a package.json matters here. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly bin?: Record<string, string>;
  readonly exports?: Record<string, Record<string, string>>;
  readonly dependencies?: Record<string, string>;
  readonly peerDependencies?: Record<string, string>;
  readonly [field: string]: unknown;
}

/** Fields that the package has from the package.json of the repository, which `deno pack` does not read. */
const TAKEN = [
  "description",
  "keywords",
  "engines",
  "dependencies",
  "peerDependencies",
  "peerDependenciesMeta",
];

/**
 * The package.json of the package.
 *
 * @param packed The one that `deno pack` made.
 * @param own The repository's.
 * @throws {Error} Where the two contradict each other.
 */
export function manifest(packed: Manifest, own: Manifest): Manifest {
  for (const field of ["name", "version", "license"]) {
    if (packed[field] === own[field]) continue;
    throw new Error(`${field}: deno.json has ${packed[field]}, and package.json ${own[field]}`);
  }
  const known = { ...own.dependencies, ...own.peerDependencies };
  const unknown = Object.keys(packed.dependencies ?? {}).filter((name) => !(name in known));
  if (unknown.length > 0) {
    throw new Error(`imported, but no dependency in package.json: ${unknown.join(", ")}`);
  }
  const taken = TAKEN.filter((field) => field in own).map((field) => [field, own[field]]);
  const bin = Object.entries(own.bin ?? {}).map(([name, path]) => [name, path.replace(/\.ts$/, ".js")]);
  return { ...packed, ...Object.fromEntries(taken), bin: Object.fromEntries(bin) };
}

/**
 * What would fail in a project that has installed the package: a file that its package.json names and that is not there,
 * or types that lead to a module without types, of which `deno pack` only warns.
 *
 * @param folder The unpacked package.
 */
export function faults(folder: string): string[] {
  const { exports = {}, bin = {} } = readManifest(folder);
  const named = [
    ...Object.values(exports).flatMap((targets) => Object.values(targets)),
    ...Object.values(bin),
  ];
  const found = [...new Set(named)].filter((path) => !existsSync(join(folder, path)))
    .map((path) => `package.json names ${path}, which is not there`);
  for (const file of filesOf(folder).filter((path) => path.endsWith(".d.ts"))) {
    // In comments, examples import the package by its name.
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, target] of text.matchAll(/(?:\bfrom |\bimport\()"(\.{1,2}\/[^"]+)\.js"/g)) {
      const types = join(dirname(file), `${target}.d.ts`);
      if (!existsSync(join(folder, types))) found.push(`${file} needs the types of ${types}, which has none`);
    }
  }
  return found;
}

/**
 * Makes the tarball and returns its path.
 *
 * @param into The folder that it is written to.
 * @param allowDirty Also where git knows of changes that are not committed.
 */
export function pack(into: string, allowDirty = false): string {
  const deno = findRuntime("deno");
  if (typeof deno === "string") throw new Error(deno);
  const work = mkdtempSync(join(tmpdir(), "queue-pack-"));
  try {
    // With source maps, which would be within the files, it is more than three times the size.
    const args = ["pack", "--no-source-maps", ...(allowDirty ? ["--allow-dirty"] : [])];
    must(deno.path, [...args, "--output", join(work, "deno.tgz")], root);
    must("tar", ["-xzf", "deno.tgz"], work);
    const folder = join(work, "package");
    const made = manifest(readManifest(folder), readManifest(root));
    writeFileSync(join(folder, "package.json"), JSON.stringify(made, null, 2) + "\n");
    for (const path of Object.values(made.bin ?? {})) makeCommand(join(folder, path));
    const wrong = faults(folder);
    if (wrong.length > 0) throw new Error(wrong.join("\n"));

    must("npm", ["pack", "--ignore-scripts", "--loglevel=error"], folder);
    const name = `${made.name.replace("@", "").replace("/", "-")}-${made.version}.tgz`;
    mkdirSync(into, { recursive: true });
    copyFileSync(join(folder, name), join(into, name));
    return join(into, name);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

/** Every file in a folder, by its path from there. */
function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).map((path) => path.replaceAll("\\", "/"));
}

/** npm and Bun make a link to it, which a shell starts. */
function makeCommand(file: string): void {
  writeFileSync(file, `#!/usr/bin/env node\n${readFileSync(file, "utf8")}`);
  chmodSync(file, 0o755);
}

/** Runs a program, and throws what it printed unless it ends with status 0. */
function must(program: string, args: readonly string[], cwd: string): void {
  const shell = process.platform === "win32" && program === "npm";
  const { status, error, stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8", shell });
  if (status === 0) return;
  const why = error?.message ?? `status ${status}\n${stdout}${stderr}`;
  throw new Error(`${program} ${args.join(" ")}: ${why}`);
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { output: { type: "string", default: "dist" }, "allow-dirty": { type: "boolean" } },
  });
  console.log(pack(values.output, values["allow-dirty"]));
}
