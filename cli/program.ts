import { Argument, Command, InvalidArgumentError } from "commander";
import { type Jobs, serveJobs } from "../mod.ts";
import { VERSION } from "../version.ts";
import { cancel, type CancelOptions } from "./cancel.ts";
import { clear, type ClearOptions } from "./clear.ts";
import { ASKED, COMPLETE, complete } from "./complete.ts";
import { completions, type CompletionsOptions, SHELLS } from "./completions.ts";
import type { Context } from "./context.ts";
import { DASHBOARD_HOST, DASHBOARD_PORT, type DashboardOptions, serveDashboard } from "./dashboard.ts";
import { dispatch, type DispatchOptions } from "./dispatch.ts";
import { DURATION_SYNTAX } from "./duration.ts";
import { readEnvironment } from "./environment.ts";
import { failed, type FailedOptions } from "./failed.ts";
import { doctor, type DoctorOptions } from "./doctor.ts";
import { addFilter } from "./failed_filter.ts";
import { LOG_FORMATS } from "./log.ts";
import { flush, type ForgetManyOptions, moveFailed, type MoveOptions, pruneFailed } from "./move_failed.ts";
import { monitor, type MonitorOptions } from "./monitor.ts";
import { flat } from "./one_line.ts";
import { address, duration, failedId, notEmpty, oneOf, wholeNumber } from "./option_values.ts";
import type { Output } from "./output.ts";
import { pause, type PauseOptions, resume } from "./pause_resume.ts";
import { restart, type RestartOptions } from "./restart.ts";
import { CHILD } from "./processes.ts";
import { show, type ShowOptions } from "./show.ts";
import { slipLine } from "./slips.ts";
import { status, type StatusOptions } from "./status.ts";
import { suggest } from "./suggest.ts";
import { work, type WorkOptions } from "./work.ts";
import { workers, type WorkersOptions } from "./workers.ts";

const SETTINGS = `
Settings come from the environment, then from .env in the current folder:
  DB_DATABASE        the SQLite file (default: storage/database.sqlite)
  QUEUE_CONNECTION   database (default), or redis at REDIS_URL with keys that start with REDIS_PREFIX
  QUEUE_JOBS         the jobs module (default: jobs.ts or jobs.js)
  QUEUE_TRIES        attempts in total (default: 3)
  QUEUE_RETRY_AFTER  seconds until the job of a worker that died runs again (default: 90)
  QUEUE_GRACE        seconds for running jobs after a signal, unless --grace says so (default: 30)
  QUEUE_WORKERS      jobs at a time, unless --concurrency says so (default: 1)
  QUEUE_METRICS      where queue:work serves its metrics, unless --metrics says so (default: nowhere)
  QUEUE_OTEL         1: queue:work traces and measures through @opentelemetry/api

Exit status: 0 done; 1 the store failed, or nothing matched; 2 the command or a setting cannot work.`;

/**
 * Runs a command with what it needs to know of the process. `silent`: it says itself which settings were misspelt, or
 * nobody reads what it says.
 */
type Act = (command: (context: Context) => Promise<number>, silent?: boolean) => Promise<void>;

/**
 * Parses a command line, runs its command and returns the exit status.
 *
 * @throws {CommanderError} After help, the version or a usage error was printed.
 */
