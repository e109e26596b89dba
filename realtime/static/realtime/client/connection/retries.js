/** Subjects that a server was not ready for, and when each is asked for again. No I/O, no clock: times are in ms. */

export class Retries {
  /** when the first is due */
  at = Infinity;
  /** @type {Map<string, number>} */
  #due = new Map();

  /** @param {string} subject @param {number} at */
  add(subject, at) {
    this.#due.set(subject, at);
    this.at = Math.min(this.at, at);
  }

  /** @param {number} now @returns {string[]} those whose time has come */
  take(now) {
    const due = [...this.#due].filter(([, at]) => at <= now).map(([subject]) => subject);
    for (const subject of due) this.#due.delete(subject);
    this.at = [...this.#due.values()].reduce((one, other) => Math.min(one, other), Infinity);
    return due;
  }

  /** The connection has ended. */
  clear() {
    this.#due.clear();
    this.at = Infinity;
  }
}
