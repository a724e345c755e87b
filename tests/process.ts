/** Runs the programs in `programs/` on the runtime that runs the test. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { sendSignal } from "./signal.ts";
import { soon } from "./until.ts";

/** What a program wrote on a line: a JSON array whose first element is a word. */
export type Line = readonly [word: string, ...rest: unknown[]];

/** A program that was started. */
export class Program {
  /** Every line so far. */
  readonly lines: Line[] = [];
  /** What it wrote to standard error. */
  errors = "";
  /** Resolves with its exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  readonly #child: ChildProcess;
  readonly #name: string;
  #waiters: (() => void)[] = [];
  #over = false;

  /** Starts it; `options` are its one argument. */
  constructor(name: string, options: Record<string, unknown>) {
    this.#name = name;
    const file = fileURLToPath(new URL(`programs/${name}.ts`, import.meta.url));
    const before = process.versions.deno === undefined ? [] : ["run", "-A", "--no-check"];
    const child = this.#child = spawn(process.execPath, [...before, file, JSON.stringify(options)], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let rest = "";
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      const parts = (rest + text).split("\n");
      rest = parts.pop()!;
      for (const part of parts) if (part.startsWith("[")) this.lines.push(JSON.parse(part));
      this.#tell();
    });
    child.stderr!.setEncoding("utf8").on("data", (text: string) => this.errors += text);
    this.ended = new Promise((resolve) => {
      child.on("close", (code, signal) => {
        this.#over = true;
        resolve(code ?? signal ?? "unknown");
        this.#tell();
      });
    });
  }

  /** Waits for the `count`th line that starts with `word`. */
  says(word: string, count = 1): Promise<Line> {
    const spoken = (async () => {
      for (;;) {
        const said = this.all(word);
        if (said.length >= count) return said[count - 1];
        if (this.#over) throw new Error(`${this.#name} ended and never said ${word}: ${this.errors}`);
        await new Promise<void>((resolve) => this.#waiters.push(resolve));
      }
    })();
    return soon(spoken, `${this.#name} to say ${word}`);
  }

  /** The lines so far that start with `word`. */
  all(word: string): Line[] {
    return this.lines.filter((line) => line[0] === word);
  }

  /** Sends a signal, unless it has ended. */
  signal(signal: "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    if (!this.#over) sendSignal(this.#child.pid!, signal);
  }

  /** Ends it with `signal` and resolves with how it ended. */
  end(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<number | string> {
    this.signal(signal);
    return soon(this.ended, `${this.#name} to end`);
  }

  #tell(): void {
    for (const resolve of this.#waiters.splice(0)) resolve();
  }
}

/** Runs `use` with a way to start programs, and kills afterwards those that still run. */
export async function withPrograms<Result>(
  use: (start: (name: string, options: Record<string, unknown>) => Program) => Promise<Result>,
): Promise<Result> {
  const programs: Program[] = [];
  try {
    return await use((name, options) => {
      const program = new Program(name, options);
      programs.push(program);
      return program;
    });
  } finally {
    for (const program of programs) await program.end("SIGKILL");
  }
}

/** Whether a process is there; one that has ended and nobody has waited for is not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return !existsSync("/proc/self/stat");
  }
}
