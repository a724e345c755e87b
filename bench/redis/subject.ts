/**
 * What a queue on Redis must offer to be measured.
 *
 * @module
 */
import type { Payload, Subject, Work } from "../subject.ts";

/** Where it is. */
export interface Place {
  readonly host: string;
  readonly port: number;
}

/** A queue on Redis under measurement. */
export interface RedisSubject extends Subject {
  /** Begins to work; `started` is called where a handler begins. */
  hear(started: (data: Payload) => void): Promise<Pick<Work, "stop">>;
}
