/**
 * Answers requests for metrics and health.
 *
 * @module
 */
import type { Health } from "./health.ts";
import { type Format, MEDIA_TYPE } from "./text.ts";

/** What it answers with. */
export interface Answers {
  /** The metrics. */
  text(format: Format): Promise<string>;
  /** How the queue is. */
  health(): Promise<Health>;
}

/** The answer to a request; the last part of its path says what is wanted. */
export async function answer(request: Request, { text, health }: Answers): Promise<Response> {
  const wanted = /\/(metrics|health)\/?$/.exec(new URL(request.url).pathname)?.[1];
  if (wanted === undefined) return plain("expected /metrics or /health\n", 404);
  if (request.method !== "GET" && request.method !== "HEAD") {
    return plain("expected GET\n", 405, { allow: "GET, HEAD" });
  }
  if (wanted === "metrics") {
    const format = wantsOpenMetrics(request) ? "openMetrics" : "prometheus";
    return respond(request, await text(format), 200, MEDIA_TYPE[format]);
  }
  const found = await health();
  const status = found.status === "ready" ? 200 : 503;
  return respond(request, JSON.stringify(found, null, 2) + "\n", status, "application/json");
}

/** Prometheus asks for it by name. */
function wantsOpenMetrics(request: Request): boolean {
  return (request.headers.get("accept") ?? "").includes("application/openmetrics-text");
}

function respond(request: Request, body: string, status: number, type: string): Response {
  const headers = { "content-type": type, "cache-control": "no-store", "x-content-type-options": "nosniff" };
  return new Response(request.method === "HEAD" ? null : body, { status, headers });
}

function plain(body: string, status: number, headers: Record<string, string> = {}): Response {
  return new Response(body, { status, headers: { "content-type": "text/plain; charset=utf-8", ...headers } });
}
