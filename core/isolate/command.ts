/**
 * By which command line a child process starts: on the runtime that runs this, with what that one was allowed.
 *
 * @module
 */
import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { QueueError } from "../errors.ts";

/** The parts of Deno that tell a program how it was started. */
interface DenoRuntime {
  readonly mainModule: string;
  readonly build: { readonly standalone?: boolean };
  readonly permissions: {
    querySync(what: { name: string }): { readonly state: string; readonly partial?: boolean };
  };
}

const deno = (globalThis as { Deno?: DenoRuntime }).Deno;

/** An executable and its arguments. */
export type Command = readonly [string, ...string[]];

/**
 * The command that starts a child.
 *
 * @param program The arguments by which this program, started again, serves jobs; `null` for one of the queue's own.
 * @param flags Arguments of the runtime, instead of those that this process has, as far as it can know them.
 * @throws {QueueError} `CONFIG` where there is no such command.
 */
export function childCommand(program: readonly string[] | null, flags: readonly string[] | null): Command {
  if (isCompiled()) {
    if (program !== null) return [process.execPath, ...program];
    throw new QueueError(
      "CONFIG",
      "processes.module: a compiled program has no runtime to start it with; expected processes.program",
    );
  }
  const script = program === null ? entry() : mainScript();
  const own = flags ?? ownFlags(script);
  return [process.execPath, ...(deno ? ["run"] : []), ...own, script, ...(program ?? [])];
}

function isCompiled(): boolean {
  return deno?.build.standalone === true || /\/\$bunfs\/|~BUN/.test(import.meta.url);
}

/**
 * Never called: Deno downloads what a module imports when that itself is loaded, so that a child, which is started
 * later, finds its program where it is, though the registry may be out of reach by then.
 */
export const downloaded = (): Promise<unknown> => import("./entry.ts");

/**
 * The queue's own program: beside this file, whether that is TypeScript, what npm packages have, or on a server.
 *
 * @throws {QueueError} `CONFIG` in a bundle, where nothing is beside it but perhaps the app's own `entry.js`.
 */
function entry(): string {
  const here = /\/isolate\/command(\.[jt]s)$/.exec(import.meta.url ?? "");
  if (here === null) {
    throw new QueueError(
      "CONFIG",
      "processes.module: an app that was bundled into one file has no program beside it to start; " +
        "expected processes.program",
    );
  }
  const url = new URL(`./entry${here[1]}`, import.meta.url);
  return url.protocol === "file:" ? fileURLToPath(url) : url.href;
}

function mainScript(): string {
  if (deno === undefined) return process.argv[1]!;
  return deno.mainModule.startsWith("file:") ? fileURLToPath(deno.mainModule) : deno.mainModule;
}

function ownFlags(script: string): readonly string[] {
  if (deno === undefined) return withoutDebugger(process.execArgv);
  const known = denoCommandLine() ?? allowed(deno);
  // A script elsewhere, as the queue's own, would find a deno.json of its own, or none.
  if (script === mainScript() || known.some((flag) => /^(--config|-c|--no-config)\b/.test(flag))) {
    return known;
  }
  const config = configOf(deno.mainModule);
  return config === null ? known : [...known, "--config", config];
}

/**
 * Without what makes sense once only: a debugger's port, a program given as text, the test runner. A word that is no flag
 * is the value of the one before it.
 */
export function withoutDebugger(flags: readonly string[]): string[] {
  let dropped = false;
  return flags.filter((flag) => {
    if (flag.startsWith("-") || /^(run|test)$/.test(flag)) {
      dropped = /^(-e|--eval|-p|--print|-pe)$|^(--inspect|--watch|--hot|--test|--hmr|run$|test$)/.test(flag);
    }
    return !dropped;
  });
}

/**
 * The flags that Deno was started with: it tells a program none of them, but Linux tells one that may read everything.
 * `null` where they cannot be had, or are those of another command, such as `deno test`.
 */
function denoCommandLine(): string[] | null {
  let line: string[];
  try {
    line = readFileSync("/proc/self/cmdline", "utf8").split("\0").slice(0, -1);
  } catch {
    return null; // another system, or not all is allowed
  }
  const script = line.length - process.argv.length + 1;
  const flags = line.slice(1, script);
  if (flags[0] === "run") return withoutDebugger(flags.slice(1));
  return flags[0]?.startsWith("-") ? withoutDebugger(flags) : null;
}

/** Deno's permissions. What is allowed for some files or hosts only, no program can find out. */
const PERMISSIONS = ["read", "write", "net", "env", "sys", "run", "ffi", "import"];

function allowed({ permissions }: DenoRuntime): string[] {
  const granted = PERMISSIONS.filter((name) => {
    const { state, partial } = permissions.querySync({ name });
    return state === "granted" && partial !== true;
  });
  const all = granted.length === PERMISSIONS.length;
  return ["--no-prompt", ...(all ? ["--allow-all"] : granted.map((name) => `--allow-${name}`))];
}

/** The deno.json that the main module has, in its folder or one above. */
function configOf(mainModule: string): string | null {
  if (!mainModule.startsWith("file:")) return null;
  for (let folder = dirname(fileURLToPath(mainModule));; folder = dirname(folder)) {
    const file = ["deno.json", "deno.jsonc"].map((name) => join(folder, name)).find(isFile);
    if (file !== undefined) return file;
    if (folder === dirname(folder)) return null;
  }
}

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
  } catch {
    return false; // Deno without the permission to look
  }
}
