/**
 * The original's own SQL, verbatim, and its order of steps around it: what another program does on our file.
 *
 * @module
 */
import { DatabaseSync } from "node:sqlite";

/** Its tables. */
export const CREATE_TABLES: string = `CREATE TABLE IF NOT EXISTS jobs (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            payload TEXT NOT NULL,
            attempts INTEGER NOT NULL DEFAULT 0,
            available_at INTEGER NOT NULL,
            reserved_at INTEGER
        );
        CREATE INDEX IF NOT EXISTS jobs_available ON jobs (available_at);
        CREATE TABLE IF NOT EXISTS failed_jobs (
            id INTEGER PRIMARY KEY,
            name TEXT NOT NULL,
            payload TEXT NOT NULL,
            error TEXT NOT NULL,
            failed_at INTEGER NOT NULL
        )`;

const PUSH = "INSERT INTO jobs (name, payload, available_at) VALUES (?1, ?2, ?3)";

const RESERVE = `UPDATE jobs SET reserved_at = ?1, attempts = attempts + 1
                     WHERE id = (SELECT id FROM jobs WHERE available_at <= ?1
                                 AND (reserved_at IS NULL OR reserved_at <= ?2) ORDER BY id LIMIT 1)
                     RETURNING id, name, payload, attempts`;

const RELEASE = "UPDATE jobs SET reserved_at = NULL, available_at = ?2 WHERE id = ?1";

const REMOVE = "DELETE FROM jobs WHERE id = ?1";

const FAIL = "INSERT INTO failed_jobs (name, payload, error, failed_at) VALUES (?1, ?2, ?3, ?4)";

const FAILED = "SELECT id, name, payload FROM failed_jobs WHERE ?1 IS NULL OR id = ?1 ORDER BY id";

const UNFAIL = "DELETE FROM failed_jobs WHERE id = ?1";

const FORGET = "DELETE FROM failed_jobs WHERE ?1 IS NULL OR id = ?1 RETURNING id, name";

const WAITING = "SELECT COUNT(*) FROM jobs";

/** All its statements, for a test that none was changed here. */
export const STATEMENTS: readonly string[] = [
  CREATE_TABLES,
  PUSH,
  RESERVE,
  RELEASE,
  REMOVE,
  FAIL,
  FAILED,
  UNFAIL,
  FORGET,
  WAITING,
];

/** A job that it holds: it knows the row id, and nothing else that would tell it from a later holder. */
export interface Held {
  readonly id: bigint;
  readonly name: string;
  readonly payload: string;
  readonly attempt: bigint;
}

/** A program of the original on a file. Its times are Unix seconds; integers are bound as such, as Rust does. */
export class Original {
  /** Its connection, to look around. */
  readonly db: DatabaseSync;

  /** Opens the file and makes the tables where they are missing, as its `Queue::new` does. */
  constructor(path: string) {
    this.db = new DatabaseSync(path, { timeout: 5000 });
    this.db.exec(CREATE_TABLES);
  }

  /** Stores a job. */
  push(name: string, payload: string, due: number): void {
    this.db.prepare(PUSH).run(name, payload, BigInt(due));
  }

  /** Takes the next job. */
  reserve(now: number, retryAfter: number = 90): Held | null {
    const [row] = this.#read(RESERVE, BigInt(now), BigInt(now - retryAfter));
    if (row === undefined) return null;
    return {
      id: row.id as bigint,
      name: row.name as string,
      payload: row.payload as string,
      attempt: row.attempts as bigint,
    };
  }

  /** Makes a job available again. */
  release(held: Held, due: number): void {
    this.db.prepare(RELEASE).run(held.id, BigInt(due));
  }

  /** Forgets a job. */
  remove(held: Held): void {
    this.db.prepare(REMOVE).run(held.id);
  }

  /** Records a failure and forgets the job. */
  fail(held: Held, error: string, now: number): void {
    this.db.prepare(FAIL).run(held.name, held.payload, error, BigInt(now));
    this.remove(held);
  }

  /** Puts failed job `id`, or every one, back onto the queue. */
  retry(id: number | null, now: number): [bigint, string][] {
    return this.#read(FAILED, id === null ? null : BigInt(id)).map((row) => {
      this.push(row.name as string, row.payload as string, now);
      this.db.prepare(UNFAIL).run(row.id as bigint);
      return [row.id as bigint, row.name as string];
    });
  }

  /** Deletes failed job `id`, or every one. */
  forget(id: number | null): [bigint, string][] {
    return this.#read(FORGET, id === null ? null : BigInt(id)).map((row) => [
      row.id as bigint,
      row.name as string,
    ]);
  }

  /** How many jobs are stored. */
  waiting(): number {
    return Number(this.#read(WAITING)[0]["COUNT(*)"]);
  }

  /** Closes its connection. */
  close(): void {
    this.db.close();
  }

  #read(sql: string, ...parameters: (bigint | null)[]): Record<string, unknown>[] {
    const statement = this.db.prepare(sql);
    statement.setReadBigInts(true);
    return statement.all(...parameters) as Record<string, unknown>[];
  }
}
