// Counts the tests in a JUnit report of Deno, Bun or Node. They agree on little but the element names:
// - Deno lists each group, and each test that has subtests, beside its parts, as `group > part`: leaves are counted;
// - Node lists a file that crashed, or in which no test ran, as a test of the file's own name;
// - Deno and Node place a test in the file that called `test()`, Bun in the one that was run;
// - none reports a file that it could not load, or never reached, in a way that the others share.

import { relative, resolve } from "node:path";

/** How a run ended. */
export interface Tally {
  passed: number;
  failed: number;
  skipped: number;
}

/** A tally with the sentences that explain its failures. */
export interface Report extends Tally {
  readonly failures: string[];
  /** The files that its tests are placed in. */
  readonly files: Set<string>;
}

/** A report of nothing yet. */
export function emptyReport(): Report {
  return { passed: 0, failed: 0, skipped: 0, failures: [], files: new Set() };
}

interface Case {
  readonly name: string;
  /** The name with that of its group, in the order that the runtime has them. */
  readonly title: string;
  readonly file: string;
  readonly body: string;
}

/** The closing line, which CI reads too. */
export function closingLine({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

/** The sum of several tallies. */
export function sum(tallies: readonly Tally[]): Tally {
  const total = { passed: 0, failed: 0, skipped: 0 };
  for (const { passed, failed, skipped } of tallies) {
    total.passed += passed;
    total.failed += failed;
    total.skipped += skipped;
  }
  return total;
}

/** Counts one more failure. */
export function fail(report: Report, sentence: string): void {
  report.failed++;
  report.failures.push(sentence);
}

/** Reads a report of a run over `files` (paths from `folder`, where the run was started). */
export function readReport(xml: string, files: readonly string[], folder: string): Report {
  const cases = parse(xml, folder);
  const groups = new Set(cases.flatMap(({ name }) => ancestors(name)));
  const report = emptyReport();

  for (const one of cases) {
    const failed = /<(failure|error)\b/.test(one.body);
    if (files.includes(relative(folder, resolve(folder, one.name)))) {
      fail(report, failed ? `${one.name}: the file itself failed` : silence(one.name));
      continue;
    }
    report.files.add(one.file);
    if (failed) {
      // A group that says no more than that a part of it failed is not a second failure.
      if (groups.has(one.name) && /<failure message="\d+ test steps? failed/.test(one.body)) continue;
      fail(report, one.file ? `${one.file}: ${one.title}` : one.title);
    } else if (groups.has(one.name)) {
      continue;
    } else if (/<skipped\b/.test(one.body)) {
      report.skipped++;
    } else {
      report.passed++;
    }
  }
  return report;
}

/** Says that a file took part in no way that shows. */
export function silence(file: string): string {
  return `${file}: no test of it was reported: it did not load, the process ended early, or it has none`;
}

function parse(xml: string, folder: string): Case[] {
  // Node leaves ">" as it is inside attributes, so a tag ends only outside of quotes.
  const tag = /<testcase((?:\s+[\w-]+="[^"]*")*)\s*(?:\/>|>([^]*?)<\/testcase>)/g;
  const local = (file: string): string => relative(folder, resolve(folder, file));
  return [...xml.matchAll(tag)].map(([, attributes, body = ""]) => {
    const read = (key: string): string =>
      unescape(new RegExp(`\\s${key}="([^"]*)"`).exec(attributes)?.[1] ?? "");
    const name = read("name"), place = read("file"), group = read("classname");
    // Deno has the file in the place of the group, and for a group's parts its own "ext:deno_node/testing.ts".
    if (place === "") {
      return { name, title: name, file: group.startsWith("ext:") ? "" : local(group), body };
    }
    return {
      name,
      title: group === "" || group === "test" ? name : `${group} > ${name}`,
      file: local(place),
      body,
    };
  });
}

function unescape(text: string): string {
  const named: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replace(
    /&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi,
    (all, hex, decimal, name) =>
      name ? named[name] ?? all : String.fromCodePoint(hex ? parseInt(hex, 16) : Number(decimal)),
  );
}

/** `a > b > c` has the ancestors `a` and `a > b`. */
function ancestors(name: string): string[] {
  const parts = name.split(" > ");
  return parts.slice(1).map((_, index) => parts.slice(0, index + 1).join(" > "));
}
