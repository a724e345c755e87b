/**
 * Gathers messages, so that those of one turn of the event loop cross together.
 *
 * @module
 */
import { setImmediate } from "node:timers";

/** Sends what was put in during a turn as one array. */
export class Outbox<Message> {
  readonly #send: (messages: readonly Message[]) => void;
  #messages: Message[] = [];

  /** @param send Sends them; must not throw. */
  constructor(send: (messages: readonly Message[]) => void) {
    this.#send = send;
  }

  /** Sends it soon, after those before it. */
  put(message: Message): void {
    if (this.#messages.push(message) === 1) setImmediate(() => this.flush());
  }

  /** Sends now what was put in so far. */
  flush(): void {
    if (this.#messages.length === 0) return;
    const messages = this.#messages;
    this.#messages = [];
    this.#send(messages);
  }
}
