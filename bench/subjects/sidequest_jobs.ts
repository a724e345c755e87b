/** The jobs file that sidequest loads: its handler does nothing but count. */
import { peer } from "../peers.ts";

const { Job } = await peer("sidequest/dist/index.js");

let ran: () => void = () => {};

/** Calls this each time that the job ran. */
export function onRun(call: () => void): void {
  ran = call;
}

/** Does nothing. */
export class NoOp extends Job {
  run(): void {
    ran();
  }
}
