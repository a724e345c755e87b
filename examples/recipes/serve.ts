/**
 * Serves a function from request to response by what the runtime has for that: Deno.serve, Bun.serve, or node:http.
 *
 * @module
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import process from "node:process";
import { toNodeHandler } from "@x/queue/dashboard";
import type { Server } from "./stopping.ts";

type Handler = (request: Request) => Response | Promise<Response>;

/** What is used of Bun here; an app on Bun has `@types/bun` instead. */
interface Bun {
  serve(options: { port: number; hostname: string; fetch: Handler }): {
    readonly port: number;
    stop(): Promise<void>;
  };
}

/** Where the recipes listen. */
export const hostname = "127.0.0.1";
export const port = Number(process.env.PORT ?? 8000);

/** Listens, and says where. */
export async function serve(handler: Handler): Promise<Server> {
  if ("Deno" in globalThis) return onDeno(handler);
  if ("Bun" in globalThis) return onBun(handler);
  return await onNode(handler);
}

function onDeno(handler: Handler): Server {
  const options = { port, hostname, onListen: ({ port }: { port: number }) => announce(port) };
  const server = Deno.serve(options, (request) => handler(request));
  return { close: () => server.shutdown() };
}

function onBun(handler: Handler): Server {
  const { Bun } = globalThis as unknown as { Bun: Bun };
  const server = Bun.serve({ port, hostname, fetch: (request) => handler(request) });
  announce(server.port);
  return { close: () => server.stop() };
}

async function onNode(handler: Handler): Promise<Server> {
  const server = createServer(toNodeHandler(async (request) => await handler(request)));
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(port, hostname, resolve));
  announce((server.address() as AddressInfo).port);
  return { close: () => new Promise((resolve) => void server.close(resolve)) };
}

/** Says where the app listens. */
export function announce(port: number): void {
  console.log(`listening at http://${hostname}:${port}`);
}
