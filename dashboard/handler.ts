/**
 * The dashboard's one function: which request gets what.
 *
 * It has one address, where it is mounted; what is asked for stands behind the `?`, so that it needs not know where that
 * is. `GET` is the page, `GET ?get=…` what the page asks for, `POST ?do=…` what it changes.
 *
 * @module
 */
import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { QueueError } from "../mod.ts";
import { ACTIONS, readDocument, readText } from "./actions.ts";
import { bytes, json, policy, problem, text } from "./answers.ts";
import { SCRIPT, STYLE, VERSION_TAG } from "./assets.ts";
import { BadRequest } from "./bad_request.ts";
import { Collector } from "./collector.ts";
import { events } from "./events.ts";
import { isForUs, strangeness } from "./origin.ts";
import { loginPage, page } from "./page.ts";
import { READS } from "./reads.ts";
import { type Session, Sessions } from "./session.ts";
import { type DashboardOptions, type DashboardQueue, readSettings, type Settings } from "./settings.ts";

/** Answers one request. It never rejects. */
export type DashboardHandler = (request: Request) => Promise<Response>;

/**
 * A dashboard of a queue, as a function from request to response for Deno.serve, Bun.serve, Hono and others; for
 * `node:http` there is {@linkcode toNodeHandler}.
 *
 * Without a token it answers only requests for the loopback's names, since whoever reaches it sees payloads and may
 * change what there is: an app that lets in only its operators says so by `hosts`. It looks at the queue once a second
 * while somebody watches, and else once a minute, for its charts, until the queue is closed.
 *
 * @example
 * ```ts
 * import { Queue } from "@x/queue";
 * import { dashboard } from "@x/queue/dashboard";
 * import assert from "node:assert/strict";
 *
 * const queue = new Queue({ database: ":memory:", jobs: {} });
 * const handler = dashboard(queue, { readOnly: true });
 * const response = await handler(new Request("http://localhost:9000/"));
 * assert.match(await response.text(), /<title>Queue<\/title>/);
 * await queue.close();
 * ```
 *
 * @param queue Which queue. It stays the caller's to close.
 * @param options Where it is mounted, and who may see it.
 * @throws {QueueError} `CONFIG` for an option that cannot work, naming it.
 */
export function dashboard(queue: DashboardQueue, options: DashboardOptions = {}): DashboardHandler {
  return new Dashboard(queue, readSettings(options)).answer;
}

/** Who asks. */
interface Visitor {
  readonly session: Session;
  /** Whether the browser has no such session yet. */
  readonly fresh: boolean;
  /** Whether the token came with the request. */
  readonly bearer: boolean;
  readonly admitted: boolean;
}

/** A part of the page that never changes. */
interface Asset {
  readonly text: string;
  readonly type: string;
  zipped: Uint8Array | null;
}

