import { closestMatch } from "leven";

/** The candidate that `word` is most likely a slip of, or `undefined` where none is near. */
export function suggest(word: string, candidates: readonly string[]): string | undefined {
  const byLower = new Map(candidates.map((candidate) => [candidate.toLowerCase(), candidate]));
  // A third of the letters, rounded up: two that are swapped count as two.
  const near = closestMatch(word.toLowerCase(), [...byLower.keys()], {
    maxDistance: Math.ceil(word.length / 3),
  });
  return near === undefined ? undefined : byLower.get(near);
}
