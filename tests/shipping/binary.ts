/**
 * The binaries, as a user on a server finds them: no runtime, no packages but those of the app, no home. Run by
 * `deno task ok binary`. Those of Deno are tried where DENORT_BIN names a base binary for them.
 *
 * @module
 */
import assert from "node:assert/strict";
import { chmodSync, copyFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { VERSION } from "../../version.ts";
import { newFolder } from "../folder.ts";
import { isAlive } from "../process.ts";
import { freePort, newPrefix, noRedis, RedisServer } from "../redis_server.ts";
import { until } from "../until.ts";
import type { Language } from "./app.ts";
import { type Form, forms, Workshop } from "./forms.ts";
import { HEALTH, type Running, Server, type Variables } from "./server.ts";

const folder = newFolder();
const workshop = new Workshop(folder.path);
let redis: RedisServer | null = null;

before(async () => {
  await workshop.open();
  if (!noRedis) redis = await RedisServer.start();
});

after(async () => {
  await redis?.stop();
  folder.remove();
});

for (const [at, form] of forms(workshop).entries()) {
  // Several at a time, as most of each is waiting; and not all, for a machine of two cores.
  describe(form.name, { concurrency: 3 }, () => {
    const takesModule = form.languages.length > 0;
    const binary = join(folder.path, `queue-${at}`);

    before(async () => {
      if (form.skip) return;
      // To where the server's user may read it, and by a name of the user's own.
      copyFileSync(await form.build(), binary);
      chmodSync(binary, 0o755);
    });

    /** A test on a server of its own, with the app's jobs where the form takes a module. */
    const onServer = (
      sentence: string,
      run: (server: Server) => Promise<void>,
      { store = "SQLite", language = form.languages[0] }: {
        store?: "SQLite" | "Redis";
        language?: Language;
      } = {},
    ): void => {
      it(sentence, { skip: form.skip || (store === "Redis" && noRedis) }, async () => {
        const server = new Server(binary, store === "Redis" ? onRedis() : {});
        try {
          if (language !== undefined) form.bringJobs(server, language);
          await run(server);
        } catch (error) {
          // The test's own error says more than one about its remains.
          await server.end().catch(() => {});
          throw error;
        }
        await server.end();
      });
    };

    onServer("says what it is and what it can do", introduces);
    onServer("refuses what cannot work, with the status that says why", (server) => refuses(server, form));
    if (takesModule) {
      for (const language of form.languages) {
        onServer(`works, retries and forgets, with jobs.${language}`, runsJobs, { language });
      }
      onServer("works, retries and forgets on Redis", runsJobs, { store: "Redis" });
      onServer("stops at SIGTERM", (server) => stops(server, "SIGTERM"));
      onServer("stops at SIGINT, on Redis", (server) => stops(server, "SIGINT"), { store: "Redis" });
      onServer("takes up what a killed worker held", recovers);
      onServer("keeps a crash in its process", isolates);
      onServer("ends its processes when it is killed", leavesNothing);
    } else {
      onServer("works, retries and forgets", runsJobs);
      onServer("works, retries and forgets on Redis", runsJobs, { store: "Redis" });
      onServer("stops at SIGINT", (server) => stops(server, "SIGINT"));
      onServer("takes up on Redis what a killed worker held", recovers, { store: "Redis" });
      onServer("keeps a crash in its process, on Redis", isolates, { store: "Redis" });
      onServer("starts itself for processes that the app asks for", startsItself);
    }
    onServer("serves the dashboard", servesDashboard);
    onServer("serves its metrics", (server) => servesMetrics(server, form));
    onServer("obeys the queue's settings in .env, and nothing else in the folder", ignoresTheFolder);
  });
}

function onRedis(): Variables {
  return { QUEUE_CONNECTION: "redis", REDIS_URL: redis!.url, REDIS_PREFIX: newPrefix() };
}

async function introduces(server: Server): Promise<void> {
  assert.equal(await server.expect(0, ["--version"]), `${VERSION}\n`);
  assert.match(await server.expect(0, ["--help"]), /^ +queue:dispatch /m);
  assert.match(await server.expect(0, ["queue:work", "--help"]), /^ +--stop-when-empty /m);
  assert.match(await server.expect(0, ["queue:completions", "bash"]), /^complete /m);
}

async function refuses(server: Server, form: Form): Promise<void> {
  await server.expect(2, ["queue:wrok"]);
  await server.expect(2, ["queue:work", "--concurrency=many"]);
  await server.expect(2, ["queue:status"], { QUEUE_CONNECTION: "postgres" });
  await server.expect(1, ["queue:status"]);
  await server.expect(1, ["queue:status"], {
    QUEUE_CONNECTION: "redis",
    REDIS_URL: `redis://127.0.0.1:${await freePort()}`,
  });
  await server.expect(0, ["queue:dispatch", "bill", "7"]);
  await server.expect(1, ["queue:retry", "99"]);
  if (form.languages.length === 0) return;
  await server.expect(2, ["queue:work", "--jobs=elsewhere.ts"]);
  const broken: [text: string, why: RegExp, more: string[]][] = [
    ["export default {", /^queue: jobs module .*broken\.js: failed to load: /, []],
    ['import "nobody-made-this"; export default { a() {} };', /nobody-made-this/, ["--processes=1"]],
    ["export default 7;", /its default export is a number/, []],
  ];
  for (const [text, why, more] of broken) {
    server.write({ "broken.js": text });
    const { status, out, err } = await server.run(["queue:work", "--jobs=broken.js", ...more]);
    assert.equal(status, 2, `${text}: ${out}${err}`);
    assert.match(err, why);
    assert.equal(err.split("\n").length, 2, `one line: ${err}`);
  }
}

async function runsJobs(server: Server): Promise<void> {
  await dispatch(server, "greet", "Ada & Bob");
  assert.deepEqual(server.lines("notes.txt"), [], "a dispatch alone runs nothing");
  for (const order of ["7", "8"]) await dispatch(server, "bill", order);
  await dispatch(server, "refuse", "");
  const worked = await server.expect(0, ["queue:work", "--stop-when-empty"]);
  assert.match(worked, / greet .* DONE$/m);
  assert.deepEqual(server.lines("notes.txt"), ["greet Ada &amp; Bob 1"]);

  const { failed } = await server.json("queue:failed");
  const told = failed.map(({ name, payload, error, attempts }: Record<string, unknown>) => [
    ...[name, payload, error, attempts],
  ]);
  assert.deepEqual(told.sort(), [
    ["bill", "7", "order 7 has no customer", 1],
    ["bill", "8", "order 8 has no customer", 1],
    ["refuse", "", "nobody wants it", 1],
  ]);

  server.write({ mended: "" });
  const { id } = failed.find(({ payload }: { payload: string }) => payload === "7");
  await server.expect(0, ["queue:retry", id]);
  await server.expect(0, ["queue:forget", "--error=nobody wants it"]);
  await server.expect(0, ["queue:work", "--stop-when-empty"], { HOME: "/nonexistent", PATH: "" });
  assert.deepEqual(server.lines("notes.txt").slice(1), ["bill 7 1"]);
  const { total } = await server.json("queue:status");
  assert.deepEqual([total.ready, total.delayed, total.reserved, total.failed], [0, 0, 0, 1]);
  await server.expect(0, ["queue:forget", "all"]);
  await server.expect(0, HEALTH);
}

async function stops(server: Server, signal: NodeJS.Signals): Promise<void> {
  // A job that ends within the grace.
  await dispatch(server, "wait", "released");
  const patient = await working(server, ["--grace=60"]);
  const ended = patient.end(signal);
  await patient.says(/^stopping: waiting up to 1 m for 1 running job/m);
  server.write({ released: "" });
  assert.equal(await ended, 0, patient.err);
  assert.match(patient.out, / wait .* DONE\n$/);

  // And one that does not: it is handed back, and its attempt is not spent.
  await dispatch(server, "wait", "never");
  const hasty = await working(server, ["--grace=100ms"]);
  assert.equal(await hasty.end(signal), 0, hasty.err);
  const { total } = await server.json("queue:status");
  assert.deepEqual([total.ready, total.reserved], [1, 0]);
  server.write({ never: "" });
  await server.expect(0, ["queue:work", "--stop-when-empty"]);
  assert.deepEqual(
    said(server, "began"),
    ["1", "1", "1"],
    "the third one is the second job's first attempt still",
  );
}

async function recovers(server: Server): Promise<void> {
  const lease = { QUEUE_RETRY_AFTER: "1" };
  await dispatch(server, "wait", "released");
  const first = await working(server, [], lease);
  assert.equal(await first.end("SIGKILL"), "SIGKILL");
  server.write({ released: "" });
  const second = server.start(["queue:work"], lease);
  await second.says(/ wait .* DONE$/m);
  assert.equal(await second.end("SIGTERM"), 0, second.err);
  assert.deepEqual(said(server, "ended"), ["2"], "the attempt of the one that was killed is spent");
}

async function isolates(server: Server): Promise<void> {
  for (const name of ["crash", "spin"]) await dispatch(server, name, "");
  for (const whom of ["Ada", "Bob"]) await dispatch(server, "greet", whom);
  const { status, out, err } = await server.run(["queue:work", "--processes=2", "--stop-when-empty"]);
  assert.equal(status, 0, err);
  assert.match(err, /^queue: process \d+ crashed: exit 3, with crash /m);
  assert.equal(out.match(/ greet .* DONE$/gm)?.length, 2, out);
  assert.deepEqual(server.lines("notes.txt").sort(), ["greet Ada 1", "greet Bob 1"]);
  const { failed } = await server.json("queue:failed");
  assert.deepEqual(
    failed.map(({ name, error }: Record<string, string>) => `${name} ${error}`).sort(),
    ["crash crashed: exit 3", "spin timed out after 0.1 s"],
  );
}

async function leavesNothing(server: Server): Promise<void> {
  for (const file of ["a", "b"]) await dispatch(server, "wait", file);
  const worker = server.start(["queue:work", "--processes=2"]);
  await until(() => said(server, "began").length === 2, "both jobs to begin");
  const pids = server.lines("notes.txt").map((line) => Number(line.split(" ")[3]));
  assert.equal(new Set(pids).size, 2);
  await worker.end("SIGKILL");
  await until(() => !pids.some(isAlive), "its processes to end");
}

async function servesDashboard(server: Server): Promise<void> {
  await server.expect(0, ["queue:dispatch", "greet", "<Ada>", "--delay=1h"]);
  const running = server.start(["queue:dashboard", "--port=0", "--json"]);
  const { url } = JSON.parse((await running.says(/^\{.*\}$/m))[0]);
  const page = await (await fetch(url)).text();
  assert.match(page, /<title>Queue<\/title>/);
  const assets = [...page.matchAll(/(?:src|href)="(\?get=[^"]+)"/g)].map(([, path]) =>
    path.replaceAll("&amp;", "&")
  );
  assert.deepEqual(assets.map((path) => /get=([\w.]+)/.exec(path)![1]).sort(), ["app.js", "style.css"]);
  for (const path of assets) {
    const asset = await fetch(new URL(path, url));
    assert.equal(asset.status, 200, path);
    assert.match(asset.headers.get("content-type")!, path.includes(".js") ? /javascript/ : /css/);
    assert.ok((await asset.text()).length > 10_000, path);
  }
  const { rows } = await (await fetch(new URL("?get=delayed", url))).json();
  assert.deepEqual(rows.map(({ name }: { name: string }) => name), ["greet"]);
  assert.equal(await running.end("SIGTERM"), 0, running.err);
}

