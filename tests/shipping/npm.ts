/** The npm package, as `deno task pack` makes it, in empty projects of npm, Bun and Deno. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { basename, delimiter, dirname, join, sep } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { run } from "../../scripts/command.ts";
import { faults, type Manifest, manifest } from "../../scripts/pack.ts";
import { findRuntime, root } from "../../scripts/runtimes.ts";
import { VERSION } from "../../version.ts";
import { newFolder } from "../folder.ts";
import { noRedis, RedisServer } from "../redis_server.ts";
import { type Command, Place } from "./place.ts";
import { tour, TYPED_JOBS } from "./tour.ts";

/** Where a runtime is. */
function path(name: "deno" | "bun"): string {
  const found = findRuntime(name);
  if (typeof found === "string") throw new Error(found);
  return found.path;
}

/** What a project of TypeScript has besides, and a bundler that leaves `import.meta` as it is. */
const TOOLS = ["typescript@7.0.2", "@types/node@24.19.4", "esbuild@0.27.0"];

/** npm is beside the Node that is on the PATH, and is run by the one that runs this. */
const NODE_PATH = [dirname(process.execPath), process.env.PATH].join(delimiter);

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

const config: { exports: Record<string, string> } = JSON.parse(readFileSync(join(root, "deno.json"), "utf8"));

/** The modules that an app imports. `./child` is a program. */
const MODULES = Object.entries(config.exports).filter(([name]) => name !== "./child").map(([name, file]) => ({
  name: `@x/queue${name.slice(1)}`,
  file,
}));

/** Prints what each module exports. */
const EXPORTS = `
const names = ${JSON.stringify(MODULES.map(({ name }) => name))};
const modules = await Promise.all(names.map((name) => import(name)));
console.log(JSON.stringify(modules.map((module) => Object.keys(module).sort())));
`;

/** Runs a job in this process, and one in another. */
const APP = `
import { type Job, Queue } from "@x/queue";
import apart from "./jobs.ts";

const sent: string[] = [];
const jobs = {
  ...apart,
  mail: (job: Job<{ to: string }>) => void sent.push(job.data.to),
};
const queue = new Queue({ database: "app.sqlite", jobs });
await queue.dispatch("mail", { to: "ada@example.com" });
await queue.work({ stopWhenEmpty: true });
await queue.dispatch("greet", { name: "Eve" });
await queue.work({ stopWhenEmpty: true, processes: { count: 1, module: "./jobs.ts" } });
await queue.close();
console.log(sent.join());
`;

/** What `tsc` must see in the types, and what it must refuse. */
const TYPED = `
import { Queue } from "@x/queue";
import { main } from "@x/queue/cli";
import { dashboard } from "@x/queue/dashboard";
import { type Driver, type Reserved } from "@x/queue/driver";
import { SqliteDriver } from "@x/queue/drivers/sqlite";
import { RedisDriver } from "@x/queue/drivers/redis";
import { logEvents } from "@x/queue/logs";
import { metrics } from "@x/queue/metrics";
import jobs from "./jobs.ts";

const queue = new Queue({ database: ":memory:", jobs });
await queue.dispatch("greet", { name: "Ada" });
// @ts-expect-error no job has this name
await queue.dispatch("great", { name: "Ada" });
// @ts-expect-error nor does its payload have this
await queue.dispatch("greet", { nome: "Ada" });
const driver: Driver = new SqliteDriver({ database: ":memory:" });
const answer: Response = await metrics(queue).handler(new Request("http://127.0.0.1/metrics"));
const page: Response = await dashboard(queue)(new Request("http://127.0.0.1/queue"));
const status: number = await main(["queue:status"], jobs);
export { answer, driver, logEvents, page, RedisDriver, type Reserved, status };
`;

/** An app that its author makes one file of. */
const BUNDLED = `
import { Queue } from "@x/queue";
import { main } from "@x/queue/cli";
import process from "node:process";

const jobs = { greet: () => console.log("hello") };

async function apart(): Promise<void> {
  const queue = new Queue({ database: ":memory:", jobs });
  await queue.dispatch("greet");
  await queue.work({ stopWhenEmpty: true, processes: { count: 1, module: "./jobs.ts" } })
    .catch((error) => console.log(error.message));
  await queue.close();
}

if (process.argv[2] === "apart") apart();
else main(process.argv.slice(2), jobs).then((status) => process.exit(status));
`;

const TSCONFIG = JSON.stringify({
  compilerOptions: {
    strict: true,
    target: "es2023",
    module: "nodenext",
    moduleResolution: "nodenext",
    types: ["node"],
    skipLibCheck: false,
    noEmit: true,
    allowImportingTsExtensions: true,
  },
  files: ["app.ts", "jobs.ts", "typed.ts"],
});

