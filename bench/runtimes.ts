/**
 * The runtimes to measure on: those on this machine, or those that came with the peers.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { PEERS } from "./peers.ts";

/** A runtime's name. */
export type RuntimeName = "deno" | "bun" | "node";

/** A runtime, and how a script is run with it. */
export interface Runtime {
  readonly name: RuntimeName;
  readonly version: string;
  /** The command, up to the script. */
  readonly command: readonly string[];
}

/** The runtime that this module runs on. */
export const HERE: RuntimeName = "Deno" in globalThis ? "deno" : "Bun" in globalThis ? "bun" : "node";

/** Oldest versions that run this benchmark: TypeScript as it is, and `node:sqlite` in all three. */
const OLDEST = { deno: [2, 9], bun: [1, 4], node: [24, 0] } as const;

/** The first that is new enough of: the one named by BENCH_DENO, BENCH_BUN or BENCH_NODE, this one, the path's, the peers'. */
export function findRuntime(name: RuntimeName): Runtime {
  const named = process.env[`BENCH_${name.toUpperCase()}`];
  const candidates = named ? [named] : [...(name === HERE ? [process.execPath] : []), name, ...bundled(name)];
  for (const path of candidates) {
    const version = spawnSync(path, ["--version"], { encoding: "utf8" }).stdout?.match(/\d+\.\d+\.\d+/)?.[0];
    if (version === undefined) continue;
    const [major, minor] = version.split(".").map(Number);
    const [oldestMajor, oldestMinor] = OLDEST[name];
    if (major < oldestMajor || (major === oldestMajor && minor < oldestMinor)) continue;
    return { name, version, command: name === "deno" ? [path, "run", "-A", "--quiet"] : [path] };
  }
  throw new Error(`no ${name} ${OLDEST[name].join(".")} or newer: looked at ${candidates.join(", ")}`);
}

function bundled(name: RuntimeName): string[] {
  const folder = name === "bun" ? "node_modules/@oven/" : "node_modules/";
  const prefix = name === "bun" ? "bun-" : `node-${process.platform}-${process.arch}`;
  try {
    return readdirSync(new URL(folder, PEERS)).filter((entry) => entry.startsWith(prefix))
      .map((entry) => fileURLToPath(new URL(`${folder}${entry}/bin/${name}`, PEERS)));
  } catch {
    return [];
  }
}
