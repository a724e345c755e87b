import type { Completed, Values } from "../completions.ts";
import { identifier } from "./shell.ts";

/** The script for fish, with what each command and option does beside it. */
export function fishScript(program: string, commands: readonly Completed[]): string {
  const self = `__${identifier(program)}`;
  const values = (of: Values): string => {
    if (of === "nothing" || of === "files") return "";
    return typeof of === "string" ? ` -a '(${self}_ask ${of})'` : ` -a ${quote(of.join(" "))}`;
  };
  const lines = commands.flatMap(({ name, summary, options, argument }) => {
    const here = `complete -c ${program} -n '${self}_is ${name}'`;
    return [
      `complete -c ${program} -n 'not ${self}_command' -a ${quote(name)} -d ${quote(summary)}`,
      ...options.map(({ long, description, values: of }) => {
        const takes = of === null ? "" : of === "files" ? " -rF" : ` -x${values(of)}`;
        return `${here} -l ${long.slice(2)}${takes} -d ${quote(description)}`;
      }),
      ...(argument === null || values(argument) === "" ? [] : [`${here}${values(argument)}`]),
    ];
  });
  return `# Completes ${program} in fish. In ~/.config/fish/config.fish:
#   ${program} queue:completions fish | source

function ${self}_command
    for word in (commandline -opc)[2..-1]
        if string match -q 'queue:*' -- $word
            echo $word
            return 0
        end
    end
    return 1
end

function ${self}_is
    test "$(${self}_command)" = $argv[1]
end

# Asks the program itself, by the word that it was called with.
function ${self}_ask
    set -l program (commandline -opc)[1]
    $program queue:complete $argv[1] 2>/dev/null </dev/null
end

complete -c ${program} -f
${lines.join("\n")}
`;
}

/** A word as fish takes it literally: within quotes it knows two escapes. */
function quote(word: string): string {
  return `'${word.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
