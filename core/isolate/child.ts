/**
 * One child process, as its worker sees it: what runs in it, and how it ended.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { describe } from "../describe.ts";
import type { Reservation } from "../driver.ts";
import type { QueueError } from "../errors.ts";
import type { FailedOutcome, Outcome } from "../attempt.ts";
import { after } from "../timer.ts";
import type { Command } from "./command.ts";
import { type Begin, enclose, type FromChild, type JobFacts, messagesIn, type ToChild } from "./messages.ts";
import { Outbox } from "./outbox.ts";

/** How a child ended. */
export interface Ending {
  /** `exit 1`, `SIGSEGV`, or why it could not be started. */
  readonly how: string;
  /** Why its worker killed it; `null` where that did not. */
  readonly killed: string | null;
  /** Whether it could run jobs. */
  readonly ready: boolean;
  /** Whether it was told to go, and went. */
  readonly planned: boolean;
  /** Why it could not run jobs, where it said so. */
  readonly unable: string | null;
}

/** What runs in a child. */
export interface Run {
  readonly held: Reservation;
  /** For the job's `failed` hook, what that gets; `null` for its handler. */
  readonly failed: FailedOutcome | null;
  /** Its handler is called. */
  began(): void;
  /** Its handler says how far it is. */
  reported(fraction: number, note: string | null): void;
  /** Its handler has returned. */
  ended(outcome: Outcome): void;
  /** The process has ended before that. */
  cutOff(ending: Ending): void;
}

/** What a child is to be. */
export interface ChildParts {
  readonly command: Command;
  readonly begin: Begin;
  readonly output: "stdout" | "stderr";
  /** How many jobs run in it at a time. */
  readonly slots: number;
  /** After how many jobs, and beyond how many bytes, it gets no more. */
  readonly maxJobs: number;
  readonly memory: number;
  /** It runs jobs from now on. */
  ready(types: readonly JobFacts[]): void;
  /** It has more or fewer free slots than before. */
  changed(): void;
  /** A job has run to its end in it. */
  succeeded(): void;
  /** It has ended. What ran in it is told next. */
  gone(ending: Ending): void;
  log(level: "warn" | "error", line: string): void;
}

/** How long a child may take until it can run jobs, in milliseconds. */
const START_DEADLINE = 60_000;

/** How long it may take to exit when nothing runs in it, in milliseconds. */
const EXIT_DEADLINE = 2000;

/** How long after its end its last messages may come in, in milliseconds: a process of its own may hold the pipe open. */
const LAST_WORDS = 1000;

/** One process. */
export class Child {
  readonly #parts: ChildParts;
  readonly #process: ChildProcess;
  readonly #outbox: Outbox<ToChild>;
  readonly #runs = new Map<number, Run>();
  readonly #begun = new Set<number>();
  #next = 1;
  #state: "starting" | "ready" | "leaving" | "gone" = "starting";
  #wasReady = false;
  #unable: string | null = null;
  #killed: string | null = null;
  /** How many of its runs have outlived their timeout: it may be killed soon. */
  #suspects = 0;
  #taken = 0;
  #ending: { how: string } | null = null;
  #disconnected = false;
  #cancelDeadline: () => void;

