/** Waits for what no event announces: the end of a lease, another process, a file. */

/**
 * Asks again and again until `condition` answers with something true, and returns that.
 *
 * @throws {Error} Naming `what`, after `within` milliseconds.
 */
export async function until<Result>(
  condition: () => Result | Promise<Result>,
  what: string,
  within = 20_000,
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
export async function soon<Result>(promise: Promise<Result>, what: string, within = 20_000): Promise<Result> {
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
