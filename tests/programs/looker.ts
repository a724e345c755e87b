/** Looks at a store as somebody whom permissions hold, and writes to it; says what it saw, or what went wrong. */
import process from "node:process";
import { SqliteDriver } from "../../drivers/sqlite.ts";
import { say } from "./say.ts";

const { file, until } = JSON.parse(process.argv[2]) as { file: string; until?: "written" };

// Root is held by none. What is imported from here on must be built in: nobody else may read where this lies.
if (process.getuid!() === 0) {
  process.setgid!(65_534);
  process.setuid!(65_534);
}

const driver = new SqliteDriver({ database: file });
try {
  const [counts] = await driver.counts(null, 90_000);
  const failed = await driver.failed({ after: null, limit: 10 });
  const found = await driver.find("2", null, 90_000);
  say("saw", counts.ready, counts.failed, failed.map(({ name }) => name), found?.name ?? null);
} catch (error) {
  say("refused", (error as Error).message);
}
for (let wrote = false; !wrote;) {
  try {
    await driver.pause("mail");
    say("wrote");
    wrote = true;
  } catch (error) {
    say("kept", (error as Error).message);
    if (until === undefined) break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
await driver.close();
