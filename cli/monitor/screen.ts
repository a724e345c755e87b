import type { QueueCounts } from "../../mod.ts";
import { isPaused, sum } from "../counts.ts";
import { formatDuration } from "../duration.ts";
import { localTime } from "../local_time.ts";
import { oneLine } from "../one_line.ts";
import { cut, padEnd, padStart, widthOf } from "../width.ts";
import { type Alert, alertText } from "./alerts.ts";
import { bar, perSecond, progressText, queuesOf, signed, slotsText, sparkline, waits } from "./cells.ts";
import type { History } from "./history.ts";
import type { Look } from "./look.ts";
import { type Line, type Paint, paintLine } from "./spans.ts";

/** All that the screen shows. */
export interface View {
  /** What the store is known by. */
  readonly store: string;
  /** The last look; `null` before the first. */
  readonly found: Look | null;
  readonly history: History;
  readonly alerts: readonly Alert[];
  /** Why the store could not be looked at; `null` where it could. */
  readonly problem: string | null;
  /** The name of the queue that keys are about. */
  readonly selected: string | null;
  /** What is asked, or was done, in place of the keys. */
  readonly message: string | null;
  /** Whether there is a keyboard. */
  readonly keys: boolean;
  /** The time between two looks, in milliseconds. */
  readonly interval: number;
  readonly now: number;
  readonly colour: boolean;
}

/** The lines of a terminal of so many columns and rows: as many rows at most, and none wider. */
export function render(view: View, width: number, height: number): string[] {
  if (width < 1 || height < 1) return [];
  const foot = [footer(view)];
  const head = [title(view, width), ...warnings(view, Math.floor(height / 4))];
  const room = height - head.length - foot.length;
  const body = view.found === null ? [] : sections(view, view.found, width, room);
  const gap = Array.from({ length: Math.max(0, room - body.length) }, (): Line => []);
  const lines = [...head, ...body, ...gap, ...foot];
  // Of a terminal that is lower than its head, the first lines are seen.
  return lines.slice(0, height).map((line) => paintLine(line, width, view.colour));
}

function title({ store, found, interval, problem }: View, width: number): Line {
  const time = found === null ? "" : localTime(new Date(found.at)).slice(-8);
  const right = problem !== null && found !== null ? `as of ${time}` : time;
  const left = `queue:monitor · ${oneLine(store)} · every ${formatDuration(interval)}`;
  const room = width - widthOf(right) - 1;
  if (room < 12 || right === "") return [{ text: left, paint: "bold" }];
  return [{ text: padEnd(cut(left, room), room), paint: "bold" }, { text: ` ${right}` }];
}

/** What is wrong, in `most` lines at most, but one at least. */
function warnings({ alerts, problem, found }: View, most: number): Line[] {
  const texts = [...(problem === null ? [] : [problem]), ...alerts.map(alertText)];
  if (texts.length === 0) {
    return [[found === null ? { text: "looking …", paint: "dim" } : { text: "no alert", paint: "green" }]];
  }
  const lines = texts.map((text): Line => [{ text: `! ${text}`, paint: "red" }]);
  const room = Math.max(1, most);
  if (lines.length <= room) return lines;
  if (room === 1) return [[{ text: `! ${lines.length} alerts: ${texts[0]}`, paint: "red" }]];
  const rest = lines.length - room + 1;
  return [...lines.slice(0, room - 1), [{ text: `! and ${rest} more`, paint: "red" }]];
}

function footer({ message, keys }: View): Line {
  if (message !== null) return [{ text: message, paint: "yellow" }];
  return [{ text: keys ? "q quit  ↑↓ queue  p pause or resume it" : "Ctrl-C ends it", paint: "dim" }];
}

/** A part of the screen, that can make do with fewer rows. */
interface Section {
  /** How many rows it would take. */
  readonly wanted: number;
  /** What it shows in so many. */
  readonly draw: (rows: number) => Line[];
}

/** The fewest rows in which a section says anything: its heading, and one row. */
const LEAST = 2;

