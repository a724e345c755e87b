/**
 * The short form of the torture, on the runtime that runs this: see `torture/README.md`.
 *
 * TORTURE_SEED makes the strikes of an earlier run again.
 */
import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { noRedis } from "./redis_server.ts";
import type { Executable } from "./torture/fleet.ts";
import { complaint, summary } from "./torture/report.ts";
import { newSeed, torture } from "./torture/torture.ts";

const { deno, bun } = process.versions;
const here: Executable = { name: deno ? "deno" : bun ? "bun" : "node", path: process.execPath };

for (const driver of ["sqlite", "redis"] as const) {
  test(
    `${driver} keeps every promise while processes are killed, stopped and cut off`,
    { skip: driver === "redis" && noRedis, timeout: 300_000 },
    async () => {
      const seed = Number(process.env.TORTURE_SEED || newSeed());
      const options = {
        driver,
        seed,
        lasts: 8000,
        lease: 1500,
        runtimes: [here],
        workers: 3,
        producers: 1,
        gap: 600,
        pace: 50,
        failed: seed % 2 === 0 ? "redis" as const : "database" as const,
        quietEvery: Infinity,
      };
      const result = await torture(options);
      console.log(summary(options, result));
      const { breaches, jobs } = result.findings;
      assert.equal(
        breaches.length,
        0,
        `seed ${seed}, logs in ${result.folder}\n${complaint(result.findings)}`,
      );
      assert.equal(jobs.lost, 0);
      // A fleet that did nothing would have broken no rule.
      assert.ok(jobs.completed > 0 && jobs.failed > 0, summary(options, result));
    },
  );
}
