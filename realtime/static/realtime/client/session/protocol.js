/**
 * The protocol as a client sees it, without I/O or clock: frames in, events and frames out (docs/reference/protocol.md 3 to 5, 7).
 *
 * The state outlives connections: `open()` begins one, `lose()` ends it. What is to be sent gathers in `out`. Its
 * subscriptions are `following`.
 */

import { decode, encode } from "../wire/codec.js";
import { Following } from "./following.js";
import { isCovered } from "./wanted.js";

export const CLIENT = "js/1";

/** @typedef {import("../wire/codec.js").Form} Form */
/** @typedef {import("./following.js").Event} Event */

export class ClientState {
  /** @type {(string | Uint8Array)[]} */
  out = [];
  user = "";
  following = new Following((frame) => this.command(frame));
  #base = 0;
  #id = 0;
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
    this.command({ op: "connect", token, client: CLIENT, publisher: this.publisher });
    this.following.open();
    if (this.#offered.length > 0) this.advertise(this.#offered);
    if (this.#responded.length > 0) this.respond(this.#responded);
  }

  /** The connection is gone; ids of subjects and commands mean nothing any more, and whom what is published here interests is not known. @returns {Event[]} */
  lose() {
    this.out = [];
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

  /** Any command. @param {any} frame without its id @returns {number} its id */
  command(frame) {
    const id = ++this.#id;
    this.out.push(encode({ ...frame, id }, this.form));
    return id;
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
    this.out.push(encode({ ...frame, op: "reply" }, this.form));
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
        return [{ type: "answer", id: frame.id, answer: frame }];
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
