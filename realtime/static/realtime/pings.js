/** Signs of life of a connection, and its latency. No I/O, no clock: times are in ms. */

const PING_MS = 5000;
const SILENCE_MS = 12_000; // two pings without any answer

export class Pings {
  /** when the next one is due */
  at = Infinity;
  /** half of the round trip of the last one */
  latency = /** @type {number | null} */ (null);
  #heardAt = 0;
  #sentAt = 0;
  #id = 0;

  /** Something has come. @param {number} now */
  heard(now) {
    this.#heardAt = now;
  }

  /** @param {number} now */
  isSilent(now) {
    return now - this.#heardAt > SILENCE_MS;
  }

  /** @param {number} now @param {number} id of the command */
  sent(now, id) {
    this.at = now + PING_MS;
    this.#sentAt = now;
    this.#id = id;
  }

  /** @param {number} now @param {number} id @returns {boolean} whether this answers the last ping */
  isAnswer(now, id) {
    if (id !== this.#id) return false;
    this.latency = (now - this.#sentAt) / 2;
    return true;
  }

  /** The connection has ended. */
  stop() {
    this.at = Infinity;
    this.latency = null;
    this.#id = 0;
  }
}
