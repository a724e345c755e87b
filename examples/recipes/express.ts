/**
 * Express, on Node; also on Deno and Bun.
 *
 * @module
 */
import type { AddressInfo } from "node:net";
import { dashboard, toNodeHandler } from "@x/queue/dashboard";
import express from "express";
import { lookUp, order, queue } from "./reports.ts";
import { announce, hostname, port } from "./serve.ts";
import { runBeside } from "./stopping.ts";

const app = express();

// Before whatever parses bodies: it reads its own.
app.use("/admin/queue", toNodeHandler(dashboard(queue)));

app.post("/reports", express.text({ type: "*/*", limit: "1mb" }), async (request, response) => {
  const { status, body } = await order(request.body ?? "");
  response.status(status).json(body);
});

app.get("/reports/:id", async (request, response) => {
  const { status, body } = await lookUp(request.params.id);
  response.status(status).json(body);
});

const server = app.listen(port, hostname, (error?: Error | null) => {
  if (error) throw error;
  announce((server.address() as AddressInfo).port);
});
await runBeside({ close: () => new Promise((resolve) => void server.close(resolve)) }, queue);
