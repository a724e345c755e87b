/** Runs a program in a pseudo-terminal, as `script` of util-linux gives one, and shows its screen. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Screen } from "./screen.ts";
import { sendSignal } from "./signal.ts";
import { soon, until } from "./until.ts";

/** Why there is no pseudo-terminal here; `false` where there is one. */
export const noTerminal: string | false = findProblem();

function findProblem(): string | false {
  const asked = spawnSync("script", ["-qec", "exit 7", "/dev/null"], { stdio: ["ignore", "pipe", "pipe"] });
  if (asked.error !== undefined) return "no `script` of util-linux, which gives programs a terminal";
  return asked.status === 7 ? false : "`script` here is not that of util-linux";
}

/** A program in a terminal of its own. */
export class InTerminal {
  readonly screen: Screen;
  /** All that it wrote. */
  output = "";
  /** Resolves with its exit status. */
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  readonly #folder: string;

  /** Starts `command` in the folder `cwd`, which is the test's own: its process id and terminal are left there. */
  constructor(
    command: readonly string[],
    { cwd, env, width, height, onOutput }: {
      cwd: string;
      env: Record<string, string>;
      width: number;
      height: number;
      /** Hears of each thing that was written, when it is on its way to the screen. */
      onOutput?: () => void;
    },
  ) {
    this.#folder = cwd;
    this.screen = new Screen(width, height);
    const words = command.map(quoted).join(" ");
    // The inner shell becomes the program, so that its process id is the program's.
    const inner = `echo $$ > pid.new; mv pid.new pid; exec ${words}`;
    const line = [
      `stty rows ${height} cols ${width}; stty -a > before; tty > tty; echo a line of before`,
      `sh -c ${quoted(inner)}; status=$?; stty -a > after; exit $status`,
    ].join("; ");
    this.#child = spawn("script", ["-qefc", line, "/dev/null"], {
      cwd,
      env: { SHELL: "/bin/sh", TERM: "xterm-256color", ...env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      this.output += text;
      this.screen.write(text);
      onOutput?.();
    });
    this.ended = new Promise((resolve) => this.#child.on("close", resolve));
  }

  /** Waits until its screen shows `text`. */
  async shows(text: string | RegExp): Promise<void> {
    const seen = async (): Promise<boolean> => {
      await this.screen.written;
      return typeof text === "string" ? this.screen.text.includes(text) : text.test(this.screen.text);
    };
    await until(seen, `${text} on the screen`).catch((error) => {
      throw new Error(`${(error as Error).message}:\n${this.screen.text}`);
    });
  }

  /** Waits until a row of its screen is like this: what a program draws at once need not come at once. */
  async showsRow(row: number, text: RegExp): Promise<void> {
    const seen = async (): Promise<boolean> => {
      await this.screen.written;
      return text.test(this.screen.rows[row] ?? "");
    };
    await until(seen, `${text} in row ${row}`).catch((error) => {
      throw new Error(`${(error as Error).message}:\n${this.screen.text}`);
    });
  }

  /** Presses keys. */
  type(keys: string): void {
    this.#child.stdin!.write(keys);
  }

  /** Gives its terminal another size, of which the kernel tells it by SIGWINCH. */
  resize(width: number, height: number): void {
    this.screen.resize(width, height);
    const set = spawnSync("stty", ["-F", this.#read("tty"), "rows", String(height), "cols", String(width)]);
    if (set.status !== 0) throw new Error(`stty: ${set.stderr}`);
  }

  signal(signal: "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGKILL" | "SIGCONT"): void {
    sendSignal(this.pid, signal);
  }

  /** The program's process. */
  get pid(): number {
    return Number(this.#read("pid"));
  }

  /** How the terminal was set before the program began, and after it had ended; all but its size. */
  settings(when: "before" | "after"): string {
    return this.#read(when).replace(/rows \d+; columns \d+;/, "");
  }

  /** Waits for its end. */
  async end(): Promise<number | null> {
    const status = await soon(this.ended, "the program in the terminal to end");
    await this.screen.written;
    return status;
  }

  /** Ends it, however it is. */
  async kill(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      if (existsSync(join(this.#folder, "pid"))) this.signal("SIGKILL");
      else sendSignal(this.#child.pid!, "SIGKILL");
    }
    await this.end();
    this.screen.dispose();
  }

  #read(file: string): string {
    return readFileSync(join(this.#folder, file), "utf8").trim();
  }
}

/** A word as a shell takes it. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
