/** Uses what is shipped as its user does: in a folder outside of the repository, with none of its settings. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { newFolder } from "../folder.ts";
import { soon } from "../until.ts";

/** An executable and its first arguments. */
export type Command = readonly [string, ...string[]];

/** What a runtime or a package manager needs to find its caches and its registry. */
const KEPT =
  /^(HOME|TMPDIR|DENO_DIR|NPM_CONFIG_REGISTRY|(HTTPS?|NO)_PROXY|NODE_EXTRA_CA_CERTS|SSL_CERT_(FILE|DIR))$/i;

/** How a command ended, and what it printed. */
export interface Ended {
  readonly status: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** A folder, and the commands that run in it. */
export class Place {
  /** Its path. */
  readonly path: string;
  readonly #env: Record<string, string>;
  readonly #remove: () => void;
  readonly #running: Set<Running> = new Set();

  /** A new folder. `path` is the PATH of what runs there. */
  constructor(path: string, env: Record<string, string> = {}) {
    const kept = Object.entries(process.env).filter(([name]) => KEPT.test(name)) as [string, string][];
    this.#env = { ...Object.fromEntries(kept), PATH: path, NO_COLOR: "1", ...env };
    ({ path: this.path, remove: this.#remove } = newFolder());
  }

  /** Writes files, by their names. */
  write(files: Record<string, string>): void {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(this.path, name), text);
  }

  /** Reads a file. */
  read(name: string): string {
    return readFileSync(join(this.path, name), "utf8");
  }

  /** Starts a command. */
  start(command: Command, env: Record<string, string> = {}): Running {
    const running = new Running(command, this.path, { ...this.#env, ...env });
    this.#running.add(running);
    running.ended.finally(() => this.#running.delete(running)).catch(() => {});
    return running;
  }

  /** Runs a command to its end, which must have the status, and returns what it printed. */
  async run(command: Command, status = 0, env: Record<string, string> = {}): Promise<Ended> {
    const ended = await soon(this.start(command, env).ended, command.join(" "), 300_000);
    assert.equal(ended.status, status, `${command.join(" ")}\n${ended.stdout}${ended.stderr}`);
    return ended;
  }

  /** Ends what still runs, and removes the folder. */
  async remove(): Promise<void> {
    for (const running of this.#running) await running.end("SIGKILL");
    this.#remove();
  }
}

/** A command that runs. */
export class Running {
  /** Its end. */
  readonly ended: Promise<Ended>;
  #stdout = "";
  #stderr = "";
  #tell = (): void => {};
  readonly #child: ChildProcess;

  /** Starts it. */
  constructor([program, ...args]: Command, cwd: string, env: Record<string, string>) {
    const child = this.#child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
      this.#tell();
    });
    child.stderr!.setEncoding("utf8").on("data", (text: string) => this.#stderr += text);
    this.ended = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        resolve({ status: code ?? signal ?? "unknown", stdout: this.#stdout, stderr: this.#stderr });
      });
    });
  }

  /** Waits until it has written `text` to standard output, and the end of that line; resolves with the line. */
  async says(text: string): Promise<string> {
    const said = new Promise<string>((resolve) => {
      this.#tell = () => {
        const line = this.#stdout.split("\n").slice(0, -1).find((line) => line.includes(text));
        if (line !== undefined) resolve(line);
      };
      this.#tell();
    });
    const over = this.ended.then(({ status, stdout, stderr }): never => {
      throw new Error(`ended with ${status}, and never said ${text}\n${stdout}${stderr}`);
    });
    return await soon(Promise.race([said, over]), text);
  }

  /** Sends it a signal, and waits for its end. */
  async end(signal: NodeJS.Signals): Promise<Ended> {
    this.#child.kill(signal);
    return await soon(this.ended, "the end of a command");
  }
}
