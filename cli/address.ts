/** Where a server listens. */
export interface Address {
  readonly host: string;
  readonly port: number;
}

/** What {@linkcode parseAddress} takes, for the errors of options. */
export const ADDRESS_SYNTAX = "a port, or an address and a port (9464, 0.0.0.0:9464, [::1]:9464)";

/** `9464`, on this machine alone, or `0.0.0.0:9464`; `undefined` for anything else. */
export function parseAddress(text: string): Address | undefined {
  const parts = /^(?:(?:\[([0-9a-f:.%]+)\]|([^\s:/[\]]+)):)?(\d{1,5})$/i.exec(text.trim());
  if (parts === null || Number(parts[3]) > 65_535) return undefined;
  return { host: parts[1] ?? parts[2] ?? "127.0.0.1", port: Number(parts[3]) };
}
