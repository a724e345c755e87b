/**
 * A connection to Redis: what an app may bring, and the one that the driver makes itself.
 *
 * @module
 */
import process from "node:process";
import { QueueError } from "../../core/errors.ts";

/** One open connection. */
export interface RedisConnection {
  /** Sends one command and resolves with its reply: strings, numbers, null, and arrays of those. */
  sendCommand(command: string[]): Promise<unknown>;
  /** Closes it. */
  close?(): unknown;
  /** Whether it is known to be closed: then another one is opened, rather than a command lost on this one. */
  readonly closed?: boolean;
}

/** Opens a connection; called again whenever one is lost. */
export type Connect = () => Promise<RedisConnection>;

/** Where a server is, and how it is spoken to. */
export interface Address {
  /** `redis://` or `rediss://`, with a user, a password and a database; or the path of a unix socket. */
  readonly url: string;
  /** Options of `node:tls` for `rediss://`, such as `ca`. */
  readonly tls?: object;
}

/**
 * The client that the driver brings, loaded by those alone who use Redis.
 *
 * @throws {QueueError} `CONFIG` where it is not installed.
 */
export async function loadClient(): Promise<Pick<typeof import("ioredis"), "Cluster" | "Command" | "Redis">> {
  try {
    return await import("ioredis");
  } catch (cause) {
    throw new QueueError(
      "CONFIG",
      'the package ioredis cannot be loaded, which QUEUE_CONNECTION=redis needs: install it ("ioredis": "npm:ioredis@6" ' +
        `in the imports of deno.json), or bring a connection of your own: ${
          cause instanceof Error ? cause.message : cause
        }`,
      { cause },
    );
  }
}

/**
 * Opens connections with ioredis, which never sends a command a second time here: one whose reply was lost may have
 * run. Reconnecting is the driver's affair, as with a connection that an app brings.
 *
 * @param address The server; one node of a cluster is enough.
 * @param deadline How long connecting may take, in milliseconds.
 */
export function ioredis({ url, tls }: Address, deadline: number): Connect {
  return async () => {
    const { Cluster, Command, Redis } = await loadClient();
    const strict = {
      lazyConnect: true,
      // RESP2: no HELLO, which an ACL or a proxy may not allow; the replies here are the same.
      protocol: 2 as const,
      disableClientInfo: true,
      enableReadyCheck: false,
      retryStrategy: null,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      // The driver has the same deadline, and knows when this process stood still: this one is for what it gave up.
      connectTimeout: 2 * deadline,
      // How long a socket that does not answer is waited for when it is closed.
      disconnectTimeout: 50,
      ...(tls === undefined ? {} : { tls }),
    };
    // The cause of a failure is only told to a listener. What a server said is better than that it then hung up.
    let cause: unknown;
    const opened = async <Client extends InstanceType<typeof Redis> | InstanceType<typeof Cluster>>(
      client: Client,
    ): Promise<Client> => {
      client.on("error", (error) => {
        if (!isReply(cause)) cause = error;
      });
      try {
        await client.connect();
        return client;
      } catch (error) {
        client.disconnect();
        throw cause ?? error;
      }
    };
    const single = await opened(new Redis(url, { ...strict, enableOfflineQueue: false }));
    const cluster = await greet(single).catch((error) => {
      single.disconnect();
      throw error instanceof QueueError || isReply(error) ? error : cause ?? error;
    });
    const client = cluster
      ? await opened(
        new Cluster([{ host: single.options.host, port: single.options.port }], {
          lazyConnect: true,
          enableOfflineQueue: false,
          enableReadyCheck: false,
          clusterRetryStrategy: () => null,
          // A command on a connection that was lost may have run.
          retryDelayOnFailover: 0,
          slotsRefreshTimeout: deadline,
          redisOptions: { ...strict, username: single.options.username, password: single.options.password },
        }),
      ).finally(() => single.disconnect())
      : single;
    const stream = "stream" in client ? client.stream as Stream : null;
    let corked = false;
    return {
      sendCommand(words) {
        // What is sent at once goes out in one piece, and wakes the server once.
        if (stream !== null && !corked) {
          corked = true;
          stream.cork();
          process.nextTick(() => {
            corked = false;
            stream.uncork();
          });
        }
        // Not by `call`, which takes its words as arguments, of which there can be too many.
        const command = new Command(words[0], words.slice(1), { replyEncoding: "utf8" });
        return (client.sendCommand(command) as Promise<unknown>).catch((error) => {
          throw isReply(error) ? error : cause ?? error;
        });
      },
      close: () => client.disconnect(),
      get closed() {
        return client.status !== "ready";
      },
    };
  };
}

