// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

import { change, get, READ_ONLY } from "./api.js";
import { confirmed } from "./confirm.js";
import { button, byId, make, write } from "./dom.js";
import { ago, count, duration, moment, plural, pretty } from "./format.js";

/** One job, whatever its state: all that the store knows of it. */

/** Called after a change to jobs, to show what is left. */
let changed = () => {};

/** @param {() => void} listener */
export function onJobsChanged(listener) {
  changed = listener;
}

/** @param {string} id */
export async function showJob(id) {
  /** @type {HTMLDialogElement} */
  const dialog = byId("job");
  const body = byId("job-body"), title = byId("job-title"), acts = byId("job-acts");
  write(title, `Job ${id}`);
  body.replaceChildren(make("p", { className: "muted" }, "…"));
  acts.replaceChildren();
  if (!dialog.open) dialog.showModal();
  try {
    const job = await get("job", { id });
    write(title, `${job.name} ${id}`);
    body.replaceChildren(...describe(job));
    if (!READ_ONLY) acts.replaceChildren(...actsFor(job, () => dialog.close()));
  } catch (error) {
    const gone = error instanceof Error && error.name === "404";
    const why = gone ? "There is no such job any more: it is done, or was removed." : String(error);
    body.replaceChildren(make("p", {}, why));
  }
  // A scrolled body must be reachable by keyboard, and the title says where one is.
  title.focus();
}

/** @param {import("../../mod.ts").JobDetail} job @param {() => void} close */
function actsFor(job, close) {
  const then = async (/** @type {Promise<boolean>} */ asked) => {
    if (await asked) close();
  };
  return job.state === "failed"
    ? [
      button("Retry", () => then(moveJobs("retry", { ids: [job.id] }, 1)), { className: "main" }),
      button("Forget", () => then(moveJobs("forget", { ids: [job.id] }, 1))),
    ]
    : [button("Cancel", () => then(cancelJobs([job.id])))];
}

/** @param {import("../../mod.ts").JobDetail} job @returns {HTMLElement[]} */
function describe(job) {
  const now = Date.now();
  /** @type {[string, string][]} */
  const facts = [
    ["State", job.state === "reserved" ? "running" : job.state],
    ["Queue", job.queue],
    ["Priority", String(job.priority)],
    ["Attempts", job.attempts === null ? "not known" : String(job.attempts)],
  ];
  if (job.dueAt !== null && job.state !== "failed") {
    facts.push(["Due", `${moment(job.dueAt)}${job.dueAt > now ? `, in ${duration(job.dueAt - now)}` : ""}`]);
  }
  if (job.holder !== null) {
    facts.push([
      "Runs on",
      `${job.holder.host}:${job.holder.pid}, for ${duration(Math.max(0, now - job.holder.since))}`,
    ]);
  }
  if (job.leasedUntil !== null) facts.push(["Leased until", moment(job.leasedUntil)]);
  if (job.progress !== null) {
    facts.push(["Progress", `${Math.floor(job.progress.fraction * 100)} % ${job.progress.note ?? ""}`]);
  }
  if (job.failedAt !== null) facts.push(["Failed", `${moment(job.failedAt)}, ${ago(job.failedAt, now)}`]);
  /** @type {HTMLElement[]} */
  const parts = [
    make(
      "dl",
      { className: "facts" },
      ...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    ),
  ];
  // That it has failed is said already.
  const reasons = job.reasons.filter(({ code }) => code !== "failed");
  if (reasons.length > 0) {
    parts.push(
      make("h3", {}, "Why it is not running"),
      make("ul", { className: "reasons" }, ...reasons.map((reason) => make("li", {}, sentence(reason)))),
    );
  }
  if (job.error) parts.push(make("h3", {}, "Error"), block(job.error, "Error"));
  if (job.stack) parts.push(folded("Stack", block(job.stack, "Stack")));
  if (job.history.length > 0) {
    parts.push(
      make("h3", {}, "Attempts"),
      make("ol", { className: "attempts" }, ...job.history.map(attemptOf)),
    );
  }
  parts.push(make("h3", {}, "Payload"), block(pretty(job.payload), "Payload"));
  return parts;
}

/** @param {import("../../mod.ts").Reason} reason */
const sentence = ({ text, until }) => until === undefined ? text : `${text} ${moment(until)}`;

/** @param {import("../../mod.ts").AttemptRecord} record */
function attemptOf({ attempt, startedAt, duration: took, worker, error, stack, retriedAt }) {
  return make(
    "li",
    {},
    make(
      "p",
      {},
      make("strong", {}, `Attempt ${attempt}`),
      " ",
      make("span", { className: "muted" }, `${moment(startedAt)} · ${duration(took)} · ${worker}`),
    ),
    make("p", { className: "error" }, error),
    stack === null ? null : folded("Stack", block(stack, `Stack of attempt ${attempt}`)),
    retriedAt === undefined
      ? null
      : make("p", { className: "muted" }, `Retried by hand at ${moment(retriedAt)}`),
  );
}

/** @param {string} text @param {string} label */
const block = (text, label) => make("pre", { tabIndex: 0, role: "region", "aria-label": label }, text);

/** @param {string} title @param {HTMLElement} content */
const folded = (title, content) => make("details", {}, make("summary", {}, title), content);

/** @param {readonly string[]} ids @returns {Promise<boolean>} */
export function cancelJobs(ids) {
  return confirmed({
    title: `Cancel ${ids.length === 1 ? `job ${ids[0]}` : plural(ids.length, "job")}?`,
    text: "One that waits is removed. One that runs is aborted, and is failed unless it finishes.",
    verb: "Cancel " + (ids.length === 1 ? "the job" : "them"),
    grave: true,
    act: async () => {
      const { removed, cancelling, unknown } = await change("cancel", { ids });
      changed();
      return [
        removed > 0 ? `${count(removed)} removed` : "",
        cancelling > 0 ? `${count(cancelling)} told to stop` : "",
        unknown > 0 ? `${count(unknown)} no longer there` : "",
      ].filter(Boolean).join(", ");
    },
  });
}

/**
 * Retries or forgets failed jobs: those named, or all that match a filter, in steps.
 *
 * @param {"retry" | "forget"} verb
 * @param {{ ids: readonly string[] } | { filter: Record<string, string | number> }} which
 * @param {number} many How many, as far as is known.
 */
export function moveJobs(verb, which, many) {
  const one = "ids" in which && which.ids.length === 1;
  const what = one ? `job ${/** @type {any} */ (which).ids[0]}` : plural(many, "failed job");
  const Verb = verb === "retry" ? "Retry" : "Forget";
  return confirmed({
    title: `${Verb} ${what}?`,
    text: verb === "retry"
      ? "Back on the queue, with no attempts counted."
      : "Deleted for good, with payload and error.",
    verb: Verb,
    grave: verb === "forget",
    act: async (step) => {
      let moved = 0;
      for (;;) {
        const answer = await change(verb, which);
        moved += answer.moved;
        if (!step(`${count(moved)} of ${count(Math.max(many, moved))} …`) || !answer.more) break;
      }
      changed();
      return `${verb === "retry" ? "Retried" : "Forgot"} ${plural(moved, "job")}`;
    },
  });
}
