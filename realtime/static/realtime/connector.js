/** Opens a WebSocket to the first address that answers, in the order given. */

import { SUBPROTOCOLS } from "./codec.js";

const OPEN_MS = 2000; // for an address that has another after it
const OPEN_LAST_MS = 10_000;

/** @typedef {{trying: (url: string, via: string) => void, opened: (socket: any, url: string, via: string) => void,
 *   failed: (reason: string) => void}} Hearer */

export class Connector {
  #urls;
  #subprotocols;
  #WebSocket;
  #hear;
  /** @type {any} */
  #socket = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;

  /** @param {{urls: string[], form: "json" | "msgpack", WebSocket: any}} options @param {Hearer} hear */
  constructor({ urls, form, WebSocket }, hear) {
    this.#urls = urls;
    // The server chooses; one that does not speak the binary form answers with the other.
    this.#subprotocols = form === "json" ? [SUBPROTOCOLS.json] : [SUBPROTOCOLS.msgpack, SUBPROTOCOLS.json];
    this.#WebSocket = WebSocket;
    this.#hear = hear;
  }

  /** Try from the first address; ends in `opened` or `failed`, unless stopped. */
  start() {
    this.stop();
    this.#try(0);
  }

  /** Give up what has not opened. */
  stop() {
    clearTimeout(this.#timer);
    const socket = this.#socket;
    this.#socket = null;
    if (socket) {
      socket.onopen = socket.onerror = socket.onclose = null;
      socket.close();
    }
  }

  /** @param {number} index */
  #try(index) {
    const url = this.#urls[index];
    const via = this.#via(index);
    const isLast = index + 1 === this.#urls.length;
    const next = (/** @type {string} */ reason) => {
      this.stop();
      if (isLast) this.#hear.failed(`${url}: ${reason}`);
      else this.#try(index + 1);
    };
    this.#hear.trying(url, via);
    let socket;
    try {
      socket = new this.#WebSocket(url, this.#subprotocols);
    } catch (error) {
      // Such as a plain address on a page that came over TLS.
      next(String(error));
      return;
    }
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      clearTimeout(this.#timer);
      this.#socket = socket.onerror = null;
      this.#hear.opened(socket, url, via);
    };
    socket.onerror = socket.onclose = () => next("it does not open");
    this.#timer = setTimeout(() => next("no answer"), isLast ? OPEN_LAST_MS : OPEN_MS);
  }

  /** The relay is the port that the page itself came from, or any address after the first. @param {number} index */
  #via(index) {
    const here = globalThis.location;
    const isOwn = here !== undefined && new URL(this.#urls[index], here.href).host === here.host;
    return index > 0 || isOwn ? "relay" : "direct";
  }
}
