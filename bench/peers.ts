/**
 * The queues that ours is measured against: which versions, and their installation into bench/.peers, away from the
 * project's own dependencies.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";

/** Where they are installed. */
export const PEERS = new URL(".peers/", import.meta.url);

const BUN = "1.4.5";
const NODE = "24.21.0";

const PACKAGE = {
  private: true,
  type: "module",
  dependencies: {
    "plainjob": "0.0.14",
    "liteque": "0.8.0",
    "bunqueue": "2.9.5",
    "sidequest": "1.16.4",
    "@sidequest/sqlite-backend": "1.16.5",
    "bullmq": "6.7.0",
    "bull": "4.16.5",
    "bee-queue": "2.0.0",
    "better-sqlite3": "13.2.0", // brings its binary with it, so nothing is compiled
  },
  // The runtimes, for a machine that has none, or too old ones.
  optionalDependencies: {
    "bun": BUN,
    [`node-${process.platform}-${process.arch}`]: NODE,
  },
  overrides: {
    "better-sqlite3": "$better-sqlite3",
    "@sidequest/core": "1.16.4",
    "@sidequest/backend": "1.16.4",
  },
};

/** The versions of what peers depend on, where those that they ask for cannot be had. */
export const OVERRIDES: Readonly<Record<string, string>> = {
  ...PACKAGE.overrides,
  "better-sqlite3": PACKAGE.dependencies["better-sqlite3"],
};

/** The version of a peer, as it is pinned. */
export function versionOf(name: keyof typeof PACKAGE.dependencies): string {
  return PACKAGE.dependencies[name];
}

/** Installs them unless they already are, in these versions. */
export function install(): void {
  const manifest = JSON.stringify(PACKAGE, null, 2) + "\n";
  const file = new URL("package.json", PEERS);
  const stamp = new URL("installed", PEERS);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === manifest) return;
  console.error("installing the peers into bench/.peers (once, a minute or two)");
  mkdirSync(PEERS, { recursive: true });
  writeFileSync(file, manifest);
  // Install scripts would only fetch or compile binaries that the packages bring along.
  const npm = spawnSync(
    "npm",
    ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"],
    {
      cwd: PEERS,
      stdio: ["ignore", "ignore", "inherit"],
      shell: process.platform === "win32",
    },
  );
  if (npm.status !== 0) throw new Error(`npm install in bench/.peers failed: ${npm.error ?? npm.status}`);
  writeFileSync(stamp, manifest);
}

/** A module of a peer, untyped: the project's type check must not need them installed. */
// deno-lint-ignore no-explicit-any -- as said
export function peer(path: string): Promise<any> {
  return import(new URL(`node_modules/${path}`, PEERS).href);
}

/** A CommonJS package of a peer's, as `peer`. */
// deno-lint-ignore no-explicit-any -- as above
export function requirePeer(name: string): any {
  return createRequire(new URL("package.json", PEERS))(name);
}
