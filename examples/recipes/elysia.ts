/**
 * Elysia, on Bun.
 *
 * @module
 */
import { dashboard } from "@x/queue/dashboard";
import { Elysia } from "elysia";
import { lookUp, order, queue } from "./reports.ts";
import { announce, hostname, port } from "./serve.ts";
import { runBeside } from "./stopping.ts";

const app = new Elysia()
  .post("/reports", async ({ body, status }) => {
    const answer = await order(String(body));
    return status(answer.status, answer.body);
  }, { parse: "text" })
  .get("/reports/:id", async ({ params, status }) => {
    const answer = await lookUp(params.id);
    return status(answer.status, answer.body);
  })
  // It is one address: all that it answers stands behind the `?`.
  .mount("/admin/queue", dashboard(queue))
  .listen({ hostname, port });

announce(app.server!.port!);
await runBeside({ close: () => app.stop() }, queue);
