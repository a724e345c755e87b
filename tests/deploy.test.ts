/** Keeps the files in deploy/ true to the command line that they start. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parseDuration } from "../cli/duration.ts";
import { STOP_MARGIN } from "../core/stopping.ts";
import { inFolder } from "./folder.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const CLI = join(ROOT, "cli.ts");
const isDeno = process.versions.deno !== undefined;

/** What `queue.close()` may take after a stop, in milliseconds. */
const CLOSING = 2000;

function read(file: string): string {
  return readFileSync(join(ROOT, "deploy", file), "utf8");
}

/** What `pattern` finds first; fails where it finds nothing. */
function find(text: string, pattern: RegExp): string {
  const found = pattern.exec(text)?.[1];
  assert.notEqual(found, undefined, `${pattern}`);
  return found!;
}

/** The grace of a `queue:work` line, in milliseconds. */
function graceIn(line: string): number {
  return parseDuration(find(line, /queue:work.* --grace=(\S+)/))!;
}

/** Asserts that the command line takes these words, by asking for the help of the command that they are. */
function assertTaken(words: readonly string[]): void {
  const before = isDeno ? ["run", "-A", "--no-check", `--config=${join(ROOT, "deno.json")}`] : [];
  const [command, ...options] = words;
  const answer = spawnSync(process.execPath, [...before, CLI, command!, "--help"], {
    encoding: "utf8",
    cwd: ROOT,
  });
  assert.equal(answer.status, 0, answer.stderr);
  for (const option of options) {
    assert.match(
      answer.stdout,
      new RegExp(`^  (-\\w, )?${option.split("=")[0]} `, "m"),
      `${command} ${option}`,
    );
  }
}

const noSystemd = spawnSync("systemd-analyze", ["--version"]).status !== 0 && "no systemd-analyze";

describe("the service for systemd", () => {
  const unit = read("queue.service");
  const value = (key: string): string => find(unit, new RegExp(`^${key}=(.*)$`, "m"));

  it("is one that systemd understands", { skip: noSystemd }, () =>
    inFolder((folder) => {
      // The binary is looked for, too; and where no service of systemd's own is known, nothing else may be said.
      const binary = join(folder, "queue");
      writeFileSync(binary, "");
      chmodSync(binary, 0o755);
      const file = join(folder, "queue.service");
      const check = (text: string): string => {
        writeFileSync(file, text.replaceAll("/usr/local/bin/queue", binary));
        return spawnSync("systemd-analyze", ["verify", file], { encoding: "utf8" }).stderr;
      };
      const own = (text: string): string[] =>
        text.split("\n").filter((line) => line.includes("queue.service"));
      assert.deepEqual(own(check(unit)), []);
      assert.notDeepEqual(own(check(unit.replace("KillMode=mixed", "KillMode=mixt"))), [], "it would say so");
    }));

  it("starts what the command line knows", () => {
    const words = value("ExecStart").split(" ");
    assert.equal(words[0], "/usr/local/bin/queue");
    assertTaken(words.slice(1));
  });

  it("waits for longer than a stop takes, and kills only what is left then", () => {
    const most = graceIn(value("ExecStart")) + STOP_MARGIN + CLOSING;
    assert.ok(Number(value("TimeoutStopSec")) * 1000 > most);
    assert.equal(value("KillMode"), "mixed");
  });

  it("starts a worker again that has ended itself, and not one that cannot work", () => {
    assert.equal(value("Restart"), "always");
    assert.equal(value("RestartPreventExitStatus"), "2");
  });

  it("lets JavaScript be compiled", () => {
    assert.doesNotMatch(unit, /^MemoryDenyWriteExecute=/m);
  });
});

describe("the image", () => {
  const dockerfile = read("Dockerfile");
  const last = dockerfile.split(/^FROM /m).at(-1)!;
  const list = (text: string): string[] => JSON.parse(text);

  it("is made in two stages, of which the last has nothing but the binary", () => {
    assert.equal(dockerfile.match(/^FROM /gm)!.length, 2);
    assert.deepEqual([...last.matchAll(/^(?:COPY|ADD) (.*)$/gm)].map(([, what]) => what), [
      "--from=build /src/dist/queue-bun /usr/local/bin/queue",
    ]);
  });

  it("is not root's", () => {
    assert.match(find(last, /^USER (.*)$/m), /^[1-9]\d*:[1-9]\d*$/);
  });

  it("starts and asks what the command line knows, without a shell", () => {
    assert.deepEqual(list(find(last, /^ENTRYPOINT (.*)$/m)), ["queue"]);
    assertTaken(list(find(last, /^CMD (.*)$/m)));
    const [program, ...words] = list(find(last, /^HEALTHCHECK .*CMD (.*)$/m));
    assert.equal(program, "queue");
    assertTaken(words);
    assert.equal(find(last, /^STOPSIGNAL (.*)$/m), "SIGTERM");
  });

  it("is built by tasks that there are", () => {
    const { tasks } = JSON.parse(readFileSync(join(ROOT, "deno.json"), "utf8"));
    const named = [...dockerfile.matchAll(/\bdeno task ([\w:]+)/g)].map(([, task]) => task!);
    assert.ok(named.length > 0);
    for (const task of named) assert.ok(task in tasks, task);
    assert.ok(tasks["compile:bun"].includes("--outfile dist/queue-bun"), "where the image takes it from");
  });
});

describe("the composition with Redis", () => {
  const compose = read("compose.yaml");

  it("keeps what was accepted", () => {
    const server = find(compose, /^ {4}command: (redis-server .*)$/m);
    assert.match(server, / --appendonly yes /);
    assert.match(server, / --maxmemory-policy noeviction$/);
    assert.match(compose, /^ {6}- redis:\/data$/m);
  });

  it("starts workers that the command line knows, and waits for longer than their stop takes", () => {
    const command = find(compose, /^ {4}command: (queue:work .*)$/m);
    assertTaken(command.split(" "));
    const worker = compose.slice(compose.indexOf("\n  worker:"));
    const wait = parseDuration(find(worker, /^ {4}stop_grace_period: (\S+)$/m))!;
    assert.ok(wait > graceIn(command) + STOP_MARGIN + CLOSING);
    assert.match(worker, /^ {4}restart: unless-stopped$/m);
  });

  it("starts with jobs that are there", async () => {
    const file = find(compose, /^ {6}- \.\/(\S+):\/app\/jobs\.ts:ro$/m);
    const jobs: { default: Record<string, unknown> } = await import(`../deploy/${file}`);
    assert.ok(Object.keys(jobs.default).length > 0);
  });
});
