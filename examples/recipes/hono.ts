/**
 * Hono, on Deno, Bun and Node.
 *
 * @module
 */
import { dashboard } from "@x/queue/dashboard";
import { Hono } from "hono";
import { lookUp, order, queue } from "./reports.ts";
import { serve } from "./serve.ts";
import { runBeside } from "./stopping.ts";

const app = new Hono();

app.post("/reports", async (context) => {
  const { status, body } = await order(await context.req.text());
  return context.json(body, status);
});

app.get("/reports/:id", async (context) => {
  const { status, body } = await lookUp(context.req.param("id"));
  return context.json(body, status);
});

// It is one address: all that it answers stands behind the `?`. Hono takes the path off.
app.mount("/admin/queue", dashboard(queue));

await runBeside(await serve(app.fetch), queue);