export async function run(argv: readonly string[], jobs: Jobs | undefined, output: Output): Promise<number> {
  let status = 0;
  const act: Act = async (command, silent = false) => {
    // Not before: help must not fail on a setting.
    const { env, slips } = readEnvironment();
    if (!silent) { for (const slip of slips) output.problem(`queue: ${slipLine(slip)}`); }
    status = await command({ jobs, env, slips, argv, output });
  };
  const program = new Command()
    .description("Background jobs on SQLite or Redis: work, look at and repair a queue.")
    .version(VERSION, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this")
    .helpCommand(false)
    .exitOverride()
    .configureOutput({
      writeOut: output.write,
      writeErr: output.writeError,
      outputError: (text, write) => write(text.replace(/^error: /, "queue: ").replace(/[^\n]+/g, flat)),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    // The program has no name of its own: it may be an app's.
    .configureHelp({
      commandUsage: (command) => `${command.parent ? command.name() : ""} ${command.usage()}`.trim(),
    })
    .usage("<command> [options]")
    .addHelpText("after", ({ error }) => error ? "" : SETTINGS);
  addWork(program, act, jobs === undefined);
  addMove(program, act, "retry", "put failed jobs back on their queues, with no attempts counted");
  addMove(program, act, "forget", "delete failed jobs");
  addFlush(program, act);
  addPruneFailed(program, act);
  addFailed(program, act);
  addStatus(program, act);
  addMonitor(program, act);
  addShow(program, act);
  addWorkers(program, act);
  addDoctor(program, act);
  addDispatch(program, act, jobs === undefined);
  addPause(program, act, "pause", "hold a queue, or all: no worker starts its jobs");
  addPause(program, act, "resume", "let workers go on with a queue, or with all");
  addRestart(program, act);
  addCancel(program, act);
  addDashboard(program, act);
  addClear(program, act);
  addCompletions(program, act);
  addChild(program, act);
  addComplete(program, act);
  for (const command of program.commands) {
    command.showHelpAfterError(`Usage: ${command.name()} ${command.usage()}\nSee ${command.name()} --help`);
  }
  program.showHelpAfterError("See --help");
  program.on("command:*", ([word]: string[]) => refuseCommand(program, word!));
  await program.parseAsync(argv, { from: "user" });
  return status;
}

/** As commander does by itself, but `work` is answered with `queue:work`, too. */
function refuseCommand(program: Command, word: string): void {
  const own = (name: string): string => name.slice(name.lastIndexOf(":") + 1);
  const near = suggest(own(word), program.commands.map((one) => own(one.name())));
  const hint = near === undefined ? "" : `\n(Did you mean queue:${near}?)`;
  program.error(`error: unknown command '${word}'${hint}`, { code: "commander.unknownCommand" });
}

function addWork(program: Command, act: Act, fromModule: boolean): void {
  const command = program.command("queue:work")
    .description(
      "Run jobs until SIGTERM, SIGINT or SIGHUP, which give the running jobs a grace; a second signal stops at once.",
    )
    .summary("run jobs until a signal")
    .option(
      "--queue <names>",
      "high,default: in strict order; high:3,low:1: by weight (default: every queue)",
      notEmpty,
    )
    .option(
      "-c, --concurrency <n>",
      "jobs at a time (default: QUEUE_WORKERS, or 1)",
      wholeNumber(1, 10_000),
    )
    .option("--prefetch <n>", "jobs to take ahead of free slots (default: 0)", wholeNumber(0, 1000))
    .option("--once", "run one job, if one is due, and stop")
    .option("--stop-when-empty", "stop when no job is due")
    .option(
      "--max-jobs <n>",
      "stop after this many attempts; with --processes: replace a process after this many",
      wholeNumber(1),
    )
    .option("--max-time <duration>", `stop after this long: ${DURATION_SYNTAX}`, duration(1))
    .option(
      "--grace <duration>",
      "how long running jobs may take after a signal (default: QUEUE_GRACE, or 30)",
      duration(0),
    )
    .option(
      "-p, --processes <n>",
      "run the handlers in so many processes (default: in this one)",
      wholeNumber(1, 1000),
    )
    .option(
      "--memory <mb>",
      "with --processes: replace one that has grown beyond so many megabytes",
      wholeNumber(1),
    )
    .option(
      "--child-flags <flags>",
      "with --processes: flags of the runtime for each, such as Deno's permissions",
    )
    .option(
      "--metrics <address>",
      "serve /metrics for Prometheus, and /health: [HOST:]PORT, by default on 127.0.0.1 (default: QUEUE_METRICS)",
      address,
    )
    .option("--log <format>", "print a record of LogTape for each event: json or pretty", oneOf(LOG_FORMATS))
    .option("--quiet", "print only problems")
    .option("--json", "print a line of JSON for each event");
  if (fromModule) addJobs(command);
  addDatabase(command).action((options: WorkOptions) => act((context) => work(options, context)));
}

/** Not in the help: only `queue:work --processes` starts it. */
function addChild(program: Command, act: Act): void {
  program.command(CHILD, { hidden: true })
    .description("Run the jobs that the queue:work which started this sends.")
    .helpOption("-h, --help", "print this")
    .action(() => act(({ jobs }) => serveJobs(jobs), true));
}

function addMove(program: Command, act: Act, verb: "retry" | "forget", summary: string): void {
  const command = program.command(`queue:${verb}`)
    .summary(summary)
    .description(
      `${summary[0]!.toUpperCase()}${summary.slice(1)}: those that are named, all, or those that match. ` +
        "An id that is unknown, or a filter that none matches, makes the exit status 1.",
    )
    .argument("[id...]", "ids as queue:failed shows them, or: all");
  addFilter(command)
    .option("--dry-run", "only say how many that would be, and show the first ones")
    .option("--json", "print one JSON document");
  addDatabase(command).action((ids: string[], options: MoveOptions) =>
    act((context) => moveFailed(verb, ids, options, context))
  );
}

function addFlush(program: Command, act: Act): void {
  const command = program.command("queue:flush")
    .summary("delete all failed jobs")
    .description("Delete all failed jobs. In production (APP_ENV) it asks first.")
    .option("--force", "do not ask")
    .option("--dry-run", "only say how many that would be, and show the first ones")
    .option("--json", "print one JSON document");
  addDatabase(command).action((options: ForgetManyOptions) => act((context) => flush(options, context)));
}

function addPruneFailed(program: Command, act: Act): void {
  const command = program.command("queue:prune-failed")
    .summary("delete failed jobs of a certain age, as from cron")
    .description("Delete the failed jobs that failed longer ago. It asks nobody, so cron can run it.")
    .requiredOption("--hours <n>", "how many hours ago, or longer", wholeNumber(1, 1_000_000))
    .option("--dry-run", "only say how many that would be, and show the first ones")
    .option("--json", "print one JSON document");
  addDatabase(command).action((options: ForgetManyOptions & { hours: number }) =>
    act((context) => pruneFailed(options, context))
  );
}

function addFailed(program: Command, act: Act): void {
  const command = program.command("queue:failed")
    .summary("list failed jobs")
    .description("List failed jobs in the order of their ids, with the last error of each.");
  addFilter(command)
    .option("--limit <n>", "how many at most", wholeNumber(1, 1000), 50)
    .option("--after <id>", "only those that come after this id", failedId)
    .option("--reverse", "the highest id first")
    .option("--json", "print one JSON document, with payloads and stacks");
  addDatabase(command).action((options: FailedOptions) => act((context) => failed(options, context)));
}

function addStatus(program: Command, act: Act): void {
  const command = program.command("queue:status")
    .summary("count jobs by queue and state")
    .description(
      "Count the jobs of each queue by state, and show how long its oldest ready job has been waiting.",
    )
    .option("--json", "print one JSON document");
  addDatabase(command).action((options: StatusOptions) => act((context) => status(options, context)));
}

function addMonitor(program: Command, act: Act): void {
  const command = program.command("queue:monitor")
    .summary("look at queues, workers and failures, and raise an alarm")
    .description(
      "Look at the queues, their workers and the last failures. The exit status is 1 where something is wrong: jobs " +
        "wait that no worker serves, or in a paused queue, or more or longer than the options allow. With --watch, " +
        "look again and again, on a terminal in full screen, until q, Ctrl-C or a signal; then the last look decides.",
    )
    .option("--max <n>", "alarm when more jobs than this are ready in one queue", wholeNumber(0))
    .option(
      "--oldest <duration>",
      `alarm when a job has been ready for longer: ${DURATION_SYNTAX}`,
      duration(0),
    )
    .option("--watch", "look again and again")
    .option("--interval <duration>", "with --watch: the time between two looks (default: 1s)", duration(1))
    .option("--json", "print one JSON document; with --watch, a line for each look");
  addDatabase(command).action((options: MonitorOptions) => act((context) => monitor(options, context)));
}

function addShow(program: Command, act: Act): void {
  const command = program.command("queue:show")
    .summary("show all that is known of a job, and why it is not running")
    .description(
      "Show a job that waits, runs or has failed: its payload, its attempts, who runs it, and why it is not running. " +
        "An id that is unknown makes the exit status 1.",
    )
    .argument("<id>", "its id, as queue:dispatch, queue:work and queue:failed print it")
    .option("--json", "print one JSON document");
  addDatabase(command).action((id: string, options: ShowOptions) =>
    act((context) => show(id, options, context))
  );
}

function addWorkers(program: Command, act: Act): void {
  const command = program.command("queue:workers")
    .summary("list the workers and what they run")
    .description(
      "List the workers that the store has heard of within 30 s, in whatever process, and what they run.",
    )
    .option("--json", "print one JSON document");
  addDatabase(command).action((options: WorkersOptions) => act((context) => workers(options, context)));
}

function addDoctor(program: Command, act: Act): void {
  const command = program.command("queue:doctor")
    .summary("find out what is wrong, and what to do about it")
    .description(
      "Look at the settings, the store, the workers and the jobs that wait, each with what to do about it. " +
        "Anything bad makes the exit status 1.",
    )
    .option("--json", "print one JSON document");
  addDatabase(command).action((options: DoctorOptions) => act((context) => doctor(options, context), true));
}

function addDispatch(program: Command, act: Act, fromModule: boolean): void {
  const command = program.command("queue:dispatch")
    .summary("store a job")
    .description("Store a job, to be run by a worker.")
    .argument("<name>", "the name of its job type")
    .argument("[payload]", "its text, kept as it is, usually JSON; - reads standard input", "null")
    .option("--delay <duration>", `run no sooner than this from now: ${DURATION_SYNTAX}`, duration(0))
    .option("--queue <name>", "the queue (default: that of the job type)", notEmpty)
    .option(
      "--priority <n>",
      "higher runs first (default: that of the job type)",
      wholeNumber(-100, 100),
    )
    .option("--id <text>", "what you call it: a second dispatch with the same id stores nothing", notEmpty)
    .option("--json", "print one JSON document");
  if (fromModule) addJobs(command);
  addDatabase(command).action((name: string, payload: string, options: DispatchOptions) =>
    act((context) => dispatch(name, payload, options, context))
  );
}

function addPause(program: Command, act: Act, verb: "pause" | "resume", summary: string): void {
  const run = verb === "pause" ? pause : resume;
  const more = verb === "pause"
    ? "Running jobs finish. It holds for every process on the store, until queue:resume."
    : "Without a queue, every pause is lifted. A queue that is not paused makes the exit status 1.";
  const command = program.command(`queue:${verb}`)
    .summary(summary)
    .description(`${summary[0]!.toUpperCase()}${summary.slice(1)}. ${more}`)
    .option("--queue <name>", "the queue (default: every one)", notEmpty)
    .option("--json", "print one JSON document");
  addDatabase(command).action((options: PauseOptions) => act((context) => run(options, context)));
}

function addRestart(program: Command, act: Act): void {
  const command = program.command("queue:restart")
    .summary("tell the workers to end, as after a deploy")
    .description(
      "Tell every worker that runs by now to end after its running jobs, with exit status 0. What started them starts new ones.",
    )
    .option("--json", "print one JSON document");
  addDatabase(command).action((options: RestartOptions) => act((context) => restart(options, context)));
}

function addCancel(program: Command, act: Act): void {
  const command = program.command("queue:cancel")
    .summary("remove waiting jobs, and abort running ones")
    .description(
      "Remove jobs that wait. Those that run are aborted by their worker within 2 s, and failed unless they finish. " +
        "An id that is neither makes the exit status 1.",
    )
    .argument("<id...>", "ids as queue:dispatch and queue:work print them")
    .option("--json", "print one JSON document");
  addDatabase(command).action((ids: string[], options: CancelOptions) =>
    act((context) => cancel(ids, options, context))
  );
}

function addDashboard(program: Command, act: Act): void {
  const command = program.command("queue:dashboard")
    .summary("serve a web page that shows the queue, and repairs it")
    .description(
      "Serve the dashboard until SIGTERM, SIGINT or SIGHUP. On an address that others reach it needs QUEUE_DASHBOARD_TOKEN, " +
        "which it then asks for.",
    )
    .option("--port <n>", "the port; 0: any that is free", wholeNumber(0, 65_535), DASHBOARD_PORT)
    .option("--host <address>", "the address", notEmpty, DASHBOARD_HOST)
    .option("--read-only", "show everything, and change nothing")
    .option("--json", "print one JSON document, with the URL");
  addDatabase(command).action((options: DashboardOptions) =>
    act((context) => serveDashboard(options, context))
  );
}

function addClear(program: Command, act: Act): void {
  const command = program.command("queue:clear")
    .summary("remove waiting jobs")
    .description(
      "Remove the jobs that wait, ready or delayed, for good; those that run go on. In production (APP_ENV) it asks first.",
    )
    .option("--queue <name>", "the queue (default: every one)", notEmpty)
    .option("--force", "do not ask")
    .option("--dry-run", "only say how many that would be")
    .option("--json", "print one JSON document");
  addDatabase(command).action((options: ClearOptions) => act((context) => clear(options, context)));
}

function addCompletions(program: Command, act: Act): void {
  program.command("queue:completions")
    .summary("print the completions of a shell")
    .description(
      "Print a script by which a shell completes commands, options, queues and failed jobs; for bash: " +
        "source <(queue queue:completions bash)",
    )
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .option("--program <name>", "by which name, or alias, you call this program", programName, "queue")
    .helpOption("-h, --help", "print this")
    .action((shell: (typeof SHELLS)[number], options: CompletionsOptions) =>
      act((context) => {
        const commands = program.createHelp().visibleCommands(program);
        return Promise.resolve(completions(shell, options, commands, context));
      })
    );
}

/** Not in the help: the scripts of queue:completions ask by it. */
function addComplete(program: Command, act: Act): void {
  const command = program.command(COMPLETE, { hidden: true })
    .description("Print what a shell asks for while somebody types.")
    .addArgument(new Argument("<what>", "what is asked for").choices(ASKED));
  addDatabase(command).action((what: (typeof ASKED)[number], options: { database?: string }) =>
    act((context) => complete(what, options, context), true)
  );
}

/** An option's value as the name of a program, which goes into a script. */
function programName(text: string): string {
  if (/^[\w.][\w.-]*$/.test(text)) return text;
  throw new InvalidArgumentError("Expected a name of letters, digits, dots, dashes and underscores.");
}

function addJobs(command: Command): void {
  command.option(
    "--jobs <file>",
    "the module whose default export is the map of jobs (default: QUEUE_JOBS, or jobs.ts or jobs.js)",
    notEmpty,
  );
}

function addDatabase(command: Command): Command {
  return command
    .option(
      "--database <path>",
      "the SQLite file (default: DB_DATABASE, or storage/database.sqlite)",
      notEmpty,
    )
    .helpOption("-h, --help", "print this");
}
