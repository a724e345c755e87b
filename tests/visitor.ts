/** A browser's part of what a dashboard sees: cookies, the page's proof, and the headers that say where a request comes from. */
import assert from "node:assert/strict";
import type { DashboardHandler } from "../dashboard.ts";

/** One browser. */
export class Visitor {
  /** The `Cookie` header. */
  cookie = "";
  /** What the page says that changes need. */
  proof = "";
  readonly #handler: DashboardHandler;
  readonly #base: string;

  constructor(handler: DashboardHandler, base = "http://localhost:9000/") {
    this.#handler = handler;
    this.#base = base;
  }

  /** Any request, as it is. */
  async ask(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.cookie !== "" && !headers.has("cookie")) headers.set("cookie", this.cookie);
    const response = await this.#handler(new Request(new URL(path, this.#base), { ...init, headers }));
    const set = response.headers.get("set-cookie");
    if (set !== null) this.cookie = set.split(";")[0];
    return response;
  }

  /** Loads the page, and returns its text. */
  async load(): Promise<string> {
    const text = await (await this.ask("")).text();
    this.proof = /(?:name="csrf" (?:content|value))="(\w+)"/.exec(text)?.[1] ?? "";
    return text;
  }

  /** What the page reads. */
  // deno-lint-ignore no-explicit-any
  async get(what: string, parameters: Record<string, string> = {}): Promise<any> {
    const response = await this.ask("?" + new URLSearchParams({ get: what, ...parameters }));
    const body = await response.json();
    assert.equal(response.status, 200, body.error);
    return body;
  }

  /** A change as the page asks for it, unless other headers say otherwise; `null` leaves one out. */
  post(action: string, asked: unknown, headers: Record<string, string | null> = {}): Promise<Response> {
    const all = {
      "content-type": "application/json",
      "origin": new URL(this.#base).origin,
      "sec-fetch-site": "same-origin",
      "x-csrf-token": this.proof,
      ...headers,
    };
    const given = Object.entries(all).filter((entry): entry is [string, string] => entry[1] !== null);
    return this.ask(`?do=${action}`, {
      method: "POST",
      headers: Object.fromEntries(given),
      body: typeof asked === "string" ? asked : JSON.stringify(asked),
    });
  }

  /** A form of the page's, sent. */
  send(action: string, fields: Record<string, string>): Promise<Response> {
    return this.post(action, new URLSearchParams({ csrf: this.proof, ...fields }).toString(), {
      "content-type": "application/x-www-form-urlencoded",
      "x-csrf-token": null,
    });
  }

  /** Begins to watch. */
  async watch(): Promise<Watching> {
    const response = await this.ask("?get=events");
    assert.equal(response.status, 200);
    return new Watching(response);
  }
}

/** A stream of events that is read. */
export class Watching {
  /** Every event so far: its name, and its data. */
  // deno-lint-ignore no-explicit-any
  readonly events: { name: string; data: any }[] = [];
  /** Whether the stream has ended, by whatever. */
  over = false;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;

  constructor(response: Response) {
    this.#reader = response.body!.getReader();
    // A connection that breaks is an end, too.
    const end = (): void => void (this.over = true);
    this.#read().then(end, end);
  }

  /** Goes away, as a browser whose tab is closed. */
  async leave(): Promise<void> {
    await this.#reader.cancel().catch(() => {});
  }

  async #read(): Promise<void> {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await this.#reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop()!;
      for (const block of blocks) {
        const [, name, data] = /^event: (\w+)\ndata: (.*)$/s.exec(block) ?? [];
        if (name !== undefined) this.events.push({ name, data: JSON.parse(data) });
      }
    }
  }
}
