/** The log of one process: kept by the disk, and not by the store under test. */
import { closeSync, fdatasync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Happening } from "./history.ts";

/** The machine's clock, whatever a nemesis makes of `Date.now` later. */
export const machineTime: () => number = Date.now.bind(Date);

/** Writes facts, each at once, so that a process that is killed next has written it. */
export class Journal {
  readonly #file: number;
  /** When it wrote last, in epoch milliseconds. */
  notedAt = 0;
  #written = 0;
  #safe = 0;
  #flushing: Promise<void> | null = null;

  /** Opens, or continues, the log of the process `name`. */
  constructor(folder: string, name: string) {
    this.#file = openSync(join(folder, `${name}.jsonl`), "a");
  }

  /** Writes it down. */
  note(happening: Happening): void {
    this.notedAt = machineTime();
    writeSync(this.#file, JSON.stringify({ at: this.notedAt, ...happening }) + "\n");
    this.#written++;
  }

  /** Writes it down and waits until the disk has it; what is noted meanwhile shares the next flush. */
  async keep(happening: Happening): Promise<void> {
    this.note(happening);
    const mine = this.#written;
    while (this.#safe < mine) await (this.#flushing ??= this.#flush());
  }

  /** Closes it. */
  async close(): Promise<void> {
    await this.#flushing;
    closeSync(this.#file);
  }

  async #flush(): Promise<void> {
    const upTo = this.#written;
    try {
      await new Promise<void>((resolve, reject) =>
        fdatasync(this.#file, (error) => error === null ? resolve() : reject(error))
      );
      this.#safe = upTo;
    } finally {
      this.#flushing = null;
    }
  }
}
