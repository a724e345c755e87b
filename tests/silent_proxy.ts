/**
 * A proxy before Redis that misbehaves when it is told to.
 *
 * @module
 */
import { connect, createServer, type Server, type Socket } from "node:net";
import { until } from "./until.ts";

/** Passes bytes on, until it is told otherwise. */
export class SilentProxy {
  /** Its port. */
  port = 0;
  /** Whether it swallows what the server answers: commands arrive, and no reply comes back. */
  swallowing = false;
  /** Whether it passes nothing on, in either direction, though its connections stay open. */
  silent = false;
  #kept = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  /** Starts one before `port` of this machine. */
  static async start(port: number): Promise<SilentProxy> {
    const proxy = new SilentProxy(port);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    proxy.port = (proxy.#server.address() as { port: number }).port;
    return proxy;
  }

  private constructor(port: number) {
    this.#server = createServer((inner) => {
      const outer = connect(port, "127.0.0.1");
      for (const socket of [inner, outer]) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => {
          this.#sockets.delete(socket);
          inner.destroy();
          outer.destroy();
        });
      }
      inner.on("data", (data) => this.silent ? this.#kept++ : outer.write(data));
      outer.on("data", (data) => this.silent || this.swallowing ? this.#kept++ : inner.write(data));
    });
  }

  /** Its URL. */
  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  /**
   * Makes a call whose reply is lost (`swallowing`), or that never arrives (`silent`): the connection breaks once
   * something was kept back. So no deadline need be short, which a slow machine would miss where the reply is not lost.
   */
  async losing<Result>(how: "swallowing" | "silent", call: () => Promise<Result>): Promise<Result> {
    const before = this.#kept;
    this[how] = true;
    try {
      let over = false;
      const outcome = call().finally(() => over = true);
      outcome.catch(() => {});
      await until(() => over || this.#kept > before, "the call to be cut off");
      this.cut();
      return await outcome;
    } finally {
      this[how] = false;
    }
  }

  /** Breaks every connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Ends it. */
  async stop(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
