/**
 * `deno task torture`: the long form, on a mix of runtimes.
 *
 * Its exit status is 1 where a rule was broken, and 2 for a usage that cannot work.
 *
 * @module
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { findRuntime, type RuntimeName, runtimeNames } from "../../scripts/runtimes.ts";
import { noRedis } from "../redis_server.ts";
import type { Executable } from "./fleet.ts";
import { complaint, summary, TABLE_HEAD, tableRow } from "./report.ts";
import { newSeed, torture } from "./torture.ts";

const USAGE = `Usage: deno task torture [options]

  --minutes N     how long the nemesis strikes, for each driver (1)
  --driver NAMES  sqlite, redis (both)
  --seed N        of an earlier run, to make the same strikes in the same order
  --on NAMES      runtimes, which producers and workers take in turn: deno, bun, node (all that are here)
  --workers N     processes that work (4)
  --producers N   processes that dispatch (2)
  --lease N       seconds that a lease lasts (4)
  --gap N         seconds between two strikes, on average (1.5)
  --failed PLACE  with Redis, where failed jobs are kept: redis or database (redis)`;

/** A usage that cannot work. */
class UsageError extends Error {}

function listed<Name extends string>(option: string, text: string | undefined, all: readonly Name[]): Name[] {
  const names = (text?.split(",") ?? all) as Name[];
  const unknown = names.find((name) => !all.includes(name));
  if (unknown !== undefined) throw new UsageError(`${option}: "${unknown}" is none of ${all.join(", ")}`);
  return names;
}

function above0(option: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new UsageError(`${option}: "${text}" is not a number above 0`);
  return value;
}

function whole(option: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new UsageError(`${option}: "${text}" is not a whole number`);
  }
  return value;
}

function executables(names: string | undefined): Executable[] {
  const found = listed("--on", names, runtimeNames).map((name: RuntimeName) => findRuntime(name));
  const missing = found.find((one) => typeof one === "string");
  if (names !== undefined && missing !== undefined) throw new UsageError(missing as string);
  for (const why of found) if (typeof why === "string") console.log(`left out: ${why}`);
  return found.filter((one) => typeof one !== "string");
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      minutes: { type: "string", default: "1" },
      driver: { type: "string" },
      seed: { type: "string" },
      on: { type: "string" },
      workers: { type: "string", default: "4" },
      producers: { type: "string", default: "2" },
      lease: { type: "string", default: "4" },
      gap: { type: "string", default: "1.5" },
      failed: { type: "string", default: "redis" },
      help: { type: "boolean", short: "h", default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  const drivers = listed("--driver", values.driver, ["sqlite", "redis"]);
  const shared = {
    seed: values.seed === undefined ? newSeed() : whole("--seed", values.seed),
    lasts: above0("--minutes", values.minutes) * 60_000,
    lease: above0("--lease", values.lease) * 1000,
    gap: above0("--gap", values.gap) * 1000,
    workers: Math.max(1, whole("--workers", values.workers)),
    producers: Math.max(1, whole("--producers", values.producers)),
    failed: listed("--failed", values.failed, ["redis", "database"])[0],
    runtimes: executables(values.on),
    pace: 100,
    quietEvery: 60_000,
  };
  if (drivers.includes("redis") && noRedis) throw new UsageError(noRedis);
  // The strikes end early, and what was seen until then is checked; a second time, all is left as it is.
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());
  const rows: string[] = [];
  let broken = false;
  for (const driver of drivers) {
    if (interrupted.signal.aborted) break;
    const options = { driver, ...shared };
    console.log(`\ntorture of ${driver}, seed ${shared.seed}, on ${shared.runtimes.map(({ name }) => name)}`);
    const result = await torture({
      ...options,
      signal: interrupted.signal,
      tell: (line) => console.log(`  ${line}`),
    });
    console.log(`\n${summary(options, result)}`);
    if (result.findings.breaches.length > 0) {
      broken = true;
      console.log(`\n${complaint(result.findings)}\nall logs: ${result.folder}`);
    }
    rows.push(tableRow(options, result));
  }
  console.log(`\n${TABLE_HEAD}\n${rows.join("\n")}`);
  return broken ? 1 : 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  const isUsage = error instanceof UsageError ||
    (error as { code?: string }).code?.startsWith("ERR_PARSE_ARGS");
  console.error(isUsage ? (error as Error).message : error);
  process.exitCode = isUsage ? 2 : 1;
}
