/**
 * A timer without setTimeout's limit of 24.8 days, beyond which it fires at once.
 *
 * @module
 */

const LONGEST = 2 ** 31 - 1;

/** Calls `run` after `delay` milliseconds, unless the returned function is called before. */
export function after(delay: number, run: () => void): () => void {
  let timer: ReturnType<typeof setTimeout>;
  const arm = (left: number): void => {
    timer = setTimeout(() => left > LONGEST ? arm(left - LONGEST) : run(), Math.min(left, LONGEST));
  };
  arm(delay);
  return () => clearTimeout(timer);
}
