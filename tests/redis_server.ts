/**
 * Redis servers that a test starts, stops and starts again: of the program in `QUEUE_TEST_REDIS_SERVER`, which may be
 * one of Valkey's, or the `redis-server` on the PATH.
 *
 * @module
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { Redis } from "ioredis";
import { sendSignal } from "./signal.ts";
import { until } from "./until.ts";

const named: string | undefined = process.env.QUEUE_TEST_REDIS_SERVER;
const program: string = named || "redis-server";

/** Why tests with a server are skipped; `false` where there is one. One that is named and does not run is an error. */
export const noRedis: string | false = find();

function find(): string | false {
  const found = spawnSync(program, ["--version"]);
  if (found.error === undefined && found.status === 0) return false;
  if (named) throw new Error(`QUEUE_TEST_REDIS_SERVER=${named}: it does not run; name a redis-server`);
  return "no redis-server on this machine";
}

/** A server of a test's own, on a free port of the loopback. */
export class RedisServer {
  /** Its folder. */
  readonly folder: string = mkdtempSync(join(tmpdir(), "queue-redis-"));
  /** Its port. */
  port = 0;
  #child: ChildProcess | null = null;
  #options: readonly string[] = [];
  #clients: Redis[] = [];

  /** Starts one. `options` as on its command line. */
  static async start(...options: readonly string[]): Promise<RedisServer> {
    const server = new RedisServer();
    server.#options = options;
    for (let tries = 1;; tries++) {
      server.port = await freePort();
      try {
        await server.start();
        return server;
      } catch (error) {
        // Another suite beside this one was quicker.
        if (tries === 5 || !/Address already in use/.test(String(error))) throw error;
      }
    }
  }

  /** Its URL. */
  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /** The path of its unix socket. */
  get socket(): string {
    return join(this.folder, "redis.sock");
  }

  /** Its process id. */
  get pid(): number {
    return this.#child!.pid!;
  }

  /** Starts it, once more after `kill`. */
  async start(): Promise<void> {
    const child = this.#child = spawn(program, [
      ...["--port", String(this.port), "--bind", "127.0.0.1", "--save", "", "--dir", this.folder],
      ...["--unixsocket", this.socket, "--loglevel", "warning"],
      ...this.#options,
    ], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout!.on("data", (data) => output += data);
    child.stderr!.on("data", (data) => output += data);
    let over = false;
    child.on("close", () => over = true);
    await until(async () => {
      if (over) throw new Error(`${program} ended: ${output}`);
      const probe = new Redis(this.socket, {
        lazyConnect: true,
        retryStrategy: null,
        enableReadyCheck: false,
      });
      probe.on("error", () => {});
      try {
        await probe.connect();
        const answer = await probe.ping().catch((error) => String(error));
        return !answer.includes("LOADING");
      } catch {
        return false;
      } finally {
        probe.disconnect();
      }
    }, "redis-server to start");
  }

  /** A connection by its socket, to look around with. */
  get client(): Redis {
    if (this.#clients.length === 0) {
      const client = new Redis(this.socket, { enableReadyCheck: false, retryStrategy: () => 20 });
      client.on("error", () => {});
      this.#clients.push(client);
    }
    return this.#clients[0];
  }

  /** Sends it a signal; at SIGKILL, waits for its end. */
  async signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): Promise<void> {
    const child = this.#child!;
    const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
    sendSignal(child.pid!, signal);
    if (signal === "SIGKILL") await ended;
  }

  /** Ends it and removes its folder. */
  async stop(): Promise<void> {
    for (const client of this.#clients.splice(0)) client.disconnect();
    const child = this.#child!;
    if (child.exitCode === null && child.signalCode === null) await this.signal("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/**
 * Where ports are looked for: below those that systems give out by themselves, to any connection of anybody, so that
 * one that is free remains so until it is listened on; and such that with 10,000 more, where a node of a cluster
 * listens to the others, it is still a port.
 */
const PORTS = { from: 10_000, to: 20_000 };

const given = new Set<number>();

/** A port that nobody listens on, and that was not given before. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 1000; tries++) {
    const port = PORTS.from + Math.floor(Math.random() * (PORTS.to - PORTS.from));
    if (given.has(port)) continue;
    given.add(port);
    if (await isFree(port)) return port;
  }
  throw new Error(`no port from ${PORTS.from} to ${PORTS.to} is free`);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  const isOpen = await new Promise<boolean>((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => resolve(true));
  });
  if (isOpen) await new Promise((resolve) => server.close(resolve));
  return isOpen;
}

/** How often the server was sent each command. */
export async function commands(server: RedisServer): Promise<Map<string, number>> {
  const info = await server.client.info("commandstats");
  return new Map(
    [...info.matchAll(/cmdstat_(\w+):calls=(\d+)/g)].map(([, name, calls]) => [name, Number(calls)]),
  );
}

/** How often a worker began to wait at the bell. */
export async function lookedAtBell(server: RedisServer): Promise<number> {
  return (await commands(server)).get("bzpopmin") ?? 0;
}

/**
 * How many commands workers send while the bell is looked at so many times more, and how long that takes, at the most:
 * a machine that stands still sends less. What they send to the bell is counted apart.
 */
export async function commandsDuring(
  server: RedisServer,
  looks: number,
): Promise<{ sent: number; looks: number; seconds: number }> {
  const count = async () => {
    const all = await commands(server);
    const sent = ["evalsha", "eval", "smembers", "exists"].reduce(
      (sum, name) => sum + (all.get(name) ?? 0),
      0,
    );
    return { sent, looks: all.get("bzpopmin") ?? 0 };
  };
  const since = performance.now();
  const before = await count();
  await until(async () => await lookedAtBell(server) >= before.looks + looks, "it to look at the bell");
  const after = await count();
  return {
    sent: after.sent - before.sent,
    looks: after.looks - before.looks,
    seconds: (performance.now() - since) / 1000,
  };
}

let shared: Promise<RedisServer> | null = null;
let prefixes = 0;

/** A server that all tests of a file share, each with a prefix of its own. The file ends it with {@linkcode endShared}. */
export function sharedServer(): Promise<RedisServer> {
  shared ??= RedisServer.start();
  return shared;
}

/** A prefix that no other test has. */
export function newPrefix(): string {
  return `test ${++prefixes}:`;
}

/** Ends the shared server, where one was started. */
export async function endShared(): Promise<void> {
  await (await shared)?.stop();
  shared = null;
}
