/**
 * Texts of replies that begin with what an app chose, such as the name of a queue. Some clients, `@iuioiua/redis` among
 * them, read a text that begins as a line of the protocol does, as "-1 mail", for that line: an error, a number. So
 * each comes with a letter before it.
 *
 * @module
 */

/** Lua that marks texts. */
export const MARKED = `
local function marked(texts)
  for index, text in ipairs(texts) do texts[index] = 'x' .. text end
  return texts
end
`;

/** The texts themselves. */
export function unmarked(texts: readonly string[]): string[] {
  return texts.map((text) => text.slice(1));
}
