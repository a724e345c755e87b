// What kind of executable a file is, by its first bytes.

import { closeSync, openSync, readSync } from "node:fs";

/** The form of a file, and the processor that it is for, such as `ELF x64`; `undefined` for anything else. */
export function executableKind(head: Uint8Array): string | undefined {
  const view = new DataView(head.buffer, head.byteOffset, head.byteLength);
  if (head.length < 64) return undefined;
  if (view.getUint32(0) === 0x7f454c46) {
    return kind("ELF", { 0x3e: "x64", 0xb7: "arm64" }, view.getUint16(18, true));
  }
  if (view.getUint32(0, true) === 0xfeedfacf) {
    return kind("Mach-O", { 0x1000007: "x64", 0x100000c: "arm64" }, view.getUint32(4, true));
  }
  if (view.getUint16(0) !== 0x4d5a) return undefined;
  const header = view.getUint32(0x3c, true);
  if (header + 6 > head.length || view.getUint32(header) !== 0x50450000) return undefined;
  return kind("PE", { 0x8664: "x64", 0xaa64: "arm64" }, view.getUint16(header + 4, true));
}

function kind(form: string, processors: Record<number, string>, found: number): string | undefined {
  return found in processors ? `${form} ${processors[found]}` : undefined;
}

/** The kind of a file. */
export function kindOfFile(path: string): string | undefined {
  const file = openSync(path, "r");
  try {
    const head = new Uint8Array(4096);
    return executableKind(head.subarray(0, readSync(file, head)));
  } finally {
    closeSync(file);
  }
}
