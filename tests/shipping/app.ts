/**
 * The app whose jobs the binaries run: in the language that is asked for, with an import of its own and two of packages.
 *
 * @module
 */

/** The language of an app. */
export type Language = "ts" | "js";

/** Its packages: one of CommonJS, one of modules, and neither is among those of the queue. */
export const PACKAGES = { "escape-html": "1.0.3", "yocto-queue": "1.2.1" };

/** Its files, by their names. */
export function appFiles(language: Language): Record<string, string> {
  const type = (text: string): string => language === "ts" ? text : "";
  const notes = `
import escapeHtml from "escape-html";
import Line from "yocto-queue";
import { appendFileSync, existsSync } from "node:fs";

/** Writes a line down. */
export function note(...words${type(": unknown[]")})${type(": void")} {
  const line = new Line();
  for (const word of words) line.enqueue(escapeHtml(String(word)));
  appendFileSync("notes.txt", [...line].join(" ") + "\\n");
}

/** Waits for a file. */
export async function untilThere(file${type(": string")})${type(": Promise<void>")} {
  while (!existsSync(file)) await new Promise((resolve) => setTimeout(resolve, 10));
}
`;
  const jobs = `
import { existsSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Discard } from "@x/queue";
import { note, untilThere } from "./lib/notes.${language}";

${type("interface Job { readonly id: string; readonly data: string; readonly attempt: number }")}

export default {
  greet: (job${type(": Job")}) => note("greet", job.data, job.attempt),
  bill: {
    tries: 1,
    handle: (job${type(": Job")}) => {
      if (!existsSync("mended")) throw new Error("order " + job.data + " has no customer");
      note("bill", job.data, job.attempt);
    },
  },
  refuse: () => {
    throw new Discard("nobody wants it");
  },
  // Ends once there is a file of that name.
  wait: async (job${type(": Job")}) => {
    note("wait", "began", job.attempt, process.pid);
    await untilThere(job.data);
    note("wait", "ended", job.attempt);
  },
  crash: { tries: 1, handle: () => process.exit(3) },
  spin: { tries: 1, timeout: 100, handle: () => { for (;;); } },
  tell: () => writeFileSync("told.json", JSON.stringify(process.env) + "\\n"),
};
`;
  return { [`jobs.${language}`]: jobs, [`lib/notes.${language}`]: notes };
}

/** A program that gives the app the queue's commands, and has two of its own that use the library. */
export const PROGRAM = `
import process from "node:process";
import { Queue, serveJobs } from "@x/queue";
import { main } from "@x/queue/cli";
import jobs from "./jobs.ts";

const [command, ...rest] = process.argv.slice(2);

async function work(processes: { count: number; program?: string[]; module?: string }): Promise<number> {
  const queue = new Queue({ jobs });
  try {
    await queue.work({ processes, stopWhenEmpty: true });
    return 0;
  } catch (error) {
    console.error((error as Error).message);
    return 1;
  } finally {
    await queue.close();
  }
}

if (command === "serve") await serveJobs(jobs);
if (command === "work-by-program") process.exit(await work({ count: 1, program: ["serve"] }));
if (command === "work-by-module") process.exit(await work({ count: 1, module: "jobs.ts" }));
process.exit(await main(command === "queue" ? rest : process.argv.slice(2), jobs));
`;
