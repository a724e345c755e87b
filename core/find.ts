/**
 * All that is known of one job, and why it is not running.
 *
 * @module
 */
import type { AttemptRecord, Driver, FailedJob, Paused, Progress, StoredJob, WorkerInfo } from "./driver.ts";

/** Who runs a job. */
export interface JobHolder {
  /** The worker's id, as in {@linkcode WorkerInfo}. */
  readonly worker: string;
  /** The name of its machine. */
  readonly host: string;
  /** Its process. */
  readonly pid: number;
  /** When the handler began, in epoch milliseconds of the worker's clock. */
  readonly since: number;
}

/**
 * Why a job is not running, or, at `leased`, why no other worker takes it.
 *
 * | code | meaning |
 * |---|---|
 * | `failed` | it has failed, and runs again when somebody retries it |
 * | `cancelled` | it was cancelled while a worker had it |
 * | `leased` | a worker has it, `until` then unless that renews its lease |
 * | `abandoned` | its lease is over: the next worker that looks takes it |
 * | `delayed` | it is not due `until` then |
 * | `paused` | its queue is paused, or all are |
 * | `noWorker` | no worker takes jobs from its queue |
 * | `noHandler` | workers take jobs from its queue, and none has a handler of its name |
 * | `busy` | all slots of these workers are taken |
 * | `behind` | other jobs come first: so many `jobs`, or more |
 */
export type ReasonCode =
  | "failed"
  | "cancelled"
  | "leased"
  | "abandoned"
  | "delayed"
  | "paused"
  | "noWorker"
  | "noHandler"
  | "busy"
  | "behind";

/** One reason why a job is not running. */
export interface Reason {
  /** Which one. */
  readonly code: ReasonCode;
  /** A sentence that says it; without the time of `until`, which each reader writes in its own way. */
  readonly text: string;
  /** At `delayed` and `leased`: epoch milliseconds. */
  readonly until?: number;
  /** At `behind`: how many, 1,000 at most. */
  readonly jobs?: number;
}

/** All that is known of one job. */
export interface JobDetail {
  /** What `dispatch` returned; of a failed job, the id that it was asked for by. */
  readonly id: string;
  /** The name of its job type. */
  readonly name: string;
  /** The stored text. */
  readonly payload: string;
  /** Its queue. */
  readonly queue: string;
  /** Its priority. */
  readonly priority: number;
  /** Where it stands. One whose lease is over is `ready`. */
  readonly state: "ready" | "delayed" | "reserved" | "failed";
  /** Attempts so far, one that runs counted; `null` where another program failed it. */
  readonly attempts: number | null;
  /** Since when it has been due, or when it will be, in epoch milliseconds; `null` where the store does not know. */
  readonly dueAt: number | null;
  /** When its lease ends, or ended, unless it is renewed, in epoch milliseconds; `null` where no worker has it. */
  readonly leasedUntil: number | null;
  /** Who runs it; `null` where nobody does, or the worker has not told yet. */
  readonly holder: JobHolder | null;
  /** How far its handler says that it is. */
  readonly progress: Progress | null;
  /** Whether it was cancelled while a worker had it. */
  readonly cancelled: boolean;
  /** When it failed, in epoch milliseconds; `null` where it has not. */
  readonly failedAt: number | null;
  /** Its last error; `null` where it has not failed. */
  readonly error: string | null;
  /** The stack of that. */
  readonly stack: string | null;
  /** Its attempts that failed. */
  readonly history: readonly AttemptRecord[];
  /** Why it is not running, what weighs most first; empty where the next worker that looks takes it. */
  readonly reasons: readonly Reason[];
}

/** How often a job is looked for: it may fail, or be retried, between two looks. */
const LOOKS = 2;

/** How many job types a worker names at most: of one that names so many, not all are known. */
const MOST_NAMES = 1000;

/**
 * Finds a job, wherever it stands; `null` where there is none.
 *
 * @param retryAfter How long a lease lasts, in milliseconds.
 */
