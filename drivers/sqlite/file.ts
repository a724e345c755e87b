/**
 * The file of a database and where it lies: which one it is, its folder, and what is unsafe about the place.
 *
 * @module
 */
import { accessSync, constants, mkdirSync, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { Connection } from "./connection.ts";

/** Gets lines for people to read. */
export type Warn = (line: string) => void;

/** Device and inode; empty where nothing has that name. */
export function identityOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? "" : `${stat.dev}:${stat.ino}`;
}

/** The code of the error by which the system refuses; `null` where it does not. */
export function refusal(path: string, mode: number): string | null {
  try {
    accessSync(path, mode);
    return null;
  } catch (error) {
    return String((error as { code?: string }).code);
  }
}

/** Whether this user may write a file. */
export function isWritable(path: string): boolean {
  return refusal(path, constants.W_OK) === null;
}

/** Where the folder is missing. In Deno, a permission for the file alone does not let us look: opening it tells then. */
export function makeFolder(folder: string): void {
  try {
    if (statSync(folder, { throwIfNoEntry: false }) !== undefined) return;
  } catch {
    return;
  }
  makeMissing(folder);
}

/**
 * A recursive mkdirSync never returns in Node where the file system refuses with ENOENT (/proc), and in Deno it asks
 * for the folder above even where that exists.
 */
function makeMissing(folder: string): void {
  const parent = dirname(folder);
  for (const last of [false, true]) {
    try {
      return void mkdirSync(folder);
    } catch (error) {
      const { code } = error as { code?: string };
      // Another process was first.
      if (code === "EEXIST") return;
      if (last || code !== "ENOENT" || parent === folder) throw error;
      makeMissing(parent);
    }
  }
}

/** NFS, SMB and CIFS, by the magic numbers of statfs(2): WAL needs all processes on one host. */
const NETWORK_FILE_SYSTEMS = [0x6969, 0x517b, 0xff534d42, 0xfe534d42];

/** Whether the file is on another machine, as far as that can be told. */
export function onNetwork(path: string): boolean {
  return NETWORK_FILE_SYSTEMS.includes(fileSystemOf(path));
}

/** Says so where it is. */
export function warnOfNetwork(path: string, warn: Warn): void {
  if (!onNetwork(path)) return;
  warn(
    `queue: ${path} is on a network file system: SQLite's WAL can lose data there; use a local disk or another store`,
  );
}

/** Its magic number; 0 where that cannot be told. */
function fileSystemOf(path: string): number {
  try {
    return mayLookAtFileSystem() ? statfsSync(dirname(path)).type >>> 0 : 0;
  } catch {
    return 0;
  }
}

/** Not in Deno without the permission, for which it would ask a person. */
export function mayLookAtFileSystem(): boolean {
  const { Deno } = globalThis as { Deno?: { permissions: { querySync(what: object): { state: string } } } };
  try {
    return (Deno?.permissions.querySync({ name: "sys", kind: "statfs" }).state ?? "granted") === "granted";
  } catch {
    return false;
  }
}

/** Says so where SQLite refused the log without an error, as it does where shared memory cannot be had. */
export function warnOfJournal(path: string, mode: unknown, warn: Warn): void {
  if (mode === "wal") return;
  warn(
    `queue: ${path} has journal_mode=${mode}, as its file system takes no WAL: readers and writers wait for each other`,
  );
}

/** The first release without a fault by which several connections can lose committed writes. */
export const SAFE_VERSION: readonly number[] = [3, 51, 3];

/** Whether a release is without it. */
export function isSafeVersion(version: string): boolean {
  const [major, minor, patch] = version.split(".").map(Number);
  const [safeMajor, safeMinor, safePatch] = SAFE_VERSION;
  return (major - safeMajor || minor - safeMinor || patch - safePatch) >= 0;
}

/** Says so where the library has that fault. */
export function warnOfVersion(connection: Connection, warn: Warn): void {
  const version = String(connection.get("SELECT sqlite_version() AS version")?.version);
  if (isSafeVersion(version)) return;
  warn(
    `queue: SQLite ${version} can lose writes where several connections share a file (https://sqlite.org/wal.html#walresetbug): ` +
      `use ${SAFE_VERSION.join(".")} or newer`,
  );
}
