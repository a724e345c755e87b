/**
 * The other side: a receiver of webhooks that fails at times, always in the same way, so that you can watch what a
 * queue is for without the internet.
 *
 * | hook | what it does |
 * |---|---|
 * | `/billing` | takes what it gets |
 * | `/mailer` | is busy (503) when it sees an event for the first time, and takes it the next time |
 * | `/crm` | is not there (404) until somebody sets it up: `curl -X PUT http://127.0.0.1:4001/crm` |
 * | `/archive` | takes what it gets, and is slow to say so |
 *
 * `GET /` lists what was taken. Run it by `deno run -A examples/webhooks/receiver.ts`, or `bun` or `node` for `deno
 * run -A`.
 *
 * @module
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import type { Event } from "./jobs.ts";
import { serve } from "./serve.ts";
import { isSigned } from "./signature.ts";

/** An event that a hook took. */
export interface Taken {
  /** The hook, such as `mailer`. */
  readonly hook: string;
  /** The event's id. */
  readonly id: string;
  /** How often it arrived. It counts once. */
  times: number;
}

/** How the receiver is set up. */
export interface ReceiverOptions {
  /** What the sender signs with. */
  secret?: string;
  /** How long `/archive` needs for an answer, in milliseconds. Default: 1500. */
  slowness?: number;
  /** Takes a line for every webhook that arrives. Default: none. */
  log?: (line: string) => void;
}

const hooks = ["billing", "mailer", "crm", "archive"];

/** Makes a receiver that has seen nothing yet. */
export function createReceiver(options: ReceiverOptions = {}): (request: Request) => Promise<Response> {
  const { secret = "for local use only", slowness = 1500, log = () => {} } = options;
  const taken: Taken[] = [];
  const turnedAway = new Set<string>();
  let crmIsUp = false;

  return async (request) => {
    const hook = new URL(request.url).pathname.slice(1);
    if (request.method === "GET") return Response.json(taken);
    if (request.method === "PUT" && hook === "crm") {
      crmIsUp = true;
      return new Response("the hook is set up\n");
    }
    const event = await readWebhook(request, secret);
    const answer = event === null
      ? new Response("the signature is wrong", { status: 401 })
      : take(hook, event);
    const body = await answer.text();
    log(`POST /${hook} ${event?.id ?? "?"}: ${answer.status} ${body}`);
    if (hook === "archive") await sleep(slowness);
    return new Response(body, answer);
  };

  function take(hook: string, { id }: Event): Response {
    if (!hooks.includes(hook) || hook === "crm" && !crmIsUp) {
      return new Response("no such hook", { status: 404 });
    }
    if (hook === "mailer" && !turnedAway.has(id)) {
      turnedAway.add(id);
      return new Response("busy, try again", { status: 503 });
    }
    const before = taken.find((entry) => entry.hook === hook && entry.id === id);
    if (before !== undefined) {
      before.times++;
      return new Response("have it already");
    }
    taken.push({ hook, id, times: 1 });
    return new Response("taken");
  }
}

/** The event that was sent, or null when the sender does not know the secret. */
async function readWebhook(request: Request, secret: string): Promise<Event | null> {
  const header = (name: string): string => request.headers.get(`webhook-${name}`) ?? "";
  const signed = { id: header("id"), timestamp: header("timestamp"), body: await request.text() };
  return isSigned(signed, secret, header("signature")) ? JSON.parse(signed.body) : null;
}

if (import.meta.main) {
  const receiver = createReceiver({ secret: process.env.WEBHOOK_SECRET, log: console.log });
  const server = await serve(receiver, Number(process.env.PORT ?? 4001));
  console.log(`takes webhooks at ${server.url}`);
  process.once("SIGTERM", () => server.close());
}
