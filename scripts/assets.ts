// Makes what the dashboard sends a module of text, since neither JSR nor a compiled binary has files to read:
//
//   deno task assets            writes dashboard/assets.ts and dashboard/uplot.ts
//
// The client's modules become one script, in which each is a function, in the order of their imports.
// tests/dashboard_assets.test.ts makes them anew and compares.

import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import process from "node:process";
import { root } from "./runtimes.ts";

const client = join(root, "dashboard", "client");

const HEAD =
  `// Made by scripts/assets.ts: change that, or what it is made from, and run \`deno task assets\`.
// deno-fmt-ignore-file
// deno-lint-ignore-file
`;

/** The modules that `file` needs, each once, in the order in which they can run. */
function ordered(file: string, seen: string[] = []): string[] {
  const text = readFileSync(join(client, file), "utf8");
  for (const [, name] of text.matchAll(/^import [^;]* from "\.\/([\w.]+)";$/gm)) {
    if (!seen.includes(name)) ordered(name, seen);
  }
  if (!seen.includes(file)) seen.push(file);
  return seen;
}

/** A module as a part of one script: a function with names of its own, without comments and indentation. */
function bare(file: string): string {
  const text = readFileSync(join(client, file), "utf8").replace(/\/\*[^]*?\*\/ ?/g, "");
  const names = [...text.matchAll(/^export (?:async )?(?:const|function|class) (\w+)/gm)].map(([, name]) =>
    name
  );
  if (names.length !== (text.match(/^export /gm) ?? []).length) {
    throw new Error(`${file}: expected to export functions, classes and constants`);
  }
  const lines = text
    .replace(
      /^import (\{[^}]*\}) from "\.\/([\w.]+)";$/gm,
      (_, list, from) => `const ${list} = ${nameOf(from)};`,
    )
    .replace(/^export /gm, "")
    .split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("//"));
  const torn = lines.find((line) => (line.match(/`/g) ?? []).length % 2 !== 0);
  if (torn !== undefined) throw new Error(`${file}: a text of several lines: ${torn}`);
  const body = [...lines, ...(names.length > 0 ? [`return { ${names.join(", ")} };`] : [])].join("\n");
  return `const ${nameOf(file)} = (() => {\n${body}\n})();`;
}

function nameOf(file: string): string {
  return `$${file.replace(".js", "")}`;
}

function style(): string {
  return readFileSync(join(client, "style.css"), "utf8")
    .replace(/\/\*[^]*?\*\//g, "")
    .replace(/\s+/g, " ")
    .replace(/ ?([{};,]) ?/g, "$1")
    .replaceAll(";}", "}")
    .trim();
}

/** uPlot, as its package has it: script, style, and the licence that must come along. */
function uplot(): { script: string; style: string; licence: string } {
  const folder = dirname(createRequire(import.meta.url).resolve("uplot/package.json"));
  const read = (file: string): string => readFileSync(join(folder, file), "utf8").trim();
  return {
    script: read("dist/uPlot.iife.min.js"),
    style: read("dist/uPlot.min.css"),
    licence: read("LICENSE"),
  };
}

/** Each generated file's text, by its path from the root. */
export function assets(): Record<string, string> {
  const chart = uplot();
  const app = ordered("main.js").map(bare).join("\n");
  const look = style();
  const tag = createHash("sha256").update([chart.script, chart.style, app, look].join("\0")).digest("hex");
  const licence = chart.licence.split("\n").map((line) => `// ${line}`.trimEnd()).join("\n");
  return {
    "dashboard/uplot.ts": `${HEAD}
${licence}

/** The script of uPlot, which makes a global of that name. */
export const UPLOT_SCRIPT = ${JSON.stringify(chart.script)};

/** Its style. */
export const UPLOT_STYLE = ${JSON.stringify(chart.style)};
`,
    "dashboard/assets.ts": `${HEAD}
import { UPLOT_SCRIPT, UPLOT_STYLE } from "./uplot.ts";

const APP: readonly string[] = [
${app.split("\n").map((line) => `  ${JSON.stringify(line)},`).join("\n")}
];

const LOOK: readonly string[] = [
${
      look.replaceAll("}", "}\n").split("\n").filter(Boolean).map((line) => `  ${JSON.stringify(line)},`)
        .join("\n")
    }
];

/** The page's script. */
export const SCRIPT: string = UPLOT_SCRIPT + "\\n(() => {\\n" + APP.join("\\n") + "\\n})();\\n";

/** The page's style. */
export const STYLE: string = UPLOT_STYLE + "\\n" + LOOK.join("");

/** Tells these from every other version of them. */
export const VERSION_TAG = ${JSON.stringify(tag.slice(0, 12))};
`,
  };
}

if (import.meta.main) {
  for (const [file, text] of Object.entries(assets())) writeFileSync(join(root, file), text);
  process.stdout.write("dashboard/assets.ts and dashboard/uplot.ts are made anew\n");
}
