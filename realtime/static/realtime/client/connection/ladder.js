/**
 * Which transport a client tries at an address: the first that works, from the fastest down. No I/O, no clock: times are in ms.
 *
 * A rung is blamed only when a lower one then works: where nothing answers at all the server is away, and the next round
 * begins where this one did. What worked is remembered for the address, and the rungs above it are tried again later.
 * The Python client has the same rules (fastpath/client/subscriber/transports/ladder.py); tests/behaviours/transports.json
 * holds both to them.
 */

export const TRANSPORTS = ["websocket", "stream", "poll"];

const UP_MS_MAX = 3_600_000; // between two tries upwards, whatever came of those before

/** So many abnormal ends in a row, the last before the server's first frame. */
const ENDS_BEFORE = 2;
/** So many abnormal ends in a row, each soon after the connection stood. */
const ENDS_AFTER = 3;

const TOO_BIG = 1009;
const PING_TIMEOUT = 4002;
const HANDSHAKE_TIMEOUT = 4003;

/**
 * How an attempt ended before the server's first frame. `unreachable`: nobody is there. `unanswered`: it did not open in
 * time. `refused`: something answers, but not as this transport asks. `silent`: it opened, and no frame came in time.
 * `closed`: it opened and was closed.
 * @typedef {"unreachable" | "unanswered" | "refused" | "silent" | "closed"} Failure
 *
 * What a transport tells (`Hearer`), and what it is told.
 * @typedef {{opened: (form: "json" | "msgpack") => void, refused: (reason: string, how: Failure) => void,
 *   received: (data: any) => void, closed: (code: number, reason: string) => void}} Hearer
 * @typedef {{send: (data: any) => void, drop: () => void}} Transport
 *
 * @typedef {{transport: string, until: number, tries: number}} Remembered
 * @typedef {{load: (url: string) => Remembered | null, save: (url: string, remembered: Remembered | null) => void}} Memory
 */

export class Ladder {
  /** when a rung above is to be tried while the connection stands */
  probeAt = Infinity;
  #transports;
  #memory;
  #upMs;
  #steadyMs;
  #url = "";
  #index = 0;
  #stoodAt = 0;
  #probed = 0; // the rung that is tried from below
  /** @type {{code: number, reason: string} | null} what the first rung of this attempt came to */
  #first = null;
  #ends = { url: "", index: 0, count: 0 };

  /** @param {{transports: string[], stepUpSeconds: number, steadySeconds: number}} options @param {Memory} memory */
  constructor({ transports, stepUpSeconds, steadySeconds }, memory) {
    this.#transports = TRANSPORTS.filter((name) => transports.includes(name));
    this.#memory = memory;
    this.#upMs = 1000 * stepUpSeconds;
    this.#steadyMs = 1000 * steadySeconds;
  }

  /** The transport that is tried, or carries the connection. */
  get transport() {
    return this.#transports[this.#index];
  }

  /** Whether there is one below it. */
  get hasLower() {
    return this.#index + 1 < this.#transports.length;
  }

  /** An address is tried. @param {number} now @param {string} url */
  begin(now, url) {
    const { index, until } = this.#recall(url);
    this.#url = url;
    this.#index = index > 0 && now < until ? index : 0;
    this.#first = null;
    const ends = this.#ends;
    if (ends.url === url && ends.index === this.#index && ends.count >= ENDS_AFTER && this.hasLower) this.#index += 1;
  }

  /** It came to nothing. @param {Failure} how @param {number} code @param {string} reason @param {boolean} hasMore whether another server is left to try @returns {boolean} whether the address is to be tried again at once, by the next transport */
  failed(how, code, reason, hasMore) {
    const isAbnormal = how !== "closed" || isNetworks(code);
    if (isAbnormal) this.#first ??= { code, reason };
    else this.#first = { code, reason };
    if (how === "unreachable" || !isAbnormal) return false;
    // It may be a server that hangs: where there is another this one is passed over.
    if (how === "unanswered" && hasMore) return false;
    if (how === "closed" && this.#ended() < ENDS_BEFORE) return false;
    if (this.hasLower) {
      this.#index += 1;
      return true;
    }
    // Neither what was remembered nor anything below it: the next attempt begins at the top.
    this.#memory.save(this.#url, null);
    this.#ends.count = 0;
    return false;
  }

  /** Why the address has failed: what its first rung came to, or what the server said. */
  get why() {
    return this.#first ?? { code: 1006, reason: "" };
  }

  /** The server has answered. @param {number} now */
  stood(now) {
    this.#stoodAt = now;
    if (this.#ends.url !== this.#url || this.#ends.index !== this.#index) this.#ends = { url: "", index: 0, count: 0 };
    const { index, until, tries } = this.#recall(this.#url);
    if (this.#index === 0) {
      if (index > 0) this.#memory.save(this.#url, null);
      this.probeAt = Infinity;
    } else if (index === this.#index && now < until) this.probeAt = until;
    else this.#remember(now, index > 0 ? tries + 1 : 0);
  }

  /** The connection that stood was lost. @param {number} now @param {number} code */
  lost(now, code) {
    if (isNetworks(code) && code !== TOO_BIG && now - this.#stoodAt < this.#steadyMs) this.#ended();
    else this.#ends.count = 0;
  }

  /** `probeAt` has come. @returns {string} the transport to try beside the connection */
  probe() {
    this.probeAt = Infinity;
    return this.#transports[this.#probed];
  }

  /** What came of it. @param {number} now @param {string} transport @param {boolean} works @returns {boolean} whether to leave the connection for it */
  probed(now, transport, works) {
    const index = this.#transports.indexOf(transport);
    if (index >= this.#index) return false; // it is in use meanwhile
    this.#probed = works || index + 1 >= this.#index ? 0 : index + 1;
    if (works) {
      this.#ends.count = 0;
      this.#memory.save(this.#url, index === 0 ? null
        : { transport: this.#transports[index], until: now + this.#upMs, tries: 0 });
      return true;
    }
    if (this.#probed > 0) this.probeAt = now;
    else this.#remember(now, this.#recall(this.#url).tries + 1);
    return false;
  }

  /** There is no connection any more. */
  stop() {
    this.#probed = 0;
    this.probeAt = Infinity;
  }

  /** The network is another: what was learnt of the last one is void. @param {number} now @param {boolean} stands whether a connection does */
  changed(now, stands) {
    this.#ends.count = 0;
    this.#memory.save(this.#url, null);
    if (stands && this.#index > 0) {
      this.#probed = 0;
      this.probeAt = now;
    }
  }

  /** @param {number} now @param {number} tries upwards, that failed */
  #remember(now, tries) {
    const until = now + Math.min(this.#upMs * 2 ** Math.min(tries, 16), Math.max(this.#upMs, UP_MS_MAX));
    this.probeAt = until;
    this.#memory.save(this.#url, { transport: this.transport, until, tries });
  }

  /** @param {string} url */
  #recall(url) {
    const { transport = "", until = 0, tries = 0 } = this.#memory.load(url) ?? {};
    return { index: this.#transports.indexOf(transport), until, tries };
  }

  /** An abnormal end on this rung. @returns {number} how many in a row */
  #ended() {
    const { url, index, count } = this.#ends;
    const isSame = url === this.#url && index === this.#index;
    this.#ends = { url: this.#url, index: this.#index, count: isSame ? count + 1 : 1 };
    return this.#ends.count;
  }
}

/** Whether the network, and not the server, may have ended a connection with that code. @param {number} code */
function isNetworks(code) {
  return code < 4000 || code === PING_TIMEOUT || code === HANDSHAKE_TIMEOUT;
}
