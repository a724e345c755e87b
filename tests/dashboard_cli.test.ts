import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Queue } from "../mod.ts";
import { inFolder } from "./folder.ts";
import { sendSignal } from "./signal.ts";
import { soon } from "./until.ts";
import { Visitor } from "./visitor.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));
const TOKEN = "correct-horse-battery";

/** `queue:dashboard`, started. */
class Command {
  out = "";
  err = "";
  readonly ended: Promise<number | string>;
  readonly #child: ChildProcess;
  #tell = (): void => {};

  constructor(cwd: string, args: readonly string[], env: Record<string, string> = {}) {
    const before = process.versions.deno === undefined ? [] : ["run", "-A", "--no-check"];
    const child = this.#child = spawn(process.execPath, [...before, CLI, "queue:dashboard", ...args], {
      cwd,
      env: { ...process.env, DB_DATABASE: "queue.sqlite", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      this.out += text;
      this.#tell();
    });
    child.stderr!.setEncoding("utf8").on("data", (text: string) => this.err += text);
    this.ended = new Promise((resolve) => {
      child.on("close", (code, signal) => {
        resolve(code ?? signal ?? "unknown");
        this.#tell();
      });
    });
  }

  /** The line that says where it is. */
  async line(): Promise<string> {
    const said = new Promise<void>((resolve) => {
      this.#tell = resolve;
      if (this.out.includes("\n")) resolve();
    });
    await soon(said, "the dashboard to say where it is");
    assert.notEqual(this.out, "", this.err);
    return this.out.trim();
  }

  /** Ends it as a supervisor does, and resolves with its exit status. */
  stop(): Promise<number | string> {
    sendSignal(this.#child.pid!, "SIGTERM");
    return soon(this.ended, "the dashboard to end");
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

/** Runs `use` in a folder with a queue in which a job waits, and ends what it started. */
async function withCommand(
  use: (start: (args: readonly string[], env?: Record<string, string>) => Command) => Promise<void>,
): Promise<void> {
  await inFolder(async (folder) => {
    const queue = new Queue({ database: join(folder, "queue.sqlite"), env: {}, jobs: { mail: () => {} } });
    await queue.dispatch("mail", "hello");
    await queue.close();
    const started: Command[] = [];
    try {
      await use((args, env) => {
        const command = new Command(folder, args, env);
        started.push(command);
        return command;
      });
    } finally {
      for (const command of started) {
        command.kill();
        await command.ended;
      }
    }
  });
}

test("queue:dashboard serves the page and its changes until SIGTERM, though somebody looks", async () => {
  await withCommand(async (start) => {
    const command = start(["--port", "0", "--json"]);
    const { url, store, readOnly, token } = JSON.parse(await command.line());
    assert.deepEqual([store, readOnly, token], ["queue.sqlite", false, false]);
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/$/);
    const visitor = new Visitor((request) => fetch(request), url);
    assert.match(await visitor.load(), /<title>Queue<\/title>/);
    const watching = await visitor.watch();
    const paused = await visitor.post("pause", { queue: "default" }, { origin: new URL(url).origin });
    assert.deepEqual([paused.status, await paused.json()], [200, { changed: true }]);
    assert.equal((await fetch(url + "favicon.ico")).status, 404);
    assert.equal(await command.stop(), 0);
    await watching.leave();
    assert.equal(command.err, "");
  });
});

test("queue:dashboard asks for the token, and changes nothing with --read-only", async () => {
  await withCommand(async (start) => {
    const command = start(["--port", "0", "--read-only"], { QUEUE_DASHBOARD_TOKEN: TOKEN });
    const line = await command.line();
    assert.match(
      line,
      /^dashboard at http:\/\/127\.0\.0\.1:\d+\/ · queue\.sqlite · read-only · with a token$/,
    );
    const url = /http:\S+/.exec(line)![0];
    assert.equal((await fetch(url)).status, 401);
    const authorization = `Bearer ${TOKEN}`;
    assert.equal((await fetch(url, { headers: { authorization } })).status, 200);
    const change = await fetch(url + "?do=pause", { method: "POST", headers: { authorization } });
    assert.deepEqual([change.status, (await change.json()).error], [403, "this dashboard is read-only"]);
    assert.equal(await command.stop(), 0);
  });
});

test("queue:dashboard that cannot be served says why", async () => {
  await withCommand(async (start) => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = taken.address() as AddressInfo;
      const cases: [args: string[], env: Record<string, string>, status: number, why: RegExp][] = [
        [
          ["--port", String(port)],
          {},
          1,
          /^queue: port \d+ of 127\.0\.0\.1 is in use: choose another one by --port\n$/,
        ],
        [["--host", "0.0.0.0"], {}, 2, /^queue: --host 0\.0\.0\.0: others reach .* QUEUE_DASHBOARD_TOKEN\n$/],
        [
          ["--host", "0.0.0.0", "--port", "0"],
          { QUEUE_DASHBOARD_TOKEN: "short" },
          2,
          /at least 16 characters/,
        ],
        [["--database", "none.sqlite"], {}, 1, /no database at none\.sqlite/],
      ];
      for (const [args, env, status, why] of cases) {
        const command = start(args, env);
        assert.equal(await soon(command.ended, "the dashboard to end"), status, command.err);
        assert.match(command.err, why);
        assert.equal(command.out, "");
      }
    } finally {
      taken.close();
    }
  });
});
