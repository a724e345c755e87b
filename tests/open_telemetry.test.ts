/** OpenTelemetry: a trace from dispatch to run, on each driver, and the metrics as instruments. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import * as api from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import { Discard, type Jobs, Queue, QueueError, type QueueOptions } from "@x/queue";
import { metrics } from "@x/queue/metrics";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { inFolder } from "./folder.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";
import { changed } from "./session.ts";
import { soon, until } from "./until.ts";

after(endShared);

const spans = new InMemorySpanExporter();
const measurements = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({
  exporter: measurements,
  exportIntervalMillis: 2 ** 30,
  exportTimeoutMillis: 20_000,
});
api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
api.trace.setGlobalTracerProvider(
  new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter: spans })] }),
);
api.metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
after(() => reader.shutdown());

const tracer = api.trace.getTracer("test");
const quiet = { warn() {}, error() {} };

/** A store that several queues share, as an app and its workers do. */
type Store = Pick<QueueOptions, "database" | "connection" | "redis" | "failed">;

/** Tests on each driver, within no trace: Deno begins a test in the context of what ended the one before. */
function onEachStore(sentence: string, run: (store: Store) => Promise<void>): void {
  const alone = (store: Store) => api.context.with(api.ROOT_CONTEXT, () => run(store));
  test(`SQLite: ${sentence}`, () => inFolder((folder) => alone({ database: join(folder, "app.sqlite") })));
  test(`Redis: ${sentence}`, { skip: noRedis }, () =>
    inFolder(async (folder) => {
      const { url } = await sharedServer();
      const redis = { url, prefix: newPrefix() };
      await alone({ connection: "redis", redis, failed: "redis", database: join(folder, "app.sqlite") });
    }));
}

/** A queue that is traced, for as long as `use` takes. */
async function traced<const J extends Jobs>(
  store: Store,
  jobs: J,
  use: (queue: Queue<J>) => Promise<void>,
): Promise<void> {
  const queue = new Queue({ ...store, jobs, env: {}, log: quiet });
  const measured = metrics(queue as unknown as Queue, { openTelemetry: api });
  try {
    await use(queue);
  } finally {
    measured.close();
    await queue.close();
  }
}

/** The spans that ended since it was asked last. */
function ended(): ReadableSpan[] {
  const all = spans.getFinishedSpans();
  spans.reset();
  return all;
}

function named(all: readonly ReadableSpan[], name: string): ReadableSpan {
  const found = all.filter((span) => span.name === name);
  assert.equal(found.length, 1, `one span ${name} among ${all.map((span) => span.name).join(", ")}`);
  return found[0];
}

onEachStore("a trace leads from the request to the handler in another worker", async (store) => {
  ended();
  const mail = () => tracer.startActiveSpan("smtp", (span) => span.end());
  let id = "";
  await traced(store, { mail: { queue: "post" } }, async (app) => {
    await tracer.startActiveSpan("request", async (request) => {
      ({ id } = await app.dispatch("mail", { secret: "hunter2" }));
      request.end();
    });
  });
  await traced(
    store,
    { mail: { handle: mail, queue: "post" } },
    (worker) => worker.work({ stopWhenEmpty: true }),
  );
  const all = ended();
  const request = named(all, "request");
  const send = named(all, "send post");
  const run = named(all, "process post");
  const smtp = named(all, "smtp");
  const { traceId } = request.spanContext();
  for (const span of [send, run, smtp]) assert.equal(span.spanContext().traceId, traceId);
  assert.equal(send.parentSpanContext?.spanId, request.spanContext().spanId);
  assert.equal(run.parentSpanContext?.spanId, send.spanContext().spanId);
  assert.equal(smtp.parentSpanContext?.spanId, run.spanContext().spanId, "within the handler");
  assert.deepEqual([send.kind, run.kind], [api.SpanKind.PRODUCER, api.SpanKind.CONSUMER]);
  assert.deepEqual(run.attributes, {
    "messaging.system": "@x/queue",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.destination.name": "post",
    "messaging.message.id": id,
    "queue.job.name": "mail",
    "queue.job.attempt": 1,
    "queue.job.tries": 3,
    "queue.outcome": "completed",
  });
  assert.equal(send.attributes["messaging.message.id"], id);
  const told = JSON.stringify(all.map(({ attributes, events, name }) => ({ attributes, events, name })));
  assert.equal(told.includes("hunter2"), false, "no payload");
});

