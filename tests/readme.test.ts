/** Keeps README.md, and the map of the house in ARCHITECTURE.md, true. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { describe, it, test } from "node:test";
import { pathToFileURL } from "node:url";
import { readSettings } from "../core/config.ts";
import { type Jobs, Queue, QueueError, VARIABLES } from "../mod.ts";
import { VERSION } from "../version.ts";
import { command as commandLine } from "./command_line.ts";
import {
  allBlocks,
  blocks,
  outside,
  read,
  ROOT,
  section as sectionOf,
  table,
  timeless,
  url,
  words,
} from "./documents.ts";
import { inFolder } from "./folder.ts";
import { noRedis, RedisServer } from "./redis_server.ts";
import { until } from "./until.ts";

const README = read("README.md");
const isDeno = process.versions.deno !== undefined;

function section(title: string): string {
  return sectionOf(README, title);
}

/** The one block of a language in a section that has this text in it. */
function blockOf(title: string, language: string, holds: string): string {
  const found = blocks(section(title), language).filter((code) => code.includes(holds));
  assert.equal(found.length, 1, `one block of ${title} has ${holds}`);
  return found[0];
}

/** The blocks of README, by what is done with them: each is run, or compared. */
const EXAMPLES = blocks(README, "ts").filter((code) => code.includes("await "));
const PROGRAM = [
  blockOf("Command line", "ts", "export default jobs"),
  blockOf("Command line", "ts ignore", "await main("),
  blockOf("Command line", "console", "queue:work"),
];
const RIGHTS = blockOf("Install", "sh", " app.ts");
const ALARM = blockOf("Command line", "sh", "queue:monitor");
const NIGHT = blockOf("Failed jobs", "sh", "queue:retry");
const MOUNTS = blockOf("Dashboard", "ts ignore", "toNodeHandler");
const CLIENT = blockOf("Drivers", "ts ignore", "createClient");
const TRACES = blockOf("Metrics, health, traces and logs", "ts ignore", "openTelemetry");
const REDIS = blockOf("Drivers", "sh", "REDIS_URL=");
const LIFE = blockOf("A job's life", "", "dispatch");

const TOKEN = "correct-horse-battery";

interface Ended {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a file on the runtime that runs this, with none of its settings. */
function run(args: readonly string[], cwd: string, rights: readonly string[] = ["-A"]): Promise<Ended> {
  const env: Record<string, string> = { NODE_NO_WARNINGS: "1", NO_COLOR: "1" };
  for (const name of ["PATH", "HOME", "DENO_DIR", "TMPDIR"]) {
    const value = process.env[name];
    if (value !== undefined) env[name] = value;
  }
  const before = isDeno ? ["run", "--no-check", `--config=${join(ROOT, "deno.json")}`, ...rights] : [];
  const child = spawn(process.execPath, [...before, ...args], {
    cwd,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "", stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => stdout += text);
  child.stderr.setEncoding("utf8").on("data", (text: string) => stderr += text);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (status) => resolve({ status, stdout, stderr }));
  });
}

/** What the command line says of itself: the long options of each command, by its name. */
async function help(): Promise<Map<string, string[]>> {
  const names = [
    ...["work", "retry", "forget", "failed", "status", "monitor", "dispatch"],
    ...["pause", "resume", "restart", "cancel", "show", "workers", "doctor"],
    ...["flush", "prune-failed", "clear", "completions", "dashboard"],
  ].map((name) => `queue:${name}`);
  return await inFolder(async (cwd) => {
    const program = `import { main } from ${JSON.stringify(url("cli.ts"))};
      for (const name of ["", ...${JSON.stringify(names)}]) {
        await main(name === "" ? ["--help"] : [name, "--help"]);
        console.log("\\u0000");
      }`;
    writeFileSync(join(cwd, "help.mjs"), program);
    const { status, stdout, stderr } = await run(["help.mjs"], cwd);
    assert.equal(status, 0, stderr);
    const [all, ...each] = stdout.split("\u0000");
    const listed = [...all.matchAll(/^ {2}(queue:[\w-]+)/gm)].map(([, name]) => name);
    assert.deepEqual(listed.sort(), [...names].sort(), "the commands that there are");
    return new Map(names.map((name, at) => {
      const options = each[at].matchAll(/^ {2}(?:-\w, )?--([\w-]+)/gm);
      return [name, [...options].map(([, option]) => option)];
    }));
  });
}

