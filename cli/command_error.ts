/** Ends a command with one line on standard error and an exit status; `main` turns it into both. */
export class CommandError extends Error {
  /** 1 where the store or the world says no, 2 where the command itself cannot be meant. */
  readonly status: 1 | 2;

  constructor(status: 1 | 2, why: string) {
    super(`queue: ${why}`);
    this.name = "CommandError";
    this.status = status;
  }
}
