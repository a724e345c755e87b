/**
 * A proxy before Redis that misbehaves when it is told to.
 *
 * @module
 */
import { connect, createServer, type Server, type Socket } from "node:net";

/** Passes bytes on, until it is told otherwise. */
export class SilentProxy {
  /** Its port. */
  port = 0;
  /** Whether it swallows what the server answers: commands arrive, and no reply comes back. */
  swallowing = false;
  /** Whether it passes nothing on, in either direction, though its connections stay open. */
  silent = false;
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
      inner.on("data", (data) => this.silent || outer.write(data));
      outer.on("data", (data) => this.silent || this.swallowing || inner.write(data));
    });
  }

  /** Its URL. */
  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
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
