// Builds the command line for every target, by Deno and by Bun, or only some of that:
//   deno task compile:targets   or   deno task compile:targets bun linux-arm64 windows-x64
// into dist/deno and dist/bun, each with the checksums of what it was asked for in SHA256SUMS. Deno fetches its base
// binaries from its own site, and Bun from npm.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import process from "node:process";
import { run } from "./command.ts";
import { kindOfFile } from "./executable.ts";
import { findRuntime, root } from "./runtimes.ts";

/** Who makes binaries. */
export const compilers = ["deno", "bun"] as const;
export type Compiler = typeof compilers[number];

/** One kind of machine. */
export interface Target {
  readonly name: string;
  /** What each compiler calls it. */
  readonly deno: string;
  readonly bun: string;
  /** What {@linkcode kindOfFile} says of its executables. */
  readonly kind: string;
}

/** Every target. */
export const targets: readonly Target[] = [
  { name: "linux-x64", deno: "x86_64-unknown-linux-gnu", bun: "bun-linux-x64", kind: "ELF x64" },
  { name: "linux-arm64", deno: "aarch64-unknown-linux-gnu", bun: "bun-linux-arm64", kind: "ELF arm64" },
  { name: "macos-x64", deno: "x86_64-apple-darwin", bun: "bun-darwin-x64", kind: "Mach-O x64" },
  { name: "macos-arm64", deno: "aarch64-apple-darwin", bun: "bun-darwin-arm64", kind: "Mach-O arm64" },
  { name: "windows-x64", deno: "x86_64-pc-windows-msvc", bun: "bun-windows-x64", kind: "PE x64" },
];

/** What its binary is called. */
export function fileOf(target: Target): string {
  return `queue-${target.name}${target.kind.startsWith("PE") ? ".exe" : ""}`;
}

/** The arguments by which a compiler makes `file`: those of its task, for a target. */
export function compileArguments(compiler: Compiler, file: string, target?: Target): string[] {
  const { tasks } = JSON.parse(readFileSync(join(root, "deno.json"), "utf8"));
  const [task, output] = compiler === "deno" ? ["compile", "--output"] : ["compile:bun", "--outfile"];
  const words: string[] = tasks[task].split(" ");
  const args = words.slice(words.indexOf(compiler) + 1);
  const at = args.indexOf(output);
  if (at < 0) throw new Error(`the task ${task} has no ${output}`);
  args[at + 1] = file;
  return target === undefined ? args : [args[0], `--target=${target[compiler]}`, ...args.slice(1)];
}

/** Builds one, and looks whether it is what was asked for. */
async function compile(compiler: Compiler, target: Target): Promise<string> {
  const runtime = findRuntime(compiler);
  if (typeof runtime === "string") throw new Error(runtime);
  const file = join(root, "dist", compiler, fileOf(target));
  const { why, output } = await run(runtime.path, compileArguments(compiler, file, target), {
    seconds: 900,
    output: "keep",
  });
  if (why !== undefined) throw new Error(`${compiler}, ${target.name}: ${why}\n${output}`);
  const kind = kindOfFile(file);
  if (kind !== target.kind) throw new Error(`${file} is ${kind ?? "no executable"}, and not ${target.kind}`);
  return file;
}

/** What was asked for: compilers and targets, each all of them where none is named. */
export function readWanted(words: readonly string[]): { by: readonly Compiler[]; for: readonly Target[] } {
  const names: string[] = [...compilers, ...targets.map(({ name }) => name)];
  const unknown = words.find((word) => !names.includes(word));
  if (unknown !== undefined) throw new Error(`"${unknown}" is no compiler or target: ${names.join(", ")}`);
  const by = compilers.filter((compiler) => words.includes(compiler));
  const chosen = targets.filter(({ name }) => words.includes(name));
  return { by: by.length > 0 ? by : compilers, for: chosen.length > 0 ? chosen : targets };
}

/** Returns how many could not be built. */
async function main(words: readonly string[]): Promise<number> {
  const wanted = readWanted(words);
  let failed = 0;
  for (const compiler of wanted.by) {
    const sums: string[] = [];
    mkdirSync(join(root, "dist", compiler), { recursive: true });
    for (const target of wanted.for) {
      try {
        const file = await compile(compiler, target);
        const sum = createHash("sha256").update(readFileSync(file)).digest("hex");
        sums.push(`${sum}  ${basename(file)}\n`);
        console.log(`${sum}  ${join("dist", compiler, basename(file))}`);
      } catch (error) {
        failed++;
        console.error((error as Error).message);
      }
    }
    writeFileSync(join(root, "dist", compiler, "SHA256SUMS"), sums.join(""));
  }
  return failed;
}

if (import.meta.main) {
  try {
    process.exitCode = await main(process.argv.slice(2)) > 0 ? 1 : 0;
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 2;
  }
}
