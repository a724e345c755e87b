/**
 * Server-sent events: what the collector sees, to one viewer.
 *
 * @module
 */
import { stream } from "./answers.ts";
import type { Collector, Seen } from "./collector.ts";

/** A viewer connects anew after this long, in milliseconds, so that one whose session has ended is found out. */
const LONGEST = 3_600_000;

/** A stream of what the collector sees, which ends with the session. */
export function events(collector: Collector, sessionEnds: number): Response {
  const ends = Math.min(sessionEnds, Date.now() + LONGEST);
  let leave = (): void => {};
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      let over = false;
      const end = (): void => {
        if (over) return;
        over = true;
        leave();
        controller.close();
      };
      controller.enqueue(encoder.encode("retry: 2000\n\n"));
      const stop = collector.watch((seen) => {
        if (over) return;
        // One that reads more slowly misses states, and fills no memory.
        if ((controller.desiredSize ?? 0) > 0) controller.enqueue(eventOf(seen));
        if (Date.now() >= ends || ("over" in seen && seen.over)) end();
      });
      leave = () => {
        over = true;
        stop();
      };
      // The collector may have told of the end at once, when there was nothing to leave yet.
      if (over) leave();
    },
    cancel: () => leave(),
  }, { highWaterMark: 8 });
  return stream(body);
}

const encoder = new TextEncoder();

/** What was seen last, as it is sent: every viewer gets the same. */
let made: { seen: Seen; event: Uint8Array } | null = null;

function eventOf(seen: Seen): Uint8Array {
  if (made?.seen === seen) return made.event;
  const [name, data] = "state" in seen ? ["state", seen.state] : ["trouble", seen];
  const event = encoder.encode(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`);
  made = { seen, event };
  return event;
}
