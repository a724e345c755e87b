/**
 * What each form in which the queue is shipped weighs, how fast it starts, and what it keeps in memory, beside other
 * queues:   deno task bench:forms
 *
 * Everything is installed as its user installs it, into folders outside of the repository. Each figure is the median of
 * some rounds, in which every program is started once, one after the other; times are also given in times of a program of
 * the same runtime that does nothing, started in the same round. With `--rounds 15`, and `--output` for another file than
 * bench/FORMS.md.
 *
 * @module
 */
import { spawn, spawnSync } from "node:child_process";
import {
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { pack } from "../scripts/pack.ts";
import { describeMachine, load } from "./machine.ts";
import { OVERRIDES, versionOf } from "./peers.ts";
import { median, table } from "./report.ts";
import { findRuntime, type Runtime, type RuntimeName } from "./runtimes.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const NAMES = { deno: "Deno", bun: "Bun", node: "Node" } as const;

/** How long a process is left alone before its memory is looked at, in milliseconds. */
const IDLE = 2000;

/** The other queues: what is installed, and what an app imports. */
const PEERS = [
  { name: "bullmq", packages: [`bullmq@${versionOf("bullmq")}`], module: "bullmq" },
  { name: "bunqueue", packages: [`bunqueue@${versionOf("bunqueue")}`], module: "bunqueue/client" },
  {
    name: "sidequest on SQLite",
    packages: [
      `sidequest@${versionOf("sidequest")}`,
      `@sidequest/sqlite-backend@${versionOf("@sidequest/sqlite-backend")}`,
    ],
    module: "sidequest",
  },
];

/** A program that is started in each round. */
interface Program {
  readonly form: string;
  readonly runtime: RuntimeName;
  /** The columns of the tables. */
  readonly what: "nothing" | "import" | "--version" | "queue:work" | "idle";
  readonly command: readonly string[];
  readonly cwd: string;
}

const { values: options } = parseArgs({
  options: {
    rounds: { type: "string", default: "15" },
    output: { type: "string", default: fileURLToPath(new URL("FORMS.md", import.meta.url)) },
  },
});
const rounds = Number(options.rounds);
const runtimes: readonly Runtime[] = (["deno", "bun", "node"] as const).map(findRuntime);
const work = mkdtempSync(join(tmpdir(), "queue-forms-"));

try {
  writeFileSync(options.output, await measure());
} finally {
  rmSync(work, { recursive: true, force: true });
}

async function measure(): Promise<string> {
  const before = load();
  const tarball = pack(work, true);
  const bundle = made("bundle", "queue.mjs"), binary = made("compile:bun", "queue-bun");
  const own = project("npm", [tarball]);
  const peers = PEERS.map((peer) => ({ ...peer, folder: project(peer.name, peer.packages) }));
  const programs = [
    ...runtimes.flatMap((runtime) => [
      nothing(runtime),
      ...imports("npm", "@x/queue", own, runtime),
      ...commands("npm", [...runtime.command, join(own, "node_modules/@x/queue/cli.js")], runtime),
      ...commands("bundle", [...runtime.command, bundle], runtime),
      ...peers.flatMap(({ name, module, folder }) => imports(name, module, folder, runtime)),
    ]),
    ...commands("sources", [...runtimeOf("deno").command, join(ROOT, "cli.ts")], runtimeOf("deno")),
    ...commands("binary", [binary], runtimeOf("bun")),
  ];

  const seen = new Map<Program, (number | null)[]>(programs.map((program) => [program, []]));
  for (let round = 0; round < rounds; round++) {
    console.error(`round ${round + 1} of ${rounds}`);
    for (const program of programs) {
      seen.get(program)!.push(program.what === "idle" ? await memoryOf(program) : timeOf(program));
    }
  }
  return [
    "# Forms",
    "",
    `${
      new Date().toISOString().slice(0, 10)
    }, \`deno task bench:forms\`: the median of ${rounds} rounds, in each of which`,
    "every program was started once, one after the other.",
    "",
    `- ${describeMachine()}`,
    `- ${runtimes.map(({ name, version }) => `${NAMES[name]} ${version}`).join(", ")}`,
    `- ${PEERS.flatMap(({ packages }) => packages).join(", ")}, installed by npm without install scripts`,
    `- load of the machine before the run: ${before.toFixed(1)}; after it: ${load().toFixed(1)}`,
    "",
    "## Sizes",
    "",
    ...sizes(tarball, bundle, binary, [{ name: "@x/queue", folder: own }, ...peers]),
    "",
    "## Start-up",
    "",
    ...startUp(seen),
    "",
    "From the start of the process to its end. In brackets: times a program of the same runtime that does nothing (`deno",
    "eval 0`, `bun -e 0`, `node -e 0`), started in the same round. `import` is an app of one line that imports the library,",
    "`queue:work` is `queue:work --stop-when-empty` on an empty SQLite store. No figure: that does not run there; `sources` are what JSR serves.",
    "",
    "## Memory",
    "",
    ...memory(seen),
    "",
    `Resident, ${
      IDLE / 1000
    } s after the process said that it is ready: of an app that imports the library and waits, and of an idle`,
    "`queue:work` on SQLite.",
    "",
  ].join("\n");
}

function runtimeOf(name: RuntimeName): Runtime {
  return runtimes.find((runtime) => runtime.name === name)!;
}

/** What a task makes in `dist`, away from there, as somebody else may make it anew meanwhile. */
function made(task: string, file: string): string {
  must(runtimeOf("deno").command[0], ["task", task], ROOT);
  copyFileSync(join(ROOT, "dist", file), join(work, file));
  return join(work, file);
}

function must(program: string, args: readonly string[], cwd: string): void {
  const { status, error, stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")}: ${error ?? stdout + stderr}`);
}

/** An empty project, into which npm installs packages. */
function project(name: string, packages: readonly string[]): string {
  const folder = join(work, name.replaceAll(" ", "-"));
  mkdirSync(folder);
  const manifest = { private: true, type: "module", overrides: OVERRIDES };
  writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  // Install scripts would only fetch or compile binaries that the packages bring along.
  const quiet = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"];
  must("npm", ["install", ...quiet, ...packages], folder);
  return folder;
}

function nothing(runtime: Runtime): Program {
  const args = { deno: ["eval", "0"], bun: ["-e", "0"], node: ["-e", "0"] }[runtime.name];
  const command = [runtime.command[0], ...args];
  return { form: "nothing", runtime: runtime.name, what: "nothing", command, cwd: work };
}

/** An app that imports a library and ends, and one that stays. */
function imports(form: string, module: string, cwd: string, { name, command }: Runtime): Program[] {
  writeFileSync(join(cwd, "import.js"), `import ${JSON.stringify(module)};\nprocess.exit(0);\n`);
  const stay = 'console.log("ready");\nsetInterval(() => {}, 1 << 30);\n';
  writeFileSync(join(cwd, "idle.js"), `import ${JSON.stringify(module)};\n${stay}`);
  return [
    { form, runtime: name, what: "import", command: [...command, "import.js"], cwd },
    { form: `${form}, imported`, runtime: name, what: "idle", command: [...command, "idle.js"], cwd },
  ];
}

/** The command line: its start, a worker that finds nothing to do, and one that waits. */
function commands(form: string, command: readonly string[], { name }: Runtime): Program[] {
  const cwd = join(work, `${form} on ${name}`);
  mkdirSync(cwd);
  writeFileSync(join(cwd, "jobs.js"), "export default { nothing: () => {} };\n");
  writeFileSync(join(cwd, "package.json"), '{ "type": "module" }\n');
  must(command[0], [...command.slice(1), "queue:work", "--stop-when-empty"], cwd);
  const program = (what: Program["what"], ...args: string[]): Program => {
    const called = what === "idle" ? `${form}, queue:work` : form;
    return { form: called, runtime: name, what, command: [...command, ...args], cwd };
  };
  return [
    program("--version", "--version"),
    program("queue:work", "queue:work", "--stop-when-empty"),
    program("idle", "queue:work"),
  ];
}

/** Milliseconds; `null` where it does not run. */
function timeOf({ command: [path, ...args], cwd }: Program): number | null {
  const started = performance.now();
  const { status } = spawnSync(path, args, { cwd, stdio: "ignore" });
  return status === 0 ? performance.now() - started : null;
}

/** Megabytes of 2^20 bytes; `null` where it does not run, or the system does not tell. */
async function memoryOf({ command: [path, ...args], cwd }: Program): Promise<number | null> {
  if (process.platform !== "linux") return null;
  const child = spawn(path, args, { cwd, stdio: ["ignore", "pipe", "ignore"] });
  const over = new Promise<boolean>((resolve) => child.once("close", () => resolve(true)));
  try {
    const ready = new Promise<boolean>((resolve) => child.stdout.once("data", () => resolve(false)));
    if (await Promise.race([ready, over]) || await Promise.race([sleep(IDLE, false), over])) return null;
    const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) / 1024;
  } finally {
    child.kill("SIGKILL");
    await over;
  }
}

/** How many bytes the files in a folder have, links not followed. */
function bytesIn(folder: string): number {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((path) => lstatSync(join(folder, path)))
    .reduce((sum, stats) => sum + (stats.isFile() ? stats.size : 0), 0);
}

/** How many packages are installed, also those within others. */
function packagesIn(folder: string): number {
  const paths = readdirSync(join(folder, "node_modules"), { recursive: true, encoding: "utf8" });
  return paths.filter((path) => /(^|node_modules\/)(@[^/]+\/)?[^/@.][^/]*\/package\.json$/.test(path)).length;
}

/** What goes to JSR, by the lists in deno.json. */
function sourceBytes(): number {
  const { publish } = JSON.parse(readFileSync(join(ROOT, "deno.json"), "utf8"));
  const sum = (names: readonly string[]): number =>
    names.map((name) => join(ROOT, name))
      .reduce(
        (total, path) => total + (statSync(path).isDirectory() ? bytesIn(path) : statSync(path).size),
        0,
      );
  return sum(publish.include) - sum(publish.exclude);
}

function sizes(
  tarball: string,
  bundle: string,
  binary: string,
  installed: readonly { name: string; folder: string }[],
): string[] {
  return table(["what", "size", "packages"], [
    ["npm tarball", size(statSync(tarball).size), ""],
    ["JSR package, as sources", size(sourceBytes()), ""],
    ["one file (`deno task bundle`), all dependencies within", size(statSync(bundle).size), ""],
    ["binary (`deno task compile:bun`), Bun within", size(statSync(binary).size), ""],
    ...installed.map(({ name, folder }) => [
      `\`node_modules\` of ${name}`,
      size(bytesIn(join(folder, "node_modules"))),
      String(packagesIn(folder)),
    ]),
  ]);
}

function size(bytes: number): string {
  return bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}

function startUp(seen: Map<Program, (number | null)[]>): string[] {
  const columns = ["nothing", "import", "--version", "queue:work"] as const;
  return table(
    ["form", "on", ...columns.slice(1)],
    [
      ...rowsOf(seen, (program) => program.what !== "idle" && program.what !== "nothing").map((
        [form, runtime],
      ) => [
        form,
        NAMES[runtime],
        ...columns.slice(1).map((what) => {
          const times = figures(seen, form, runtime, what),
            bare = figures(seen, "nothing", runtime, "nothing");
          const time = median(times);
          if (time === null) return "";
          const ratio = median(times.map((one, round) => one === null ? null : one / bare[round]!))!;
          return `${Math.round(time)} ms (${ratio.toFixed(1)}×)`;
        }),
      ]),
      ...runtimes.map(({ name }) => {
        const time = Math.round(median(figures(seen, "nothing", name, "nothing"))!);
        return [`nothing: ${time} ms`, NAMES[name], "", "", ""];
      }),
    ].filter((row) => row.slice(2).some((cell) => cell !== "") || row[0].startsWith("nothing")),
  );
}

function memory(seen: Map<Program, (number | null)[]>): string[] {
  const forms = [...new Set(rowsOf(seen, ({ what }) => what === "idle").map(([form]) => form))];
  return table(
    ["", ...runtimes.map(({ name }) => NAMES[name])],
    forms.map((form) => [
      form,
      ...runtimes.map(({ name }) => {
        const megabytes = median(figures(seen, form, name, "idle"));
        return megabytes === null ? "" : `${Math.round(megabytes)} MB`;
      }),
    ]),
  );
}

/** The forms and runtimes of the programs that are meant, each pair once. */
function rowsOf(
  seen: Map<Program, unknown>,
  meant: (program: Program) => boolean,
): (readonly [form: string, runtime: RuntimeName])[] {
  const pairs = [...seen.keys()].filter(meant).map(({ form, runtime }) => `${form}|${runtime}`);
  return [...new Set(pairs)].map((pair) => pair.split("|") as [string, RuntimeName]);
}

function figures(
  seen: Map<Program, (number | null)[]>,
  form: string,
  runtime: RuntimeName,
  what: Program["what"],
): (number | null)[] {
  const program = [...seen.keys()].find((one) =>
    one.form === form && one.runtime === runtime && one.what === what
  );
  return program === undefined ? [] : seen.get(program)!;
}
