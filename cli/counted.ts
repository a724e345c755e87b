/** `1 failed job`, `1,234 failed jobs`. */
export function counted(count: number, kind: string): string {
  return `${count.toLocaleString("en")} ${kind} ${count === 1 ? "job" : "jobs"}`;
}
