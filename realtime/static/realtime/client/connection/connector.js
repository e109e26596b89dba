/** Opens WebSockets, one at a time, and tells what becomes of it. */

import { SUBPROTOCOLS } from "../wire/codec.js";

/**
 * @typedef {{opened: (form: "json" | "msgpack") => void, refused: (reason: string) => void,
 *   received: (data: string | Uint8Array) => void, closed: (code: number, reason: string) => void}} Hearer
 */

export class Connector {
  #subprotocols;
  #WebSocket;
  #hear;
  /** @type {any} */
  #socket = null;

  /** @param {"json" | "msgpack"} form @param {any} WebSocket a class @param {Hearer} hear */
  constructor(form, WebSocket, hear) {
    // The server chooses; one that does not speak the binary form answers with the other.
    this.#subprotocols = form === "json" ? [SUBPROTOCOLS.json] : [SUBPROTOCOLS.msgpack, SUBPROTOCOLS.json];
    this.#WebSocket = WebSocket;
    this.#hear = hear;
  }

  /** Try an address. @param {string} url */
  open(url) {
    this.drop();
    let socket;
    try {
      socket = new this.#WebSocket(url, this.#subprotocols);
    } catch (error) {
      // Such as a plain address on a page that came over TLS.
      this.#hear.refused(String(error));
      return;
    }
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      socket.onerror = null;
      socket.onclose = (/** @type {any} */ event) => this.#over(() => this.#hear.closed(event.code, event.reason));
      this.#hear.opened(socket.protocol === SUBPROTOCOLS.msgpack ? "msgpack" : "json");
    };
    socket.onmessage = (/** @type {any} */ { data }) =>
      this.#hear.received(typeof data === "string" ? data : new Uint8Array(data));
    socket.onerror = socket.onclose = () => this.#over(() => this.#hear.refused("it does not open"));
  }

  /** @param {string | Uint8Array} data */
  send(data) {
    this.#socket?.send(data);
  }

  /** Give up what there is; nothing more is heard of it. */
  drop() {
    const socket = this.#socket;
    this.#silence();
    socket?.close(1000);
  }

  /** It has ended by itself. @param {() => void} tell */
  #over(tell) {
    this.#silence();
    tell();
  }

  #silence() {
    const socket = this.#socket;
    this.#socket = null;
    if (socket) socket.onopen = socket.onmessage = socket.onerror = socket.onclose = null;
  }
}

/** "relay" for the port that the page itself came from and for an address of last resort. @param {{url: string, weight: number}} server */
export function viaOf({ url, weight }) {
  const here = globalThis.location;
  const isOwn = here !== undefined && new URL(url, here.href).host === here.host;
  return isOwn || weight === 0 ? "relay" : "direct";
}
