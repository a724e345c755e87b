/** Folders of their own for tests that need files. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A new folder, and how to remove it with all that is in it. */
export function newFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "queue-test-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Runs `use` with a new folder and removes that afterwards. */
export async function inFolder<Result>(use: (path: string) => Promise<Result> | Result): Promise<Result> {
  const folder = newFolder();
  try {
    return await use(folder.path);
  } finally {
    folder.remove();
  }
}
