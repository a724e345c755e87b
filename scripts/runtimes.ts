// Finds Deno, Bun and Node on this machine: for the test runner and the checks, and as a command that
// runs one of them:   deno run -A scripts/runtimes.ts bun build --compile cli.ts
//
// A runtime is looked for in $QUEUE_TEST_DENO, $QUEUE_TEST_BUN or $QUEUE_TEST_NODE (a path; nothing else is
// tried then), in .tools (where `deno task tools` puts them), in node_modules, and on the PATH.

import { spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** The runtimes that the suite runs on. */
export type RuntimeName = "deno" | "bun" | "node";

/** A runtime that was found, and answers. */
export interface Runtime {
  readonly name: RuntimeName;
  readonly path: string;
  readonly version: string;
}

/** The repository's folder. */
export const root: string = fileURLToPath(new URL("..", import.meta.url));

/** Every runtime's name, in the order in which the suite runs on them. */
export const runtimeNames: readonly RuntimeName[] = ["deno", "bun", "node"];

/** The runtime, or the sentence that says why there is none and how to get one. */
export function findRuntime(name: RuntimeName): Runtime | string {
  const variable = `QUEUE_TEST_${name.toUpperCase()}`;
  const named = process.env[variable];
  const refused: string[] = [];
  for (const path of named ? [named] : candidates(name)) {
    const found = probe(name, path);
    if (typeof found !== "string") return found;
    refused.push(`${path} ${found}`);
  }
  const wanted = name === "node" ? "node 22.18 or newer" : name;
  return `${wanted} was not found${refused.map((why) => `; ${why}`).join("")}. ` +
    `\`deno task tools\` installs it into .tools, or name yours in ${variable}.`;
}

function candidates(name: RuntimeName): string[] {
  const file = process.platform === "win32" ? `${name}.exe` : name;
  const folders = [
    join(root, ".tools", "node_modules", ".bin"),
    join(root, "node_modules", ".bin"),
    ...(process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== ""),
  ];
  const paths = folders.map((folder) => join(folder, file)).filter(isExecutable);
  // The Deno that runs this is the one that was asked to: `npx -y deno@2 task test` has no other.
  if (name === "deno" && process.versions.deno) paths.unshift(process.execPath);
  return [...new Set(paths)];
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Asks for the version: npm's `bun` without its install script is a stub that only prints an error. */
function probe(name: RuntimeName, path: string): Runtime | string {
  const answer = spawnSync(path, ["--version"], { encoding: "utf8", timeout: 30_000 });
  const version = /\d+\.\d+\.\d+\S*/.exec(answer.stdout ?? "")?.[0];
  if (answer.status !== 0 || !version) return "does not run";
  const [major, minor] = version.split(".").map(Number);
  // Before 22.18, Node needs a flag to take TypeScript.
  if (name === "node" && (major < 22 || major === 22 && minor < 18)) return `is ${version}`;
  return { name, path, version };
}

if (import.meta.main) {
  const [name, ...args] = process.argv.slice(2);
  if (!runtimeNames.includes(name as RuntimeName)) {
    console.error(`Name one of ${runtimeNames.join(", ")}, then its arguments.`);
    process.exit(2);
  }
  const runtime = findRuntime(name as RuntimeName);
  if (typeof runtime === "string") {
    console.error(runtime);
    process.exit(1);
  }
  process.exit(spawnSync(runtime.path, args, { stdio: "inherit" }).status ?? 1);
}
