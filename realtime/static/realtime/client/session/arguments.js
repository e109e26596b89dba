/**
 * What a program may pass: a call with anything else fails by itself, before it becomes part of what is sent, and sent
 * again on each connection.
 */

import { isWhole } from "../wire/codec.js";
import { RealtimeError } from "./errors.js";

const CLOSURE_CHARS_MAX = 256;
const PATTERNS_MAX = 1000;
const NAME_BYTES_MAX = 512; // of a subject or pattern (docs/reference/protocol.md 2.1)
const TOKEN_CHARS_MAX = 65_536;
const REPLIES_MAX = 1000;
const SLOW = ["close", "conflate"];

const HALF = "half a character (a surrogate without its other half) is no text";
const encoder = new TextEncoder();

/** Why a name can be no subject or pattern, whatever the server says: with what its own words are; "" where it can. @param {string} name */
export function unsendable(name) {
  if (!isWhole(name)) return HALF;
  return name.length > NAME_BYTES_MAX || encoder.encode(name).length > NAME_BYTES_MAX ? "too long" : "";
}

/** Throws TypeError for what is no text, RealtimeError for half a character. @param {string} what @param {unknown} value @param {string} [subject] @returns {string} */
export function checkText(what, value, subject = "") {
  if (typeof value !== "string") throw new TypeError(`${what} is a string`);
  if (!isWhole(value)) throw new RealtimeError("invalid", `${what}: ${HALF}`, subject && !unsendable(subject) ? subject : "");
  return value;
}

/** What is published or asked. Throws as `checkText`. @param {unknown} content @param {Record<string, unknown>} fields @param {string} subject */
export function checkValues(content, fields, subject) {
  for (const [what, value] of [["content", content], ...Object.values(fields).map((value) => ["a field", value])]) {
    if (value instanceof Uint8Array) continue;
    if (typeof value !== "string") throw new TypeError("content and field values are strings or Uint8Arrays");
    checkText(/** @type {string} */ (what), value, subject);
  }
  for (const name of Object.keys(fields)) checkText("the name of a field", name, subject);
}

/** @param {string} what @param {unknown} value @returns {string} */
export function checkName(what, value) {
  const name = checkText(what, value);
  if (unsendable(name)) throw new RealtimeError("invalid", `${what}: ${unsendable(name)}`);
  return name;
}

/** @param {string} what @param {unknown} value @param {number} [least] @param {number} [most] @returns {number} */
export function checkCount(what, value, least = 0, most = Number.MAX_SAFE_INTEGER) {
  if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) return value;
  throw new TypeError(`${what} is a whole number from ${least} to ${most}`);
}

/** @param {string} token @returns {string} */
export function checkToken(token) {
  if (checkText("a token", token).length > TOKEN_CHARS_MAX) throw new RealtimeError("bad_token", `it has over ${TOKEN_CHARS_MAX} characters`);
  return token;
}

/** @param {string} closure @returns {string} */
export function checkClosure(closure) {
  if (checkText("closure", closure).length > CLOSURE_CHARS_MAX) throw new RealtimeError("limit", `a closure has at most ${CLOSURE_CHARS_MAX} characters`);
  return closure;
}

/** Names as a list; those that no server takes are told of one by one (`unsendable`). @param {unknown} given @returns {string[]} */
export function checkNames(given) {
  const names = [given].flat();
  if (names.every((name) => typeof name === "string")) return /** @type {string[]} */ (names);
  throw new TypeError("subjects are a string or a list of strings");
}

/** What is advertised. @param {unknown} given @returns {string[]} */
export function checkPatterns(given) {
  const names = [given].flat().map((name) => checkName("a pattern", name));
  if (names.length > PATTERNS_MAX) throw new RealtimeError("limit", `at most ${PATTERNS_MAX} patterns`);
  return names;
}

/** The options of `subscribe`, complete. @param {string[]} names @param {any} options */
export function checkSubscription(names, options) {
  const { history = 0, conflation = 0, slow = "close", since = {} } = options;
  if (!SLOW.includes(slow)) throw new TypeError("slow is \"close\" or \"conflate\"");
  if (typeof since !== "object" || since === null) throw new TypeError("since is [epoch, seq], or a map of such");
  const positions = Array.isArray(since) ? Object.fromEntries(names.map((name) => [name, since])) : since;
  for (const [name, position] of Object.entries(positions)) {
    if (!Array.isArray(position) || position.length !== 2) throw new TypeError(`since: the position of ${name} is [epoch, seq]`);
    for (const number of position) checkCount("a part of since", number);
  }
  // Of what cannot be a subject nothing was read.
  const known = Object.fromEntries(Object.entries(positions).filter(([name]) => !unsendable(name)));
  return { history: checkCount("history", history), conflation: checkCount("conflation", conflation), slow, since: known };
}

/** The options of `request`. @param {any} options */
export function checkRequest({ timeout = 5000, replies = 1 }) {
  if (typeof timeout !== "number" || !(timeout > 0)) throw new TypeError("timeout is a number of ms above 0");
  return { timeout, replies: checkCount("replies", replies, 1, REPLIES_MAX) };
}
