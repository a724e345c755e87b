/**
 * A reference queue in plain TypeScript: what a store of jobs does, without a store. `model.test.ts` compares each driver
 * with it, step by step.
 *
 * Where the contract leaves a store a choice, the model takes over what the store chose: whether a lease that has
 * ended, and whose job nobody took yet, still holds.
 */
import assert from "node:assert/strict";
import type {
  FailedJob,
  FailedSelection,
  NewJob,
  QueueCounts,
  Release,
  Reservation,
  Reserved,
  ReserveRequest,
} from "../core/driver.ts";

/** How long a reservation holds, in milliseconds. */
export const LEASE = 10_000;

/** In which order jobs of one priority go: by due time and id, or as they got in line, where the line has no times. */
export type Line = "by due time" | "by arrival";

/** A job. What is done is deleted. */
interface ModelJob extends NewJob {
  readonly id: string;
  state: "waiting" | "reserved" | "failed";
  attempts: number;
  /** How often it was retried; and one more where it was snoozed before that. */
  generation: number;
  dueAt: number;
  /** Its place in a line without times; `null` while it is delayed. */
  place: number | null;
  reservedAt: number;
  holder: Reservation | null;
  /** Which failure it is, of all that there were. */
  failure: number;
}

/** The reference. */
export class Model {
  /** The present. */
  now: number;
  readonly #line: Line;
  readonly #jobs = new Map<string, ModelJob>();
  readonly #keys = new Map<string, string>();
  /** The first and the last place in line so far, and the number of failures. */
  #first = 0;
  #last = 0;
  #failures = 0;

  constructor(now: number, line: Line) {
    this.now = now;
    this.#line = line;
  }

