/**
 * Runs the programs of the demo and shows what they print, line by line.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** How this runtime runs a file, as one would type it. */
export const runtime: string = "Deno" in globalThis ? "deno run -A" : "Bun" in globalThis ? "bun" : "node";

/** How long any step of the demo may take, in milliseconds. */
const patience = 15_000;

const coloured: boolean = process.stdout.isTTY === true && !process.env.NO_COLOR;

/** The text in an ANSI colour, on a terminal. */
export function paint(colour: number, text: string): string {
  return coloured ? `\x1b[${colour}m${text}\x1b[0m` : text;
}

/** What a program is started with. */
export interface ProgramOptions {
  /** Stands before each line. Default: none. */
  label?: string;
  /** The label's colour. */
  colour?: number;
  /** Environment variables besides those of this process. */
  env?: Record<string, string>;
}

/** A process that runs a file of this repository. */
export class Program {
  static readonly #running = new Set<Program>();

  /** Its process id. */
  readonly pid: number;
  /** Resolves to its exit status, once it has ended and all its output was shown; null when a signal ended it. */
  readonly status: Promise<number | null>;
  readonly #name: string;
  readonly #lines: string[] = [];
  #check: () => void = () => {};

  /** Starts the file with these arguments. They are split at the spaces: what is shown to the reader is what runs. */
  constructor(command: string, { label, colour = 0, env = {} }: ProgramOptions = {}) {
    const args = `${runtime} ${command}`.split(" ").slice(1);
    const child: ChildProcess = spawn(process.execPath, args, {
      cwd: fileURLToPath(new URL("..", import.meta.url)),
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.pid = child.pid!;
    this.#name = label ?? command;
    Program.#running.add(this);
    for (const stream of [child.stdout!, child.stderr!]) {
      createInterface({ input: stream }).on("line", (line) => {
        console.log(label === undefined ? line : paint(colour, `${label.padEnd(9)}│ `) + line);
        this.#lines.push(line);
        this.#check();
      });
    }
    this.status = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code: number | null) => {
        Program.#running.delete(this);
        resolve(code);
      });
    });
  }

  /** What it has printed so far. */
  get output(): string {
    return this.#lines.join("\n");
  }

  /** Waits until it has printed so many lines like this, and returns the last one's match. */
  async printed(pattern: RegExp, times = 1): Promise<RegExpMatchArray> {
    const match = new Promise<RegExpMatchArray>((resolve, reject) => {
      this.#check = () => {
        const matches = this.#lines.map((line) => line.match(pattern)).filter((match) => match !== null);
        if (matches.length >= times) resolve(matches[times - 1]);
      };
      this.#check();
      this.status.then((code) => reject(new Error(`${this.#name} ended with exit status ${code}`)), reject);
    });
    return await inTime(match, `${this.#name} should have printed ${pattern} (${times} times)`);
  }

  /** Waits until it has ended, and returns its exit status. */
  async ended(): Promise<number | null> {
    return await inTime(this.status, `${this.#name} should have ended`);
  }

  /** Sends it a signal. */
  kill(signal: "SIGTERM" | "SIGKILL"): void {
    process.kill(this.pid, signal);
  }

  /** Ends every program that still runs. */
  static async killAll(): Promise<void> {
    for (const program of Program.#running) {
      try {
        program.kill("SIGKILL");
      } catch {
        // It has ended by itself, a moment ago.
      }
      await program.status;
    }
  }
}

async function inTime<T>(promise: Promise<T>, otherwise: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${otherwise} within ${patience / 1000} s`)), patience);
  });
  try {
    return await Promise.race([promise, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
