import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { VERSION } from "../version.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

interface Import {
  readonly from: string;
  /** A path from the root, or a package as it is named; an expression where a lazy import has one. */
  readonly to: string;
  readonly kind: "file" | "package" | "expression";
  readonly lazy: boolean;
}

function read(file: string): string {
  return readFileSync(join(root, file), "utf8");
}

function json(file: string): Record<string, unknown> {
  return JSON.parse(read(file));
}

/** The patterns of every .gitignore that are in use here: `folder/`, `folder/inner/` and `*.end`, from where they stand. */
function ignored(folder: string): (path: string) => boolean {
  const patterns = readdirSync(join(root, folder)).includes(".gitignore")
    ? read(posix.join(folder, ".gitignore")).split("\n").map((line) => line.trim()).filter((line) =>
      line !== "" && !line.startsWith("#")
    )
    : [];
  const tests = patterns.map((pattern) => {
    const path = pattern.replace(/^\//, "").replace(/\/$/, "").replace(/[.+^${}()|[\]\\]/g, "\\$&");
    return new RegExp(`(^|/)${path.replaceAll("*", "[^/]*")}$`);
  });
  return (path) => tests.some((test) => test.test(path));
}

/** Every file that git would take, as paths from the root. */
function files(folder = "", skip: (path: string) => boolean = () => false): string[] {
  const own = ignored(folder);
  const skipped = (path: string): boolean => skip(path) || own(path);
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = posix.join(folder, entry.name);
    if (entry.name === ".git" || skipped(path)) return [];
    if (entry.isDirectory()) return files(path, skipped);
    return entry.isFile() ? [path] : [];
  });
}

const all = files();

/** The TypeScript files that stand in one of the folders, or are one of the files, named. */
function sources(...places: string[]): string[] {
  return all.filter((file) =>
    file.endsWith(".ts") && places.some((place) => file === place || file.startsWith(`${place}/`))
  );
}

