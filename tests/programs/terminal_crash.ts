/** Takes the terminal as `queue:monitor --watch` does, and dies of an error that nobody expected. */
import process from "node:process";
import { Terminal } from "../../cli/monitor/terminal.ts";

const terminal = new Terminal((text) => void process.stdout.write(text));
terminal.enter();
terminal.draw(["about to crash"]);
terminal.onKey = () => {
  throw new Error("nobody expected this");
};
