/** `2026-12-01 12:04:05` by the clock of the machine. */
export function localTime(time: Date): string {
  const two = (number: number): string => String(number).padStart(2, "0");
  const date = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
  return `${date} ${[time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":")}`;
}
