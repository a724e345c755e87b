/**
 * What a queue does, in numbers: for Prometheus, for OpenTelemetry, and for whoever asks whether it is well.
 *
 * @example
 * ```ts
 * import { Queue } from "@x/queue";
 * import { metrics } from "@x/queue/metrics";
 * import assert from "node:assert/strict";
 *
 * const queue = new Queue({ database: ":memory:", jobs: { mail: () => {} } });
 * const measured = metrics(queue);
 * await queue.dispatch("mail");
 * await queue.work({ stopWhenEmpty: true });
 *
 * assert.match(await measured.text(), /^queue_attempts_total\{queue="default",name="mail",outcome="completed"\} 1$/m);
 * const answer = await measured.handler(new Request("http://127.0.0.1/health"));
 * assert.equal((await answer.json()).status, "ready");
 * await queue.close();
 * ```
 *
 * @module
 */
import { type Duration, toMilliseconds } from "./core/duration.ts";
import { QueueError } from "./core/errors.ts";
import { Counting } from "./metrics/counting.ts";
import { families } from "./metrics/families.ts";
import { type Health, Watch } from "./metrics/health.ts";
import { answer } from "./metrics/handler.ts";
import type { MeasuredQueue } from "./metrics/measured_queue.ts";
import { instruments, type OpenTelemetryApi, tracing } from "./metrics/open_telemetry.ts";
import { Looks } from "./metrics/store.ts";
import { type Format, write } from "./metrics/text.ts";

export type { Health } from "./metrics/health.ts";
export type { MeasuredQueue } from "./metrics/measured_queue.ts";
export type {
  OpenTelemetryApi,
  OpenTelemetryAttributes,
  OpenTelemetryHistogram,
  OpenTelemetryInstrument,
  OpenTelemetryMeter,
  OpenTelemetryObservations,
  OpenTelemetrySpan,
  OpenTelemetryTracer,
} from "./metrics/open_telemetry.ts";
export type { Format } from "./metrics/text.ts";

/** How a queue is measured. */
export interface MetricsOptions {
  /**
   * How long jobs may be due while nothing moves, before `/health` says `stuck`: more than your longest job takes.
   * Default: 5 minutes.
   */
  stuckAfter?: Duration;
  /**
   * The module `@opentelemetry/api`, as the app imported it: from then on there is a span for each dispatch and each
   * attempt, and the same metrics are instruments. Default: none.
   */
  openTelemetry?: OpenTelemetryApi;
}

/** The metrics of a queue. */
export interface Metrics {
  /**
   * All of them, as Prometheus reads them.
   *
   * @param format Its own, or OpenMetrics. Default: `"prometheus"`.
   */
  text(format?: Format): Promise<string>;
  /** Whether the queue is worked. */
  health(): Promise<Health>;
  /**
   * Answers `GET /metrics` and `GET /health`, under whatever path it is mounted: for `Deno.serve`, `Bun.serve`, Hono and
   * the like.
   */
  readonly handler: (request: Request) => Promise<Response>;
  /** Counts no more, and takes the instruments and spans away. */
  close(): void;
}

/** How long jobs may be due while nothing moves, in milliseconds. */
const STUCK_AFTER = 300_000;

/**
 * Measures a queue, from now on: what this process does with its jobs is counted here, and what the store holds is
 * asked for when somebody looks, at most once a second.
 *
 * @param queue The queue. It may also only dispatch, or only be looked at.
 * @param options What differs from the defaults.
 * @throws {QueueError} `CONFIG` for an option that cannot work.
 */
export function metrics(queue: MeasuredQueue, options: MetricsOptions = {}): Metrics {
  for (const key of Object.keys(options)) {
    if (key === "stuckAfter" || key === "openTelemetry") continue;
    throw new QueueError("CONFIG", `options.${key}: no such setting; expected stuckAfter, openTelemetry`);
  }
  const { stuckAfter = STUCK_AFTER, openTelemetry } = options;
  const bound = toMilliseconds(stuckAfter, "stuckAfter");
  const endTracing = openTelemetry === undefined ? () => {} : queue.trace(tracing(openTelemetry));
  const counting = new Counting(queue);
  const watch = new Watch(bound, () => counting.progress);
  const looks = new Looks(queue, (look) => {
    if ("error" in look) counting.storeErrors.look++;
    watch.saw(look);
  });
  const endInstruments = openTelemetry === undefined
    ? () => {}
    : instruments(openTelemetry, counting, () => looks.now());
  const text = async (format: Format = "prometheus"): Promise<string> =>
    write(families(counting, await looks.now()), format);
  const health = async (): Promise<Health> => watch.health(await looks.now());
  return {
    text,
    health,
    handler: (request) => answer(request, { text, health }),
    close: () => {
      counting.close();
      endInstruments();
      endTracing();
    },
  };
}
