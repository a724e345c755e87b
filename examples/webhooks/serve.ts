/**
 * Serves a `(Request) => Promise<Response>` with whatever the runtime has for that.
 *
 * @module
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A server that is listening. */
export interface Server {
  /** Its address, without a slash at the end. */
  readonly url: string;
  /** Lets the requests under way finish, and stops. */
  close(): Promise<void>;
}

type Handler = (request: Request) => Promise<Response>;

/** What is used of Bun here: its own types would be one more dependency. */
interface Bun {
  serve(options: { port: number; hostname: string; fetch: Handler }): {
    readonly port: number;
    stop(): Promise<void>;
  };
}

const hostname = "127.0.0.1";

/** Listens on the port; 0 picks one that is free. */
export async function serve(handler: Handler, port: number): Promise<Server> {
  if ("Deno" in globalThis) {
    const server = Deno.serve({ port, hostname, onListen: () => {} }, handler);
    return { url: `http://${hostname}:${server.addr.port}`, close: () => server.shutdown() };
  }
  if ("Bun" in globalThis) {
    const server = (globalThis as unknown as { Bun: Bun }).Bun.serve({ port, hostname, fetch: handler });
    return { url: `http://${hostname}:${server.port}`, close: () => server.stop() };
  }
  const server = createServer((incoming, outgoing) => {
    respond(handler, incoming, outgoing).catch(() => outgoing.destroy()); // such as a client that went away
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, hostname, resolve));
  return {
    url: `http://${hostname}:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}

async function respond(handler: Handler, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const { method = "GET", url = "/", headers } = incoming;
  const body = new Blob(await incoming.toArray());
  const response = await handler(
    new Request(`http://${headers.host}${url}`, {
      method,
      headers: headers as Record<string, string>,
      body: body.size > 0 ? body : undefined,
    }),
  );
  outgoing.writeHead(response.status, Object.fromEntries(response.headers)).end(await response.text());
}
