/**
 * Runs docs/tutorial.md from its first block to its last, as a reader would who has a clone of this repository: on Deno
 * as it is printed, and on Bun and Node with the words that it says. Run by `deno task ok tutorial`.
 *
 * The last sections want root and a machine that systemd has started. Their commands run all the same, in a folder
 * that stands for the root of the file system, with programs in place of sudo, useradd and systemctl; what systemd
 * does with the unit is done here: it starts what ExecStart says with its environment, and again when that has ended.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { after, describe, it } from "node:test";
import { findRuntime } from "../../scripts/runtimes.ts";
import { allBlocks, type Block, read, ROOT, section, timeless } from "../documents.ts";
import { newFolder } from "../folder.ts";
import { freePort } from "../redis_server.ts";
import { soon, until } from "../until.ts";

const RUNTIMES = ["deno", "bun", "node"] as const;

/** A program that goes on until it is stopped, and all that it printed. */
class Running {
  printed = "";
  /** Its exit status, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  readonly child: ChildProcess;
  #over = false;

  constructor(command: string, cwd: string, env: Record<string, string>) {
    const child = this.child = spawn("/bin/sh", ["-c", `exec ${command}`], {
      cwd,
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout!.setEncoding("utf8").on("data", (text: string) => this.printed += text);
    child.stderr!.setEncoding("utf8").on("data", (text: string) => this.printed += text);
    this.ended = new Promise((resolve) =>
      child.once("close", (status, signal) => {
        this.#over = true;
        resolve(status ?? signal!);
      })
    );
  }

  /** Waits until these lines are among those that it printed. */
  async prints(lines: string): Promise<void> {
    const shown = (): boolean => timeless(this.printed).includes(timeless(lines));
    await until(() => shown() || this.#over, "the lines that are shown").catch(() => {});
    assert.ok(shown(), `expected:\n${lines}\nprinted:\n${this.printed}`);
  }

  /** Sends a signal, and resolves with how it ended. */
  stop(signal: NodeJS.Signals): Promise<number | string> {
    if (!this.#over) this.child.kill(signal);
    return soon(this.ended, "a program to end");
  }
}

/** What systemd does with deploy/queue.service. */
class Service {
  #running: Running | null = null;
  #stopping = false;
  readonly #start: () => Running;
  /** What it printed before it was started again. */
  #before = "";

  constructor(unit: string, rooted: (text: string) => string) {
    const value = (key: string): string => rooted(new RegExp(`^${key}=(.*)$`, "m").exec(unit)![1]);
    assert.deepEqual([value("Restart"), value("RestartPreventExitStatus")], ["always", "2"]);
    const file = value("EnvironmentFile").replace(/^-/, "");
    mkdirSync(rooted(`/var/lib/${value("StateDirectory")}`), { recursive: true });
    this.#start = () => {
      const more = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
      const settings = [value("Environment"), ...more].map((line) => line.split("="));
      const env = { PATH: "", NO_COLOR: "1", ...Object.fromEntries(settings) };
      return new Running(value("ExecStart"), value("WorkingDirectory"), env);
    };
    this.#keep();
  }

  #keep(): void {
    const running = this.#running = this.#start();
    running.ended.then((status) => {
      this.#before += running.printed;
      if (!this.#stopping && status !== 2) this.#keep();
    });
  }

  /** Waits until these lines are in its journal. */
  async prints(lines: string): Promise<void> {
    const journal = (): string => this.#before + this.#running!.printed;
    const shown = (): boolean => timeless(journal()).includes(timeless(lines));
    await until(shown, "the lines that are shown").catch(() => {});
    assert.ok(shown(), `expected:\n${lines}\nprinted:\n${journal()}`);
  }

  /** As `systemctl stop`. */
  stop(): Promise<number | string> {
    this.#stopping = true;
    return this.#running!.stop("SIGTERM");
  }
}

/** A clone of this repository, with what is not committed yet, and the packages that are installed here. */
class Clone {
  readonly #folder = newFolder();
  readonly #made = new Map<string, Promise<string>>();

  constructor() {
    const list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    for (const file of execFileSync("git", list, { cwd: ROOT, encoding: "utf8" }).split("\0")) {
      if (file === "" || !existsSync(join(ROOT, file))) continue;
      const copy = join(this.path, file);
      mkdirSync(dirname(copy), { recursive: true });
      copyFileSync(join(ROOT, file), copy);
    }
    symlinkSync(join(ROOT, "node_modules"), join(this.path, "node_modules"));
  }

  /** Its folder. */
  get path(): string {
    return this.#folder.path;
  }

  /** Makes something here: once, for all readers, as that takes long. */
  make(command: string, run: () => Promise<string>): Promise<string> {
    const made = this.#made.get(command) ?? run();
    this.#made.set(command, made);
    return made;
  }

