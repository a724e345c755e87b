// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { button, byId, fill, make, part, write } from "./dom.js";
import { showJob } from "./job.js";

/**
 * A page of jobs with a box each: failed ones and delayed ones alike.
 *
 * @template {{ id: string, name: string, queue: string }} Job
 */
export class JobList {
  /** @type {Set<string>} */
  chosen = new Set();
  /** @type {readonly Job[]} */
  rows = [];
  #name;
  #cells;
  #onChoice;

  /**
   * @param {string} name Stands before the ids of its elements.
   * @param {readonly { part: string, label: string, className?: string, text: (job: Job) => string, title?: (job: Job) => string }[]} cells
   * @param {(() => void) | null} onChoice Called when others are chosen; `null` where nothing is to be chosen.
   */
  constructor(name, cells, onChoice) {
    this.#name = name;
    this.#cells = cells;
    this.#onChoice = onChoice;
    if (onChoice === null) return;
    /** @type {HTMLInputElement} */
    const all = byId(`${name}-all`);
    all.onchange = () => {
      for (const { id } of this.rows) all.checked ? this.chosen.add(id) : this.chosen.delete(id);
      this.show(this.rows);
    };
  }

  /** @param {readonly Job[]} rows */
  show(rows) {
    this.rows = rows;
    const here = new Set(rows.map(({ id }) => id));
    for (const id of this.chosen) if (!here.has(id)) this.chosen.delete(id);
    fill(
      byId(`${this.#name}-rows`),
      rows,
      ({ id }) => id,
      (job) => this.#make(job),
      (row, job) => this.#update(row, job),
    );
    byId(`${this.#name}-table`).hidden = rows.length === 0;
    if (this.#onChoice === null) return;
    /** @type {HTMLInputElement} */
    const all = byId(`${this.#name}-all`);
    all.checked = rows.length > 0 && this.chosen.size === rows.length;
    all.indeterminate = this.chosen.size > 0 && this.chosen.size < rows.length;
    this.#onChoice();
  }

  /** @param {Job} job */
  #make({ id, name }) {
    const box = make("input", { type: "checkbox", "data-part": "box", "aria-label": `Select ${name} ${id}` });
    box.onchange = () => {
      box.checked ? this.chosen.add(id) : this.chosen.delete(id);
      this.show(this.rows);
    };
    return make(
      "tr",
      { role: "row" },
      this.#onChoice === null ? null : make("td", { role: "cell", className: "box" }, box),
      make(
        "th",
        { role: "rowheader", scope: "row" },
        button(name, () => showJob(id), { className: "link", "aria-label": `${name} ${id}` }),
        make("span", { className: "id" }, id),
      ),
      ...this.#cells.map(({ part, label, className = "" }) =>
        make("td", { role: "cell", className, "data-part": part, "data-label": label })
      ),
    );
  }

  /** @param {HTMLElement} row @param {Job} job */
  #update(row, job) {
    for (const { part: name, text, title } of this.#cells) {
      const cell = part(row, name);
      write(cell, text(job));
      cell.title = title?.(job) ?? "";
    }
    if (this.#onChoice === null) return;
    /** @type {HTMLInputElement} */ (part(row, "box")).checked = this.chosen.has(job.id);
  }
}
