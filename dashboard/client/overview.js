// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { alertsOf } from "./alerts.js";
import { change, READ_ONLY } from "./api.js";
import { confirmed } from "./confirm.js";
import { button, byId, fill, make, part, write } from "./dom.js";
import { ago, count, duration, plural, rate } from "./format.js";
import { cancelJobs, showJob } from "./job.js";

/**
 * @typedef {import("../collector.ts").State} State
 * @typedef {import("../collector.ts").QueueState} QueueState
 * @typedef {import("../collector.ts").WorkerState} WorkerState
 * @typedef {WorkerState["running"][number]} Running
 */

/** @param {State} state */
export function showOverview(state) {
  const { total } = state;
  write(byId("total-ready"), count(total.ready));
  write(byId("total-delayed"), count(total.delayed));
  write(byId("total-reserved"), count(total.reserved));
  write(byId("total-failed"), count(total.failed));
  write(byId("total-rate"), rate(total.rate));
  write(byId("total-wait"), duration(total.wait));
  byId("total-failed").classList.toggle("bad", total.failed > 0);
  write(byId("failed-count"), total.failed > 0 ? count(total.failed) : "");
  write(byId("delayed-count"), total.delayed > 0 ? count(total.delayed) : "");
  fill(byId("alerts"), alertsOf(state), ({ text }) => text, makeAlert, () => {});
  showQueues(state);
  showWorkers(state);
}

/** @param {import("./alerts.js").Alert} alert */
const makeAlert = ({ text, bad }) => make("li", { className: bad ? "bad" : "warn" }, text);

/** @param {State} state */
function showQueues(state) {
  byId("no-queues").hidden = state.queues.length > 0;
  byId("queues").hidden = state.queues.length === 0;
  fill(byId("queue-rows"), state.queues, ({ queue }) => queue, makeQueue, updateQueue);
  write(byId("more-queues"), state.more.queues > 0 ? `and ${plural(state.more.queues, "more queue")}` : "");
  if (READ_ONLY) return;
  const all = byId("pause-all");
  write(all, state.paused ? "Resume every queue" : "Pause every queue");
  all.onclick = () => pauseOrResume(null, state.paused);
}

const COUNTS = /** @type {const} */ (["ready", "delayed", "reserved", "failed"]);
const LABELS = { ready: "Ready", delayed: "Delayed", reserved: "Running", failed: "Failed" };

/** @param {QueueState} queue */
function makeQueue({ queue }) {
  const cell = (/** @type {string} */ name, /** @type {string} */ label) =>
    make("td", { role: "cell", className: "number", "data-part": name, "data-label": label });
  const row = make(
    "tr",
    { role: "row" },
    make(
      "th",
      { role: "rowheader", scope: "row" },
      make("span", { className: "name" }, queue),
      make("span", { className: "badge warn", "data-part": "paused" }, "paused"),
    ),
    ...COUNTS.map((state) => cell(state, LABELS[state])),
    cell("wait", "Waits"),
  );
  if (!READ_ONLY) {
    row.append(make("td", { role: "cell", className: "act" }, button("", () => {}, { className: "quiet" })));
  }
  return row;
}

/** @param {HTMLElement} row @param {QueueState} state */
function updateQueue(row, state) {
  for (const name of COUNTS) {
    const cell = part(row, name);
    write(cell, count(state[name]));
    cell.classList.toggle("none", state[name] === 0);
  }
  part(row, "failed").classList.toggle("bad", state.failed > 0);
  write(part(row, "wait"), duration(state.wait));
  part(row, "paused").hidden = !state.paused;
  const act = row.querySelector("button");
  if (act === null) return;
  write(act, state.paused ? "Resume" : "Pause");
  act.setAttribute("aria-label", `${state.paused ? "Resume" : "Pause"} ${state.queue}`);
  act.onclick = () => pauseOrResume(state.queue, state.paused);
}

/** @param {string | null} queue @param {boolean} paused */
function pauseOrResume(queue, paused) {
  const which = queue ?? "every queue";
  return confirmed({
    title: `${paused ? "Resume" : "Pause"} ${which}?`,
    text: paused
      ? queue === null
        ? "Every pause is lifted, also those of single queues."
        : "Workers start its jobs again."
      : "No worker starts another job of it until it is resumed. What runs finishes.",
    verb: paused ? "Resume" : "Pause",
    act: async () => {
      await change(paused ? "resume" : "pause", { queue });
      return `${paused ? "Resumed" : "Paused"} ${which}`;
    },
  });
}

/** @param {State} state */
function showWorkers(state) {
  byId("no-workers").hidden = state.workers.length > 0;
  fill(
    byId("workers"),
    state.workers,
    ({ id }) => id,
    makeWorker,
    (element, worker) => updateWorker(element, worker, state.at),
  );
  write(
    byId("more-workers"),
    state.more.workers > 0 ? `and ${plural(state.more.workers, "more worker")}` : "",
  );
}

/** @param {WorkerState} worker */
function makeWorker({ host, pid }) {
  return make(
    "li",
    { className: "worker" },
    make(
      "div",
      { className: "about" },
      make("h3", {}, `${host}:${pid}`),
      make("p", { className: "muted", "data-part": "facts" }),
      make("p", { className: "load", "data-part": "load" }),
    ),
    make("ul", { className: "running", "data-part": "running" }),
  );
}

/** @param {HTMLElement} element @param {WorkerState} worker @param {number} now */
function updateWorker(element, worker, now) {
  const silent = now - worker.seenAt > 15_000;
  write(
    part(element, "facts"),
    [
      worker.queues === null ? "every queue" : worker.queues.join(", "),
      `up ${duration(Math.max(0, now - worker.startedAt))}`,
      `${count(worker.processed)} done`,
      `${rate(worker.rate)} / s`,
      ...(silent ? [`last heard of ${ago(worker.seenAt, now)}`] : []),
    ].join(" · "),
  );
  part(element, "facts").classList.toggle("warn", silent);
  write(part(element, "load"), `${worker.busy} of ${worker.concurrency} busy`);
  fill(
    part(element, "running"),
    worker.running,
    ({ id, attempt }) => `${id} ${attempt}`,
    makeRunning,
    (row, job) => updateRunning(row, job, now),
  );
}

/** @param {Running} job */
function makeRunning(job) {
  return make(
    "li",
    {},
    make(
      "div",
      { className: "job" },
      button(`${job.name} ${job.id}`, () => showJob(job.id), { className: "link" }),
      make("span", { className: "muted", "data-part": "since" }),
      READ_ONLY ? null : button("Cancel", () => cancelJobs([job.id]), {
        className: "quiet",
        "aria-label": `Cancel ${job.name} ${job.id}`,
      }),
    ),
    make("progress", { max: 1, "data-part": "bar", "aria-label": `Progress of ${job.name} ${job.id}` }),
    make("p", { className: "muted", "data-part": "note" }),
  );
}

/** @param {HTMLElement} row @param {Running} job @param {number} now */
function updateRunning(row, job, now) {
  const { progress } = job;
  const attempt = job.attempt > 1 ? ` · attempt ${job.attempt}` : "";
  write(part(row, "since"), `${job.queue} · ${duration(Math.max(0, now - job.since))}${attempt}`);
  const bar = /** @type {HTMLProgressElement} */ (part(row, "bar"));
  bar.hidden = progress === null;
  bar.value = progress?.fraction ?? 0;
  const note = part(row, "note");
  note.hidden = progress === null;
  write(note, progress === null ? "" : `${Math.floor(progress.fraction * 100)} % ${progress.note ?? ""}`);
}
