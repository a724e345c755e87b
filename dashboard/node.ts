/**
 * A handler from request to response, for servers of `node:http`.
 *
 * @module
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import type { DashboardHandler } from "./handler.ts";

/** A listener of `node:http`'s `request` event. */
export type NodeHandler = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Makes a handler one of `node:http`, and so of Express and others that are built on it.
 *
 * @example
 * ```ts ignore
 * import { createServer } from "node:http";
 * import { Queue } from "@x/queue";
 * import { dashboard, toNodeHandler } from "@x/queue/dashboard";
 *
 * const queue = new Queue({ jobs: {} });
 * createServer(toNodeHandler(dashboard(queue))).listen(9000, "127.0.0.1");
 * ```
 */
export function toNodeHandler(handler: DashboardHandler): NodeHandler {
  return (incoming, outgoing) => {
    answer(handler, incoming, outgoing).catch((error) => {
      if (outgoing.headersSent) outgoing.destroy();
      else {
        outgoing.writeHead(error instanceof TypeError ? 400 : 500, { "content-type": "text/plain" });
        outgoing.end(error instanceof TypeError ? "bad request\n" : "the dashboard failed\n");
      }
    });
  };
}

async function answer(
  handler: DashboardHandler,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const response = await handler(toRequest(incoming));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) {
    outgoing.end();
    return;
  }
  // Before the first event: the browser must know that it is connected.
  outgoing.flushHeaders();
  const reader = response.body.getReader();
  outgoing.on("close", () => void reader.cancel().catch(() => {}));
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (!outgoing.write(value)) await drained(outgoing);
  }
  outgoing.end();
}

/** @throws {TypeError} For what is no request, such as one for a host that cannot be. */
function toRequest(incoming: IncomingMessage): Request {
  const { method = "GET", headers, socket } = incoming;
  const encrypted = "encrypted" in socket && socket.encrypted === true;
  const url = `${encrypted ? "https" : "http"}://${headers.host ?? "localhost"}`;
  const given = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !name.startsWith(":")) given.set(name, String(value));
  }
  const plain = method === "GET" || method === "HEAD";
  // Express has what it was mounted under taken off `url`.
  const path = (incoming as { originalUrl?: string }).originalUrl ?? incoming.url ?? "/";
  return new Request(url + path, {
    method,
    headers: given,
    body: plain ? null : Readable.toWeb(incoming) as unknown as BodyInit,
    duplex: "half",
  } as RequestInit);
}

/** Resolves when more can be written, or nothing ever. */
function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      outgoing.off("drain", end);
      outgoing.off("close", end);
      resolve();
    };
    outgoing.on("drain", end);
    outgoing.on("close", end);
  });
}