interface Stream {
  cork(): void;
  uncork(): void;
}

/** What is asked of a server before it is used. */
interface Greeted {
  readonly options: { readonly db?: number };
  select(database: number): Promise<unknown>;
  call(name: string, section: string): Promise<unknown>;
}

/** Whether it is a node of a cluster. */
async function greet(client: Greeted): Promise<boolean> {
  await select(client, client.options.db ?? 0);
  try {
    return /^cluster_enabled:1/m.test(String(await client.call("INFO", "cluster")));
  } catch (error) {
    if (isReply(error) && !isFarewell(error)) return false; // An ACL without INFO.
    throw error;
  }
}

/**
 * Asks for the database once more: where the server refuses it, ioredis goes on in database 0, which is another queue's.
 *
 * @throws {QueueError} `CONFIG`
 */
async function select(client: Greeted, database: number): Promise<void> {
  if (database === 0) return;
  try {
    await client.select(database);
  } catch (cause) {
    if (!isReply(cause) || isFarewell(cause) || !/^(ERR|NOPERM)/.test(cause.message)) throw cause;
    const why = `the database ${database} cannot be selected: ${cause.message}`;
    throw new QueueError("CONFIG", `REDIS_URL: ${why}; expected one that the server has`, { cause });
  }
}

/** Whether a server said this in place of an answer, and hung up: in protected mode, or with too many clients. */
function isFarewell(error: Error): boolean {
  return /^(DENIED|ERR max number of clients)/.test(error.message);
}

/** Whether the server itself refused: then the command did not run, and the connection is sound. */
export function isReply(error: unknown): error is Error {
  return error instanceof Error && /^[A-Z][A-Z0-9]*( |$)/.test(error.message) &&
    !/^E(CONN|PIPE|TIMEDOUT|HOST|NET|AI_)/.test(error.message);
}

/** Its parts are decoded later, where an error of that would name neither the setting nor what is wrong. */
function refuseEncoding(url: URL | null): void {
  const parts = url === null
    ? []
    : [["user", url.username], ["password", url.password], ["path", url.pathname]];
  for (const [what, part] of parts) {
    try {
      decodeURIComponent(part);
    } catch {
      const expected = "a % that stands for itself is written %25";
      throw new QueueError("CONFIG", `REDIS_URL: its ${what} has a % that encodes nothing: ${expected}`);
    }
  }
}

/**
 * A URL that ioredis understands.
 *
 * @throws {QueueError} `CONFIG`, without the password that may be in it.
 */
export function checkUrl(url: string): string {
  if (url.startsWith("/") && !url.startsWith("//")) return url;
  const parsed = URL.canParse(url) ? new URL(url) : null;
  refuseEncoding(parsed);
  if (parsed !== null && ["unix:", "redis+unix:"].includes(parsed.protocol) && parsed.pathname !== "") {
    return decodeURIComponent(parsed.pathname) + parsed.search;
  }
  const database = parsed?.pathname.replace(/^\//, "") ?? "";
  if (
    parsed === null || !["redis:", "rediss:"].includes(parsed.protocol) || parsed.hostname === "" ||
    !/^\d*$/.test(database)
  ) {
    throw new QueueError(
      "CONFIG",
      "REDIS_URL: expected redis://[user:password@]host[:port][/database], rediss:// for TLS, or the path of a unix socket",
    );
  }
  return url;
}