  /** Starts it. */
  constructor(parts: ChildParts) {
    this.#parts = parts;
    const [executable, ...args] = parts.command;
    const child = this.#process = spawn(executable, args, {
      stdio: ["ignore", parts.output === "stderr" ? 2 : 1, 2, "ipc"],
    });
    this.#outbox = new Outbox((messages) => {
      // Where it fails, the process has ended, which is told by "exit".
      if (child.connected) child.send(enclose(messages), () => {});
    });
    child.on("message", (received) => this.#hear(messagesIn(received)));
    child.on("exit", (code, signal) => this.#exited(signal ?? `exit ${code}`));
    child.on("error", (error) => {
      if (child.pid === undefined) this.#exited(describe(error));
    });
    child.on("disconnect", () => {
      this.#disconnected = true;
      if (this.#ending !== null) this.#gone();
    });
    this.#cancelDeadline = after(
      START_DEADLINE,
      () => this.kill(`it was not ready after ${START_DEADLINE / 1000} s`),
    );
  }

  /** Its number in the system; 0 where it could not be started. */
  get pid(): number {
    return this.#process.pid ?? 0;
  }

  /** How many more jobs it takes now. */
  get free(): number {
    if (!this.isReady || this.isSuspect) return 0;
    return Math.max(0, Math.min(this.#parts.slots - this.#runs.size, this.#parts.maxJobs - this.#taken));
  }

  /** The jobs in it, running or about to. */
  get jobs(): Reservation[] {
    return [...this.#runs.values()].map(({ held }) => held);
  }

  /** Runs a job in it; returns the number by which to abort it. */
  start(run: Run): number {
    const number = this.#next++;
    this.#taken++;
    this.#runs.set(number, run);
    this.#outbox.put({ type: "run", run: number, held: run.held, failed: run.failed });
    return number;
  }

  /** Aborts the signal of a job in it. */
  abort(run: number, reason: QueueError): void {
    const why = reason.message.replace(/^queue: /, "");
    this.#outbox.put({ type: "abort", run, code: reason.code, why });
  }

  /** One of its jobs has outlived its timeout, or has ended after that: meanwhile it gets no new ones. */
  suspect(by: 1 | -1): void {
    this.#suspects += by;
    this.#parts.changed();
  }

  /** Ends it at once. */
  kill(why: string): void {
    if (this.#killed !== null || this.#ending !== null) return;
    this.#killed = why;
    // Not twice: Deno sends nothing then, and misreports the exit.
    this.#process.kill("SIGKILL");
  }

  /** Gives it no more jobs; it exits once those that run have ended. */
  leave(): void {
    if (this.#state === "leaving" || this.#state === "gone") return;
    this.#state = "leaving";
    this.#cancelDeadline();
    this.#outbox.put({ type: "end" });
    this.#parts.changed();
    this.#hurry();
  }

  /** As `leave`, but what still runs after `deadline` milliseconds is killed. */
  close(deadline: number): void {
    this.leave();
    const why = "its worker has stopped";
    if (!this.#wasReady) return this.kill(why);
    if (this.#runs.size === 0) return;
    this.#cancelDeadline();
    this.#cancelDeadline = after(deadline, () => this.kill(why));
  }

  /** Whether it runs jobs, or would: not once it was killed, or has ended and is still listened to. */
  get isReady(): boolean {
    return this.#state === "ready" && this.#killed === null && this.#ending === null;
  }

  /** Whether it may be killed soon. */
  get isSuspect(): boolean {
    return this.#suspects > 0;
  }

  #hurry(): void {
    if (this.#runs.size > 0) return;
    this.#cancelDeadline();
    this.#cancelDeadline = after(EXIT_DEADLINE, () => this.kill("it did not exit"));
  }

  #hear(messages: readonly FromChild[]): void {
    for (const message of messages) {
      switch (message.type) {
        case "hello":
          this.#outbox.put(this.#parts.begin);
          break;
        case "ready":
          this.#ready(message.types);
          break;
        case "unable":
          this.#unable = message.why;
          break;
        case "started":
          for (const run of message.runs) this.#began(run);
          break;
        case "progress":
          this.#runs.get(message.run)?.reported(message.fraction, message.note);
          break;
        case "ended":
          this.#ended(message.run, message.outcome);
          break;
        case "log":
          this.#parts.log(message.level, message.line);
          break;
        case "memory":
          this.#measured(message.bytes);
          break;
      }
    }
  }

  #ready(types: readonly JobFacts[]): void {
    if (this.#state !== "starting") return;
    this.#cancelDeadline();
    this.#state = "ready";
    this.#wasReady = true;
    this.#parts.ready(types);
  }

  #began(number: number): void {
    this.#begun.add(number);
    this.#runs.get(number)?.began();
  }

  #ended(number: number, outcome: Outcome): void {
    const run = this.#runs.get(number);
    if (run === undefined) return;
    this.#runs.delete(number);
    this.#begun.delete(number);
    run.ended(outcome);
    this.#parts.succeeded();
    if (this.#state === "leaving") this.#hurry();
    else if (this.#taken >= this.#parts.maxJobs && this.#runs.size === 0) this.leave();
    else this.#parts.changed();
  }

  #measured(bytes: number): void {
    // One that is too large from the start would be replaced for ever.
    if (bytes <= this.#parts.memory || this.#state !== "ready" || this.#taken === 0) return;
    const [is, most] = [bytes, this.#parts.memory].map((size) => Math.round(size / 2 ** 20));
    this.#parts.log("warn", `queue: process ${this.pid} is replaced: it has ${is} MB, more than ${most}`);
    this.leave();
  }

  #exited(how: string): void {
    if (this.#ending !== null) return;
    this.#ending = { how };
    this.#cancelDeadline();
    if (this.#disconnected || this.#process.pid === undefined) this.#gone();
    else this.#cancelDeadline = after(LAST_WORDS, () => this.#gone());
  }

  #gone(): void {
    if (this.#state === "gone") return;
    const ending: Ending = {
      how: this.#ending!.how,
      killed: this.#killed,
      ready: this.#wasReady,
      planned: this.#state === "leaving" && this.#killed === null && this.#runs.size === 0,
      unable: this.#unable,
    };
    this.#state = "gone";
    this.#cancelDeadline();
    this.#parts.gone(ending);
    for (const [number, run] of this.#runs) {
      // What had not begun has cost nothing, and cannot be at fault.
      const atFault = this.#begun.has(number);
      run.cutOff(atFault ? ending : { ...ending, killed: ending.killed ?? `it crashed: ${ending.how}` });
    }
    this.#runs.clear();
  }
}
