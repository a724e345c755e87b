/**
 * The contract of drivers, by clients of `@iuioiua/redis`. Run by packages.ts, on Deno.
 *
 * @module
 */
import { connect as connectSocket } from "node:net";
import { join } from "node:path";
import { Duplex } from "node:stream";
import { after } from "node:test";
import { type Connect, RedisDriver } from "../../drivers/redis.ts";
import { conformance } from "../conformance.ts";
import { newFolder } from "../folder.ts";
import { endShared, newPrefix, sharedServer } from "../redis_server.ts";

interface Client {
  sendCommand(words: readonly string[]): Promise<unknown>;
}

interface Streams {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
}

// Not as text, which a type check would look up: most machines of developers have no way to JSR.
const specifier: string = "jsr:@iuioiua/redis@^1.1.10";
const { RedisClient } = await import(specifier) as { RedisClient: new (streams: Streams) => Client };

after(endShared);

for (const failed of ["database", "redis"] as const) {
  conformance({
    name: `@iuioiua/redis, failures in ${failed === "redis" ? "Redis" : "the database"}`,
    timeless: "a list has no times: what is ready is in the order in which it became so",
    remembers: "a lane is not forgotten when it is empty: looking at it is cheaper than finding it again",
    plain: "the client ends a reply at the first CR LF, so payloads with a CR are refused",
    async open() {
      const { port } = await sharedServer();
      const folder = newFolder();
      const prefix = newPrefix();
      const database = join(folder.path, "app.sqlite");
      const connect: Connect = async () => {
        const socket = connectSocket(port, "127.0.0.1");
        await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
        const client = new RedisClient(Duplex.toWeb(socket) as unknown as Streams);
        return { sendCommand: (words) => client.sendCommand(words), close: () => void socket.destroy() };
      };
      const another = (): RedisDriver => new RedisDriver({ prefix, connect, database, failed });
      return { driver: another(), another, remove: folder.remove };
    },
  });
}
