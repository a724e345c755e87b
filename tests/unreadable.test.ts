/** Stores that may not be written, or not be read, and files that are no store: what can be seen, and what is said. */
import assert from "node:assert/strict";
import {
  chmodSync,
  copyFileSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { QueueError } from "../core/errors.ts";
import { explainFault } from "../drivers/sqlite/explain.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { failure, job, take } from "./conformance.ts";
import { inFolder } from "./folder.ts";
import { type Line, withPrograms } from "./process.ts";
import { soon, until } from "./until.ts";

const LEASE = 90_000;
/** Why permissions cannot be tried here. */
const skip = process.platform === "win32" ? "no permissions of this kind" : false;

/** What somebody says whom permissions hold: what was seen or why nothing was, and what became of a change. */
async function looked(file: string): Promise<Line[]> {
  return await withPrograms(async (start) => {
    const program = start("looker", { file });
    assert.equal(await soon(program.ended, "the looker to end"), 0, program.errors);
    return program.lines;
  });
}

/** A store with a job that waits and one that has failed, as everybody may read it. */
async function stored(folder: string): Promise<{ file: string; owner: SqliteDriver }> {
  chmodSync(folder, 0o755);
  const file = join(folder, "queue.sqlite");
  const owner = new SqliteDriver({ database: file });
  await owner.push([job({ name: "fails" }), job({ name: "waits" })], null);
  await owner.fail((await take(owner, { limit: 1 }))[0], failure());
  return { file, owner };
}

async function withDriver<Result>(
  file: string,
  use: (driver: SqliteDriver) => Promise<Result>,
): Promise<Result> {
  const driver = new SqliteDriver({ database: file });
  try {
    return await use(driver);
  } finally {
    await driver.close();
  }
}

/** What it says when somebody looks. */
async function said(file: string): Promise<string> {
  return await withDriver(file, async (driver) => {
    const error = await driver.counts(null, LEASE).then(() => null, (error) => error);
    assert.ok(error instanceof QueueError && error.code === "DB", String(error));
    return error.message;
  });
}

test(
  "whoever may only read sees all that is in it, while another process has it open",
  { skip },
  async () => {
    await inFolder(async (folder) => {
      const { file, owner } = await stored(folder);
      try {
        const [saw, kept] = await looked(file);
        assert.deepEqual(saw, ["saw", 1, 1, ["fails"], "waits"]);
        assert.match(String(kept[1]), /this user may not write in the folder/);
        chmodSync(folder, 0o777);
        const [, here] = await looked(file);
        assert.match(String(here[1]), /queue\.sqlite: .*: this user may read this file, and not write it$/);
      } finally {
        await owner.close();
      }
    });
  },
);

test(
  "a file that nobody has open is read where its folder may be written, and else is named",
  { skip },
  async () => {
    await inFolder(async (folder) => {
      const { file, owner } = await stored(folder);
      await owner.close();
      const [[word, message]] = await looked(file);
      assert.equal(word, "refused");
      assert.ok(String(message).startsWith(`queue: ${file}: `), String(message));
      assert.match(
        String(message),
        /not write in the folder .*, where SQLite needs queue\.sqlite-wal and -shm/,
      );

      chmodSync(folder, 0o777);
      assert.deepEqual((await looked(file))[0], ["saw", 1, 1, ["fails"], "waits"]);
    });
  },
);

test("a file that may be written again is written again", { skip }, async () => {
  await inFolder(async (folder) => {
    const { file, owner } = await stored(folder);
    await owner.close();
    chmodSync(folder, 0o777);
    await withPrograms(async (start) => {
      const program = start("looker", { file, until: "written" });
      await until(() => program.lines.some(([word]) => word === "kept"), "a refusal");
      for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o666);
      assert.equal(await soon(program.ended, "the looker to end"), 0, program.errors);
      assert.deepEqual(program.lines.at(-1), ["wrote"]);
    });
  });
});

test("a file that may not be read, and a folder where none may be made, are named", { skip }, async () => {
  await inFolder(async (folder) => {
    const { file, owner } = await stored(folder);
    await owner.close();
    chmodSync(file, 0o000);
    const [[, forbidden]] = await looked(file);
    assert.match(String(forbidden), /queue\.sqlite: .*: this user may not read this file$/);
    chmodSync(folder, 0o555);
    const [[, missing]] = await looked(join(folder, "missing.sqlite"));
    chmodSync(folder, 0o755);
    assert.ok(String(missing).endsWith(`this user may not make a file in ${folder}`), String(missing));
  });
});

test("to open a store that is up to date writes nothing into it", async () => {
  await inFolder(async (folder) => {
    const { file, owner } = await stored(folder);
    await owner.close();
    const before = [readFileSync(file, "hex"), statSync(file).mtimeMs];
    await withDriver(file, (driver) => driver.counts(null, LEASE));
    assert.deepEqual([readFileSync(file, "hex"), statSync(file).mtimeMs], before);
  });
});

test("a file that is no database, is cut off or is damaged is called that", async () => {
  await inFolder(async (folder) => {
    const { file, owner } = await stored(folder);
    await owner.close();
    const other = (name: string): string => {
      const path = join(folder, name);
      copyFileSync(file, path);
      return path;
    };

    const text = join(folder, "notes.txt");
    writeFileSync(text, "not a database at all, but long enough to be looked at. ".repeat(20));
    const message = await said(text);
    assert.ok(message.startsWith(`queue: ${text}: `), message);
    assert.match(
      message,
      /this file is no SQLite database; .*: restore it from a backup, or name another file$/,
    );

    const short = other("short.sqlite");
    const { size } = statSync(short);
    truncateSync(short, size - 4096);
    assert.match(await said(short), new RegExp(`cut off, ${size - 4096} of at least ${size} bytes`));
    const stump = other("stump.sqlite");
    truncateSync(stump, 20);
    assert.match(await said(stump), /cut off, 20 of at least 100 bytes/);

    const damaged = other("damaged.sqlite");
    const bytes = readFileSync(damaged);
    bytes.fill(0xff, 4096);
    writeFileSync(damaged, bytes);
    assert.match(await said(damaged), /this file is damaged: restore it from a backup/);
  });
});

test("what is no file, or is one no more, is called that", async () => {
  await inFolder(async (folder) => {
    assert.ok((await said(folder)).endsWith(": this is a folder, and no file"));
    const { file, owner } = await stored(folder);
    await owner.close();
    assert.ok((await said(join(file, "queue.sqlite"))).endsWith(`: ${file} is no folder`));
    // What SQLite says of a file that it has open, and cannot go on with.
    const fault = Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_SHORT_READ" });
    assert.equal(explainFault(fault, file), "disk I/O error");
    rmSync(file);
    assert.equal(
      explainFault(fault, file),
      "disk I/O error: this file was deleted while it was open: restore it or restart",
    );
    const missing = join(folder, "none", "queue.sqlite");
    const cannot = new Error("unable to open database file");
    assert.equal(
      explainFault(cannot, missing),
      `unable to open database file: there is no folder ${join(folder, "none")}`,
    );
    if (process.platform === "win32") return;
    const device = await said("/dev/null");
    assert.equal(
      device,
      "queue: /dev/null: disk I/O error: this is a device, a pipe or a socket, and no file",
    );
  });
});
