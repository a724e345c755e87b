/**
 * The dashboard: a web page that shows a queue as it is this second, and on which failed jobs are retried or forgotten,
 * jobs cancelled and queues paused. One function from request to response, to mount in any server.
 *
 * @example
 * ```ts
 * import { Queue } from "@x/queue";
 * import { dashboard } from "@x/queue/dashboard";
 * import assert from "node:assert/strict";
 *
 * const queue = new Queue({ database: ":memory:", jobs: {} });
 * const handler = dashboard(queue); // Deno.serve({ hostname: "127.0.0.1", port: 9000 }, handler)
 *
 * const page = await handler(new Request("http://127.0.0.1:9000/"));
 * assert.match(await page.text(), /<title>Queue<\/title>/);
 * await queue.close();
 * ```
 *
 * @module
 */
export { dashboard, type DashboardHandler } from "./dashboard/handler.ts";
export type { DashboardOptions, DashboardQueue } from "./dashboard/settings.ts";
export { type NodeHandler, toNodeHandler } from "./dashboard/node.ts";
