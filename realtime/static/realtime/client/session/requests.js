/** Requests of the program and their replies; handlers that answer the requests of others (docs/reference/protocol.md 3.11 to 3.13). */

import { checkName } from "./arguments.js";
import { RealtimeError } from "./errors.js";
import { guarded } from "./listeners.js";
import { isCovered } from "./wanted.js";

const ERROR_CHARS_MAX = 64;
const REASON_CHARS_MAX = 1024;

/**
 * @typedef {{send: (frame: any) => number, respond: (patterns: string[]) => number | null, reply: (frame: any) => void,
 *   answer: (id: number) => Promise<any>}} Way to the server
 */

export class Requests {
  #way;
  /** @type {Map<number, any[]>} replies behind which others follow, by the id of the request */
  #parts = new Map();
  /** @type {Map<string, (request: any) => any>} handlers by pattern */
  #handlers = new Map();
  /** @type {Map<string, AbortController>} what is being answered, by where the reply goes */
  #answering = new Map();

  /** @param {Way} way */
  constructor(way) {
    this.#way = way;
  }

  // What the program asks.

  /** @param {any} frame a request without id @returns {Promise<any>} */
  async ask(frame) {
    const id = this.#way.send(frame);
    /** @type {any[]} */
    const parts = [];
    this.#parts.set(id, parts);
    try {
      const { error, reason = "", own = false, ...last } = await this.#way.answer(id);
      if (error) {
        const failure = new RealtimeError(error, reason, frame.subject);
        throw Object.assign(failure, { own, replies: parts.map(replyOf) });
      }
      const replies = [...parts, last].map(replyOf);
      return frame.replies === 1 ? replies[0] : replies;
    } finally {
      this.#parts.delete(id);
    }
  }

  /** A reply behind which others follow. @param {number} id @param {any} answer */
  part(id, answer) {
    this.#parts.get(id)?.push(answer);
  }

  // What others ask.

  /** @param {string} pattern @param {(request: any) => any} handler */
  async respond(pattern, handler) {
    if (typeof handler !== "function") throw new TypeError("a handler is a function");
    checkName("a pattern", pattern);
    this.#handlers.set(pattern, handler);
    try {
      const refused = (await this.#tell()).find((/** @type {any} */ offer) => offer.pattern === pattern && offer.error);
      if (refused) throw new RealtimeError(refused.error, refused.reason, pattern);
    } catch (error) {
      // Who is left without a responder to close does not respond; another may have taken the pattern over.
      if (this.#handlers.get(pattern) === handler) {
        this.#handlers.delete(pattern);
        this.#way.respond([...this.#handlers.keys()]);
      }
      throw error;
    }
    const close = async () => {
      if (this.#handlers.get(pattern) !== handler) return;
      this.#handlers.delete(pattern);
      // A connection that is lost meanwhile ends it as well.
      await this.#tell().catch(() => {});
    };
    return { pattern, close };
  }

  /** @returns {Promise<any[]>} what the server says of each pattern; without a connection nothing yet */
  async #tell() {
    const id = this.#way.respond([...this.#handlers.keys()]);
    return id === null ? [] : (await this.#way.answer(id)).results;
  }

  /** A request came. @param {any} asked */
  asked(asked) {
    const { to, subject, content, fields = {}, timeout, replies = 1, user = "" } = asked;
    const handler = [...this.#handlers].find(([pattern]) => isCovered(subject, [pattern]))?.[1];
    if (!handler) return this.#way.reply({ to, error: "no_handler", reason: "this responder has just ended" });
    const controller = new AbortController();
    this.#answering.set(to, controller);
    const reply = (/** @type {any} */ value, /** @type {any} */ more = {}) =>
      this.#way.reply({ to, content: value, fields: more, more: true });
    this.#answer(to, handler, { subject, content, fields, user, timeout, replies, reply, signal: controller.signal });
  }

  /** @param {string} to @param {(request: any) => any} handler @param {any} request */
  async #answer(to, handler, request) {
    let frame;
    try {
      const value = await handler(request);
      frame = { to, ...lastOf(value) };
    } catch (error) {
      if (request.signal.aborted) return;
      if (error instanceof RealtimeError) {
        const { status, reason } = error;
        frame = { to, error: cut(status, ERROR_CHARS_MAX) || "error", reason: cut(reason, REASON_CHARS_MAX) };
      } else {
        frame = { to, error: "error", reason: "the responder failed" };
        guarded(() => { throw error; });
      }
    }
    if (!this.#answering.delete(to)) return;
    try {
      this.#way.reply(frame);
    } catch (error) {
      if (error instanceof RealtimeError && error.status === "too_large") {
        return this.#way.reply({ to, error: error.status, reason: error.reason });
      }
      // What is no content or field.
      this.#way.reply({ to, error: "error", reason: "the responder failed" });
      guarded(() => { throw error; });
    }
  }

  /** Nobody waits for the reply any more. @param {string | null} to null: for any */
  over(to) {
    for (const [name, controller] of to === null ? [...this.#answering] : [[to, this.#answering.get(to)]]) {
      this.#answering.delete(/** @type {string} */ (name));
      /** @type {AbortController | undefined} */ (controller)?.abort();
    }
  }
}

/** The beginning of a text, in whole characters. @param {unknown} text @param {number} most */
function cut(text, most) {
  return String(text).slice(0, most).replace(/\p{Surrogate}/gu, "\ufffd");
}

/** What a handler's result replies. Throws TypeError for what is no reply: an empty one would tell nobody. @param {any} value */
function lastOf(value) {
  if (value === undefined || value === null || typeof value === "string" || value instanceof Uint8Array) {
    return { content: value ?? "", fields: {} };
  }
  if (typeof value !== "object" || (Object.keys(value).length > 0 && !("content" in value || "fields" in value))) {
    throw new TypeError("a handler returns content (a string or Uint8Array), { content, fields }, or nothing");
  }
  const { content = "", fields = {} } = value;
  return { content, fields };
}

/** @param {any} answer */
function replyOf({ content = "", fields = {} }) {
  return { content, fields };
}
