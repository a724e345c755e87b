/**
 * The settings of a queue: from its options first, then the environment, then the defaults of the original.
 *
 * @module
 */
import process from "node:process";
import { DEFAULT_BACKOFF } from "./backoff.ts";
import { type Duration, toMilliseconds } from "./duration.ts";
import { QueueError } from "./errors.ts";
import { show } from "./show.ts";

/** The environment variables that the queue reads: all of `process.env` that it may see. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The settings that can be given as options; each one left out is read from the environment. */
export interface SettingOptions {
  /** Which store: `QUEUE_CONNECTION`, by default `"database"`; or `"redis"`. */
  connection?: "database" | "redis";
  /** Where Redis is, with `connection: "redis"`: `REDIS_URL` and `REDIS_PREFIX`. */
  redis?: RedisSettings;
  /**
   * Where failed jobs are kept with `connection: "redis"`: `QUEUE_FAILED`, by default `"database"`, in `failed_jobs` of
   * the app's database; or `"redis"`.
   */
  failed?: "database" | "redis";
  /** Attempts in total: `QUEUE_TRIES`, by default 3. 0 counts as 1, as in the original. */
  tries?: number;
  /**
   * How long a reservation lasts unless it is renewed: `QUEUE_RETRY_AFTER` in seconds, by default 90. A worker renews
   * it at a third of that while the handler runs; after a crash the job runs again once it has passed.
   */
  retryAfter?: Duration;
  /**
   * How long running jobs may take after a stop, before they are aborted and handed back: `QUEUE_GRACE` in seconds, by
   * default 30.
   */
  grace?: Duration;
  /** How many jobs `start()` runs at a time: `QUEUE_WORKERS`, by default 1, or 0 when `APP_ENV=production`. */
  workers?: number;
  /** How long to wait before the second, third and later attempts. Default: 10, 60, 300 s. */
  backoff?: Duration | readonly Duration[];
  /** How long one attempt may take. Default: no limit. */
  timeout?: Duration;
  /** The largest payload in bytes of UTF-8: `QUEUE_MAX_PAYLOAD`, by default 1,048,576 (1 MiB). */
  maxPayload?: number;
  /**
   * What an accepted job survives: `QUEUE_SYNCHRONOUS`, by default `"normal"`, a crash of the process; `"full"`, a
   * power cut too, at one disk flush a transaction.
   */
  synchronous?: "normal" | "full";
}

/** Where Redis is. */
export interface RedisSettings {
  /**
   * `redis://[user:password@]host[:port][/database]`, `rediss://` for TLS, or the path of a unix socket: `REDIS_URL`,
   * by default `redis://127.0.0.1:6379`.
   */
  url?: string;
  /**
   * What stands before every key: `REDIS_PREFIX`. Required when `APP_ENV=production`. On Redis Cluster it needs a hash
   * tag, such as `{app}:`.
   */
  prefix?: string;
  /** Options of `node:tls` for `rediss://`, such as `ca`. */
  tls?: object;
  /**
   * Opens a connection with a client of your own, instead of one by `url`; called again whenever one is lost. Each call
   * is under the queue's own deadlines.
   */
  connect?: () => Promise<{
    /** Sends one command and resolves with its reply: strings, numbers, null, and arrays of those. */
    sendCommand(command: string[]): Promise<unknown>;
    /** Closes it. */
    close?(): unknown;
    /** Whether it is known to be closed. */
    readonly closed?: boolean;
  }>;
}

/** The settings in force. Durations are milliseconds. */
export interface Settings {
  readonly connection: "database" | "redis";
  readonly database: string;
  readonly redis: RedisSettings & { readonly url: string; readonly prefix: string };
  readonly failed: "database" | "redis";
  readonly tries: number;
  readonly retryAfter: number;
  readonly grace: number;
  readonly workers: number;
  readonly backoff: readonly number[];
  readonly timeout: number | null;
  readonly maxPayload: number;
  readonly synchronous: "normal" | "full";
}

/** How many jobs one worker runs at a time, at most. */
export const MOST_WORKERS = 10_000;

/** How long running jobs may take after a stop unless `QUEUE_GRACE` says otherwise, in milliseconds. */
export const DEFAULT_GRACE = 30_000;

/** Where jobs are stored unless `DB_DATABASE` says otherwise. */
export const DEFAULT_DATABASE = "storage/database.sqlite";

/**
 * Reads the settings.
 *
 * @throws {QueueError} `CONFIG`, naming the setting, what it was and what is expected.
 */
export function readSettings(options: SettingOptions, env: Environment): Settings {
  const connection = oneOf("QUEUE_CONNECTION", options.connection ?? env.QUEUE_CONNECTION, [
    "database",
    "redis",
  ]);
  return {
    connection,
    database: env.DB_DATABASE || DEFAULT_DATABASE,
    redis: readRedis(options.redis, env, connection),
    failed: oneOf("QUEUE_FAILED", options.failed ?? env.QUEUE_FAILED, ["database", "redis"]),
    tries: Math.max(1, wholeNumber("QUEUE_TRIES", options.tries ?? env.QUEUE_TRIES, 3, 0)),
    retryAfter: options.retryAfter === undefined
      ? wholeNumber("QUEUE_RETRY_AFTER", env.QUEUE_RETRY_AFTER, 90, 1) * 1000
      : atLeastOne(toMilliseconds(options.retryAfter, "retryAfter"), "retryAfter"),
    grace: options.grace === undefined
      ? wholeNumber("QUEUE_GRACE", env.QUEUE_GRACE, DEFAULT_GRACE / 1000, 0) * 1000
      : toMilliseconds(options.grace, "grace"),
    workers: wholeNumber(
      "QUEUE_WORKERS",
      options.workers ?? env.QUEUE_WORKERS,
      isProduction(env) ? 0 : 1,
      0,
      MOST_WORKERS,
    ),
    backoff: options.backoff === undefined ? DEFAULT_BACKOFF : toBackoff(options.backoff, "backoff"),
    timeout: options.timeout === undefined
      ? null
      : atLeastOne(toMilliseconds(options.timeout, "timeout"), "timeout"),
    maxPayload: wholeNumber("QUEUE_MAX_PAYLOAD", options.maxPayload ?? env.QUEUE_MAX_PAYLOAD, 1_048_576, 1),
    synchronous: oneOf("QUEUE_SYNCHRONOUS", options.synchronous ?? env.QUEUE_SYNCHRONOUS, ["normal", "full"]),
  };
}

