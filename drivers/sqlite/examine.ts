/**
 * What is wrong with a database, and with the place where it lies.
 *
 * @module
 */
import { statfsSync } from "node:fs";
import { dirname } from "node:path";
import type { Finding } from "../../core/driver.ts";
import { fine, ofLeases, STUCK } from "../findings.ts";
import type { Connection } from "./connection.ts";
import { isSafeVersion, mayLookAtFileSystem, onNetwork, SAFE_VERSION } from "./file.ts";

/** Below how much free space a disk deserves a look, and help, in bytes. */
const LITTLE_SPACE = 2 ** 30;
const NO_SPACE = 100 * 2 ** 20;

/** What the database says of itself. */
export function lookAtDatabase(
  connection: Connection,
  path: string | null,
  now: number,
  lease: number,
): Finding[] {
  return [
    lookAtVersion(connection),
    ...path === null ? [] : [lookAtJournal(connection), ...lookAtFile(path)],
    lookAtLeases(connection, now - lease),
  ];
}

/** Writes something, to see whether that can be done. */
export function tryToWrite(connection: Connection, now: number): void {
  connection.run("INSERT OR REPLACE INTO queue_meta (key, value) VALUES ('examined', ?)", now);
}

/** What came of that. */
export function ofWriting(error: Error | null): Finding {
  if (error === null) return fine("writing", "works");
  return {
    what: "writing",
    level: "bad",
    found: error.message,
    remedy:
      "free the disk, end the transaction that holds the lock, or let this user write the file and its folder",
  };
}

function lookAtVersion(connection: Connection): Finding {
  const version = String(connection.get("SELECT sqlite_version() AS version")?.version);
  if (isSafeVersion(version)) return fine("SQLite", version);
  return {
    what: "SQLite",
    level: "warn",
    found: `${version}, which can lose writes where several connections share a file`,
    remedy: `use a runtime with ${SAFE_VERSION.join(".")} or newer (https://sqlite.org/wal.html#walresetbug)`,
  };
}

function lookAtJournal(connection: Connection): Finding {
  const mode = String(connection.get("PRAGMA journal_mode")?.journal_mode);
  if (mode === "wal") return fine("journal mode", "wal");
  return {
    what: "journal mode",
    level: "warn",
    found: `${mode}, with which readers and writers wait for each other`,
    remedy: "put the file on a local disk; on a connection of your own, run PRAGMA journal_mode = WAL",
  };
}

function lookAtFile(path: string): Finding[] {
  if (!mayLookAtFileSystem()) {
    return [{
      what: "file system",
      level: "warn",
      found: "not known, as Deno may not tell",
      remedy: "run with --allow-sys=statfs",
    }];
  }
  const { bavail, bsize } = statfsSync(dirname(path));
  const free = bavail * bsize;
  const found = free < 2 ** 30
    ? `${Math.floor(free / 2 ** 20)} MiB free`
    : `${(free / 2 ** 30).toFixed(1)} GiB free`;
  return [
    onNetwork(path)
      ? {
        what: "file system",
        level: "bad",
        found: "a network file system, on which SQLite's WAL can lose data",
        remedy: "use a local disk, or Redis for several machines",
      }
      : fine("file system", "local"),
    free >= LITTLE_SPACE ? fine("disk", found) : {
      what: "disk",
      level: free < NO_SPACE ? "bad" : "warn",
      found,
      remedy: "free some space: on a full disk no job can be stored or settled",
    },
  ];
}

function lookAtLeases(connection: Connection, expiry: number): Finding {
  const row = connection.get(
    "SELECT count(*) AS jobs FROM jobs WHERE reserved_at <= ?",
    expiry - STUCK / 1000,
  );
  return ofLeases(Number(row?.jobs));
}