onEachStore("an attempt that failed is an error, and its trace goes on with the next one", async (store) => {
  ended();
  const jobs = {
    bad: {
      tries: 2,
      backoff: 1,
      handle: () => {
        throw new TypeError("no route");
      },
    },
    gone: () => {
      throw new Discard("no such order");
    },
  };
  await traced(store, jobs, async (queue) => {
    await queue.dispatch("bad");
    await queue.dispatchMany([["gone", 1], ["gone", 2]]);
    const working = queue.work();
    await until(async () => (await queue.failed()).length === 3, "all to have failed");
    await queue.close();
    await working;
  });
  const all = ended();
  const [send, batch] = all.filter(({ name }) => name === "send default");
  const { traceId } = send.spanContext();
  const tries = all.filter((span) =>
    span.kind === api.SpanKind.CONSUMER && span.spanContext().traceId === traceId
  );
  assert.deepEqual(
    tries.map(({ attributes }) => [attributes["queue.job.attempt"], attributes["queue.outcome"]]),
    [
      [1, "released"],
      [2, "failed"],
    ],
  );
  for (const { status, events, attributes } of tries) {
    assert.deepEqual(status, { code: api.SpanStatusCode.ERROR, message: "TypeError: no route" });
    assert.equal(attributes["error.type"], "TypeError");
    const [exception] = events;
    assert.equal(exception.name, "exception");
    assert.equal(exception.attributes?.["exception.message"], "TypeError: no route");
    assert.match(String(exception.attributes?.["exception.stacktrace"]), /open_telemetry\.test\.ts/);
  }
  assert.equal(batch.attributes["messaging.batch.message_count"], 2);
  const discarded = all.filter((span) => span.parentSpanContext?.spanId === batch.spanContext().spanId);
  assert.deepEqual(discarded.map(({ status }) => status.message), ["no such order", "no such order"]);
});

onEachStore("nothing is left of a trace when its job is done, and a job without one runs", async (store) => {
  ended();
  const plain = new Queue({ ...store, jobs: { mail: () => {} }, env: {}, log: quiet });
  await plain.dispatch("mail");
  await plain.close();
  await traced(store, { mail: () => {} }, async (queue) => {
    await queue.dispatch("mail", 1, { id: "one" });
    await queue.dispatch("mail", 1, { id: "one" });
    await queue.work({ stopWhenEmpty: true });
  });
  const runs = ended().filter((span) => span.kind === api.SpanKind.CONSUMER);
  assert.equal(runs.length, 2);
  assert.equal(runs.filter((span) => span.parentSpanContext === undefined).length, 1, "the plain one");
  if (store.redis === undefined) return;
  const server = await sharedServer();
  const keys = await server.client.keys(`${store.redis.prefix}queue:trace:*`);
  assert.deepEqual(keys, []);
});

test("a dispatch that the store refuses is an error", async () => {
  ended();
  const full = () => Promise.reject(new QueueError("DB", "disk full"));
  const driver = changed(new SqliteDriver({ database: ":memory:" }), { push: full });
  const queue = new Queue({ driver, jobs: { mail: () => {} }, env: {}, log: quiet });
  const measured = metrics(queue as unknown as Queue, { openTelemetry: api });
  await assert.rejects(queue.dispatch("mail"), { code: "DB" });
  const [send] = ended();
  assert.deepEqual(send.status, { code: api.SpanStatusCode.ERROR, message: "queue: disk full" });
  assert.equal(send.attributes["error.type"], "QueueError");
  measured.close();
  await queue.close();
});

test("a queue is traced once, and not any more when that is closed", async () => {
  ended();
  const queue = new Queue({ database: ":memory:", jobs: { mail: () => {} }, env: {}, log: quiet });
  const measured = metrics(queue as unknown as Queue, { openTelemetry: api });
  assert.throws(() => metrics(queue as unknown as Queue, { openTelemetry: api }), { code: "CONFIG" });
  measured.close();
  await queue.dispatch("mail");
  assert.deepEqual(ended(), []);
  await queue.close();
});

