/**
 * The package as its users on Deno get it: published to a stand-in for JSR, and used from folders in which nothing of
 * this repository is, with a cache of their own. Run by `deno task ok jsr`.
 *
 * What the package needs of npm comes from there.
 *
 * @module
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { type Ending, run } from "../../scripts/command.ts";
import { findRuntime, root } from "../../scripts/runtimes.ts";
import { newFolder } from "../folder.ts";
import { noRedis, RedisServer } from "../redis_server.ts";
import { soon } from "../until.ts";
import { JsrRegistry } from "./jsr_registry.ts";

const TOKEN = "of the release workflow";

interface Config {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string>>;
  readonly publish: { readonly include: readonly string[]; readonly exclude: readonly string[] };
}

const config: Config = JSON.parse(readFileSync(join(root, "deno.json"), "utf8"));
const runtime = findRuntime("deno");
const noDeno = typeof runtime === "string" && runtime;
const deno = typeof runtime === "string" ? "deno" : runtime.path;

/** All folders of these tests. */
const place = newFolder();
let registry: JsrRegistry;
let folders = 0;

/** What a user's machine has: nothing of this repository, and none of its settings. */
function environment(cache: string, more: Record<string, string> = {}): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {};
  for (const [name, value] of Object.entries(process.env)) {
    if (!/^(QUEUE_|REDIS_|OTEL_|DB_DATABASE$|APP_ENV$|NODE_OPTIONS$)/.test(name)) env[name] = value;
  }
  return {
    ...env,
    NO_COLOR: "1",
    DENO_NO_UPDATE_CHECK: "1",
    DENO_DIR: join(place.path, cache),
    JSR_URL: registry.url,
    ...more,
  };
}

/** A user's folder. */
class User {
  readonly folder: string = join(place.path, `user ${++folders}`);
  readonly #cache: string;

  /** @param cache The name of their cache of downloads: one that was not named before is empty. */
  constructor(files: Record<string, string>, cache = "cache") {
    this.#cache = cache;
    mkdirSync(this.folder);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(this.folder, name), text);
  }

  /** Runs Deno there, and expects this exit status. Returns what it printed, of downloads nothing. */
  async deno(args: readonly string[], status = 0, env: Record<string, string> = {}): Promise<string> {
    return await this.run(deno, args, status, env);
  }

  async run(
    path: string,
    args: readonly string[],
    status = 0,
    env: Record<string, string> = {},
  ): Promise<string> {
    const options = { cwd: this.folder, env: environment(this.#cache, env), seconds: 120 };
    const { output, status: found, why } = await run(path, args, { ...options, output: "keep" });
    const printed = output.replace(/^(Download|Initialize|Check) .*\n/gm, "");
    assert.equal(found, status, `${args.join(" ")}: ${why}\n${printed}`);
    return printed;
  }

  /** Starts Deno there, and resolves with the first line that it prints, and how to end it. */
  async start(args: readonly string[]): Promise<{ line: string; stop(): Promise<number | null> }> {
    const child = spawn(deno, args, {
      cwd: this.folder,
      env: environment(this.#cache),
      stdio: ["ignore", "pipe", "pipe"],
    });
    let out = "", errors = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => errors += text);
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    const said = new Promise<void>((resolve) => {
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        out += text;
        if (out.includes("\n")) resolve();
      });
    });
    const stop = (): Promise<number | null> => {
      child.kill("SIGTERM");
      return soon(ended, "Deno to end");
    };
    try {
      await soon(Promise.race([said, ended]), "the first line");
      assert.notEqual(out, "", errors);
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
    return { line: out.split("\n")[0], stop };
  }
}

/** The commands of README's Install section that begin with these words, as words. */
function promised(beginning: string): string[] {
  const [, install] = readFileSync(join(root, "README.md"), "utf8").split("\n## Install\n");
  const line = install.split("\n## ")[0].split("\n").find((line) => line.startsWith(beginning));
  assert.ok(line, `README names a command that begins with ${beginning}`);
  return [...line.matchAll(/'([^']*)'|\S+/g)].map(([word, quoted]) => quoted ?? word);
}

