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

/**
 * The functions of bash or zsh that look up a command's options, and what follows one of these.
 *
 * @param self Begins their names.
 * @param print How the shell prints the words of a command, a line each.
 */
export function lookups(
  self: string,
  commands: readonly Completed[],
  print: (command: Completed) => string,
): string {
  const options = commands.map((command) => `    ${quote(command.name)}) ${print(command)} ;;`);
  return `${self}_options() {
  case "$1" in
${options.join("\n")}
  esac
}

${self}_kind() {
  case "$1 $2" in
${kinds(commands)}
  esac
}`;
}

/** The branches of a `case` of bash or zsh: what follows each option of each command, and its arguments (no option). */
function kinds(commands: readonly Completed[]): string {
  const lines = commands.flatMap(({ name, options, argument }) => [
    ...options.map(({ long, values }) => `    ${quote(`${name} ${long}`)}) echo ${quote(kindOf(values))} ;;`),
    `    ${quote(`${name} `)}) echo ${quote(argument === null ? "nothing" : kindOf(argument))} ;;`,
  ]);
  return lines.join("\n");
}
