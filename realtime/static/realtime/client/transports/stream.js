/** The transport `stream`: the server's frames as events of one long answer, the client's by POST. */

import { Events } from "./lines.js";
import { HttpSession, refusalOf } from "./http.js";

/** @typedef {import("../connection/ladder.js").Hearer} Hearer */

export class StreamTransport {
  #session;

  /** @param {string} url @param {Hearer} hear */
  constructor(url, hear) {
    this.#session = new HttpSession(url, hear);
    this.#read();
  }

  /** @param {string} data */
  send(data) {
    this.#session.send(data);
  }

  drop() {
    this.#session.drop();
  }

  async #read() {
    const session = this.#session;
    let isBegun = false;
    try {
      for await (const { name, data } of events(session.address("stream"), session.signal)) {
        if (session.isOver) return;
        if (name === "session") {
          isBegun = true;
          session.begin(data);
        } else if (name === "close") {
          const { code, reason } = JSON.parse(data);
          return session.closed(code, reason);
        } else if (name === "") session.received(data);
      }
      if (isBegun) session.closed(1006, "the stream has ended");
      else session.refused("the stream ended before its first event", "refused");
    } catch (error) {
      if (isBegun) session.closed(1006, "");
      else session.refused(String(/** @type {any} */ (error).message ?? error), error instanceof Refused ? "refused" : "unreachable");
    }
  }
}

class Refused extends Error {}

/** @param {string} address @param {AbortSignal} signal */
async function* events(address, signal) {
  const response = await fetch(address, { cache: "no-store", signal, redirect: "error", headers: { accept: "text/event-stream" } });
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
  if (!response.ok || !isStream || !response.body) {
    response.body?.cancel().catch(() => {});
    throw new Refused(refusalOf(response));
  }
  const reader = response.body.getReader();
  const utf8 = new TextDecoder();
  const parser = new Events();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.take(utf8.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Whether a first event arrives in time. @param {string} url @param {{stepDownSeconds: number}} options @returns {Promise<boolean>} */
export function probeStream(url, { stepDownSeconds }) {
  return new Promise((resolve) => {
    const end = (/** @type {boolean} */ works) => {
      clearTimeout(timer);
      transport.drop();
      resolve(works);
    };
    const timer = setTimeout(() => end(false), 1000 * stepDownSeconds);
    const no = () => end(false);
    const transport = new StreamTransport(url, { opened: () => end(true), refused: no, closed: no, received: () => {} });
  });
}
