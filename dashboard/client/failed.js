// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { get, READ_ONLY } from "./api.js";
import { byId, write } from "./dom.js";
import { ago, count, moment } from "./format.js";
import { moveJobs } from "./job.js";
import { JobList } from "./list.js";

/** Failed jobs: searched, and retried or forgotten, one or many. */

/** @type {JobList<{ id: string, name: string, queue: string, attempts: number | null, error: string, failedAt: number }>} */
const list = new JobList("failed", [
  { part: "error", label: "Error", className: "error", text: ({ error }) => error.split("\n")[0] },
  { part: "queue", label: "Queue", text: ({ queue }) => queue },
  {
    part: "attempts",
    label: "Attempts",
    className: "number",
    text: ({ attempts }) => attempts === null ? "–" : count(attempts),
  },
  {
    part: "at",
    label: "Failed",
    className: "number",
    text: ({ failedAt }) => ago(failedAt, Date.now()),
    title: ({ failedAt }) => moment(failedAt),
  },
], READ_ONLY ? null : showChoice);

/** Where each page began: the last one's end is where the next begins. @type {string[]} */
let pages = [""];
/** @type {string | null} */
let next = null;
let matching = 0;
/** @type {AbortController | null} */
let asking = null;

/** @returns {Record<string, string>} */
function filter() {
  const form = /** @type {HTMLFormElement} */ (byId("failed-filter"));
  const data = new FormData(form);
  const text = (/** @type {string} */ name) => String(data.get(name) ?? "").trim();
  const period = Number(text("period"));
  return Object.fromEntries(
    Object.entries({
      text: text("text"),
      name: text("name"),
      queue: text("queue"),
      since: period > 0 ? String(Date.now() - period * 60_000) : "",
    }).filter(([, value]) => value !== ""),
  );
}

/** Asks for the page that is shown. An answer that a later question has overtaken is dropped. */
export async function loadFailed() {
  asking?.abort();
  const mine = asking = new AbortController();
  const asked = filter();
  try {
    const found = await get("failed", { ...asked, from: pages[pages.length - 1] }, mine.signal);
    matching = found.count;
    next = found.next;
    const any = Object.keys(asked).length > 0;
    write(byId("failed-none"), any ? "No failed job matches." : "Nothing has failed.");
    byId("failed-none").hidden = found.rows.length > 0;
    write(
      byId("failed-total"),
      found.rows.length === 0 ? "" : `${count(matching)} ${any ? "match" : "failed"}`,
    );
    list.show(found.rows);
    byId("failed-pages").hidden = next === null && pages.length === 1;
    /** @type {HTMLButtonElement} */ (byId("failed-newer")).disabled = pages.length === 1;
    /** @type {HTMLButtonElement} */ (byId("failed-older")).disabled = next === null;
  } catch (error) {
    if (mine.signal.aborted) return;
    throw error;
  }
}

function showChoice() {
  const many = list.chosen.size;
  byId("failed-acts").hidden = list.rows.length === 0;
  for (const verb of /** @type {const} */ (["retry", "forget"])) {
    const act = byId(`failed-${verb}`);
    const Verb = verb === "retry" ? "Retry" : "Forget";
    write(act, many > 0 ? `${Verb} ${count(many)} selected` : `${Verb} all ${count(matching)}`);
    act.onclick = () => {
      const ids = [...list.chosen];
      // What fails again meanwhile is not moved again.
      const which = many > 0 ? { ids } : { filter: { ...filter(), before: Date.now() + 1000 } };
      return moveJobs(verb, which, many > 0 ? many : matching);
    };
  }
}

/** @param {(error: unknown) => void} trouble */
export function startFailed(trouble) {
  const load = () => loadFailed().catch(trouble);
  const form = /** @type {HTMLFormElement} */ (byId("failed-filter"));
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  const again = () => {
    clearTimeout(typing);
    pages = [""];
    load();
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    again();
  };
  form.oninput = () => {
    clearTimeout(typing);
    typing = setTimeout(again, 250);
  };
  byId("failed-older").onclick = () => {
    if (next === null) return;
    pages.push(next);
    load();
  };
  byId("failed-newer").onclick = () => {
    if (pages.length > 1) pages.pop();
    load();
  };
}