async function servesMetrics(server: Server, form: Form): Promise<void> {
  await dispatch(server, "greet", "Ada");
  const running = server.start(["queue:work", "--metrics=0"]);
  const [, url] = await running.says(/^metrics on (\S+)$/m);
  await running.says(/ greet .* DONE$/m);
  const text = await (await fetch(url)).text();
  assert.match(text, /^queue_attempts_total\{queue="default",name="greet",outcome="completed"\} 1$/m);
  assert.equal((await fetch(new URL("health", url))).status, 200);
  assert.equal(await running.end("SIGTERM"), 0, running.err);

  // LogTape and the API of OpenTelemetry are in the command line; the app has not installed them.
  await dispatch(server, "greet", "Bob");
  const logging = ["queue:work", "--stop-when-empty", "--log=json"];
  if (form.languages.length === 0) return void await server.expect(2, logging);
  const logged = await server.expect(0, logging, { QUEUE_OTEL: "1" });
  const events = logged.trim().split("\n").map((line) => JSON.parse(line).properties.event);
  assert.deepEqual(events, ["workerStarted", "reserved", "started", "completed", "workerStopped"]);
}

/** What runtimes and their package managers would read in a working folder. */
const FOLDER = {
  "bunfig.toml": 'preload = ["./preloaded.ts"]\n[run]\nbun = true\n[test]\npreload = ["./preloaded.ts"]\n',
  "tsconfig.json": JSON.stringify({
    compilerOptions: {
      baseUrl: ".",
      paths: { "escape-html": ["./preloaded.ts"], "./lib/*": ["./preloaded.ts"], "*": ["./preloaded.ts"] },
      jsx: "react-jsx",
      jsxImportSource: "nobody-made-this",
    },
  }),
  "deno.json": JSON.stringify({
    imports: { "escape-html": "./preloaded.ts", "node:fs": "./preloaded.ts" },
    preload: ["./preloaded.ts"],
    lock: "nowhere.lock",
  }),
  "package.json": JSON.stringify({
    name: "app",
    type: "commonjs",
    main: "preloaded.ts",
    exports: "./preloaded.ts",
    workspaces: ["nowhere/*"],
    dependencies: { "nobody-made-this": "1.0.0" },
    scripts: { prestart: "exit 1", "queue:work": "exit 1" },
  }),
  ".npmrc": "registry=http://127.0.0.1:1/\n",
  "preloaded.ts": 'import { writeFileSync } from "node:fs";\nwriteFileSync("preloaded", "");\n',
  "node_modules/commander/index.js": 'throw new Error("the folder\'s own commander");\n',
  "node_modules/commander/package.json": '{ "name": "commander", "version": "1.0.0", "main": "index.js" }\n',
};

