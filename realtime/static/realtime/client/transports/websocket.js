/** The transport `websocket`: frames as they are, in both forms. */

import { SUBPROTOCOLS } from "../wire/codec.js";

const NORMAL = 1000;

/** @typedef {import("../connection/ladder.js").Hearer} Hearer */

export class WebSocketTransport {
  #socket;

  /** @param {string} url @param {Hearer} hear @param {{form: "json" | "msgpack", WebSocket: any}} options */
  constructor(url, hear, { form, WebSocket }) {
    const socket = (this.#socket = new WebSocket(url, subprotocols(form)));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      socket.onerror = ignored;
      socket.onclose = (/** @type {any} */ { code, reason }) => this.#over(() => hear.closed(code, reason));
      hear.opened(socket.protocol === SUBPROTOCOLS.msgpack ? "msgpack" : "json");
    };
    socket.onmessage = (/** @type {any} */ { data }) =>
      hear.received(typeof data === "string" ? data : new Uint8Array(data));
    // A script is told nothing of why: whether anything answers there at all, the transport below finds out.
    socket.onerror = socket.onclose = () => this.#over(() => hear.refused("it does not open", "refused"));
  }

  /** @param {string | Uint8Array} data */
  send(data) {
    this.#socket.send(data);
  }

  /** Nothing more is heard of it. */
  drop() {
    const socket = this.#socket;
    this.#silence();
    socket.close(NORMAL);
  }

  /** @param {() => void} tell */
  #over(tell) {
    this.#silence();
    tell();
  }

  #silence() {
    const socket = this.#socket;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = ignored;
  }
}

/**
 * Whether frames pass in both directions: the server answers a close frame with one of its own.
 * @param {string} url @param {{form: "json" | "msgpack", WebSocket: any, stepDownSeconds: number}} options @returns {Promise<boolean>}
 */
export function probeWebSocket(url, { form, WebSocket, stepDownSeconds }) {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, subprotocols(form));
    const timer = setTimeout(() => { resolve(false); socket.close(NORMAL); }, 1000 * stepDownSeconds);
    socket.onopen = () => socket.close(NORMAL);
    socket.onerror = ignored;
    socket.onclose = (/** @type {any} */ { code, wasClean }) => {
      clearTimeout(timer);
      resolve(wasClean && code === NORMAL);
    };
  });
}

/** What follows an error is the close; but in Node, where others' classes serve, an error that nobody hears ends the process. */
function ignored() {}

/** The server chooses; one that does not speak the binary form answers with the other. @param {"json" | "msgpack"} form */
function subprotocols(form) {
  return form === "json" ? [SUBPROTOCOLS.json] : [SUBPROTOCOLS.msgpack, SUBPROTOCOLS.json];
}
