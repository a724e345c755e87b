import { type Finding, QueueError } from "../mod.ts";
import { CommandError } from "./command_error.ts";
import type { Context } from "./context.ts";
import { flat } from "./one_line.ts";
import type { Output } from "./output.ts";
import { requireDatabase, storeName, withQueue } from "./open_queue.ts";
import { slipLine } from "./slips.ts";

/** The options of `queue:doctor`. */
export interface DoctorOptions {
  readonly database?: string;
  readonly json?: boolean;
}

const COLOURS = { ok: 32, warn: 33, bad: 31 } as const;

/** Looks whether all is well, and says what to do where something is not: then the status is 1. */
export async function doctor(options: DoctorOptions, context: Context): Promise<number> {
  const { output } = context;
  const findings = await look(options, context);
  const count = (level: Finding["level"]): number => findings.filter((one) => one.level === level).length;
  const bad = count("bad");
  if (options.json) {
    output.line(JSON.stringify({ findings, bad, warn: count("warn") }, null, 2));
  } else {
    const width = Math.max(...findings.map(({ what }) => what.length));
    for (const finding of findings) print(finding, width, output);
    output.line(`${bad} bad, ${count("warn")} to look at, ${count("ok")} ok`);
  }
  return bad === 0 ? 0 : 1;
}

async function look(options: DoctorOptions, context: Context): Promise<Finding[]> {
  const misspelt = context.slips.map((slip): Finding => ({
    what: "settings",
    level: "warn",
    found: slipLine(slip),
    remedy: `rename it to ${slip.meant}, or to something less like it where it is another program's`,
  }));
  return [...misspelt, ...await lookAtStore(options, context)];
}

async function lookAtStore({ database }: DoctorOptions, { env }: Context): Promise<Finding[]> {
  const store = storeName(database, env);
  try {
    requireDatabase(database, env);
    const findings: Finding[] = [{ what: "store", level: "ok", found: store, remedy: null }];
    await withQueue({ database, env, jobs: {} }, async (queue) => {
      findings.push(...await queue.examine());
      return 0;
    });
    return findings;
  } catch (error) {
    // That there is nothing to look at is what was to be found out.
    if (!(error instanceof QueueError || error instanceof CommandError)) throw error;
    return [findingOf(error, store)];
  }
}

/** What helps against an error, by what it says; the first that fits. */
const REMEDIES: readonly [says: RegExp, what: string, remedy: string][] = [
  [/\bthis runtime has no node:sqlite\b/, "runtime", "install a newer version of it, or use another runtime"],
  [
    /^no database at /,
    "store",
    "set DB_DATABASE, or --database; the first dispatch, or queue:work, makes the file",
  ],
  [/\ba newer release made it\b/, "store", "install the release that the other workers of this store have"],
  [
    /\bthis file is (no SQLite database|cut off|damaged)\b/,
    "store",
    "set DB_DATABASE, or --database, to the queue's own file; if it is this one, restore a backup",
  ],
  [
    /\bthis is a (folder|device)\b|\bis no folder$/,
    "store",
    "set DB_DATABASE, or --database, to the path of a file",
  ],
  [
    /\bthis user may\b|\bread-only$/,
    "store",
    "run this as the user that the workers run as, or let this one read and write there",
  ],
  [
    /^Redis could not be reached\b/,
    "store",
    "see that Redis runs, that REDIS_URL names it, and that this machine reaches it",
  ],
];

/** @param store What a person knows the store by. */
export function findingOf(error: QueueError | CommandError, store: string): Finding {
  const found = error.message.replace(/^queue: /, "");
  const [, what, remedy] = REMEDIES.find(([says]) => says.test(found)) ??
    (error instanceof QueueError && error.code === "CONFIG"
      ? [null, "settings", "set what is expected, in the environment or in .env"]
      : [
        null,
        "store",
        "see that it runs, that this machine reaches it, and that this user may read and write it",
      ]);
  return {
    what,
    level: "bad",
    found: what !== "store" || found.includes(store) ? found : `${store}: ${found}`,
    remedy,
  };
}

function print({ what, level, found, remedy }: Finding, width: number, output: Output): void {
  const mark = level.toUpperCase().padEnd(4);
  const painted = output.colour ? `\u001b[${COLOURS[level]}m${mark}\u001b[0m` : mark;
  output.line(`${painted}  ${what.padEnd(width)}  ${flat(found)}`);
  if (remedy !== null) output.line(`${" ".repeat(6 + width)}  -> ${flat(remedy)}`);
}
