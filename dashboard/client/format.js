// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

/**
 * Numbers and times, as a person reads them.
 */

const WHOLE = new Intl.NumberFormat("en");
const RATE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** @param {number} value */
export const count = (value) => WHOLE.format(value);

/** @param {number} value Per second. */
export const rate = (value) => value >= 10 ? WHOLE.format(Math.round(value)) : RATE.format(value);

/** @param {number} many @param {string} one @param {string} [several] */
export const plural = (many, one, several = one + "s") => `${count(many)} ${many === 1 ? one : several}`;

/** @type {readonly (readonly [number, string])[]} */
const UNITS = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "m"], [1000, "s"]];

/** @param {number | null} milliseconds As its two largest units. */
export function duration(milliseconds) {
  if (milliseconds === null) return "–";
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 10_000) return `${RATE.format(milliseconds / 1000)} s`;
  const at = UNITS.findIndex(([size]) => milliseconds >= size);
  const [size, unit] = UNITS[at];
  const whole = Math.floor(milliseconds / size);
  if (at === UNITS.length - 1) return `${whole} ${unit}`;
  const [small, name] = UNITS[at + 1];
  const rest = Math.floor((milliseconds - whole * size) / small);
  return rest === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${name}`;
}

const MOMENT = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });

/** @param {number} at In epoch milliseconds. @returns {string} As 2026-12-01 12:04:05, by this machine's clock. */
export const moment = (at) => Number.isFinite(at) && Math.abs(at) < 8.64e15 ? MOMENT.format(at) : "–";

/** @param {number} at @param {number} now */
export const ago = (at, now) => now - at < 1000 ? "just now" : `${duration(now - at)} ago`;

/** @param {string} payload @returns {string} JSON on several lines; another text as it is. */
export function pretty(payload) {
  try {
    return JSON.stringify(JSON.parse(payload), null, 2);
  } catch {
    return payload;
  }
}
