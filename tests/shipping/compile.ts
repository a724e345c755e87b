/**
 * What is in the binaries: the modules, the packages, and what they are allowed to do. Run by `deno task ok compile`.
 * Deno's are not run, as their base binary comes from Deno's own site; Deno itself stands in for it.
 *
 * @module
 */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import process from "node:process";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { run } from "../../scripts/command.ts";
import { compileArguments, readWanted, targets } from "../../scripts/compile.ts";
import { executableKind, kindOfFile } from "../../scripts/executable.ts";
import { findRuntime, root, type RuntimeName } from "../../scripts/runtimes.ts";
import { newFolder } from "../folder.ts";
import { readStandalone, type Standalone } from "./standalone.ts";

const folder = newFolder();
after(() => folder.remove());

function pathOf(name: RuntimeName): string {
  const runtime = findRuntime(name);
  if (typeof runtime === "string") throw new Error(runtime);
  return runtime.path;
}

async function must(
  name: RuntimeName,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  const options = { env: { ...process.env, NO_COLOR: "1", ...env }, seconds: 300, output: "keep" } as const;
  const { why, output } = await run(pathOf(name), args, options);
  if (why !== undefined) throw new Error(`${name} ${args.join(" ")}: ${why}\n${output}`);
  return output;
}

/** A module, as `deno info --json` tells of it. */
interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly { readonly specifier: string; readonly code?: { specifier?: string } }[];
}

/** The files of this package that run where `cli.ts` does: what is imported for its types alone is not among them. */
async function modulesOfProgram(): Promise<string[]> {
  const { modules }: { modules: Module[] } = JSON.parse(await must("deno", ["info", "--json", "cli.ts"]));
  const known = new Map(modules.map((module) => [fileOf(module.specifier), module]));
  const found = new Set(["cli.ts"]);
  for (const file of found) {
    for (const { code } of known.get(file)?.dependencies ?? []) {
      if (code?.specifier?.startsWith("file:")) found.add(fileOf(code.specifier));
    }
  }
  return [...found].sort();
}

function fileOf(specifier: string): string {
  return specifier.startsWith("file:") ? relative(root, fileURLToPath(specifier)) : specifier;
}

/** The packages that the program needs, and those that they need, as the lock file knows them. */
function packagesOfProgram(): string[] {
  const read = (file: string) => JSON.parse(readFileSync(join(root, file), "utf8"));
  const manifest = read("package.json");
  const lock: Record<string, { dependencies?: string[] }> = read("deno.lock").npm;
  const nameOf = (id: string): string => /^@?[^@]+/.exec(id)![0];
  const found = new Set([...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)]);
  for (const name of found) {
    const [, locked] = Object.entries(lock).find(([id]) => nameOf(id) === name)!;
    for (const dependency of locked.dependencies ?? []) found.add(nameOf(dependency));
  }
  return [...found].sort();
}

let modules: string[];
const packages = packagesOfProgram();

before(async () => modules = await modulesOfProgram());

describe("the binary by Deno", () => {
  let standalone: Standalone;

  before(async () => {
    const file = join(folder.path, "queue");
    await must("deno", compileArguments("deno", file), {
      DENORT_BIN: process.env.DENORT_BIN ?? pathOf("deno"),
    });
    standalone = readStandalone(file);
  });

  it("has every module that runs, and no other file", () => {
    assert.ok(modules.length > 100, `only ${modules.length} modules`);
    assert.deepEqual(
      standalone.files.filter((file) => !file.startsWith(".deno_compile_node_modules/")),
      [
        ...modules,
        "package.json",
      ].sort(),
    );
  });

  it("has the packages that run, and no other", () => {
    assert.deepEqual(standalone.packages.map((id) => id.slice(0, id.lastIndexOf("@"))).sort(), packages);
  });

  it("starts with the command line, and takes nothing from where it was built", () => {
    const { metadata } = standalone;
    assert.equal(metadata.entrypoint_key, "cli.ts");
    assert.deepEqual(metadata.argv, []);
    assert.deepEqual(metadata.env_vars_from_env_file, {});
    assert.deepEqual([metadata.preload_modules, metadata.require_modules], [[], []]);
    assert.deepEqual([metadata.location, metadata.seed, metadata.log_level], [null, null, null]);
    assert.equal(metadata.unsafely_ignore_certificate_errors, null);
    assert.deepEqual(metadata.unstable_config.features, []);
    assert.equal(metadata.otel_config.tracing_enabled, false);
  });

  it("may do all that a handler may, and is denied nothing", () => {
    const { prompt: _, ...permissions } = standalone.metadata.permissions;
    const allowed = Object.keys(permissions).filter((name) => name.startsWith("allow_"));
    assert.deepEqual(allowed.sort(), [
      ...[
        "allow_env",
        "allow_ffi",
        "allow_import",
        "allow_net",
        "allow_read",
        "allow_run",
        "allow_sys",
        "allow_write",
      ],
    ]);
    for (const [name, value] of Object.entries(permissions)) {
      assert.deepEqual(value, name.startsWith("allow_") ? [] : null, `${name}: an empty list is everything`);
    }
  });

  it("keeps no translated code in the folder for temporary files, which others may write", () => {
    assert.equal(standalone.metadata.code_cache_key, null);
  });
});

