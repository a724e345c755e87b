/** Dispatches job after job, and says each that was accepted. */
import { Queue } from "../../mod.ts";
import { options, say } from "./say.ts";

const { database, jobs, at } = options;
const queue = new Queue({ database, jobs: { record: {} }, env: {} });
// Several of these begin at the same moment.
while (Date.now() < (at ?? 0));
for (let index = 0; index < (jobs ?? Infinity); index++) {
  const { id } = await queue.dispatch("record", String(index));
  say("accepted", String(index), id);
}
await queue.close();
say("ended");
