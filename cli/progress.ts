import type { Output } from "./output.ts";

/** Back to the start of the line, and all of it away. */
const ERASE = "\r\u001b[K";

/** How often the bar is drawn at most, in milliseconds. */
const DRAW_EVERY = 100;

/** How wide the bar itself is, at most. */
const WIDEST = 40;

/** A bar on standard error that says how far long work is; nothing where that is no terminal. */
export class Progress {
  readonly #output: Output;
  readonly #doing: string;
  readonly #now: () => number;
  #drawnAt = -Infinity;
  #isShown = false;

  /**
   * @param doing What is done, as `retrying`.
   * @param now A clock, in milliseconds.
   */
  constructor(output: Output, doing: string, now: () => number = () => performance.now()) {
    this.#output = output;
    this.#doing = doing;
    this.#now = now;
  }

  /** So many of so many are done. What is done at the first step shows no bar. */
  to(done: number, total: number): void {
    const width = this.#output.errorWidth;
    if (width === undefined) return;
    if (done >= total) return this.hide();
    const now = this.#now();
    if (this.#isShown && now - this.#drawnAt < DRAW_EVERY) return;
    this.#drawnAt = now;
    this.#isShown = true;
    this.#output.writeError(ERASE + bar(this.#doing, done, total, width));
  }

  /** Runs the work, and leaves no bar behind, whatever becomes of it. */
  async over<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } finally {
      this.hide();
    }
  }

  /** Takes the bar away, before something else is printed, and at the end. */
  hide(): void {
    if (!this.#isShown) return;
    this.#isShown = false;
    this.#drawnAt = -Infinity;
    this.#output.writeError(ERASE);
  }
}

/** `retrying ███████░░░░░░░  50 %  500 of 1,000`, no wider than the terminal, whose last column wraps. */
export function bar(doing: string, done: number, total: number, width: number): string {
  const share = total === 0 ? 1 : Math.min(1, done / total);
  const percent = `${Math.floor(share * 100)} %`.padStart(5);
  const count = `${done.toLocaleString("en")} of ${total.toLocaleString("en")}`;
  const room = width - 1 - doing.length - 1 - percent.length - 2 - count.length;
  const size = Math.min(WIDEST, room - 1);
  if (size < 5) return `${doing}${percent}`.slice(0, Math.max(0, width - 1));
  const full = Math.floor(share * size);
  return `${doing} ${"█".repeat(full)}${"░".repeat(size - full)} ${percent}  ${count}`;
}
