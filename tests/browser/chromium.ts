/**
 * Chromium, where this machine has one: named by CHROMIUM, or in a usual place.
 *
 * @module
 */
import { accessSync, constants } from "node:fs";
import process from "node:process";
import { type Browser, chromium } from "playwright-core";

const PLACES = [
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
  "/usr/bin/google-chrome-stable",
  "/snap/bin/chromium",
  "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];

/** Its path; `null` where there is none. */
export const chromiumPath: string | null = find();

/** Why tests with a browser are skipped; `false` where there is one. */
export const noChromium: string | false = chromiumPath === null
  ? "no Chromium on this machine: install one, or name yours in CHROMIUM"
  : false;

function find(): string | null {
  const named = process.env.CHROMIUM;
  for (const path of named ? [named] : PLACES) {
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch { /* not there */ }
  }
  return null;
}

/** Starts it. Its sandbox refuses to run as root, as in a container. */
export async function launch(): Promise<Browser> {
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  return await chromium.launch({ executablePath: chromiumPath!, args });
}
