import { existsSync, realpathSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";

/** This module is never the one that is started. */
const HERE: { readonly main: boolean | undefined; readonly url: string | undefined } = {
  main: import.meta.main,
  url: import.meta.url,
};

/**
 * Whether a module of this package was started itself, and not imported.
 *
 * Some bundlers leave `import.meta` in the one file that they make as it is: there every module takes itself for the one
 * that was started, this one too, by which they are known. What is in such a file is an app, which calls `main` itself.
 *
 * @param main The module's `import.meta.main`, which Node has from 24.2 on.
 * @param url Its `import.meta.url`, which a bundle of CommonJS has not.
 */
export function isMain(main: boolean | undefined, url: string | undefined): boolean {
  if (main !== undefined) return main && HERE.main !== true;
  if (url === undefined || (HERE.main === undefined && HERE.url === url)) return false;
  const program = process.argv[1];
  // `node app` may mean app.js.
  return program !== undefined && existsSync(program) && realpathSync(program) === fileURLToPath(url);
}
