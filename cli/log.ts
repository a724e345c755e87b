import type { Log, Queue } from "../mod.ts";
import { logEvents } from "../logs.ts";
import { CommandError } from "./command_error.ts";
import { flat } from "./one_line.ts";
import type { Output } from "./output.ts";

/** How records are written. */
export const LOG_FORMATS = ["json", "pretty"] as const;

/** What takes the place of the lines for people. */
export interface Logging {
  /** Takes the queue's own lines. */
  readonly log: Log;
  /** Logs what a queue tells. */
  follow(queue: Queue): void;
  /** Leaves LogTape as it was. */
  close(): Promise<void>;
}

/**
 * Has LogTape write records to standard output. Where the app has configured it itself, that holds instead.
 *
 * @throws {CommandError} 2 where LogTape is not there.
 */
export async function startLogging(format: typeof LOG_FORMATS[number], output: Output): Promise<Logging> {
  const {
    configure,
    getAnsiColorFormatter,
    getConfig,
    getJsonLinesFormatter,
    getLogger,
    getTextFormatter,
    reset,
  } = await logTape();
  const isOurs = getConfig() === null;
  if (isOurs) {
    const write = format === "json"
      ? getJsonLinesFormatter()
      : output.colour
      ? getAnsiColorFormatter()
      : getTextFormatter();
    const sinks = { output: (record: Parameters<typeof write>[0]) => output.write(write(record)) };
    await configure({
      sinks,
      loggers: [
        { category: "queue", lowestLevel: "debug", sinks: ["output"] },
        { category: ["logtape", "meta"], lowestLevel: "warning", sinks: ["output"] },
      ],
    });
  }
  const logger = getLogger("queue");
  let end = (): void => {};
  return {
    log: {
      warn: (line) => logger.warn("{line}", { line: flat(line) }),
      error: (line) => logger.error("{line}", { line: flat(line) }),
    },
    follow: (queue) => end = logEvents(queue, logger),
    close: async () => {
      end();
      if (isOurs) await reset();
    },
  };
}

async function logTape(): Promise<typeof import("@logtape/logtape")> {
  try {
    return await import("@logtape/logtape");
  } catch (error) {
    throw new CommandError(
      2,
      `--log: expected @logtape/logtape to be installed: ${(error as Error).message}`,
    );
  }
}
