/**
 * Signs a webhook the way of standardwebhooks.com, and checks such a signature.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";

/** What a signature covers: that this body was sent under this id at this time. */
export interface Signed {
  /** The `webhook-id` header. */
  readonly id: string;
  /** The `webhook-timestamp` header: Unix seconds. */
  readonly timestamp: string;
  /** The body as sent, byte for byte. */
  readonly body: string;
}

/** The `webhook-signature` header. */
export function sign({ id, timestamp, body }: Signed, secret: string): string {
  return "v1," + createHmac("sha256", secret).update(`${id}.${timestamp}.${body}`).digest("base64");
}

/** Whether the signature is right, found out in a time that tells nothing about the right one. */
export function isSigned(signed: Signed, secret: string, signature: string): boolean {
  const expected = Buffer.from(sign(signed, secret));
  const actual = Buffer.from(signature);
  return expected.length === actual.length && timingSafeEqual(expected, actual);
}
