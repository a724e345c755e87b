/**
 * The program that runs in each process of a worker with `processes`, unless the app names one of its own. Nobody
 * imports it: the worker starts it, and it imports the jobs module.
 *
 * @example
 * ```ts
 * import { Queue } from "@x/queue";
 * import assert from "node:assert/strict";
 *
 * const module = "data:text/javascript,export default { mail: () => {} };"; // in an app: "./jobs.ts"
 * const queue = new Queue({ database: ":memory:", jobs: { mail: {} } });
 * await queue.dispatch("mail", null);
 * await queue.work({ processes: { count: 1, module }, stopWhenEmpty: true });
 * assert.equal(await queue.waiting(), 0);
 * await queue.close();
 * ```
 *
 * @module
 */
import process from "node:process";
import { describe } from "../describe.ts";
import { serveJobs } from "./serve.ts";

serveJobs().catch((error) => {
  console.error(describe(error));
  process.exit(2);
});
