import process from "node:process";
import { oneLine } from "./one_line.ts";

/** Where a command prints. */
export interface Output {
  /** Writes text to standard output as it is. */
  write(text: string): void;
  /** Writes a line to standard output. */
  line(text: string): void;
  /** Writes text to standard error as it is. */
  writeError(text: string): void;
  /** Writes one line to standard error. */
  problem(text: string): void;
  /** Whether standard output takes colours. */
  readonly colour: boolean;
  /** How many columns the terminal has; `undefined` where standard output is none, and nothing is to be cut. */
  readonly width: number | undefined;
  /** How many columns standard error has where it is a terminal that can be drawn on; else `undefined`. */
  readonly errorWidth: number | undefined;
  /** Called when nobody reads standard output any more. */
  onClosed: () => void;
}

/**
 * Runs `command` with an output whose reader may go away (`queue:failed | head`): that is no error of the command's.
 * Returns its exit status once everything is written, and leaves no listeners behind; 1 where writing failed otherwise.
 */
export async function withOutput(command: (output: Output) => Promise<number>): Promise<number> {
  const out = new Stream(process.stdout);
  const err = new Stream(process.stderr);
  const output: Output = {
    write: (text) => out.write(text),
    line: (text) => out.write(text + "\n"),
    writeError: (text) => err.write(text),
    problem: (text) => err.write(oneLine(text) + "\n"),
    colour: process.stdout.isTTY === true && wantsColour(),
    width: process.stdout.isTTY === true ? process.stdout.columns : undefined,
    errorWidth: process.stderr.isTTY === true && !isDumb() ? process.stderr.columns || 80 : undefined,
    onClosed: () => {},
  };
  out.onBroken = (error) => {
    if (error.code === "EPIPE") output.onClosed();
    else output.problem(`queue: standard output: ${error.message}`);
  };
  try {
    const status = await command(output);
    await out.written();
    return status === 0 && out.broken !== undefined && out.broken.code !== "EPIPE" ? 1 : status;
  } finally {
    await out.written();
    await err.written();
    out.release();
    err.release();
  }
}

interface WriteError extends Error {
  code?: string;
}

/** A standard stream that gives up, once, when it cannot be written to. */
class Stream {
  /** Why it cannot be written to any more. */
  broken: WriteError | undefined;
  onBroken: (error: WriteError) => void = () => {};
  readonly #stream: NodeJS.WriteStream;
  #last: Promise<void> = Promise.resolve();

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    stream.on("error", this.#break);
  }

  write(text: string): void {
    if (this.broken !== undefined) return;
    this.#last = new Promise((resolve) => {
      try {
        this.#stream.write(text, () => resolve());
      } catch (error) {
        // Deno throws what the others emit.
        this.#break(error as WriteError);
        resolve();
      }
    });
  }

  /** Resolves when all that was written has left the process: `process.exit` would drop the rest. */
  async written(): Promise<void> {
    await this.#last;
    // An error is emitted after the callback.
    await new Promise((resolve) => setImmediate(resolve));
  }

  release(): void {
    this.#stream.off("error", this.#break);
  }

  readonly #break = (error: WriteError): void => {
    if (this.broken !== undefined) return;
    this.broken = error;
    this.#last = Promise.resolve();
    this.onBroken(error);
  };
}

/** A terminal that prints control sequences instead of obeying them. */
function isDumb(): boolean {
  try {
    return process.env.TERM === "dumb";
  } catch {
    return false; // Deno without the permission to read it
  }
}

/** See https://no-color.org */
function wantsColour(): boolean {
  try {
    return !process.env.NO_COLOR && !isDumb();
  } catch {
    return true; // Deno without the permission to read it
  }
}