/** Deals the rows among the sections, one at a time, so that a long one leaves something to the others. */
function sections(view: View, found: Look, width: number, room: number): Line[] {
  const all = [queueSection(view, found, width), workerSection(view, found), failureSection(found)];
  // What has no room for its heading and a row is left out, from the end.
  const shown = all.slice(0, Math.max(1, Math.min(all.length, Math.floor(room / LEAST))));
  const wanted = shown.reduce((total, section) => total + section.wanted, 0);
  const blank = wanted + shown.length - 1 <= room ? 1 : 0;
  const rows = shown.map(({ wanted }) => Math.min(wanted, LEAST));
  let left = room - blank * (shown.length - 1) - rows.reduce((total, one) => total + one, 0);
  for (let dealt = true; dealt && left > 0;) {
    dealt = false;
    for (const [at, section] of shown.entries()) {
      if (left === 0 || rows[at]! >= section.wanted) continue;
      rows[at]!++;
      left--;
      dealt = true;
    }
  }
  return shown.flatMap((section, at) => {
    const drawn = section.draw(Math.min(rows[at]!, room));
    return at > 0 && blank === 1 ? [[], ...drawn] : drawn;
  });
}

/** A column of the queues: of those that do not fit, the ones with the highest number go first. */
interface QueueColumn {
  readonly title: string;
  readonly goes: number;
  readonly cell: (one: Omit<QueueCounts, "queue">, queue: string | null) => string;
  readonly paint?: (one: Omit<QueueCounts, "queue">) => Paint | undefined;
}

/** The name of a queue is cut, but not to less than this while columns can go, and to no more before some do. */
const LEAST_NAME = 12;
const MOST_NAME = 24;
const GRAPH_TITLE = "LAST LOOKS";

function queueSection(view: View, found: Look, width: number): Section {
  const { queues, paused, at } = found;
  const { history } = view;
  const columns: QueueColumn[] = [
    { title: "READY", goes: 0, cell: (one) => String(one.ready) },
    { title: "DELAYED", goes: 4, cell: (one) => String(one.delayed) },
    { title: "RESERVED", goes: 3, cell: (one) => String(one.reserved) },
    {
      title: "FAILED",
      goes: 1,
      cell: (one) => String(one.failed),
      paint: (one) => one.failed > 0 ? "red" : undefined,
    },
    { title: "WAITS", goes: 2, cell: (one) => waits(one.oldest, at) },
    {
      title: "TREND",
      goes: 5,
      cell: (_, queue) => {
        const trend = queue === null ? history.totalTrend() : history.trend(queue);
        return trend === null ? "-" : signed(trend);
      },
    },
  ];
  const total = queues.length > 1 ? sum(queues) : null;
  const widthOfColumn = (column: QueueColumn): number =>
    Math.max(
      widthOf(column.title),
      ...queues.map((one) => widthOf(column.cell(one, one.queue))),
      total === null ? 0 : widthOf(column.cell(total, null)),
    );
  const named = queues.map(({ queue }) => oneLine(isPaused(queue, paused) ? `${queue} (paused)` : queue));
  const longest = Math.max(LEAST_NAME, ...named.map(widthOf));
  const kept = [...columns];
  const taken = (): number => kept.reduce((sum, column) => sum + 2 + widthOfColumn(column), 2);
  while (kept.length > 1 && taken() + Math.min(longest, MOST_NAME) > width && goesNext(kept).goes > 2) {
    kept.splice(kept.indexOf(goesNext(kept)), 1);
  }
  while (kept.length > 1 && taken() + LEAST_NAME > width) kept.splice(kept.indexOf(goesNext(kept)), 1);
  const nameWidth = Math.max(1, Math.min(longest, width - taken()));
  const graph = width - taken() - nameWidth - 2;

  const row = (
    mark: string,
    name: string,
    one: Omit<QueueCounts, "queue">,
    queue: string | null,
    paint: Paint | undefined,
  ): Line => [
    { text: mark },
    { text: padEnd(cut(name, nameWidth), nameWidth), paint },
    ...kept.map((column) => ({
      text: `  ${padStart(column.cell(one, queue), widthOfColumn(column))}`,
      paint: column.paint?.(one),
    })),
    ...(queue !== null && graph >= GRAPH_TITLE.length
      ? [{ text: `  ${sparkline(history.ready(queue).slice(-graph))}`, paint: "cyan" as const }]
      : []),
  ];
  const selected = Math.max(0, queues.findIndex(({ queue }) => queue === view.selected));

  return {
    wanted: 1 + Math.max(1, queues.length) + (total === null ? 0 : 1),
    draw: (rows) => {
      const withTotal = total !== null && rows >= 4;
      const room = Math.max(1, rows - 1 - (withTotal ? 1 : 0));
      const first = Math.max(0, Math.min(selected - Math.floor(room / 2), queues.length - room));
      const shown = queues.slice(first, first + room);
      const part = shown.length < queues.length
        ? `${first + 1}–${first + shown.length} of ${queues.length}`
        : "QUEUE";
      const heading: Line = [
        { text: `  ${padEnd(cut(part, nameWidth), nameWidth)}`, paint: "dim" },
        ...kept.map((column) => ({
          text: `  ${padStart(column.title, widthOfColumn(column))}`,
          paint: "dim" as const,
        })),
        ...(graph >= GRAPH_TITLE.length ? [{ text: `  ${GRAPH_TITLE}`, paint: "dim" as const }] : []),
      ];
      if (queues.length === 0) return [heading, [{ text: "  no jobs", paint: "dim" }]];
      const lines = shown.map((one, index) => {
        const at = first + index;
        const isSelected = view.keys && at === selected;
        const paint = isPaused(one.queue, paused) ? "yellow" : isSelected ? "bold" : undefined;
        return row(isSelected ? "› " : "  ", named[at]!, one, one.queue, paint);
      });
      return [heading, ...lines, ...(withTotal ? [row("  ", "total", total, null, undefined)] : [])];
    },
  };
}

