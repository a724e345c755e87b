/** What a test of a worker needs: a stopped clock, queues that keep their log lines, and an end to all that was started. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import {
  type Driver,
  type Job,
  type Jobs,
  Queue,
  type QueueOptions,
  type WorkEvent,
  type WorkOptions,
} from "@x/queue";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { Clock } from "./clock.ts";
import { newFolder } from "./folder.ts";
import { soon } from "./until.ts";

/** A worker under test. */
export interface Working {
  /** All that it told of, in order. */
  readonly events: WorkEvent[];
  /** Whether it has ended. */
  over: boolean;
  /** Its end. */
  readonly ended: Promise<void>;
  /** Tells it to stop, and waits for its end. */
  stop(): Promise<void>;
  /** Tells it to stop at once, and waits for its end. */
  force(): Promise<void>;
}

/** One test. */
export class Session {
  /** Time stands still until the test moves it. */
  readonly clock: Clock;
  /** What the queues of this test logged: the level, then the line. */
  readonly lines: string[] = [];
  #folder: ReturnType<typeof newFolder> | null = null;
  #queues: { close(): Promise<void> }[] = [];
  #workers: Working[] = [];

  /** Stops the clock at `now`. */
  constructor(now?: number) {
    this.clock = new Clock(now);
  }

  /** The path of a database that is this test's own. */
  get file(): string {
    this.#folder ??= newFolder();
    return join(this.#folder.path, "queue.sqlite");
  }

  /** An open queue, in memory unless `options` say otherwise. */
  readonly queue = async <const J extends Jobs>(
    jobs: J,
    options: Omit<QueueOptions<J>, "jobs"> = {},
  ): Promise<Queue<J>> => {
    const log = {
      warn: (line: string) => void this.lines.push(`warn ${line}`),
      error: (line: string) => void this.lines.push(`error ${line}`),
    };
    const store = options.driver === undefined ? { database: ":memory:" } : {};
    const queue = new Queue<J>({ ...store, env: {}, log, ...options, jobs });
    this.#queues.push(queue);
    await queue.open();
    return queue;
  };

  /** Closes this at the end of the test, too. */
  closing(queue: { close(): Promise<void> }): void {
    this.#queues.push(queue);
  }

  /** A driver to look around with, or to interfere. */
  driver(database: unknown): SqliteDriver {
    const driver = new SqliteDriver({ database });
    this.#queues.push(driver);
    return driver;
  }

  /** A worker of `queue`, which has found out by now what there is to do. */
  readonly work = async (
    queue: { work(options: WorkOptions): Promise<void> },
    options: WorkOptions = {},
  ): Promise<Working> => {
    const stopping = new AbortController();
    const forcing = new AbortController();
    const events: WorkEvent[] = [];
    const end = async (by: AbortController): Promise<void> => {
      by.abort();
      await this.clock.until(() => working.over, "the worker to end");
      await ended;
    };
    const ended = queue.work({
      signal: stopping.signal,
      forceSignal: forcing.signal,
      ...options,
      onEvent: (event) => {
        events.push(event);
        options.onEvent?.(event);
      },
    }).finally(() => working.over = true);
    ended.catch(() => {});
    const working: Working = {
      events,
      over: false,
      ended,
      stop: () => end(stopping),
      force: () => end(forcing),
    };
    this.#workers.push(working);
    await this.clock.rest();
    return working;
  };

  /** Gives the time back, and ends what was started. */
  async end(): Promise<void> {
    this.clock.release();
    for (const worker of this.#workers) await worker.force().catch(() => {});
    for (const queue of this.#queues) await soon(queue.close(), "a queue to close");
    this.#folder?.remove();
  }
}

/** A test with a session of its own. */
export function inSession(
  sentence: string,
  run: (session: Session) => Promise<void>,
  { now }: { now?: () => number } = {},
): void {
  test(sentence, async () => {
    const session = new Session(now?.());
    try {
      await run(session);
    } catch (error) {
      // The test's own error says more than one about its remains.
      await session.end().catch(() => {});
      throw error;
    }
    await session.end();
  });
}

/** A handler whose jobs wait until the test lets them go. */
export class Gate {
  /** Every job that came, in order. */
  readonly came: Job[] = [];
  /** How many are inside, and the most that ever were. */
  inside = 0;
  most = 0;
  readonly #held: (() => void)[] = [];

  /** The handler. It does not look at its signal. */
  readonly handle = async (job: Job): Promise<void> => {
    this.came.push(job);
    this.most = Math.max(this.most, ++this.inside);
    await new Promise<void>((resolve) => this.#held.push(resolve));
    this.inside--;
  };

  /** The payloads of those that came. */
  get payloads(): string[] {
    return this.came.map(({ payload }) => payload);
  }

  /** Lets the first `count` of those that wait go. */
  open(count = 1): void {
    assert.equal(this.#held.length >= count, true, "there are so many inside");
    for (const resolve of this.#held.splice(0, count)) resolve();
  }
}

/** A driver that does some things otherwise, and passes the rest on: a way of its own to complete is the only one. */
export function changed<D extends Driver>(driver: D, changes: Partial<Driver>): D {
  return new Proxy(driver, {
    get(target, key) {
      if (key === "completeFor" && "complete" in changes && !(key in changes)) return undefined;
      const value = Reflect.get(key in changes ? changes : target, key, key in changes ? changes : target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** `count` texts: `"0"`, `"1"` and so on, each after `before`. */
export function numbered(count: number, before = ""): string[] {
  return Array.from({ length: count }, (_, index) => before + index);
}
