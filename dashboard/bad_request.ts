/** Why a request cannot be meant. Its message is shown to whoever asked. */
export class BadRequest extends Error {
  /** The status of the response. */
  readonly status: number;

  constructor(why: string, status = 400) {
    super(why);
    this.name = "BadRequest";
    this.status = status;
  }
}