function readRedis(options: RedisSettings = {}, env: Environment, connection: string): Settings["redis"] {
  if (typeof options !== "object" || options === null) {
    throw new QueueError("CONFIG", `redis=${show(options)}: expected { url, prefix }`);
  }
  refuseUnknown(options, ["url", "prefix", "tls", "connect"], "redis");
  const { url = env.REDIS_URL || "redis://127.0.0.1:6379", prefix = env.REDIS_PREFIX ?? "" } = options;
  if (typeof url !== "string") throw new QueueError("CONFIG", "redis.url: expected text");
  if (typeof prefix !== "string") {
    throw new QueueError("CONFIG", `redis.prefix=${show(prefix)}: expected text`);
  }
  if (options.connect !== undefined && typeof options.connect !== "function") {
    throw new QueueError("CONFIG", `redis.connect=${show(options.connect)}: expected a function`);
  }
  if (connection === "redis" && prefix === "" && isProduction(env)) {
    throw new QueueError(
      "CONFIG",
      "REDIS_PREFIX is required with APP_ENV=production: apps sharing a Redis would run each other's jobs",
    );
  }
  return { ...options, url, prefix };
}

/** Whether `APP_ENV` is `production`. */
function isProduction(env: Environment): boolean {
  return env.APP_ENV === "production";
}

/** The environment variables that the queue, and its command line, read: others are none of its settings. */
export const VARIABLES: readonly string[] = [
  "APP_ENV",
  "DB_DATABASE",
  "QUEUE_CONNECTION",
  "QUEUE_FAILED",
  "QUEUE_GRACE",
  "QUEUE_JOBS",
  "QUEUE_MAX_PAYLOAD",
  "QUEUE_METRICS",
  "QUEUE_OTEL",
  "QUEUE_RETRY_AFTER",
  "QUEUE_SYNCHRONOUS",
  "QUEUE_TRIES",
  "QUEUE_WORKERS",
  "REDIS_PREFIX",
  "REDIS_URL",
];

/** The queue's variables of this process. One that Deno gives no permission for counts as not set. */
export function processEnvironment(): Environment {
  const env: Record<string, string | undefined> = {};
  for (const name of VARIABLES) {
    try {
      env[name] = process.env[name];
    } catch {
      // Deno throws NotCapable without --allow-env for this name: the default holds then.
    }
  }
  return env;
}

/**
 * The waits between attempts, in milliseconds.
 *
 * @throws {QueueError} `CONFIG` for an empty list or an entry that is no duration.
 */
export function toBackoff(backoff: Duration | readonly Duration[], setting: string): readonly number[] {
  const waits = Array.isArray(backoff) ? backoff as readonly Duration[] : [backoff as Duration];
  if (waits.length === 0) {
    throw new QueueError(
      "CONFIG",
      `${setting}=[]: expected at least one duration, such as [{ seconds: 10 }]`,
    );
  }
  return waits.map((wait) => toMilliseconds(wait, setting));
}

/**
 * A duration that must pass.
 *
 * @throws {QueueError} `CONFIG` for less than a millisecond.
 */
export function atLeastOne(milliseconds: number, setting: string): number {
  if (milliseconds < 1) {
    throw new QueueError("CONFIG", `${setting}=${milliseconds}: expected at least 1 millisecond`);
  }
  return milliseconds;
}

/**
 * A whole number from an option or a variable; an empty variable counts as not set.
 *
 * @throws {QueueError} `CONFIG` when it is none, or below `least`.
 */
export function wholeNumber(
  setting: string,
  value: number | string | undefined,
  fallback: number,
  least: number,
  most: number = Number.MAX_SAFE_INTEGER,
): number {
  if (value === undefined || value === "") return fallback;
  const written = typeof value === "string" && /^[+-]?\d+$/.test(value.trim());
  const number = typeof value === "number" || written ? Number(value) : NaN;
  if (!Number.isSafeInteger(number) || number < least || number > most) {
    const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `from ${least} to ${most}`;
    throw new QueueError("CONFIG", `${setting}=${show(value)}: expected a whole number, ${range}`);
  }
  return number;
}

/**
 * Options that nobody reads are mistakes, such as `retryafter`.
 *
 * @throws {QueueError} `CONFIG`, naming the option and those that there are.
 */
export function refuseUnknown(options: object, known: readonly string[], where: string): void {
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  throw new QueueError("CONFIG", `${where}.${unknown}: no such setting; expected ${known.join(", ")}`);
}

function oneOf<const Choice extends string>(
  setting: string,
  value: string | undefined,
  choices: readonly Choice[],
): Choice {
  if (value === undefined || value === "") return choices[0];
  const found = choices.find((choice) => choice === value);
  if (found === undefined) {
    throw new QueueError("CONFIG", `${setting}=${show(value)}: expected ${choices.join(" or ")}`);
  }
  return found;
}
