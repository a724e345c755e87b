/** Jobs of which some leave a transaction open on `job.db`, in every store that has one. */
import type { Job } from "@x/queue";

/** `torn` writes, and throws within its transaction; `whole` notes in `seen` how much of that it finds. */
export function tornJobs(seen: unknown[]) {
  return {
    torn: ({ db }: Job): void => {
      db.exec("CREATE TABLE IF NOT EXISTS orders (item TEXT)");
      db.exec("BEGIN IMMEDIATE");
      db.exec("INSERT INTO orders VALUES ('tea')");
      throw new Error("kaboom");
    },
    whole: ({ db }: Job): void => {
      db.exec("BEGIN");
      seen.push((db.prepare("SELECT count(*) AS n FROM orders").get() as { n: number }).n);
      db.exec("COMMIT");
    },
  };
}
