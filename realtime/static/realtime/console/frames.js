/** The console's list of frames both ways and of what the client made of them: bounded, newest first. */

import { toBase64 } from "../client/wire/codec.js";
import { unpack } from "../client/wire/msgpack.js";
import { fill, gettext } from "../pages/words.js";

const KEPT = 1000;
const SHOWN = 300;
const PREVIEW = 400; // characters of a frame on its line
const DETAILS = 20_000; // and opened
const TOKEN_SHOWN = 6; // characters
const TOKEN_SHORT = 24; // of one that is shorter nothing is

/** @typedef {{way: "in" | "out" | "told" | "bad", at: number, kind: string, what: string, size: number, frame: any, bytes: Uint8Array | null}} Entry */

const encoder = new TextEncoder();

export class Frames {
  #list;
  #count;
  /** @type {Entry[]} oldest first */
  #entries = [];
  /** @type {Entry[]} not shown yet */
  #fresh = [];
  #total = 0;
  #filter = "";
  #hasPings = false;
  #isHeld = false;
  #isDue = false;
  /** @type {Map<number, string>} the subject of each id */
  #subjects = new Map();

  /** @param {HTMLElement} list @param {HTMLElement} count */
  constructor(list, count) {
    this.#list = list;
    this.#count = count;
  }

  /** A frame on the wire. @param {"in" | "out"} way @param {string | Uint8Array} data @returns {any} what it says */
  add(way, data) {
    const isText = typeof data === "string";
    const size = isText ? encoder.encode(data).length : data.length;
    let frame;
    try {
      frame = isText ? JSON.parse(data) : unpack(data);
    } catch (error) {
      this.#push({ way: "bad", at: Date.now(), kind: gettext("no frame"), what: String(error), size, frame: null, bytes: isText ? null : data });
      return null;
    }
    const kind = Array.isArray(frame) ? "message" : String(frame?.op);
    if (kind === "subscribed") this.#learn(frame);
    const name = kind === "message" ? `${this.#subjects.get(frame[0]) ?? ""} ` : "";
    const shown = masked(frame);
    const bytes = isText || shown !== frame ? null : data; // a token's bytes are the token
    this.#push({ way, at: Date.now(), kind, what: name + json(shown), size, frame: shown, bytes });
    return frame;
  }

  /** What the client tells. @param {string} kind @param {string} what @param {boolean} [isBad] */
  tell(kind, what, isBad = false) {
    this.#push({ way: isBad ? "bad" : "told", at: Date.now(), kind, what, size: 0, frame: null, bytes: null });
  }

  /** @param {{filter?: string, pings?: boolean, hold?: boolean}} how */
  show({ filter = this.#filter, pings = this.#hasPings, hold = this.#isHeld }) {
    this.#filter = filter;
    this.#hasPings = pings;
    const isHeldNow = hold && !this.#isHeld;
    this.#isHeld = hold;
    if (isHeldNow) return; // the list stays as it is
    this.#fresh = [];
    const passing = this.#entries.filter((entry) => this.#passes(entry));
    this.#list.replaceChildren(...passing.slice(-SHOWN).reverse().map(rowOf));
  }

  clear() {
    this.#entries = [];
    this.#fresh = [];
    this.#total = 0;
    this.#list.replaceChildren();
    this.#count.textContent = "0";
  }

  /** @param {Entry} entry */
  #push(entry) {
    this.#total += 1;
    this.#entries.push(entry);
    if (this.#entries.length >= 2 * KEPT) this.#entries = this.#entries.slice(-KEPT);
    if (this.#passes(entry)) this.#fresh.push(entry);
    if (this.#fresh.length > 2 * SHOWN) this.#fresh = this.#fresh.slice(-SHOWN);
    // However many come, they are drawn once in a frame of the screen.
    if (!this.#isDue) requestAnimationFrame(() => this.#render());
    this.#isDue = true;
  }

  #render() {
    this.#isDue = false;
    this.#count.textContent = String(this.#total);
    if (this.#isHeld) return;
    const rows = this.#fresh.slice(-SHOWN).reverse().map(rowOf);
    this.#fresh = [];
    this.#list.prepend(...rows);
    while (this.#list.children.length > SHOWN) this.#list.lastElementChild?.remove();
  }

  /** @param {Entry} entry */
  #passes({ kind, what }) {
    if (!this.#hasPings && (kind === "ping" || kind === "pong")) return false;
    return this.#filter === "" || `${kind} ${what}`.toLowerCase().includes(this.#filter.toLowerCase());
  }

  /** @param {any} frame */
  #learn({ results }) {
    for (const { subject, sid } of results ?? []) if (sid !== undefined) this.#subjects.set(sid, subject);
  }
}

/** @param {Entry} entry */
function rowOf(entry) {
  const item = document.createElement("li");
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  details.dataset.way = entry.way;
  details.dataset.kind = entry.kind;
  const way = { in: "↓", out: "↑", told: "·", bad: "!" }[entry.way];
  summary.append(
    part("time", clock(entry.at)), part("way", way), part("size", entry.size ? `${entry.size} B` : ""),
    part("kind", entry.kind), part("what", entry.what.slice(0, PREVIEW)),
  );
  const words = { in: gettext("received"), out: gettext("sent"), told: gettext("the client says"), bad: gettext("failed") }[entry.way];
  summary.children[1].setAttribute("aria-label", words);
  details.append(summary);
  // What nobody opens is not written out.
  details.addEventListener("toggle", () => {
    if (details.children.length > 1) return;
    const text = document.createElement("pre");
    const hex = entry.bytes ? `\n\n${hexOf(entry.bytes)}` : "";
    text.textContent = `${entry.frame === null ? entry.what : json(entry.frame, 2)}${hex}`.slice(0, DETAILS);
    details.append(text);
  });
  item.append(details);
  return item;
}

/** @param {string} name @param {string} text */
function part(name, text) {
  const span = document.createElement("span");
  span.className = name;
  span.textContent = text;
  return span;
}

/** A token is a secret, and the page may be shown to others. @param {any} frame */
function masked(frame) {
  const { token } = frame ?? {};
  if (typeof token !== "string" || token === "") return frame;
  const beginning = token.length < TOKEN_SHORT ? "" : token.slice(0, TOKEN_SHOWN);
  return { ...frame, token: fill(gettext("%(text)s… (%(count)s characters)"), { text: beginning, count: token.length }) };
}

/** In the form json; binary values as there (1.4). @param {any} value @param {number} [indent] */
function json(value, indent) {
  return JSON.stringify(value, (_, each) => each instanceof Uint8Array ? { b: toBase64(each) } : each, indent);
}

/** @param {Uint8Array} bytes */
function hexOf(bytes) {
  return Array.from(bytes.subarray(0, DETAILS / 3), (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** @param {number} at ms since 1970 */
function clock(at) {
  const time = new Date(at);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const ms = String(time.getMilliseconds()).padStart(3, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${ms}`;
}
