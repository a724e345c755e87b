/** The version of this package, as in deno.json and package.json. */
export const VERSION = "0.1.0";
