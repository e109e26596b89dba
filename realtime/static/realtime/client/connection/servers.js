/** Which server to try next: by chance and weight, away from those that have just failed. No I/O, no clock. */

const WEIGHT = 100;
const WEIGHT_MAX = 100;

/** @typedef {{url: string, weight: number}} Server */

export class ServerList {
  /** @type {Server[]} */
  #servers;
  /** @type {Set<string>} did not answer in this round */
  #failed = new Set();
  /** @type {Set<string>} had a connection that ended */
  #avoided = new Set();

  /** @param {Server[]} servers */
  constructor(servers) {
    this.#servers = servers;
  }

  /** The list as it is now. @param {Server[]} servers */
  replace(servers) {
    this.#servers = servers;
  }

  /** Servers that one of them told of: known ones get the weight, others are added. @param {Server[]} servers */
  add(servers) {
    const told = new Map(servers.map((server) => [server.url, server]));
    const known = this.#servers.map((server) => told.get(server.url) ?? server);
    const urls = new Set(known.map((server) => server.url));
    this.#servers = [...known, ...servers.filter((server) => !urls.has(server.url))];
  }

  /** A new round: all count again. */
  begin() {
    this.#failed.clear();
  }

  /** It does not answer; not again in this round. @param {string} url */
  fail(url) {
    this.#failed.add(url);
  }

  /** Its connection ended: others are preferred. @param {string} url @returns {boolean} whether a proper server (of a weight above 0) is left */
  avoid(url) {
    this.#avoided.add(url);
    const isLeft = this.#servers.some((server) => server.weight > 0 && !this.#avoided.has(server.url));
    // Otherwise each has been left once, and the last one is the worst choice still.
    if (!isLeft) this.#avoided = new Set([url]);
    return isLeft;
  }

  /** Whether another one has not failed in this round. @param {string} url */
  hasMore(url) {
    return this.#servers.some((server) => server.url !== url && !this.#failed.has(server.url));
  }

  /** Nothing is held against any server any more. */
  forgive() {
    this.#avoided.clear();
  }

  /** @param {() => number} draw from [0, 1) @returns {Server | null} null when each has failed in this round */
  pick(draw) {
    const left = this.#servers.filter((server) => !this.#failed.has(server.url));
    const avoided = (/** @type {Server} */ server) => this.#avoided.has(server.url);
    const proper = left.filter((server) => server.weight > 0);
    const last = left.filter((server) => server.weight === 0);
    const choices = [proper.filter((each) => !avoided(each)), proper, last.filter((each) => !avoided(each)), last];
    const choice = choices.find((some) => some.length > 0);
    return choice ? weighted(choice, draw) : null;
  }
}

/** @param {Server[]} choice not empty @param {() => number} draw */
function weighted(choice, draw) {
  if (choice.length === 1) return choice[0];
  // Those of weight 0 are alike.
  const weight = (/** @type {Server} */ server) => server.weight || 1;
  let rest = draw() * choice.reduce((sum, server) => sum + weight(server), 0);
  for (const server of choice) {
    rest -= weight(server);
    if (rest < 0) return server;
  }
  return choice[choice.length - 1];
}

/**
 * Addresses as a program gives them: one or several, each a text or `{url, weight}`.
 * @param {any} urls @returns {Server[]} Throws TypeError.
 */
export function serversOf(urls) {
  return [urls ?? []].flat().map((each) => {
    const { url, weight = WEIGHT } = typeof each === "string" ? { url: each } : each;
    if (typeof url !== "string" || !(weight >= 0 && weight <= WEIGHT_MAX)) {
      throw new TypeError(`a server is an address or {url, weight: 0 to ${WEIGHT_MAX}}, not ${JSON.stringify(each)}`);
    }
    return { url, weight };
  });
}
