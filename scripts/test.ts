// Runs the suite, tests/**/*.test.ts, on one or more runtimes:
//
//   deno task test                        on Deno, which is all that a bare machine has
//   deno task test deno bun node          on all three (or: all)
//   deno task test bun -- cli worker      only the files whose path contains "cli" or "worker"
//
// Several runtimes go side by side, since their tests wait more than they work; what each printed is shown when it has
// ended. Each run ends with a line of its own; the last line is the sum, `N passed, N failed, N skipped`, counted from
// the JUnit report that each runtime writes. A run that crashes, hangs, leaves no report, or does not report
// one of its files has failed.
//
// Environment
//   QUEUE_TEST_DENO, QUEUE_TEST_BUN, QUEUE_TEST_NODE   the executables to use (see runtimes.ts)
//   QUEUE_TEST_REDIS_SERVER                            the program of a Redis or Valkey server, for the tests with one
//   QUEUE_TEST_LIMIT                                   seconds for one runtime's run; 1800 by default
// What a test finds in its environment
//   TEST_DENO, TEST_BUN, TEST_NODE   the executable of each runtime that this machine has, whether the suite was
//                                    asked to run on it or not; unset where there is none
//   the queue's own settings (QUEUE_…, DB_DATABASE, APP_ENV) are taken out, so that yours change no test

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import process from "node:process";
import { type CommandOptions, type Ending, run } from "./command.ts";
import { closingLine, emptyReport, fail, readReport, type Report, silence, sum } from "./junit.ts";
import { findRuntime, root, type RuntimeName, runtimeNames } from "./runtimes.ts";
import type { Note } from "./witness.ts";

/** What a run is told besides its files: where to leave its report and, for Deno, what the report leaves out. */
interface Outlets {
  readonly xml: string;
  readonly witness: string;
}

const commands: Record<RuntimeName, (files: string[], outlets: Outlets) => string[]> = {
  deno: (files, { xml }) => [
    ...["test", "--allow-all", "--no-check", `--preload=${join(root, "scripts", "witness.ts")}`],
    ...[`--junit-path=${xml}`, ...files],
  ],
  bun: (files, { xml }) => [
    ...["test", "--timeout=300000", "--reporter=junit", `--reporter-outfile=${xml}`],
    ...files.map((file) => `./${file}`),
  ],
  node: (files, { xml }) => [
    // Two files at a time, since each is a process that must start first, and mostly waits.
    ...["--test", "--test-concurrency=2", "--test-reporter=spec", "--test-reporter-destination=stdout"],
    ...["--test-reporter=junit", `--test-reporter-destination=${xml}`, ...files],
  ],
};

/** What this machine has; a sentence where it has none. */
const runtimes = new Map(runtimeNames.map((name) => [name, findRuntime(name)]));

