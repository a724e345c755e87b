/**
 * A stand-in for the registry JSR, on the loopback: it takes what `deno publish` sends, refuses what jsr.io refuses of
 * that, and serves it as jsr.io does, under `JSR_URL`.
 *
 * @module
 */
import { createHash } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { posix } from "node:path";
import { gunzipSync } from "node:zlib";
import { serve, type Serving } from "../browser/serving.ts";

/** A published version. */
export interface Published {
  /** By path, as `/mod.ts`. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  /** As its config file has them. */
  readonly exports: Readonly<Record<string, string>>;
  readonly createdAt: string;
}

/** What the largest package may be, in bytes. */
const LARGEST = 20 * 2 ** 20;

/** How old versions look, in milliseconds: Deno takes none of its own accord that is younger than a day. */
const AGE = 2 * 86_400_000;

const TYPES: Readonly<Record<string, string>> = { ".ts": "text/typescript", ".json": "application/json" };

/** Why something is not published. */
class Refusal extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The registry. */
export class JsrRegistry {
  /** Versions by package, as `@scope/name`. */
  readonly #packages = new Map<string, Map<string, Published>>();
  readonly #token: string;
  #serving: Serving | null = null;

  private constructor(token: string) {
    this.#token = token;
  }

  /** Starts one in which whoever has the token may publish. */
  static async start(token: string): Promise<JsrRegistry> {
    const registry = new JsrRegistry(token);
    registry.#serving = await serve((request, response) => void registry.#answer(request, response));
    return registry;
  }

  /** What `JSR_URL` is to be. */
  get url(): string {
    return this.#serving!.url;
  }

  /** A version that was published. */
  version(name: string, version: string): Published | undefined {
    return this.#packages.get(name)?.get(version);
  }

  /** Ends it. */
  async stop(): Promise<void> {
    await this.#serving!.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const send = (status: number, type: string, body: string | Uint8Array): void => {
      response.writeHead(status, { "content-type": type }).end(body);
    };
    try {
      const url = new URL(request.url!, this.url);
      const path = decodeURIComponent(url.pathname);
      if (path.startsWith("/api/")) {
        const answer = await this.#api(request, path, url.searchParams);
        send(200, "application/json", JSON.stringify(answer));
      } else {
        send(200, TYPES[posix.extname(path)] ?? "text/plain", this.#file(path));
      }
    } catch (error) {
      const { status, code } = error instanceof Refusal
        ? error
        : { status: 500, code: "internalServerError" };
      const message = error instanceof Error ? error.message : String(error);
      send(status, "application/json", JSON.stringify({ code, message }));
    }
  }

  async #api(request: IncomingMessage, path: string, parameters: URLSearchParams): Promise<unknown> {
    const words = /^\/api\/scopes\/([^/]+)\/packages\/([^/]+)(?:\/versions\/([^/]+))?$/.exec(path);
    if (words === null) throw new Refusal(404, "notFound", `no such path: ${path}`);
    const [, scope, name, version] = words;
    // Every package exists: it is made by hand on jsr.io, before its first version.
    if (version === undefined) return { scope, name };
    if (request.method !== "POST") {
      if (this.version(`@${scope}/${name}`, version) !== undefined) return { scope, package: name, version };
      throw new Refusal(404, "packageVersionNotFound", `${name} has no version ${version}`);
    }
    const body: Uint8Array[] = [];
    for await (const chunk of request) body.push(chunk);
    if (request.headers.authorization !== `Bearer ${this.#token}`) {
      throw new Refusal(401, "unauthorized", "expected the token of who may publish");
    }
    const files = filesOf(gunzipSync(Buffer.concat(body)));
    const config = parameters.get("config") ?? "/deno.json";
    const published = check(files, config, `@${scope}/${name}`, version);
    const versions = this.#packages.get(`@${scope}/${name}`) ?? new Map<string, Published>();
    if (versions.has(version)) throw new Refusal(409, "duplicateVersionPublish", "it is published already");
    this.#packages.set(`@${scope}/${name}`, versions.set(version, published));
    return { id: "1", status: "success", error: null };
  }

  #file(path: string): string | Uint8Array {
    const [, name = "", rest = ""] = /^\/(@[^/]+\/[^/]+)\/(.*)$/.exec(path) ?? [];
    const versions = this.#packages.get(name) ?? new Map<string, Published>();
    if (versions.size > 0 && rest === "meta.json") return packageMeta(name, versions);
    const asked = [...versions].find(([version]) =>
      rest === `${version}_meta.json` || rest.startsWith(`${version}/`)
    );
    if (asked !== undefined) {
      const [version, published] = asked;
      const found = rest === `${version}_meta.json`
        ? versionMeta(published)
        : published.files.get(rest.slice(version.length));
      if (found !== undefined) return found;
    }
    throw new Refusal(404, "notFound", `no such file: ${path}`);
  }
}

