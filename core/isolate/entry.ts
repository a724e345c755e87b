/**
 * The program that runs in each process of a worker with `processes`, unless the app names one of its own. Nobody
 * imports it.
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
