/**
 * The webhook app: takes events over HTTP, and dispatches a job for every endpoint that wants to know.
 *
 * ```sh
 * deno run -A examples/webhooks/receiver.ts        # someone to deliver to
 * deno run -A examples/webhooks/server.ts          # this
 * deno run -A cli.ts queue:work --jobs examples/webhooks/jobs.ts
 * curl -d '{"type":"order.paid","data":{"order":7}}' http://127.0.0.1:4000/events
 * ```
 *
 * With Bun or Node 24, write `bun` or `node` for `deno run -A`.
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import process from "node:process";
import { Queue, QueueError } from "@x/queue";
import { endpoints } from "./endpoints.ts";
import jobs, { type Delivery, type Event } from "./jobs.ts";
import { serve } from "./serve.ts";

/** The app as one function of a request: `Deno.serve`, `Bun.serve` and the adapter in serve.ts for Node all take it. */
export function createApp(queue: Queue<typeof jobs>): (request: Request) => Promise<Response> {
  return async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname !== "/events") return Response.json({ error: `nothing at ${pathname}` }, { status: 404 });
    if (request.method !== "POST") return Response.json({ error: "expected POST" }, { status: 405 });

    const event = toEvent(await request.json().catch(() => undefined));
    if (typeof event === "string") return Response.json({ error: event }, { status: 400 });

    const deliveries: Delivery[] = Object.entries(endpoints)
      .filter(([, { events }]) => events.includes(event.type))
      .map(([endpoint]) => ({ endpoint, event }));
    try {
      // All or none. Once this resolves the jobs are on disk, so 202 is a promise that a crash does not break.
      const dispatched = await queue.dispatchMany(deliveries.map((delivery) => ["deliver", delivery]));
      const accepted = dispatched.map(({ id }, i) => ({ id, endpoint: deliveries[i].endpoint }));
      return Response.json({ event: event.id, jobs: accepted }, { status: 202 });
    } catch (error) {
      const tooLarge = error instanceof QueueError && error.code === "PAYLOAD";
      return Response.json({ error: String(error) }, { status: tooLarge ? 413 : 503 });
    }
  };
}

/** The event in a request's body, or what is wrong with it. A sender that repeats itself gives the id: it is kept. */
function toEvent(body: unknown): Event | string {
  if (typeof body !== "object" || body === null) return "expected a JSON object";
  const { id = `evt_${randomUUID()}`, type, data = null } = body as Record<string, unknown>;
  if (typeof id !== "string" || !/^[\w.:-]{1,100}$/.test(id)) {
    return "id: expected letters, digits, or any of _.:-";
  }
  if (typeof type !== "string" || type === "") return 'type: expected a name such as "order.paid"';
  return { id, type, data };
}

if (import.meta.main) {
  const queue = new Queue({ jobs });
  await queue.open(); // A database that cannot be opened is reported now, and not at the first event.
  const server = await serve(createApp(queue), Number(process.env.PORT ?? 4000));
  console.log(`takes events at ${server.url}/events`);
  // `queue.start()` here would run the jobs in this process, too: one program, and no worker beside it.
  process.once("SIGTERM", async () => {
    await server.close();
    await queue.close();
  });
}
