// Takes the safeguards of the queue out, one at a time, and says which test notices:
//
//   deno task mutations                  all of them
//   deno task mutations fence bell       those whose name contains "fence" or "bell"
//
// Each mutation is made in a copy of the tree, in the temporary folder, and the tests that should notice run there on
// Deno; where they do not, all of them. Ends with a Markdown table, and with status 1 where a mutation survived, or where
// the text that it replaces is not there exactly once: the code has moved, and the mutation must follow it.
//
// Environment
//   MUTATIONS_AT_ONCE      how many run at a time; 2 by default
//   MUTATIONS_NAMED_ONLY   1: does not go on to all tests where those named did not notice

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { run } from "./command.ts";
import { readReport } from "./junit.ts";
import { root } from "./runtimes.ts";

/** One text of a file, replaced by another. */
type Edit = readonly [file: string, from: string, to: string];

/** What is taken out. */
interface Mutation {
  readonly name: string;
  readonly edits: readonly Edit[];
  /** The files in `tests/` that should notice, without `.test.ts`. */
  readonly tests: readonly string[];
}

/** How long a run of the named tests may take, in seconds, and one of all. One that hangs has noticed, too. */
const LIMIT = 180;
const LIMIT_OF_ALL = 900;

const SQLITE: readonly Mutation[] = [
  {
    name: "SQLite: a file of a newer release is refused",
    edits: [["drivers/sqlite/schema.ts", "if (schema > SCHEMA) {", "if (schema > SCHEMA + 1000) {"]],
    tests: ["upgrades"],
  },
  {
    name: "SQLite: the fence of a settlement (its token)",
    edits: [[
      "drivers/sqlite/settle.ts",
      'id = ? AND attempts = ? AND token = ?";\n\n/**',
      'id = ? AND attempts = ? AND (token = ? OR 1)";\n\n/**',
    ]],
    tests: ["sqlite"],
  },
  {
    name: "the end of a turn in which prefetched jobs follow one another",
    edits: [["core/worker.ts", "this.#burst <= 0 || now >= this.#burstEnds", "this.#burst <= 0"]],
    tests: ["worker"],
  },
  {
    name: "SQLite: the fence against the original's workers (the attempt)",
    edits: [[
      "drivers/sqlite/settle.ts",
      'id = ? AND attempts = ? AND token = ?";\n\n/**',
      'id = ? AND (attempts = ? OR 1) AND token = ?";\n\n/**',
    ]],
    tests: ["storage"],
  },
  {
    name: "SQLite: the fence of completions by range",
    edits: [[
      "drivers/sqlite/settle.ts",
      "BETWEEN ? AND ? AND attempts = ? AND token = ?",
      "BETWEEN ? AND ? AND attempts = ? AND (token = ? OR 1)",
    ]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: the fence of completions by list",
    edits: [[
      "drivers/sqlite/settle.ts",
      "json_each(?)) AND attempts = ? AND token = ?",
      "json_each(?)) AND attempts = ? AND (token = ? OR 1)",
    ]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: a job that is completed twice fills no gap",
    edits: [
      ["drivers/sqlite/settle.ts", "ids.size < batch.length", "false"],
      ["drivers/sqlite/settle.ts", "gapless([...ids])", "gapless(batch.map(({ id }) => id))"],
    ],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: the IMMEDIATE of BEGIN",
    edits: [["drivers/sqlite/turn.ts", '"BEGIN IMMEDIATE"', '"BEGIN"']],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: calls are answered after the commit",
    edits: [[
      "drivers/sqlite/turn.ts",
      "items)) results.push(result);",
      "items)) tasks[results.push(result) - 1].resolve(result);",
    ]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: one call's fault is its own",
    edits: [[
      "drivers/sqlite/turn.ts",
      "if (tasks.length === 1) return this.#rejectAll(tasks, error);",
      "return this.#rejectAll(tasks, error);",
    ]],
    tests: ["faults"],
  },
  {
    name: "SQLite: a locked file is waited for",
    edits: [[
      "drivers/sqlite/turn.ts",
      'if (faultOf(error) === "busy") return this.#wait(tasks, "lock", error);',
      "",
    ]],
    tests: ["faults"],
  },
  {
    name: "SQLite: the reclaim of expired reservations",
    edits: [[
      "drivers/sqlite/reserve.ts",
      "WHERE reserved_at <= ? ORDER BY reserved_at",
      "WHERE reserved_at <= ? AND 0 ORDER BY reserved_at",
    ]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: the LIMIT of the reclaim",
    edits: [[
      "drivers/sqlite/reserve.ts",
      "ORDER BY reserved_at LIMIT ${RECLAIM_LIMIT})",
      "ORDER BY reserved_at)",
    ]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: an id is read beyond 32 bits",
    edits: [["drivers/sqlite/reserve.ts", "SELECT id + 0.0 AS id", "SELECT id"]],
    tests: ["connections"],
  },
  {
    name: "SQLite: what a share gave counts after a reclaim",
    edits: [["drivers/sqlite/reserve.ts", "left[share] -= jobs.length - before;", ""]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: failing and recording are one transaction's",
    edits: [[
      "drivers/sqlite.ts",
      "insertFailed(connection, held, why, withRecord(history, why.record));\n      return true;",
      "setTimeout(() => this.#settle((connection) => [insertFailed(connection, held, why, history)]));\n      return true;",
    ]],
    tests: ["crash_points"],
  },
  {
    name: "SQLite: AUTOINCREMENT",
    edits: [
      ["drivers/sqlite/schema.ts", "id INTEGER PRIMARY KEY AUTOINCREMENT,", "id INTEGER PRIMARY KEY,"],
      ["drivers/sqlite/schema.ts", "\n  addAutoincrement(connection);", ""],
      ["drivers/sqlite/schema.ts", "\n  seedIds(connection);", ""],
    ],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: once a key",
    edits: [["drivers/sqlite/push.ts", "if (known !== undefined)", "if (false)"]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: a file that was deleted is noticed",
    edits: [["drivers/sqlite.ts", "verify: () => this.#verifyFile(),", "verify: () => {},"]],
    tests: ["faults"],
  },
  {
    name: "SQLite: a file that may be written again is opened anew",
    edits: [["drivers/sqlite.ts", "refused: () => this.#reopenWritable(),", "refused: () => {},"]],
    tests: ["unreadable"],
  },
  {
    name: "SQLite: the bell",
    edits: [["drivers/sqlite.ts", "stored: () => this.#bell.ring(),", "stored: () => {},"]],
    tests: ["sqlite", "worker"],
  },
  {
    name: "SQLite: a worker that died is swept away",
    edits: [[
      "drivers/sqlite/workers.ts",
      "DELETE FROM queue_workers WHERE gone_at <= ?",
      "SELECT 1 WHERE ? < 0",
    ]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: a retry keeps the attempts of before",
    edits: [[
      "drivers/sqlite/failed_jobs.ts",
      "json_set(history, '$[#-1].retriedAt', ?)",
      "nullif(?, 0) AND NULL",
    ]],
    tests: ["sqlite"],
  },
];

const REDIS: readonly Mutation[] = [
  {
    name: "Redis: a store of a newer release is refused",
    edits: [["drivers/redis.ts", "\n    await checkSchema(connection, this.#prefix);", ""]],
    tests: ["upgrades"],
  },
  {
    name: "Redis: the fence (the attempt number in the member)",
    edits: [[
      "drivers/redis/scripts.ts",
      "string.format('%d', attempts + 1)",
      "string.format('%d', attempts + 0)",
    ]],
    tests: ["redis_conformance"],
  },
  {
    name: "Redis: the fence against a worker from before a retry (the generation in the member)",
    edits: [
      ["drivers/redis/scripts.ts", "gsub(member, '0 ', '1 ', 1)", "gsub(member, '^0*0 ', '1 ', 1)"],
      ["drivers/redis/scripts.ts", "member = zeros .. string", "member = string"],
    ],
    tests: ["redis_conformance"],
  },
  {
    name: "Redis: what is no text is set aside",
    edits: [["drivers/redis.ts", "member.includes(UNREADABLE)", "member === UNREADABLE"]],
    tests: ["redis"],
  },
  {
    name: "Redis: a payload may have the character that stands for bytes that are no text",
    edits: [["drivers/redis.ts", " && !texts.has(jobs.length)", ""]],
    tests: ["redis"],
  },
  {
    name: "Redis: no job is taken out of its line that cannot be held",
    edits: [["drivers/redis/scripts.ts", "foreign(KEYS[key], key % 3 == 1 and 'LLEN' or 'ZCARD')", "nil"]],
    tests: ["redis"],
  },
  {
    name: "Redis: a completion goes without a reservation that is refused",
    edits: [[
      "drivers/redis.ts",
      "if (mayHaveRun(error)) throw error;\n        }\n      } else",
      "throw error;\n        }\n      } else",
    ]],
    tests: ["redis"],
  },
  {
    name: "Redis: who met nothing but what is no text asks again",
    edits: [["drivers/redis.ts", "aside: taken.aside + dropped", "aside: taken.aside"]],
    tests: ["redis"],
  },
  {
    name: "worker: a completion that throws is made again",
    edits: [["core/worker.ts", "      done.failed(error);", "      void error;"]],
    tests: ["worker"],
  },
  {
    name: "worker: what hears of a completion does so in the worker's context",
    edits: [[
      "core/worker.ts",
      "else this.#outside(() => this.#settled(end, stored));",
      "else this.#settled(end, stored);",
    ]],
    tests: ["robustness"],
  },
  {
    name: "Redis: what cannot be set aside goes back to its line",
    edits: [[
      "drivers/redis/scripts.ts",
      "            others[#others + 1] = member\n          else",
      "          else",
    ]],
    tests: ["redis"],
  },
  {
    name: "Redis: the fence of a release (what ZREM answers)",
    edits: [[
      "drivers/redis/scripts.ts",
      "if redis.call('ZREM', KEYS[key + 1], ARGV[at + 1]) == 1 then",
      "if redis.call('ZREM', KEYS[key + 1], ARGV[at + 1]) >= 0 then",
    ]],
    tests: ["redis_conformance"],
  },
  {
    name: "Redis: the fence of a failure (what ZREM answers)",
    edits: [[
      "drivers/redis/scripts.ts",
      "if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end",
      "redis.call('ZREM', KEYS[1], ARGV[1])",
    ]],
    tests: ["redis_conformance"],
  },
  {
    name: "Redis: a reservation is settled once",
    edits: [[
      "drivers/redis.ts",
      "if (known(held).settled) return false;\n      known(held).settled = true;\n      try {\n        return await this.#clearing(held, over",
      "try {\n        return await this.#clearing(held, over",
    ]],
    tests: ["redis_conformance"],
  },
  {
    name: "Redis: a lost settlement's job is looked for among the snoozed ones",
    edits: [[
      "drivers/redis/member.ts",
      "new Set([generation, Math.max(1, generation)])",
      "new Set([generation])",
    ]],
    tests: ["redis_faults"],
  },
  {
    name: "Redis: snoozes do not use up the generations",
    edits: [[
      "drivers/redis/member.ts",
      "keepsPlace ? generation : Math.max(1, generation)",
      "keepsPlace ? generation : nextGeneration(generation)",
    ]],
    tests: ["redis"],
  },
  {
    name: "Redis: a settlement whose reply was lost is known to have been made",
    edits: [["drivers/redis/link.ts", "return isLost(error) || ", "return "]],
    tests: ["redis_faults"],
  },
  {
    name: "Redis: the LIMIT of a move",
    edits: [["drivers/redis/scripts.ts", "'LIMIT', 0, ${MOVE_LIMIT})", "'LIMIT', 0, 1000000)"]],
    tests: ["redis"],
  },
  {
    name: "Redis: the reclaim of expired reservations",
    edits: [[
      "drivers/redis/scripts.ts",
      "moved = moved + move(KEYS[lane * 3 + 3], KEYS[lane * 3 + 1], expired)",
      "",
    ]],
    tests: ["redis_conformance"],
  },
  {
    name: "Redis: once a key",
    edits: [[
      "drivers/redis/scripts.ts",
      "local before = marked ~= '' and redis.call('GET', KEYS[key])",
      "local before = false",
    ]],
    tests: ["redis_conformance"],
  },
  {
    name: "Redis, failures in the database: recorded before removed",
    edits: [
      [
        "drivers/redis/failures.ts",
        "await this.#table.record(",
        "const done = await this.#store.complete(held) || repeated; await this.#table.record(",
      ],
      [
        "drivers/redis/failures.ts",
        "if (await this.#store.complete(held) || (repeated && await this.#store.isGone(held))) return true;",
        "if (done) return true;",
      ],
    ],
    tests: ["crash_points"],
  },
  {
    name: "Redis, failures in the database: pushed before deleted",
    edits: [[
      "drivers/redis/failures.ts",
      "await this.#store.pushOnce(jobs, ids, generations, histories);\n    const removed = await this.#table.remove(rows);",
      "const removed = await this.#table.remove(rows);\n    await this.#store.pushOnce(jobs, ids, generations, histories);",
    ]],
    tests: ["crash_points"],
  },
  {
    name: "Redis, failures in the database: a stale failure is taken back",
    edits: [["drivers/redis/failures.ts", "await this.#table.undo(held);", ""]],
    tests: ["redis_faults"],
  },
  {
    name: "Redis, failures in the database: a failure is retried once",
    edits: [["drivers/redis/failures.ts", "key: failure === null ? null : `retry:${failure}`", "key: null"]],
    tests: ["redis_conformance", "crash_points"],
  },
  {
    name: "Redis: an eviction policy that loses jobs is refused",
    edits: [["drivers/redis/server.ts", 'if (policy === "noeviction") return time;', "return time;"]],
    tests: ["redis"],
  },
  {
    name: "Redis: a push is refused as a whole where one lane cannot take its jobs",
    edits: [[
      "drivers/redis/scripts.ts",
      "local refusal = foreign(KEYS[key], key % 2 == 1 and 'LLEN' or 'ZCARD')",
      "local refusal = false",
    ]],
    tests: ["redis_faults"],
  },
  {
    name: "Redis: a snooze starts a generation",
    edits: [[
      "drivers/redis/member.ts",
      "keepsPlace ? generation : Math.max(1, generation)",
      "generation",
    ]],
    tests: ["redis_conformance", "model"],
  },
  {
    name: "Redis: the bell",
    edits: [[
      "drivers/redis/scripts.ts",
      "if ARGV[2] == '1' then redis.call('ZADD', KEYS[1], 0, '0') end",
      "",
    ]],
    tests: ["redis_conformance", "redis"],
  },
  {
    name: "Redis: the attempts of a job go once it is done",
    edits: [["drivers/redis.ts", "if (settled && over && this.#history.concerns(held))", "if (false)"]],
    tests: ["redis_registry"],
  },
  {
    name: "Redis: of many attempts the middle goes",
    edits: [["drivers/redis/history.ts", "if redis.call('LLEN', key) > ${2 * KEPT} then", "if false then"]],
    tests: ["redis_conformance"],
  },
];

const FAILURES: readonly Mutation[] = [
  {
    name: "Failures: the end of a retry of all, though its jobs fail again",
    edits: [[
      "core/failed.ts",
      "filter, after, until, reverse: false, limit: most });",
      "filter, after, until: null, reverse: false, limit: most });",
    ]],
    tests: ["failed"],
  },
  {
    name: "Failures: a filter that names nothing is not all",
    edits: [["core/failed.ts", "  if (isEmpty(filter)) {", "  if (false) {"]],
    tests: ["failed"],
  },
  {
    name: "SQLite: what is moved matches by then",
    edits: [[
      "drivers/sqlite/failed_jobs.ts",
      "return row !== undefined && matcher(filter)(toFiltered(row));",
      "return row !== undefined;",
    ]],
    tests: ["sqlite"],
  },
  {
    name: "SQLite: clearing leaves what is held",
    edits: [["drivers/sqlite/clear.ts", "FROM jobs WHERE reserved_at IS NULL", "FROM jobs WHERE TRUE"]],
    tests: ["sqlite"],
  },
  {
    name: "Redis: what is moved matches by then",
    edits: [["drivers/redis/failures.ts", "return isWanted(job) ? [job] : [];", "return [job];"]],
    tests: ["redis_conformance"],
  },
  {
    name: "Redis: a cleared job leaves no mark",
    edits: [["drivers/redis/scripts.ts", "redis.call('ZREM', KEYS[4], unpack(ids)) > 0", "false"]],
    tests: ["redis_conformance"],
  },
  {
    name: "Command line: what cannot be undone is not done unasked in production",
    edits: [[
      "cli/confirm.ts",
      'throw new CommandError(2, "APP_ENV=production',
      'if (0) throw new CommandError(2, "APP_ENV=production',
    ]],
    tests: ["cli"],
  },
];

const WORKER: readonly Mutation[] = [
  {
    name: "weights: requests under way know of each other",
    edits: [["core/shares.ts", "const change = credit - queue.credit - queue.ahead;", "const change = 0;"]],
    tests: ["properties"],
  },
  {
    name: "worker: what waits is handed back on stop",
    edits: [[
      "core/worker.ts",
      "for (const lease of this.#waiting.splice(0)) this.#handBack(lease);",
      "this.#waiting.splice(0);",
    ]],
    tests: ["worker"],
  },
  {
    name: "worker: what runs is handed back when it must stop at once",
    edits: [[
      "core/worker.ts",
      "if (run.attempt.overrun === null) this.#handBack(run.lease, run.attempt, now - run.startedAt);",
      "",
    ]],
    tests: ["worker"],
  },
  {
    name: "worker: a job that waited past its lease is not started",
    edits: [["core/worker.ts", "if (this.#leases.holds(next, now))", "if (true)"]],
    tests: ["robustness"],
  },
  {
    name: "worker: it wakes when the next job is due",
    edits: [["core/worker.ts", "this.#wakeIn(Math.min(POLL, nextIn ?? POLL));", "this.#wakeIn(POLL);"]],
    tests: ["worker"],
  },
  {
    name: "worker: leases are renewed",
    edits: [["core/lease.ts", "if (due.length > 0) {", "if (false) {"]],
    tests: ["attempt", "worker"],
  },
  {
    name: "worker: a lost lease aborts the handler",
    edits: [["core/lease.ts", "lease.attempt?.abort(", "void ("]],
    tests: ["attempt"],
  },
  {
    name: "worker: what runs is told a second after it changed",
    edits: [[
      "core/presence.ts",
      "const every = this.#changed ? CHANGES_EVERY : BEAT_EVERY;",
      "const every = BEAT_EVERY;",
    ]],
    tests: ["registry"],
  },
  {
    name: "worker: its end does not wait for the store to forget it",
    edits: [[
      "core/presence.ts",
      "cancel = after(LEAVE_DEADLINE, resolve)",
      "cancel = after(2 * LEAVE_DEADLINE, resolve)",
    ]],
    tests: ["registry"],
  },
  {
    name: "worker: a registry that fails is told of once",
    edits: [["core/presence.ts", "if (this.#failures !== 2 || this.#left", "if (this.#left"]],
    tests: ["registry"],
  },
  {
    name: "attempt: a job that killed its workers is failed unrun",
    edits: [["core/attempt.ts", "if (attempt > tries) {", "if (false) {"]],
    tests: ["original"],
  },
  {
    name: "attempt: the last one fails",
    edits: [["core/attempt.ts", "const last = attempt >= tries;", "const last = false;"]],
    tests: ["attempt"],
  },
];

/** A copy of the tree as it is now, what is not committed too. */
function copy(): string {
  const folder = mkdtempSync(join(tmpdir(), "queue-mutation-"));
  const git = spawnSync("git", ["ls-files", "-co", "--exclude-standard"], { cwd: root, encoding: "utf8" });
  if (git.status !== 0) throw new Error(`git ls-files: ${git.stderr}`);
  for (const file of git.stdout.split("\n").filter(Boolean)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(root, file), join(folder, file));
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** The edited text; an error where the old text is not there exactly once. */
function edited(text: string, [file, from, to]: Edit): string {
  const count = text.split(from).length - 1;
  if (count !== 1) throw new Error(`${file}: ${JSON.stringify(from)} is there ${count} times, expected once`);
  return text.replace(from, () => to);
}

/** Every mutation fits the tree, which is known before the first run. */
function check(mutations: readonly Mutation[]): void {
  const problems: string[] = [];
  for (const edit of mutations.flatMap(({ edits }) => edits)) {
    try {
      edited(readFileSync(join(root, edit[0]), "utf8"), edit);
    } catch (error) {
      problems.push(error instanceof Error ? error.message : String(error));
    }
  }
  if (problems.length > 0) throw new Error(problems.join("\n"));
}

/** Runs tests in a copy: what failed first, or `null`. */
async function firstFailure(
  folder: string,
  tests: readonly string[],
  seconds = tests.length === 0 ? LIMIT_OF_ALL : LIMIT,
): Promise<string | null> {
  const files = tests.length === 0 ? ["tests"] : tests.map((name) => `tests/${name}.test.ts`);
  const xml = join(folder, "mutation.xml");
  const args = ["test", "--allow-all", "--no-check", "--fail-fast", `--junit-path=${xml}`, ...files];
  const env = { ...process.env, NO_COLOR: "1" };
  const ending = await run(process.execPath, args, { cwd: folder, env, seconds, output: "keep" });
  if (ending.status === 0) return null;
  const failed = /^(.+?) \.\.\. FAILED/m.exec(ending.output)?.[1] ??
    /^-+ output end -+\n(.+?) \.\.\. FAILED/m.exec(ending.output)?.[1];
  if (failed !== undefined) return failed;
  try {
    const [failure] = readReport(readFileSync(xml, "utf8"), files, folder).failures;
    if (failure !== undefined) return failure.split("\n")[0];
  } catch {
    // No report: it did not come to write one.
  }
  return `the run: ${ending.why}`;
}

interface Result {
  readonly name: string;
  readonly noticed: string | null;
}

async function tryOut({ name, edits, tests }: Mutation): Promise<Result> {
  const folder = copy();
  try {
    for (const edit of edits) {
      const path = join(folder, edit[0]);
      writeFileSync(path, edited(readFileSync(path, "utf8"), edit));
    }
    let noticed = await firstFailure(folder, tests);
    if (noticed === null && !process.env.MUTATIONS_NAMED_ONLY) noticed = await firstFailure(folder, []);
    console.log(`${noticed === null ? "SURVIVED" : "noticed "}  ${name}: ${noticed ?? "by no test"}`);
    return { name, noticed };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Without a mutation all is green, or a red test would prove nothing. */
async function checkGreen(mutations: readonly Mutation[]): Promise<void> {
  const folder = copy();
  try {
    const tests = [...new Set(mutations.flatMap(({ tests }) => tests))];
    const failed = await firstFailure(folder, tests, LIMIT_OF_ALL);
    if (failed !== null) throw new Error(`without a mutation a test fails: ${failed}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function main(filters: readonly string[]): Promise<number> {
  const mutations = [...SQLITE, ...REDIS, ...FAILURES, ...WORKER].filter(({ name }) =>
    filters.length === 0 || filters.some((part) => name.includes(part))
  );
  if (mutations.length === 0) throw new Error(`no mutation is called ${filters.join(", ")}`);
  check(mutations);
  await checkGreen(mutations);
  const results: Result[] = [];
  const waiting = mutations.entries();
  const some = async (): Promise<void> => {
    for (const [index, mutation] of waiting) results[index] = await tryOut(mutation);
  };
  await Promise.all(Array.from({ length: Number(process.env.MUTATIONS_AT_ONCE || 2) }, some));
  console.log("\n| taken out | turned red |\n| --- | --- |");
  for (const { name, noticed } of results) {
    console.log(`| ${name} | ${(noticed ?? "**nothing: it survived**").replaceAll("|", "\\|")} |`);
  }
  const survivors = results.filter(({ noticed }) => noticed === null).length;
  console.log(`\n${results.length - survivors} of ${results.length} mutations were noticed`);
  return survivors === 0 ? 0 : 1;
}

try {
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
