import { InvalidArgumentError } from "commander";
import { type Address, ADDRESS_SYNTAX, parseAddress } from "./address.ts";
import { DURATION_SYNTAX, parseDuration } from "./duration.ts";

/** An option's value as a whole number of at least `least`. commander adds the option's name and what it was. */
export function wholeNumber(least: number, most: number = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = /^[+-]?\d+$/.test(text) ? Number(text) : NaN;
    if (Number.isSafeInteger(number) && number >= least && number <= most) return number;
    const range = most === Number.MAX_SAFE_INTEGER ? `${least} or more` : `from ${least} to ${most}`;
    throw new InvalidArgumentError(`Expected a whole number, ${range}.`);
  };
}

/** An option's value as milliseconds, `least` or more. */
export function duration(least: 0 | 1): (text: string) => number {
  return (text) => {
    const milliseconds = parseDuration(text);
    if (milliseconds !== undefined && milliseconds >= least) return milliseconds;
    throw new InvalidArgumentError(`Expected ${DURATION_SYNTAX}${least === 0 ? "" : ", not 0"}.`);
  };
}

/** An option's value as where to listen. */
export function address(text: string): Address {
  const parsed = parseAddress(text);
  if (parsed !== undefined) return parsed;
  throw new InvalidArgumentError(`Expected ${ADDRESS_SYNTAX}.`);
}

/** An option's value as one of a few words. */
export function oneOf<const Choice extends string>(choices: readonly Choice[]): (text: string) => Choice {
  return (text) => {
    const found = choices.find((choice) => choice === text);
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`Expected ${choices.join(" or ")}.`);
  };
}

/** An option's value as the id of a failed job, which is a number in every store. */
export function failedId(text: string): string {
  if (/^\d+$/.test(text)) return text;
  throw new InvalidArgumentError("Expected an id as queue:failed shows it, which is a number.");
}

/** An option's value that must not be empty, which a variable that the shell does not know would leave. */
export function notEmpty(text: string): string {
  if (text.trim() === "") throw new InvalidArgumentError("Expected something.");
  return text;
}