const PACKAGE = `jsr:${config.name}`;
const CLI = `${PACKAGE}/cli`;

const APP = `import { type Job, Queue } from "${PACKAGE}";

const queue = new Queue({
  jobs: { mail: (job: Job<{ to: string }>) => console.log(\`to \${job.data.to}\`) },
});
await queue.dispatch("mail", { to: "ada@example.com" });
await queue.work({ stopWhenEmpty: true });
await queue.close();
`;

const JOBS = `import { Discard, type Job, type Jobs } from "${PACKAGE}";

export default {
  greet: (job: Job<{ name: string }>) => console.log(\`hello \${job.data.name}\`),
  boom: { tries: 1, handle: () => { throw new Error("kaboom"); } },
  drop: () => { throw new Discard("not wanted"); },
  crash: { tries: 1, handle: () => Deno.exit(3) },
} satisfies Jobs;
`;

/** An app whose jobs run in processes, which the package's own program starts. */
const SUPERVISOR = `import { Queue } from "${PACKAGE}";

const queue = new Queue({ jobs: { greet: {} } });
await queue.dispatch("greet", { name: "Ada" });
await queue.work({ stopWhenEmpty: true, processes: { count: 2, module: "./jobs.ts" } });
console.log("left", await queue.waiting(), (await queue.failed()).length);
await queue.close();
`;

after(() => place.remove());

