/** Opens connections, one at a time, by the transport that it is told, and tells what becomes of it. */

import { PollTransport } from "../transports/poll.js";
import { StreamTransport, probeStream } from "../transports/stream.js";
import { WebSocketTransport, probeWebSocket } from "../transports/websocket.js";

/** @typedef {import("./ladder.js").Hearer} Hearer */
/** @typedef {import("./ladder.js").Transport} Transport */

const CLASSES = /** @type {Record<string, new (url: string, hear: Hearer, options: any) => Transport>} */ ({
  websocket: WebSocketTransport, stream: StreamTransport, poll: PollTransport,
});

export class Connector {
  #options;
  #hear;
  /** @type {Transport | null} */
  #transport = null;

  /** @param {{form: "json" | "msgpack", WebSocket: any, stepDownSeconds: number}} options @param {Hearer} hear */
  constructor(options, hear) {
    this.#options = options;
    this.#hear = hear;
  }

  /** Try an address. @param {string} url @param {string} transport */
  open(url, transport) {
    this.drop();
    try {
      this.#transport = new CLASSES[transport](url, this.#hear, this.#options);
    } catch (error) {
      // Such as a plain address on a page that came over TLS.
      this.#hear.refused(String(error), "refused");
    }
  }

  /** @param {string | Uint8Array} data */
  send(data) {
    this.#transport?.send(data);
  }

  /** Give up what there is; nothing more is heard of it. */
  drop() {
    const transport = this.#transport;
    this.#transport = null;
    transport?.drop();
  }

  /** Whether a transport would work at an address, beside the connection that stands. @param {string} url @param {string} transport @returns {Promise<boolean>} */
  async probe(url, transport) {
    try {
      return await (transport === "websocket" ? probeWebSocket(url, this.#options) : probeStream(url, this.#options));
    } catch {
      return false;
    }
  }
}

/** "relay" for the port that the page itself came from and for an address of last resort. @param {{url: string, weight: number}} server */
export function viaOf({ url, weight }) {
  const here = globalThis.location;
  return weight === 0 || (here && hostOf(url, here.href) === here.host) ? "relay" : "direct";
}

/** "" for what is no address: to try it is what fails. @param {string} url @param {string} base */
function hostOf(url, base) {
  try {
    return new URL(url, base).host;
  } catch {
    return "";
  }
}