test("the metrics are instruments", async () => {
  await traced({ database: ":memory:" }, { letter: () => {}, later: () => {} }, async (queue) => {
    await queue.dispatchMany([["letter", 1], ["letter", 2], ["later", 3, { delay: 60_000 }]]);
    await queue.work({ stopWhenEmpty: true });
    measurements.reset();
    await reader.forceFlush();
  });
  const found = new Map(
    measurements.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics).flatMap((scope) => scope.metrics)
      .map((metric) => [metric.descriptor.name, metric]),
  );
  const points = (name: string) =>
    (found.get(name)?.dataPoints ?? []).map((
      { attributes, value },
    ) => [Object.values(attributes).join(" "), value]);
  assert.deepEqual(points("queue.dispatched"), [["default letter", 2], ["default later", 1]]);
  assert.deepEqual(
    points("queue.attempts").filter(([, value]) => value !== 0),
    [["default letter completed", 2]],
  );
  assert.deepEqual(points("queue.jobs").filter(([, value]) => value !== 0), [["default delayed", 1]]);
  for (const name of ["queue.run.duration", "queue.wait.duration"]) {
    const point = found.get(name)!.dataPoints.find(({ attributes }) =>
      attributes["queue.job.name"] === "letter"
    );
    assert.equal((point?.value as { count: number }).count, 2, name);
    assert.equal(found.get(name)!.descriptor.unit, "s");
  }
});

/** A span as OTLP writes it in JSON. */
interface ExportedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly status?: { readonly code?: number; readonly message?: string };
}

const deno = process.env.TEST_DENO ?? (process.versions.deno === undefined ? undefined : process.execPath);

test(
  "Deno's own exporter sends the trace and the metrics",
  { skip: deno === undefined && "no Deno" },
  async () => {
    const sent: ExportedSpan[] = [];
    const metricNames = new Set<string>();
    const collector = createServer(async (request, response) => {
      let body = "";
      for await (const chunk of request.setEncoding("utf8")) body += chunk;
      const document = JSON.parse(body);
      for (const { scopeSpans } of document.resourceSpans ?? []) {
        for (const scope of scopeSpans) sent.push(...scope.spans);
      }
      for (const { scopeMetrics } of document.resourceMetrics ?? []) {
        for (const scope of scopeMetrics) for (const { name } of scope.metrics) metricNames.add(name);
      }
      response.writeHead(200, { "content-type": "application/json" }).end("{}");
    });
    collector.listen(0, "127.0.0.1");
    await once(collector, "listening");
    const { port } = collector.address() as AddressInfo;
    const program = fileURLToPath(new URL("programs/traced.ts", import.meta.url));
    const child = spawn(deno!, ["run", "-A", "--no-check", program], {
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        ...process.env,
        OTEL_DENO: "true",
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
        OTEL_METRIC_EXPORT_INTERVAL: "100",
        OTEL_BSP_SCHEDULE_DELAY: "100",
      },
    });
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text) => errors += text);
    try {
      const [status] = await soon(once(child, "close"), "the program to end");
      assert.equal(status, 0, errors);
      const spans = ["request", "send default", "process default", "handler"];
      await until(() => spans.every((span) => sent.some(({ name }) => name === span)), "the spans to arrive");
      const instruments = ["queue.attempts", "queue.jobs", "queue.run.duration"];
      await until(() => instruments.every((name) => metricNames.has(name)), "the metrics to arrive");
      const of = (name: string): ExportedSpan => sent.find((span) => span.name === name)!;
      assert.equal(of("send default").parentSpanId, of("request").spanId);
      assert.equal(of("process default").parentSpanId, of("send default").spanId);
      assert.equal(of("handler").parentSpanId, of("process default").spanId);
      const { traceId } = of("request");
      for (const name of spans) assert.equal(of(name).traceId, traceId);
      assert.deepEqual(of("process default").status, { code: 2, message: "no route" });
    } finally {
      child.kill("SIGKILL");
      collector.close();
      collector.closeAllConnections();
    }
  },
);
