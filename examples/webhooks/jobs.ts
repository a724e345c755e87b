/**
 * The jobs of the webhook app: the server dispatches them, and a worker runs them:
 *
 * ```sh
 * deno run -A cli.ts queue:work --jobs examples/webhooks/jobs.ts
 * ```
 *
 * @module
 */
import type { Job, Jobs } from "@x/queue";
import { endpoints } from "./endpoints.ts";
import { sign } from "./signature.ts";

/** Something that happened. */
export interface Event {
  /** Stays the same however often it is delivered: a receiver knows by it what it has already. */
  readonly id: string;
  /** What happened, such as `order.paid`. */
  readonly type: string;
  /** The details. */
  readonly data: unknown;
}

/** The payload of a `deliver` job. */
export interface Delivery {
  /** A name in `endpoints`. */
  readonly endpoint: string;
  /** What to tell it. */
  readonly event: Event;
}

/** Sends one event to one endpoint. Whatever is not a 2xx answer is thrown, and so the job is tried again. */
async function deliver(job: Job<Delivery>): Promise<void> {
  const { endpoint, event } = job.data;
  if (!Object.hasOwn(endpoints, endpoint)) throw new Error(`no endpoint named "${endpoint}"`);
  const { url, secret } = endpoints[endpoint];
  const timestamp = String(Math.floor(Date.now() / 1000));
  const body = JSON.stringify(event);

  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      // The job runs at least once, so this may arrive twice. The id is the same on every attempt, and after a retry
      // by hand: the receiver drops what it has seen.
      "webhook-id": event.id,
      "webhook-timestamp": timestamp,
      "webhook-signature": sign({ id: event.id, timestamp, body }, secret),
    },
    body,
    // Ends the request when the attempt's timeout has passed, or when another worker has taken the job over.
    signal: job.signal,
  });
  const answer = await response.text();
  if (!response.ok) {
    throw new Error(`${endpoint} answered ${response.status}: ${answer.trim().slice(0, 200)}`);
  }
}

const jobs = {
  deliver: {
    handle: deliver,
    tries: 3,
    // Short, so that you can watch it. In production: [{ seconds: 10 }, { minutes: 5 }, { hours: 1 }] and more tries.
    backoff: [{ seconds: 1 }, { seconds: 2 }],
    timeout: { seconds: 10 },
  },
} satisfies Jobs;

export default jobs;
