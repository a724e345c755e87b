/** An app in Deno, whose own exporter sends what `@opentelemetry/api` is told: a request, a dispatch, a handler that fails. */
import { metrics as meters, trace } from "@opentelemetry/api";
import * as api from "@opentelemetry/api";
import { Queue } from "../../mod.ts";
import { metrics } from "../../metrics.ts";

const tracer = trace.getTracer("app");
const queue = new Queue({
  database: ":memory:",
  env: {},
  tries: 1,
  log: { warn() {}, error() {} },
  jobs: {
    mail: () =>
      tracer.startActiveSpan("handler", (span) => {
        span.end();
        throw new Error("no route");
      }),
  },
});
metrics(queue, { openTelemetry: api });
await tracer.startActiveSpan("request", async (span) => {
  await queue.dispatch("mail");
  span.end();
});
await queue.work({ stopWhenEmpty: true });
// The exporter reads the instruments by itself, and says so by asking this one.
await new Promise<void>((resolve) => {
  let asked = 0;
  meters.getMeter("app").createObservableGauge("app.asked").addCallback((result) => {
    result.observe(++asked);
    if (asked === 3) resolve();
  });
});
await queue.close();
