/**
 * One connection to Redis that is made anew when it breaks, with a deadline on every call.
 *
 * @module
 */
import { QueueError } from "../../core/errors.ts";
import { type Connect, isReply, type RedisConnection } from "./connection.ts";

/** The longest wait before connecting again, in milliseconds. */
const LONGEST_WAIT = 2000;

/** Sends commands. */
export class Link {
  readonly #connect: Connect;
  readonly #deadline: number;
  readonly #prepare: (connection: RedisConnection) => Promise<void>;
  #connection: Promise<RedisConnection> | null = null;
  #failures = 0;
  #mayConnectAt = 0;
  #closed = false;

  /**
   * @param connect Opens a connection.
   * @param deadline How long a call may take, in milliseconds; connecting likewise.
   * @param prepare Runs on each new connection before it is used.
   */
  constructor(connect: Connect, deadline: number, prepare: (connection: RedisConnection) => Promise<void> = async () => {}) {
    this.#connect = connect;
    this.#deadline = deadline;
    this.#prepare = prepare;
  }

  /**
   * Sends a command.
   *
   * @param command Its words.
   * @param extra How much longer than the deadline it may take, in milliseconds: for one that blocks.
   * @throws {QueueError} `REDIS`: where Redis could not be reached, nothing was changed; where the reply was lost, the
   * command may have run, and the message says so.
   */
  async call(command: string[], extra = 0): Promise<unknown> {
    let connection: RedisConnection;
    try {
      connection = await within(this.#deadline, this.#open(), "no connection");
    } catch (cause) {
      throw new QueueError("REDIS", `Redis could not be reached: ${messageOf(cause)}`, { cause });
    }
    try {
      return await within(this.#deadline + extra, connection.sendCommand(command), "no reply");
    } catch (cause) {
      if (isReply(cause)) throw cause;
      this.#drop(connection);
      throw new QueueError("REDIS", `${LOST_REPLY}: ${messageOf(cause)}`, { cause });
    }
  }

  /** Closes the connection. */
  close(): void {
    this.#closed = true;
    this.#connection?.then((connection) => connection.close?.(), () => {});
    this.#connection = null;
  }

  #open(): Promise<RedisConnection> {
    if (this.#closed) return Promise.reject(new QueueError("CLOSED", "the queue is closed"));
    this.#connection ??= this.#make();
    return this.#connection;
  }

  async #make(): Promise<RedisConnection> {
    const wait = this.#mayConnectAt - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      const connection = await within(this.#deadline, this.#connect(), "no connection");
      try {
        await within(this.#deadline, this.#prepare(connection), "no reply");
      } catch (error) {
        connection.close?.();
        throw error;
      }
      this.#failures = 0;
      return connection;
    } catch (error) {
      this.#connection = null;
      this.#delayNext();
      throw error;
    }
  }

  #drop(connection: RedisConnection): void {
    this.#connection?.then((current) => {
      if (current !== connection) return;
      this.#connection = null;
      this.#delayNext();
    }, () => {});
    try {
      connection.close?.();
    } catch {
      // It is broken already.
    }
  }

  #delayNext(): void {
    this.#failures++;
    const most = Math.min(50 * 2 ** (this.#failures - 1), LONGEST_WAIT);
    this.#mayConnectAt = performance.now() + most * (0.5 + Math.random() / 2);
  }
}

/** How the message of a call begins whose reply was lost. */
export const LOST_REPLY = "the reply was lost, so it may have been stored";

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Rejects where `promise` takes longer than `deadline` milliseconds. */
export async function within<Result>(deadline: number, promise: Promise<Result>, what: string): Promise<Result> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} within ${deadline / 1000} s`)), deadline);
  });
  promise.catch(() => {});
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
