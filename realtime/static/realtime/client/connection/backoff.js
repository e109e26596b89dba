/** How long to wait before the next attempt, and whether reconnections come too often. No I/O, no clock. */

const RATE_MS = 180_000;

/** A few quick retries, each a little later than the last, then from some seconds doubling; spread by chance, so that a crowd does not return at once. */
export class Backoff {
  #waits = 0;
  #options;

  /** @param {{quickRetries: number, quickSeconds: number, backoffSeconds: number, backoffSecondsMax: number}} options */
  constructor(options) {
    this.#options = options;
  }

  /** @param {number} draw in [0, 1) @returns {number} ms */
  next(draw) {
    const { quickRetries, quickSeconds, backoffSeconds, backoffSecondsMax } = this.#options;
    const number = ++this.#waits;
    if (number <= quickRetries) return 1000 * quickSeconds * (number - draw);
    const bound = Math.min(backoffSecondsMax, backoffSeconds * 2 ** (number - quickRetries - 1));
    return 1000 * bound * (0.5 + draw / 2);
  }

  reset() {
    this.#waits = 0;
  }
}

/** Tells when there were more reconnections than `most` within three minutes: once, until it is fewer again. */
export class ReconnectRate {
  /** @type {number[]} */
  #times = [];
  #most;
  #told = false;

  /** @param {number} most */
  constructor(most) {
    this.#most = most;
  }

  /** A reconnection. @param {number} now ms @returns {number} how many there were, if that is to be told now; else 0 */
  note(now) {
    this.#times = this.#times.filter((time) => time > now - RATE_MS);
    this.#times.push(now);
    const count = this.#times.length;
    const tell = count > this.#most && !this.#told;
    this.#told = count > this.#most;
    return tell ? count : 0;
  }
}
