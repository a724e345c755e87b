/**
 * Reads what `deno compile` adds to its base binary.
 *
 * @module
 */
import { readFileSync } from "node:fs";

/** What a compiled program brings along. */
export interface Standalone {
  /** How it was built. */
  // deno-lint-ignore no-explicit-any
  readonly metadata: any;
  /** The npm packages that it may import, as `name@version`. */
  readonly packages: readonly string[];
  /** The paths of its files, sorted. */
  readonly files: readonly string[];
}

/** An entry of its file system. */
interface Entry {
  readonly Dir?: { readonly n: string; readonly e: readonly Entry[] };
  readonly File?: { readonly n: string };
  readonly Symlink?: { readonly n: string };
}

const MAGIC = "d3n0l4nd";

/**
 * Reads the section of a compiled program: the magic, then the metadata, the packages, the modules of other hosts, and
 * the file system, each behind its length.
 *
 * @throws {Error} Where there is none, or it has modules of other hosts.
 */
export function readStandalone(file: string): Standalone {
  const bytes = readFileSync(file);
  for (let at = bytes.indexOf(MAGIC); at >= 0; at = bytes.indexOf(MAGIC, at + 1)) {
    // The base binary has the magic among its own constants, too.
    if (bytes.toString("latin1", at + 16, at + 18) === '{"') {
      return readSection(bytes.subarray(at + MAGIC.length));
    }
  }
  throw new Error(`${file}: nothing was added to it`);
}

function readSection(section: Buffer): Standalone {
  let at = 0;
  const next = (): Buffer => {
    const length = Number(section.readBigUInt64LE(at));
    const part = section.subarray(at + 8, at + 8 + length);
    at += 8 + length;
    return part;
  };
  const metadata = JSON.parse(next().toString());
  const packages = readPackages(next());
  const remote = [at, at + 4, at + 8].map((place) => section.readUInt32LE(place));
  if (remote.some((count) => count > 0)) throw new Error("it has modules of other hosts");
  at += 12;
  const files = pathsOf(JSON.parse(next().toString()), "");
  return { metadata, packages, files: files.sort() };
}

/** The ids of a snapshot: their number, and each behind its length. */
function readPackages(snapshot: Buffer): string[] {
  let at = 4;
  return Array.from({ length: snapshot.readUInt32LE(0) }, () => {
    const length = snapshot.readUInt32LE(at);
    const id = snapshot.toString("utf8", at + 4, at + 4 + length);
    at += 4 + length;
    return id;
  });
}

function pathsOf(entries: readonly Entry[], folder: string): string[] {
  return entries.flatMap(({ Dir, File, Symlink }) =>
    Dir === undefined ? [folder + (File ?? Symlink)!.n] : pathsOf(Dir.e, `${folder}${Dir.n}/`)
  );
}
