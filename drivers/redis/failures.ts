/**
 * Where failed jobs go: the app's database, or Redis.
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import type {
  AttemptRecord,
  FailedFound,
  FailedJob,
  FailedSearch,
  FailedSelection,
  Failure,
  KeyedJob,
  Moved,
  Pushed,
  Reservation,
} from "../../core/driver.ts";
import { withRecord } from "../history.ts";
import { type Filtered, matcher, matchesAll } from "../failed_filter.ts";
import type { FailedJobs } from "../sqlite/failed_jobs.ts";
import { type RedisHistory, toLine, toLines } from "./history.ts";
import type { Lane, Lanes } from "./lanes.ts";
import type { Link } from "./link.ts";
import { newId } from "./id.ts";
import { unmarked } from "./marked.ts";
import { generationOf, memberOf, nextGeneration, toMember } from "./member.ts";
import { COUNT_FAILED, FAIL, FIND_FAILED, UNFAIL } from "./scripts.ts";

/** Failed jobs. */
export interface Failures {
  /** Moves a held job there; `false` where it is no longer held. `repeated`: an earlier try may have done it. */
  fail(held: Reservation, why: Failure, repeated: boolean): Promise<boolean>;
  /** Reads. */
  failed(selection: FailedSelection): Promise<FailedJob[]>;
  /** Looks. */
  find(search: FailedSearch): Promise<FailedFound>;
  /** Puts them back. */
  retry(selection: FailedSelection): Promise<Moved[]>;
  /** Deletes them. */
  forget(selection: FailedSelection): Promise<Moved[]>;
  /** How many there are of each queue. */
  counts(): Promise<Map<string, number>>;
}

/** What failures need of the driver. */
export interface Store {
  /** Whether a job is held. */
  isHeld(held: Reservation): Promise<boolean>;
  /** Whether one that is not held has left the store. */
  isGone(held: Reservation): Promise<boolean>;
  /** Forgets that jobs were cancelled, which run again. */
  forgetMarks(ids: readonly string[]): Promise<void>;
  /** Forgets a held job. */
  complete(held: Reservation): Promise<boolean>;
  /** Stores jobs once, under ids that they have, with their histories in lines. */
  pushOnce(
    jobs: readonly KeyedJob[],
    ids: readonly string[],
    generations: readonly number[],
    histories: readonly string[],
  ): Promise<Pushed[]>;
  /** Redis's time. */
  now(): number;
  /** The attempts of a held job that failed. */
  historyOf(held: Reservation): Promise<readonly AttemptRecord[]>;
}

/**
 * Failed jobs in `failed_jobs`, two stores away from one transaction: so each step comes before the one that would lose
 * the job, and can be repeated.
 */
export class DatabaseFailures implements Failures {
  readonly #table: FailedJobs;
  readonly #store: Store;

  /** @param table The app's. */
  constructor(table: FailedJobs, store: Store) {
    this.#table = table;
    this.#store = store;
  }