function packageMeta(name: string, versions: ReadonlyMap<string, Published>): string {
  const [scope, own] = name.slice(1).split("/");
  return JSON.stringify({
    scope,
    name: own,
    latest: [...versions.keys()].at(-1),
    versions: Object.fromEntries([...versions].map(([version, { createdAt }]) => [version, { createdAt }])),
  });
}

function versionMeta({ files, exports }: Published): string {
  const manifest = Object.fromEntries([...files].map(([path, data]) => {
    const checksum = `sha256-${createHash("sha256").update(data).digest("hex")}`;
    return [path, { size: data.length, checksum }];
  }));
  return JSON.stringify({ manifest, exports });
}

/** What jsr.io looks at before it takes a version, as far as a package can get that wrong. */
function check(
  files: ReadonlyMap<string, Uint8Array>,
  config: string,
  name: string,
  version: string,
): Published {
  const refuse = (message: string): never => {
    throw new Refusal(400, "malformedRequest", message);
  };
  const text = files.get(config) ?? refuse(`${config} is not among the files`);
  const said = JSON.parse(new TextDecoder().decode(text));
  if (said.name !== name) refuse(`${config} names ${said.name}`);
  if (said.version !== version) refuse(`${config} has version ${said.version}`);
  if (said.license === undefined && !files.has("/LICENSE")) refuse("it has no license");
  const exports = typeof said.exports === "string" ? { ".": said.exports } : said.exports;
  for (const path of Object.values(exports as Record<string, string>)) {
    if (!files.has(posix.join("/", path))) refuse(`the export ${path} is not among the files`);
  }
  const paths = [...files.keys()];
  const odd = paths.find((path) => !/^(\/[\w.@+-]+)+$/.test(path));
  if (odd !== undefined) refuse(`${odd} is no path for every system`);
  if (new Set(paths.map((path) => path.toLowerCase())).size < paths.length) {
    refuse("two paths differ by capitals only");
  }
  const size = [...files.values()].reduce((sum, { length }) => sum + length, 0);
  if (size > LARGEST) refuse(`it has ${size} bytes`);
  return { files, exports, createdAt: new Date(Date.now() - AGE).toISOString() };
}

const BLOCK = 512;

/** The files of a tar archive, by path. */
function filesOf(tar: Buffer): Map<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  for (let at = 0; tar[at] !== 0 && at < tar.length;) {
    const field = (from: number, length: number): string => {
      const [text] = tar.toString("utf8", at + from, at + from + length).split("\0");
      return text;
    };
    const [path, size, type, folder] = [field(0, 100), field(124, 12), field(156, 1), field(345, 155)];
    const length = parseInt(size, 8);
    const start = at + BLOCK;
    if (type !== "0" && type !== "") throw new Refusal(400, "malformedRequest", `${path} is no plain file`);
    files.set(posix.join("/", folder, path), tar.subarray(start, start + length));
    at = start + Math.ceil(length / BLOCK) * BLOCK;
  }
  return files;
}
