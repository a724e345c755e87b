import { writeSync } from "node:fs";
import process from "node:process";
import { type Key, keysIn } from "./keys.ts";

/** The alternate screen, without a cursor, and without lines that go on in the next row. */
const ENTER = "\u001b[?1049h\u001b[?25l\u001b[?7l\u001b[2J";
const LEAVE = "\u001b[?7h\u001b[?25h\u001b[?1049l";

/** A terminal shows what lies between these at once, where it knows them. */
const BEGIN = "\u001b[?2026h";
const END = "\u001b[?2026l";

/** Whether standard output is a terminal that can be drawn on. */
export function isDrawable(): boolean {
  return process.stdout.isTTY === true && !isDumb();
}

function isDumb(): boolean {
  try {
    return process.env.TERM === "dumb";
  } catch {
    return false; // Deno without the permission to read it
  }
}

/**
 * The terminal while the whole of it is ours: between `enter` and `leave`. Whatever ends the process in between, save
 * SIGKILL, the terminal is left as it was.
 */
export class Terminal {
  /** Called for each key, where there is a keyboard. */
  onKey: (key: Key) => void = () => {};
  /** Called when the size has changed, or the screen has to be drawn anew. */
  onResize: () => void = () => {};
  readonly #write: (text: string) => void;
  #shown: readonly string[] = [];
  #entered = false;

  /** @param write Writes to standard output. */
  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** Whether keys come: standard input is a terminal, too. */
  get hasKeys(): boolean {
    return process.stdin.isTTY === true;
  }

  /** How many columns and rows there are. One that does not know says 0. */
  get size(): { width: number; height: number } {
    return { width: process.stdout.columns || 80, height: process.stdout.rows || 24 };
  }

  /** Takes the screen and the keyboard. */
  enter(): void {
    this.#take();
    process.on("exit", this.#dying);
    // Before the error is printed, and in Deno and Bun without an `exit` after.
    process.on("uncaughtExceptionMonitor", this.#dying);
    process.on("SIGWINCH", this.#resized);
    process.on("SIGCONT", this.#continued);
    process.stdout.on("resize", this.#resized);
    if (!this.hasKeys) return;
    process.stdin.on("data", this.#typed);
    process.stdin.resume();
  }

  /** Gives both back. */
  leave(): void {
    process.off("exit", this.#dying);
    process.off("uncaughtExceptionMonitor", this.#dying);
    process.off("SIGWINCH", this.#resized);
    process.off("SIGCONT", this.#continued);
    process.stdout.off("resize", this.#resized);
    if (this.hasKeys) {
      process.stdin.off("data", this.#typed);
      process.stdin.pause();
    }
    this.#give();
  }

  /** Shows these lines and nothing else; writes those that differ from what is there. */
  draw(lines: readonly string[]): void {
    if (!this.#entered) return;
    const changes: string[] = [];
    for (let row = 0; row < Math.max(lines.length, this.#shown.length); row++) {
      const line = lines[row] ?? "";
      if (line !== (this.#shown[row] ?? "")) changes.push(`\u001b[${row + 1};1H\u001b[2K${line}`);
    }
    this.#shown = [...lines];
    if (changes.length > 0) this.#write(BEGIN + changes.join("") + END);
  }

  /** Leaves the screen, stops this process as Ctrl-Z does elsewhere, and comes back when it is continued. */
  suspend(): void {
    this.#give();
    process.kill(process.pid, "SIGSTOP");
  }

  #take(): void {
    this.#entered = true;
    this.#shown = [];
    if (this.hasKeys) process.stdin.setRawMode(true);
    this.#write(ENTER);
  }

  /** At once, and not by a stream: the process may be about to end. */
  #give(): void {
    if (!this.#entered) return;
    this.#entered = false;
    try {
      writeSync(1, LEAVE);
    } catch {
      // The terminal is gone, and there is nothing to give back.
    }
    try {
      if (this.hasKeys) process.stdin.setRawMode(false);
    } catch {
      // Likewise.
    }
  }

  readonly #dying = (): void => this.#give();

  readonly #typed = (chunk: Uint8Array | string): void => {
    for (const key of keysIn(String(chunk))) this.onKey(key);
  };

  readonly #resized = (): void => {
    if (!this.#entered) return;
    // What a terminal makes of its rows when its size changes is its own affair.
    this.#shown = [];
    this.#write("\u001b[2J");
    this.onResize();
  };

  readonly #continued = (): void => {
    // The shell had the terminal meanwhile, and may have set it otherwise.
    this.#take();
    this.onResize();
  };
}