function goesNext(columns: readonly QueueColumn[]): QueueColumn {
  return columns.reduce((next, column) => column.goes > next.goes ? column : next);
}

const PROGRESS_WIDTH = 10;

function workerSection(view: View, found: Look): Section {
  const { workers, progress } = found;
  const rate = view.history.rate();
  const heading: Line = [
    {
      text: `WORKERS  ${slotsText(found)}${rate === null ? "" : ` · ${perSecond(rate)} ended`}`,
      paint: "dim",
    },
  ];
  const rows = workers.flatMap((worker): Line[] => [
    [
      { text: `  ${worker.host}:${worker.pid}` },
      { text: `  ${worker.busy}/${worker.concurrency}`, paint: worker.busy > 0 ? "green" : "dim" },
      { text: `  ${queuesOf(worker)}  ${worker.processed} ended`, paint: "dim" },
    ],
    ...worker.running.map((job): Line => {
      const said = progress.get(job.id);
      return [
        { text: `    ${job.name} ${job.id}  ${formatDuration(view.now - job.since)}` },
        { text: job.attempt > 1 ? `  attempt ${job.attempt}` : "", paint: "yellow" },
        { text: said === undefined ? "" : `  ${bar(said.fraction, PROGRESS_WIDTH)}`, paint: "cyan" },
        { text: said === undefined ? "" : ` ${progressText(said)}` },
      ];
    }),
  ]);
  return listed(heading, rows);
}

function failureSection({ failures }: Look): Section {
  const heading: Line = [{
    text: failures.length === 0 ? "LAST FAILURES  none" : "LAST FAILURES",
    paint: "dim",
  }];
  const rows = failures.map(({ failedAt, name, id, queue, error }): Line => [
    { text: `  ${localTime(new Date(failedAt)).slice(5)}`, paint: "dim" },
    { text: `  ${name} ${id}` },
    { text: `  ${queue}`, paint: "dim" },
    { text: `  ${error}`, paint: "red" },
  ]);
  return listed(heading, rows);
}

/** A heading and rows, of which the last one shown says how many more there are. */
function listed(heading: Line, rows: readonly Line[]): Section {
  return {
    wanted: 1 + rows.length,
    draw: (most) => {
      const room = Math.max(0, most - 1);
      if (rows.length <= room) return [heading, ...rows];
      if (room === 0) return [heading];
      const hidden = rows.length - room + 1;
      return [heading, ...rows.slice(0, room - 1), [{ text: `  … ${hidden} more`, paint: "dim" }]];
    },
  };
}
