// Puts the runtimes that the suite runs on into .tools, from npm:   deno task tools   or   node scripts/tools.mjs
// (JavaScript, since CI runs it with the Node 20 that it starts from, before there is a Deno.)

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("../.tools", import.meta.url));
const runtimes = { deno: "2", bun: "1", node: "24" };
const names = Object.keys(runtimes);
const manifest = JSON.stringify({
  private: true,
  dependencies: runtimes,
  // npm 12 runs no install script that is not named here. All three have one that fetches the executable, as an
  // npm package too.
  allowScripts: Object.fromEntries(names.map((name) => [name, true])),
});

/** The versions in .tools, or undefined where one does not run. */
function versions() {
  const found = names.map((name) => {
    const answer = spawnSync(join(folder, "node_modules", ".bin", name), ["--version"], { encoding: "utf8" });
    return answer.status === 0 ? `${name} ${/\d+\.\d+\.\d+/.exec(answer.stdout)?.[0]}` : undefined;
  });
  return found.includes(undefined) ? undefined : found.join(", ");
}

/** Asks npm, again where it fails: a registry is a network away. */
function install() {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), manifest);
  for (let tries = 1; tries <= 3; tries++) {
    const { status } = spawnSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error"], {
      cwd: folder,
      stdio: ["ignore", "inherit", "inherit"],
    });
    if (status === 0 && versions()) return;
    console.error(`npm install in .tools: try ${tries} of 3 did not bring all of ${names.join(", ")}`);
  }
}

const kept = join(folder, "package.json");
if (!existsSync(kept) || readFileSync(kept, "utf8") !== manifest || !versions()) install();
const now = versions();
console.log(now ? `.tools: ${now}` : "deno, bun and node could not be installed into .tools");
process.exitCode = now ? 0 : 1;
