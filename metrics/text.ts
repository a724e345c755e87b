/**
 * The text that Prometheus reads: its own format 0.0.4, or OpenMetrics 1.0.
 *
 * @module
 */
import { BOUNDS, type Histogram } from "./series.ts";

/** The labels of a sample, by name. */
export type Labels = Readonly<Record<string, string>>;

/** One metric, with all of its samples. */
export type Family =
  & {
    /** Without `_total`, which counters get. */
    readonly name: string;
    /** What it tells, in one sentence. */
    readonly help: string;
  }
  & (
    | {
      /** What only grows, or what goes up and down. */
      readonly type: "counter" | "gauge";
      /** Its values. */
      readonly samples: Iterable<readonly [Labels, number]>;
    }
    | {
      /** How often something took how long. */
      readonly type: "histogram";
      /** Its values. */
      readonly samples: Iterable<readonly [Labels, Histogram]>;
    }
  );

/** How metrics are written. */
export type Format = "prometheus" | "openMetrics";

/** The media type of each format. */
export const MEDIA_TYPE: Readonly<Record<Format, string>> = {
  prometheus: "text/plain; version=0.0.4; charset=utf-8",
  openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

/** Writes metrics; one without samples is left out. */
export function write(families: Iterable<Family>, format: Format): string {
  const lines: string[] = [];
  for (const family of families) {
    const samples = family.type === "histogram"
      ? [...family.samples].flatMap(([labels, histogram]) =>
        histogramLines(family.name, labels, histogram, format)
      )
      : [...family.samples].map(([labels, value]) =>
        line(family.type === "counter" ? `${family.name}_total` : family.name, labels, value)
      );
    if (samples.length === 0) continue;
    // In OpenMetrics a counter's name is without what its samples end in.
    const name = family.type === "counter" && format === "prometheus" ? `${family.name}_total` : family.name;
    lines.push(
      `# HELP ${name} ${escape(family.help, /[\\\n]/g)}`,
      `# TYPE ${name} ${family.type}`,
      ...samples,
    );
  }
  if (format === "openMetrics") lines.push("# EOF");
  return lines.join("\n") + "\n";
}

function histogramLines(name: string, labels: Labels, histogram: Histogram, format: Format): string[] {
  let below = 0;
  const lines = histogram.counts.map((count, at) => {
    below += count;
    return line(`${name}_bucket`, { ...labels, le: bound(at, format) }, below);
  });
  return [
    ...lines,
    line(`${name}_sum`, labels, histogram.sum),
    line(`${name}_count`, labels, histogram.count),
  ];
}

function bound(at: number, format: Format): string {
  if (at === BOUNDS.length) return "+Inf";
  const text = String(BOUNDS[at]);
  return format === "openMetrics" && !text.includes(".") ? `${text}.0` : text;
}

function line(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escape(text, /[\\"\n]/g)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${value}`;
}

function escape(text: string, unsafe: RegExp): string {
  return text.replace(unsafe, (character) => character === "\n" ? "\\n" : `\\${character}`);
}