/** What a file imports, types included. Examples in its comments do not count. */
function imports(from: string): Import[] {
  const code = read(from).replace(/^\s*(\/\/|\/?\*).*$/gm, "");
  const eager = [...code.matchAll(/^(?:import|export)\b[^;"'`]*?\bfrom\s*(["'][^"']+["'])/gm)];
  const effects = [...code.matchAll(/^import\s*(["'][^"']+["'])/gm)];
  const lazy = [...code.matchAll(/\bimport\(\s*([^)]*?)\s*\)/g)];
  const found = (text: string, lazy: boolean): Import => {
    const to = /^["']([^"']+)["'],?$/.exec(text)?.[1];
    if (to === undefined) return { from, to: text, kind: "expression", lazy };
    if (!to.startsWith(".")) return { from, to, kind: "package", lazy };
    return { from, to: posix.join(posix.dirname(from), to), kind: "file", lazy };
  };
  return [
    ...[...eager, ...effects].map(([, to]) => found(to, false)),
    ...lazy.map(([, to]) => found(to, true)),
  ];
}

function isInside(path: string, ...places: string[]): boolean {
  return places.some((place) => path === place || path.startsWith(`${place}/`));
}

/** The imports of the places that lead elsewhere than they may: to other files, or to this package by its name. */
function strangers(places: readonly string[], ...allowed: string[]): Import[] {
  const found = sources(...places).flatMap(imports);
  assert.notEqual(
    found.length,
    0,
    `${places.join(", ")}: no import was found, so the rule was not looked at`,
  );
  return found.filter(({ to, kind }) =>
    kind === "file" ? !isInside(to, ...allowed) : kind === "package" && isInside(to, "@x/queue")
  );
}

function sentences(imports: readonly Import[]): string[] {
  return imports.map(({ from, to, lazy }) => `${from} imports ${to}${lazy ? " lazily" : ""}`);
}

test("the walk over the repository sees its files and not what git ignores", () => {
  for (const file of ["mod.ts", "core/driver.ts", ".ci/run", "tests/architecture.test.ts"]) {
    assert.ok(all.includes(file), file);
  }
  assert.deepEqual(all.filter((file) => /(^|\/)(node_modules|\.tools|\.git)\//.test(file)), []);
});

test("core imports only core, and a driver only lazily, in one place", () => {
  const outside = strangers(["core"], "core", "version.ts");
  const isChoice = ({ from, to, lazy }: Import): boolean =>
    lazy && isInside(to, "drivers") &&
    (from === "core/queue.ts" || (from === "core/isolate/serve.ts" && to === "drivers/sqlite/handlers.ts"));
  assert.deepEqual(sentences(outside.filter((one) => !isChoice(one))), []);
  const chosen = outside.map(({ to }) => to);
  assert.deepEqual(chosen, [...new Set(chosen)], "each driver is imported in one place");
  assert.ok(chosen.includes("drivers/sqlite.ts"), "the embedded default is one of them");
  const hidden = sources("core").flatMap(imports).filter(({ kind }) => kind === "expression");
  const modules = hidden.map(({ from }) => from);
  assert.deepEqual(
    modules,
    ["core/isolate/jobs_module.ts"],
    "an import by an expression could be of anything",
  );
});

test("a driver imports, of core, only the contract and the errors", () => {
  assert.deepEqual(sentences(strangers(["drivers"], "drivers", "core/driver.ts", "core/errors.ts")), []);
});

test("mod.ts imports only core", () => {
  assert.deepEqual(sentences(strangers(["mod.ts"], "core", "version.ts")), []);
});

test("the command line and the dashboard see the library only through mod.ts and its other faces", () => {
  const faces = ["mod.ts", "metrics.ts", "logs.ts", "version.ts"];
  assert.deepEqual(sentences(strangers(["cli.ts", "cli"], "cli", "dashboard.ts", ...faces)), []);
  if (sources("dashboard").length > 0) {
    assert.deepEqual(sentences(strangers(["dashboard"], "dashboard", "mod.ts", "version.ts")), []);
  }
});

test("metrics and logs see the library only through mod.ts, and check their options as it does", () => {
  assert.deepEqual(sentences(strangers(["metrics", "logs.ts"], "metrics", "mod.ts", "version.ts")), []);
  const checks = ["core/duration.ts", "core/errors.ts"];
  assert.deepEqual(sentences(strangers(["metrics.ts"], "metrics", ...checks)), []);
});

test("no file is named after what it is not about", () => {
  const vague = /(^|\/)(utils?|helpers?|types|common|constants)\.ts$/;
  assert.deepEqual(
    sources("mod.ts", "cli.ts", "core", "cli", "drivers", "dashboard", "metrics", "metrics.ts", "logs.ts")
      .filter((file) => vague.test(file)),
    [],
  );
});

test("the version is the same in deno.json, package.json and version.ts", () => {
  assert.equal(json("deno.json").version, VERSION);
  assert.equal(json("package.json").version, VERSION);
});

test("deno.json and package.json have the same name and exports, and each export is a file", () => {
  const { name, exports } = json("deno.json");
  assert.equal(json("package.json").name, name);
  assert.deepEqual(json("package.json").exports, exports);
  for (const file of Object.values(exports as Record<string, string>)) {
    assert.ok(all.includes(posix.normalize(file)), file);
  }
});

test("no test is marked with only", () => {
  const marked = all.filter((file) =>
    file.endsWith(".test.ts") && /\b(test|it|describe)\.only\(|\bonly:\s*true/.test(read(file))
  );
  assert.deepEqual(marked, []);
});

test("no file names a path or a tool of the machine that it was written on", () => {
  const local = /(?<![\w.-])\/work\/|\brt-(?:deno|bun|node)\b|\bfarm-\w|\/\.library\b/;
  const named = all.filter((file) => statSync(join(root, file)).size < 2 ** 20 && local.test(read(file)));
  assert.deepEqual(named, []);
});
