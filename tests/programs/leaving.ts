/** Ends, without process.exit, once nothing keeps the process alive. */
import { Queue } from "../../mod.ts";
import { options, say } from "./say.ts";

const { database, way } = options;
const ran = Promise.withResolvers<void>();
const queue = new Queue({ database, jobs: { record: () => ran.resolve() }, env: {} });

const ways: Record<string, () => Promise<void>> = {
  async dispatched() {
    await queue.dispatch("record");
  },
  async stopped() {
    const workers = queue.start(3);
    await queue.dispatch("record");
    await ran.promise;
    await workers.stop();
  },
  async idle() {
    const workers = queue.start(3);
    await queue.open();
    await workers.stop();
  },
  async aborted() {
    const stopping = new AbortController();
    const working = queue.work({ signal: stopping.signal });
    await queue.dispatch("record");
    await ran.promise;
    stopping.abort();
    await working;
  },
  async closed() {
    await ways.stopped();
    await queue.close();
  },
  async delayed() {
    await queue.dispatchLater("record", undefined, { days: 300 });
    await queue.work({ maxTime: 50 });
  },
};
await ways[way]();
say("done");