describe("the package on JSR", { skip: noDeno, concurrency: 3 }, () => {
  before(async () => {
    registry = await JsrRegistry.start(TOKEN);
    const tree = join(place.path, "tree");
    mkdirSync(tree);
    for (const name of [...config.publish.include, "package.json", "deno.lock"]) {
      cpSync(join(root, name), join(tree, name), { recursive: true });
    }
    // What is there is used, as in a clone: the types of what the package imports.
    symlinkSync(join(root, "node_modules"), join(tree, "node_modules"));
    const env = { ...process.env, NO_COLOR: "1", JSR_URL: registry.url };
    const publish = (token: string): Promise<Ending> =>
      run(deno, ["publish", "--allow-dirty", "--token", token], {
        cwd: tree,
        env,
        seconds: 300,
        output: "keep",
      });
    const { why, output } = await publish(TOKEN);
    assert.equal(why, undefined, output);
    const warnings = [...output.matchAll(/warning\[([\w-]+)\]/g)].map(([, name]) => name);
    assert.deepEqual(warnings, ["unanalyzable-dynamic-import"], `the jobs module alone:\n${output}`);
    const again = await publish("none");
    assert.equal(again.why, undefined, again.output);
    assert.match(again.output, /already published/, "a release that stopped half-way can be run again");
    // What most of the users below have downloaded, so that not each does.
    await new User({ "app.ts": APP }).deno(["cache", "app.ts", CLI]);
  });

  after(() => registry?.stop());

  it("has what it is to have, and nothing else", () => {
    const published = registry.version(config.name, config.version)!;
    assert.deepEqual(published.exports, config.exports);
    const paths = [...published.files.keys()];
    for (const path of ["/README.md", "/LICENSE", "/CHANGELOG.md"]) assert.ok(paths.includes(path), path);
    const { include, exclude } = config.publish;
    const isMeant = (path: string): boolean =>
      include.some((name) => path === `/${name}` || path.startsWith(`/${name}/`)) &&
      !exclude.some((name) => path.startsWith(`/${name}/`));
    assert.deepEqual(paths.filter((path) => !isMeant(path)), []);
    const local = include.flatMap((name) =>
      name.includes(".") || name === "LICENSE"
        ? [`/${name}`]
        : readdirSync(join(root, name), { recursive: true, encoding: "utf8" }).map((file) =>
          `/${name}/${file}`
        )
    );
    const sources = local.filter((path) => path.endsWith(".ts") && isMeant(path));
    assert.deepEqual(paths.filter((path) => path.endsWith(".ts")).sort(), sources.sort());
    for (const [path, data] of published.files) {
      if (!path.endsWith(".ts")) continue;
      const code = data.toString().replace(/^\s*(\/\/|\/?\*).*$/gm, "");
      const bare = /(?:\bfrom |\bimport\()["'](?!\.\.?\/|node:|npm:)[^"']+["']/.exec(code);
      assert.equal(bare, null, `${path} imports what only this repository knows: ${bare}`);
    }
  });

  it("runs a job by one import, with the permissions that README names", async () => {
    const user = new User({ "app.ts": APP }, "cache of permissions");
    const [, , ...words] = promised("deno run --allow-read");
    assert.equal(words.length, 4, words.join(" "));
    const printed = await user.deno(["run", "--no-prompt", ...words]);
    assert.equal(printed, "to ada@example.com\n");
    assert.deepEqual(readdirSync(user.folder).sort(), ["app.ts", "storage"]);
  });

  it("checks names and payloads in the app's code", async () => {
    const user = new User({
      "app.ts": APP,
      "wrong.ts": APP.replace('to: "ada@example.com"', "to: 7"),
    });
    const printed = await user.deno(["check", "app.ts", "wrong.ts"], 1);
    assert.match(printed, /'number' is not assignable to type 'string'/);
    const where = [...printed.matchAll(/^ {4}at file:.*\/(\w+\.ts):/gm)].map(([, file]) => file);
    assert.deepEqual([...new Set(where)], ["wrong.ts"], printed);
  });

  it("has in each of its exports what the repository has", async () => {
    // Importing the program of a child starts it.
    const { "./child": _, ...exports } = config.exports;
    const names = (specifier: string): string =>
      `Object.keys(await import(${JSON.stringify(specifier)})).sort()`;
    const user = new User({
      "names.ts": Object.keys(exports).map((path) =>
        `console.log(JSON.stringify(${names(PACKAGE + path.slice(1))}));\n`
      ).join(""),
    });
    const printed = await user.deno(["run", "-A", "names.ts"]);
    const found = printed.trim().split("\n").map((line) => JSON.parse(line));
    const expected = await Promise.all(
      Object.values(exports).map(async (path) =>
        Object.keys(await import(pathToFileURL(join(root, path)).href)).sort()
      ),
    );
    assert.deepEqual(found, expected);
    const child = await user.deno(["run", "-A", `${PACKAGE}/child`], 2);
    assert.match(child, /serveJobs: only a worker with `processes` starts such a process/);
  });

  it("is a command line, with its exit statuses", async () => {
    const user = new User({ "jobs.ts": JOBS });
    const queue = (status: number, ...args: string[]): Promise<string> =>
      user.deno(["run", "-A", CLI, ...args], status);
    assert.equal(await queue(0, "--version"), `${config.version}\n`);
    assert.match(await queue(2, "queue:wrok"), /Did you mean queue:work\?/);
    assert.equal(await queue(0, "queue:dispatch", "greet", '{"name":"Ada"}'), "dispatched 1 greet\n");
    for (const name of ["boom", "drop"]) await queue(0, "queue:dispatch", name);
    const worked = await queue(0, "queue:work", "--stop-when-empty");
    assert.match(worked, /^hello Ada$/m);
    assert.match(worked, /boom .* FAIL: kaboom$/m);
    assert.match(worked, /drop .* FAIL: not wanted$/m);
    const { failed } = JSON.parse(await queue(0, "queue:failed", "--json"));
    assert.deepEqual(failed.map(({ name }: { name: string }) => name).sort(), ["boom", "drop"]);
    assert.equal(await queue(0, "queue:retry", "2"), "retried 2 boom\n");
    assert.equal(await queue(0, "queue:forget", "3"), "forgotten 3 drop\n");
    assert.match(await queue(1, "queue:forget", "3"), /3/);
    const { total } = JSON.parse(await queue(0, "queue:status", "--json"));
    assert.deepEqual([total.ready, total.failed], [1, 0]);
  });

  it("is that with the permissions that README names", async () => {
    const user = new User({ "jobs.ts": JOBS });
    const words = promised(`deno run --no-prompt `);
    assert.deepEqual(words.slice(-2), [CLI, "queue:work"], "README has a line for queue:work");
    const [, ...flags] = words.slice(0, -2);
    await user.deno([...flags, CLI, "queue:dispatch", "greet", '{"name":"Bob"}']);
    const worked = await user.deno([...flags, CLI, "queue:work", "--stop-when-empty"]);
    assert.match(worked, /^hello Bob$/m);
    assert.doesNotMatch(worked, /NotCapable|--allow-/);
  });

  it("starts its processes though nothing can be downloaded any more", async () => {
    const user = new User({ "jobs.ts": JOBS, "app.ts": SUPERVISOR }, "cache of processes");
    await user.deno(["cache", "app.ts", "jobs.ts"]);
    const printed = await user.deno(["run", "-A", "--cached-only", "app.ts"]);
    assert.equal(printed, "hello Ada\nleft 0 0\n");
  });

  it("starts its processes from the command line", async () => {
    const user = new User({ "jobs.ts": JOBS });
    const queue = (...args: string[]): Promise<string> => user.deno(["run", "-A", CLI, ...args]);
    await queue("queue:dispatch", "crash");
    await queue("queue:dispatch", "greet", '{"name":"Eve"}');
    const worked = await queue("queue:work", "--processes=2", "--stop-when-empty");
    assert.match(worked, /^hello Eve$/m);
    assert.match(worked, /crash .* FAIL: crashed: exit 3$/m);
  });

  it("serves the dashboard, with its script and its style", async () => {
    const user = new User({ "jobs.ts": JOBS });
    const created = await user.deno(["run", "-A", CLI, "queue:dispatch", "greet", '{"name":"Ada"}']);
    assert.match(created, /dispatched 1/);
    const dashboard = await user.start(["run", "-A", CLI, "queue:dashboard", "--port=0", "--json"]);
    try {
      const { url } = JSON.parse(dashboard.line);
      const page = await (await fetch(url)).text();
      assert.match(page, /<title>Queue<\/title>/);
      const linked = [...page.matchAll(/(?:src|href)="(\?get=[^"]+)"/g)].map(([, path]) => path);
      assert.equal(linked.length, 2);
      for (const path of linked) {
        const asset = await fetch(new URL(path.replaceAll("&amp;", "&"), url));
        const text = await asset.text();
        assert.equal(asset.status, 200);
        assert.match(text, /uplot/i, `${path} has uPlot's part, too`);
      }
    } finally {
      assert.equal(await dashboard.stop(), 0);
    }
  });

  it("works on Redis, with the permissions that README names", { skip: noRedis }, async () => {
    const server = await RedisServer.start();
    try {
      const user = new User({ "app.ts": APP, "jobs.ts": JOBS });
      const store = { QUEUE_CONNECTION: "redis", REDIS_URL: server.url, REDIS_PREFIX: "app:" };
      const rights = ["--no-prompt", "--allow-read=storage", "--allow-write=storage", "--allow-env"];
      const net = `--allow-net=127.0.0.1:${server.port}`;
      assert.equal(await user.deno(["run", ...rights, net, "app.ts"], 0, store), "to ada@example.com\n");
      const queue = (...args: string[]): Promise<string> =>
        user.deno(["run", "-A", CLI, ...args], 0, { ...store, QUEUE_FAILED: "redis" });
      await queue("queue:dispatch", "greet", '{"name":"Ada"}', "--priority=-5");
      await queue("queue:dispatch", "boom");
      assert.match(await queue("queue:work", "--processes=2", "--stop-when-empty"), /^hello Ada$/m);
      assert.match(await queue("queue:failed"), /boom .* kaboom$/m);
    } finally {
      await server.stop();
    }
  });

  it("is added to a project by `deno add`", async () => {
    const inProject = (code: string): string => code.replaceAll(PACKAGE, config.name);
    const user = new User({ "app.ts": inProject(APP), "jobs.ts": inProject(JOBS) });
    await user.deno(promised("deno add ").slice(1));
    const { imports } = JSON.parse(readFileSync(join(user.folder, "deno.json"), "utf8"));
    assert.deepEqual(imports, { [config.name]: `${PACKAGE}@^${config.version}` });
    assert.equal(await user.deno(["run", "-A", "--frozen", "app.ts"]), "to ada@example.com\n");
    const queue = (...args: string[]): Promise<string> =>
      user.deno(["run", "-A", "--frozen", `${config.name}/cli`, ...args]);
    await queue("queue:dispatch", "greet", '{"name":"Ada"}');
    assert.match(await queue("queue:work", "--processes=2", "--stop-when-empty"), /^hello Ada$/m);
  });

  it("is installed as a command", async () => {
    const user = new User({ "jobs.ts": JOBS });
    const bin = join(user.folder, "bin");
    mkdirSync(bin);
    symlinkSync(deno, join(bin, "deno"));
    const env = { PATH: `${bin}${delimiter}${process.env.PATH}` };
    const words = promised("deno install ").slice(1);
    await user.deno([...words.slice(0, -1), "--root", user.folder, words.at(-1)!], 0, env);
    const queue = (...args: string[]): Promise<string> => user.run(join(bin, "queue"), args, 0, env);
    assert.equal(await queue("--version"), `${config.version}\n`);
    await queue("queue:dispatch", "greet", '{"name":"Ada"}');
    assert.match(await queue("queue:work", "--stop-when-empty"), /^hello Ada$/m);
    await queue("queue:dispatch", "greet", '{"name":"Eve"}');
    assert.match(await queue("queue:work", "--processes=2", "--stop-when-empty"), /^hello Eve$/m);
  });
});

/** What `deno doc --json` says, as far as it is looked at. */
interface Documentation {
  readonly nodes: Readonly<Record<string, DocumentedModule>>;
}

interface DocumentedModule {
  readonly module_doc?: Comment;
  readonly symbols: readonly { readonly name: string; readonly declarations: readonly Declaration[] }[];
}

interface Comment {
  readonly doc?: string;
  readonly tags?: readonly { readonly kind: string; readonly doc?: string }[];
}

interface Declaration {
  readonly declarationKind: string;
  readonly jsDoc?: Comment;
}

// That there are no slow types, `deno publish` has looked at above: it refuses them. That the examples run,
// `deno task ok doc-examples` looks at.
describe("what JSR's score counts", { skip: noDeno }, () => {
  let modules: readonly (readonly [path: string, module: DocumentedModule])[] = [];

  before(async () => {
    const args = ["doc", "--json", ...Object.values(config.exports)];
    const { why, output } = await run(deno, args, { seconds: 120, output: "keep" });
    assert.equal(why, undefined, output);
    const { nodes } = JSON.parse(output) as Documentation;
    modules = Object.entries(config.exports).map(([path, file]) => {
      const module = nodes[pathToFileURL(join(root, file)).href];
      assert.ok(module, `${path} is documented`);
      return [path, module];
    });
  });

  it("is a module doc of each export, with an example that runs", () => {
    for (const [path, { module_doc: comment = {} }] of modules) {
      assert.ok(comment.doc?.trim(), `${path} says what it is for`);
      const examples = (comment.tags ?? []).filter(({ kind }) => kind === "example").map(({ doc }) =>
        doc ?? ""
      );
      const running = examples.filter((text) => /^```ts$/m.test(text) && text.includes("@x/queue"));
      assert.notEqual(running.length, 0, `${path} has an example that is no \`ts ignore\``);
    }
  });

  it("is a comment on every exported symbol", () => {
    const bare = modules.flatMap(([path, { symbols }]) =>
      symbols.filter(({ declarations }) =>
        declarations.some(({ declarationKind, jsDoc }) => declarationKind === "export" && !jsDoc?.doc?.trim())
      ).map(({ name }) => `${path} ${name}`)
    );
    assert.deepEqual(bare, []);
    assert.ok(modules.reduce((sum, [, { symbols }]) => sum + symbols.length, 0) > 50);
  });

  it("is a readme with examples, and a license", () => {
    assert.match(readFileSync(join(root, "README.md"), "utf8"), /^```ts$/m);
    assert.match(readFileSync(join(root, "LICENSE"), "utf8"), /MIT/);
  });
});
