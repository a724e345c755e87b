/**
 * Oak, on Deno.
 *
 * @module
 */
import { dashboard } from "@x/queue/dashboard";
import { Application, Router } from "@oak/oak";
import { lookUp, order, queue } from "./reports.ts";
import { announce, hostname, port } from "./serve.ts";
import { runBeside } from "./stopping.ts";

const operators = dashboard(queue);
const router = new Router();

router.post("/reports", async ({ request, response }) => {
  Object.assign(response, await order(await request.body.text()));
});

router.get("/reports/:id", async ({ params, response }) => {
  Object.assign(response, await lookUp(params.id));
});

// It is one address: all that it answers stands behind the `?`.
router.all("/admin/queue", async ({ request, response }) => {
  response.with(await operators(request.source!));
});

const app = new Application();
app.use(router.routes(), router.allowedMethods());

const closing = new AbortController();
app.addEventListener("listen", ({ port }) => announce(port));
const listening = app.listen({ hostname, port, signal: closing.signal });
await runBeside({
  close: () => {
    closing.abort();
    return listening;
  },
}, queue);