  /** Records, then removes; takes the record back where the job was lost in between. */
  async fail(held: Reservation, why: Failure, repeated: boolean): Promise<boolean> {
    if (!repeated && !await this.#store.isHeld(held)) return false;
    const history = withRecord(await this.#store.historyOf(held), why.record);
    await this.#table.record(held, why, history, `${generationOf(held)}-${randomUUID()}`);
    if (await this.#store.complete(held) || (repeated && await this.#store.isGone(held))) return true;
    await this.#table.undo(held);
    return false;
  }

  /** Reads. */
  async failed(selection: FailedSelection): Promise<FailedJob[]> {
    return (await this.#table.select(selection)).map(({ row: _, jobId: __, failure: ___, ...job }) => job);
  }

  /** Looks. */
  find(search: FailedSearch): Promise<FailedFound> {
    return this.#table.find(search);
  }

  /**
   * Pushes, then deletes; under a key, so that a failure is retried once though two do that, or one does not get to
   * deleting it. A row of another program's has no key: it may be retried twice, and is never lost.
   */
  async retry(selection: FailedSelection): Promise<Moved[]> {
    const rows = await this.#table.select(selection);
    const jobs = rows.map(({ name, payload, queue, priority, failure }) => (
      { name, payload, queue, priority, delay: 0, key: failure === null ? null : `retry:${failure}` }
    ));
    // A job of ours that failed on SQLite keeps its number; the number of a foreign row is no job's.
    const ids = rows.map(({ jobId, attempts, row }) =>
      jobId ?? (attempts === null ? newId(this.#store.now()) : row)
    );
    // Written by `fail`; a row of another program's was no member here.
    const generations = rows.map(({ failure }) => {
      const [, generation] = /^(\d)-/.exec(failure ?? "") ?? [];
      return generation === undefined ? 0 : nextGeneration(Number(generation));
    });
    await this.#store.forgetMarks(ids);
    const now = Date.now();
    const histories = rows.map(({ history }) => toLines(history, now));
    await this.#store.pushOnce(jobs, ids, generations, histories);
    const removed = await this.#table.remove(rows);
    return rows.filter((_, index) => removed[index]).map(({ id, name }) => ({ id, name }));
  }

  /** Deletes. */
  async forget(selection: FailedSelection): Promise<Moved[]> {
    const rows = await this.#table.select(selection);
    const removed = await this.#table.remove(rows);
    return rows.filter((_, index) => removed[index]).map(({ id, name }) => ({ id, name }));
  }

  /** Counts. */
  counts(): Promise<Map<string, number>> {
    return this.#table.counts();
  }
}

/** Failed jobs in Redis: a record each in a hash, moved there and back by one script. */
export class RedisFailures implements Failures {
  readonly #link: Link;
  readonly #lanes: Lanes;
  readonly #history: RedisHistory;
  readonly #bell: string;
  readonly #records: string;
  readonly #order: string;
  readonly #last: string;
  readonly #counts: string;
  readonly #ids: string;
  readonly #store: Pick<Store, "isGone" | "forgetMarks">;

  /** @param prefix Stands before every key. */
  constructor(
    link: Link,
    lanes: Lanes,
    history: RedisHistory,
    prefix: string,
    store: Pick<Store, "isGone" | "forgetMarks">,
  ) {
    this.#store = store;
    this.#history = history;
    this.#link = link;
    this.#lanes = lanes;
    this.#bell = `${prefix}queue:bell`;
    this.#records = `${prefix}queue:failed`;
    this.#order = `${prefix}queue:failed:order`;
    this.#last = `${prefix}queue:failed:last`;
    this.#counts = `${prefix}queue:failed:counts`;
    this.#ids = `${prefix}queue:failed:ids`;
  }

  /** Moves. */
  async fail(held: Reservation, why: Failure, repeated: boolean): Promise<boolean> {
    const { id: jobId, name, payload, queue, priority, attempt } = held;
    const failedAt = Math.floor(why.failedAt / 1000) * 1000;
    // JSON has no line break or CR in it, so that any client can read it back. A search reads what is before the payload.
    const record = JSON.stringify({
      name,
      queue,
      failedAt,
      error: why.error,
      payload,
      jobId,
      generation: generationOf(held),
      priority,
      attempts: attempt,
      stack: why.stack,
    });
    const [, , reserved] = this.#lanes.of(queue, priority).keys;
    const history = this.#history.key(jobId);
    const keys = [reserved, this.#records, this.#order, this.#last, this.#counts, this.#ids, history];
    const values = [memberOf(held), record, queue, jobId, toLine(why.record)];
    return await this.#link.run(FAIL, keys, values) === 1 ||
      (repeated && await this.#store.isGone(held));
  }

  /** Reads. */
  async failed(selection: FailedSelection): Promise<FailedJob[]> {
    return (await this.#read(selection)).map(({ number: _, jobId: __, generation: ___, ...job }) => job);
  }

  /** Looks at some records, of which only what a filter needs leaves Redis. */
  async find({ filter, after, until, reverse, limit }: FailedSearch): Promise<FailedFound> {
    if (limit < 1) return { ids: [], looked: 0, next: after };
    if ([after, until].some((id) => id !== null && !isId(id))) return { ids: [], looked: 0, next: null };
    const lowest = reverse || after === null ? "-inf" : `(${after}`;
    const highest = reverse && after !== null && (until === null || Number(after) <= Number(until))
      ? `(${after}`
      : until ?? "+inf";
    const range = reverse
      ? ["ZREVRANGEBYSCORE", this.#order, highest, lowest]
      : ["ZRANGEBYSCORE", this.#order, lowest, highest];
    if (matchesAll(filter)) {
      const look = Math.min(limit, LOOK);
      const ids = await this.#link.call([...range, "LIMIT", "0", String(look)]) as string[];
      return { ids, looked: ids.length, next: ids.length < look ? null : ids[look - 1] };
    }
    const [command, order, from, to] = range;
    const answer = await this.#link.run(FIND_FAILED, [this.#records, order], [command, from, to]) as string[];
    const isWanted = matcher(filter);
    const ids: string[] = [];
    let at = 1;
    for (; at < answer.length && ids.length < limit; at += 2) {
      const head = answer[at + 1];
      if (head !== "" && isWanted(JSON.parse(head) as Filtered)) ids.push(answer[at]);
    }
    const isOver = at >= answer.length && answer[0] === "";
    return { ids, looked: (at - 1) / 2, next: isOver ? null : answer[at - 2] };
  }

  /** Moves back. */
  async retry(selection: FailedSelection): Promise<Moved[]> {
    const jobs = await this.#read(selection);
    await this.#store.forgetMarks(jobs.map(({ jobId }) => jobId));
    return this.#take(
      jobs,
      ({ jobId, name, payload, generation }) => toMember(0, jobId, name, payload, nextGeneration(generation)),
    );
  }

  /** Deletes. */
  async forget(selection: FailedSelection): Promise<Moved[]> {
    return this.#take(await this.#read(selection), () => "");
  }

  /** Counts. */
  async counts(): Promise<Map<string, number>> {
    const flat = unmarked(await this.#link.run(COUNT_FAILED, [this.#counts], []) as string[]);
    const counts = new Map<string, number>();
    for (let at = 0; at < flat.length; at += 2) counts.set(flat[at], Number(flat[at + 1]));
    return counts;
  }

  /** The id of each is the one that it was asked for by: its number here, or the id of its job. */
  async #read(selection: FailedSelection): Promise<Recorded[]> {
    const asked = "ids" in selection ? await this.#numbers(selection.ids) : (await this.#page(selection))
      .map((id) => [id, id] as const);
    if (asked.length === 0) return [];
    const numbers = asked.map(([number]) => number);
    const records = await this.#link.call(["HMGET", this.#records, ...numbers]) as (string | null)[];
    const isWanted = matcher("ids" in selection ? selection.filter ?? {} : {});
    return records.flatMap((record, index) => {
      if (record === null) return [];
      const [number, id] = asked[index];
      // One that an earlier release wrote has no history.
      const job = {
        id,
        number,
        history: [],
        ...JSON.parse(record) as Omit<Recorded, "id" | "number" | "history">,
      };
      return isWanted(job) ? [job] : [];
    });
  }

  async #numbers(ids: readonly string[]): Promise<(readonly [number: string, id: string])[]> {
    const others = ids.filter((id) => !isId(id));
    const found = others.length === 0
      ? []
      : await this.#link.call(["HMGET", this.#ids, ...others]) as (string | null)[];
    const numbers = new Map<string, string>();
    for (const id of ids) {
      const number = isId(id) ? id : found[others.indexOf(id)];
      if (number !== null && !numbers.has(number)) numbers.set(number, id);
    }
    return [...numbers].sort(([a], [b]) => Number(a) - Number(b));
  }

  async #page({ after, limit }: { after: string | null; limit: number }): Promise<string[]> {
    if (after !== null && !isId(after)) return [];
    const from = after === null ? "-inf" : `(${after}`;
    const page = ["ZRANGEBYSCORE", this.#order, from, "+inf", "LIMIT", "0", String(limit)];
    return await this.#link.call(page) as string[];
  }

  async #take(jobs: readonly Recorded[], toMember: (job: Recorded) => string): Promise<Moved[]> {
    if (jobs.length === 0) return [];
    const now = Date.now();
    const lanes: Lane[] = jobs.map(({ queue, priority }) => this.#lanes.of(queue, priority));
    const taken = await this.#link.run(
      UNFAIL,
      [
        this.#bell,
        this.#lanes.set,
        this.#records,
        this.#order,
        this.#counts,
        this.#ids,
        ...lanes.flatMap((lane, index) => [lane.keys[0], this.#history.key(jobs[index].jobId)]),
      ],
      jobs.flatMap((job, index) => [
        job.number,
        job.queue,
        lanes[index].name,
        toMember(job),
        job.jobId,
        toLines(job.history, now),
      ]),
    ) as number[];
    return jobs.filter((_, index) => taken[index] === 1).map(({ id, name }) => ({ id, name }));
  }
}

/** How many ids one step of a search reads at most, where there is no filter. */
const LOOK = 1000;

/** A failed job as Redis keeps it. */
interface Recorded extends FailedJob {
  /** By which it is ordered. */
  readonly number: string;
  /** The id of its job. */
  readonly jobId: string;
  /** The generation in which it failed. */
  readonly generation: number;
}

/** As the counter writes them. */
function isId(id: string): boolean {
  return /^[1-9]\d{0,14}$/.test(id);
}
