// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { announce } from "./confirm.js";
import { addPoints, startCharts } from "./charts.js";
import { loadDelayed, offerQueues, startDelayed } from "./delayed.js";
import { byId, write } from "./dom.js";
import { loadFailed, startFailed } from "./failed.js";
import { onJobsChanged, showJob } from "./job.js";
import { showOverview } from "./overview.js";
import { startTheme } from "./theme.js";

/** The page: its three views, and the events that keep them up to date. */

const VIEWS = ["overview", "failed", "delayed"];

let view = "";
/** @type {EventSource | null} */
let source = null;
/** What the lists were loaded for: they are loaded anew when these numbers change. */
let seen = "";
/** When they were. */
let loadedAt = 0;

/** @param {unknown} error */
function trouble(error) {
  announce(error instanceof Error ? error.message : String(error));
}

/** @param {boolean} fine @param {string} text */
function connection(fine, text) {
  const live = byId("live");
  live.classList.toggle("bad", !fine);
  write(live, text);
}

function load() {
  loadedAt = Date.now();
  if (view === "failed") loadFailed().catch(trouble);
  if (view === "delayed") loadDelayed().catch(trouble);
}

function showView() {
  const asked = location.hash.slice(1);
  const chosen = VIEWS.includes(asked) ? asked : "overview";
  if (chosen === view) return;
  const first = view === "";
  view = chosen;
  for (const name of VIEWS) {
    byId(name).hidden = name !== view;
    const link = document.querySelector(`nav a[href="#${name}"]`);
    if (name === view) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
  }
  if (!first) byId(view).focus();
  load();
}

function listen() {
  source = new EventSource("?get=events");
  source.addEventListener("state", (event) => {
    /** @type {import("../collector.ts").State} */
    const state = JSON.parse(event.data);
    connection(true, "Live");
    byId("trouble").hidden = true;
    showOverview(state);
    addPoints(state.points);
    offerQueues(state.queues);
    const now = `${state.total.failed} ${state.total.delayed}`;
    // A search through very many takes its time: not with each state while jobs keep failing.
    if (now !== seen && Date.now() - loadedAt > 2000) {
      seen = now;
      load();
    }
  });
  source.addEventListener("trouble", (event) => {
    const { trouble } = JSON.parse(event.data);
    connection(false, "No data");
    write(byId("trouble"), `The store does not answer: ${trouble}`);
    byId("trouble").hidden = false;
  });
  source.onerror = () => {
    connection(false, "Reconnecting");
    // Refused, as where the session has ended: the browser does not try again by itself.
    if (source?.readyState === EventSource.CLOSED) setTimeout(reconnect, 2000);
  };
}

function reconnect() {
  source?.close();
  source = null;
  if (!document.hidden) listen();
}

startTheme();
startFailed(trouble);
startDelayed(trouble);
onJobsChanged(load);
startCharts(trouble);
addEventListener("hashchange", showView);
// A page that nobody sees costs the store nothing.
document.addEventListener("visibilitychange", reconnect);
for (const close of document.querySelectorAll("dialog [data-close]")) {
  close.addEventListener("click", () => close.closest("dialog")?.close());
}
/** @type {HTMLFormElement} */ (byId("find")).onsubmit = (event) => {
  event.preventDefault();
  /** @type {HTMLInputElement} */
  const id = byId("find-id");
  if (id.value.trim() !== "") showJob(id.value.trim());
};
showView();
reconnect();
