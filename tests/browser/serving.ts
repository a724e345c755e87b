/**
 * A dashboard on a free port of the loopback.
 *
 * @module
 */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

/** A server of a test's own. */
export interface Serving {
  /** Ends in a slash. */
  readonly url: string;
  /** Ends it, with all that is open. */
  close(): Promise<void>;
}

/** Serves what `listener` answers. */
export async function serve(listener: RequestListener): Promise<Serving> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
