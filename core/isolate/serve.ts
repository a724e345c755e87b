/**
 * The child's side: runs the handlers of the jobs that the worker sends.
 *
 * @module
 */
import process from "node:process";
import { setImmediate } from "node:timers";
import { type FailedOutcome, LocalAttempt, type Outcome } from "../attempt.ts";
import { describe, stackOf } from "../describe.ts";
import type { Reservation } from "../driver.ts";
import { QueueError } from "../errors.ts";
import type { Jobs } from "../job.ts";
import { type JobType, readJobs } from "../registry.ts";
import { Suspects, watchStrays } from "../strays.ts";
import { loadJobs } from "./jobs_module.ts";
import {
  type Begin,
  enclose,
  type FromChild,
  type HandlersDatabase,
  type JobFacts,
  messagesIn,
  type ToChild,
} from "./messages.ts";
import { dieWithParent } from "./orphan.ts";
import { Outbox } from "./outbox.ts";

/** How often memory is reported while nothing ends, in milliseconds. */
const MEMORY_INTERVAL = 1000;

/**
 * Runs jobs for the worker that started this process, until that tells it to end: the program that
 * {@linkcode ProcessesOptions.program} names calls it. Ends the process; SIGTERM and SIGINT do not, as they go to the
 * worker, too, which decides.
 *
 * @param jobs The app's jobs; left out, they are imported from the module that the worker names.
 * @throws {QueueError} `CONFIG` in a process that no worker started.
 */
export async function serveJobs(jobs?: Jobs): Promise<never> {
  if (process.send === undefined || process.connected === false) {
    throw new QueueError("CONFIG", "serveJobs: only a worker with `processes` starts such a process");
  }
  return await new Promise<never>(() => new Server(jobs));
}

/** What the attempts of a child need of its database. */
interface HandlersConnection {
  get(): unknown;
  began(jobs: readonly Reservation[]): void;
  ended(held: Reservation): void;
  close(): void;
}

type RunMessage = Extract<ToChild, { type: "run" }>;

