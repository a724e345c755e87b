import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SCRIPT } from "../dashboard/assets.ts";
import { History, RANGES } from "../dashboard/history.ts";
import { assets } from "../scripts/assets.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

test("what the dashboard sends is made from the sources that are here, and from the uPlot that is installed", () => {
  for (const [file, text] of Object.entries(assets())) {
    const stored = readFileSync(join(root, file), "utf8");
    assert.ok(stored === text, `${file} is out of step: deno task assets`);
  }
});

test("the page's script can be read, and names no other host", () => {
  new Function(SCRIPT);
  const named = [...SCRIPT.matchAll(/https?:\/\/[^\s"')]+/g)].map(([url]) => url);
  assert.deepEqual(named, ["https://github.com/leeoniya/uPlot"], "in the licence's line");
  assert.doesNotMatch(SCRIPT, /innerHTML\s*=\s*[^"]|insertAdjacentHTML|document\.write|\beval\(/);
});

const T = 1_800_000_000_000;
const idle = { ready: 0, delayed: 0, running: 0, wait: null };

test("what was done between two looks is spread over that time", () => {
  const history = new History();
  history.note(idle, T);
  history.count("done", 100, T, T + 10_000);
  history.note(idle, T + 10_000);
  const points = history.points(RANGES["15m"], T + 10_000, T + 10_000);
  assert.deepEqual(points.slice(0, 5).map(([, done]) => done), [10, 10, 10, 10, 10]);
});

test("what is not known yet is not shown as nothing", () => {
  const history = new History();
  for (let second = 0; second <= 10; second++) history.note(idle, T + second * 1000);
  history.count("done", 6, T, T + 6000);
  const done = history.points(RANGES["15m"], T + 10_000, T + 6000).map(([, done]) => done);
  assert.deepEqual(done, [1, 1, 1, null, null, null]);
});

test("a range begins with what was seen first, and has as many points as its chart can show", () => {
  const history = new History();
  assert.deepEqual(history.points(RANGES["24h"], T, T), []);
  for (let minute = 0; minute <= 8 * 1440; minute++) {
    history.note({ ...idle, wait: minute === 4320 + 1440 ? 7000 : null }, T + minute * 60_000);
  }
  const now = T + 8 * 86_400_000;
  for (const [name, { span, step }] of Object.entries(RANGES)) {
    const points = history.points(RANGES[name], now, now);
    assert.ok(points.length <= span / step && points.length < 700, `${name}: ${points.length} points`);
  }
  const week = history.points(RANGES["7d"], now, now);
  assert.equal(
    Math.max(...week.map((point) => point[5] ?? 0)),
    7000,
    "a short jam is not lost in a long range",
  );
});
