/**
 * The child processes of one worker: keeps so many alive, deals jobs to them, and replaces those that end.
 *
 * @module
 */
import { type Attempt, LocalAttempt, type Report } from "../attempt.ts";
import { oneLine } from "../describe.ts";
import type { Reservation } from "../driver.ts";
import { QueueError } from "../errors.ts";
import type { Log } from "../log.ts";
import type { TypeSettings } from "../registry.ts";
import { after } from "../timer.ts";
import type { Slots } from "../worker.ts";
import { Child, type Ending } from "./child.ts";
import { childCommand, type Command } from "./command.ts";
import type { HandlersDatabase, JobFacts } from "./messages.ts";
import type { ProcessesPlan } from "./options.ts";
import { RemoteAttempt } from "./remote_attempt.ts";

/** What a pool works with. */
export interface PoolParts {
  readonly plan: ProcessesPlan;
  readonly settings: TypeSettings;
  /** What the children open for `job.db`; `null` where the database is not a file. */
  readonly database: HandlersDatabase | null;
  readonly log: Log;
}

/** One place for a process. */
interface Seat {
  readonly slots: number;
  child: Child | null;
  /** How many processes ended here in a row without having run a job to its end. */
  failures: number;
  cancelStart: () => void;
}

/** The wait before the third start in a row, which doubles with each that comes to nothing, and the longest, in milliseconds. */
const BACK_OFF = [100, 30_000];

/** How long handlers whose signal was aborted have left when the worker is done, in milliseconds. */
const CLOSE_GRACE = 500;

/** The processes of one worker. */
export class Pool implements Slots {
  readonly #parts: PoolParts;
  readonly #command: Command;
  readonly #seats: Seat[];
  #types: ReadonlyMap<string, JobFacts> = new Map();
  /** Until one is ready. */
  #opening: { resolve: () => void; reject: (error: QueueError) => void } | null = null;
  /** Why starts failed while nobody knows yet whether any succeeds. */
  readonly #faults: string[] = [];
  /** Who waits for a child that runs jobs. */
  readonly #waiting: ((child: Child | null) => void)[] = [];
  #closing: Promise<void> | null = null;
  #closed: (() => void) | null = null;
  onChange: (() => void) | null = null;

