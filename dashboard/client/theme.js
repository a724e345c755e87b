// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { byId } from "./dom.js";

/** The colours: the system's, until somebody chooses others; that choice is kept by this browser. */
const KEY = "queue-dashboard-theme";

const dark = matchMedia("(prefers-color-scheme: dark)");

/** @type {(() => void)[]} */
const listeners = [];

/** @param {() => void} listener Called when the colours have changed. */
export function onTheme(listener) {
  listeners.push(listener);
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === undefined ? dark.matches : chosen === "dark";
}

function show() {
  byId("theme").setAttribute("aria-pressed", String(isDark()));
  for (const listener of listeners) listener();
}

export function startTheme() {
  const kept = stored();
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  byId("theme").onclick = () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    keep(next);
    show();
  };
  dark.addEventListener("change", show);
  show();
}

/** A browser may keep nothing: then the choice ends with the page. */
function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

/** @param {string} theme */
function keep(theme) {
  try {
    localStorage.setItem(KEY, theme);
  } catch { /* as above */ }
}
