/**
 * The protocol as a client sees it, without I/O or clock: frames in, events and frames out (docs/reference/protocol.md 3 to 5, 7).
 *
 * The state outlives connections: `open()` begins one, `lose()` ends it. What is to be sent gathers in `out`. Its
 * subscriptions are `following`.
 */

import { decode, encode, sizeOf } from "../wire/codec.js";
import { RealtimeError } from "./errors.js";
import { Following } from "./following.js";
import { isCovered } from "./wanted.js";

export const CLIENT = "js/1";
/** The most that a unit of a string takes in UTF-8. */
const BYTES_PER_UNIT = 3;
/** What every server takes as one frame, whatever it is set to. */
const FRAME_BYTES_LEAST = 65_536;

/** @typedef {import("../wire/codec.js").Form} Form */
/** @typedef {import("./following.js").Event} Event */

export class ClientState {
  /** @type {(string | Uint8Array)[]} */
  out = [];
  user = "";
  following = new Following((frame) => this.command(frame), (frame) => this.#fits(frame));
  #base = 0;
  #id = 0;
  #frameBytes = FRAME_BYTES_LEAST; // the largest frame that this connection's server takes
  /** @type {Set<"advertise" | "respond">} what of its patterns the server does not know yet */
  #untold = new Set();
  /** @type {string[]} the patterns of what this client can publish */
  #offered = [];
  /** @type {string[]} the patterns of what this client answers */
  #responded = [];
  /** @type {Set<string>} what of it somebody is subscribed to */
  #interest = new Set();

  /** @param {Form} form @param {string} [publisher] under which publications are numbered (3.1) */
  constructor(form, publisher = "") {
    this.form = form;
    this.publisher = publisher;
  }

  // The connection.

  /** A connection stands: say who we are, ask for all subjects from where they were. @param {string} token @param {Form} form */
  open(token, form) {
    this.form = form;
    this.out = [];
    this.#frameBytes = Infinity; // without the first nothing is known
    this.command({ op: "connect", token, client: CLIENT, publisher: this.publisher });
    this.#frameBytes = FRAME_BYTES_LEAST; // until it says more
    this.following.open();
    if (this.#offered.length > 0) this.tellEarly("advertise");
    if (this.#responded.length > 0) this.tellEarly("respond");
  }

  /** Tell the server patterns before it has let us in, if they fit what every server takes; else when it has. @param {"advertise" | "respond"} which */
  tellEarly(which) {
    this.#untold.add(which);
    this.#tellPatterns({ isLast: false });
  }

  /** Tell the server the patterns; what passes its bound is left out when that is known. @param {{isLast: boolean}} when @returns {Event[]} */
  #tellPatterns({ isLast }) {
    const untold = this.#untold;
    /** @type {Event[]} */
    const refused = [];
    this.#untold = new Set();
    for (const which of untold) {
      try {
        if (which === "advertise") this.advertise(this.#offered);
        else this.respond(this.#responded);
      } catch (error) {
        const { status: code, reason } = /** @type {RealtimeError} */ (error);
        if (isLast) refused.push(status("error", { code, reason: `${which}: ${reason}` }));
        else this.#untold.add(which);
      }
    }
    return refused;
  }

  /** The connection is gone; ids of subjects and commands mean nothing any more, and whom what is published here interests is not known. @returns {Event[]} */
  lose() {
    this.out = [];
    this.#untold = new Set();
    this.following.lose();
    const over = this.#responded.length > 0 ? [{ type: /** @type {"over"} */ ("over"), to: null }] : [];
    return [...this.#keepInterests([]), ...over];
  }

  /** @returns {(string | Uint8Array)[]} what is to be sent now */
  takeOut() {
    const frames = this.out;
    this.out = [];
    return frames;
  }

  // Commands.

  /** Any command. @param {any} frame without its id @returns {number} its id. Throws RealtimeError for one that would end the connection. */
  command(frame) {
    this.out.push(this.#framed({ ...frame, id: this.#id + 1 }));
    return ++this.#id;
  }

  /** @param {any} frame */
  #framed(frame) {
    const data = encode(frame, this.form);
    if (this.#passes(data)) {
      const reason = `${sizeOf(data)} bytes as a frame; the server takes ${this.#frameBytes}`;
      throw new RealtimeError("too_large", reason, frame.subject);
    }
    return data;
  }

  /** @param {string | Uint8Array} data */
  #passes(data) {
    return data.length * BYTES_PER_UNIT > this.#frameBytes && sizeOf(data) > this.#frameBytes;
  }

  /** Whether the server takes a command of that size, under whatever number. @param {any} frame */
  #fits(frame) {
    return !this.#passes(encode({ ...frame, id: Number.MAX_SAFE_INTEGER }, this.form));
  }

  /** What this client can publish, from now on and over all connections; `advertise` tells the server. @param {string[]} patterns @returns {Event[]} */
  offer(patterns) {
    this.#offered = patterns;
    return this.#keepInterests(patterns);
  }

  /** @param {string[]} patterns @returns {number} the id of the command */
  advertise(patterns) {
    return this.command({ op: "advertise", patterns });
  }

  /** What this client answers, from now on and over all connections; `respond` tells the server. @param {string[]} patterns */
  responds(patterns) {
    this.#responded = patterns;
  }

  /** @param {string[]} patterns @returns {number} the id of the command */
  respond(patterns) {
    return this.command({ op: "respond", patterns });
  }

  /** Answer a request, without an answer to that. @param {any} frame */
  reply(frame) {
    this.out.push(this.#framed({ ...frame, op: "reply" }));
  }

  // What arrives.

  /** Take in one frame. @param {string | Uint8Array} data @returns {Event[]} Throws BadFrame. */
  receive(data) {
    const frame = decode(data, this.form);
    switch (frame.op) {
      case "message": return this.following.message(frame, this.#base);
      case "connected":
        this.user = frame.user ?? "";
        this.#base = frame.base;
        this.#frameBytes = frame.frame_bytes ?? Infinity;
        return [{ type: "answer", id: frame.id, answer: frame }, ...this.#tellPatterns({ isLast: true })];
      case "base":
        this.#base = frame.base;
        return [];
      case "subscribed": return this.following.subscribed(frame);
      case "epoch": return this.following.epoch(frame);
      case "revoked": return this.following.revoked(frame);
      case "lagging":
      case "caught_up":
        return this.following.lagging(frame.sids, frame.op === "lagging");
      case "interest": return this.#interests(frame.subjects, frame.wanted);
      case "advertised": return this.#advertised(frame);
      case "asked": return [{ type: "asked", asked: frame }];
      case "over": return [{ type: "over", to: frame.to }];
      case "expiring": return [status("expiring", { expires: frame.expires })];
      case "notice": return [status("notice", { code: frame.code, reason: frame.text, servers: serversOf(frame) })];
      case "error": return this.following.error(frame);
      default: return typeof frame.id === "number" ? [{ type: "answer", id: frame.id, answer: frame }] : [];
    }
  }

  /** @param {any} frame @returns {Event[]} */
  #advertised(frame) {
    const refused = frame.results.filter((/** @type {any} */ { error }) => error);
    const told = refused.map((/** @type {any} */ { pattern, reason = "" }) => status("notAdvertised", { subject: pattern, reason }));
    return [{ type: "answer", id: frame.id, answer: frame }, ...told];
  }

  /** These are wanted, or are not any more: what is new of that. @param {string[]} subjects @param {boolean} wanted @returns {Event[]} */
  #interests(subjects, wanted) {
    const interest = this.#interest;
    const told = [...new Set(subjects)];
    if (!wanted) return this.#uninteresting(told.filter((subject) => interest.has(subject)));
    const begun = told.filter((subject) => !interest.has(subject) && isCovered(subject, this.#offered));
    for (const subject of begun) interest.add(subject);
    return begun.length > 0 ? [{ type: "interest", subjects: begun, wanted: true }] : [];
  }

  /** What is not `of` the patterns is wanted no more. @param {string[]} of @returns {Event[]} */
  #keepInterests(of) {
    return this.#uninteresting([...this.#interest].filter((subject) => !isCovered(subject, of)));
  }

  /** @param {string[]} subjects @returns {Event[]} */
  #uninteresting(subjects) {
    for (const subject of subjects) this.#interest.delete(subject);
    return subjects.length > 0 ? [{ type: "interest", subjects, wanted: false }] : [];
  }
}

/** @param {string} name @param {Record<string, unknown>} details @returns {Event} */
function status(name, details) {
  return { type: "status", status: { name, ...details } };
}

/** The other servers that a notice names (4.11). @param {any} notice */
function serversOf({ servers = [] }) {
  return servers.map((/** @type {[string, number]} */ [url, weight]) => ({ url, weight }));
}
