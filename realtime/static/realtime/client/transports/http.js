/** What both HTTP transports do alike: the session's addresses, what is sent to it, and its end (docs/reference/protocol.md 1). */

const TOO_BIG = 1009;
const ABNORMAL = 1006;
const TOO_LARGE = "the server takes no frame of that size";
const POST_MS = 10_000;
/** After a POST that failed, before the same again. */
const AGAIN_MS = [100, 500, 1500];
/** For the server's goodbye, after an answer that says no more than that the session is gone. */
const GOODBYE_MS = 1000;
const FRAME_BYTES = 65_536; // until the server says

const utf8 = new TextEncoder();

/** @typedef {import("../connection/ladder.js").Hearer} Hearer */
/** @typedef {import("../connection/ladder.js").Failure} Failure */

/** How an answer that is no session's beginning is to be understood. @param {Response} response @returns {string} */
export function refusalOf(response) {
  return `it answers ${response.status} to a session over HTTP`;
}

export class HttpSession {
  /** set when the transport is over: nothing is told of it any more */
  isOver = false;
  hello = { session: "", poll_ms: 25_000, frame_bytes: FRAME_BYTES };
  #url;
  #hear;
  #sent = 0; // frames that the server has taken
  /** @type {string[]} frames that it has not */
  #waiting = [];
  #isPosting = false;
  #aborter = new AbortController();

  /** @param {string} url of the WebSocket: the session's is beside it @param {Hearer} hear */
  constructor(url, hear) {
    this.#url = new URL(url, globalThis.location?.href);
    this.#url.protocol = this.#url.protocol.replace("ws", "http");
    this.#hear = hear;
    globalThis.addEventListener?.("pagehide", this.#leave);
  }

  /** Ends what is asked of the server. */
  get signal() {
    return this.#aborter.signal;
  }

  /** @param {string} path below the sessions' @param {Record<string, string | number>} [query] by default that of the WebSocket, which may have a token */
  address(path, query) {
    const address = new URL(`session/${path}`, this.#url);
    address.search = query ? "" : this.#url.search;
    for (const [name, value] of Object.entries(query ?? {})) address.searchParams.set(name, String(value));
    return address.href;
  }

  /** The session's first words. @param {string} text JSON */
  begin(text) {
    this.hello = { ...this.hello, ...JSON.parse(text) };
    this.#hear.opened("json");
  }

  /** @param {string} data one frame */
  send(data) {
    this.#waiting.push(data);
    // After this turn: what is sent in one go is one request.
    if (!this.#isPosting) {
      this.#isPosting = true;
      queueMicrotask(() => this.#post());
    }
  }

  /** @param {string} data one frame of the server */
  received(data) {
    if (!this.isOver) this.#hear.received(data);
  }

  /** @param {string} reason @param {Failure} how */
  refused(reason, how) {
    if (this.#end()) this.#hear.refused(reason, how);
  }

  /** @param {number} code @param {string} reason */
  closed(code, reason) {
    if (this.#end()) this.#hear.closed(code, reason);
  }

  /** The client leaves; nothing more is heard. */
  drop() {
    if (this.#end()) this.#leave();
  }

  #end() {
    const isNew = !this.isOver;
    this.isOver = true;
    if (isNew) {
      globalThis.removeEventListener?.("pagehide", this.#leave);
      this.#aborter.abort();
    }
    return isNew;
  }

  /** Tell the server, also while the page goes. */
  #leave = () => {
    if (!this.hello.session) return;
    const address = this.address(`${this.hello.session}/close`, {});
    if (globalThis.navigator?.sendBeacon?.(address)) return;
    fetch(address, { method: "POST", keepalive: true }).catch(() => {});
  };

  /** Send what waits, one request after the other, until nothing does. */
  async #post() {
    for (let failures = 0; this.#waiting.length > 0 && !this.isOver;) {
      const count = this.#count();
      if (count === 0) return this.closed(TOO_BIG, TOO_LARGE);
      const status = await this.#request(this.#waiting.slice(0, count).join("\n"));
      if (this.isOver) return;
      if (status >= 200 && status < 300) {
        this.#waiting.splice(0, count);
        this.#sent += count;
        failures = 0;
      } else if (status === 413) return this.closed(TOO_BIG, TOO_LARGE);
      else if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
        // The goodbye says why, and whether to come back; it comes with what is read.
        await pause(GOODBYE_MS);
        return this.closed(ABNORMAL, `the session is gone: ${status}`);
      } else if (failures === AGAIN_MS.length) return this.closed(ABNORMAL, "what is sent does not arrive");
      // The same numbers again: what the server has taken already it leaves out.
      else await pause(AGAIN_MS[failures++]);
    }
    this.#isPosting = false;
  }

  /** How many frames the next request takes: as many as are together no larger than one may be; 0: the first is too large. */
  #count() {
    let bytes = 0;
    const over = this.#waiting.findIndex((frame) => (bytes += utf8.encode(frame).length + 1) > this.hello.frame_bytes + 1);
    return over === -1 ? this.#waiting.length : over;
  }

  /** @param {string} body @returns {Promise<number>} the status, 0 without an answer */
  async #request(body) {
    try {
      const response = await fetch(this.address(this.hello.session, { n: this.#sent + 1 }), {
        method: "POST", body, cache: "no-store", headers: { "content-type": "text/plain" }, redirect: "error",
        signal: AbortSignal.any([this.signal, AbortSignal.timeout(POST_MS)]),
      });
      await response.arrayBuffer();
      return response.status;
    } catch {
      return 0;
    }
  }
}

/** @param {number} ms @returns {Promise<void>} */
export function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
