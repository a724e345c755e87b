/** Keeps README.md, and the map of the house in ARCHITECTURE.md, true. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { describe, it, test } from "node:test";
import { pathToFileURL } from "node:url";
import { readSettings } from "../core/config.ts";
import { type Jobs, Queue, QueueError } from "../mod.ts";
import { VERSION } from "../version.ts";
import {
  allBlocks,
  blocks,
  outside,
  read,
  ROOT,
  section as sectionOf,
  table,
  url,
  words,
} from "./documents.ts";
import { inFolder } from "./folder.ts";

const README = read("README.md");
const isDeno = process.versions.deno !== undefined;

function section(title: string): string {
  return sectionOf(README, title);
}

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
      const text = section("Command line");
      const [jobs] = blocks(text, "ts"), [queue] = blocks(text, "ts ignore");
      writeFileSync(join(cwd, "package.json"), '{ "type": "module" }');
      writeFileSync(join(cwd, "jobs.ts"), outside(jobs));
      writeFileSync(join(cwd, "queue.ts"), outside(queue));

      const [transcript] = blocks(text, "console");
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

  /** Times and durations differ from run to run; a wait before a retry does not. */
  function timeless(text: string): string {
    return text.replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/g, "TIME")
      .replace(/ +\d+(\.\d+)? m?s(?=$| {2}(DONE|RETRY|FAIL))/gm, " TOOK");
  }
});

describe("the examples in README", () => {
  const examples = blocks(README, "ts").filter((code) => code.includes("await "));

  it("are several, and each is about this package", () => {
    assert.ok(examples.length >= 5);
    for (const code of examples) assert.match(code, /from "@x\/queue"/);
  });

  for (const code of examples) {
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
        const [line] = blocks(section("Install"), "sh").filter((code) => code.startsWith("deno run "));
        const rights = line.split(" ").slice(2, -1).map((word) => word.replaceAll("'", ""));
        assert.ok(rights.length === 3, line);
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
    const [, list] = /const VARIABLES = \[([^\]]*)\]/.exec(read("core/config.ts"))!;
    assert.deepEqual(column(0), [...list.matchAll(/"(\w+)"/g)].map(([, name]) => name).sort());
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

test("links between the documents lead to files", () => {
  const documents = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md"];
  const links = documents.filter((file) => existsSync(join(ROOT, file))).flatMap((file) =>
    [...read(file).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => ({ file, target }))
  );
  const relative = links.filter(({ target }) => !/^(\w+:|#)/.test(target));
  assert.ok(relative.length > 5);
  for (const { file, target } of relative) {
    const path = join(ROOT, dirname(file), target.replace(/#.*/, ""));
    assert.ok(existsSync(path), `${file} links to ${target}`);
  }
});

test("the tasks that the documents name are in deno.json", () => {
  const { tasks } = JSON.parse(read("deno.json")) as { tasks: Record<string, string> };
  const named = ["README.md", "CONTRIBUTING.md"].filter((file) => existsSync(join(ROOT, file))).flatMap((
    file,
  ) => [...read(file).matchAll(/\bdeno(?:@2)? task ([\w:]+)/g)].map(([, task]) => task));
  assert.ok(named.includes("demo") && named.includes("test"));
  assert.deepEqual(named.filter((task) => !(task in tasks)), []);
});

test("the version stands in README and in CHANGELOG", () => {
  for (const [file] of README.matchAll(/x-queue-[\d.]+\d\.tgz/g)) {
    assert.equal(file, `x-queue-${VERSION}.tgz`);
  }
  assert.match(read("CHANGELOG.md"), new RegExp(`^## ${VERSION.replaceAll(".", "\\.")} `, "m"));
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
