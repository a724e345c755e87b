/** What a key press means; a character stands for itself. */
export type Key = "up" | "down" | "home" | "end" | "escape" | "interrupt" | "suspend" | string;

const SEQUENCES: Readonly<Record<string, Key>> = {
  "\u001b[A": "up",
  "\u001bOA": "up",
  "\u001b[B": "down",
  "\u001bOB": "down",
  "\u001b[H": "home",
  "\u001bOH": "home",
  "\u001b[1~": "home",
  "\u001b[F": "end",
  "\u001bOF": "end",
  "\u001b[4~": "end",
  "\u001b": "escape",
  "\u0003": "interrupt",
  "\u0004": "interrupt",
  "\u001a": "suspend",
};

/** An escape sequence, known or not, or else one character. */
// deno-lint-ignore no-control-regex -- what a terminal sends for a key
const PRESS = /\u001b\[[\d;]*[ -/]*[@-~]|\u001bO.|[^]/gu;

/** The keys in what a terminal sent. A sequence that means nothing here is passed over as a whole. */
export function keysIn(text: string): Key[] {
  return (text.match(PRESS) ?? []).flatMap((press) => {
    const known = SEQUENCES[press];
    if (known !== undefined) return [known];
    return press.startsWith("\u001b") ? [] : [press];
  });
}
