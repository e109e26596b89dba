/** The transport `poll`: the server's frames as answers that are asked for one after the other, the client's by POST. */

import { HttpSession, pause, refusalOf } from "./http.js";

/** An answer that fails sooner than this is a failure, */
const HELD_MS = 500;
/** and so many in a row are the end; */
const FAILURES_MAX = 3;
/** one that a proxy cuts later is asked for again, as long as others come. */
const SILENCE_MS = 15_000;
const AGAIN_MS = 200;
/** Beyond the time for which the server holds an answer. */
const LATE_MS = 10_000;

/** @typedef {import("../connection/ladder.js").Hearer} Hearer */

export class PollTransport {
  #session;
  #answers = 0; // received so far

  /** @param {string} url @param {Hearer} hear */
  constructor(url, hear) {
    this.#session = new HttpSession(url, hear);
    this.#begin();
  }

  /** @param {string} data */
  send(data) {
    this.#session.send(data);
  }

  drop() {
    this.#session.drop();
  }

  async #begin() {
    const session = this.#session;
    let response, text;
    try {
      response = await get(session.address("poll"), session.signal);
      text = await response.text();
    } catch (error) {
      return session.refused(String(/** @type {any} */ (error).message ?? error), "unreachable");
    }
    if (session.isOver) return;
    const [hello, ...frames] = linesOf(text);
    if (!response.ok || !isOf(hello)) return session.refused(refusalOf(response), "refused");
    this.#answers = 1;
    session.begin(hello);
    if (this.#take(frames)) this.#go();
  }

  async #go() {
    const session = this.#session;
    let failures = 0;
    let answeredAt = performance.now();
    while (!session.isOver) {
      const askedAt = performance.now();
      const answer = await this.#ask();
      if (session.isOver) return;
      const now = performance.now();
      if (typeof answer === "string") {
        this.#answers += 1;
        failures = 0;
        answeredAt = now;
        if (!this.#take(linesOf(answer))) return;
      } else if (answer >= 400 && answer < 500 && answer !== 408 && answer !== 429) {
        return session.closed(1006, `the session is gone: ${answer}`);
      } else {
        if (now - askedAt < HELD_MS) failures += 1;
        if (failures >= FAILURES_MAX || now - answeredAt > SILENCE_MS) return session.closed(1006, "");
        await pause(AGAIN_MS * failures);
      }
    }
  }

  /** @returns {Promise<string | number>} the answer; the status of another, 0 without one */
  async #ask() {
    const session = this.#session;
    const { session: id, poll_ms: ms } = session.hello;
    try {
      const signal = AbortSignal.any([session.signal, AbortSignal.timeout(ms + LATE_MS)]);
      const response = await get(session.address("poll", { session: id, ack: this.#answers }), signal);
      const text = await response.text();
      return response.status === 200 ? text : response.status;
    } catch {
      return 0;
    }
  }

  /** @param {string[]} lines @returns {boolean} whether the session goes on */
  #take(lines) {
    for (const line of lines) {
      const close = line.startsWith("{\"close\":") ? JSON.parse(line) : null;
      if (close) {
        this.#session.closed(close.close, close.reason);
        return false;
      }
      this.#session.received(line);
    }
    return !this.#session.isOver;
  }
}

/** @param {string} address @param {AbortSignal} signal */
function get(address, signal) {
  return fetch(address, { cache: "no-store", redirect: "error", signal });
}

/** @param {string} text */
function linesOf(text) {
  return text.split("\n").filter((line) => line !== "");
}

/** Whether this is the first line of a session, and not some page of a proxy. @param {string | undefined} line */
function isOf(line = "") {
  try {
    return typeof JSON.parse(line).session === "string";
  } catch {
    return false;
  }
}
