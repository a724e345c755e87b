/**
 * The same through OpenTelemetry: a span for each dispatch and each attempt, and the metrics as instruments.
 *
 * Nothing of it is imported: the app passes its `@opentelemetry/api`, whose shape stands here.
 *
 * @module
 */
import type { EventJob, Outcome, Telemetry } from "../mod.ts";
import { VERSION } from "../version.ts";
import type { Counting } from "./counting.ts";
import { queueGauges, STATES } from "./families.ts";
import { BOUNDS, type JobSeries, OUTCOMES } from "./series.ts";
import type { FailedLook, Look } from "./store.ts";

/** What is said of a span or a value. */
export type OpenTelemetryAttributes = Record<string, string | number>;

/** A span, as far as it is used. */
export interface OpenTelemetrySpan {
  /** Who it is. */
  spanContext(): { traceId: string; spanId: string; traceFlags: number };
  /** Adds an attribute. */
  setAttribute(name: string, value: string | number): unknown;
  /** Says that it went wrong. */
  setStatus(status: { code: number; message?: string }): unknown;
  /** Keeps what was thrown. */
  recordException(exception: { name: string; message: string; stack?: string }): void;
  /** Ends it. */
  end(): void;
}

/** A tracer, as far as it is used. */
export interface OpenTelemetryTracer {
  /** Starts a span. */
  startSpan(
    name: string,
    options: { kind: number; attributes: OpenTelemetryAttributes },
    context: unknown,
  ): OpenTelemetrySpan;
}

/** An instrument that is asked for its values. */
// deno-lint-ignore no-empty-interface -- it is only handed back
export interface OpenTelemetryInstrument {}

/** A histogram. */
export interface OpenTelemetryHistogram {
  /** Counts one. */
  record(value: number, attributes: OpenTelemetryAttributes): void;
}

/** What takes the values of instruments. */
export interface OpenTelemetryObservations {
  /** Tells one. */
  observe(instrument: unknown, value: number, attributes?: OpenTelemetryAttributes): void;
}

/** A meter, as far as it is used. */
export interface OpenTelemetryMeter {
  /** Makes an instrument. */
  createObservableCounter(name: string, options: object): OpenTelemetryInstrument;
  /** Makes an instrument. */
  createObservableGauge(name: string, options: object): OpenTelemetryInstrument;
  /** Makes an instrument. */
  createHistogram(name: string, options: object): OpenTelemetryHistogram;
  /** Has instruments asked together. */
  // deno-lint-ignore no-explicit-any -- the instruments are the app's own
  addBatchObservableCallback(callback: (result: any) => Promise<void>, instruments: any[]): void;
  /** Has them asked no more. */
  // deno-lint-ignore no-explicit-any -- as above
  removeBatchObservableCallback(callback: (result: any) => Promise<void>, instruments: any[]): void;
}

/** The module `@opentelemetry/api` 1.x, as far as it is used. */
export interface OpenTelemetryApi {
  /** Spans. */
  readonly trace: {
    getTracer(name: string, version?: string): OpenTelemetryTracer;
    // deno-lint-ignore no-explicit-any -- a context is only handed back
    setSpan(context: any, span: any): any;
    setSpanContext(
      // deno-lint-ignore no-explicit-any -- as above
      context: any,
      spanContext: { traceId: string; spanId: string; traceFlags: number; isRemote?: boolean },
      // deno-lint-ignore no-explicit-any -- as above
    ): any;
  };
  /** What is under way. */
  readonly context: {
    active(): unknown;
    // deno-lint-ignore no-explicit-any -- as above
    with(context: any, run: () => Promise<Outcome>): Promise<Outcome>;
  };
  /** Instruments. */
  readonly metrics: { getMeter(name: string, version?: string): OpenTelemetryMeter };
  /** That nothing is. */
  readonly ROOT_CONTEXT: unknown;
  /** What kinds of spans there are. */
  readonly SpanKind: { readonly PRODUCER: number; readonly CONSUMER: number };
  /** How a span can have ended. */
  readonly SpanStatusCode: { readonly ERROR: number };
}

const SCOPE = "@x/queue";

/** What each verdict on an attempt is called. */
const OUTCOME_OF: { readonly [Verdict in Outcome["verdict"]]: string } = {
  complete: "completed",
  release: "released",
  snooze: "snoozed",
  handBack: "stopped",
  fail: "failed",
};

/** Traces dispatches and attempts, by the conventions for messaging. */
export function tracing(api: OpenTelemetryApi): Telemetry {
  const tracer = api.trace.getTracer(SCOPE, VERSION);
  const failed = (span: OpenTelemetrySpan, message: string, stack: string | null): void => {
    const name = /^\w+(?=:)/.exec(stack ?? "")?.[0] ?? "Error";
    span.setAttribute("error.type", name);
    span.recordException({ name, message, ...(stack === null ? {} : { stack }) });
    span.setStatus({ code: api.SpanStatusCode.ERROR, message });
  };
  return {
    async dispatch(jobs, store) {
      if (jobs.length === 0) return await store(jobs);
      const span = tracer.startSpan(`send ${destinationOf(jobs)}`, {
        kind: api.SpanKind.PRODUCER,
        attributes: {
          "messaging.system": SCOPE,
          "messaging.operation.name": "send",
          "messaging.operation.type": "send",
          "messaging.destination.name": destinationOf(jobs),
          ...(jobs.length === 1
            ? { "queue.job.name": jobs[0].name }
            : { "messaging.batch.message_count": jobs.length }),
        },
      }, api.context.active());
      try {
        const trace = traceparentOf(span);
        const dispatched = await store(trace === null ? jobs : jobs.map((job) => ({ ...job, trace })));
        if (jobs.length === 1) span.setAttribute("messaging.message.id", dispatched[0].id);
        return dispatched;
      } catch (error) {
        const { message, stack } = error as Error;
        failed(span, message, stack ?? null);
        throw error;
      } finally {
        span.end();
      }
    },
    async attempt(job, run) {
      const parent = parentOf(api, job.trace);
      const span = tracer.startSpan(`process ${job.queue}`, {
        kind: api.SpanKind.CONSUMER,
        attributes: attributesOf(job),
      }, parent);
      try {
        const outcome = await api.context.with(api.trace.setSpan(parent, span), run);
        span.setAttribute("queue.outcome", OUTCOME_OF[outcome.verdict]);
        if ("stack" in outcome) failed(span, outcome.problem, outcome.stack);
        return outcome;
      } finally {
        span.end();
      }
    },
  };
}