  remove(): void {
    this.#folder.remove();
  }
}

/** Somebody with terminals, and a clone beside the folder of the app. */
class Reader {
  /** The words of this reader's runtime, for those that are printed. */
  readonly #words: readonly (readonly [printed: string, own: string])[];
  readonly #folder = newFolder();
  readonly #env: Record<string, string>;
  readonly #running: Running[] = [];
  #service: Service | null = null;
  #cwd: string;
  readonly #clone: Clone;

  constructor(words: readonly (readonly [printed: string, own: string])[], clone: Clone) {
    this.#words = words;
    this.#clone = clone;
    this.#cwd = this.#folder.path;
    const programs = join(this.#folder.path, "programs");
    for (const folder of ["/usr/local/bin", "/etc/systemd/system", "/srv"]) {
      mkdirSync(this.#rooted(folder), { recursive: true });
    }
    mkdirSync(programs);
    for (const name of RUNTIMES) {
      const found = findRuntime(name);
      if (typeof found !== "string") symlinkSync(found.path, join(programs, name));
    }
    const standIns = {
      sudo: 'exec "$@"',
      useradd: 'test "$*" = "--system queue"',
      systemctl: `echo "$*" >> '${this.#rooted("/srv/systemctl")}'`,
    };
    for (const [name, script] of Object.entries(standIns)) {
      writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`);
      chmodSync(join(programs, name), 0o755);
    }
    // Settings of who runs this are not the reader's; a runner of tests in a test would report to this one.
    const others = /^(QUEUE_(?!TEST_)|DB_|REDIS_|APP_ENV$|NODE_OPTIONS$|NODE_TEST_CONTEXT$)/;
    const env = Object.entries(process.env).filter(([name]) => !others.test(name));
    this.#env = {
      ...Object.fromEntries(env) as Record<string, string>,
      NO_COLOR: "1",
      NODE_NO_WARNINGS: "1",
      PATH: `${programs}:${this.#rooted("/usr/local/bin")}:${process.env.PATH}`,
    };
    symlinkSync(clone.path, join(this.#cwd, "queue"));
  }

  /** The same with the server's folders in this reader's. */
  readonly #rooted = (text: string): string =>
    text.replace(/\/(usr\/local\/bin|etc|srv|var\/lib)\b/g, join(this.#folder.path, "server", "$1"));

  /** Does what a block says. */
  async follow({ info, code }: Block): Promise<void> {
    const own = this.#rooted(
      this.#words.reduce((text, [printed, word]) => text.replaceAll(printed, word), code),
    );
    switch (info) {
      case "ts":
        return writeFileSync(join(this.#cwd, /^\/\/ (\S+\.ts)\n/.exec(code)![1]), code);
      case "json":
        return writeFileSync(join(this.#cwd, "deno.json"), code);
      case "text":
        return await (this.#service ?? this.#worker).prints(own);
      case "sh":
        if (/^\(cd \.\.\/queue && .*\)\n$/.test(own)) {
          await this.#clone.make(own, () => this.#run(own));
          return;
        }
        // A `cd` holds for the blocks that follow.
        this.#cwd = (await this.#run(`${own}\npwd`)).trimEnd().split("\n").at(-1)!;
        return this.#obeySystemctl();
      default:
        assert.equal(info, "console");
        for (const step of own.split(/^\$ /m).slice(1)) {
          const [command, ...shown] = step.split("\n");
          await this.#type(command, shown.join("\n"));
        }
    }
  }

  /** The worker in a terminal. */
  get #worker(): Running {
    return this.#running.find(({ child }) => child.spawnargs.at(-1)!.endsWith("queue:work"))!;
  }

  async #type(command: string, shown: string): Promise<void> {
    const [, folder, name, value] = /^(?:cd (\S+)|export (\w+)=(\S+))$/.exec(command) ?? [];
    if (folder !== undefined) this.#cwd = folder;
    else if (name !== undefined) this.#env[name] = value;
    else if (/app\.ts$|queue:work$|queue:dashboard/.test(command)) {
      const running = new Running(command, this.#cwd, this.#env);
      this.#running.push(running);
      await running.prints(shown);
      const url = /dashboard at (\S+)/.exec(shown)?.[1];
      if (url !== undefined) assert.match(await (await fetch(url)).text(), /<!doctype html>/i);
    } else {
      // Who looks may be too early: another process is at work.
      const looks = /queue:status|curl -s/.test(command);
      let printed = "";
      const same = async (): Promise<boolean> => {
        printed = await this.#run(command, looks);
        return matches(printed, shown);
      };
      if (looks) await until(same, command).catch(() => {});
      else await same();
      assert.ok(matches(printed, shown), `${command}\nexpected:\n${shown}\nprinted:\n${printed}`);
    }
  }

  /** Runs commands and answers with what they printed. */
  async #run(script: string, mayFail = false): Promise<string> {
    const child = spawn("/bin/sh", ["-ec", script], {
      cwd: this.#cwd,
      env: this.#env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let out = "", errors = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => out += text);
    child.stderr.setEncoding("utf8").on("data", (text: string) => errors += text);
    const status = await new Promise((resolve) => child.once("close", resolve));
    if (!mayFail) assert.equal(status, 0, `${script}\n${out}${errors}`);
    return out;
  }

  #obeySystemctl(): void {
    const told = this.#rooted("/srv/systemctl");
    if (this.#service !== null || !existsSync(told)) return;
    assert.equal(readFileSync(told, "utf8"), "daemon-reload\nenable --now queue\n");
    const unit = readFileSync(this.#rooted("/etc/systemd/system/queue.service"), "utf8");
    this.#service = new Service(unit, this.#rooted);
  }

  /** Stops the workers as a server that is shut down does: both must end well. */
  async shutDown(): Promise<void> {
    assert.equal(await this.#worker.stop("SIGTERM"), 0, this.#worker.printed);
    if (this.#service !== null) assert.equal(await this.#service.stop(), 0);
  }

  /** Ends all that runs. */
  async leave(): Promise<void> {
    await this.#service?.stop();
    for (const running of this.#running) await running.stop("SIGKILL");
    this.#folder.remove();
  }
}

/** Whether a command printed what is shown, where a line `…` stands for any others. */
function matches(printed: string, shown: string): boolean {
  const parts = timeless(shown).split(/^…\n/m).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^]*")}$`).test(timeless(printed));
}

const TUTORIAL = read("docs/tutorial.md");
const SECTIONS = [...TUTORIAL.matchAll(/^## (\d\. .*)$/gm)].map(([, title]) => title);

/** What tells the blocks apart that install the package. */
const INSTALLS = ["json", "task pack", "bun add", "npm install"];

/** What each reader types for what is printed, which of the ways to install is theirs, and how far they go. */
const READERS = {
  deno: { words: [], install: ["json"], sections: SECTIONS },
  // The binary, and the service, are the same for all.
  bun: {
    words: [["deno run -A", "bun"], ["deno test -A --no-check", "bun test"]],
    install: ["task pack", "bun add"],
    sections: SECTIONS.slice(0, 5),
  },
  node: {
    words: [["deno run -A", "node"], ["deno test -A --no-check", "node --test"]],
    install: ["task pack", "npm install"],
    sections: SECTIONS.slice(0, 5),
  },
} as const;

/** The blocks of a section that this reader follows: of the ways to install, their own. */
function blocksOf(text: string, install: readonly string[]): Block[] {
  return allBlocks(text).filter(({ info, code }) => {
    const way = INSTALLS.find((word) => word === info || code.includes(word));
    return way === undefined || install.includes(way);
  });
}

it("the tutorial says what to type on the other runtimes, and what README says of installing", () => {
  for (const said of ["`bun`", "`node`", "`bun test jobs.test.ts`", "`node --test jobs.test.ts`"]) {
    assert.ok(TUTORIAL.includes(said), said);
  }
  const readme = section(read("README.md"), "Install");
  const [{ code }] = allBlocks(TUTORIAL).filter(({ info }) => info === "json");
  for (const [name, path] of Object.entries<string>(JSON.parse(code).imports)) {
    assert.ok(readme.includes(`"${name}": "${path}"`), `README has the import ${name}`);
  }
  for (const install of ["bun add ../queue/dist/", "npm install ../queue/dist/", "npm pkg set type=module"]) {
    assert.ok(readme.includes(install) && TUTORIAL.includes(install), install);
  }
});

describe("the tutorial", { concurrency: true }, () => {
  const clone = new Clone();
  after(() => clone.remove());

  for (const runtime of RUNTIMES) {
    const { words, install, sections } = READERS[runtime];
    const found = findRuntime(runtime);
    it(`can be followed on ${runtime}`, { skip: typeof found === "string" && found }, async () => {
      // Each port is the test's own.
      const ports = new Map<string, number>();
      for (const port of ["8000", "9000", "9464"]) ports.set(port, await freePort());
      const text = TUTORIAL.replace(/8000|9000|9464/g, (port) => String(ports.get(port)));
      const reader = new Reader([["npx -y deno@2", "deno"], ...words], clone);
      try {
        for (const title of sections) {
          for (const block of blocksOf(section(text, title), install)) await reader.follow(block);
        }
        await reader.shutDown();
      } finally {
        await reader.leave();
      }
    });
  }
});
