// All that CI checks:   deno task ok   or only some of it:   deno task ok fmt lint
//
// Every check runs, whatever became of those before it; one that fails shows what it printed. The last line counts
// the suite's tests and the other checks together: `N passed, N failed, N skipped`.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { run } from "./command.ts";
import { closingLine, sum, type Tally } from "./junit.ts";
import { findRuntime, root } from "./runtimes.ts";

const deno = process.execPath;
const plain = { NO_COLOR: "1" };

/** Runs Deno, and throws what it printed unless it ends with status 0. */
async function must(args: string[], seconds = 300): Promise<void> {
  const ending = await run(deno, args, { env: { ...process.env, ...plain }, seconds, output: "keep" });
  if (ending.why) throw new Error(`deno ${args.join(" ")}: ${ending.why}\n${ending.output}`);
}

function config(): { exports: Record<string, string> } {
  return JSON.parse(readFileSync(join(root, "deno.json"), "utf8"));
}

/** `deno task` mends a deno.lock that has fallen behind before this is asked, so that is looked for in git. */
async function lock(): Promise<void> {
  await must(["install", "--frozen"]);
  const files = ["deno.lock", "package.json", "deno.json"];
  const git = spawnSync("git", ["diff", "--name-only", "HEAD", "--", ...files], {
    cwd: root,
    encoding: "utf8",
  });
  if (git.status === 0 && git.stdout.trim() === "deno.lock") {
    throw new Error("the committed deno.lock is not that of package.json; it is mended now, so commit it");
  }
}

/** Tests that are no part of the suite, because they try what is shipped and not the runtime that runs them. */
async function program(...path: string[]): Promise<Tally> {
  const node = findRuntime("node");
  if (typeof node === "string") throw new Error(node);
  const { output, why } = await run(node.path, ["--test", join("tests", ...path)], {
    env: { ...process.env, ...plain, QUEUE_TEST_DENO: deno },
    seconds: 900,
    output: "both",
  });
  const count = (what: string): number =>
    Number(new RegExp(`^ℹ ${what} (\\d+)$`, "m").exec(output)?.[1] ?? 0);
  const failed = Math.max(count("fail") + count("cancelled"), why ? 1 : 0);
  return { passed: count("pass"), failed, skipped: count("skipped") };
}

const documented = [
  "README.md",
  "docs/from-bullmq.md",
  "docs/from-laravel.md",
  "docs/from-deno-kv.md",
  "docs/from-sidekiq.md",
  "mod.ts",
  "cli.ts",
  "metrics.ts",
  "logs.ts",
  "dashboard.ts",
  "core",
  "cli",
  "dashboard",
  "drivers",
  "metrics",
];

const checks: Record<string, () => Promise<Tally | void>> = {
  lock,
  fmt: () => must(["fmt", "--check"]),
  lint: () => must(["lint"]),
  check: () => must(["check", "."]),
  doc: () => must(["doc", "--lint", ...Object.values(config().exports)]),
  "doc-examples": () => must(["test", "--doc", "--allow-all", ...documented]),
  // Publishes it, to a stand-in, with all that a dry run looks at.
  jsr: () => program("shipping", "jsr.ts"),
  // What an app may bring from there, where it can be reached.
  packages: () => program("shipping", "packages.ts"),
  compile: () => program("shipping", "compile.ts"),
  binary: () => program("shipping", "binary.ts"),
  // Where Docker runs; elsewhere it is skipped.
  container: () => program("shipping", "container.ts"),
  bundle: () => program("shipping", "bundle.ts"),
  npm: () => program("shipping", "npm.ts"),
  // By Node, whose `child_process` Playwright is made for. Where there is no Chromium, its tests are skipped.
  browser: () => program("browser", "dashboard.ts"),
  recipes: () => program("shipping", "recipes.ts"),
  tutorial: () => program("shipping", "tutorial.ts"),
  demo: () => must(["task", "demo"], 60),
};

/** The suite, by the very command that the README gives. */
async function suite(): Promise<Tally> {
  const env = { ...process.env, ...plain };
  const args = ["task", "test", "deno", "bun", "node"];
  const { output, why } = await run(deno, args, { env, seconds: 2400, output: "both" });
  const line = [...output.matchAll(/^(\d+) passed, (\d+) failed, (\d+) skipped$/gm)].at(-1);
  const [passed, failed, skipped] = line?.slice(1).map(Number) ?? [0, 0, 0];
  return { passed, failed: why ? Math.max(failed, 1) : failed, skipped };
}

async function main(wanted: readonly string[]): Promise<Tally> {
  const names = [...Object.keys(checks), "suite"];
  const unknown = wanted.find((name) => !names.includes(name));
  if (unknown) throw new Error(`"${unknown}" is no check: ${names.join(", ")}`);

  const tallies: Tally[] = [], lines: string[] = [];
  for (const name of names.filter((one) => wanted.length === 0 || wanted.includes(one))) {
    console.log(`\n== ${name}`);
    const started = Date.now();
    const tally = name === "suite" ? await suite() : await one(name);
    const seconds = ((Date.now() - started) / 1000).toFixed(1).padStart(6);
    lines.push(`${tally.failed > 0 ? "FAILED" : "ok    "} ${name.padEnd(13)}${seconds} s`);
    tallies.push(tally);
  }
  console.log(`\n${lines.join("\n")}\n`);
  return sum(tallies);
}

async function one(name: string): Promise<Tally> {
  try {
    const tally = await checks[name]();
    if (tally) return tally;
    console.log("ok");
    return { passed: 1, failed: 0, skipped: 0 };
  } catch (error) {
    console.log(error instanceof Error ? error.message : error);
    console.log(`FAILED: ${name}`);
    return { passed: 0, failed: 1, skipped: 0 };
  }
}

try {
  const total = await main(process.argv.slice(2));
  console.log(closingLine(total));
  process.exitCode = total.failed > 0 ? 1 : 0;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  console.log(closingLine({ passed: 0, failed: 1, skipped: 0 }));
  process.exitCode = 2;
}
