import { type Command, InvalidArgumentError } from "commander";
import type { FailedFilter } from "../mod.ts";
import { DURATION_SYNTAX, parseDuration } from "./duration.ts";
import { notEmpty } from "./option_values.ts";

/** The options by which failed jobs are chosen, as they are written. */
export const FILTER_OPTIONS = "--name, --queue, --error, --older-than or --newer-than";

/** What these options say. */
export interface FilterOptions {
  readonly name?: string;
  readonly queue?: string;
  readonly error?: string;
  readonly olderThan?: Past;
  readonly newerThan?: Past;
}

/** A time: so long before the present, or one of its own; both in milliseconds. */
export type Past = { readonly ago: number } | { readonly at: number };

/** Adds them to a command. */
export function addFilter(command: Command): Command {
  return command
    .option("--name <name>", "only jobs of this type", notEmpty)
    .option("--queue <name>", "only those that failed on this queue", notEmpty)
    .option("--error <text>", "only those whose error has this text, in capitals or small letters", notEmpty)
    .option("--older-than <age>", "only those that failed longer ago: 2h, or a time: 2026-12-01T03:00", past)
    .option("--newer-than <age>", "only those that failed since: 2h ago, or a time", past);
}

/** The filter, at the present `now`; `undefined` where no option was given. */
export function toFilter(options: FilterOptions, now: number): FailedFilter | undefined {
  const { name, queue, error, olderThan, newerThan } = options;
  const filter = { name, queue, text: error, before: at(olderThan, now), since: at(newerThan, now) };
  return Object.values(filter).every((value) => value === undefined) ? undefined : filter;
}

function at(past: Past | undefined, now: number): number | undefined {
  if (past === undefined) return undefined;
  return "at" in past ? past.at : now - past.ago;
}

/** An option's value as a time that has passed. */
function past(text: string): Past {
  const ago = parseDuration(text);
  if (ago !== undefined) return { ago };
  const at = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text.trim().replace(" ", "T")) : NaN;
  if (!Number.isNaN(at)) return { at };
  throw new InvalidArgumentError(`Expected ${DURATION_SYNTAX}; or a time, such as 2026-12-01T03:00.`);
}
