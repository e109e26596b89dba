/** When and where a client connects next, from what became of its attempts and connections so far. No I/O, no clock. */

import { Backoff, ReconnectRate } from "./backoff.js";
import { ServerList } from "./servers.js";

export class Rounds {
  #servers;
  #backoff;
  #rate;
  #draw;
  #options;
  #failed = 0; // rounds in a row
  #isDown = false;
  #hasConnected = false;
  #connectedAt = 0;

  /** @param {any} options as options.js completes them @param {{pick: () => number, wait: () => number}} draw each in [0, 1) */
  constructor(options, draw) {
    this.#options = options;
    this.#draw = draw;
    this.#servers = new ServerList(options.servers);
    this.#backoff = new Backoff(options);
    this.#rate = new ReconnectRate(options.reconnectsMax);
  }

  /** The list of servers as it is now. @param {import("./servers.js").Server[]} servers */
  replace(servers) {
    if (servers.length > 0) this.#servers.replace(servers);
  }

  /** What a server that drains tells of the others. @param {import("./servers.js").Server[]} servers */
  add(servers) {
    this.#servers.add(servers);
  }

  begin() {
    this.#servers.begin();
  }

  /** The next server of this round; null when each has failed. */
  next() {
    return this.#servers.pick(this.#draw.pick);
  }

  /** Whether another server could be tried in this round. @param {string} url */
  hasMore(url) {
    return this.#servers.hasMore(url);
  }

  /** A server did not answer. @param {string} url */
  fail(url) {
    this.#servers.fail(url);
  }

  /** None has answered. @returns {number} how many rounds in a row that is, if it is to be told now that servers are down; else 0 */
  over() {
    this.#servers.forgive();
    this.#failed += 1;
    if (this.#isDown || this.#failed < this.#options.downAfter) return 0;
    this.#isDown = true;
    return this.#failed;
  }

  /** A server has answered. @param {number} now @returns {number} how many reconnections there were of late, if they are too many and it is to be told now; else 0 */
  connected(now) {
    this.#connectedAt = now;
    this.#failed = 0;
    this.#isDown = false;
    const count = this.#hasConnected ? this.#rate.note(now) : 0;
    this.#hasConnected = true;
    return count;
  }

  /** A connection will end or has ended. @param {number} now @param {string} url @returns {boolean} whether a proper server is left that is not to be avoided as well */
  left(now, url) {
    if (now - this.#connectedAt >= 1000 * this.#options.steadySeconds) {
      this.reset();
      this.#servers.forgive();
    }
    return this.#servers.avoid(url);
  }

  /** How long to wait before the next round, in ms. */
  wait() {
    return this.#backoff.next(this.#draw.wait());
  }

  /** Waits begin with the shortest again. */
  reset() {
    this.#backoff.reset();
  }
}
