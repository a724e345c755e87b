import type { Queue } from "../mod.ts";

/** What is asked of a queue that is measured. */
export type MeasuredQueue = Pick<
  Queue,
  "on" | "measure" | "trace" | "names" | "counts" | "paused" | "workers"
>;