class Server {
  readonly #jobs: Jobs | undefined;
  readonly #running = new Map<number, LocalAttempt>();
  readonly #outbox = new Outbox<FromChild>((messages) => this.#send(messages));
  readonly #log = {
    warn: (line: string): void => this.#outbox.put({ type: "log", level: "warn", line }),
    error: (line: string): void => this.#outbox.put({ type: "log", level: "error", line }),
  };
  readonly #reports = new Map<number, FromChild>();
  #types: ReadonlyMap<string, JobType> = new Map();
  #defaults: Begin["settings"] | null = null;
  #database: HandlersConnection | null = null;
  #reportsMemory = false;
  #ending = false;
  readonly #suspects = new Suspects();

  constructor(jobs: Jobs | undefined) {
    this.#jobs = jobs;
    const ignore = (): void => {};
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, ignore);
    process.on("disconnect", () => process.exit(1));
    // What has ended is not lost when a job beside it ends the process.
    process.on("exit", () => this.#outbox.flush());
    process.on("message", (received: unknown) => this.#hear(messagesIn(received)));
    dieWithParent(process.ppid, this.#log.error);
    watchStrays({
      log: this.#log,
      suspects: () => this.#suspects.with([...this.#running.values()].map(({ job }) => job)),
    });
    this.#outbox.put({ type: "hello" });
  }

  #send(messages: readonly FromChild[], written: () => void = () => {}): void {
    // A worker that has gone is heard of by "disconnect".
    if (process.connected) process.send!(enclose(messages), undefined, undefined, written);
  }

  #hear(messages: readonly ToChild[]): void {
    const runs: RunMessage[] = [];
    for (const message of messages) {
      switch (message.type) {
        case "begin":
          this.#begin(message);
          break;
        case "run":
          runs.push(message);
          break;
        case "abort":
          this.#running.get(message.run)?.abort(new QueueError(message.code, message.why));
          break;
        case "end":
          this.#ending = true;
          this.#endWhenIdle();
          break;
      }
    }
    if (runs.length > 0) this.#start(runs);
  }

  async #begin({ module, settings, database, reportMemory }: Begin): Promise<void> {
    try {
      const jobs = this.#jobs ?? await loadJobs(module!);
      this.#types = readJobs(jobs, settings);
      this.#defaults = settings;
      if (database !== null) this.#database = await openDatabase(database, this.#log.warn);
    } catch (error) {
      this.#outbox.flush();
      const why = error instanceof QueueError ? error.message.replace(/^queue: /, "") : describe(error);
      return this.#send([{ type: "unable", why }], () => process.exit(1));
    }
    this.#reportsMemory = reportMemory;
    if (reportMemory) setInterval(() => this.#reportMemory(), MEMORY_INTERVAL);
    this.#outbox.put({ type: "ready", types: [...this.#types].map(factsOf) });
  }

  /** The worker must know what had begun should a handler end the process: so it is told first. */
  #start(runs: readonly RunMessage[]): void {
    for (const { run, held } of runs) this.#running.set(run, this.#attempt(run, held));
    this.#outbox.flush();
    this.#send([{ type: "started", runs: runs.map(({ run }) => run) }], () => {
      this.#database?.began(runs.map(({ held }) => held));
      for (const message of runs) this.#run(message, this.#running.get(message.run)!);
    });
  }

  #attempt(run: number, held: Reservation): LocalAttempt {
    const type = this.#types.get(held.name);
    // The worker keeps the clock: here, a handler may block the event loop.
    return new LocalAttempt(
      held,
      type && { ...type, timeout: null },
      this.#defaults!,
      () => this.#db(),
      (fraction, note) => {
        if (this.#reports.size === 0) setImmediate(() => this.#passOn());
        this.#reports.set(run, { type: "progress", run, fraction, note });
      },
    );
  }

  /** Of what a job said within a turn, the last word. */
  #passOn(): void {
    for (const report of this.#reports.values()) this.#outbox.put(report);
    this.#reports.clear();
  }

  async #run({ run, failed }: RunMessage, attempt: LocalAttempt): Promise<void> {
    this.#suspects.began(attempt.job, performance.now());
    const outcome = failed === null ? await attempt.run() : await runHook(attempt, failed);
    this.#running.delete(run);
    this.#suspects.ended(attempt.job);
    this.#database?.ended(attempt.held);
    this.#passOn();
    this.#outbox.put({ type: "ended", run, outcome });
    if (this.#reportsMemory) this.#reportMemory();
    this.#endWhenIdle();
  }

  #db(): unknown {
    if (this.#database !== null) return this.#database.get();
    throw new QueueError(
      "CONFIG",
      "job.db: with `processes`, only where the queue's database is a file: this one's is in the worker's memory",
    );
  }

  #reportMemory(): void {
    this.#outbox.put({ type: "memory", bytes: process.memoryUsage().rss });
  }

  #endWhenIdle(): void {
    if (!this.#ending || this.#running.size > 0) return;
    this.#database?.close();
    this.#outbox.flush();
    this.#send([], () => process.exit(0));
  }
}

/** As an outcome, what a `failed` hook throws. */
async function runHook(attempt: LocalAttempt, failed: FailedOutcome): Promise<Outcome> {
  try {
    await attempt.failed(failed);
    return { verdict: "complete" };
  } catch (error) {
    return { verdict: "fail", problem: describe(error), stack: stackOf(error), retryIn: 0 };
  }
}

async function openDatabase(
  { path, synchronous }: HandlersDatabase,
  warn: (line: string) => void,
): Promise<HandlersConnection> {
  const { openHandlersConnection } = await import("../../drivers/sqlite/handlers.ts");
  return await openHandlersConnection(path, synchronous, warn);
}

function factsOf([name, type]: [string, JobType]): JobFacts {
  const { handle, failed, ...rest } = type;
  return { name, runs: handle !== null, hooks: failed !== null, ...rest };
}