describe("the binary by Bun", () => {
  it("has the same modules and packages", async () => {
    const metafile = join(folder.path, "meta.json");
    const [build, ...args] = compileArguments("bun", join(folder.path, "queue-bun"));
    await must("bun", [build, `--metafile=${metafile}`, ...args]);
    const inputs = Object.keys(JSON.parse(readFileSync(metafile, "utf8")).inputs);
    const inside = inputs.filter((path) => !path.includes("node_modules/"));
    assert.deepEqual(inside.sort(), modules);
    const named = inputs.filter((path) => path.includes("node_modules/"))
      .map((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)![1]);
    assert.deepEqual([...new Set(named)].sort(), packages);
  });
});

describe("modules that are loaded late", () => {
  /** Which nobody finds by an import, and where that is right. */
  const elsewhere: Record<string, string> = {
    "core/isolate/command.ts → core/isolate/entry.ts": "a compiled program starts itself in its place",
    "core/isolate/command.ts → core/isolate/entry.js": "the same, where it is an npm package",
  };

  it("are in the binaries", () => {
    const late: string[] = [];
    for (const file of modules) {
      const text = readFileSync(join(root, file), "utf8").replace(/^\s*(\*|\/\/).*$/gm, "");
      const names = [...text.matchAll(/(?:\bimport\(|new URL\(|new Worker\()([^)]*)/g)]
        .flatMap(([, named]) => [...named.matchAll(/"(\.{1,2}\/[^"]+)"/g)].map(([, name]) => name));
      for (const name of names) {
        const target = join(dirname(file), name);
        if (`${file} → ${target}` in elsewhere) continue;
        late.push(target);
        assert.ok(modules.includes(target), `${file} loads ${target}, which is not in the binary`);
      }
    }
    for (const driver of ["drivers/sqlite.ts", "drivers/redis.ts", "drivers/sqlite/handlers.ts"]) {
      assert.ok(late.includes(driver), `${driver} is loaded late, and was not found`);
    }
  });

  it("are the only ones that no import names: what reads a file of the package by its place would find none", () => {
    for (const file of modules) {
      const text = readFileSync(join(root, file), "utf8");
      if (!text.includes("import.meta.url")) continue;
      assert.ok(["cli.ts", "core/isolate/command.ts"].includes(file), `${file} asks where it is`);
    }
  });
});

describe("the targets", () => {
  it("are among those of Deno", async () => {
    const asked = await run(pathOf("deno"), ["compile", "--target=none", "cli.ts"], {
      seconds: 60,
      output: "keep",
    });
    const known = /possible values: ([^\n]*)/.exec(asked.output)![1].split(", ");
    assert.deepEqual(targets.filter(({ deno }) => !known.includes(deno)), []);
  });

  it("are told apart by the first bytes", () => {
    const head = (hex: string, header = ""): Uint8Array => {
      const bytes = Buffer.alloc(256);
      bytes.write(hex, "hex");
      bytes[0x3c] = 0x78;
      bytes.write(header, 0x78, "hex");
      return bytes;
    };
    assert.equal(executableKind(head("7f454c4602010100000000000000000002003e00")), "ELF x64");
    assert.equal(executableKind(head("7f454c460201010000000000000000000200b700")), "ELF arm64");
    assert.equal(executableKind(head("cffaedfe070000010300008002000000")), "Mach-O x64");
    assert.equal(executableKind(head("cffaedfe0c0000010000000002000000")), "Mach-O arm64");
    assert.equal(executableKind(head("4d5a", "504500006486")), "PE x64");
    assert.equal(executableKind(head("4d5a", "5045000064aa")), "PE arm64");
    assert.equal(executableKind(head("4d5a", "4e4500006486")), undefined);
    assert.equal(executableKind(Buffer.from("#!/bin/sh\n")), undefined);
    const own = `${
      { linux: "ELF", darwin: "Mach-O", win32: "PE" }[process.platform as "linux"]
    } ${process.arch}`;
    assert.equal(kindOfFile(process.execPath), own);
  });

  it("are chosen by name", () => {
    const wanted = readWanted(["bun", "windows-x64", "linux-x64"]);
    assert.deepEqual([wanted.by, wanted.for.map(({ name }) => name)], [["bun"], [
      "linux-x64",
      "windows-x64",
    ]]);
    assert.deepEqual(readWanted([]), { by: ["deno", "bun"], for: targets });
    assert.throws(
      () => readWanted(["solaris"]),
      /"solaris" is no compiler or target: deno, bun, linux-x64, /,
    );
  });

  const skip = process.env.QUEUE_TEST_TARGETS === undefined &&
    "QUEUE_TEST_TARGETS is not set: Bun downloads a base binary of 40 MB for each target";
  it("are all built by Bun", { skip }, async () => {
    await must("deno", ["run", "-A", "scripts/compile.ts", "bun"]);
    const made = join(root, "dist", "bun");
    const sums = readFileSync(join(made, "SHA256SUMS"), "utf8").split("\n").slice(0, -1);
    assert.equal(sums.length, targets.length);
    for (const sum of sums) assert.ok(existsSync(join(made, sum.split("  ")[1])), sum);
    assert.ok(readdirSync(made).length > targets.length);
  });
});
