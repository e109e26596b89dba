/** Listens in on a client's WebSockets: pass `tapped(…)` as its option `WebSocket`. */

/**
 * @param {any} Base a WebSocket class
 * @param {(way: "in" | "out", data: string | Uint8Array) => void} hear each frame, as it is on the wire
 * @returns {any} a WebSocket class that tells
 */
export function tapped(Base, hear) {
  return class extends Base {
    /** @param {string} url @param {string[]} protocols */
    constructor(url, protocols) {
      super(url, protocols);
      this.addEventListener("message", (/** @type {any} */ { data }) =>
        hear("in", typeof data === "string" ? data : new Uint8Array(data)));
    }

    /** @param {string | Uint8Array} data */
    send(data) {
      hear("out", data);
      super.send(data);
    }
  };
}
