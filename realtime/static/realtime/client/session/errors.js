/** The error that commands of the client end with. */

/** A command that did not work; `status` is one of docs/reference/protocol.md 4.4 or 4.12, or "unknown" when the answer is lost. */
export class RealtimeError extends Error {
  name = "RealtimeError";

  /** @param {string} status @param {string} [reason] @param {string} [subject] */
  constructor(status, reason = "", subject = "") {
    super(reason ? `${status}: ${reason}` : status);
    this.status = status;
    this.reason = reason;
    this.subject = subject;
  }
}
