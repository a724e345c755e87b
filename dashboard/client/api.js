// @ts-check
/// <reference no-default-lib="true" />
/// <reference lib="dom" />
/// <reference lib="dom.iterable" />
/// <reference lib="esnext" />

/**
 * What is asked of the server: always at the page's own address.
 */

/** @param {string} name */
function meta(name) {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}

/** Whether nothing may be changed. */
export const READ_ONLY = meta("read-only") === "true";

/**
 * @param {string} what
 * @param {Record<string, string>} [parameters]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function get(what, parameters = {}, signal) {
  return await answer(await fetch("?" + new URLSearchParams({ get: what, ...parameters }), { signal }));
}

/** @param {string} action @param {Record<string, unknown>} asked @returns {Promise<any>} */
export async function change(action, asked) {
  return await answer(
    await fetch("?" + new URLSearchParams({ do: action }), {
      method: "POST",
      headers: { "content-type": "application/json", "x-csrf-token": meta("csrf") },
      body: JSON.stringify(asked),
    }),
  );
}

/** @param {Response} response */
async function answer(response) {
  const body = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (response.ok) return body;
  const error = new Error(body.error);
  error.name = String(response.status);
  throw error;
}
