import { after } from "node:test";
import { join } from "node:path";
import { RedisDriver } from "../drivers/redis.ts";
import { conformance } from "./conformance.ts";
import { newFolder } from "./folder.ts";
import { endShared, newPrefix, noRedis, sharedServer } from "./redis_server.ts";

after(endShared);

for (const failed of ["database", "redis"] as const) {
  conformance({
    name: `Redis, failures in ${failed === "redis" ? "Redis" : "the database"}`,
    skip: noRedis,
    timeless: "a list has no times: what is ready is in the order in which it became so",
    remembers: "a lane is not forgotten when it is empty: looking at it is cheaper than finding it again",
    async open() {
      const { url } = await sharedServer();
      const folder = newFolder();
      const prefix = newPrefix();
      const database = join(folder.path, "app.sqlite");
      const another = () => new RedisDriver({ url, prefix, database, failed });
      return { driver: another(), another, remove: folder.remove };
    },
  });
}
