/**
 * What a binary finds on a server: a folder, an empty home, and neither a runtime nor packages on its PATH.
 *
 * @module
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { root } from "../../scripts/runtimes.ts";
import { newFolder } from "../folder.ts";
import { soon, until } from "../until.ts";

/** The image of deploy/, whose user and commands are tried, too. */
const IMAGE = readFileSync(join(root, "deploy", "Dockerfile"), "utf8");

/** The user of the image, where the test may become somebody else. */
const [uid, gid] = process.getuid?.() === 0
  ? /^USER (\d+):(\d+)$/m.exec(IMAGE)!.slice(1).map(Number)
  : [undefined, undefined];

/** The health command of the image, without the program's name. */
export const HEALTH: string[] = JSON.parse(/^HEALTHCHECK .*CMD (.*)$/m.exec(IMAGE)![1]).slice(1);

/** Bun's cache of modules that it has translated, and the folders above it. */
const TRANSLATED = /^\.bun(\/install(\/cache(\/@t@(\/\w+\.pile)?)?)?)?$/;

/** Variables beyond those that every program has. */
export type Variables = Readonly<Record<string, string>>;

/** How a command ended, and what it said. */
export interface Answer {
  readonly status: number | string;
  readonly out: string;
  readonly err: string;
}

/** A command that was started. */
export class Running {
  out = "";
  err = "";
  /** Resolves with its exit status, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  readonly #child: ChildProcess;
  readonly #line: string;

  constructor(child: ChildProcess, line: string) {
    this.#child = child;
    this.#line = line;
    child.stdout!.setEncoding("utf8").on("data", (text: string) => this.out += text);
    child.stderr!.setEncoding("utf8").on("data", (text: string) => this.err += text);
    this.ended = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => resolve(code ?? signal ?? "unknown"));
    });
    this.ended.catch(() => {});
  }

  /** Waits until it has printed something like `pattern`. */
  says(pattern: RegExp): Promise<RegExpExecArray> {
    return until(
      () => {
        const said = pattern.exec(this.out);
        if (said === null && this.#child.exitCode !== null) {
          throw new Error(`${this.#line} ended: ${this.err}`);
        }
        return said!;
      },
      `${this.#line} to say ${pattern}`,
    );
  }

  /** Sends a signal, and resolves with how it ended. */
  end(signal: NodeJS.Signals): Promise<number | string> {
    this.#child.kill(signal);
    return soon(this.ended, `${this.#line} to end at ${signal}`);
  }

  /** Whether it has not ended. */
  get isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }
}

/** One server, with one program on it. */
export class Server {
  /** Where its user works. */
  readonly folder: string;
  readonly #program: string;
  readonly #folder: ReturnType<typeof newFolder>;
  readonly #variables: Variables;
  readonly #started: Running[] = [];

  /**
   * @param program The binary.
   * @param variables Settings that all its commands get.
   */
  constructor(program: string, variables: Variables = {}) {
    this.#program = program;
    this.#variables = variables;
    this.#folder = newFolder();
    chmodSync(this.#folder.path, 0o755);
    this.folder = join(this.#folder.path, "app");
    for (const name of ["app", "home", "temp", "bin"]) {
      const path = join(this.#folder.path, name);
      mkdirSync(path);
      if (uid !== undefined) chownSync(path, uid, gid!);
    }
  }

  /** All that its programs know of their surroundings. */
  get environment(): Variables {
    const path = (name: string): string => join(this.#folder.path, name);
    return { PATH: path("bin"), HOME: path("home"), TMPDIR: path("temp"), ...this.#variables };
  }

  /** Writes files, by their paths in the folder. */
  write(files: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(files)) {
      const path = join(this.folder, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
  }

  /** The lines of a file that jobs write, as far as it is there. */
  lines(name: string): string[] {
    const path = join(this.folder, name);
    return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
  }

  /** Whether there is a file of that name. */
  has(name: string): boolean {
    return existsSync(join(this.folder, name));
  }

  /** Starts a command. */
  start(args: readonly string[], variables: Variables = {}): Running {
    const child = spawn(this.#program, args, {
      cwd: this.folder,
      env: { ...this.environment, ...variables },
      stdio: ["ignore", "pipe", "pipe"],
      uid,
      gid,
    });
    const running = new Running(child, args.join(" "));
    this.#started.push(running);
    return running;
  }

  /** Runs a command to its end. */
  async run(args: readonly string[], variables: Variables = {}): Promise<Answer> {
    const running = this.start(args, variables);
    const status = await soon(running.ended, `${args.join(" ")} to end`);
    return { status, out: running.out, err: running.err };
  }

  /** Runs a command that must end with `status`, and returns what it printed. */
  async expect(status: number, args: readonly string[], variables: Variables = {}): Promise<string> {
    const answer = await this.run(args, variables);
    assert.equal(answer.status, status, `${args.join(" ")}\n${answer.out}${answer.err}`);
    if (status === 0) assert.equal(answer.err, "", args.join(" "));
    else assert.match(answer.err, /^(queue: |Usage)/, `a problem is a line: ${answer.err}`);
    return answer.out;
  }

  /** The document that a command prints. */
  // deno-lint-ignore no-explicit-any
  async json(...args: string[]): Promise<any> {
    return JSON.parse(await this.expect(0, [...args, "--json"]));
  }

  /**
   * Ends what still runs, and removes all. Nothing may be left in the home or in the temporary folder but what Bun keeps
   * of modules that it has translated.
   */
  async end(): Promise<void> {
    for (const running of this.#started) if (running.isRunning) await running.end("SIGKILL");
    const left = ["home", "temp"].flatMap((name) =>
      readdirSync(join(this.#folder.path, name), { recursive: true, encoding: "utf8" })
    );
    this.#folder.remove();
    assert.deepEqual(left.filter((path) => !TRANSLATED.test(path)), [], "left behind");
  }
}
