/**
 * What the driver looks at before it trusts a server, and a client that an app brings.
 *
 * @module
 */
import { QueueError } from "../../core/errors.ts";
import { type Connect, isReply, type RedisConnection } from "./connection.ts";
import { messageOf, within } from "./link.ts";

/** The first release whose LPOP takes several. */
const OLDEST = [6, 2];

/**
 * Raised when the keys change in a way by which an older release would lose or spoil jobs; a new key that it does not
 * know is no such change. A store of schema 1 has no key that says so, as the original's has none: a release that
 * changes the keys writes its number to `queue:schema`, and what knows less refuses.
 */
export const SCHEMA = 1;

/**
 * Refuses the store of a newer release.
 *
 * @throws {QueueError} `REDIS`
 */
export async function checkSchema(connection: RedisConnection, prefix: string): Promise<void> {
  const schema = await connection.sendCommand(["GET", `${prefix}queue:schema`]);
  if (schema === null || Number(schema) <= SCHEMA) return;
  throw new QueueError(
    "REDIS",
    `the store has schema ${String(schema)} and this release knows ${SCHEMA}: ` +
      "a newer release made it; upgrade this one",
  );
}

/**
 * Refuses a server on which jobs would be lost.
 *
 * @returns The server's time, as TIME answers it; `null` where it does not say.
 * @throws {QueueError} `CONFIG`
 */
export async function checkServer(
  connection: RedisConnection,
  prefix: string,
  log: { warn(line: string): void } | undefined,
): Promise<readonly string[] | null> {
  let fields: string[];
  try {
    fields = await connection.sendCommand(["EVAL", INFO, "0"]) as string[];
  } catch (error) {
    if (!isReply(error) || !/^(ERR|NOPERM)/.test(error.message)) throw error;
    log?.warn(
      `queue: INFO is refused (${messageOf(error)}): ` +
        "see to it yourself that maxmemory-policy is noeviction and Redis is 6.2 or newer",
    );
    return null;
  }
  const [version, policy, maxmemory, cluster, ...time] = fields;
  if (policy === "") return time;
  const [major, minor] = version.split(".").map(Number);
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    throw new QueueError("CONFIG", `Redis ${version}: expected ${OLDEST.join(".")} or newer`);
  }
  if (cluster === "1" && !/\{[^}]+\}/.test(prefix)) {
    throw new QueueError(
      "CONFIG",
      `REDIS_PREFIX=${JSON.stringify(prefix)}: on Redis Cluster expected a hash tag, such as {app}:, ` +
        "so that all keys of the queue are on one node",
    );
  }
  if (policy === "noeviction") return time;
  const what = `maxmemory-policy is ${policy}, by which a full Redis throws `;
  if (!policy.startsWith("allkeys-")) {
    log?.warn(`queue: ${what}the ids away by which a repeated dispatch is known: set it to noeviction`);
  } else if (maxmemory === "0") {
    log?.warn(`queue: ${what}jobs away once it has a maxmemory: set it to noeviction`);
  } else {
    throw new QueueError("CONFIG", `${what}jobs away: expected noeviction`);
  }
  return time;
}

/** Read by the server, since a client that loses a CR cannot read INFO. */
const INFO = `
local info, answer, time = redis.call('INFO'), {}, redis.call('TIME')
for index, name in ipairs({'redis_version', 'maxmemory_policy', 'maxmemory', 'cluster_enabled'}) do
  answer[index] = string.match(info, name .. ':([^%c]*)') or ''
end
answer[5], answer[6] = time[1], time[2]
return answer`;

/** What some clients read as the end of a reply, or not at all. */
const HARD = "a\r\nb\rc\n$3\r\nfoo\r\n\0\u{1f600}";

/**
 * Tries a client on a connection of its own: whether text comes back as it was sent.
 *
 * @throws {Error} Where it cannot even send plain text: then nothing is known about it.
 */
export async function keepsCarriageReturns(connect: Connect, deadline: number): Promise<boolean> {
  const connection = await within(deadline, connect(), "no connection");
  const echo = (text: string) => {
    const command = ["EVAL", "return ARGV[1]", "0", text];
    return within(deadline, Promise.resolve(connection.sendCommand(command)), "no reply");
  };
  try {
    if (await echo("plain") !== "plain") {
      throw new Error("the client of `connect` does not answer with strings");
    }
    try {
      return await echo(HARD) === HARD && await echo("plain") === "plain";
    } catch {
      return false;
    }
  } finally {
    try {
      await within(100, Promise.resolve(connection.close?.()), "not closed");
    } catch {
      // It may be beyond use by now.
    }
  }
}
