/**
 * The recipes as the apps that they are, with real requests, a watched dashboard and a signal. Run by `deno task ok
 * recipes`.
 *
 * The frameworks are installed into a folder of this test's own, in which the package is what lies in the repository.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { type ClientRequest, request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { Queue } from "../../mod.ts";
import { run } from "../../scripts/command.ts";
import { findRuntime, root, type RuntimeName } from "../../scripts/runtimes.ts";
import { newFolder } from "../folder.ts";
import { freePort } from "../redis_server.ts";
import { sendSignal } from "../signal.ts";
import { soon, until } from "../until.ts";

const FRAMEWORKS = {
  "@oak/oak": "npm:@oakserver/oak@14.1.0", // what npm has of it
  "@types/express": "5.0.6",
  elysia: "1.4.30",
  express: "5.3.0",
  hono: "4.13.19",
};

const TOKEN = "correct-horse-battery";
const authorization = `Bearer ${TOKEN}`;

const place = newFolder();
const fromJsr = join(place.path, "jsr");
let noJsr: string | false = "not asked yet";

/** Fresh is on JSR alone, and so is today's Oak. */
async function askJsr(): Promise<string | false> {
  const registry = process.env.JSR_URL ?? "https://jsr.io";
  try {
    const answer = await fetch(new URL("/@fresh/core/meta.json", registry), {
      signal: AbortSignal.timeout(3000),
    });
    return answer.ok ? false : `${registry} answers ${answer.status}`;
  } catch (error) {
    return `${registry} cannot be reached: ${(error as Error).message}`;
  }
}

before(async () => {
  noJsr = await askJsr();
  write(place.path, "package.json", { private: true, type: "module", dependencies: FRAMEWORKS });
  write(place.path, "deno.json", { nodeModulesDir: "manual" });
  const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  const { why, output } = await run("npm", args, { cwd: place.path, seconds: 120, output: "keep" });
  assert.equal(why, undefined, output);
  mkdirSync(join(place.path, "node_modules", "@x"));
  symlinkSync(root, join(place.path, "node_modules", "@x", "queue"));
  // Two copies of these types do not agree with each other.
  const nodeTypes = join("node_modules", "@types", "node");
  rmSync(join(place.path, nodeTypes), { recursive: true });
  symlinkSync(join(root, nodeTypes), join(place.path, nodeTypes));
  copyRecipes(place.path);

  mkdirSync(fromJsr);
  copyRecipes(fromJsr);
  write(fromJsr, "deno.json", {
    nodeModulesDir: "none",
    imports: {
      "@x/queue": join(root, "mod.ts"),
      "@x/queue/dashboard": join(root, "dashboard.ts"),
      "@oak/oak": "jsr:@oak/oak@^17.1.4",
      fresh: "jsr:@fresh/core@^2.3.3",
      ioredis: "npm:ioredis@6",
    },
  });
});

after(() => place.remove());

function write(folder: string, name: string, document: unknown): void {
  writeFileSync(join(folder, name), JSON.stringify(document));
}

function copyRecipes(folder: string): void {
  const recipes = join(root, "examples", "recipes");
  for (const name of readdirSync(recipes)) copyFileSync(join(recipes, name), join(folder, name));
}

function command(runtime: RuntimeName): string[] {
  const found = findRuntime(runtime);
  if (typeof found === "string") throw new Error(found);
  return runtime === "deno" ? [found.path, "run", "-A", "--no-check"] : [found.path];
}

/** A recipe that was started, with a store of its own. */
class App {
  /** Resolves with its exit status, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  readonly env: NodeJS.ProcessEnv;
  /** What it printed. */
  output = "";
  readonly #child: ChildProcess;
  readonly #folder = newFolder();

