/**
 * The connection that handlers get as `job.db` where the queue opened the file: one of their own. On the queue's, a
 * handler's write would fail at once while another process writes, and a transaction that one leaves open would stop
 * the queue.
 *
 * @module
 */
import type { Reservation } from "../../core/driver.ts";
import { QueueError } from "../../core/errors.ts";
import { type Library, loadLibrary, openNow } from "./connection.ts";
import { identityOf, type Warn } from "./file.ts";

/** How long a handler's statement waits for another process's write, in milliseconds; its thread stands still so long. */
const BUSY_TIMEOUT = 5000;

/** What both connections of a file that the queue opened have set. */
export function pragmasOf(synchronous: "normal" | "full" | undefined): readonly string[] {
  return [`synchronous = ${synchronous === "full" ? "FULL" : "NORMAL"}`, "journal_size_limit = 67108864"];
}

/**
 * The connection of handlers in a process that has no driver.
 *
 * @param path The file, which the driver of another process has made.
 * @param synchronous As the driver has it.
 * @param warn Gets a line when a transaction was left open.
 */
export async function openHandlersConnection(
  path: string,
  synchronous: "normal" | "full",
  warn: Warn,
): Promise<HandlersConnection> {
  await loadLibrary();
  return new HandlersConnection(path, pragmasOf(synchronous), warn);
}

/** Opened when the first handler asks for it. */
export class HandlersConnection {
  readonly #path: string;
  readonly #pragmas: readonly string[];
  readonly #warn: Warn;
  #open: Library | null = null;
  /** The jobs whose handlers may be at work. */
  readonly #held = new Set<Reservation>();

  /**
   * @param path The file.
   * @param pragmas What the queue's own connection has, too.
   * @param warn Gets a line when a transaction was left open.
   */
  constructor(path: string, pragmas: readonly string[], warn: Warn) {
    this.#path = path;
    this.#pragmas = pragmas;
    this.#warn = warn;
  }

  /** The library's own object. A handler may have closed it: then a new one. */
  get(): unknown {
    if (this.#open?.isOpen) return this.#open;
    if (identityOf(this.#path) === "") {
      throw new QueueError("DB", `${this.#path} was deleted while it was open`);
    }
    const library = openNow(this.#path, BUSY_TIMEOUT);
    for (const pragma of this.#pragmas) library.exec(`PRAGMA ${pragma}`);
    return this.#open = library;
  }

  /** Notes that handlers start on these. */
  began(jobs: readonly Reservation[]): void {
    for (const held of jobs) this.#held.add(held);
  }

  /**
   * Notes that one has ended. Once all have, a transaction that is still open is nobody's, and might hold the write
   * lock. It is rolled back by closing: a handler that runs on past its timeout then hears of it.
   */
  ended(held: Reservation): void {
    if (!this.#held.delete(held) || this.#held.size > 0 || !this.#open?.isOpen) return;
    if (!this.#open.isTransaction) return;
    this.#warn(
      `queue: job ${held.name} (id ${held.id}), or one that ran beside it, left a transaction open on job.db: rolled back`,
    );
    this.close();
  }

  /** Closes it; a later `get` opens another one. */
  close(): void {
    const library = this.#open;
    this.#open = null;
    if (library?.isOpen) library.close();
  }
}