/** What an app's .env may have for others. */
const STRANGE = {
  NODE_OPTIONS: "--require=./preloaded.ts",
  NODE_ENV: "test",
  BUN_OPTIONS: "--preload=./preloaded.ts",
  BUN_BE_BUN: "1",
  BUN_INSPECT: "127.0.0.1:0",
  DENO_TLS_CA_STORE: "nowhere",
  LD_PRELOAD: "./preloaded.so",
  SECRET: "of the app",
};

async function ignoresTheFolder(server: Server): Promise<void> {
  const strange = Object.entries(STRANGE).map((pair) => `${pair.join("=")}\n`).join("");
  server.write({
    ...FOLDER,
    ".env": `${strange}QUEUE_WORKERS=3\n`,
    ".env.local": strange,
    ".env.production": strange,
  });
  assert.equal(await server.expect(0, ["--version"]), `${VERSION}\n`);
  for (const more of [[], ["--processes=1", "--concurrency=3"]]) {
    await dispatch(server, "tell", "");
    await dispatch(server, "greet", "<Ada>");
    const worked = await server.expect(0, ["queue:work", "--stop-when-empty", ...more]);
    assert.match(worked, /^working every queue · concurrency 3 · /, "which .env says");
    assert.match(worked, / greet .* DONE$/m);
    const told = JSON.parse(server.lines("told.json").join(""));
    assert.deepEqual(Object.keys(STRANGE).filter((name) => name in told), [], "the job's environment");
    assert.equal(told.HOME, server.environment.HOME);
    assert.equal(server.lines("notes.txt").at(-1), "greet &lt;Ada&gt; 1");
  }
  assert.equal(server.has("preloaded"), false);

  // Nor do such files matter that nobody could read.
  server.write({ "tsconfig.json": "{{{", "bunfig.toml": "{{{", "deno.json": "{{{", "package.json": "{{{" });
  await dispatch(server, "greet", "Bob");
  await server.expect(0, ["queue:work", "--stop-when-empty"]);
  assert.equal(server.lines("notes.txt").at(-1), "greet Bob 1");
}

