/**
 * Where a request comes from, by headers that no page can choose.
 *
 * @module
 */
import type { Settings } from "./settings.ts";

/** Whether the request is for a host that this dashboard goes by. A page whose name leads here sends its own. */
export function isForUs(request: Request, { hosts, origin }: Settings): boolean {
  if (hosts === "any") return true;
  const host = nameOf(hostOf(request));
  return hosts.includes(host) || (origin !== null && host === nameOf(new URL(origin).host));
}

/**
 * Why a change was not asked for by our own page; `null` where it was. Browsers say where a request comes from by
 * `Sec-Fetch-Site` or, without TLS, by `Origin` alone. What says neither is no browser: it needs the bearer header.
 */
export function strangeness(request: Request, settings: Settings, bearer: boolean): string | null {
  const site = request.headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin") return `Sec-Fetch-Site is ${site}`;
  const origin = request.headers.get("origin");
  if (origin === null) return site === null && !bearer ? "it has no Origin" : null;
  const fine = settings.origin === null
    ? URL.parse(origin)?.host === hostOf(request)
    : origin === settings.origin;
  return fine ? null : `Origin is ${origin}`;
}

function hostOf(request: Request): string {
  return (request.headers.get("host") ?? new URL(request.url).host).toLowerCase();
}

function nameOf(host: string): string {
  return host.replace(/:\d*$/, "");
}