describe("the command line in README", () => {
  it("has the commands and the options that there are, and no others", async () => {
    const commands = await help();
    const everywhere = ["database", "json", "help"];
    const rows = table(section("Command line"), "command");
    const listed = new Map(
      rows.flatMap(([names, options]) =>
        [...names.matchAll(/queue:[\w-]+/g)].map(([name]) => {
          const own = [...options.matchAll(/--([\w-]+)/g)].map(([, option]) => option);
          // It prints a script, and opens no store.
          const besides = name === "queue:completions" ? ["help"] : everywhere;
          return [name, [...own, ...besides].sort()] as const;
        })
      ),
    );
    for (const [name, options] of commands) {
      // The text below the table says where --jobs comes from.
      assert.deepEqual(listed.get(name), options.filter((option) => option !== "jobs").sort(), name);
    }
    assert.equal(listed.size, commands.size);
    const shapes = table(section("Command line"), "`--json` of").flatMap(([names]) =>
      [...names.matchAll(/queue:[\w-]+/g)].map(([name]) => name)
    );
    const withJson = [...commands].filter(([, options]) => options.includes("json")).map(([name]) => name);
    assert.deepEqual(shapes.sort(), withJson.sort(), "what --json prints is said of each");

    const lines = README.split("\n").filter((line) => !line.startsWith("|"));
    const typed = lines.flatMap((line) => [...line.matchAll(/(queue:[\w-]+)([^`]*)/g)]);
    assert.ok(typed.length > 10, "some are typed outside of the table, too");
    for (const [line, name, rest] of typed) {
      assert.ok(commands.has(name), line);
      for (const [, option] of rest.matchAll(/--([\w-]+)/g)) {
        assert.ok(commands.get(name)!.includes(option), line);
      }
    }
  });

  it("prints what the transcript shows", () =>
    inFolder(async (cwd) => {
      const [jobs, queue, transcript] = PROGRAM;
      writeFileSync(join(cwd, "package.json"), '{ "type": "module" }');
      writeFileSync(join(cwd, "jobs.ts"), outside(jobs));
      writeFileSync(join(cwd, "queue.ts"), outside(queue));

      const steps = transcript.split(/^\$ deno run -A /m).slice(1).map((step) => {
        const [command, ...shown] = step.split("\n");
        return { command, shown: shown.join("\n") };
      });
      assert.ok(steps.length > 5);
      for (const { command, shown } of steps) {
        const { status, stdout, stderr } = await run(words(command), cwd);
        assert.equal(status, 0, `${command}: ${stderr}`);
        assert.equal(timeless(stdout), timeless(shown), command);
      }
    }));

  it("wakes somebody where jobs wait that no worker serves", () =>
    inFolder(async (cwd) => {
      const [line, otherwise] = ALARM.trim().replace("deno run -A queue.ts", "queue").split(
        " >/dev/null || ",
      );
      assert.match(otherwise, /^[\w-]+$/, "a program to call");
      const database = join(cwd, "queue.sqlite");
      const queue = new Queue({ jobs: { mail: () => {} }, database, env: {} });
      await queue.open();
      const look = () => commandLine(line, {}, [`--database=${database}`]);
      assert.equal((await look()).status, 0);
      await queue.dispatch("mail");
      const { status, errors } = await look();
      assert.equal(status, 1);
      assert.match(errors, /no worker/);
      await queue.close();
    }));

  it("repairs at night what it says", () =>
    inFolder(async (cwd) => {
      const database = join(cwd, "queue.sqlite");
      const jobs = {
        mail: () => {
          throw new Error("upstream 503");
        },
      };
      const queue = new Queue({ jobs, database, env: {}, tries: 1, log: { warn() {}, error() {} } });
      const at = { queue: "mail" };
      await queue.dispatchMany([["mail", 1, at], ["mail", 2, at], ["mail", 3]]);
      while (await queue.workOnce());
      await queue.dispatch("mail", 4, { queue: "mail" });

      const typed = NIGHT.trimEnd().split("\n").map((line) => line.split(/ +# /)[0]);
      const printed: string[] = [];
      for (const line of typed) {
        const { out } = await commandLine(line, {}, [`--database=${database}`]);
        printed.push(out.trim().split("\n").at(-1)!);
      }
      assert.match(printed[0], /^ 1 .*upstream 503$/, "the lowest number comes last");
      assert.match(printed[1], /^ 2 .*upstream 503$/, "two in that queue, of which nothing is changed");
      assert.equal(printed[2], "retried 2 mail");
      assert.equal(printed[3], "", "no report failed");
      assert.equal(printed[4], "removed 3 waiting jobs of mail");
      assert.deepEqual([await queue.countFailed(), await queue.waiting()], [1, 0]);
      await queue.close();
    }));
});

describe("the examples in README", () => {
  it("are all run", () => {
    const here = [...EXAMPLES, ...PROGRAM, RIGHTS, ALARM, NIGHT, MOUNTS, CLIENT, TRACES, REDIS, LIFE];
    // `deno task ok` runs the demo, and the suite by the very command; tests/shipping/jsr.ts what comes from JSR.
    // And tests/shipping/binary.ts and compile.ts build the binaries.
    const elsewhere = blocks(README, "sh").filter((code) =>
      code.trim().split("\n").every((line) =>
        /^npx -y deno@2 task (demo|test)\b| jsr:@x\/queue|^deno task compile|^(bun build|deno compile) /.test(
          line,
        )
      )
    );
    assert.equal(elsewhere.length, 5);
    assert.deepEqual(
      allBlocks(README).map(({ code }) => code).filter((code) => ![...here, ...elsewhere].includes(code)),
      [],
    );
  });

  it("are several, and each is about this package", () => {
    assert.ok(EXAMPLES.length >= 5);
    for (const code of EXAMPLES) assert.match(code, /from "@x\/queue"/);
  });

  it("show a job's life as ARCHITECTURE does", () => {
    assert.ok(blocks(sectionOf(read("ARCHITECTURE.md"), "The states"), "").includes(LIFE));
  });

  it("mount the dashboard", () =>
    inFolder(async (cwd) => {
      const file = join(cwd, "mounts.ts");
      const before = `
        import { Queue } from "@x/queue";
        import { createServer as create } from "node:http";
        export const queue = new Queue({ database: ":memory:", env: {}, jobs: {} });
        export const mounted = [];
        const app = { mount: (path, handler) => mounted.push([path, handler]) };
        const Deno = { serve: ({ port }, handler) => mounted.push([port, handler]) };
        export let server;
        const createServer = (listener) => server = create(listener);\n`;
      const code = MOUNTS.replaceAll('"…"', JSON.stringify(TOKEN)).replace("listen(9000,", "listen(0,");
      writeFileSync(file, outside(code.replace("const handler", `${before}const handler`)));
      const { queue, mounted, server } = await import(pathToFileURL(file).href);
      try {
        assert.deepEqual(mounted.map(([where]: [unknown]) => where), [9000, "/admin/queue"]);
        const asked = { headers: { authorization: `Bearer ${TOKEN}` } };
        for (const [where, handler] of mounted) {
          const path = where === 9000 ? "/admin/queue/" : "/"; // Hono takes the path off
          const { status } = await handler(new Request(`http://127.0.0.1${path}`, asked));
          assert.equal(status, 200, String(where));
        }
        await until(() => server.address(), "the server to listen");
        const response = await fetch(`http://127.0.0.1:${server.address().port}/admin/queue/`, asked);
        assert.equal(response.status, 200);
        await response.text();
      } finally {
        server.closeAllConnections();
        server.close();
        await queue.close();
      }
    }));

  it("take another client of Redis", { skip: noRedis }, () =>
    inFolder(async (cwd) => {
      const server = await RedisServer.start();
      try {
        // Its client is not installed here: one with its methods, over the one that is.
        writeFileSync(
          join(cwd, "client.ts"),
          `import { Redis } from ${JSON.stringify(import.meta.resolve("ioredis"))};
           export const createClient = () => {
             const redis = new Redis(${JSON.stringify(server.url)});
             const client = {
               on: () => client,
               connect: () => client,
               sendCommand: ([name, ...rest]) => redis.call(name, ...rest),
               destroy: () => redis.disconnect(),
             };
             return client;
           };`,
        );
        const file = join(cwd, "queue.ts");
        const code = CLIENT.replace('"@redis/client"', '"./client.ts"')
          .replace('connection: "redis",', 'connection: "redis", failed: "redis", env: {},');
        writeFileSync(file, outside(code) + "export { queue };\n");
        const { queue } = await import(pathToFileURL(file).href);
        await queue.dispatch("mail");
        assert.equal(await queue.workOnce(), true);
        assert.equal(await queue.waiting(), 0);
        await queue.close();
      } finally {
        await server.stop();
      }
    }));

  it("trace", () =>
    inFolder(async (cwd) => {
      const file = join(cwd, "traces.ts");
      const api = JSON.stringify(import.meta.resolve("@opentelemetry/api"));
      const before = `import { Queue } from "@x/queue";
        export const queue = new Queue({ database: ":memory:", env: {}, jobs: { mail: () => {} } });\n`;
      const code = TRACES.replace('"@opentelemetry/api"', api).replace(
        "metrics(queue",
        `${before}metrics(queue`,
      );
      writeFileSync(file, outside(code));
      const { queue } = await import(pathToFileURL(file).href);
      await assert.rejects(async () => await queue.trace({}), /traced already/);
      await queue.dispatch("mail");
      assert.equal(await queue.workOnce(), true);
      await queue.close();
    }));

  it("say which variables choose Redis", () => {
    const env = Object.fromEntries(
      words(REDIS).filter((word) => word.includes("=")).map((word) => /^(\w+)=(.*)$/.exec(word)!.slice(1)),
    );
    assert.equal(Object.keys(env).length, 3);
    const { connection, redis } = readSettings({}, env);
    assert.deepEqual(
      [connection, redis.url, redis.prefix],
      ["redis", env.REDIS_URL, env.REDIS_PREFIX],
    );
  });

  for (const code of EXAMPLES) {
    const title = /await queue\.\w+\(.*\)(?=;)/.exec(code)?.[0];
    it(`run here: ${title}`, () =>
      inFolder(async (cwd) => {
        const file = join(cwd, "example.ts");
        writeFileSync(file, outside(code));
        await import(pathToFileURL(file).href);
      }));
  }

  it(
    "need in Deno only the permissions that README names",
    { skip: !isDeno && "only Deno has them" },
    () =>
      inFolder(async (cwd) => {
        const rights = RIGHTS.trim().split(" ").slice(2, -1).map((word) => word.replaceAll("'", ""));
        assert.ok(rights.length === 3, RIGHTS);
        const app = blocks(README, "ts")[0].replace(/database: ":memory:".*/, "");
        assert.doesNotMatch(app, /memory/);
        writeFileSync(join(cwd, "app.ts"), outside(app));
        const { status, stderr } = await run(["app.ts"], cwd, ["--no-prompt", ...rights]);
        assert.deepEqual([status, stderr], [0, ""]);
        assert.deepEqual(readdirSync(cwd).sort(), ["app.ts", "storage"]);
      }),
  );
});

/** The names that an error lists after "expected". */
async function expected(act: () => unknown): Promise<string[]> {
  let names: string[] = [];
  await assert.rejects(async () => await act(), (error) => {
    assert.ok(error instanceof QueueError);
    names = /no such setting; expected (.*)$/.exec(error.message)?.[1].split(", ") ?? [];
    return names.length > 0;
  });
  return names.sort();
}

describe("the settings in README", () => {
  const rows = table(section("Settings"), "variable");
  const column = (at: number): string[] => rows.map((row) => row[at]).filter((cell) => cell !== "–").sort();

  it("are those that the queue reads, from options and from the environment", async () => {
    const options = await expected(() => new Queue({ jobs: {}, nonsense: 1 } as unknown as { jobs: Jobs }));
    assert.deepEqual(column(1), options.filter((name) => name !== "jobs"));
    assert.deepEqual(column(0), [...VARIABLES].sort());
  });

  it("have the defaults that it says", () => {
    const said = Object.fromEntries(rows.map(([, option, text]) => [option, text]));
    const settings = readSettings({}, {});
    assert.deepEqual(
      {
        database: settings.database,
        connection: settings.connection,
        tries: String(settings.tries),
        retryAfter: `${settings.retryAfter / 1000} seconds`,
        grace: `${settings.grace / 1000} seconds`,
        workers: `${settings.workers}, or ${readSettings({}, { APP_ENV: "production" }).workers}`,
        maxPayload: `${settings.maxPayload} bytes`,
        synchronous: settings.synchronous,
        backoff: `${settings.backoff.map((wait) => wait / 1000).join(", ")} s`,
        timeout: settings.timeout === null ? "none" : "some",
      },
      Object.fromEntries(
        [
          "database",
          "connection",
          "tries",
          "retryAfter",
          "grace",
          "workers",
          "maxPayload",
          "synchronous",
          "backoff",
          "timeout",
        ]
          .map((option) => [option, said[option]]),
      ),
    );
  });

  it("of a worker are those that it takes", async () => {
    const queue = new Queue({ jobs: {}, database: ":memory:", env: {} });
    const options = await expected(() => queue.work({ nonsense: 1 } as Record<string, unknown>));
    await queue.close();
    const workers = section("Workers");
    const listed = table(workers, "option").flatMap(([names]) => names.split(", "));
    assert.deepEqual([...listed, "signal", "forceSignal"].sort(), options);
    assert.match(workers, /`signal` .*\s.*`forceSignal` /);
  });

  it("of a job type are all in the example of one", async () => {
    const options = await expected(() =>
      new Queue({ jobs: { a: { nonsense: 1 } as Record<string, unknown> } })
    );
    const [example] = blocks(section("Handlers"), "ts");
    for (const option of options) assert.match(example, new RegExp(`^ {6}${option}: `, "m"), option);
  });
});

/** The documents of the repository. */
const DOCUMENTS = [
  "README.md",
  "ARCHITECTURE.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "deploy/README.md",
  "examples/README.md",
  ...readdirSync(join(ROOT, "docs")).filter((file) => file.endsWith(".md")).map((file) => `docs/${file}`),
];

/** What a heading is called in a link, as GitHub makes it. */
function anchors(document: string): string[] {
  const prose = read(document).replace(/^```.*\n[^]*?^```$/gm, "");
  return [...prose.matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
    title.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")
  );
}

test("links between the documents lead to files, and to headings in them", () => {
  const links = DOCUMENTS.flatMap((file) =>
    [...read(file).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => ({ file, target }))
  );
  const relative = links.filter(({ target }) => !/^\w+:/.test(target));
  assert.ok(relative.length > 5);
  for (const { file, target } of relative) {
    const [path, anchor] = target.split("#");
    const document = path === "" ? file : join(dirname(file), path);
    assert.ok(existsSync(join(ROOT, document)), `${file} links to ${target}`);
    if (anchor !== undefined) {
      assert.ok(anchors(document).includes(anchor), `${file} links to ${target}`);
    }
  }
});

test("the contents of README are its sections", () => {
  const [, contents] = /^\*\*This page:\*\* ([^]*?)\n\n/m.exec(README)!;
  const linked = [...contents.matchAll(/\(#([^)]+)\)/g)].map(([, anchor]) => anchor);
  const prose = README.replace(/^```.*\n[^]*?^```$/gm, "");
  const sections = [...prose.matchAll(/^## .*$/gm)].length;
  assert.equal(linked.length, sections);
  assert.deepEqual(
    linked,
    anchors("README.md").filter((anchor) => linked.includes(anchor)),
    "in their order",
  );
});

test("the tasks that the documents name are in deno.json", () => {
  const { tasks } = JSON.parse(read("deno.json")) as { tasks: Record<string, string> };
  const named = ["README.md", "CONTRIBUTING.md"].filter((file) => existsSync(join(ROOT, file))).flatMap((
    file,
  ) => [...read(file).matchAll(/\bdeno(?:@2)? task ([\w:]+)/g)].map(([, task]) => task));
  assert.ok(named.includes("demo") && named.includes("test"));
  assert.deepEqual(named.filter((task) => !(task in tasks)), []);
});

test("the API reference is of all that the package exports", () => {
  const { tasks, exports } = JSON.parse(read("deno.json")) as Record<string, Record<string, string>>;
  const files = [...tasks.reference.matchAll(/(?<= )[\w/]+\.ts\b/g)].map(([file]) => `./${file}`);
  assert.deepEqual(files.sort(), Object.values(exports).sort());
});

test("the version stands in README and in CHANGELOG", () => {
  for (const [file] of (README + read("docs/tutorial.md")).matchAll(/x-queue-[\d.]+\d\.tgz/g)) {
    assert.equal(file, `x-queue-${VERSION}.tgz`);
  }
  const [, newest] = /^## \[([^\]]+)\]/m.exec(read("CHANGELOG.md"))!;
  assert.ok(["Unreleased", VERSION].includes(newest), `${newest} is neither unreleased nor ${VERSION}`);
});

test("ARCHITECTURE's map shows every file of core, of the drivers, the dashboard and the metrics", () => {
  const [map] = blocks(read("ARCHITECTURE.md"), "");
  const shown: string[] = [];
  const folders: string[] = [];
  for (const [, indent, name] of map.matchAll(/^( *)([\w.]+\/?)(?= |$)/gm)) {
    folders.length = indent.length / 2;
    const path = [...folders, name].join("");
    assert.ok(existsSync(join(ROOT, path)), path);
    if (name.endsWith("/")) folders.push(name);
    else shown.push(path);
  }
  const files = ["core", "dashboard", "drivers", "metrics"].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts")).map((file) => `${folder}/${file.replaceAll("\\", "/")}`)
  );
  assert.deepEqual(shown.filter((path) => path.includes("/")).sort(), files.sort());
});
