/**
 * What a dashboard is made of, checked once.
 *
 * @module
 */
import process from "node:process";
import { type Queue, QueueError } from "../mod.ts";

/** What a dashboard asks of a queue. */
export type DashboardQueue = Pick<
  Queue,
  | "counts"
  | "paused"
  | "pause"
  | "resume"
  | "workers"
  | "progress"
  | "cancel"
  | "delayed"
  | "find"
  | "failed"
  | "countFailed"
  | "retry"
  | "forget"
>;

/** How a dashboard is served. All may be left out. */
export interface DashboardOptions {
  /**
   * The path that it answers, such as `"/admin/queue"`; other paths are answered with 404. Left out, it answers every
   * path that it gets: what it is mounted in decides.
   */
  basePath?: string;
  /**
   * What a visitor must know: asked for by a form, or sent as `Authorization: Bearer …`. At least 16 characters.
   * Default: `QUEUE_DASHBOARD_TOKEN`, or none.
   */
  token?: string;
  /**
   * The hosts by whose name it may be reached, without a port, or `"any"`. A request for another host is refused, as it
   * may come from a page whose name was made to lead here. Default: the loopback's where there is no token, else any.
   */
  hosts?: readonly string[] | "any";
  /** Its origin as browsers see it, such as `"https://ops.example.com"`, where a proxy changes the `Host` header. */
  origin?: string;
  /** Shows everything, and changes nothing. Default: `false`. */
  readOnly?: boolean;
}

/** The options, checked. */
export interface Settings {
  readonly basePath: string | null;
  readonly token: string | null;
  readonly hosts: readonly string[] | "any";
  readonly origin: string | null;
  readonly readOnly: boolean;
}

/** The names of this machine to itself. */
export const LOOPBACK: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/** A shorter token could be found by trying. */
const SHORTEST_TOKEN = 16;

const OPTIONS = ["basePath", "token", "hosts", "origin", "readOnly"];

/**
 * Checks the options.
 *
 * @throws {QueueError} `CONFIG`, naming the one that cannot work.
 */
export function readSettings(options: DashboardOptions): Settings {
  if (typeof options !== "object" || options === null) refuse("options", options, "an object, or nothing");
  const unknown = Object.keys(options).find((key) => !OPTIONS.includes(key));
  if (unknown !== undefined) {
    throw new QueueError("CONFIG", `options.${unknown}: no such setting; expected ${OPTIONS.join(", ")}`);
  }
  const token = checkToken(options.token);
  const { readOnly = false } = options;
  if (typeof readOnly !== "boolean") refuse("readOnly", readOnly, "true or false");
  return {
    basePath: checkBasePath(options.basePath),
    token,
    hosts: checkHosts(options.hosts) ?? (token === null ? LOOPBACK : "any"),
    origin: checkOrigin(options.origin),
    readOnly,
  };
}

function checkToken(given: unknown): string | null {
  const [name, token] = given === undefined ? ["QUEUE_DASHBOARD_TOKEN", fromEnvironment()] : ["token", given];
  if (token === undefined || (given === undefined && token === "")) return null;
  // Not shown: a secret that is too short is still one.
  if (typeof token !== "string" || token.length < SHORTEST_TOKEN || !/^[\x21-\x7e]+$/.test(token)) {
    const expected = `at least ${SHORTEST_TOKEN} characters of ASCII, without spaces`;
    throw new QueueError("CONFIG", `${name}: expected ${expected}`);
  }
  return token;
}

function fromEnvironment(): string | undefined {
  try {
    return process.env.QUEUE_DASHBOARD_TOKEN;
  } catch {
    return undefined; // Deno without the permission to read it
  }
}

/** Without a slash at its end; empty for the root. */
function checkBasePath(given: unknown): string | null {
  if (given === undefined) return null;
  if (typeof given !== "string" || !given.startsWith("/") || /[?#\s]/.test(given)) {
    return refuse("basePath", given, 'a path such as "/admin/queue"');
  }
  return given.replace(/\/+$/, "");
}

function checkHosts(given: unknown): readonly string[] | "any" | undefined {
  if (given === undefined || given === "any") return given;
  const isName = (host: unknown): host is string =>
    typeof host === "string" && /^[\w.-]+$|^\[[\da-f:.]+\]$/i.test(host);
  if (!Array.isArray(given) || given.length === 0 || !given.every(isName)) {
    return refuse("hosts", given, 'a list of names such as ["ops.example.com"], without ports, or "any"');
  }
  return given.map((host) => host.toLowerCase());
}

function checkOrigin(given: unknown): string | null {
  if (given === undefined) return null;
  const url = typeof given === "string" ? URL.parse(given) : null;
  if (url === null || url.origin !== given || !/^https?:$/.test(url.protocol)) {
    return refuse("origin", given, 'an origin such as "https://ops.example.com"');
  }
  return url.origin;
}

function refuse(name: string, value: unknown, expected: string): never {
  const shown = value === undefined ? "undefined" : JSON.stringify(value) ?? String(value);
  throw new QueueError("CONFIG", `${name}=${shown}: expected ${expected}`);
}
