/** What a run found, as text. */
import { type Breach, type Findings, RULES, shortest } from "./checker.ts";
import type { Fact } from "./history.ts";
import type { Result, Torture } from "./torture.ts";

/** The head of the table of runs. */
export const TABLE_HEAD = [
  "| date | driver | on | seed | minutes | jobs | runs | second runs | faults | lost | broken rules | slowest recovery |",
  "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
].join("\n");

/** The row of a run. */
export function tableRow({ driver, runtimes, seed, lasts, lease }: Torture, { findings }: Result): string {
  const { jobs, runs, faults, secondRuns, recoveries, breaches } = findings;
  const second = Object.values(secondRuns).reduce((sum, count) => sum + count, 0);
  const cells = [
    new Date().toISOString().slice(0, 10),
    driver,
    runtimes.map(({ name }) => name).join(", "),
    seed,
    +(lasts / 60_000).toFixed(1),
    jobs.accepted,
    runs,
    second,
    `${sum(faults)}: ${list(faults)}`,
    jobs.lost,
    breaches.length,
    recoveries.slowest === null ? "-" : `${seconds(recoveries.slowest)} of ${seconds(lease + 2000)}`,
  ];
  return `| ${cells.join(" | ")} |`;
}

/** The figures of a run, in lines. */
export function summary({ driver, seed, lease }: Torture, { findings, left }: Result): string {
  const { jobs, runs, faults, secondRuns, doubted, recoveries, breaches } = findings;
  const { slowest, count } = recoveries;
  return [
    `torture of ${driver}, seed ${seed}`,
    `  jobs: ${jobs.accepted} accepted, ${jobs.refused} refused, ${jobs.unknown} not known to be stored`,
    `  ends: ${jobs.completed} completed, ${jobs.failed} in failed_jobs, ${jobs.untold} as their worker died, ${jobs.lost} lost`,
    `  faults: ${sum(faults)}: ${list(faults)}`,
    `  runs: ${runs}, of which ${sum(secondRuns)} once more`,
    ...Object.entries(secondRuns).sort(([, a], [, b]) => b - a).map(([why, times]) => `    ${times}: ${why}`),
    ...(doubted > 0 ? [`  settled twice, by a lost reply: ${doubted}`] : []),
    slowest === null
      ? "  recoveries with nothing else amiss: none"
      : `  recoveries with nothing else amiss: ${count}, the slowest ${seconds(slowest)} of ${
        seconds(lease + 2000)
      }`,
    ...left.map((why) => `  left out: ${why}`),
    `  broken rules: ${breaches.length}`,
  ].join("\n");
}

/** The shortest history that breaks a rule, and how many more there are; empty where there is none. */
export function complaint(findings: Findings): string {
  const worst = shortest(findings.breaches);
  if (worst === undefined) return "";
  const others = new Map<string, number>();
  for (const { rule } of findings.breaches) others.set(rule, (others.get(rule) ?? 0) + 1);
  return [
    `broken: ${[...others].map(([rule, times]) => `${rule} ${times}`).join(", ")}`,
    `the shortest history that breaks a rule (${RULES[worst.rule]}):`,
    `  ${worst.says}`,
    ...story(worst).map((line) => `    ${line}`),
  ].join("\n");
}

function story({ story }: Breach): string[] {
  const start = story[0]?.at ?? 0;
  return story.map((fact) => {
    const { at, by, fact: word, ...rest } = fact as Fact & Record<string, unknown>;
    const details = Object.entries(rest).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
    return `${String(at - start).padStart(7)} ms  ${by}: ${word} ${details.join(" ")}`;
  });
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

function list(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts).sort().map(([name, count]) => `${name} ${count}`).join(", ");
}

function seconds(milliseconds: number): string {
  return `${(milliseconds / 1000).toFixed(1)} s`;
}
