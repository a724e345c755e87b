// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { get, READ_ONLY } from "./api.js";
import { byId, write } from "./dom.js";
import { count, duration, moment } from "./format.js";
import { cancelJobs } from "./job.js";
import { JobList } from "./list.js";

/** Delayed jobs, the next one first. */

/** @type {JobList<{ id: string, name: string, queue: string, attempts: number, dueAt: number }>} */
const list = new JobList("delayed", [
  {
    part: "due",
    label: "Due in",
    text: ({ dueAt }) => duration(Math.max(0, dueAt - Date.now())),
    title: ({ dueAt }) => moment(dueAt),
  },
  { part: "queue", label: "Queue", text: ({ queue }) => queue },
  { part: "attempts", label: "Attempts", className: "number", text: ({ attempts }) => count(attempts) },
], READ_ONLY ? null : showChoice);

export async function loadDelayed() {
  /** @type {HTMLSelectElement} */
  const queue = byId("delayed-queue");
  const found = await get("delayed", { queue: queue.value });
  byId("delayed-none").hidden = found.rows.length > 0;
  write(byId("delayed-more"), found.more ? `the next ${count(found.rows.length)}` : "");
  list.show(found.rows);
}

function showChoice() {
  const many = list.chosen.size;
  const act = byId("delayed-cancel");
  byId("delayed-acts").hidden = list.rows.length === 0;
  /** @type {HTMLButtonElement} */ (act).disabled = many === 0;
  write(act, many === 0 ? "Cancel selected" : `Cancel ${count(many)} selected`);
  act.onclick = () => cancelJobs([...list.chosen]);
}

/** @param {readonly { queue: string }[]} queues To choose from. */
export function offerQueues(queues) {
  for (const id of ["delayed-queue", "failed-queue"]) {
    /** @type {HTMLSelectElement} */
    const select = byId(id);
    const names = queues.map(({ queue }) => queue);
    const there = [...select.options].slice(1).map(({ value }) => value);
    if (names.join("\n") === there.join("\n")) continue;
    const { value } = select;
    select.replaceChildren(select.options[0], ...names.map((name) => new Option(name, name)));
    select.value = names.includes(value) ? value : "";
  }
}

/** @param {(error: unknown) => void} trouble */
export function startDelayed(trouble) {
  byId("delayed-queue").onchange = () => loadDelayed().catch(trouble);
}
