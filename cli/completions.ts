import type { Argument, Command, Option } from "commander";
import { bashScript } from "./completions/bash.ts";
import { fishScript } from "./completions/fish.ts";
import { zshScript } from "./completions/zsh.ts";
import type { Context } from "./context.ts";

/** The shells that there is a script for. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** The options of `queue:completions`. */
export interface CompletionsOptions {
  readonly program: string;
}

/** What an option or an argument takes: nothing that can be known, files, some words, or what the program is asked for. */
export type Values = "nothing" | "files" | "queues" | "names" | "failed" | readonly string[];

/** A command as a shell completes it. */
export interface Completed {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly CompletedOption[];
  /** What its arguments are; `null` where it takes none. */
  readonly argument: Values | null;
}

/** An option of a command. */
export interface CompletedOption {
  /** As it is typed: `--queue`. */
  readonly long: string;
  readonly description: string;
  /** What its value is; `null` where it takes none. */
  readonly values: Values | null;
}

/** Prints the script of a shell. */
export function completions(
  shell: (typeof SHELLS)[number],
  { program }: CompletionsOptions,
  commands: readonly Command[],
  { output }: Context,
): number {
  const script = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell];
  output.write(script(program, commands.map(completed)));
  return 0;
}

function completed(command: Command): Completed {
  const [argument] = command.registeredArguments;
  return {
    name: command.name(),
    summary: command.summary(),
    options: command.createHelp().visibleOptions(command).map((option) => ({
      long: option.long!,
      description: option.description,
      values: option.required || option.optional ? valuesOf(option) : null,
    })),
    argument: argument === undefined ? null : argumentsOf(command, argument),
  };
}

function valuesOf({ argChoices, long }: Option): Values {
  if (argChoices !== undefined) return argChoices;
  if (long === "--queue") return "queues";
  if (long === "--name") return "names";
  return long === "--database" || long === "--jobs" ? "files" : "nothing";
}

function argumentsOf(command: Command, argument: Argument): Values {
  if (argument.argChoices !== undefined) return argument.argChoices;
  return /^queue:(retry|forget|show)$/.test(command.name()) ? "failed" : "nothing";
}
