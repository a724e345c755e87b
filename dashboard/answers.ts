/**
 * Responses, with the headers that all of them have.
 *
 * @module
 */
import { gzipSync } from "node:zlib";

/** Smaller texts do not become smaller. */
const WORTH_ZIPPING = 512;

const ALWAYS = {
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  // Not "no-referrer", by which the login form's Origin would be null.
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** Nothing but what is named comes from anywhere, and that from here. `nonce` marks the page's own script and style. */
export function policy(nonce: string): string {
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    "img-src data:",
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

/** A text, zipped where the client takes that. */
export function text(
  request: Request,
  body: string,
  type: string,
  { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {},
): Response {
  return bytes(request, body.length < WORTH_ZIPPING ? null : () => gzipSync(body), body, type, {
    status,
    headers,
  });
}

/** As {@linkcode text}, where the zipped form is made elsewhere; `null` where there is none. */
export function bytes(
  request: Request,
  zip: (() => Uint8Array) | null,
  body: string,
  type: string,
  { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {},
): Response {
  const zipped = zip !== null && takesGzip(request) ? zip() : null;
  return new Response(request.method === "HEAD" ? null : zipped as BodyInit | null ?? body, {
    status,
    headers: {
      "cache-control": "no-store",
      "content-security-policy": policy("none").replaceAll("'nonce-none'", "'none'"),
      "content-type": `${type}; charset=utf-8`,
      ...ALWAYS,
      ...(zip === null ? {} : { vary: "accept-encoding" }),
      ...(zipped === null ? {} : { "content-encoding": "gzip" }),
      ...headers,
    },
  });
}

/** A document of JSON. */
export function json(request: Request, value: unknown, status = 200): Response {
  return text(request, JSON.stringify(value), "application/json", { status });
}

/** Why not, as JSON: what the page shows to whoever asked. */
export function problem(
  request: Request,
  status: number,
  error: string,
  headers: Record<string, string> = {},
): Response {
  return text(request, JSON.stringify({ error }), "application/json", { status, headers });
}

/** A stream of server-sent events. */
export function stream(body: ReadableStream<Uint8Array>): Response {
  return new Response(body as BodyInit, {
    headers: {
      ...ALWAYS,
      "cache-control": "no-store",
      "content-type": "text/event-stream; charset=utf-8",
      // nginx would keep the events until it has a buffer full of them.
      "x-accel-buffering": "no",
    },
  });
}

function takesGzip(request: Request): boolean {
  const accepted = (request.headers.get("accept-encoding") ?? "").split(",");
  return accepted.some((one) => /^\s*gzip\s*(;\s*q=(?!0(\.0*)?\s*$)|$)/i.test(one));
}