  /** Jobs were stored under these ids. */
  push(jobs: readonly NewJob[], ids: readonly string[]): void {
    assert.equal(new Set(ids).size, jobs.length, "an id for each");
    jobs.forEach((job, index) => {
      const id = ids[index];
      assert.equal(this.#jobs.has(id), false, "a new id");
      const rest = {
        state: "waiting",
        attempts: 0,
        generation: 0,
        reservedAt: 0,
        holder: null,
        failure: 0,
      } as const;
      const added: ModelJob = { ...job, ...rest, id, dueAt: 0, place: null };
      this.#jobs.set(id, added);
      this.#wait(added, job.delay);
    });
  }

  /** A job was pushed under a key: the answer, where it was known. */
  known(key: string): string | undefined {
    return this.#keys.get(key);
  }

  /** Remembers a key. */
  remember(key: string, id: string): void {
    this.#keys.set(key, id);
  }

  /** Jobs were taken: checks that they are those that should be. */
  reserve(request: ReserveRequest, got: Reserved): void {
    const { limit, prefetch, queues } = request;
    const asked = new Set(queues.map(({ queue }) => queue));
    const here = (): ModelJob[] => [...this.#jobs.values()].filter(({ queue }) => asked.has(queue));
    if (this.#line === "by arrival") this.#getInLine(here());
    const ended = here().filter((job) => this.#hasEnded(job));
    const ready = here().filter((job) => this.#isReady(job)).sort((a, b) => this.#compare(a, b));
    const taken = got.jobs.map(({ id }) => this.#jobs.get(id)!);
    if (ended.length === 0) {
      const most = ready.every(({ attempts }) => attempts === 0) ? limit + prefetch : limit;
      const expected = pick(request, most, ready).map(({ id }) => id);
      assert.deepEqual(taken.slice(0, most).map((job) => job?.id), expected, "the first in line");
    } else {
      // When ended leases are noticed is the store's affair: what was ready keeps its order among itself.
      const first = taken.slice(0, limit);
      assert.equal(first.length, pick(request, limit, [...ready, ...ended]).length, "as many as there are");
      for (const queue of asked) {
        const some = first.filter((job) => job.queue === queue && ready.includes(job));
        assert.deepEqual(some, ready.filter((job) => job.queue === queue).slice(0, some.length), "in order");
      }
    }
    assert.equal(new Set(taken).size, taken.length, "each once");
    const beyond = taken.slice(limit);
    assert.equal(
      beyond.length <= prefetch && beyond.every(({ attempts }) => attempts === 0),
      true,
      "prefetch",
    );
    taken.forEach((job, index) => {
      assert.equal(ready.includes(job) || ended.includes(job), true, "one that could be taken");
      const held = got.jobs[index];
      const { id, name, payload, queue, priority } = job;
      const attempt = ++job.attempts;
      const { waited: _, ...known } = held;
      assert.deepEqual({ ...known, token: "" }, { id, name, payload, attempt, queue, priority, token: "" });
      Object.assign(job, { state: "reserved", reservedAt: this.now, holder: held });
    });
    if (taken.length < limit && queues.every((share) => share.limit >= limit)) {
      const next = here().filter((job) => job.state === "waiting").map((job) => job.dueAt - this.now);
      assert.equal(got.nextIn, next.length === 0 ? null : Math.min(...next), "when to ask again");
    }
  }

  /** A settlement was answered; what it does, where it held. */
  complete(held: Reservation, answer: boolean): void {
    if (this.#settled(held, answer)) this.#jobs.delete(held.id);
  }

  release(held: Reservation, how: Release, answer: boolean): void {
    const job = this.#settled(held, answer);
    if (job === null) return;
    if (!how.counted) {
      job.attempts--;
      if (how.delay !== null) job.generation = Math.max(1, job.generation);
    }
    this.#wait(job, how.delay, true);
  }

  fail(held: Reservation, answer: boolean): void {
    const job = this.#settled(held, answer);
    if (job !== null) Object.assign(job, { state: "failed", failure: ++this.#failures });
  }

  extend(held: Reservation, answer: boolean): void {
    const job = this.#settled(held, answer);
    if (job !== null) Object.assign(job, { state: "reserved", holder: held, reservedAt: this.now });
  }

  /** Failed jobs go back, or away: the names of those, in their order. */
  retry(selection: FailedSelection): string[] {
    return this.#selected(selection).map((job) => {
      Object.assign(job, { state: "waiting", attempts: 0, generation: job.generation + 1 });
      this.#wait(job, 0);
      return job.name;
    });
  }

  forget(selection: FailedSelection): string[] {
    return this.#selected(selection).map(({ id, name }) => {
      this.#jobs.delete(id);
      return name;
    });
  }

  /** The ids of the failed jobs, in their order. */
  get failedIds(): string[] {
    return this.#selected({ after: null, limit: Infinity }).map(({ id }) => id);
  }

  // What can be seen

  counts(): QueueCounts[] {
    const counts = new Map<string, { -readonly [Key in keyof QueueCounts]: QueueCounts[Key] }>();
    for (const job of this.#jobs.values()) {
      const { queue, dueAt } = job;
      const of = counts.get(queue) ?? { queue, ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null };
      counts.set(queue, of);
      if (job.state === "failed") of.failed++;
      else if (this.#isReady(job) || this.#hasEnded(job)) {
        of.ready++;
        if (this.#line === "by due time") of.oldest = Math.min(of.oldest ?? Infinity, dueAt);
      } else if (job.state === "waiting") of.delayed++;
      else of.reserved++;
    }
    return [...counts.values()].sort((a, b) => a.queue < b.queue ? -1 : 1);
  }

  /** Since when the ready jobs of a queue may be said to be due: their due times, or the ends of their leases. */
  dueSince(queue: string): number[] {
    const ready = [...this.#jobs.values()].filter((job) => job.queue === queue && job.state !== "failed")
      .filter((job) => this.#isReady(job) || this.#hasEnded(job));
    return ready.flatMap((job) => this.#hasEnded(job) ? [job.dueAt, job.reservedAt + LEASE] : [job.dueAt]);
  }

  /** The queues that must be named, and those that may be. */
  queues(): [must: string[], may: string[]] {
    const waiting = [...this.#jobs.values()].filter(({ state }) => state === "waiting");
    const ended = [...this.#jobs.values()].filter((job) => this.#hasEnded(job));
    const names = (jobs: ModelJob[]) => [...new Set(jobs.map(({ queue }) => queue))].sort();
    return [names(waiting), names([...waiting, ...ended])];
  }

  failed(error: string): Omit<FailedJob, "id">[] {
    return this.#selected({ after: null, limit: Infinity }).map((
      { name, payload, queue, priority, attempts },
    ) => ({ name, payload, queue, priority, attempts, error, stack: null, failedAt: 0, history: [] }));
  }

  // The rules

  #isReady(job: ModelJob): boolean {
    return job.state === "waiting" && (job.place !== null || job.dueAt <= this.now);
  }

  #hasEnded(job: ModelJob): boolean {
    return job.state === "reserved" && job.reservedAt <= this.now - LEASE;
  }

  #compare(a: ModelJob, b: ModelJob): number {
    if (a.priority !== b.priority) return b.priority - a.priority;
    if (this.#line === "by arrival") return a.place! - b.place!;
    return a.dueAt - b.dueAt || Number(a.id) - Number(b.id);
  }

  /** A job waits: for `delay`, or as it was where that is `null`. What is due at once is so to the second. */
  #wait(job: ModelJob, delay: number | null, exact = false): void {
    if (this.#line === "by arrival") {
      job.place = delay === null ? --this.#first : delay === 0 ? ++this.#last : null;
    }
    if (delay === null) return;
    job.dueAt = delay === 0 && !exact && this.#line === "by due time"
      ? Math.floor(this.now / 1000) * 1000
      : this.now + delay;
  }

  /** In a line without times: first those whose lease ended, then those that are due. */
  #getInLine(jobs: ModelJob[]): void {
    const late = (job: ModelJob): boolean => this.#isReady(job) && job.place === null;
    const text = ({ generation, attempts, id }: ModelJob): string =>
      `${"0".repeat(generation)}${attempts} ${id}`;
    const inLine = (some: ModelJob[], since: (job: ModelJob) => number): void => {
      some.sort((a, b) => since(a) - since(b) || (text(a) < text(b) ? -1 : 1));
      for (const job of some) Object.assign(job, { state: "waiting", holder: null, place: ++this.#last });
    };
    inLine(jobs.filter((job) => this.#hasEnded(job)), ({ reservedAt }) => reservedAt);
    inLine(jobs.filter(late), ({ dueAt }) => dueAt);
  }

  /** The job, no longer held, where the settlement held; checks that it did so only for the holder. */
  #settled(held: Reservation, answer: boolean): ModelJob | null {
    const job = this.#jobs.get(held.id);
    if (job === undefined || job.holder !== held) {
      assert.equal(answer, false, "a stale reservation");
      return null;
    }
    if (!this.#hasEnded(job)) assert.equal(answer, true, "the holder's");
    Object.assign(job, { state: "waiting", holder: null });
    return answer ? job : null;
  }

  #selected(selection: FailedSelection): ModelJob[] {
    const all = [...this.#jobs.values()].filter(({ state }) => state === "failed").sort((a, b) =>
      this.#line === "by arrival" ? a.failure - b.failure : Number(a.id) - Number(b.id)
    );
    if ("ids" in selection) return all.filter(({ id }) => selection.ids.includes(id));
    return all.slice(0, selection.limit);
  }
}

/** What a request takes of jobs in order: from each share in turn, no more than it may. */
function pick(request: ReserveRequest, most: number, jobs: readonly ModelJob[]): ModelJob[] {
  const taken = new Set<ModelJob>();
  for (const { queue, limit } of request.queues) {
    const some = jobs.filter((job) => job.queue === queue && !taken.has(job));
    for (const job of some.slice(0, Math.min(limit, most - taken.size))) taken.add(job);
  }
  return [...taken];
}
