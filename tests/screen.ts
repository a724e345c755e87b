/** A terminal's screen as somebody would see it, from what was written to the terminal. */
import xterm from "@xterm/headless";

/** A part of a row. */
export interface Span {
  /** Where it begins. */
  readonly column: number;
  readonly text: string;
  /** An index of the palette; `null` for the terminal's own. */
  readonly colour: number | null;
  readonly isBold: boolean;
}

/** A screen. */
export class Screen {
  readonly #terminal: InstanceType<typeof xterm.Terminal>;
  #written: Promise<void> = Promise.resolve();

  constructor(width: number, height: number) {
    this.#terminal = new xterm.Terminal({ cols: width, rows: height, allowProposedApi: true });
  }

  /** Takes what a program wrote. */
  write(text: string): void {
    this.#written = new Promise((resolve) => this.#terminal.write(text, resolve));
  }

  /** Resolves when all of it is on the screen. */
  get written(): Promise<void> {
    return this.#written;
  }

  resize(width: number, height: number): void {
    this.#terminal.resize(width, height);
  }

  /** The rows, without the spaces at their ends. */
  get rows(): string[] {
    const buffer = this.#terminal.buffer.active;
    return Array.from(
      { length: this.#terminal.rows },
      (_, row) => buffer.getLine(buffer.viewportY + row)!.translateToString().trimEnd(),
    );
  }

  /** All of it. */
  get text(): string {
    return this.rows.join("\n");
  }

  /** The row that is written to next. */
  get cursorRow(): number {
    return this.#terminal.buffer.active.cursorY;
  }

  /** The parts of a row that look the same, without the spaces at its end. */
  spans(row: number): Span[] {
    const line = this.#terminal.buffer.active.getLine(row)!;
    const end = line.translateToString(true).length;
    const spans: { column: number; text: string; colour: number | null; isBold: boolean }[] = [];
    for (let column = 0; column < end; column++) {
      const cell = line.getCell(column)!;
      const colour = cell.isFgPalette() ? cell.getFgColor() : null;
      const isBold = cell.isBold() !== 0;
      const last = spans.at(-1);
      const text = cell.getChars() || " ";
      if (last?.colour === colour && last.isBold === isBold) last.text += text;
      else spans.push({ column, text, colour, isBold });
    }
    return spans;
  }

  /** Whether it is the one that full-screen programs have to themselves. */
  get isAlternate(): boolean {
    return this.#terminal.buffer.active.type === "alternate";
  }

  /** The colour of a cell's text: an index of the palette; `null` for the terminal's own. */
  colourAt(row: number, column: number): number | null {
    const cell = this.#terminal.buffer.active.getLine(row)!.getCell(column)!;
    return cell.isFgPalette() ? cell.getFgColor() : null;
  }

  dispose(): void {
    this.#terminal.dispose();
  }
}
