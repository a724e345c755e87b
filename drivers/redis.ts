/**
 * Jobs in Redis or Valkey, in the original's keys, for when one machine is no longer enough.
 *
 * @example
 * ```ts
 * import { Queue } from "@x/queue";
 * import { RedisDriver } from "@x/queue/drivers/redis";
 *
 * const driver = new RedisDriver({ url: "redis://127.0.0.1:6379", prefix: "app:", database: "app.sqlite" });
 * const queue = new Queue({ driver, jobs: { mail: () => {} } });
 * // await queue.dispatch("mail"): the first call connects, and opens the database
 * await queue.close();
 * ```
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import type {
  Cancelled,
  Controls,
  DelayedJob,
  Driver,
  FailedFound,
  FailedJob,
  FailedSearch,
  FailedSelection,
  Failure,
  Finding,
  KeyedJob,
  Listener,
  Moment,
  Moved,
  NewJob,
  Progress,
  Pushed,
  QueueCounts,
  Release,
  Reservation,
  Reserved,
  ReserveRequest,
  Settlement,
  StoredJob,
  WaitingNames,
  WorkerInfo,
  WorkerReport,
} from "../core/driver.ts";
import { QueueError } from "../core/errors.ts";
import { STUCK } from "./findings.ts";
import { RedisBell } from "./redis/bell.ts";
import { type Call, Lot } from "./redis/coalesce.ts";
import { checkUrl, type Connect, ioredis, loadClient, type RedisConnection } from "./redis/connection.ts";
import { RedisControls, type Told } from "./redis/controls.ts";
import { DatabaseFailures, type Failures, RedisFailures, type Store } from "./redis/failures.ts";
import { lookAtServer } from "./redis/examine.ts";
import { RedisFinder } from "./redis/find.ts";
import { RedisHistory, toLine } from "./redis/history.ts";
import { type Lane, Lanes } from "./redis/lanes.ts";
import { isLost, Link, mayHaveRun, messageOf } from "./redis/link.ts";
import { newId } from "./redis/id.ts";
import { unmarked } from "./redis/marked.ts";
import {
  fromMember,
  known,
  memberBefore,
  memberOf,
  membersAfter,
  type Taking,
  toMember,
} from "./redis/member.ts";
import {
  CLEAR,
  COMPLETE,
  COUNT,
  DELAYED,
  EXTEND,
  LANES,
  MOVE_LIMIT,
  PUSH,
  PUSH_ONCE,
  RELEASE,
  RESERVE,
  RESERVE_LIMIT,
  SEEN,
  SIFT,
} from "./redis/scripts.ts";
import { Traces } from "./redis/traces.ts";
import { checkSchema, checkServer, keepsCarriageReturns } from "./redis/server.ts";
import { ServerClock } from "./redis/server_clock.ts";
import { RedisWorkers } from "./redis/workers.ts";
import { SqliteDriver } from "./sqlite.ts";

export type { Connect, RedisConnection } from "./redis/connection.ts";

/** What a {@linkcode RedisDriver} works on. */
export interface RedisOptions {
  /** `redis://`, `rediss://`, or the path of a unix socket. Default: `redis://127.0.0.1:6379`. */
  url?: string;
  /** Options of `node:tls` for `rediss://`, such as `ca`. */
  tls?: object;
  /** Before every key. On Redis Cluster it needs a hash tag, such as `{app}:`. Default: none. */
  prefix?: string;
  /** The app's SQLite database, for `job.db` and `failed_jobs`: a path, `":memory:"`, or an open connection. */
  database: unknown;
  /** Where failed jobs are kept: `"database"` (default), in its `failed_jobs`, or `"redis"`. */
  failed?: "database" | "redis";
  /** Opens a connection of your own, instead of one by `url`. Called again whenever one is lost. */
  connect?: Connect;
  /** How long a call may take, and connecting, in milliseconds. Default: 5000. */
  deadline?: number;
  /** Gets a line where something is unsafe, or was set aside. */
  log?: { warn(line: string): void };
}

/** How long a call may take, in milliseconds. */
const DEADLINE = 5000;

/** How long closing waits for what is under way, in milliseconds. */
const CLOSE_DEADLINE = 2000;

/** How long a key of `pushOnce` is known, in seconds. */
const KEY_LIFE = 86_400;

/** How often expired and due jobs are looked for while there are others, in milliseconds. */
const SWEEP_EVERY = 100;

/** How often a reservation is tried anew because what workers are told has just changed. */
const MOST_CHANGES = 10;

/** How often a reservation looks again as there are new lanes, until it takes what it knows of. */
const MOST_LOOKS = 4;

/** By how many attempts a job may be further whose settlement was lost, for all that is looked at. */
const LATER = 3;

/** How many values one command of a script takes at most. */
const LOT = 1000;

