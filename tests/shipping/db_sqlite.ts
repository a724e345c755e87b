/**
 * The contract of drivers, on connections of `@db/sqlite`. Run by packages.ts, on Deno.
 *
 * @module
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { SqliteDriver } from "../../drivers/sqlite.ts";
import { type Database as AnyDatabase, type Job, Queue } from "../../mod.ts";
import { conformance } from "../conformance.ts";
import { inFolder, newFolder } from "../folder.ts";

interface Connection extends AnyDatabase {
  readonly open: boolean;
  close(): void;
}

// Not as text, which a type check would look up: most machines of developers have no way to JSR.
const specifier: string = "jsr:@db/sqlite@^0.13.0";
const { Database } = await import(specifier) as { Database: new (path: string) => Connection };

conformance({
  name: "@db/sqlite",
  open() {
    const folder = newFolder();
    const connections: Connection[] = [];
    const connect = (): SqliteDriver => {
      const connection = new Database(join(folder.path, "app.sqlite"));
      connections.push(connection);
      connection.exec("PRAGMA synchronous = OFF");
      return new SqliteDriver({ database: connection });
    };
    return {
      driver: connect(),
      another: connect,
      remove() {
        for (const connection of connections) connection.close();
        folder.remove();
      },
    };
  },
});

test("@db/sqlite: handlers get the app's connection, and it stays open", () =>
  inFolder(async (folder) => {
    const database = new Database(join(folder, "app.sqlite"));
    const ids: string[] = [];
    const greet = (job: Job<{ name: string }, Connection>): void => {
      job.db.prepare("INSERT INTO greeted VALUES (?)").run(job.data.name);
      ids.push(job.id);
    };
    const queue = new Queue({ database, env: {}, jobs: { greet } });
    database.exec("CREATE TABLE greeted (name TEXT)");
    await queue.dispatch("greet", { name: "Ada" });
    database.exec("UPDATE jobs SET id = 3000000000");
    await queue.work({ stopWhenEmpty: true });
    await queue.close();
    assert.deepEqual(ids, ["3000000000"], "beyond 32 bits");
    assert.deepEqual({ ...database.prepare("SELECT name FROM greeted").get() as object }, { name: "Ada" });
    assert.equal(database.open, true);
    database.close();
  }));
