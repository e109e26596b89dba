/** When a client renews the token of its connection by itself. No I/O, no clock: times are in ms. */

/** So long before the end, and never before half of the time that is left is over. */
const AHEAD_MS = 60_000;
/** After a failure, doubling up to the second. */
const AGAIN_MS = 1000;
const AGAIN_MS_MAX = 15_000;

export class Renewal {
  /** when a new token is to be had */
  at = Infinity;
  #isPlanned = false; // by the time that is left
  #againMs = AGAIN_MS;

  /** The server has taken a token. @param {number} now @param {number} [leftMs] until it ends; left out: it never does */
  taken(now, leftMs = Infinity) {
    this.at = now + Math.max(leftMs - AHEAD_MS, leftMs / 2, 0);
    this.#isPlanned = leftMs !== Infinity;
    this.#againMs = AGAIN_MS;
  }

  /** The server says that it ends soon. What is planned already goes by the same time. @param {number} now */
  expiring(now) {
    if (!this.#isPlanned) this.at = now;
  }

  /** It is being had. */
  begun() {
    this.at = Infinity;
  }

  /** It could not be had. @param {number} now */
  failed(now) {
    this.at = now + this.#againMs;
    this.#againMs = Math.min(AGAIN_MS_MAX, 2 * this.#againMs);
  }

  /** The connection has ended. */
  stop() {
    this.at = Infinity;
    this.#isPlanned = false;
  }
}
