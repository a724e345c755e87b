/**
 * Fresh 2, on Deno: the `main.ts` of an app.
 *
 * @module
 */
import { dashboard } from "@x/queue/dashboard";
import { App } from "fresh";
import { lookUp, order, queue } from "./reports.ts";
import { serve } from "./serve.ts";
import { runBeside } from "./stopping.ts";

const operators = dashboard(queue);

export const app = new App()
  .post("/reports", async (context) => {
    const { status, body } = await order(await context.req.text());
    return context.json(body, { status });
  })
  .get("/reports/:id", async (context) => {
    const { status, body } = await lookUp(context.params.id);
    return context.json(body, { status });
  })
  // It is one address: all that it answers stands behind the `?`.
  .all("/admin/queue", (context) => operators(context.req));

await runBeside(await serve(app.handler()), queue);