async function startsItself(server: Server): Promise<void> {
  await dispatch(server, "crash", "");
  await dispatch(server, "greet", "Ada");
  const { status, err } = await server.run(["work-by-program"]);
  assert.equal(status, 0, err);
  assert.deepEqual(server.lines("notes.txt"), ["greet Ada 1"]);
  assert.equal((await server.json("queue:failed")).failed[0].error, "crashed: exit 3");

  // Its command line may begin with words of the app's own.
  await dispatch(server, "greet", "Bob");
  const worked = await server.run(["queue", "queue:work", "--processes=1", "--stop-when-empty"]);
  assert.equal(worked.status, 0, worked.err);
  assert.equal(server.lines("notes.txt").at(-1), "greet Bob 1");

  const refused = await server.run(["work-by-module"]);
  assert.equal(refused.status, 1);
  assert.match(refused.err, /processes\.module: a compiled program has no runtime to start it with/);
}

/** Dispatches a job, and returns its id. */
async function dispatch(server: Server, name: string, payload: string): Promise<string> {
  return (await server.json("queue:dispatch", name, payload)).id;
}

/** A worker that has begun another `wait`. */
async function working(server: Server, args: readonly string[], variables?: Variables): Promise<Running> {
  const before = said(server, "began").length;
  const worker = server.start(["queue:work", ...args], variables);
  await until(() => said(server, "began").length > before, "the job to begin");
  return worker;
}

/** In which attempts `wait` said a word. */
function said(server: Server, word: string): string[] {
  return server.lines("notes.txt").map((line) => line.split(" ")).filter((line) => line[1] === word)
    .map((line) => line[2]);
}
