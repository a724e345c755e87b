/**
 * One connection to Redis that is made anew when it breaks, with a deadline on every call.
 *
 * @module
 */
import { createHash } from "node:crypto";
import { QueueError } from "../../core/errors.ts";
import { type Connect, isReply, type RedisConnection } from "./connection.ts";

/** The longest wait before connecting again, in milliseconds. */
const LONGEST_WAIT = 2000;

/** A timer that is so late, in milliseconds, says that this process stood still, as on a busy or a suspended machine. */
const LATE = 50;

/** How long what came meanwhile has to be read then, in milliseconds, before it counts as lost. */
const SPARE = 200;

/** A Lua script: sent by its hash, and whole where the server does not know it. */
export interface Script {
  /** Its text. */
  readonly lua: string;
  /** Its hash. */
  readonly sha: string;
}

/** Makes a script. */
export function script(lua: string): Script {
  return { lua, sha: createHash("sha1").update(lua).digest("hex") };
}

/** A connection with the calls that wait for its replies, the oldest first. */
interface Line {
  readonly connection: RedisConnection;
  readonly calls: Set<{ readonly deadline: number; reject(cause: unknown): void }>;
  /** Ends the wait for the oldest call's deadline. */
  cancel: (() => void) | null;
  dropped: boolean;
}

/** Sends commands. */
export class Link {
  readonly #connect: Connect;
  readonly #deadline: number;
  #isLoaded = false;
  readonly #prepare: (connection: RedisConnection) => Promise<void>;
  readonly #load: () => Promise<unknown>;
  #line: Line | null = null;
  #opening: Promise<Line> | null = null;
  #failures = 0;
  #mayConnectAt = 0;
  #closed = false;

  /**
   * @param connect Opens a connection.
   * @param deadline How long a call may take, in milliseconds; connecting likewise.
   * @param prepare Runs on each new connection before it is used.
   * @param load Loads what `connect` needs: on a busy machine that may take longer than a server that is well.
   */
  constructor(
    connect: Connect,
    deadline: number,
    prepare: (connection: RedisConnection) => Promise<void> = async () => {},
    load: () => Promise<unknown> = async () => {},
  ) {
    this.#connect = connect;
    this.#deadline = deadline;
    this.#prepare = prepare;
    this.#load = load;
  }

  /** Whether commands go out at once, in the order of their calls. */
  get isOpen(): boolean {
    return this.#line !== null && this.#line.connection.closed !== true;
  }

  /** Connects, where there is no connection. */
  async open(): Promise<void> {
    await this.#opened();
  }

  /**
   * Sends a command.
   *
   * @param command Its words.
   * @param extra How much longer than the deadline it may take, in milliseconds: for one that blocks.
   * @throws {QueueError} `REDIS`: where Redis could not be reached or refused, nothing was changed; where the reply was
   * lost, the command may have run: {@linkcode isLost} tells.
   */
  async call(command: string[], extra: number = 0): Promise<unknown> {
    try {
      return await this.#call(command, extra);
    } catch (error) {
      throw refused(error, keysOf(command));
    }
  }

  /** Runs a script, as {@linkcode call}. */
  async run({ sha, lua }: Script, keys: readonly string[], values: readonly string[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...values];
    try {
      return await this.#call(["EVALSHA", sha, ...rest], 0);
    } catch (error) {
      if (!isReply(error) || !error.message.startsWith("NOSCRIPT")) throw refused(error, keys);
    }
    return await this.call(["EVAL", lua, ...rest]);
  }

  /** Closes the connection; calls that are under way are rejected. */
  close(): void {
    this.#closed = true;
    if (this.#line !== null) this.#drop(this.#line, new Error("the queue is closed"));
  }

  #call(command: string[], extra: number): Promise<unknown> {
    const line = this.#line;
    if (line !== null && line.connection.closed !== true) return this.#send(line, command, extra);
    return this.#opened().then((line) => this.#send(line, command, extra));
  }

