/**
 * What the figures were measured on.
 *
 * @module
 */
import { statfsSync } from "node:fs";
import { cpus, loadavg, release, totalmem, type } from "node:os";

/** File systems by the magic number of statfs(2). */
const FILE_SYSTEMS: Record<number, string> = {
  0xef53: "ext4",
  0x58465342: "xfs",
  0x9123683e: "btrfs",
  0x2fc12fc1: "zfs",
  0x01021994: "tmpfs",
  0x794c7630: "overlayfs",
  0x6969: "nfs",
  0x1a: "apfs",
};

/** The file system that a folder is on. */
export function fileSystemOf(folder: string): string {
  const magic = statfsSync(folder).type >>> 0;
  return FILE_SYSTEMS[magic] ?? `file system 0x${magic.toString(16)}`;
}

/** Processor, memory, kernel. */
export function describeMachine(): string {
  const processors = cpus();
  const model = processors[0]?.model.trim().replace(/\s+/g, " ") ?? "unknown processor";
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  return `${processors.length} cores (${model}), ${gigabytes} GB, ${type()} ${release()}`;
}

/** How busy the machine was just before, in processes that wanted to run. */
export function load(): number {
  return loadavg()[0];
}
