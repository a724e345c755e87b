import { metrics, type OpenTelemetryApi } from "../metrics.ts";
import type { Environment, Queue } from "../mod.ts";
import { type Address, ADDRESS_SYNTAX, parseAddress } from "./address.ts";
import { CommandError } from "./command_error.ts";
import { serve } from "./serve.ts";

/** What measures a worker. */
export interface Measuring {
  /** Where metrics and health are served; `null` where they are not. */
  readonly url: string | null;
  /** Ends it. */
  close(): Promise<void>;
}

/** Where to serve metrics: the option, or else `QUEUE_METRICS`; `undefined` for nowhere. */
export function metricsAddress(option: Address | undefined, env: Environment): Address | undefined {
  if (option !== undefined || !env.QUEUE_METRICS) return option;
  const address = parseAddress(env.QUEUE_METRICS);
  if (address !== undefined) return address;
  throw new CommandError(2, `QUEUE_METRICS=${JSON.stringify(env.QUEUE_METRICS)}: expected ${ADDRESS_SYNTAX}`);
}

/**
 * Measures what a queue does, and serves that.
 *
 * @throws {CommandError} 1 where the address cannot be listened on, 2 where OpenTelemetry is wanted and not there.
 */
export async function measure(
  queue: Queue,
  address: Address | undefined,
  env: Environment,
): Promise<Measuring> {
  const openTelemetry = await openTelemetryOf(env);
  if (address === undefined && openTelemetry === undefined) {
    return {
      url: null,
      close: () => Promise.resolve(),
    };
  }
  const measured = metrics(queue, { openTelemetry });
  const serving = address === undefined ? null : await serve(address, measured.handler, "--metrics");
  return {
    url: serving?.url ?? null,
    close: async () => {
      await serving?.close();
      measured.close();
    },
  };
}

/** The API that the app has, where `QUEUE_OTEL` asks for it. What exports is the app's to start, as Deno does itself. */
async function openTelemetryOf(env: Environment): Promise<OpenTelemetryApi | undefined> {
  const wanted = env.QUEUE_OTEL;
  if (!wanted || wanted === "0") return undefined;
  if (wanted !== "1") throw new CommandError(2, `QUEUE_OTEL=${JSON.stringify(wanted)}: expected 1 or 0`);
  try {
    return await import("@opentelemetry/api");
  } catch (error) {
    throw new CommandError(
      2,
      `QUEUE_OTEL=1: expected the app to have @opentelemetry/api: ${(error as Error).message}`,
    );
  }
}
