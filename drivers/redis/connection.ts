/**
 * A connection to Redis: what an app may bring, and the one that the driver makes itself.
 *
 * @module
 */
import { QueueError } from "../../core/errors.ts";

/** One open connection. */
export interface RedisConnection {
  /** Sends one command and resolves with its reply: strings, numbers, null, and arrays of those. */
  sendCommand(command: string[]): Promise<unknown>;
  /** Closes it. */
  close?(): unknown;
}

/** Opens a connection; called again whenever one is lost. */
export type Connect = () => Promise<RedisConnection>;

/**
 * Opens connections with ioredis, which never sends a command a second time here: one whose reply was lost may have
 * run. Reconnecting is the driver's affair, as with a connection that an app brings.
 *
 * @param url `redis://` or `rediss://`, with a user, a password and a database; or the path of a unix socket.
 * @param deadline How long connecting may take, in milliseconds.
 */
export function ioredis(url: string, deadline: number): Connect {
  return async () => {
    const { Redis } = await import("ioredis");
    const client = new Redis(url, {
      lazyConnect: true,
      retryStrategy: null,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      enableOfflineQueue: false,
      connectTimeout: deadline,
    });
    // The cause of a failure is only here.
    let cause: unknown;
    client.on("error", (error) => cause = error);
    try {
      await client.connect();
    } catch (error) {
      client.disconnect();
      throw cause ?? error;
    }
    return {
      sendCommand: ([name, ...parameters]) =>
        client.call(name, ...parameters).catch((error) => {
          throw isReply(error) ? error : cause ?? error;
        }),
      close: () => client.disconnect(),
    };
  };
}

/** Whether the server itself refused: then the command did not run, and the connection is sound. */
export function isReply(error: unknown): boolean {
  return error instanceof Error && /^[A-Z][A-Z0-9]*( |$)/.test(error.message);
}

/**
 * A URL that ioredis understands.
 *
 * @throws {QueueError} `CONFIG`, without the password that may be in it.
 */
export function checkUrl(url: string): string {
  if (url.startsWith("/")) return url;
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !["redis:", "rediss:", "unix:", "redis+unix:"].includes(parsed.protocol)) {
    throw new QueueError(
      "CONFIG",
      "REDIS_URL: expected redis://[user:password@]host[:port][/database], rediss:// for TLS, or the path of a unix socket",
    );
  }
  return url;
}
