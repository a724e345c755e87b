/**
 * The dashboard: a web page that shows a queue as it is this second, and on which failed jobs are retried or forgotten,
 * jobs cancelled and queues paused. One function from request to response, to mount in any server.
 *
 * @example In an app of its own
 * ```ts ignore
 * import { Queue } from "@x/queue";
 * import { dashboard } from "@x/queue/dashboard";
 *
 * const queue = new Queue({ jobs: {} });
 * Deno.serve({ hostname: "127.0.0.1", port: 9000 }, dashboard(queue));
 * ```
 *
 * @module
 */
export { dashboard, type DashboardHandler } from "./dashboard/handler.ts";
export type { DashboardOptions, DashboardQueue } from "./dashboard/settings.ts";
export { type NodeHandler, toNodeHandler } from "./dashboard/node.ts";
