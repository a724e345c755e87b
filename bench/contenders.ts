/**
 * Who is measured, on which runtimes, and how many jobs each is given: some seconds' worth. A smaller number favours
 * those that slow down as jobs wait.
 *
 * @module
 */
import { versionOf } from "./peers.ts";
import type { RuntimeName } from "./runtimes.ts";
import type { Variant } from "./subject.ts";

/** A row of the comparison, for each of its runtimes. */
export interface Contender {
  readonly name: string;
  readonly subject: string;
  readonly runtimes: readonly RuntimeName[];
  readonly durability: string;
  readonly jobs: { readonly dispatch: number; readonly bulk: number; readonly process: readonly number[] };
  /** Jobs a `dispatchMany`. */
  readonly lot: number;
  readonly variant?: Variant;
}

/** The concurrencies that processing is measured at. */
export const CONCURRENCIES = [1, 10, 100] as const;

const COMMITTED = "committed, synchronous=NORMAL";

/** In the order of the table. */
export const CONTENDERS: readonly Contender[] = [
  {
    name: "@x/queue",
    subject: "ours",
    runtimes: ["deno", "bun", "node"],
    durability: COMMITTED,
    jobs: { dispatch: 5000, bulk: 100_000, process: [20_000, 40_000, 80_000] },
    lot: 1000,
  },
  {
    name: "@x/queue, prefetch 128",
    subject: "ours",
    runtimes: ["deno", "bun"],
    durability: COMMITTED,
    jobs: { dispatch: 0, bulk: 0, process: [60_000, 60_000, 80_000] },
    lot: 1000,
    variant: { prefetch: 128 },
  },
  {
    name: "@x/queue, synchronous full",
    subject: "ours",
    runtimes: ["deno", "bun"],
    durability: "committed, synchronous=FULL",
    jobs: { dispatch: 2000, bulk: 100_000, process: [5000, 20_000, 60_000] },
    lot: 1000,
    variant: { synchronous: "full" },
  },
  {
    name: `plainjob ${versionOf("plainjob")}`,
    subject: "plainjob",
    runtimes: ["bun", "node"],
    durability: COMMITTED,
    jobs: { dispatch: 5000, bulk: 100_000, process: [20_000, 20_000, 20_000] },
    lot: 1000,
  },
  {
    name: `bunqueue ${versionOf("bunqueue")}, durable`,
    subject: "bunqueue",
    runtimes: ["bun"],
    durability: COMMITTED,
    jobs: { dispatch: 2000, bulk: 5000, process: [2000, 2000, 2000] },
    lot: 1000,
  },
  {
    name: `liteque ${versionOf("liteque")}`,
    subject: "liteque",
    runtimes: ["node"],
    durability: COMMITTED,
    jobs: { dispatch: 1000, bulk: 2000, process: [1000, 1000, 1000] },
    lot: 1000,
  },
  {
    name: `sidequest ${versionOf("sidequest")}`,
    subject: "sidequest",
    runtimes: ["node"],
    durability: "committed, synchronous=FULL",
    jobs: { dispatch: 200, bulk: 500, process: [100, 200, 200] },
    lot: 250,
  },
];
