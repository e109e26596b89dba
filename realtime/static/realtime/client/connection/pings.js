/** Signs of life of a connection, and its latency. No I/O, no clock: times are in ms. */

const PING_MS = 5000;
const SILENCE_MS = 10_000; // two pings without any answer

export class Pings {
  /** when the next one is due */
  at = Infinity;
  /** half of the round trip of the last one */
  latency = /** @type {number | null} */ (null);
  #sentAt = 0;
  #unheardSince = Infinity; // when the first ping was sent after which nothing has come
  #id = 0;

  /** Something has come. */
  heard() {
    this.#unheardSince = Infinity;
  }

  /** Only a ping makes silence a fault: the timers of a hidden page are late, by a minute and more. @param {number} now */
  isSilent(now) {
    return now - this.#unheardSince >= SILENCE_MS;
  }

  /** @param {number} now @param {number} id of the command */
  sent(now, id) {
    this.at = now + PING_MS;
    this.#sentAt = now;
    this.#unheardSince = Math.min(this.#unheardSince, now);
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
    this.#unheardSince = Infinity;
    this.#id = 0;
  }
}
