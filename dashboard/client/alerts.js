// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

/**
 * What is wrong, in sentences: the first thing that somebody who was woken reads.
 *
 * @typedef {import("../collector.ts").State} State
 * @typedef {{ text: string, bad: boolean }} Alert
 */
import { count, duration, plural } from "./format.js";

/** A job that has been ready for so long waits too long, in milliseconds. */
const LONG = 5 * 60_000;

/** @param {State} state @returns {Alert[]} The worst first. */
export function alertsOf(state) {
  /** @type {Alert[]} */
  const alerts = [];
  const waiting = state.queues.filter(({ ready }) => ready > 0);
  if (state.paused) alerts.push({ text: "Every queue is paused.", bad: true });
  if (state.workers.length === 0 && state.total.ready > 0) {
    alerts.push({ text: `No worker is running, and ${plural(state.total.ready, "job")} wait.`, bad: true });
  } else if (state.more.workers === 0) {
    for (const { queue, ready, paused } of waiting) {
      const served = state.workers.some(({ queues }) => queues === null || queues.includes(queue));
      if (!served && !paused) {
        alerts.push({ text: `No worker serves ${queue}, where ${plural(ready, "job")} wait.`, bad: true });
      }
    }
  }
  for (const { queue, ready, paused, wait } of waiting) {
    if (paused) alerts.push({ text: `${queue} is paused, and ${plural(ready, "job")} wait.`, bad: false });
    else if (wait !== null && wait > LONG && !state.paused) {
      const text = `The oldest of ${count(ready)} ready in ${queue} has been waiting for ${duration(wait)}.`;
      alerts.push({ text, bad: false });
    }
  }
  return alerts.slice(0, 5);
}
