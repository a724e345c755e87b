import type { Completed, Values } from "../completions.ts";

/** A word as bash, zsh and fish take it literally. */
export function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** The name of the program as a part of a function's. */
export function identifier(program: string): string {
  return program.replace(/\W/g, "_");
}

/** How a script calls the kind of values that it knows of. */
export function kindOf(values: Values | null): string {
  if (values === null) return "flag";
  return typeof values === "string" ? values : `words ${values.join(" ")}`;
}

/** The branches of a `case` of bash or zsh: what follows each option of each command, and its arguments (no option). */
export function kinds(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name, options, argument }) => [
    ...options.map(({ long, values }) => `    ${quote(`${name} ${long}`)}) echo ${quote(kindOf(values))} ;;`),
    `    ${quote(`${name} `)}) echo ${quote(argument === null ? "nothing" : kindOf(argument))} ;;`,
  ]);
  return lines.join("\n");
}
