import { Buffer } from "node:buffer";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Address } from "./address.ts";
import { CommandError } from "./command_error.ts";

/** What listens. */
export interface Serving {
  /** Where, with the port that it got. */
  readonly url: string;
  /** Ends it, and the connections that are open. */
  close(): Promise<void>;
}

/**
 * Serves a handler of requests without bodies.
 *
 * @param option What asked for it, for the error.
 * @throws {CommandError} 1 where it cannot listen there.
 */
export async function serve(
  { host, port }: Address,
  handler: (request: Request) => Promise<Response>,
  option: string,
): Promise<Serving> {
  const server = createServer((request, response) => {
    respond(request, response, handler).catch((error) => response.destroy(error));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => {
      reject(new CommandError(1, `${option}: cannot listen on ${urlOf(host, port)}: ${error.message}`));
    });
    server.listen(port, host, resolve);
  });
  return {
    url: urlOf(host, (server.address() as AddressInfo).port),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function respond(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  handler: (request: Request) => Promise<Response>,
): Promise<void> {
  // The host is for a URL that can be parsed; a path may be anything.
  const path = /^\/[^/\\]/.test(incoming.url ?? "") ? incoming.url! : "/";
  const request = new Request(new URL(path, "http://queue.invalid"), {
    method: incoming.method,
    headers: { accept: incoming.headers.accept ?? "*/*" },
  });
  const response = await handler(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.end(Buffer.from(await response.arrayBuffer()));
}

function urlOf(host: string, port: number): string {
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
