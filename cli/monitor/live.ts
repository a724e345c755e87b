import type { Queue } from "../../mod.ts";
import { isPaused } from "../counts.ts";
import { oneLine } from "../one_line.ts";
import type { Watcher } from "./watcher.ts";
import type { Key } from "./keys.ts";
import { render } from "./screen.ts";
import type { Terminal } from "./terminal.ts";

/** What the live view needs. */
export interface LiveParts {
  readonly queue: Queue;
  readonly watcher: Watcher;
  readonly terminal: Terminal;
  /** What the store is known by. */
  readonly store: string;
  readonly colour: boolean;
  /** Ends it. */
  readonly stop: AbortController;
}

/** The full-screen view, until it is told to stop, by a key or otherwise. */
export async function live(parts: LiveParts): Promise<void> {
  const { watcher, terminal, stop } = parts;
  const view = new LiveView(parts);
  terminal.onKey = (key) => view.press(key);
  terminal.onResize = () => view.draw();
  terminal.enter();
  try {
    view.draw();
    await watcher.run(stop.signal, () => view.draw());
  } finally {
    terminal.leave();
  }
}

/** What the view is about, and what keys do. */
class LiveView {
  readonly #parts: LiveParts;
  #selected: string | null = null;
  /** What waits for a yes: pausing the queue, or resuming it; a `queue` of `null` is all of them. */
  #asked: { readonly verb: "pause" | "resume"; readonly queue: string | null } | null = null;
  #message: string | null = null;

  constructor(parts: LiveParts) {
    this.#parts = parts;
  }

  draw(): void {
    const { watcher, terminal, store, colour } = this.#parts;
    const { width, height } = terminal.size;
    this.#keepSelected();
    terminal.draw(render(
      {
        store,
        colour,
        found: watcher.found,
        history: watcher.history,
        alerts: watcher.alerts,
        problem: watcher.problem,
        interval: watcher.interval,
        selected: this.#selected,
        message: this.#message,
        keys: terminal.hasKeys,
        now: Date.now(),
      },
      width,
      height,
    ));
  }

  press(key: Key): void {
    const asked = this.#asked;
    this.#asked = null;
    this.#message = null;
    if (key === "interrupt") return this.#parts.stop.abort();
    if (asked !== null) {
      if (key === "y" || key === "Y") void this.#do(asked);
    } else if (key === "q") {
      return this.#parts.stop.abort();
    } else if (key === "suspend") {
      return this.#parts.terminal.suspend();
    } else if (key === "p") {
      this.#ask();
    } else {
      this.#move(key);
    }
    this.draw();
  }

  /** The queues, by name; and the first one where that which was selected is gone. */
  #keepSelected(): readonly string[] {
    const names = this.#parts.watcher.found?.queues.map(({ queue }) => queue) ?? [];
    if (this.#selected === null || !names.includes(this.#selected)) this.#selected = names[0] ?? null;
    return names;
  }

  #move(key: Key): void {
    const names = this.#keepSelected();
    const at = names.indexOf(this.#selected!);
    const to = { up: at - 1, k: at - 1, down: at + 1, j: at + 1, home: 0, end: names.length - 1 }[key] ?? at;
    this.#selected = names[Math.min(Math.max(to, 0), names.length - 1)] ?? null;
  }

  #ask(): void {
    const { found } = this.#parts.watcher;
    this.#keepSelected();
    if (found === null || this.#selected === null) return;
    const { paused } = found;
    const queue = paused.all ? null : this.#selected;
    const verb = isPaused(this.#selected, paused) ? "resume" : "pause";
    this.#asked = { verb, queue };
    this.#message = `${verb} ${queue === null ? "every queue" : oneLine(queue)}? y: yes, any other key: no`;
  }

  async #do({ verb, queue }: { verb: "pause" | "resume"; queue: string | null }): Promise<void> {
    const name = queue === null ? "every queue" : oneLine(queue);
    try {
      await this.#parts.queue[verb](queue ?? undefined);
      this.#message = `${verb}d ${name}`;
      this.#parts.watcher.hurry();
    } catch (error) {
      this.#message = `${verb} ${name}: ${(error as Error).message}`;
    }
    this.draw();
  }
}
