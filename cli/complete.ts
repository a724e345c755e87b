import type { Queue } from "../mod.ts";
import { oneLine } from "./one_line.ts";
import type { Context } from "./context.ts";
import { requireDatabase, withQueue } from "./open_queue.ts";

/** What a shell asks for while somebody types. */
export const ASKED = ["queues", "names", "failed"] as const;

/** The command by which the scripts of `queue:completions` ask. */
export const COMPLETE = "queue:complete";

/** How long a shell waits at most for a store that does not answer, in milliseconds: on a busy machine one takes a second. */
const PATIENCE = 5000;

/** How many failed jobs are looked at, the last ones. */
const LOOK = 50;

/** Words that no shell takes for anything else; what has other characters is left for the one who types. */
const PLAIN = /^[\w.@%+-]+$/;

/** Prints a line for each candidate: the word, and after a tab what it is about. */
export async function complete(
  what: (typeof ASKED)[number],
  { database }: { readonly database?: string },
  { env, jobs, output }: Context,
): Promise<number> {
  requireDatabase(database, env);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<number>((resolve) => timer = setTimeout(() => resolve(1), PATIENCE));
  const known = what === "names" ? Object.keys(jobs ?? {}) : [];
  const silent = { warn() {}, error() {} };
  const asking = withQueue({ database, env, jobs: {}, log: silent }, async (queue) => {
    const found = new Map<string, string>(known.map((name) => [name, ""]));
    for (const [word, about] of await CANDIDATES[what](queue)) found.set(word, about);
    for (const [word, about] of found) {
      if (PLAIN.test(word)) output.line(about === "" ? word : `${word}\t${oneLine(about)}`);
    }
    return 0;
  });
  try {
    return await Promise.race([asking, late]);
  } finally {
    clearTimeout(timer);
  }
}

const CANDIDATES: Record<(typeof ASKED)[number], (queue: Queue) => Promise<[word: string, about: string][]>> =
  {
    async queues(queue) {
      const counts = await queue.counts();
      const { queues } = await queue.paused();
      return [...new Set([...counts.map((one) => one.queue), ...queues])].sort().map((name) => [name, ""]);
    },
    async names(queue) {
      const failed = await queue.failed({ reverse: true, limit: LOOK });
      return [...new Set(failed.map(({ name }) => name))].sort().map((name) => [name, ""]);
    },
    async failed(queue) {
      const failed = await queue.failed({ reverse: true, limit: LOOK });
      return failed.map(({ id, name, error }) => [id, `${name}: ${error.slice(0, 80)}`]);
    },
  };