export async function findJob(driver: Driver, id: string, retryAfter: number): Promise<JobDetail | null> {
  for (let look = 0; look < LOOKS; look++) {
    const stored = await driver.find(id, null, retryAfter);
    if (stored !== null) return await detailOf(driver, stored);
    const [failed] = await driver.failed({ ids: [id] });
    if (failed !== undefined) return detailOfFailed(failed);
  }
  return null;
}

async function detailOf(driver: Driver, stored: StoredJob): Promise<JobDetail> {
  const [workers, { paused }, progress] = await Promise.all([
    driver.workers(null),
    driver.controls(),
    driver.progress(stored.id),
  ]);
  const { ahead: _, ...job } = stored;
  const holder = stored.state === "reserved" ? holderOf(stored, workers) : null;
  return {
    ...job,
    holder,
    progress,
    failedAt: null,
    error: null,
    stack: null,
    reasons: [...reasonsOf(stored, workers, paused, holder)],
  };
}

function detailOfFailed({ failedAt, error, stack, history, ...job }: FailedJob): JobDetail {
  return {
    ...job,
    state: "failed",
    dueAt: null,
    leasedUntil: null,
    holder: null,
    progress: null,
    cancelled: false,
    failedAt,
    error,
    stack,
    history,
    reasons: [{ code: "failed", text: `it has failed: queue:retry ${job.id} runs it again` }],
  };
}

function holderOf({ id, attempts }: StoredJob, workers: readonly WorkerInfo[]): JobHolder | null {
  for (const worker of workers) {
    const job = worker.running.find((one) => one.id === id && one.attempt === attempts);
    if (job === undefined) continue;
    return { worker: worker.id, host: worker.host, pid: worker.pid, since: job.since };
  }
  return null;
}

function* reasonsOf(
  job: StoredJob,
  workers: readonly WorkerInfo[],
  paused: Paused,
  holder: JobHolder | null,
): Generator<Reason> {
  const { queue, name, state } = job;
  if (state === "reserved") {
    if (job.cancelled) {
      yield { code: "cancelled", text: "it was cancelled, and its worker is told to end it" };
    }
    const whose = holder === null
      ? "a worker that has not told of it yet, or has died, holds it"
      : `${holder.host}:${holder.pid} runs it`;
    yield { code: "leased", text: whose, until: job.leasedUntil! };
    return;
  }
  if (job.cancelled) yield { code: "cancelled", text: "it was cancelled: the next worker fails it" };
  if (state === "delayed") yield { code: "delayed", text: "it is not due yet", until: job.dueAt! };
  if (job.leasedUntil !== null) {
    yield {
      code: "abandoned",
      text: "its lease is over, as its worker has died or is stuck: the next one takes it",
    };
  }
  if (paused.all) yield { code: "paused", text: "every queue is paused: queue:resume lets workers go on" };
  if (paused.queues.includes(queue)) {
    yield {
      code: "paused",
      text: `the queue ${queue} is paused: queue:resume --queue=${queue} lets workers go on`,
    };
  }
  const able = workers.filter(({ queues }) => queues === null || queues.includes(queue));
  if (able.length === 0) {
    const text = workers.length === 0
      ? "no worker is running"
      : `no worker takes jobs from the queue ${queue}`;
    yield { code: "noWorker", text };
  } else if (!able.some((worker) => mayRun(worker, name))) {
    yield {
      code: "noHandler",
      text: `no worker of the queue ${queue} has a handler named ${JSON.stringify(name)}`,
    };
  } else if (state === "ready" && able.every(({ busy, concurrency }) => busy >= concurrency)) {
    const slots = able.reduce((sum, { concurrency }) => sum + concurrency, 0);
    yield { code: "busy", text: `all ${slots} ${slots === 1 ? "slot is" : "slots are"} taken` };
  }
  if (job.ahead !== null && job.ahead > 0) {
    const text = `${job.ahead === 1 ? "1 job comes" : `${job.ahead} jobs come`} before it`;
    yield {
      code: "behind",
      text: job.ahead >= 1000 ? `1000 jobs or more come before it` : text,
      jobs: job.ahead,
    };
  }
}

/** Whether a worker has a handler of that name, as far as it told. */
export function mayRun({ names }: WorkerInfo, name: string): boolean {
  return names.includes(name) || names.length >= MOST_NAMES;
}
