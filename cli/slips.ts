import process from "node:process";
import leven from "leven";
import { type Environment, VARIABLES } from "../mod.ts";

/** What may be meant. The dashboard reads its own by itself. */
const MEANT = [...VARIABLES, "QUEUE_DASHBOARD_TOKEN"];

/** A variable that nobody reads, and the one that is likely meant. */
export interface Slip {
  readonly name: string;
  readonly meant: string;
}

/** How it is told. */
export function slipLine({ name, meant }: Slip): string {
  return `${name} is no setting: did you mean ${meant}?`;
}

/**
 * The names of this process's variables; none where Deno may not list them, as with permissions for some by name: asking
 * would put a question to whoever sits at the terminal.
 */
export function variableNames(): string[] {
  const { Deno } = globalThis as { Deno?: { permissions: { querySync(what: object): { state: string } } } };
  if (Deno !== undefined && Deno.permissions.querySync({ name: "env" }).state !== "granted") return [];
  return Object.keys(process.env);
}

/**
 * What is set, is near to one of our variables, and is none. An environment is everybody's: so what is near to a variable
 * that others read, too, counts only where that is not set, and would matter.
 */
export function slipsOf(names: Iterable<string>, env: Environment): Slip[] {
  const known = new Set(MEANT);
  return [...new Set(names)].filter((name) => !known.has(name)).sort().flatMap((name) => {
    const meant = MEANT.find((variable) => isNear(name, variable, env));
    return meant === undefined ? [] : [{ name, meant }];
  });
}

function isNear(name: string, variable: string, env: Environment): boolean {
  const away = distance(name.toLowerCase(), variable.toLowerCase());
  if (variable.startsWith("QUEUE_")) {
    // Of a short word, two other letters make another word.
    const most = variable.length < "QUEUE_WORKERS".length ? 1 : 2;
    return away <= most && !name.startsWith("QUEUE_TEST_");
  }
  // What only goes on after ours, as DB_DATABASE2, is another database.
  if (away > 1 || name.startsWith(variable) || env[variable] !== undefined) return false;
  return !variable.startsWith("REDIS_") || env.QUEUE_CONNECTION === "redis";
}

/** By how many letters two words differ; two that are swapped count as one. */
function distance(word: string, other: string): number {
  const letters = (text: string): string => [...text].sort().join("");
  const away = leven(word, other);
  return away === 2 && letters(word) === letters(other) ? 1 : away;
}
