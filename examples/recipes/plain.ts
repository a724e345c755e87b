/**
 * No framework: one function from request to response, served by Deno.serve, Bun.serve or node:http.
 *
 * @module
 */
import { dashboard } from "@x/queue/dashboard";
import { lookUp, order, queue } from "./reports.ts";
import { serve } from "./serve.ts";
import { runBeside } from "./stopping.ts";

const operators = dashboard(queue, { basePath: "/admin/queue" });

async function answer(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname === "/admin/queue") return await operators(request);
  const id = /^\/reports\/([^/]+)$/.exec(pathname)?.[1];
  if (request.method === "GET" && id !== undefined) return toResponse(await lookUp(id));
  if (request.method === "POST" && pathname === "/reports") {
    return toResponse(await order(await request.text()));
  }
  return Response.json({ error: `nothing to ${request.method} at ${pathname}` }, { status: 404 });
}

function toResponse({ status, body }: { status: number; body: unknown }): Response {
  return Response.json(body, { status });
}

await runBeside(await serve(answer), queue);