/** The suite's files that match one of the filters, as paths from the root. */
function suite(filters: readonly string[]): string[] {
  return readdirSync(join(root, "tests"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts"))
    .map((file) => join("tests", file))
    .filter((file) =>
      filters.length === 0 || filters.some((part) => file.includes(part.replace(/^\.\//, "")))
    )
    .sort();
}

/** The environment of a run: yours, with what the head comment of this file says. */
function environment(outlets: Outlets): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = { ...process.env, TEST_WITNESS: outlets.witness };
  for (const key of Object.keys(env)) {
    if (/^(QUEUE_(?!TEST_)|DB_DATABASE$|APP_ENV$)/.test(key)) delete env[key];
  }
  for (const [name, runtime] of runtimes) {
    const key = `TEST_${name.toUpperCase()}`;
    if (typeof runtime === "string") delete env[key];
    else env[key] = runtime.path;
  }
  if (!process.stdout.isTTY) env.NO_COLOR = "1";
  return env;
}

/** Runs the files on one runtime and reads what it reported. */
async function runOn(
  name: RuntimeName,
  files: string[],
  options: Pick<CommandOptions, "seconds" | "output">,
): Promise<Report> {
  const runtime = runtimes.get(name)!;
  if (typeof runtime === "string") {
    const report = emptyReport();
    fail(report, runtime);
    return report;
  }
  const folder = mkdtempSync(join(tmpdir(), `queue-test-${name}-`));
  const outlets = { xml: join(folder, "junit.xml"), witness: join(folder, "witness") };
  try {
    const env = environment(outlets);
    const ending = await run(runtime.path, commands[name](files, outlets), { ...options, env });
    process.stdout.write(ending.output);
    return conclude(name, files, outlets, ending);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Reads the report, and fails a run that ended badly although no test of its report did. */
function conclude(name: RuntimeName, files: string[], outlets: Outlets, ending: Ending): Report {
  const report = readReport(textOf(outlets.xml), files, root);
  if (ending.status === null || textOf(outlets.xml) === "") {
    // It could not report all of its files; that it was killed, or went away, is one failure and not one for each.
    fail(report, ending.why ?? "it ended early, without a report");
    return report;
  }
  const notes: Note[] = textOf(outlets.witness).split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const seen = name === "bun" ? report.files : new Set(notes.map(({ file }) => relative(root, file)));
  // Node runs each file in a process of its own, and reports one that is silent itself.
  for (const file of name === "node" ? [] : files.filter((file) => !seen.has(file))) {
    fail(report, silence(file));
  }
  if (ending.status !== 0) {
    // A test that failed explains it.
    if (report.failed === 0) fail(report, ending.why ?? "");
    return report;
  }
  for (const { file, thrown } of notes) {
    if (thrown) fail(report, `${relative(root, file)}: thrown outside of a test: ${thrown}`);
  }
  return report;
}

function textOf(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

/** `deno bun -- cli` as the runtimes and the file filters. */
function parse(args: readonly string[]): [names: RuntimeName[], filters: string[]] {
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  const names = args.slice(0, end).flatMap((name) => name === "all" ? runtimeNames : [name as RuntimeName]);
  const unknown = names.find((name) => !runtimeNames.includes(name));
  if (unknown) {
    throw new Error(`"${unknown}" is no runtime: ${runtimeNames.join(", ")} or all; files go after "--"`);
  }
  return [names.length > 0 ? [...new Set(names)] : ["deno"], args.slice(end + 1)];
}

async function main(args: readonly string[]): Promise<Report[]> {
  const [names, filters] = parse(args);
  const files = suite(filters);
  if (files.length === 0) throw new Error(`no file in tests/ matches ${filters.join(", ") || "*.test.ts"}`);
  const seconds = Number(process.env.QUEUE_TEST_LIMIT || 1800);
  if (!(seconds > 0)) {
    throw new Error(`QUEUE_TEST_LIMIT is "${process.env.QUEUE_TEST_LIMIT}", not a number of seconds`);
  }

  const output = names.length > 1 ? "keep" : "show";
  const lines: string[] = [];
  const reports = await Promise.all(names.map(async (name) => {
    const runtime = runtimes.get(name)!, started = Date.now();
    const title = typeof runtime === "string" ? `${name}, missing` : `${name} ${runtime.version}`;
    console.log(`\n== the suite on ${title}, ${files.length} files\n`);
    const report = await runOn(name, files, { seconds, output });
    for (const failure of report.failures) console.log(`\nFAILED on ${title}: ${failure}`);
    lines.push(`${title}: ${closingLine(report)} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
    console.log(`\n${lines.at(-1)}`);
    return report;
  }));
  if (lines.length > 1) console.log(`\n${lines.join("\n")}`);
  return reports;
}

try {
  const total = sum(await main(process.argv.slice(2)));
  console.log(closingLine(total));
  process.exitCode = total.failed > 0 ? 1 : 0;
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  console.log(closingLine({ passed: 0, failed: 1, skipped: 0 }));
  process.exitCode = 2;
}
