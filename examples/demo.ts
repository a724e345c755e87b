/**
 * The queue at work, for real: an app that takes events over HTTP, a worker that delivers them as webhooks, and a
 * receiver that fails at times, each a process of its own. What you see is what they print, and every step is
 * checked: the exit status is 1 when one did not go as told.
 *
 * `deno task demo`, `bun examples/demo.ts`, or `node examples/demo.ts` (Node 24).
 *
 * @module
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { paint, Program, type ProgramOptions, runtime } from "./demo_program.ts";
import type { Taken } from "./webhooks/receiver.ts";

const started = performance.now();
const folder = await mkdtemp(join(tmpdir(), "queue-demo-"));
const env: Record<string, string> = {};
let interrupted = false;

async function demo(): Promise<void> {
  tell(
    "Three programs: a receiver of webhooks that fails at times, an app that takes events over HTTP, and a",
    "worker that delivers them. The queue between them is one SQLite file. There is no server to install.",
  );
  set({ DB_DATABASE: join(folder, "queue.sqlite"), QUEUE_RETRY_AFTER: "2", PORT: "0" });
  const receiver = start("examples/webhooks/receiver.ts", { label: "receiver", colour: 35 });
  const [, receiverUrl] = await receiver.printed(/takes webhooks at (\S+)/);
  set({ RECEIVER_URL: receiverUrl });
  const app = start("examples/webhooks/server.ts", { label: "app", colour: 34 });
  const [, eventsUrl] = await app.printed(/takes events at (\S+)/);
  const work = "cli.ts queue:work --jobs examples/webhooks/jobs.ts --concurrency 5";
  let worker = start(work, { label: "worker", colour: 32 });

  tell(
    "An order was paid: billing and the mailer want to know. The mailer is busy at first, so its job runs",
    "again a second later. A user joined: the CRM has no such hook, three times over, and the job is set aside.",
  );
  await post(eventsUrl, { id: "evt_1", type: "order.paid", data: { order: 7, total: "19.90" } });
  await post(eventsUrl, { id: "evt_2", type: "user.joined", data: { user: 3 } });
  await worker.printed(/DONE/, 2);
  await worker.printed(/FAIL/);

  tell("Nothing is lost: the failed job keeps its payload and its error until somebody decides.");
  const states = await run("cli.ts queue:status");
  check(/^default +0 +0 +0 +1 /m.test(states), "queue:status counts one failed job, and no other");
  const failed = await run("cli.ts queue:failed");
  const [, id] = failed.match(/^ *(\d+) /m) ?? [];
  check(failed.includes("crm answered 404: no such hook"), "queue:failed shows the crm's answer");

  tell("Somebody sets the hook up, and the job gets its three tries again.");
  await send("PUT", `${receiverUrl}/crm`);
  await run(`cli.ts queue:retry ${id}`);
  await worker.printed(/DONE/, 3);

  tell(
    "The archive is slow to answer. The worker is killed while it waits, as if the machine had died. Its job is",
    "held for 2 s (QUEUE_RETRY_AFTER), then the next worker takes it over. The receiver knows the event by its id.",
  );
  const posted = performance.now();
  await post(eventsUrl, { id: "evt_3", type: "month.closed", data: { month: "2026-11" } });
  await receiver.printed(/archive evt_3: 200 taken/);
  const latency = Math.round(performance.now() - posted);
  prompt(`kill -9 ${worker.pid}`);
  worker.kill("SIGKILL");
  check(await worker.ended() === null, "the signal ends the worker");
  worker = start(work, { label: "worker 2", colour: 33 });
  await worker.printed(/DONE/);

  tell(
    "A deploy, on the other hand, sends SIGTERM: the worker finishes what it runs, and takes nothing new.",
  );
  await post(eventsUrl, { id: "evt_4", type: "month.closed", data: { month: "2026-12" } });
  await receiver.printed(/archive evt_4: 200 taken/);
  prompt(`kill ${worker.pid}`);
  worker.kill("SIGTERM");
  const status = await worker.ended();
  console.log(`worker 2 ended with exit status ${status}`);
  check(status === 0, "the worker ends with exit status 0");
  await worker.printed(/DONE/, 2);

  tell(
    "What has arrived, by the receiver's own book: every event, and the killed worker's twice, known as such.",
  );
  const taken: Taken[] = JSON.parse(await send("GET", receiverUrl));
  const book = taken.map(({ hook, id, times }) => `${hook} ${id} ×${times}`).sort().join(", ");
  const expected = "archive evt_3 ×2, archive evt_4 ×1, billing evt_1 ×1, crm evt_2 ×1, mailer evt_1 ×1";
  check(book === expected, `the receiver took ${expected}, and not ${book}`);
  await run("cli.ts queue:status");

  app.kill("SIGTERM");
  receiver.kill("SIGTERM");
  check(
    await app.ended() === 0 && await receiver.ended() === 0,
    "the app and the receiver end with exit status 0",
  );

  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  tell(
    `Every step was checked, in ${seconds} s. The POST of evt_3 reached the receiver in ${latency} ms, by way of the app,`,
    "the file and the worker: a dispatch wakes a worker in another process, which need not wait to poll.",
  );
}

function tell(...lines: string[]): void {
  console.log("\n" + lines.map((line) => paint(1, `# ${line}`)).join("\n"));
}

function prompt(command: string): void {
  console.log(paint(36, `$ ${command}`));
}

/** Sets variables for every program that is started from here on. */
function set(variables: Record<string, string>): void {
  Object.assign(env, variables);
  prompt(`export ${Object.entries(variables).map(([name, value]) => `${name}=${value}`).join(" ")}`);
}

/** Starts a program beside the others. */
function start(command: string, options: ProgramOptions): Program {
  prompt(`${runtime} ${command} &`);
  return new Program(command, { ...options, env });
}

/** Runs a command to its end, and returns what it printed. */
async function run(command: string): Promise<string> {
  prompt(`${runtime} ${command}`);
  const program = new Program(command, { env });
  check(await program.ended() === 0, `${command} ends with exit status 0`);
  return program.output;
}

/** Sends a request, and shows it and the answer. */
async function send(method: string, url: string, body?: string): Promise<string> {
  console.log(paint(36, `> ${method} ${url}`) + (body === undefined ? "" : ` ${body}`));
  const response = await fetch(url, { method, body });
  const answer = (await response.text()).trim();
  console.log(`${paint(36, `< ${response.status}`)} ${answer}`);
  check(response.ok, `${method} ${url} is answered with success`);
  return answer;
}

async function post(url: string, event: Record<string, unknown>): Promise<void> {
  await send("POST", url, JSON.stringify(event));
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`this should hold: ${what}`);
}

async function cleanUp(): Promise<void> {
  await Program.killAll();
  await rm(folder, { recursive: true, force: true });
}

for (const [signal, status] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
  process.once(signal, async () => {
    interrupted = true;
    await cleanUp();
    process.exit(status);
  });
}
try {
  await demo();
} catch (error) {
  if (!interrupted) console.error(`\nThe demo failed. ${error instanceof Error ? error.message : error}`);
  process.exitCode = 1;
} finally {
  await cleanUp();
}