function attributesOf({ id, name, queue, attempt, tries }: EventJob): OpenTelemetryAttributes {
  return {
    "messaging.system": SCOPE,
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.destination.name": queue,
    "messaging.message.id": id,
    "queue.job.name": name,
    "queue.job.attempt": attempt,
    "queue.job.tries": tries,
  };
}

/** The queue of all of them, or what stands for several. */
function destinationOf(jobs: readonly { readonly queue: string }[]): string {
  return jobs.every(({ queue }) => queue === jobs[0].queue) ? jobs[0].queue : "(several)";
}

/** What travels with a job: a `traceparent`; `null` where nothing records, as without an SDK. */
function traceparentOf(span: OpenTelemetrySpan): string | null {
  const { traceId, spanId, traceFlags } = span.spanContext();
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return null;
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
}

/** The context that a `traceparent` names; that of nothing where it is none, whoever wrote it. */
function parentOf(api: OpenTelemetryApi, trace: string | undefined): unknown {
  const parts = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/.exec(trace ?? "");
  if (parts === null) return api.ROOT_CONTEXT;
  const [, traceId, spanId, flags] = parts;
  return api.trace.setSpanContext(api.ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: parseInt(flags, 16),
    isRemote: true,
  });
}

/** Makes the instruments, and returns what ends them. Counters and gauges are read when the app's SDK asks. */
export function instruments(
  api: OpenTelemetryApi,
  counting: Counting,
  look: () => Promise<Look | FailedLook>,
): () => void {
  const meter = api.metrics.getMeter(SCOPE, VERSION);
  const duration = (name: string, description: string): OpenTelemetryHistogram =>
    meter.createHistogram(name, {
      description,
      unit: "s",
      advice: { explicitBucketBoundaries: [...BOUNDS] },
    });
  const run = duration("queue.run.duration", "How long handlers ran.");
  const wait = duration("queue.wait.duration", "How long jobs had been due when a worker took them.");
  counting.recorder = {
    run: (series, seconds) => run.record(seconds, labels(series)),
    wait: (series, seconds) => wait.record(seconds, labels(series)),
  };
  const counter = (name: string, unit: string, description: string) =>
    meter.createObservableCounter(name, { unit, description });
  const gauge = (name: string, unit: string, description: string) =>
    meter.createObservableGauge(name, { unit, description });
  const dispatched = counter("queue.dispatched", "{job}", "Jobs that this process has stored.");
  const attempts = counter("queue.attempts", "{attempt}", "Attempts that ended, by outcome.");
  const errors = counter("queue.store.errors", "{error}", "Calls of the store that failed.");
  const jobs = gauge("queue.jobs", "{job}", "Jobs in the store, by state.");
  const oldest = gauge("queue.oldest.ready", "s", "How long the job that has been due for longest waits.");
  const workers = gauge("queue.workers", "{worker}", "Workers of every process on the store.");
  const own = gauge("queue.process.workers", "{worker}", "Workers in this process.");
  const all = [dispatched, attempts, errors, jobs, oldest, workers, own];
  const observe = async (result: OpenTelemetryObservations): Promise<void> => {
    for (const series of counting.series()) {
      result.observe(dispatched, series.dispatched, labels(series));
      for (const [end, outcome] of OUTCOMES) {
        result.observe(attempts, series.attempts[end], {
          ...labels(series),
          "queue.outcome": outcome,
        });
      }
    }
    for (const [during, count] of Object.entries(counting.storeErrors)) {
      result.observe(errors, count, { "queue.during": during });
    }
    result.observe(own, counting.here.workers);
    const looked = await look();
    if ("error" in looked) return;
    result.observe(workers, looked.workers.length);
    for (const gauges of queueGauges(looked, counting.queues)) {
      const queue = { "messaging.destination.name": gauges.queue };
      for (const state of STATES) {
        result.observe(jobs, gauges.jobs[state], { ...queue, "queue.state": state });
      }
      if (gauges.oldest !== null) result.observe(oldest, gauges.oldest, queue);
    }
  };
  meter.addBatchObservableCallback(observe, all);
  return () => {
    counting.recorder = null;
    meter.removeBatchObservableCallback(observe, all);
  };
}

const LABELS = new WeakMap<JobSeries, OpenTelemetryAttributes>();

/** The same object each time, as some are asked for with each job. */
function labels(series: JobSeries): OpenTelemetryAttributes {
  let known = LABELS.get(series);
  if (known === undefined) {
    known = { "messaging.destination.name": series.queue, "queue.job.name": series.name };
    LABELS.set(series, known);
  }
  return known;
}
