/** Waits for what no event announces: the end of a lease, another process, a file. */

/**
 * How long is waited for what must come, in milliseconds. It costs nothing where it comes: it is for machines that
 * stand still for many seconds while they run several suites at once.
 */
export const PATIENCE = 60_000;

/**
 * Asks again and again until `condition` answers with something true, and returns that.
 *
 * @throws {Error} Naming `what`, after `within` milliseconds.
 */
export async function until<Result>(
  condition: () => Result | Promise<Result>,
  what: string,
  within = PATIENCE,
): Promise<Result> {
  const deadline = performance.now() + within;
  for (;;) {
    const result = await condition();
    if (result) return result;
    if (performance.now() > deadline) throw new Error(`waited ${within} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Waits for `promise`, or fails naming `what`: a lost wake-up should say so, not run into the test's timeout. */
export async function soon<Result>(
  promise: Promise<Result>,
  what: string,
  within = PATIENCE,
): Promise<Result> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${within} ms for ${what}`)), within);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