  /** @throws {QueueError} `CONFIG` where no command can start a child. */
  constructor(parts: PoolParts) {
    this.#parts = parts;
    this.#command = childCommand(parts.plan.program, parts.plan.flags);
    this.#seats = parts.plan.slots.map((slots) => ({
      slots,
      child: null,
      failures: 0,
      cancelStart: () => {},
    }));
  }

  /**
   * Starts all, and resolves once one of them can run jobs.
   *
   * @param insist Whether to reject where none can; else that is logged, and tried again.
   * @throws {QueueError} `CONFIG` with the reason, where none can.
   */
  open(insist: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      if (insist) this.#opening = { resolve, reject };
      else resolve();
      for (const seat of this.#seats) this.#start(seat);
    });
  }

  get free(): number {
    return this.#seats.reduce((sum, { child }) => sum + (child?.free ?? 0), 0);
  }

  /** The job types that the children have a handler for, as far as one has told. */
  get names(): string[] {
    return [...this.#types.values()].filter(({ runs }) => runs).map(({ name }) => name);
  }

  get stalled(): boolean {
    return this.#seats.every(({ child, failures }) => child === null && failures > 1);
  }

  /** Makes the attempt at a job. */
  readonly attempt = (held: Reservation, report: Report): Attempt => {
    const type = this.#types.get(held.name);
    if (type === undefined) {
      return new LocalAttempt(held, undefined, this.#parts.settings, () => null, report);
    }
    return new RemoteAttempt(held, type, {
      choose: () => this.#choose(),
      whenReady: (use) => this.#whenReady(use),
      killAfter: this.#parts.plan.killAfter,
    }, report);
  };

  /** Ends all. What still runs has a moment to return, and is killed then. */
  close(): Promise<void> {
    this.#closing ??= new Promise((resolve) => {
      this.#closed = resolve;
      this.#opening?.resolve();
      this.#opening = null;
      for (const { child, cancelStart } of this.#seats) {
        cancelStart();
        child?.close(CLOSE_GRACE);
      }
      for (const use of this.#waiting.splice(0)) use(null);
      this.#maybeClosed();
    });
    return this.#closing;
  }

  /** The child with the most free slots; `null` where none has one. */
  #choose(): Child | null {
    let best: Child | null = null;
    for (const { child } of this.#seats) {
      if (child !== null && child.free > (best?.free ?? 0)) best = child;
    }
    return best;
  }

  #whenReady(use: (child: Child | null) => void): void {
    if (this.#closed !== null) return use(null);
    const ready = this.#seats.flatMap(({ child }) => child?.isReady ? [child] : []);
    ready.sort((one, other) =>
      Number(one.isSuspect) - Number(other.isSuspect) || one.jobs.length - other.jobs.length
    );
    if (ready.length > 0) use(ready[0]);
    else this.#waiting.push(use);
  }

  #start(seat: Seat): void {
    const { plan, settings, database, log } = this.#parts;
    const { tries, backoff, timeout } = settings;
    seat.child = new Child({
      command: this.#command,
      begin: {
        type: "begin",
        module: plan.module,
        settings: { tries, backoff, timeout },
        database,
        reportMemory: plan.memory < Infinity,
      },
      output: plan.output,
      slots: seat.slots,
      maxJobs: plan.maxJobs,
      memory: plan.memory,
      ready: (types) => this.#ready(types),
      succeeded: () => seat.failures = 0,
      changed: () => this.onChange?.(),
      gone: (ending) => this.#gone(seat, ending),
      log: (level, line) => log[level](line),
    });
  }

  #ready(types: readonly JobFacts[]): void {
    this.#types = new Map(types.map((type) => [type.name, type]));
    for (const line of this.#faults.splice(0)) this.#parts.log.error(line);
    this.#opening?.resolve();
    this.#opening = null;
    for (const use of this.#waiting.splice(0)) this.#whenReady(use);
    this.onChange?.();
  }

  #gone(seat: Seat, ending: Ending): void {
    const jobs = seat.child!.jobs;
    const { pid } = seat.child!;
    seat.child = null;
    if (this.#closed !== null) return this.#maybeClosed();
    // One that a job kept from ending has said nothing against the next one.
    const expected = ending.planned || (ending.ready && ending.killed !== null);
    const wait = expected ? 0 : waitAfter(++seat.failures);
    if (!ending.planned) this.#complain(ending, pid, jobs, wait);
    if (this.#closed !== null) return;
    seat.cancelStart = after(wait, () => this.#start(seat));
    this.onChange?.();
  }

  #complain(
    { how, killed, ready, unable }: Ending,
    pid: number,
    jobs: readonly Reservation[],
    wait: number,
  ): void {
    const next = wait === 0 ? "" : `; the next one starts in ${wait / 1000} s`;
    if (ready) {
      const label = jobs.slice(0, 10).map(({ id, name }) => `${oneLine(name)} (id ${id})`).join(", ");
      const what = killed === null ? `crashed: ${how}` : `was killed: ${oneLine(killed)}`;
      this.#parts.log.error(`queue: process ${pid} ${what}${label === "" ? "" : `, with ${label}`}${next}`);
      return;
    }
    const why = unable ?? killed ?? `its process ended before it could run jobs: ${how}`;
    const line = `queue: a process of the worker cannot start: ${oneLine(why)}${next}`;
    if (this.#opening === null) return this.#parts.log.error(line);
    this.#faults.push(line);
    if (this.#seats.some(({ failures }) => failures === 0)) return;
    const { reject } = this.#opening;
    this.#opening = null;
    this.close();
    reject(new QueueError("CONFIG", why));
  }

  #maybeClosed(): void {
    if (this.#seats.every(({ child }) => child === null)) this.#closed?.();
  }
}

/** The wait before the next start, in milliseconds; none after the first end, which may be a job's affair. */
function waitAfter(failures: number): number {
  return failures < 2 ? 0 : Math.min(BACK_OFF[0] * 2 ** (failures - 2), BACK_OFF[1]);
}