/** Jobs in Redis. */
export class RedisDriver implements Driver {
  /** Redis works on one reservation while the worker runs what another brought. */
  readonly overlap = 4;
  readonly #options: RedisOptions;
  readonly #prefix: string;
  readonly #link: Link;
  readonly #lanes: Lanes;
  readonly #bell: RedisBell;
  readonly #bellKey: string;
  readonly #malformedKey: string;
  readonly #clock = new ServerClock();
  readonly #app: SqliteDriver;
  readonly #failures: Failures;
  readonly #controls: RedisControls;
  readonly #traces: Traces;
  readonly #history: RedisHistory;
  readonly #workers: RedisWorkers;
  readonly #finder: RedisFinder;
  readonly #pushes = new Lot<Push, string[]>((pushes) => this.#sendPushes(pushes));
  readonly #completions = new Lot<Reservation, boolean>((held) => this.#sendCompletions(held));
  readonly #releases = new Lot<Released, boolean>((released) => this.#sendReleases(released));
  /** A reservation that goes out with the completions of this turn. */
  #rider: Rider | null = null;
  /** The next reservation's mark; the store does not see it. */
  #mark = Math.floor(Math.random() * 2 ** 52);
  #sweptAt = -Infinity;
  /** How many lanes there were when `queues` answered last. */
  #announced: number | null = null;
  /** Whether the app's client loses a CR; `null` until that was tried. */
  #plain: Promise<boolean> | null = null;
  #isPlain = false;
  readonly #completing: Completing = {
    clear: (held) => this.#needsClearing(held) ? this.#clearing(held, true, Promise.resolve(true)) : null,
    over: () => this.#leave(),
  };
  #busy = 0;
  #idle: (() => void)[] = [];
  #closed = false;

  /**
   * Checks the options. Nothing connects until the first call.
   *
   * @param options What to work on.
   * @throws {QueueError} `CONFIG` for a URL or a database that is none.
   */
  constructor(options: RedisOptions) {
    this.#options = options;
    this.#prefix = options.prefix ?? "";
    const deadline = options.deadline ?? DEADLINE;
    const url = checkUrl(options.url || "redis://127.0.0.1:6379");
    const connect = options.connect ?? ioredis({ url, tls: options.tls }, deadline);
    const load = options.connect === undefined ? loadClient : undefined;
    const prepare = (connection: RedisConnection) => this.#prepare(connection, connect, deadline);
    this.#link = new Link(connect, deadline, prepare, load);
    this.#lanes = new Lanes(this.#prefix);
    this.#bellKey = `${this.#prefix}queue:bell`;
    this.#malformedKey = `${this.#prefix}queue:malformed`;
    this.#bell = new RedisBell(
      new Link(connect, deadline, undefined, load),
      this.#bellKey,
      () => this.#link.call(["ZADD", this.#bellKey, "0", "0"]),
    );
    this.#app = new SqliteDriver({ database: options.database, log: options.log });
    this.#controls = new RedisControls(this.#link, this.#lanes, this.#prefix);
    this.#traces = new Traces(this.#link, this.#prefix);
    this.#history = new RedisHistory(this.#link, this.#prefix);
    this.#workers = new RedisWorkers(this.#link, this.#prefix);
    this.#finder = new RedisFinder(this.#link, this.#lanes, this.#history);
    const store: Store = {
      isHeld: (held) => this.#isHeld(held),
      isGone: (held) => this.#isGone(held),
      complete: (held) => this.#completions.add(held),
      pushOnce: (jobs, ids, generations, histories) =>
        this.#pushOnce(jobs, null, ids, generations, histories),
      now: () => this.#clock.now(),
      historyOf: async (held) => this.#history.concerns(held) ? await this.#history.read(held.id) : [],
      forgetMarks: (ids) => this.#controls.forget(ids),
    };
    this.#failures = options.failed === "redis"
      ? new RedisFailures(this.#link, this.#lanes, this.#history, this.#prefix, store)
      : new DatabaseFailures(this.#app.failures, store);
  }

  /** The connection of the app's database. */
  get database(): unknown {
    return this.#app.database;
  }

  /** As the driver of the app's database does. */
  lend(held: Reservation): () => void {
    return this.#app.lend(held);
  }

  /** Connects to Redis, and opens the app's database. */
  open(): Promise<void> {
    return this.#under(async () => {
      await this.#link.open();
      await this.#app.open();
    });
  }

  /** Stores jobs; all pushes of one turn go into one command. */
  push(jobs: readonly NewJob[], now: Moment): Promise<string[]> {
    return this.#under(() => jobs.length === 0 ? Promise.resolve([]) : this.#pushes.add({ jobs, now }));
  }

  /** Stores the jobs whose key is not known yet. */
  pushOnce(jobs: readonly KeyedJob[], now: Moment): Promise<Pushed[]> {
    return this.#under(() => this.#pushOnce(jobs, now));
  }

  /** Takes due jobs. */
  reserve(request: ReserveRequest): Promise<Reserved> {
    return this.#under(async () => {
      const limit = Math.min(request.limit, RESERVE_LIMIT);
      const asked = {
        ...request,
        limit,
        prefetch: Math.min(request.prefetch, RESERVE_LIMIT - limit),
      };
      const woken = this.#bell.takeWoken();
      for (let looks = 1, changes = 1;;) {
        if (this.#lanes.count === null) await this.#readLanes();
        const told = this.#controls.told ?? await this.#controls.read();
        const queues = this.#controls.unpaused(request.queues, told);
        const taken = await this.#reserve({ ...asked, queues, told, woken, anyLanes: looks === MOST_LOOKS });
        if (taken.hasChanged) {
          await this.#controls.read();
          if (changes++ === MOST_CHANGES) return this.#toReserved(request, told, { ...taken, nextIn: 0 });
        } else if (taken.areNew) {
          this.#lanes.count = null;
          looks++;
        } else if (taken.isBlocked) {
          throw new QueueError(
            "REDIS",
            `members that are no jobs of ours could not be set aside in ${this.#malformedKey}`,
          );
        } else if (taken.jobs.length > 0 || taken.aside === 0) {
          if (taken.jobs.some(({ attempt }) => attempt > 1)) await this.#controls.began(taken.jobs);
          await this.#traced(request, taken);
          return this.#toReserved(request, told, taken);
        }
      }
    });
  }

  /** Renews reservations. */
  extend(held: readonly Reservation[], now: Moment): Promise<Reservation[]> {
    return this.#under(async () => {
      const lost = held.filter((one) => known(one).settled);
      const mine = held.filter((one) => !known(one).settled);
      for (let from = 0; from < mine.length; from += LOT) {
        const lot = mine.slice(from, from + LOT);
        const { keys, values, order } = this.#toArguments(lot);
        const kept = await this.#link.run(EXTEND, keys, [seconds(now), ...values]) as number[];
        order.forEach((one, index) => kept[index] === 1 || lost.push(one));
        await this.#controls.renew(order.filter((_, index) => kept[index] === 1));
      }
      for (const one of lost) this.#app.handlers?.ended(one);
      return lost;
    });
  }

  /** Forgets a job that is done; all completions of one turn go into one command. */
  complete(held: Reservation): Promise<boolean> {
    return this.#settle(held, true, async (repeated) => {
      const done = await this.#completions.add(held);
      return done || (repeated && await this.#isGone(held));
    });
  }

  /** Forgets a job that is done, without a promise; what is not as simple as that goes the other way. */
  completeFor(held: Reservation, settlement: Settlement): void {
    const { settled, uncertain } = known(held);
    if (this.#closed || settled || uncertain) {
      this.complete(held).then((done) => settlement.stored(done), (error) => settlement.failed(error));
      return;
    }
    this.#app.handlers?.ended(held);
    known(held).settled = true;
    this.#busy++;
    this.#completions.put(new Completion(held, settlement, this.#completing));
  }

  /** Makes a job available again. */
  release(held: Reservation, how: Release, now: Moment): Promise<boolean> {
    if (how.counted) {
      return this.#settle(
        held,
        false,
        (repeated) => this.#releases.add({ held, how, now }).then((done) => done || repeated),
      );
    }
    this.#app.handlers?.ended(held);
    // With its attempt given back it looks like the next reservation of this job: where it may have been done, no second
    // try can tell them apart.
    return this.#under(async () => {
      if (known(held).settled) return false;
      known(held).settled = true;
      try {
        return await this.#clearing(held, false, this.#releases.add({ held, how, now }));
      } catch (error) {
        if (!mayHaveRun(error)) known(held).settled = false;
        throw error;
      }
    });
  }

  /** Moves a job to the failed ones. */
  fail(held: Reservation, why: Failure): Promise<boolean> {
    return this.#settle(held, true, (repeated) => this.#failures.fail(held, why, repeated));
  }

  /** Hears pushes of every process, each by one listener. */
  listen(wake: () => boolean): Listener {
    return this.#bell.listen(wake);
  }

  /** The queues that have jobs, or had some: one that is empty now is cheaper to look at than to find again. */
  queues(): Promise<string[]> {
    return this.#under(async () => {
      const plain = this.#lanes.of("default", 0);
      const [used] = await Promise.all([this.#link.call(["EXISTS", ...plain.keys]), this.#readLanes()]);
      this.#announced = this.#lanes.count;
      const queues = new Set(this.#lanes.all().filter((lane) => lane !== plain).map(({ queue }) => queue));
      if (Number(used) > 0) queues.add(plain.queue);
      return [...queues];
    });
  }

  /** Counts by queue and state. */
  counts(now: Moment, retryAfter: number): Promise<QueueCounts[]> {
    return this.#under(async () => {
      const [lanes, failed] = await Promise.all([this.#count(now, retryAfter), this.#failures.counts()]);
      const byQueue = new Map<string, { -readonly [Key in keyof QueueCounts]: QueueCounts[Key] }>();
      const of = (queue: string) => {
        let counts = byQueue.get(queue);
        if (counts === undefined) {
          counts = { queue, ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null };
          byQueue.set(queue, counts);
        }
        return counts;
      };
      // Told by the clock of whoever asks, as that is what it is compared with.
      const ahead = now === null ? this.#clock.now() - Date.now() : 0;
      for (const [{ queue }, inLine, due, delayed, expired, reserved, oldest] of lanes) {
        if (inLine + delayed + reserved === 0) continue;
        const counts = of(queue);
        counts.ready += inLine + due + expired;
        counts.delayed += delayed - due;
        counts.reserved += reserved - expired;
        if (oldest !== "") counts.oldest = Math.min(counts.oldest ?? Infinity, Number(oldest) - ahead);
      }
      for (const [queue, count] of failed) of(queue).failed = count;
      return [...byQueue.values()].sort((a, b) => a.queue < b.queue ? -1 : 1);
    });
  }

  /** Reads the delayed jobs that are due next. */
  delayed(queue: string | null, limit: number, now: Moment): Promise<DelayedJob[]> {
    return this.#under(async () => {
      await this.#readLanes();
      const lanes = queue === null ? this.#lanes.all() : this.#lanes.in(queue);
      if (lanes.length === 0) return [];
      const keys = lanes.map((lane) => lane.keys[1]);
      const flat = await this.#link.run(DELAYED, keys, [seconds(now), String(limit)]) as (string | number)[];
      const found: DelayedJob[] = [];
      for (let at = 0; at < flat.length; at += 3) {
        const { queue, priority } = lanes[Number(flat[at]) - 1];
        const [, attempts, id, name] = /^(\d+) (\S+) (.+)$/s.exec(String(flat[at + 2]))!;
        found.push({
          id,
          name,
          queue,
          priority,
          attempts: Number(attempts),
          dueIn: Math.max(0, Number(flat[at + 1])),
        });
      }
      return found.sort((a, b) => a.dueIn - b.dueIn).slice(0, limit);
    });
  }

  /** Counts all that is not done or failed. */
  waiting(): Promise<number> {
    return this.#under(async () => {
      const lanes = await this.#count(null, 0);
      return lanes.reduce((sum, [, inLine, , delayed, , reserved]) => sum + inLine + delayed + reserved, 0);
    });
  }

  /** Reads failed jobs. */
  failed(selection: FailedSelection): Promise<FailedJob[]> {
    return this.#under(() => this.#failures.failed(selection));
  }

  /** Looks through failed jobs. */
  findFailed(search: FailedSearch): Promise<FailedFound> {
    return this.#under(() => this.#failures.find(search));
  }

  /** Moves failed jobs back. */
  retry(selection: FailedSelection, _now: Moment): Promise<Moved[]> {
    return this.#under(() => this.#failures.retry(selection));
  }

  /** Deletes failed jobs. */
  forget(selection: FailedSelection): Promise<Moved[]> {
    return this.#under(() => this.#failures.forget(selection));
  }

  /** Removes waiting jobs, 100 of a lane in a call. */
  clear(queue: string | null, limit: number): Promise<number> {
    return this.#under(async () => {
      await this.#readLanes();
      const lanes = queue === null ? this.#lanes.all() : this.#lanes.in(queue);
      let cleared = 0;
      for (const { keys: [jobs, delayed] } of lanes) {
        const keys = [jobs, delayed, this.#controls.key, this.#controls.cancelled];
        for (let lot = MOVE_LIMIT, some = lot; some === lot && cleared < limit;) {
          lot = Math.min(MOVE_LIMIT, limit - cleared);
          some = Number(await this.#link.run(CLEAR, keys, [String(lot), randomUUID()]));
          cleared += some;
        }
      }
      return cleared;
    });
  }

  /** Pauses. */
  pause(queue: string | null): Promise<boolean> {
    return this.#under(() => this.#controls.pause(queue));
  }

  /** Lifts pauses, and wakes a worker. */
  resume(queue: string | null): Promise<boolean> {
    return this.#under(() => this.#controls.resume(queue));
  }

  /** Counts a restart. */
  restart(): Promise<void> {
    return this.#under(() => this.#controls.restart());
  }

  /** Looks through the lanes, some members at a time, for the job of an id. */
  cancel(id: string): Promise<Cancelled | null> {
    return this.#under(async () => {
      await this.#readLanes();
      const cancelled = await this.#controls.cancel(id);
      if (cancelled === "removed") await this.#history.forget(id).catch(() => {});
      return cancelled;
    });
  }

  /** What workers are told. */
  controls(): Promise<Controls> {
    return this.#under(() => this.#controls.controls());
  }

  /** Keeps how far a held job is. */
  report(held: Reservation, how: Omit<Progress, "at">, life: number, now: Moment): Promise<boolean> {
    return this.#under(() =>
      known(held).settled ? Promise.resolve(false) : this.#controls.report(held, how, life, now)
    );
  }

  /** How far a job is. */
  progress(id: string): Promise<Progress | null> {
    return this.#under(() => this.#controls.progress(id));
  }

  /** Keeps what a worker says of itself. */
  beat(worker: WorkerReport, life: number, now: Moment): Promise<void> {
    return this.#under(() => this.#workers.beat(worker, life, now));
  }

  /** Forgets a worker. */
  leave(id: string): Promise<void> {
    return this.#under(() => this.#workers.leave(id));
  }

  /** Reads who works here. */
  workers(now: Moment): Promise<WorkerInfo[]> {
    return this.#under(() => this.#workers.read(now));
  }

  /** Looks through the lanes, some members at a time, for the job of an id. */
  find(id: string, now: Moment, retryAfter: number): Promise<StoredJob | null> {
    return this.#under(async () => {
      const [{ cancelled }] = await Promise.all([this.#controls.read(), this.#readLanes()]);
      return await this.#finder.find(id, now, retryAfter, cancelled);
    });
  }

  /** Reads names of waiting jobs. */
  waitingNames(queues: readonly string[], limit: number): Promise<WaitingNames[]> {
    return this.#under(async () => {
      await this.#readLanes();
      return await this.#finder.names(queues, limit);
    });
  }

  /** Looks at the server; and at the app's database, where failures are kept there. */
  examine(now: Moment, retryAfter: number): Promise<Finding[]> {
    return this.#under(async () => {
      const stuck = (await this.#count(now, retryAfter + STUCK))
        .reduce((sum, [, , , , expired]) => sum + expired, 0);
      const found = await lookAtServer(this.#link, this.#prefix, `${this.#prefix}queue:examined`, stuck);
      if (this.#options.failed === "redis") return found;
      const ofApp = await this.#app.examine(now, retryAfter);
      const shown = ofApp.filter(({ what }) => what !== "leases");
      return [...found, ...shown.map((one) => ({ ...one, what: `failed jobs: ${one.what}` }))];
    });
  }

  /** Finishes what is under way, for 2 s at most, and closes what this driver opened. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#bell.close();
    const deadline = performance.now() + CLOSE_DEADLINE;
    if (this.#busy > 0) {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<void>((resolve) => timer = setTimeout(resolve, CLOSE_DEADLINE));
      await Promise.race([new Promise<void>((resolve) => this.#idle.push(resolve)), late]);
      clearTimeout(timer);
    }
    this.#link.close();
    await this.#app.close(Math.max(0, deadline - performance.now()));
  }

  /**
   * Whether the client replaces what is no text by a character that says so, as ours does. Of one that the app brought that is
   * not known, so that no such reply may reach it.
   */
  get #mayBeUnreadable(): boolean {
    return this.#options.connect === undefined;
  }

  // Connecting

  async #prepare(connection: RedisConnection, connect: Connect, deadline: number): Promise<void> {
    if (this.#options.connect !== undefined) {
      this.#plain ??= keepsCarriageReturns(connect, deadline).then((keeps) => {
        if (!keeps) this.#options.log?.warn(PLAIN);
        return !keeps;
      });
      try {
        this.#isPlain = await this.#plain;
      } catch (error) {
        this.#plain = null;
        throw error;
      }
    }
    const time = await checkServer(connection, this.#prefix, this.#options.log);
    if (time !== null) this.#clock.hear(time);
    await checkSchema(connection, this.#prefix);
  }

  /** Runs a call of the contract; closing waits for its end. */
  async #under<Result>(run: () => Promise<Result>): Promise<Result> {
    if (this.#closed) throw new QueueError("CLOSED", "the queue is closed");
    this.#busy++;
    try {
      return await run();
    } finally {
      this.#leave();
    }
  }

  #leave(): void {
    if (--this.#busy === 0) { for (const resolve of this.#idle.splice(0)) resolve(); }
  }

  // Pushing

  async #sendPushes(pushes: readonly Push[]): Promise<string[][]> {
    const refused = await this.#refuseReturns(pushes.map(({ jobs }) => jobs));
    const ids = await Promise.all(pushes.map(({ jobs, now }) => this.#newIds(jobs, now)));
    // Times of the caller's own, as a test has them, are not mixed with others in a command.
    const moments = new Set(pushes.map(({ now }) => now));
    for (const moment of moments) {
      const lanes = new Map<Lane, number>();
      const groups: { lane: number; delay: number; members: string[] }[] = [];
      pushes.forEach(({ jobs, now }, push) => {
        if (now !== moment || refused[push]) return;
        jobs.forEach(({ name, payload, queue, priority, delay }, index) => {
          const lane = this.#lanes.of(queue, priority);
          let at = lanes.get(lane);
          if (at === undefined) lanes.set(lane, at = lanes.size + 1);
          const member = toMember(0, ids[push][index], name, payload);
          const last = groups.at(-1);
          if (last?.lane === at && last.delay === delay && last.members.length < LOT) {
            last.members.push(member);
          } else groups.push({ lane: at, delay, members: [member] });
        });
      });
      if (groups.length === 0) continue;
      const names = [...lanes.keys()].map(({ name }) => name).filter((name) => name !== "");
      // A worker that rests here asks right behind this push, on the same connection; else the bell finds one.
      const here = this.#link.isOpen && groups.some(({ delay }) => delay <= 0) && this.#bell.isHeardHere;
      const values = [seconds(moment), here ? "" : "1", String(names.length), ...names];
      for (const { lane, delay, members } of groups) {
        values.push(String(lane), delaySeconds(delay), String(members.length));
        for (const member of members) values.push(member);
      }
      const keys = [this.#bellKey, this.#lanes.set];
      for (const { keys: [jobs, delayed] } of lanes.keys()) keys.push(jobs, delayed);
      this.#keepTraces(pushes, ids, (push) => pushes[push].now === moment && !refused[push]);
      const pushing = this.#link.run(PUSH, keys, values);
      this.#lanes.note(lanes.keys());
      if (here) this.#bell.wakeOne();
      await this.#storing(pushing);
    }
    return ids.map((ids, push) => refused[push] ? Promise.reject(refused[push]) as never : ids);
  }

  async #newIds(jobs: readonly NewJob[], moment: Moment): Promise<string[]> {
    if (moment === null && !this.#clock.isKnown) {
      // To connect tells it, unless the server refuses INFO.
      await this.#link.open();
      if (!this.#clock.isKnown) this.#clock.hear(await this.#link.call(["TIME"]) as string[]);
    }
    const now = moment ?? this.#present();
    return jobs.map(({ delay }) => newId(now + delay));
  }

  /** Redis's time. */
  #present(): number {
    if (this.#clock.isOld) {
      // Where that fails, the call that needs it tells of it, and the next one asks again.
      this.#link.call(["TIME"]).then((time) => this.#clock.hear(time as string[]), () => {});
    }
    return this.#clock.now();
  }

  async #pushOnce(
    jobs: readonly KeyedJob[],
    now: Moment,
    given?: readonly string[],
    generations: readonly number[] = [],
    histories: readonly string[] = [],
  ): Promise<Pushed[]> {
    if (jobs.length === 0) return [];
    const [refused] = await this.#refuseReturns([jobs]);
    if (refused !== null) throw refused;
    const ids = given ?? await this.#newIds(jobs, now);
    const keys = [this.#bellKey, this.#lanes.set];
    const values = [seconds(now), String(KEY_LIFE)];
    const lanes = jobs.map(({ queue, priority }) => this.#lanes.of(queue, priority));
    jobs.forEach(({ key, name, payload, delay }, index) => {
      const lane = lanes[index];
      const marker = key === null ? this.#bellKey : `${this.#prefix}queue:id:${key}`;
      keys.push(marker, lane.keys[0], lane.keys[1], this.#history.key(ids[index]));
      values.push(
        lane.name,
        key === null ? "" : "1",
        delaySeconds(delay),
        ids[index],
        toMember(0, ids[index], name, payload, generations[index]),
        histories[index] ?? "",
      );
    });
    this.#keepTraces([{ jobs }], [ids], () => true);
    const stored = await this.#storing(this.#link.run(PUSH_ONCE, keys, values)) as string[];
    this.#lanes.note(lanes);
    const unused = ids.filter((id, index) => jobs[index].trace !== undefined && stored[index] !== id);
    if (unused.length > 0) await this.#forgetTraces(unused);
    return stored.map((id, index) => ({ id, created: id === ids[index] }));
  }

  /** A job without its trace is no worse a job: that one was not stored is logged. */
  #keepTraces(
    pushes: readonly { readonly jobs: readonly NewJob[] }[],
    ids: readonly (readonly string[])[],
    mine: (push: number) => boolean,
  ): void {
    pushes.forEach(({ jobs }, push) => {
      if (!mine(push)) return;
      this.#traces.keep(jobs, ids[push])?.catch((error) => this.#warnOfTraces(error));
    });
  }

  /** What could not be forgotten ends by itself, within a day. */
  async #forgetTraces(ids: readonly string[]): Promise<void> {
    try {
      await this.#traces.forget(ids);
    } catch (error) {
      this.#warnOfTraces(error);
    }
  }

  #warnOfTraces(error: unknown): void {
    this.#options.log?.warn(`queue: the trace of a job is missing, or stays for a day: ${messageOf(error)}`);
  }

  /** Adds their traces, where these are asked for. What was taken is held, so that a failure is no reason to reject. */
  async #traced(request: ReserveRequest, { jobs }: Taken): Promise<void> {
    if (!request.traces || jobs.length === 0) return;
    try {
      await this.#traces.addTo(jobs);
    } catch (error) {
      this.#warnOfTraces(error);
    }
  }

  /** Says of a lost reply what it means for jobs. */
  async #storing<Result>(pushing: Promise<Result>): Promise<Result> {
    try {
      return await pushing;
    } catch (error) {
      if (!isLost(error)) throw error;
      const { cause } = error as QueueError;
      throw new QueueError(
        "REDIS",
        "the reply of Redis was lost, so the job may have been stored (a dispatch with an `id` can be repeated, and is stored once): " +
          (cause instanceof Error ? cause.message : String(cause)),
        { cause },
      );
    }
  }

  /** An error for each push with a CR, where the app's client would lose it in a reply; else `null`. */
  async #refuseReturns(pushes: readonly (readonly NewJob[])[]): Promise<(QueueError | null)[]> {
    if (this.#options.connect === undefined) return pushes.map(() => null);
    await this.#link.open();
    return pushes.map((jobs) => {
      const job = this.#isPlain ? jobs.find(({ payload }) => payload.includes("\r")) : undefined;
      return job === undefined ? null : new QueueError(
        "PAYLOAD",
        `the payload of ${
          JSON.stringify(job.name)
        } has a carriage return: the Redis client that \`connect\` opens ` +
          "loses it in replies; dispatch an object, whose JSON has none, or use another client",
      );
    });
  }

  // Reserving

  async #readLanes(): Promise<void> {
    this.#lanes.read(unmarked(await this.#link.run(LANES, [this.#lanes.set], []) as string[]));
  }

  /** With the completions of this turn, where there are any: then one call of the script does both. */
  #reserve(request: LaneRequest): Promise<Taken> {
    if (request.now !== null || !this.#completions.isWaiting || this.#rider !== null) {
      return this.#sendReserve(request, this.#lanesOf(request), []).then(({ taken }) => this.#sifted(taken));
    }
    return new Promise((resolve, reject) => this.#rider = { request, resolve, reject });
  }

  /** The lanes that a request looks at, numbered from 1 in the order of their keys. */
  #lanesOf({ queues }: ReserveRequest): Map<Lane, number> {
    const lanes = new Map<Lane, number>();
    for (const { queue } of queues) {
      for (const lane of this.#lanes.in(queue)) {
        if (!lanes.has(lane)) lanes.set(lane, lanes.size + 1);
      }
    }
    return lanes;
  }

  async #sendReserve(
    request: LaneRequest,
    lanes: ReadonlyMap<Lane, number>,
    done: readonly Reservation[],
  ): Promise<{ taken: Taken; lost: ReadonlySet<Reservation> }> {
    const local = performance.now();
    const sweep = request.now !== null || local - this.#sweptAt >= SWEEP_EVERY;
    if (sweep) this.#sweptAt = local;
    const knownLanes = request.anyLanes || this.#lanes.count === null ? "" : String(this.#lanes.count);
    const keys = [this.#bellKey, this.#lanes.set, this.#malformedKey];
    for (const lane of lanes.keys()) keys.push(...lane.keys);
    keys.push(this.#controls.key);
    const groups = this.#byLane(done);
    const values = [
      seconds(request.now),
      String(request.retryAfter / 1000),
      String(request.limit),
      String(request.prefetch),
      sweep ? "1" : "",
      this.#isPlain ? "1" : "",
      request.woken ? "1" : "",
      knownLanes,
      String(groups.size),
      request.told.revision,
      this.#mayBeUnreadable ? "" : "1",
    ];
    for (const [lane, held] of groups) {
      values.push(String(lanes.get(lane)), String(held.length));
      for (const one of held) values.push(memberOf(one));
    }
    request.queues.forEach(({ queue, limit }, share) => {
      for (const lane of this.#lanes.in(queue)) {
        values.push(String(lanes.get(lane)), String(share), String(limit));
      }
    });
    const answer = await this.#link.run(RESERVE, keys, values) as [
      lanes: number,
      malformed: number | string,
      nextIn: string,
      since: string,
      lost: number,
      texts: number,
      ...rest: (number | string)[],
    ];
    const [laneCount, malformed, nextIn, since, lostCount, textCount] = answer;
    const [first, end] = [6 + lostCount, answer.length - textCount];
    const order = lostCount === 0 ? [] : [...groups.values()].flat();
    const lost = new Set(answer.slice(6, first).map((at) => order[Number(at) - 1]));
    const all = [...lanes.keys()];
    const jobs: Taking[] = [];
    const unreadable = new Map<Taking, Lane>();
    const mark = String(this.#mark++);
    const now = request.now ?? (end > first ? this.#present() : 0);
    const texts = new Set(answer.slice(end));
    for (let at = first; at < end;) {
      const lane = all[answer[at++] as number - 1];
      for (const last = at + (answer[at++] as number); at <= last; at++) {
        const member = answer[at] as string;
        const held = fromMember(member, lane.queue, lane.priority, mark, now);
        if (request.told.cancelled.has(held.id)) held.cancelled = true;
        jobs.push(held);
        if (this.#mayBeUnreadable && member.includes(UNREADABLE) && !texts.has(jobs.length)) {
          unreadable.set(held, lane);
        }
      }
    }
    if (typeof malformed === "number") this.#tellOfMalformed(malformed);
    else this.#warnOfMalformed("a member that is no job of ours", malformed);
    const isBlocked = typeof malformed === "string" && jobs.length === 0 && nextIn === "0";
    const aside = typeof malformed === "string" ? 0 : malformed;
    const hasChanged = laneCount === CHANGED;
    const areNew = !hasChanged && knownLanes !== "" && Number(knownLanes) !== laneCount;
    const again = nextIn === "" ? null : Number(nextIn);
    return { taken: { jobs, areNew, hasChanged, aside, nextIn: again, unreadable, since, isBlocked }, lost };
  }

  /**
   * Without those whose members are no text, which are set aside. Where that fails, they are met again when their leases end;
   * what was taken with them is held, so that it is no reason to reject.
   */
  async #sifted(taken: Taken): Promise<Taken> {
    const { unreadable, since } = taken;
    if (unreadable.size === 0) return taken;
    const lanes = new Set(unreadable.values());
    const keys = [this.#malformedKey, ...[...lanes].map(({ keys }) => keys[2])];
    let why: string;
    try {
      const [aside, refusal] = await this.#link.run(SIFT, keys, [since]) as [number, string];
      this.#tellOfMalformed(aside);
      why = refusal;
    } catch (error) {
      why = messageOf(error);
    }
    if (why !== "") this.#warnOfMalformed("what is no text", why);
    const jobs = taken.jobs.filter((held) => !unreadable.has(held));
    const dropped = taken.jobs.length - jobs.length;
    return { ...taken, jobs, aside: taken.aside + dropped, nextIn: dropped > 0 ? 0 : taken.nextIn };
  }

  #tellOfMalformed(aside: number): void {
    if (aside === 0) return;
    const members = aside === 1 ? "member was" : "members were";
    this.#options.log?.warn(`queue: ${aside} ${members} no jobs of ours: set aside in ${this.#malformedKey}`);
  }

  #warnOfMalformed(what: string, why: string): void {
    this.#options.log?.warn(`queue: ${what} could not be set aside in ${this.#malformedKey}: ${why}`);
  }

  #toReserved(request: ReserveRequest, { restarts }: Told, { jobs, nextIn }: Taken): Reserved {
    this.#app.handlers?.began(jobs);
    // More was asked for than one call takes.
    const capped = jobs.length < request.limit && jobs.length >= RESERVE_LIMIT;
    const newQueues = this.#lanes.count !== this.#announced;
    return { jobs, nextIn: capped ? 0 : nextIn, newQueues, restarts };
  }

  // Settling

  /** Settles a reservation once; after an error it may be tried again. `over`: its job is done or failed by that. */
  #settle(
    held: Reservation,
    over: boolean,
    act: (repeated: boolean) => Promise<boolean>,
  ): Promise<boolean> {
    this.#app.handlers?.ended(held);
    return this.#under(async () => {
      if (known(held).settled) return false;
      known(held).settled = true;
      try {
        return await this.#clearing(held, over, act(known(held).uncertain));
      } catch (error) {
        reopen(held, error);
        throw error;
      }
    });
  }

  /** Whether something is kept for a reservation, or for its job, that their end clears. */
  #needsClearing(held: Reservation): boolean {
    return held.trace !== undefined || this.#controls.concerns(held) || this.#history.concerns(held);
  }

  async #clearing(held: Reservation, over: boolean, settling: Promise<boolean>): Promise<boolean> {
    const settled = await settling;
    if (settled && over && held.trace !== undefined) await this.#forgetTraces([held.id]);
    if (settled && this.#controls.concerns(held)) await this.#controls.ended(held, over);
    // The outcome is stored, and what could not be cleared ends by itself: that is no failure of the caller's.
    if (settled && over && this.#history.concerns(held)) await this.#history.forget(held.id).catch(() => {});
    return settled;
  }

  async #sendCompletions(jobs: readonly Reservation[]): Promise<boolean[]> {
    const rider = this.#rider;
    this.#rider = null;
    if (rider !== null) {
      const lanes = this.#lanesOf(rider.request);
      if (jobs.length <= LOT && jobs.every((held) => lanes.has(this.#lanes.of(held.queue, held.priority)))) {
        const sent = this.#sendReserve(rider.request, lanes, jobs);
        sent.then(({ taken }) => this.#sifted(taken)).then(rider.resolve, rider.reject);
        try {
          const { lost } = await sent;
          return jobs.map((held) => !lost.has(held));
        } catch (error) {
          // Refused for the reservation's sake, before anything was done: they go alone.
          if (mayHaveRun(error)) throw error;
        }
      } else {
        this.#sendReserve(rider.request, lanes, [])
          .then(({ taken }) => this.#sifted(taken)).then(rider.resolve, rider.reject);
      }
    }
    if (jobs.length === 1) {
      const [, , reserved] = this.#lanes.of(jobs[0].queue, jobs[0].priority).keys;
      return [await this.#link.call(["ZREM", reserved, memberOf(jobs[0])]) === 1];
    }
    const done = new Map<Reservation, boolean>();
    for (let from = 0; from < jobs.length; from += LOT) {
      const { keys, values, order } = this.#toArguments(jobs.slice(from, from + LOT));
      const removed = await this.#link.run(COMPLETE, keys, values) as number[];
      order.forEach((one, index) => done.set(one, removed[index] === 1));
    }
    return jobs.map((held) => done.get(held)!);
  }

  async #sendReleases(jobs: readonly Released[]): Promise<boolean[]> {
    // Those that keep their place go to the head of the line: the first of them last.
    const kept = jobs.filter(({ how }) => how.delay === null).reverse();
    const order = [...jobs.filter(({ how }) => how.delay !== null), ...kept];
    const done = new Map<Released, boolean>();
    for (const moment of new Set(order.map(({ now }) => now))) {
      const lot = order.filter(({ now }) => now === moment);
      const lanes = new Map<Lane, number>();
      for (const { held } of lot) {
        const lane = this.#lanes.of(held.queue, held.priority);
        if (!lanes.has(lane)) lanes.set(lane, lanes.size + 1);
      }
      const keys = [this.#bellKey, ...[...lanes.keys()].flatMap(({ keys }) => keys)];
      const values = lot.flatMap(({ held, how }) => {
        const at = lanes.get(this.#lanes.of(held.queue, held.priority));
        if (how.record !== undefined) keys.push(this.#history.key(held.id));
        return [
          String(at),
          memberOf(held),
          how.counted ? memberOf(held) : memberBefore(held, how.delay === null),
          how.delay === null ? "" : delaySeconds(how.delay),
          toLine(how.record),
          String(keys.length),
        ];
      });
      const answers = await this.#link.run(RELEASE, keys, [seconds(moment), ...values]) as number[];
      lot.forEach((one, index) => done.set(one, answers[index] === 1));
    }
    return jobs.map((one) => done.get(one)!);
  }

  /**
   * Whether a job that was not found held has left this store. Where the first call of a settlement was lost on its way
   * there, the job may have been reserved anew meanwhile, some times even, and snoozed.
   */
  async #isGone(held: Reservation): Promise<boolean> {
    const { keys } = this.#lanes.of(held.queue, held.priority);
    return await this.#link.run(SEEN, keys, membersAfter(held, LATER)) === 0;
  }

  async #isHeld(held: Reservation): Promise<boolean> {
    const [, , reserved] = this.#lanes.of(held.queue, held.priority).keys;
    return await this.#link.call(["ZSCORE", reserved, memberOf(held)]) !== null;
  }

  /** Held jobs by their lanes. */
  #byLane(jobs: readonly Reservation[]): Map<Lane, Reservation[]> {
    const lanes = new Map<Lane, Reservation[]>();
    for (const held of jobs) {
      const lane = this.#lanes.of(held.queue, held.priority);
      const others = lanes.get(lane);
      if (others === undefined) lanes.set(lane, [held]);
      else others.push(held);
    }
    return lanes;
  }

  /** The `reserved` keys, and for each how many members follow and these; with the jobs in that order. */
  #toArguments(jobs: readonly Reservation[]): { keys: string[]; values: string[]; order: Reservation[] } {
    const lanes = this.#byLane(jobs);
    const keys: string[] = [];
    const values: string[] = [];
    for (const [lane, held] of lanes) {
      keys.push(lane.keys[2]);
      values.push(String(held.length));
      for (const one of held) values.push(memberOf(one));
    }
    return { keys, values, order: [...lanes.values()].flat() };
  }

  // Looking

  async #count(now: Moment, retryAfter: number): Promise<[lane: Lane, ...states: Counted][]> {
    await this.#readLanes();
    const lanes = this.#lanes.all();
    const keys = lanes.flatMap((lane) => lane.keys);
    const flat = await this.#link.run(COUNT, keys, [seconds(now), String(retryAfter / 1000)]) as number[];
    return lanes.map((lane, index) => [lane, ...flat.slice(index * 6, index * 6 + 6) as Counted]);
  }
}

type Counted = [
  inLine: number,
  due: number,
  delayed: number,
  expired: number,
  reserved: number,
  oldest: string,
];

/** A settlement failed, and may be tried again. */
function reopen(held: Reservation, error: unknown): void {
  const about = known(held);
  about.settled = false;
  if (mayHaveRun(error)) about.uncertain = true;
}

/** What a completion needs of its driver. */
interface Completing {
  /** Clears what is kept for a job that is done; `null` where nothing is. Never rejects. */
  clear(held: Reservation): Promise<unknown> | null;
  /** The call has ended. */
  over(): void;
}

/** A completion that tells an object. */
class Completion implements Call<Reservation, boolean> {
  readonly item: Reservation;
  readonly #settlement: Settlement;
  readonly #driver: Completing;

  constructor(held: Reservation, settlement: Settlement, driver: Completing) {
    this.item = held;
    this.#settlement = settlement;
    this.#driver = driver;
  }

  resolve(done: boolean): void {
    const clearing = done ? this.#driver.clear(this.item) : null;
    if (clearing === null) this.#end(done);
    else clearing.then(() => this.#end(done));
  }

  reject(error: unknown): void {
    this.#driver.over();
    reopen(this.item, error);
    this.#settlement.failed(error);
  }

  #end(done: boolean): void {
    this.#driver.over();
    this.#settlement.stored(done);
  }
}

interface Push {
  readonly jobs: readonly NewJob[];
  readonly now: Moment;
}

interface LaneRequest extends ReserveRequest {
  /** Whether to take jobs though there be other lanes than are known. */
  readonly anyLanes: boolean;
  /** What workers are told, as far as is known. */
  readonly told: Told;
  /** Whether the bell led here: then it rings for others where jobs are left. */
  readonly woken: boolean;
}

interface Rider {
  readonly request: LaneRequest;
  resolve(taken: Taken): void;
  reject(error: unknown): void;
}

interface Released {
  readonly held: Reservation;
  readonly how: Release;
  readonly now: Moment;
}

/** What one RESERVE took. */
interface Taken {
  readonly jobs: readonly Taking[];
  /** Whether the store has lanes that were not asked for: then there are no jobs. */
  readonly areNew: boolean;
  /** Whether workers are told something that is not known here: then there are no jobs, either. */
  readonly hasChanged: boolean;
  /** How many members were no jobs. */
  readonly aside: number;
  /** Those that are no text, each with its lane, and since when they are reserved. */
  readonly unreadable: ReadonlyMap<Taking, Lane>;
  readonly since: string;
  /** Whether there may be jobs behind more members than a call looks at, which are none and cannot be set aside. */
  readonly isBlocked: boolean;
  readonly nextIn: number | null;
}

/** What RESERVE answers where workers were told something that is not known here. */
const CHANGED = -2;

/** What stands in a text for bytes that are none. Also a character like any other, which a payload may have: RESERVE tells. */
const UNREADABLE = "\uFFFD";

const PLAIN =
  "queue: the Redis client that `connect` opens loses carriage returns in replies: payloads with one are refused, and left to other workers";

/** A moment as scripts take it: Unix seconds to the millisecond, or empty for the server's clock. */
function seconds(moment: Moment): string {
  return moment === null ? "" : (moment / 1000).toFixed(3);
}

function delaySeconds(delay: number): string {
  return delay <= 0 ? "0" : String(delay / 1000);
}
