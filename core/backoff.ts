/**
 * How long a failed attempt waits before the next one.
 *
 * @module
 */

/** Milliseconds before the first, second and later retries, as in the original: 10 s, 60 s, then 300 s. */
export const DEFAULT_BACKOFF: readonly number[] = [10_000, 60_000, 300_000];

/**
 * The wait after a failed attempt, in milliseconds: the entry for it, or the last one.
 *
 * @param attempt The attempt that failed, from 1.
 * @param backoff The waits in order; never empty.
 */
export function backoffAfter(attempt: number, backoff: readonly number[]): number {
  return backoff[Math.min(attempt, backoff.length) - 1];
}
