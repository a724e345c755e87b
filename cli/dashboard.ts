import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { dashboard, toNodeHandler } from "../dashboard.ts";
import { CommandError } from "./command_error.ts";
import type { Context } from "./context.ts";
import { requireDatabase, storeName, withQueue } from "./open_queue.ts";
import { onStopSignals } from "./stop_signals.ts";

/** The options of `queue:dashboard`. */
export interface DashboardOptions {
  readonly database?: string;
  readonly port: number;
  readonly host: string;
  readonly readOnly?: boolean;
  readonly json?: boolean;
}

/** Where it is served unless `--host` and `--port` say otherwise. */
export const DASHBOARD_HOST = "127.0.0.1";
export const DASHBOARD_PORT = 9000;

/** Serves the dashboard until a signal. */
export async function serveDashboard(options: DashboardOptions, { env, output }: Context): Promise<number> {
  const token = env.QUEUE_DASHBOARD_TOKEN || undefined;
  if (token === undefined && !isLoopback(options.host)) {
    const why = "others reach that address, so it needs a QUEUE_DASHBOARD_TOKEN";
    throw new CommandError(2, `--host ${options.host}: ${why}`);
  }
  requireDatabase(options.database, env);
  return await withQueue({ database: options.database, env, jobs: {} }, async (queue) => {
    const handler = dashboard(queue, { basePath: "/", token, readOnly: options.readOnly ?? false });
    const server = createServer(toNodeHandler(handler));
    const stop = Promise.withResolvers<void>();
    const unlisten = onStopSignals(stop.resolve, stop.resolve);
    try {
      const { port } = await listen(server, options);
      const url = `http://${options.host.includes(":") ? `[${options.host}]` : options.host}:${port}/`;
      const store = storeName(options.database, env);
      if (options.json) {
        output.line(
          JSON.stringify({ url, store, readOnly: options.readOnly ?? false, token: token !== undefined }),
        );
      } else {
        const how = [
          ...(options.readOnly ? ["read-only"] : []),
          ...(token === undefined ? [] : ["with a token"]),
        ];
        output.line([`dashboard at ${url}`, store, ...how].join(" · "));
      }
      await stop.promise;
    } finally {
      unlisten();
      await close(server);
    }
    return 0;
  });
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** @throws {CommandError} Where the port cannot be had. */
function listen(server: Server, { host, port }: DashboardOptions): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: Error & { code?: string }) => {
      reject(new CommandError(1, WHY[error.code ?? ""]?.(host, port) ?? `${host}:${port}: ${error.message}`));
    });
    server.listen(port, host, () => resolve(server.address() as AddressInfo));
  });
}

const WHY: Record<string, ((host: string, port: number) => string) | undefined> = {
  EADDRINUSE: (host, port) => `port ${port} of ${host} is in use: choose another one by --port`,
  EACCES: (_, port) =>
    `port ${port} needs rights that this process has not: choose one from 1024 on by --port`,
  EADDRNOTAVAIL: (host) => `--host ${host}: this machine has no such address`,
  ENOTFOUND: (host) => `--host ${host}: there is no host of that name`,
};

/** Ends at once what viewers have open: it lasts as long as they look. */
function close(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}