class Dashboard {
  readonly #queue: DashboardQueue;
  readonly #settings: Settings;
  readonly #sessions: Sessions;
  readonly #collector: Collector;
  readonly #assets: Readonly<Record<string, Asset>> = {
    "app.js": { text: SCRIPT, type: "text/javascript", zipped: null },
    "style.css": { text: STYLE, type: "text/css", zipped: null },
  };

  constructor(queue: DashboardQueue, settings: Settings) {
    this.#queue = queue;
    this.#settings = settings;
    this.#sessions = new Sessions(settings.token);
    this.#collector = new Collector(queue);
  }

  readonly answer = async (request: Request): Promise<Response> => {
    try {
      return await this.#route(request, new URL(request.url));
    } catch (error) {
      if (error instanceof BadRequest) return problem(request, error.status, error.message);
      if (!(error instanceof QueueError)) throw error;
      return problem(request, error.code === "CONFIG" ? 400 : 503, error.message);
    }
  };

  async #route(request: Request, url: URL): Promise<Response> {
    if (!isForUs(request, this.#settings)) {
      const why = "this dashboard is not reached by that host name: see its token and its hosts";
      return problem(request, 421, why);
    }
    if (!this.#isHere(url.pathname)) return problem(request, 404, "there is nothing here");
    const get = url.searchParams.get("get");
    const action = url.searchParams.get("do");
    if (action !== null) return await this.#change(request, action);
    if (request.method !== "GET" && request.method !== "HEAD") {
      return problem(request, 405, "expected GET or HEAD", { allow: "GET, HEAD" });
    }
    if (get !== null && Object.hasOwn(this.#assets, get)) return this.#asset(request, this.#assets[get], url);
    const visitor = this.#visitor(request);
    if (get === null) return this.#page(request, visitor, url);
    if (!visitor.admitted) return this.#refuse(request);
    if (get === "events") return this.#events(request, visitor);
    if (!Object.hasOwn(READS, get)) return problem(request, 404, "there is nothing of that name to get");
    const found = await READS[get]({
      queue: this.#queue,
      collector: this.#collector,
      asked: url.searchParams,
    });
    return found === null ? problem(request, 404, "there is no such job") : json(request, found);
  }

  #isHere(path: string): boolean {
    const { basePath } = this.#settings;
    return basePath === null || path === basePath || path === `${basePath}/`;
  }

  #visitor(request: Request): Visitor {
    const now = Date.now();
    const known = this.#sessions.read(request.headers.get("cookie"), now);
    const session = known ?? this.#sessions.start(false, now);
    const bearer = this.#sessions.acceptsHeader(request.headers.get("authorization"));
    const admitted = this.#settings.token === null || session.known || bearer;
    return { session, fresh: known === null, bearer, admitted };
  }

  #page(request: Request, visitor: Visitor, url: URL, wrong = false): Response {
    const nonce = randomBytes(16).toString("base64");
    const { readOnly, token } = this.#settings;
    const parts = { nonce, proof: this.#sessions.proof(visitor.session), version: VERSION_TAG };
    const html = visitor.admitted
      ? page({ ...parts, readOnly, canLeave: token !== null && visitor.session.known })
      : loginPage({ ...parts, wrong });
    return text(request, html, "text/html", {
      status: visitor.admitted ? 200 : wrong ? 403 : 401,
      headers: {
        "content-security-policy": policy(nonce),
        ...(visitor.fresh ? this.#keep(visitor.session, url) : {}),
      },
    });
  }

  #asset(request: Request, asset: Asset, url: URL): Response {
    const zip = (): Uint8Array => asset.zipped ??= gzipSync(asset.text, { level: 9 });
    const known = url.searchParams.get("v") === VERSION_TAG;
    return bytes(request, zip, asset.text, asset.type, {
      headers: { "cache-control": known ? "public, max-age=31536000, immutable" : "no-cache" },
    });
  }

  #events(request: Request, { session }: Visitor): Response {
    if (request.method === "HEAD") {
      return new Response(null, {
        headers: { "content-type": "text/event-stream", "cache-control": "no-store" },
      });
    }
    return events(this.#collector, session.endsAt);
  }

  /** A change: asked for by POST, by our own page, by who may. */
  async #change(request: Request, action: string): Promise<Response> {
    const login = action === "login" || action === "logout";
    if (!login && !Object.hasOwn(ACTIONS, action)) {
      return problem(request, 404, "there is nothing of that name to do");
    }
    if (request.method !== "POST") return problem(request, 405, "expected POST", { allow: "POST" });
    const visitor = this.#visitor(request);
    const strange = strangeness(request, this.#settings, visitor.bearer);
    if (strange !== null) {
      return problem(request, 403, `not asked for by this dashboard's own page: ${strange}`);
    }
    if (login) return await this.#enter(request, visitor, action === "login");
    if (!visitor.admitted) return this.#refuse(request);
    if (!visitor.bearer && !this.#proven(visitor, request.headers.get("x-csrf-token"))) {
      return problem(request, 403, "the session has ended: load the page again");
    }
    if (this.#settings.readOnly) return problem(request, 403, "this dashboard is read-only");
    const done = await ACTIONS[action](this.#queue, await readDocument(request));
    this.#collector.look();
    return json(request, done);
  }

  /** The form of the login page, and the button that ends a session. */
  async #enter(request: Request, visitor: Visitor, enter: boolean): Promise<Response> {
    const form = new URLSearchParams(await readText(request));
    const url = new URL(request.url);
    if (!this.#proven(visitor, form.get("csrf"))) return this.#page(request, visitor, url);
    if (enter && !this.#sessions.accepts(form.get("token") ?? "")) {
      return this.#page(request, visitor, url, true);
    }
    const session = this.#sessions.start(enter, Date.now());
    return new Response(null, {
      status: 303,
      headers: { location: "?", "cache-control": "no-store", ...this.#keep(session, url) },
    });
  }

  #proven({ session, fresh }: Visitor, proof: string | null): boolean {
    return !fresh && proof !== null && this.#sessions.proves(session, proof);
  }

  #keep(session: Session, url: URL): Record<string, string> {
    const secure = (this.#settings.origin ?? url.origin).startsWith("https:");
    return { "set-cookie": this.#sessions.write(session, secure) };
  }

  #refuse(request: Request): Response {
    return problem(request, 401, "the token is needed: load the page again", {
      "www-authenticate": "Bearer",
    });
  }
}