  #send(line: Line, command: string[], extra: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const call = {
        deadline: performance.now() + this.#deadline + extra,
        reject: (cause: unknown) => reject(lostReply(cause)),
      };
      line.calls.add(call);
      this.#watch(line);
      const failed = (cause: unknown): void => {
        if (!line.calls.delete(call)) return;
        if (isReply(cause)) {
          // Another server may have become the primary: its address is looked up anew.
          if (/^(READONLY|UNBLOCKED|MASTERDOWN)/.test(cause.message)) this.#drop(line, cause);
          return reject(cause);
        }
        this.#drop(line, cause);
        reject(lostReply(cause));
      };
      try {
        line.connection.sendCommand(command).then((reply) => {
          if (line.calls.delete(call)) resolve(reply);
        }, failed);
      } catch (error) {
        failed(error);
      }
    });
  }

  /** One timer for the oldest call: all calls of a link have the same deadline. */
  #watch(line: Line): void {
    if (line.cancel !== null) return;
    const [oldest] = line.calls;
    line.cancel = onTime(Math.max(1, oldest.deadline - performance.now()), () => {
      line.cancel = null;
      if (line.calls.has(oldest)) this.#drop(line, new Error(`no reply within ${this.#deadline / 1000} s`));
      else if (line.calls.size > 0) this.#watch(line);
    });
  }

  #drop(line: Line, cause: unknown): void {
    if (line.dropped) return;
    line.dropped = true;
    line.cancel?.();
    if (this.#line === line) {
      this.#line = null;
      this.#delayNext();
    }
    const calls = [...line.calls];
    line.calls.clear();
    for (const call of calls) call.reject(cause);
    shut(line.connection);
  }

  /** The open connection, within the deadline. */
  #opened(): Promise<Line> {
    if (this.#closed) return Promise.reject(new QueueError("CLOSED", "the queue is closed"));
    if (this.#line !== null) {
      if (this.#line.connection.closed !== true) return Promise.resolve(this.#line);
      this.#drop(this.#line, new Error("the connection was closed"));
    }
    if (!this.#isLoaded) {
      return this.#load().then(() => {
        this.#isLoaded = true;
        return this.#opened();
      });
    }
    this.#opening ??= this.#make().finally(() => this.#opening = null);
    return within(this.#deadline, this.#opening, "no connection").catch((cause) => {
      if (cause instanceof QueueError) throw cause;
      if (isAuthentication(cause)) throw refused(cause, []);
      throw new QueueError(
        "REDIS",
        `Redis could not be reached, so nothing was changed: ${messageOf(cause)}`,
        { cause },
      );
    });
  }

  async #make(): Promise<Line> {
    const wait = this.#mayConnectAt - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      const connection = await this.#connected();
      try {
        await within(this.#deadline, this.#prepare(connection), "no reply");
        if (this.#closed) throw new QueueError("CLOSED", "the queue is closed");
      } catch (error) {
        shut(connection);
        throw error;
      }
      this.#failures = 0;
      return this.#line = { connection, calls: new Set(), cancel: null, dropped: false };
    } catch (error) {
      this.#delayNext();
      throw error;
    }
  }

  async #connected(): Promise<RedisConnection> {
    if (this.#closed) throw new QueueError("CLOSED", "the queue is closed");
    const connecting = this.#connect();
    try {
      return await within(this.#deadline, connecting, "no connection");
    } catch (error) {
      // It may open yet, when nobody waits for it any more.
      connecting.then(shut, () => {});
      throw error;
    }
  }

  /** Doubles from 50 ms, with jitter so that not all clients come back at once. */
  #delayNext(): void {
    this.#failures++;
    const most = Math.min(50 * 2 ** Math.min(this.#failures - 1, 10), LONGEST_WAIT);
    this.#mayConnectAt = performance.now() + most * (0.5 + Math.random() / 2);
  }
}

const lost = new WeakSet<object>();

/** Whether a call failed because its reply was lost, so that it may have run. */
export function isLost(error: unknown): boolean {
  return typeof error === "object" && error !== null && lost.has(error);
}

/** Whether a call that failed may have changed something: its reply was lost, or its script failed on the way. */
export function mayHaveRun(error: unknown): boolean {
  return isLost(error) || /@?user_script/.test(messageOf(error));
}

function lostReply(cause: unknown): QueueError {
  const error = new QueueError(
    "REDIS",
    `the reply of Redis was lost, so this may have been done: ${messageOf(cause)}`,
    { cause },
  );
  lost.add(error);
  return error;
}

/** @param keys The keys of the command, one of which may hold what it cannot work on. */
function refused(error: unknown, keys: readonly string[]): QueueError {
  if (error instanceof QueueError) return error;
  const said = `Redis refused: ${messageOf(error)}`;
  if (isAuthentication(error)) {
    const where = "see the user and the password in REDIS_URL, or in the option `redis`";
    return new QueueError("REDIS", `${said}: nothing was changed; ${where}`, { cause: error });
  }
  if (!messageOf(error).startsWith("WRONGTYPE") || keys.length === 0) {
    return new QueueError("REDIS", said, { cause: error });
  }
  const named = keys.slice(0, MOST_KEYS).map((key) => JSON.stringify(key)).join(", ");
  const which = keys.length === 1 ? `the key ${named}` : `one of the keys ${named}`;
  const more = keys.length > MOST_KEYS ? ` and ${keys.length - MOST_KEYS} more` : "";
  const why = `${which}${more} is another program's: choose another REDIS_PREFIX, or remove it`;
  return new QueueError("REDIS", `${said}: ${why}`, { cause: error });
}

/** How many keys an error names. */
const MOST_KEYS = 5;

/** The keys of a command: those that a script is given, or the word after its name. */
function keysOf([name, ...rest]: readonly string[]): readonly string[] {
  return name.startsWith("EVAL") ? rest.slice(2, 2 + Number(rest[1])) : rest.slice(0, 1);
}

/** Whether the server refused the user or the password, or wants them. */
function isAuthentication(error: unknown): boolean {
  return /^(WRONGPASS|NOAUTH)\b|^ERR (invalid password|AUTH\b)/i.test(messageOf(error));
}

/** What an error says. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function shut(connection: RedisConnection): void {
  try {
    const closing = connection.close?.() as Promise<unknown> | undefined;
    closing?.catch?.(() => {});
  } catch {
    // It is broken already.
  }
}

/** Rejects where `promise` takes longer than `deadline` milliseconds. */
export async function within<Result>(
  deadline: number,
  promise: Promise<Result>,
  what: string,
): Promise<Result> {
  let cancel = (): void => {};
  const late = new Promise<never>((_, reject) => {
    cancel = onTime(deadline, () => reject(new Error(`${what} within ${deadline / 1000} s`)));
  });
  promise.catch(() => {});
  try {
    return await Promise.race([promise, late]);
  } finally {
    cancel();
  }
}

/**
 * Calls `run` after `delay` milliseconds, unless the returned function is called before; a little later where this
 * process stood still at that time: timers go off before what has come meanwhile is read.
 */
function onTime(delay: number, run: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>;
  const arm = (delay: number): void => {
    const at = performance.now() + delay;
    timer = setTimeout(() => performance.now() - at < LATE ? run() : arm(SPARE), delay);
  };
  arm(delay);
  return () => clearTimeout(timer);
}
