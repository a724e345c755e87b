import { Buffer } from "node:buffer";
import process from "node:process";
import { type Jobs, QueueError } from "../mod.ts";
import { CommandError } from "./command_error.ts";
import { type Context, jobsOf } from "./context.ts";
import { formatDuration } from "./duration.ts";
import { oneLine } from "./one_line.ts";
import { withQueue } from "./open_queue.ts";
import { suggest } from "./suggest.ts";

/** The options of `queue:dispatch`. */
export interface DispatchOptions {
  readonly database?: string;
  readonly jobs?: string;
  readonly delay?: number;
  readonly queue?: string;
  readonly priority?: number;
  readonly id?: string;
  readonly json?: boolean;
}

/** Stores one job. The payload is text, kept as it is; `-` reads it from standard input. */
export async function dispatch(
  name: string,
  payload: string,
  options: DispatchOptions,
  context: Context,
): Promise<number> {
  const { env, output } = context;
  const jobs = await jobsOf(context, options.jobs);
  if (!Object.hasOwn(jobs, name)) throw unknownName(name, jobs);
  const text = payload === "-" ? await standardInput() : payload;
  if (isBrokenJson(text)) {
    output.problem("queue: the payload begins as JSON does, and is none: it is stored as text");
  }
  return await withQueue({ database: options.database, env, jobs }, async (queue) => {
    const { delay, priority } = options;
    const { id, duplicate } = await queue.dispatch(name, text, {
      delay,
      queue: options.queue,
      priority,
      id: options.id,
    });
    if (options.json) output.line(JSON.stringify({ id, name, ...(duplicate ? { duplicate } : {}) }));
    else if (duplicate) output.line(oneLine(`${options.id} was dispatched before, as ${id} ${name}`));
    else output.line(`dispatched ${id} ${name}${delay ? `, due in ${formatDuration(delay)}` : ""}`);
    return 0;
  });
}

function unknownName(name: string, jobs: Jobs): CommandError {
  const names = Object.keys(jobs);
  const near = suggest(name, names);
  const hint = near === undefined ? "" : ` (did you mean ${near}?)`;
  return new CommandError(
    2,
    `no job handler named ${JSON.stringify(name)}${hint}; there are: ${names.join(", ")}`,
  );
}

/** Whether a text was most likely meant as JSON: a shell takes quotes away where they are not quoted themselves. */
function isBrokenJson(text: string): boolean {
  if (!/^\s*[{["]/.test(text)) return false;
  try {
    JSON.parse(text);
    return false;
  } catch {
    return true;
  }
}

/** All of standard input, without the line break that `echo` puts at its end. */
async function standardInput(): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks)).replace(
      /\r?\n$/,
      "",
    );
  } catch (cause) {
    throw new QueueError("PAYLOAD", "the payload on standard input is not UTF-8", { cause });
  }
}
