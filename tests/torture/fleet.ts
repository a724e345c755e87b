/**
 * The processes of a torture: producers and workers, each started again after its end as a new process with a log of
 * its own.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { sendSignal } from "../signal.ts";
import { soon } from "../until.ts";
import type { Journal } from "./journal.ts";
import type { Store } from "./store.ts";

/** A runtime to start processes on. */
export interface Executable {
  readonly name: "deno" | "bun" | "node";
  readonly path: string;
}

/** What all processes share. */
export interface Camp {
  /** Where the logs are. */
  readonly folder: string;
  readonly store: Store;
  readonly journal: Journal;
}

/** How long a process that was told to stop may take, in milliseconds: longer than any outage and any deadline. */
const PATIENCE = 45_000;

/** A place in the fleet, in which one process runs at a time. */
export class Slot {
  /** Its role and number. */
  readonly name: string;
  /** Whether a fault that it must not share is under way. */
  isStruck = false;
  readonly #camp: Camp;
  readonly #runtime: Executable;
  readonly #program: "producer" | "worker";
  readonly #options: (incarnation: number) => Record<string, unknown>;
  #child: ChildProcess | null = null;
  #incarnation = 0;
  #ended: Promise<void> = Promise.resolve();
  #over = true;
  #expected = false;

  /** Says what its processes are. */
  constructor(
    camp: Camp,
    runtime: Executable,
    program: "producer" | "worker",
    number: number,
    options: (incarnation: number) => Record<string, unknown>,
  ) {
    this.#camp = camp;
    this.#runtime = runtime;
    this.#program = program;
    this.#options = options;
    this.name = `${program} ${number} ${runtime.name}`;
  }

  /** The name of the process that runs in it now, or ran last. */
  get process(): string {
    return `${this.name} ${this.#incarnation}`;
  }

  /** Whether its process runs. */
  get isUp(): boolean {
    return !this.#over;
  }

  /** Starts a process. */
  async start(): Promise<void> {
    const { folder, store, journal } = this.#camp;
    const name = `${this.name} ${++this.#incarnation}`;
    const options = {
      name,
      folder,
      store: await store.place(this.name),
      clock: this.#clock,
      ...this.#options(this.#incarnation),
    };
    const file = fileURLToPath(new URL(`${this.#program}.ts`, import.meta.url));
    const before = this.#runtime.name === "deno" ? ["run", "-A", "--no-check"] : [];
    const output = openSync(this.#outputOf(name), "w");
    const child = this.#child = spawn(this.#runtime.path, [...before, file, JSON.stringify(options)], {
      stdio: ["ignore", output, output],
    });
    closeSync(output);
    this.#over = this.#expected = false;
    this.#ended = new Promise((resolve) => {
      child.on("exit", (code, signal) => {
        this.#over = true;
        const how = signal ?? code ?? "unknown";
        const output = readFileSync(this.#outputOf(name), "utf8");
        if (output !== "") journal.note({ fact: "said", line: `${name}: ${output}` });
        journal.note({ fact: "gone", process: name, how, expected: this.#expected });
        resolve();
      });
    });
  }

  /** Kills its process and waits until it is gone. */
  async kill(): Promise<void> {
    this.#expected = true;
    this.signal("SIGKILL");
    await this.#ended;
  }

  /** Tells its process to stop. */
  tell(): void {
    this.#expected = true;
    this.signal("SIGTERM");
  }

  /** Waits for the end of its process, and writes down where that does not come. */
  async ends(): Promise<void> {
    this.#expected = true;
    try {
      await soon(this.#ended, `${this.process} to end`, PATIENCE);
    } catch (error) {
      this.#expected = false;
      this.#camp.journal.note({ fact: "said", line: String(error) });
      this.signal("SIGKILL");
      await this.#ended;
    }
  }

  /** Sends a signal, unless it has ended. */
  signal(signal: "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    if (!this.#over) sendSignal(this.#child!.pid!, signal);
  }

  /** Sets the clock of its processes, by so many milliseconds off the machine's. */
  setClock(shift: number): void {
    if (shift === 0) rmSync(this.#clock, { force: true });
    else writeFileSync(this.#clock, String(shift));
  }

  get #clock(): string {
    return join(this.#camp.folder, `${this.name}.clock`);
  }

  #outputOf(name: string): string {
    return join(this.#camp.folder, `${name}.output`);
  }
}
