/**
 * Who may look, and who may change: the token, the session that a browser keeps, and the proof that a change was asked
 * for on our own page.
 *
 * Nothing is kept here: a session is a cookie that says what it is and carries a MAC. With a token the key is derived
 * from it, so that sessions outlive a restart and hold in every process; without one it is made up at the start.
 *
 * @module
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** How long a browser that gave the token need not give it again, in milliseconds. */
const LIFE = 12 * 3_600_000;

/** A browser's session. */
export interface Session {
  /** Made up for each; a login gives it a new one. */
  readonly id: string;
  /** Whether the token was given. */
  readonly known: boolean;
  /** In epoch milliseconds; `Infinity` for one that ends with the browser. */
  readonly endsAt: number;
}

/** Makes and reads sessions. */
export class Sessions {
  /** The cookie's name: its own for each key, since ports of one host share their cookies. */
  readonly cookie: string;
  readonly #token: string | null;
  readonly #key: Uint8Array;

  constructor(token: string | null) {
    this.#token = token;
    this.#key = token === null
      ? randomBytes(32)
      : createHmac("sha256", token).update("x-queue dashboard").digest();
    this.cookie = `queue_${this.#mac("cookie").slice(0, 8)}`;
  }

  /** A new session. */
  start(known: boolean, now: number): Session {
    return { id: randomBytes(16).toString("hex"), known, endsAt: known ? now + LIFE : Infinity };
  }

  /** The session of a `Cookie` header; `null` where it has none of ours that still holds. */
  read(header: string | null, now: number): Session | null {
    for (const pair of (header ?? "").split(";")) {
      const [name, value = ""] = pair.trim().split("=");
      if (name !== this.cookie) continue;
      const [id, kind, end, mac = ""] = value.split(".");
      if (!same(mac, this.#mac(`session ${id}.${kind}.${end}`))) continue;
      const endsAt = kind === "known" ? Number(end) : Infinity;
      if (endsAt > now) return { id, known: kind === "known", endsAt };
    }
    return null;
  }

  /** The `Set-Cookie` header that keeps a session. */
  write({ id, known, endsAt }: Session, secure: boolean): string {
    const text = `${id}.${known ? "known" : "any"}.${known ? endsAt : 0}`;
    const age = known ? `; Max-Age=${LIFE / 1000}` : "";
    const flags = `; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
    return `${this.cookie}=${text}.${this.#mac(`session ${text}`)}${age}${flags}`;
  }

  /** What a page of this session sends with each change. */
  proof({ id }: Session): string {
    return this.#mac(`proof ${id}`);
  }

  /** Whether that is the proof of this session. */
  proves(session: Session, proof: string): boolean {
    return same(proof, this.proof(session));
  }

  /** Whether that is the token. */
  accepts(given: string): boolean {
    return this.#token !== null && same(given, this.#token);
  }

  /** Whether an `Authorization` header carries the token. */
  acceptsHeader(header: string | null): boolean {
    const given = /^Bearer +(\S+)$/i.exec(header ?? "")?.[1];
    return given !== undefined && this.accepts(given);
  }

  #mac(text: string): string {
    return createHmac("sha256", this.#key).update(text).digest("hex");
  }
}

/** Compares texts in a time that tells nothing of them: as digests, which have one length. */
function same(left: string, right: string): boolean {
  const key = randomBytes(32);
  const digest = (text: string): Uint8Array => createHmac("sha256", key).update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}
