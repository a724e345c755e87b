import { readFileSync } from "node:fs";
import process from "node:process";
import { parseEnv } from "node:util";
import type { Environment } from "../mod.ts";
import { CommandError } from "./command_error.ts";
import { type Slip, slipsOf, variableNames } from "./slips.ts";

/** A `.env` belongs to the whole app: these are the queue's own, and nothing else is taken from it. */
const OURS = /^(QUEUE_\w+|REDIS_\w+|DB_DATABASE|APP_ENV)$/;

/**
 * The queue's settings: those of this process, then those of `.env` in the current folder; and what was likely meant as
 * one. A variable of the process is read when it is asked for, so that Deno needs the permission for that one alone.
 */
export function readEnvironment(): { env: Environment; slips: readonly Slip[] } {
  const file = readDotenv();
  const env: Environment = new Proxy(file, {
    get: (_, name) => typeof name === "string" && OURS.test(name) ? variable(name) ?? file[name] : undefined,
  });
  return { env, slips: slipsOf([...variableNames(), ...Object.keys(file)], env) };
}

function variable(name: string): string | undefined {
  try {
    return process.env[name];
  } catch {
    return undefined; // Deno without the permission to read it
  }
}

function readDotenv(): Record<string, string | undefined> {
  let text: string;
  try {
    text = readFileSync(".env", "utf8");
  } catch (error) {
    const { code, name, message } = error as Error & { code?: string };
    // A folder of that name is a Python environment; without permission, Deno does not say whether there is one.
    if (code === "ENOENT" || code === "EISDIR" || name === "NotCapable") return {};
    throw new CommandError(2, `.env: cannot be read: ${message}`);
  }
  return parseEnv(text.replace(/^\uFEFF/, ""));
}
