/** What the programs of the tests have in common: their options, and lines that the test reads. */
import { writeSync } from "node:fs";
import process from "node:process";

/** The program's one argument. */
export const options: Record<string, never> = JSON.parse(process.argv[2]);

/** Writes a line, at once: a program that is killed next has said it. */
export function say(word: string, ...rest: unknown[]): void {
  writeSync(1, JSON.stringify([word, ...rest]) + "\n");
}
