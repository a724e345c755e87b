/**
 * The stores under torture, and what can be done to each.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as pass } from "node:timers/promises";
import type { QueueOptions } from "../../mod.ts";
import { RedisServer } from "../redis_server.ts";
import { SilentProxy } from "../silent_proxy.ts";
import { until } from "../until.ts";
import type { FaultKind } from "./history.ts";

/** What a process is given to find its store. */
export type Place = Pick<QueueOptions, "database" | "connection" | "redis" | "failed">;

/** A store under torture. */
export interface Store {
  readonly driver: "sqlite" | "redis";
  /** Its own faults, each begun at the call and over when the promise resolves. `lasts` is in milliseconds. */
  readonly faults: Readonly<Partial<Record<FaultKind, (lasts: number) => Promise<void>>>>;
  /** What cannot be done to it here, with the reason. */
  readonly left: readonly string[];
  /** Where a member of the fleet finds it. */
  place(slot: string): Promise<Place>;
  /** Where it is for one who is spared. */
  readonly direct: Place;
  /** The faults of one member's way to it. */
  readonly linkFaults: Readonly<
    Partial<Record<FaultKind, (slot: string, lasts: number) => Promise<void>>>
  >;
  /** Resolves when it answers, where it is a process of its own: that may be slow without being struck. */
  answers?(): Promise<unknown>;
  /** Takes it away. */
  remove(): Promise<void>;
}

/** An SQLite file: on a small disk of its own, where this machine lets us have one. */
export class SqliteStore implements Store {
  readonly driver = "sqlite";
  readonly linkFaults = {};
  readonly left: readonly string[];
  readonly faults: Store["faults"];
  readonly direct: Place;
  readonly #disk: string;
  readonly #isMounted: boolean;

  /** Makes it in `folder`. */
  constructor(folder: string) {
    this.#disk = join(folder, "disk");
    mkdirSync(this.#disk);
    this.#isMounted = process.platform === "linux" && process.getuid?.() === 0 &&
      spawnSync("mount", ["-t", "tmpfs", "-o", "size=64m", "queue-torture", this.#disk]).status === 0;
    this.left = this.#isMounted ? [] : ["full disk: no permission to mount a file system here"];
    this.direct = { database: join(this.#disk, "queue.sqlite") };
    this.faults = {
      lock: (lasts) => this.#lock(lasts),
      ...(this.#isMounted ? { "full disk": (lasts: number) => this.#fill(lasts) } : {}),
    };
  }

  place(): Promise<Place> {
    return Promise.resolve(this.direct);
  }

  remove(): Promise<void> {
    if (this.#isMounted) {
      const ended = spawnSync("umount", [this.#disk], { encoding: "utf8" });
      if (ended.status !== 0) throw new Error(`the small disk cannot be unmounted: ${ended.stderr}`);
    }
    return Promise.resolve();
  }

  /** Holds the write lock. */
  async #lock(lasts: number): Promise<void> {
    const file = this.direct.database as string;
    if (!existsSync(file)) return;
    const other = new DatabaseSync(file);
    try {
      await until(() => {
        try {
          other.exec("BEGIN IMMEDIATE");
          return true;
        } catch {
          // Somebody writes: once more.
          return false;
        }
      }, "the write lock");
      await pass(lasts);
      other.exec("ROLLBACK");
    } finally {
      other.close();
    }
  }

  /** Leaves the disk without a free page. */
  async #fill(lasts: number): Promise<void> {
    const ballast = join(this.#disk, "ballast");
    const end = performance.now() + lasts;
    // What is checkpointed meanwhile gives pages back, so it is filled again and again.
    while (performance.now() < end) {
      for (const size of [2 ** 22, 2 ** 16, 2 ** 12]) {
        try {
          for (;;) writeFileSync(ballast, new Uint8Array(size), { flag: "a" });
        } catch (error) {
          if (!String(error).includes("ENOSPC") && !String(error).includes("os error 28")) throw error;
        }
      }
      await pass(20);
    }
    rmSync(ballast);
  }
}

/** A Redis server that keeps every command, behind a proxy for each member of the fleet. */
export class RedisStore implements Store {
  readonly driver = "redis";
  readonly left: readonly string[] = [];
  readonly #server: RedisServer;
  readonly #failed: "database" | "redis";
  readonly #database: string;
  readonly #proxies = new Map<string, SilentProxy>();

  /** Starts one. */
  static async start(folder: string, failed: "database" | "redis"): Promise<RedisStore> {
    const server = await RedisServer.start("--appendonly", "yes", "--appendfsync", "always");
    return new RedisStore(server, folder, failed);
  }

  private constructor(server: RedisServer, folder: string, failed: "database" | "redis") {
    this.#server = server;
    this.#failed = failed;
    this.#database = join(folder, "app.sqlite");
  }

  get direct(): Place {
    return this.#place(this.#server.url);
  }

  async place(slot: string): Promise<Place> {
    let proxy = this.#proxies.get(slot);
    if (proxy === undefined) {
      proxy = await SilentProxy.start(this.#server.port);
      this.#proxies.set(slot, proxy);
    }
    return this.#place(proxy.url);
  }

  answers(): Promise<unknown> {
    return this.#server.client.ping();
  }

  readonly faults: Store["faults"] = {
    restart: async (lasts) => {
      await this.#server.signal("SIGKILL");
      await pass(lasts / 3);
      await this.#server.start();
    },
    freeze: async (lasts) => {
      await this.#server.signal("SIGSTOP");
      await pass(lasts);
      await this.#server.signal("SIGCONT");
    },
    pause: async (lasts) => {
      await this.#server.client.call("CLIENT", "PAUSE", String(Math.ceil(lasts)), "ALL");
      await pass(lasts);
    },
    "kill clients": async () => {
      await this.#server.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    },
    "flush scripts": async () => {
      await this.#server.client.call("SCRIPT", "FLUSH");
    },
  };

  readonly linkFaults: Store["linkFaults"] = {
    "half-open": (slot, lasts) => this.#silence(slot, lasts, "silent"),
    "lost replies": (slot, lasts) => this.#silence(slot, lasts, "swallowing"),
  };

  async remove(): Promise<void> {
    for (const proxy of this.#proxies.values()) await proxy.stop();
    await this.#server.stop();
  }

  #place(url: string): Place {
    return {
      database: this.#database,
      connection: "redis",
      redis: { url, prefix: "torture:" },
      failed: this.#failed,
    };
  }

  async #silence(slot: string, lasts: number, how: "silent" | "swallowing"): Promise<void> {
    const proxy = this.#proxies.get(slot)!;
    proxy[how] = true;
    await pass(lasts);
    // What was swallowed would be missing in the middle of what follows.
    proxy.cut();
    proxy[how] = false;
  }
}
