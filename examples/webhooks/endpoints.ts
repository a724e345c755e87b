/**
 * Who is told about which events.
 *
 * A job carries only an endpoint's name. Its URL and secret are looked up when the job runs, so that no secret lies in
 * the database and a corrected URL holds for the jobs that wait already.
 *
 * @module
 */
import process from "node:process";

/** A place that events are delivered to. */
export interface Endpoint {
  /** Where it listens. */
  readonly url: string;
  /** Signs what is sent there; its owner has the same. */
  readonly secret: string;
  /** The types of event that it wants. */
  readonly events: readonly string[];
}

const receiver: string = process.env.RECEIVER_URL ?? "http://127.0.0.1:4001";
const secret: string = process.env.WEBHOOK_SECRET ?? "for local use only";

/** The endpoints by name. A real app would keep them in a table. */
export const endpoints: Readonly<Record<string, Endpoint>> = {
  billing: { url: `${receiver}/billing`, secret, events: ["order.paid"] },
  mailer: { url: `${receiver}/mailer`, secret, events: ["order.paid"] },
  crm: { url: `${receiver}/crm`, secret, events: ["user.joined"] },
  archive: { url: `${receiver}/archive`, secret, events: ["month.closed"] },
};
