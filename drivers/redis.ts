/**
 * Jobs in Redis or Valkey, in the original's keys, for when one machine is no longer enough.
 *
 * @example
 * ```ts ignore
 * import { Queue } from "@x/queue";
 * import { RedisDriver } from "@x/queue/drivers/redis";
 *
 * const driver = new RedisDriver({ url: "redis://127.0.0.1:6379", prefix: "app:", database: "app.sqlite" });
 * const queue = new Queue({ driver, jobs: { mail: () => {} } });
 * ```
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHash, randomUUID } from "node:crypto";
import type {
  Driver,
  FailedJob,
  FailedSelection,
  Failure,
  Listener,
  Moment,
  Moved,
  NewJob,
  QueueCounts,
  Release,
  Reservation,
  Reserved,
  ReserveRequest,
} from "../core/driver.ts";
import { QueueError } from "../core/errors.ts";
import { RedisBell } from "./redis/bell.ts";
import { coalesce } from "./redis/coalesce.ts";
import { checkUrl, type Connect, ioredis, isReply, type RedisConnection } from "./redis/connection.ts";
import { type Lane, laneName, laneOf, parseLane } from "./redis/lanes.ts";
import { Link } from "./redis/link.ts";
import { fromMember, memberOf, toMember } from "./redis/member.ts";
import { COMPLETE, EXTEND, PUSH, RELEASE, RESERVE } from "./redis/scripts.ts";
import { SqliteDriver } from "./sqlite.ts";

/** What a {@linkcode RedisDriver} works on. */
export interface RedisOptions {
  /** `redis://`, `rediss://`, or the path of a unix socket. Default: `redis://127.0.0.1:6379`. */
  url?: string;
  /** Before every key. On Redis Cluster it needs a hash tag, such as `{app}:`. Default: none. */
  prefix?: string;
  /** The app's SQLite database, for `job.db` and `failed_jobs`: a path, `":memory:"`, or an open connection. */
  database: unknown;
  /** Where failed jobs are kept: `"database"` (default), in its `failed_jobs`, or `"redis"`. */
  failed?: "database" | "redis";
  /** Opens a connection of your own, instead of one by `url`. Called again whenever one is lost. */
  connect?: Connect;
  /** How long a call may take, in milliseconds. Default: 5000. */
  deadline?: number;
  /** Gets a line where something is unsafe, or was set aside. */
  log?: { warn(line: string): void; error(line: string): void };
}

/** How many failed jobs live under one `HMGET`. */
const DEFAULT_DEADLINE = 5000;

/** Jobs in Redis. */
export class RedisDriver implements Driver {
  readonly #options: RedisOptions;
  readonly #prefix: string;
  readonly #link: Link;
  readonly #bell: RedisBell;
  /** The app's database. */
  readonly #database: SqliteDriver;
  readonly #failed: FailedStore;
  readonly #push: (job: Pushed) => Promise<string>;
  readonly #complete: (held: Reservation) => Promise<boolean>;
  /** The lanes that are known, and how many the store has. */
  #lanes: Map<string, Lane>;
  #plain = false;
  #closed = false;

  constructor(options: RedisOptions) {
    this.#options = options;
    this.#prefix = options.prefix ?? "";
    const deadline = options.deadline ?? DEFAULT_DEADLINE;
    const connect = options.connect ?? ioredis(checkUrl(options.url ?? "redis://127.0.0.1:6379"), deadline);
  }
}