/** Without `node`, so that what is said to run on Bun does. */
function pathOfBun(folder: string): string {
  mkdirSync(folder);
  for (const program of ["sh", "env"]) {
    const { stdout } = spawnSync("sh", ["-c", `command -v ${program}`], { encoding: "utf8" });
    symlinkSync(stdout.trim(), join(folder, program));
  }
  symlinkSync(path("bun"), join(folder, "bun"));
  return folder;
}

const NODE: Command = [process.execPath];
const DENO: Command = [path("deno"), "run", "-A"];

/** The command line, where npm and Bun link to it. */
const COMMAND: string = join("node_modules", ".bin", "queue");

describe("the npm package", { concurrency: true }, () => {
  const folder = newFolder();
  const quiet = { npm_config_audit: "false", npm_config_fund: "false", npm_config_update_notifier: "false" };
  const node = new Place(NODE_PATH, quiet);
  const typed = new Place(NODE_PATH, quiet);
  const bun = new Place(pathOfBun(join(folder.path, "bin")));
  const denos = new Place("");
  const places = [node, typed, bun, denos];
  let tarball = "";
  let tools: Promise<unknown>;

  before(async () => {
    const args = ["task", "pack", "--allow-dirty", "--output", folder.path];
    const { why, output } = await run(path("deno"), args, { seconds: 120, output: "keep" });
    assert.equal(why, undefined, output);
    tarball = output.trim().split("\n").at(-1)!;
    for (const place of places) place.write({ "jobs.ts": TYPED_JOBS, "app.ts": APP, "exports.ts": EXPORTS });
    const byNpm = async (): Promise<void> => {
      await node.run(["npm", "install", tarball]);
      await node.run(["npm", "pkg", "set", "type=module"]);
    };
    await Promise.all([byNpm(), bun.run(["bun", "add", tarball])]);
    for (const place of [typed, denos]) {
      for (const name of ["package.json", "node_modules"]) {
        cpSync(join(node.path, name), join(place.path, name), { recursive: true, verbatimSymlinks: true });
      }
    }
    tools = typed.run(["npm", "install", "--save-dev", ...TOOLS]);
    tools.catch(() => {}); // who waits for it hears of it
  });
  after(async () => {
    for (const place of places) await place.remove();
    folder.remove();
  });

  it("says what npm must know of it, and has what it names", () => {
    const installed = join(node.path, "node_modules", "@x", "queue");
    const { bin, dependencies, description, devDependencies, engines, peerDependencies, scripts, version } =
      readManifest(installed);
    const packages = readManifest(root);
    assert.equal(basename(tarball), `x-queue-${VERSION}.tgz`);
    assert.equal(version, VERSION);
    assert.deepEqual(
      { dependencies, description, engines, peerDependencies },
      {
        dependencies: packages.dependencies,
        description: packages.description,
        engines: packages.engines,
        peerDependencies: packages.peerDependencies,
      },
    );
    assert.deepEqual(bin, { queue: "./cli.js" });
    assert.deepEqual([devDependencies, scripts], [undefined, undefined]);
    assert.deepEqual(faults(installed), []);
    const optional = readdirSync(join(node.path, "node_modules")).filter((name) =>
      /logtape|telemetry/.test(name)
    );
    assert.deepEqual(optional, [], "what is optional is not installed");
    const files = readdirSync(installed, { recursive: true, encoding: "utf8" }).map((name) =>
      name.split(sep)[0]
    );
    assert.deepEqual(
      [...new Set(files)].sort(),
      [
        ...[
          "CHANGELOG.md",
          "LICENSE",
          "README.md",
          "cli",
          "core",
          "dashboard",
          "drivers",
          "metrics",
          "package.json",
        ],
        ...["cli", "dashboard", "logs", "metrics", "mod"].flatMap((name) => [`${name}.d.ts`, `${name}.js`]),
        "version.js",
      ].sort(),
    );
  });

  it("is refused where it could not work", () => {
    const packed = readManifest(join(node.path, "node_modules", "@x", "queue"));
    const packages = readManifest(root);
    assert.throws(
      () => manifest(packed, { ...packages, version: "9.9.9" }),
      /version: deno\.json has .*, and package\.json 9\.9\.9/,
    );
    const { ioredis: _, ...dependencies } = packages.dependencies!;
    assert.throws(
      () => manifest(packed, { ...packages, dependencies }),
      /no dependency in package\.json: ioredis/,
    );

    const broken = join(folder.path, "broken");
    cpSync(join(node.path, "node_modules", "@x", "queue"), broken, { recursive: true });
    for (const name of ["cli.js", "metrics.d.ts", join("core", "job.d.ts")]) rmSync(join(broken, name));
    const found = faults(broken).join("\n");
    assert.match(found, /package\.json names \.\/cli\.js, which is not there/);
    assert.match(found, /package\.json names \.\/metrics\.d\.ts, which is not there/);
    assert.match(found, /mod\.d\.ts needs the types of core\/job\.d\.ts, which has none/);
  });

  const runs: readonly (readonly [string, Place, Command])[] = [
    ["Node", node, NODE],
    ["Bun", bun, ["bun"]],
    ["Deno", denos, DENO],
  ];

  for (const [name, place, runtime] of runs) {
    it(`is imported by ${name}, and runs jobs there`, async () => {
      const { stdout } = await place.run([...runtime, "exports.ts"]);
      const sources = MODULES.map(({ file }) => import(pathToFileURL(join(root, file)).href));
      const expected = (await Promise.all(sources)).map((module) => Object.keys(module).sort());
      assert.deepEqual(JSON.parse(stdout), expected);
      assert.equal((await place.run([...runtime, "app.ts"])).stdout, "ada@example.com\n");
      assert.equal(place.read("Eve.txt"), `${name}\n`);
    });
  }

  it("has a command line on Node", () => tour(node, [COMMAND], "Node"));

  it("is started by npx, by bunx without Node, and by Deno", async () => {
    const starters: readonly [Place, string, ...Command][] = [
      [node, "Node", "npx", "queue"],
      [bun, "Bun", "bun", "x", "queue"],
      [denos, "Deno", ...DENO, "npm:@x/queue"],
    ];
    await Promise.all(starters.map(async ([place, name, ...queue]) => {
      const more = ["--database=x.sqlite"];
      await place.run([...queue, "queue:dispatch", "greet", '{"name":"Ida"}', ...more]);
      await place.run([...queue, "queue:work", "--processes=2", "--stop-when-empty", ...more]);
      assert.equal(place.read("Ida.txt"), `${name}\n`);
      await place.run([...queue, "queue:work", "--jobs=nowhere.ts", ...more], 2);
    }));
  });

  it("is required by CommonJS", async () => {
    node.write({ "app.cjs": 'console.log(typeof require("@x/queue").Queue);' });
    assert.equal((await node.run([...NODE, "app.cjs"])).stdout, "function\n");
  });

  it("works with Redis", { skip: noRedis }, async () => {
    const server = await RedisServer.start();
    try {
      const env = { QUEUE_CONNECTION: "redis", QUEUE_FAILED: "redis", REDIS_URL: server.url };
      await node.run([COMMAND, "queue:dispatch", "greet", '{"name":"Ray"}'], 0, env);
      await node.run([COMMAND, "queue:work", "--stop-when-empty"], 0, env);
      assert.equal(node.read("Ray.txt"), "Node\n");
    } finally {
      await server.stop();
    }
  });

  it("has types, for moduleResolution nodenext", async () => {
    await tools;
    typed.write({ "typed.ts": TYPED, "tsconfig.json": TSCONFIG });
    await typed.run([join("node_modules", ".bin", "tsc")]);
  });

  it("goes into one file with an app, by bundlers that know of import.meta.main and by others", async () => {
    await tools;
    typed.write({ "bundled.ts": BUNDLED });
    const esbuild = [
      join("node_modules", ".bin", "esbuild"),
      "bundled.ts",
      "--bundle",
      "--platform=node",
    ] as const;
    await Promise.all([
      // Its warnings are of `import.meta`, which CommonJS has not, and Redis is not used.
      typed.run([...esbuild, "--format=cjs", "--outfile=out.cjs", "--log-level=error"]),
      typed.run([...esbuild, "--format=esm", "--outfile=out.mjs", "--external:ioredis"]),
      typed.run([path("deno"), "bundle", "--output=out-deno.mjs", "bundled.ts"]),
    ]);
    const bundles = [[...NODE, "out.cjs"], [...NODE, "out.mjs"], [...DENO, "out-deno.mjs"]] as const;
    await Promise.all(bundles.map(async ([program, ...args], at) => {
      const app = [program, ...args] as const;
      const more = [`--database=${at}.sqlite`];
      const dispatched = await typed.run([...app, "queue:dispatch", "greet", ...more]);
      assert.equal(dispatched.stdout, "dispatched 1 greet\n", "once, by the app alone");
      const { stdout } = await typed.run([
        ...app,
        "queue:work",
        "--processes=2",
        "--stop-when-empty",
        ...more,
      ]);
      assert.match(stdout, /^hello$/m);
      assert.match(
        (await typed.run([...app, "apart"])).stdout,
        /bundled into one file .* expected processes\.program/,
      );
    }));
  });
});
