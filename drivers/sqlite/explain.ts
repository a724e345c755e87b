/**
 * What SQLite's shortest errors mean: whose permission is missing, what a file is that is no database, or no file.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { closeSync, constants, fstatSync, openSync, readSync, statSync } from "node:fs";
import { basename, dirname } from "node:path";
import { codeOf } from "./connection.ts";
import { refusal } from "./file.ts";

/** SQLite's primary result codes: https://sqlite.org/rescode.html */
const READONLY = 8;
const IOERR = 10;
const CORRUPT = 11;
const CANTOPEN = 14;
const NOTADB = 26;

/**
 * The error's own words, and after these what is the matter with the file, where that can be seen.
 *
 * @param path The file; `null` where there is none, or it is not known.
 */
export function explainFault(error: unknown, path: string | null): string {
  const said = error instanceof Error ? error.message : String(error);
  if (path === null) return said;
  const why = reasonFor(codeOf(error), path);
  return why === null ? said : `${said}: ${why}`;
}

function reasonFor(code: number | null, path: string): string | null {
  switch (code) {
    case READONLY:
    case CANTOPEN:
      return misplaced(path) ?? forbidden(path);
    case NOTADB:
    case CORRUPT:
      return misplaced(path) ?? damage(path);
    case IOERR:
      return refusal(path, constants.F_OK) === "ENOENT"
        ? "this file was deleted while it was open: restore it or restart"
        : misplaced(path);
    default:
      return misplaced(path);
  }
}

/** What has the name, where that is no file. */
function misplaced(path: string): string | null {
  try {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined || stat.isFile()) return null;
    return `this is ${stat.isDirectory() ? "a folder" : "a device, a pipe or a socket"}, and no file`;
  } catch {
    return null; // it cannot be looked at
  }
}

/** Which permission is missing. */
function forbidden(path: string): string | null {
  const folder = dirname(path);
  const cannotRead = refusal(path, constants.R_OK);
  if (cannotRead === "ENOTDIR") return `${folder} is no folder`;
  if (cannotRead === "ENOENT") {
    const cannotMake = refusal(folder, constants.W_OK);
    if (cannotMake === "ENOENT") return `there is no folder ${folder}`;
    return cannotMake === null ? null : `this user may not make a file in ${folder}`;
  }
  if (cannotRead !== null) return "this user may not read this file";
  const cannotWrite = refusal(path, constants.W_OK);
  if (cannotWrite === "EROFS") return "its file system is read-only";
  if (refusal(folder, constants.W_OK) !== null) {
    const beside = `${basename(path)}-wal and -shm`;
    return `this user may not write in the folder ${folder}, where SQLite needs ${beside}; ` +
      "reading works while another process has the file open";
  }
  return cannotWrite === null ? null : "this user may read this file, and not write it";
}

const MAGIC = "SQLite format 3\0";

/** What is there in place of a database. */
function damage(path: string): string | null {
  const remedy = "restore it from a backup, or name another file";
  const found = readHead(path);
  if (found === null) return null;
  const { head, size } = found;
  if (head.toString("latin1", 0, MAGIC.length) !== MAGIC.slice(0, size)) {
    return `this file is no SQLite database; it may be another one, or encrypted: ${remedy}`;
  }
  // https://sqlite.org/fileformat.html: the size of a page, where 1 stands for 65,536, and how many there are.
  const pageSize = head.length < 32 ? 0 : head.readUInt16BE(16);
  const whole = head.length < 32 ? 100 : (pageSize === 1 ? 65_536 : pageSize) * head.readUInt32BE(28);
  if (size < whole) return `this file is cut off, ${size} of at least ${whole} bytes are there: ${remedy}`;
  return `this file is damaged: ${remedy}; sqlite3's .recover saves what can be read`;
}

function readHead(path: string): { head: Buffer; size: number } | null {
  try {
    const file = openSync(path, "r");
    try {
      const head = Buffer.alloc(100);
      return { head: head.subarray(0, readSync(file, head, 0, head.length, 0)), size: fstatSync(file).size };
    } finally {
      closeSync(file);
    }
  } catch {
    return null; // it cannot be looked at: SQLite's own words must do
  }
}
