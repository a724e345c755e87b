// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { byId, write } from "./dom.js";

/**
 * @typedef {object} Question
 * @property {string} title What is about to happen.
 * @property {string} text What it means.
 * @property {string} verb On the button.
 * @property {boolean} [grave] Whether it cannot be undone.
 * @property {(step: (done: string) => boolean) => Promise<string>} act
 *   Does it, and resolves with what was done. `step` says how far it is, and answers whether to go on.
 */

/**
 * Asks before a change, makes it, and says what became of it.
 *
 * @param {Question} question
 * @returns {Promise<boolean>} Whether it was made.
 */
export function confirmed({ title, text, verb, grave = false, act }) {
  /** @type {HTMLDialogElement} */
  const dialog = byId("confirm");
  /** @type {HTMLButtonElement} */
  const yes = byId("confirm-yes");
  const status = byId("confirm-status");
  write(byId("confirm-title"), title);
  write(byId("confirm-text"), text);
  write(yes, verb);
  write(status, "");
  yes.classList.toggle("grave", grave);
  yes.disabled = false;
  return new Promise((resolve) => {
    let done = false, open = true;
    yes.onclick = async () => {
      yes.disabled = true;
      write(status, "…");
      try {
        const said = await act((text) => {
          write(status, text);
          return open;
        });
        done = true;
        dialog.close();
        announce(said);
      } catch (error) {
        write(status, error instanceof Error ? error.message : String(error));
        yes.disabled = false;
      }
    };
    dialog.onclose = () => {
      open = false;
      resolve(done);
    };
    dialog.showModal();
  });
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** @param {string} text Shown, and read out, for a while. */
export function announce(text) {
  const note = byId("note");
  write(note, text);
  note.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => {
    note.hidden = true;
    write(note, "");
  }, 6000);
}