  private constructor(child: (env: NodeJS.ProcessEnv) => ChildProcess, port: number, env: NodeJS.ProcessEnv) {
    this.env = {
      ...process.env,
      NO_COLOR: "1",
      PORT: String(port),
      DB_DATABASE: join(this.#folder.path, "queue.sqlite"),
      REPORTS: join(this.#folder.path, "reports"),
      QUEUE_DASHBOARD_TOKEN: TOKEN,
      ...env,
    };
    this.#child = child(this.env);
    for (const printed of [this.#child.stdout!, this.#child.stderr!]) {
      printed.setEncoding("utf8").on("data", (text: string) => this.output += text);
    }
    this.ended = new Promise((resolve) => {
      this.#child.on("close", (code, signal) => resolve(code ?? signal ?? "unknown"));
    });
  }

  /** Starts one, and waits until it listens. */
  static async start(
    runtime: RuntimeName,
    recipe: string,
    { cwd = place.path, env = {} }: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
  ): Promise<App> {
    const [program, ...args] = command(runtime);
    // Oak says the port that it was given, and not the one that it got.
    const port = recipe === "oak" ? await freePort() : 0;
    const app = new App(
      (env) => spawn(program, [...args, `${recipe}.ts`], { cwd, env, stdio: ["ignore", "pipe", "pipe"] }),
      port,
      env,
    );
    const over = app.ended.then((how) => {
      throw new Error(`${recipe} ended with ${how}: ${app.output}`);
    });
    over.catch(() => {});
    try {
      await Promise.race([over, until(() => app.url, `${recipe} to listen`)]);
    } catch (error) {
      await app.remove();
      throw error;
    }
    return app;
  }

  /** Where it listens. */
  get url(): string {
    return /listening at (http:\S+)/.exec(this.output)?.[1] ?? "";
  }

  /** Orders a report, and returns its id. */
  async order(text: string): Promise<string> {
    const response = await fetch(`${this.url}/reports`, {
      method: "POST",
      body: text,
      headers: { "content-type": "text/plain" },
    });
    assert.equal(response.status, 202, this.output);
    return (await response.json()).id;
  }

  /** Where a report stands. */
  // deno-lint-ignore no-explicit-any
  async lookUp(id: string): Promise<any> {
    const response = await fetch(`${this.url}/reports/${id}`);
    return { status: response.status, ...await response.json() };
  }

  /** Asks its dashboard. */
  dashboard(query: string, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.url}/admin/queue${query}`, {
      ...init,
      headers: { authorization, ...init.headers },
    });
  }

  /** Begins to send a text, which the server says that it takes, and leaves its end open. */
  async beginOrder(): Promise<{ end(text: string): Promise<number> }> {
    const { hostname, port } = new URL(this.url);
    const headers = {
      "content-type": "text/plain",
      "transfer-encoding": "chunked",
      expect: "100-continue",
    };
    const sending: ClientRequest = request({
      method: "POST",
      path: "/reports",
      hostname,
      port,
      headers,
      agent: false,
    });
    const answered = new Promise<number>((resolve, reject) => {
      sending.on("error", reject).on("response", (response) => resolve(response.resume().statusCode!));
    });
    answered.catch(() => {});
    const taken = new Promise<void>((resolve) => sending.on("continue", resolve));
    sending.flushHeaders();
    await soon(taken, "the server to take a text");
    sending.write("begun ");
    return {
      end: (text) => {
        sending.end(text);
        return soon(answered, "the answer to a request that was under way at the signal");
      },
    };
  }

  /** Whether somebody still listens there. */
  isListening(): Promise<boolean> {
    const { hostname, port } = new URL(this.url);
    return new Promise((resolve) => {
      const socket = connect(Number(port), hostname);
      socket.on("connect", () => resolve(true)).on("error", () => resolve(false));
      socket.on("connect", () => socket.destroy());
    });
  }

  /** Sends the signal. */
  terminate(): void {
    sendSignal(this.#child.pid!, "SIGTERM");
  }

  /** What its store holds, looked at from here. */
  async look<Result>(look: (queue: Queue) => Promise<Result>): Promise<Result> {
    const queue = new Queue({ jobs: {}, database: this.env.DB_DATABASE, env: {} });
    try {
      return await look(queue);
    } finally {
      await queue.close();
    }
  }

  /** Whether a report was written. */
  isWritten(id: string): boolean {
    return readdirSync(this.env.REPORTS!).includes(`${id}.json`);
  }

  /** Ends it, and removes what it wrote. */
  async remove(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.ended;
    this.#folder.remove();
  }
}

async function withApp(starting: Promise<App>, use: (app: App) => Promise<void>): Promise<void> {
  const app = await starting;
  try {
    await use(app);
  } finally {
    await app.remove();
  }
}

/** What every recipe must do. */
async function serves(app: App): Promise<void> {
  const id = await app.order("The cat and the dog");
  const done = await until(async () => {
    const seen = await app.lookUp(id);
    return seen.state === "done" && seen;
  }, "the report");
  assert.deepEqual(done, { status: 200, id, state: "done", report: { words: 5, first: "the" } });
  const wordless = await app.order("...");
  await until(async () => (await app.lookUp(wordless)).state === "failed", "the one without a word to fail");
  assert.equal((await app.lookUp("999")).status, 404);
  assert.equal((await app.lookUp("..%2Fpackage")).status, 404, "not a file of somebody's choice");
  const large = await fetch(`${app.url}/reports`, { method: "POST", body: "word ".repeat(300_000) });
  await large.body?.cancel();
  assert.equal(large.status, 413);

  assert.equal((await fetch(`${app.url}/admin/queue`)).status, 401);
  assert.match(await (await app.dashboard("")).text(), /<title>Queue<\/title>/);
  const headers = { "content-type": "application/json" };
  const change = await app.dashboard("?do=pause", { method: "POST", headers, body: '{"queue":"mail"}' });
  assert.deepEqual(await change.json(), { changed: true });
  assert.deepEqual(await app.look((queue) => queue.paused()), { all: false, queues: ["mail"] });
}

/**
 * Stops while a dashboard is watched, and jobs wait; on Node, also while a text is sent. Deno.serve and Bun.serve break
 * that off, so that its sender knows that nothing was accepted.
 */
async function stops(app: App, runtime: RuntimeName): Promise<void> {
  const events = (await app.dashboard("?get=events")).body!.getReader();
  assert.match(new TextDecoder().decode((await events.read()).value), /^retry: \d+/);
  const watching = (async () => {
    while (!(await events.read()).done);
  })().catch(() => {}); // a stream may end, or break off

  const accepted = await Promise.all(Array.from({ length: 20 }, (_, n) => app.order(`number ${n}`)));
  const late = runtime === "node" ? await app.beginOrder() : null;
  app.terminate();
  await until(async () => !await app.isListening(), "the server to stop listening");
  if (late !== null) {
    assert.equal(await late.end("and ended"), 202, "it is answered, and the queue still open");
  }
  assert.equal(await soon(app.ended, "the app to end"), 0, app.output);
  await soon(watching, "the dashboard's stream to end");

  const [counts] = await app.look((queue) => queue.counts());
  assert.equal(counts.reserved, 0, "no job is left to its lease");
  for (const id of accepted) {
    const waits = await app.look(async (queue) => (await queue.find(id))?.state === "ready");
    assert.equal(waits !== app.isWritten(id), true, `${id} is done, or waits for the next start`);
  }
}

const cases: readonly [runtime: RuntimeName, recipe: string][] = [
  ...(["deno", "bun", "node"] as const).flatMap((runtime) =>
    ["plain", "hono", "express"].map((recipe) => [runtime, recipe] as [RuntimeName, string])
  ),
  ["bun", "elysia"],
  ["bun", "oak"],
];

describe("a recipe takes requests, runs jobs, shows them, and stops", { concurrency: 6 }, () => {
  // First, as it takes longest.
  it("the types of all but Oak and Fresh agree with the frameworks'", async () => {
    const [deno] = command("deno");
    const recipes = ["plain", "hono", "express", "elysia"].map((name) => `${name}.ts`);
    const { why, output } = await run(deno, ["check", ...recipes], {
      cwd: place.path,
      env: { ...process.env, NO_COLOR: "1" },
      seconds: 120,
      output: "keep",
    });
    assert.equal(why, undefined, output);
  });

  for (const [runtime, recipe] of cases) {
    it(`${recipe} on ${runtime}`, async () => {
      await withApp(App.start(runtime, recipe), async (app) => {
        await serves(app);
        await stops(app, runtime);
      });
    });
  }

  for (const recipe of ["oak", "fresh"]) {
    it(`${recipe} on deno, from JSR`, async (test) => {
      if (noJsr) return test.skip(noJsr);
      await withApp(App.start("deno", recipe, { cwd: fromJsr }), async (app) => {
        await serves(app);
        await stops(app, "deno");
      });
    });
  }

  it("in production the app dispatches, and queue:work runs the jobs", async () => {
    const env = { APP_ENV: "production" };
    await withApp(App.start("node", "hono", { env }), async (app) => {
      const id = await app.order("one two");
      assert.equal((await app.lookUp(id)).state, "ready");
      const [node] = command("node");
      const args = [join(root, "cli.ts"), "queue:work", "--jobs=jobs.ts", "--stop-when-empty"];
      const worker = await run(node, args, { cwd: place.path, env: app.env, seconds: 60, output: "keep" });
      assert.equal(worker.why, undefined, worker.output);
      assert.equal((await app.lookUp(id)).state, "done");
      app.terminate();
      assert.equal(await soon(app.ended, "the app to end"), 0, app.output);
    });
  });
});
