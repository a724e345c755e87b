/**
 * The binaries: the command line, and an app with its jobs, by Bun and by Deno, each built as its user does.
 *
 * @module
 */
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { run } from "../../scripts/command.ts";
import { findRuntime, root, type RuntimeName } from "../../scripts/runtimes.ts";
import { appFiles, type Language, PACKAGES, PROGRAM } from "./app.ts";
import type { Server } from "./server.ts";

/** One kind of binary. */
export interface Form {
  readonly name: string;
  /** Why it cannot be tried here; `false` where it can. */
  readonly skip: string | false;
  /** The languages in which it takes a jobs module; none where its jobs are in it. */
  readonly languages: readonly Language[];
  /** Builds it, and returns its path. */
  build(): Promise<string>;
  /** Puts the app's jobs beside it, where it takes a module. */
  bringJobs(server: Server, language: Language): void;
}

const manifest: { dependencies: Record<string, string> } & Record<string, unknown> = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8"),
);
const config: { publish: { include: string[] }; tasks: Record<string, string> } = JSON.parse(
  readFileSync(join(root, "deno.json"), "utf8"),
);

/** Why there is no binary of Deno's. */
const noBase = !process.env.DENORT_BIN &&
  "DENORT_BIN names no base binary of `deno compile`, which comes from Deno's own site";

/** The command line without its jobs, and an app with them, each by both. */
export function forms(workshop: Workshop): Form[] {
  const none = (): void => {};
  return [
    {
      name: "the command line by Bun",
      skip: false,
      languages: ["ts", "js"],
      build: async () => {
        await workshop.run("deno", ["task", "compile:bun"], root);
        return join(root, "dist", "queue-bun");
      },
      bringJobs: (server, language) => {
        server.write(appFiles(language));
        for (const name of [...Object.keys(PACKAGES), "@x/queue"]) {
          cpSync(join(workshop.app, "node_modules", name), join(server.folder, "node_modules", name), {
            recursive: true,
          });
        }
      },
    },
    {
      name: "an app by Bun",
      skip: false,
      languages: [],
      build: async () => {
        const flags = "--compile --no-compile-autoload-dotenv --no-compile-autoload-bunfig";
        const file = join(workshop.folder, "app-bun");
        await workshop.run(
          "bun",
          ["build", ...flags.split(" "), "--outfile", file, "queue.ts"],
          workshop.app,
        );
        return file;
      },
      bringJobs: none,
    },
    {
      name: "the command line by Deno",
      skip: noBase,
      // It imports no packages but those that it was built with, so the jobs are bundled with theirs.
      languages: ["js"],
      build: async () => {
        const bundle = join(workshop.folder, "jobs.js");
        const [, ...compile] = config.tasks.compile.split(" ");
        await workshop.run("deno", ["bundle", "--output", bundle, "jobs.ts"], workshop.app);
        await workshop.run("deno", compile, root);
        return join(root, "dist", "queue");
      },
      bringJobs: (server) =>
        server.write({ "jobs.js": readFileSync(join(workshop.folder, "jobs.js"), "utf8") }),
    },
    {
      name: "an app by Deno",
      skip: noBase,
      languages: [],
      build: async () => {
        const file = join(workshop.folder, "app-deno");
        const flags = "--allow-all --no-check --no-code-cache";
        await workshop.run(
          "deno",
          ["compile", ...flags.split(" "), "--output", file, "queue.ts"],
          workshop.app,
        );
        return file;
      },
      bringJobs: none,
    },
  ];
}

/** Where binaries are built: an app outside of the repository, which has installed the package. */
export class Workshop {
  readonly folder: string;
  readonly app: string;

  constructor(folder: string) {
    this.folder = folder;
    this.app = join(folder, "app");
  }

  /** Writes the app, and installs what it imports. */
  async open(): Promise<void> {
    chmodSync(this.folder, 0o755);
    const published = join(this.folder, "package");
    for (const name of config.publish.include) {
      cpSync(join(root, name), join(published, name), { recursive: true });
    }
    const { devDependencies: _, ...own } = manifest;
    const queue = "../package/";
    const files: Record<string, string> = {
      "package/package.json": JSON.stringify(own),
      "app/package.json": JSON.stringify({
        type: "module",
        dependencies: { "@x/queue": `file:${queue}`, ...PACKAGES },
      }),
      // Deno takes the sources as the README says, and not from node_modules.
      "app/deno.json": JSON.stringify({
        imports: {
          "@x/queue": `${queue}mod.ts`,
          "@x/queue/cli": `${queue}cli.ts`,
          ...Object.fromEntries(
            Object.entries({ ...manifest.dependencies, ...PACKAGES })
              .map(([name, version]) => [name, `npm:${name}@${version}`]),
          ),
        },
      }),
      "app/queue.ts": PROGRAM,
      ...Object.fromEntries(
        Object.entries(appFiles("ts")).map(([name, text]) => [`app/${name}`, text]),
      ),
    };
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.folder, name)), { recursive: true });
      writeFileSync(join(this.folder, name), text);
    }
    await this.run("bun", ["install", "--no-save", "--silent"], this.app);
  }

  /** Runs what builds something, and throws what it printed unless it ends with status 0. */
  async run(name: RuntimeName, args: readonly string[], cwd: string): Promise<void> {
    const runtime = findRuntime(name);
    if (typeof runtime === "string") throw new Error(runtime);
    const { why, output } = await run(runtime.path, args, { cwd, seconds: 300, output: "keep" });
    if (why !== undefined) throw new Error(`${name} ${args.join(" ")}: ${why}\n${output}`);
  }
}
