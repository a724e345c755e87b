const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** What {@linkcode parseDuration} takes, for the errors of options. */
export const DURATION_SYNTAX = "seconds (90), or a number with ms, s, m, h or d (500ms, 1.5h)";

/** Milliseconds of `90` (seconds), `500ms`, `90s`, `5m`, `1.5h` or `1d`; `undefined` for anything else. */
export function parseDuration(text: string): number | undefined {
  const parts = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text.trim());
  return parts === null ? undefined : Math.round(Number(parts[1]) * UNITS[parts[2] ?? "s"]!);
}

/** A duration as people read it, in its two largest units: `12 ms`, `1.5 s`, `3 m 20 s`, `2 d 4 h`. */
export function formatDuration(milliseconds: number): string {
  const ms = Math.max(0, Math.round(milliseconds));
  if (ms < 1000) return `${ms} ms`;
  if (ms < 59_950) return `${Number((ms / 1000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return pair(seconds, 60, "m", "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return pair(minutes, 60, "h", "m");
  return pair(Math.round(minutes / 60), 24, "d", "h");
}

function pair(total: number, size: number, large: string, small: string): string {
  const rest = total % size;
  return `${Math.floor(total / size)} ${large}` + (rest === 0 ? "" : ` ${rest} ${small}`);
}
