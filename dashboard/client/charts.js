// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { get } from "./api.js";
import { byId, write } from "./dom.js";
import { count, duration, rate } from "./format.js";
import { onTheme } from "./theme.js";

/** @typedef {import("../history.ts").Point} Point */

/** @type {typeof import("uplot")} */
const Plot = Reflect.get(globalThis, "uPlot");

/** @type {Point[]} */
let points = [];
/** Times that are read at a glance, in milliseconds. */
const TIMES = [
  ...[200, 500, 1000, 2000, 5000, 10_000, 20_000],
  ...[0.5, 1, 2, 5, 10, 20, 30, 60, 120, 360, 720, 1440, 2880, 7200, 14_400].map((minutes) =>
    minutes * 60_000
  ),
];

/** How high a chart is, in pixels, without its legend. */
const HEIGHT = 168;

let range = "15m";
let span = 900;
/** @type {import("uplot")[]} */
let charts = [];

/** @param {string} name A colour of the style's, which depends on the scheme, as it is now. */
function colour(name) {
  const probe = byId("probe");
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/**
 * @typedef {object} Line
 * @property {string} label
 * @property {string} colour
 * @property {(value: number) => string} format
 * @property {boolean} [filled]
 */

/** @param {Line} line @returns {import("uplot").Series} */
function series({ label, colour: name, format, filled = false }) {
  const stroke = colour(name);
  return {
    label,
    stroke,
    width: 1.5,
    fill: filled ? stroke.replace(/^rgb\((.*)\)$/, "rgba($1, 0.1)") : undefined,
    points: { show: false },
    value: (_, value) => value === null || value === undefined ? "–" : format(value),
  };
}

const CLOCK = new Intl.DateTimeFormat("sv-SE", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en", { day: "numeric", month: "short" });

/** @param {number} second @returns {string} The day where midnight, or more than two days, are shown. */
function tick(second) {
  const time = new Date(second * 1000);
  const midnight = time.getHours() === 0 && time.getMinutes() === 0;
  return midnight || span > 172_800 ? DAY.format(time) : CLOCK.format(time);
}

/**
 * @param {string} place
 * @param {number} least How high the scale is at least.
 * @param {number[] | undefined} steps Between the lines of the grid; uPlot's own where it is left out.
 * @param {readonly Line[]} lines The first one's format is that of the scale.
 */
function draw(place, least, steps, lines) {
  const host = byId(place);
  host.replaceChildren();
  const axis = { stroke: colour("muted"), font: "11px system-ui, sans-serif", ticks: { show: false } };
  /** @type {import("uplot").Options} */
  const options = {
    width: host.clientWidth,
    height: HEIGHT,
    padding: [8, 20, 0, 0],
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => [Date.now() / 1000 - span, Date.now() / 1000] },
      y: { range: (_, __, most) => [0, Math.max(least, (most ?? 0) * 1.15)] },
    },
    axes: [
      { ...axis, grid: { show: false }, space: 64, size: 28, values: (_, ticks) => ticks.map(tick) },
      {
        ...axis,
        size: 60,
        incrs: steps,
        space: 36,
        grid: { stroke: colour("line"), width: 1 },
        values: (_, ticks) => ticks.map((value) => value === 0 ? "0" : lines[0].format(value)),
      },
    ],
    series: [{}, ...lines.map(series)],
  };
  return new Plot(options, undefined, host);
}

function build() {
  for (const chart of charts) chart.destroy();
  charts = [
    draw("throughput", 1, undefined, [
      { label: "Done / s", colour: "accent", format: rate, filled: true },
      { label: "Failed / s", colour: "bad", format: rate },
    ]),
    draw("backlog", 1000, TIMES, [{ label: "Oldest waits", colour: "warn", format: duration, filled: true }]),
  ];
  show();
}

function show() {
  if (charts.length === 0) return;
  const at = points.map(([at]) => at);
  charts[0].setData([at, points.map(([, done]) => done), points.map(([, , failed]) => failed)]);
  charts[1].setData([at, points.map((point) => point[5])]);
  for (const chart of charts) {
    // The latest that is known, unless somebody points at another one.
    if ((chart.cursor.left ?? -1) < 0) {
      chart.setLegend({ idx: Math.max(0, chart.data[1].findLastIndex((value) => value !== null)) });
    }
  }
  const last = points.at(-1);
  const ready = last?.[3] ?? 0;
  const unknown = ready > 0 && points.every((point) => point[5] === null);
  byId("backlog-note").hidden = !unknown;
  write(byId("backlog-note"), unknown ? `${count(ready)} ready; this store does not know since when` : "");
}

/** @param {readonly Point[]} fresh The last points: they take the place of those that are there. */
export function addPoints(fresh) {
  if (range !== "15m" || fresh.length === 0) return;
  const first = fresh[0][0];
  points = [...points.filter(([at]) => at < first && at > Date.now() / 1000 - span), ...fresh];
  show();
}

/** @param {string} name */
async function load(name) {
  range = name;
  const found = await get("history", { range: name });
  if (range !== name) return;
  span = found.span;
  points = found.points;
  show();
}

/** @param {(error: unknown) => void} trouble */
export function startCharts(trouble) {
  for (const input of document.querySelectorAll("input[name=range]")) {
    input.addEventListener(
      "change",
      () => load(/** @type {HTMLInputElement} */ (input).value).catch(trouble),
    );
  }
  onTheme(build);
  build();
  load(range).catch(trouble);
  // By the minute, since a point of a longer range is one at least.
  setInterval(() => {
    if (range !== "15m" && !document.hidden) load(range).catch(trouble);
  }, 60_000);
  new ResizeObserver(() => {
    for (const chart of charts) {
      const width = chart.root.parentElement?.clientWidth ?? 0;
      if (width > 0 && width !== chart.width) chart.setSize({ width, height: HEIGHT });
    }
  }).observe(byId("charts"));
}
