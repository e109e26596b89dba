/**
 * Frames of the wire protocol as values, and back, in both forms (docs/reference/protocol.md 1.2 to 1.5, 3 to 5).
 *
 * A command or answer is an object whose `op` names it; a message is an object with the op "message". Encoding writes
 * the keys in the protocol's order and leaves out what holds its default, so that it is canonical.
 */

import { pack, unpack } from "./msgpack.js";

/** @typedef {"json" | "msgpack"} Form */
/** @typedef {string | Uint8Array} Value text, or binary */

/** The subprotocol of each form (1.2). */
export const SUBPROTOCOLS = { json: "fastpath.v1.json", msgpack: "fastpath.v1.msgpack" };

/** Bytes or text that are no frame of this protocol. */
export class BadFrame extends Error {
  name = "BadFrame";
}

// Each key: its type, "?" when it may be missing, and what a missing one means. The order is that of the wire.
const RESULT = {
  subject: "text", pattern: "text?", sid: "int?", epoch: "int?", seq: "int?", recovery: "text?", messages: "int?", conflation: "int?",
  error: "text?", reason: "text?", retry_ms: "int?", rights: "text?",
};

/** @type {Record<string, Record<string, string>>} */
const SHAPES = {
  connect: { id: "int", token: "text?", client: "text?", publisher: "text?" },
  subscribe: {
    id: "int", subjects: "texts", history: "int?", conflation: "int?", slow: "text?", since: "positions?",
  },
  unsubscribe: { id: "int", subjects: "texts" },
  publish: {
    id: "int?", subject: "text", content: "value", fields: "fields?", retained: "bool?", qos: "text?",
    reply_to: "text?", closure: "text?", publication: "int?", replace: "bool?",
    removed: "bool?", traceparent: "text?",
  },
  token: { id: "int", token: "text" },
  ping: { id: "int" },
  presence: { id: "int", subject: "text?" },
  advertise: { id: "int", patterns: "texts" },
  respond: { id: "int", patterns: "texts" },
  request: { id: "int", subject: "text", content: "value", fields: "fields?", timeout: "int?", replies: "int?" },
  reply: { id: "int?", to: "text", content: "value?", fields: "fields?", more: "bool?", error: "text?", reason: "text?" },
  connected: {
    id: "int", server: "text", epoch: "int", user: "text?", time: "int", base: "int", ping_ms: "int", expires: "int?",
    frame_bytes: "int?",
  },
  subscribed: { id: "int?", results: "results" },
  unsubscribed: { id: "int", subjects: "texts" },
  published: { id: "int?", closure: "text", status: "text", reason: "text?", epoch: "int?", seq: "int?" },
  renewed: { id: "int", user: "text", expires: "int?" },
  pong: { id: "int", time: "int" },
  revoked: { subjects: "texts", reason: "text" },
  epoch: { sid: "int", epoch: "int", seq: "int" },
  base: { base: "int" },
  expiring: { expires: "int" },
  notice: { code: "text", text: "text", servers: "servers?" },
  error: { id: "int?", code: "text", reason: "text" },
  lagging: { sids: "ints" },
  caught_up: { sids: "ints" },
  present: { id: "int", subject: "text?", users: "users", anonymous: "int?", more: "int?", stale: "bool?" },
  advertised: { id: "int", results: "offers" },
  interest: { subjects: "texts", wanted: "bool" },
  responding: { id: "int", results: "offers" },
  asked: {
    to: "text", subject: "text", content: "value", fields: "fields?", timeout: "int", replies: "int?", user: "text?",
  },
  over: { to: "text", reason: "text" },
  replied: { id: "int", status: "text", reason: "text?" },
  response: {
    id: "int", content: "value?", fields: "fields?", more: "bool?", error: "text?", reason: "text?", own: "bool?",
  },
};

/** Lists of maps within an answer. */
const LISTS = /** @type {Record<string, Record<string, string>>} */ ({
  results: RESULT,
  users: { user: "text", connections: "int" },
  offers: { pattern: "text", error: "text?", reason: "text?" },
});

/** What is left out because it is the default (3, 4); positions have none: a missing seq differs from 0. */
const DEFAULTS = {
  connect: { token: "", client: "", publisher: "" },
  subscribe: { history: 0, conflation: 0, slow: "close" },
  publish: {
    retained: true, qos: "guaranteed", reply_to: "", closure: "", publication: 0, replace: false, removed: false,
    traceparent: "",
  },
  published: { reason: "" },
  presence: { subject: "" },
  present: { subject: "", anonymous: 0, more: 0, stale: false },
  request: { timeout: 5000, replies: 1 },
  reply: { content: "", more: false, error: "", reason: "" },
  asked: { replies: 1, user: "" },
  replied: { reason: "" },
  response: { content: "", more: false, error: "", reason: "", own: false },
  result: { pattern: "", recovery: "", messages: 0, conflation: 0, error: "", reason: "", retry_ms: 0, rights: "" },
};

const META = {
  kind: "text?", retained: "bool?", reply_to: "text?", closure: "text?", as_of: "any?", removed: "bool?", traceparent: "text?",
};
const META_DEFAULTS = { kind: "", retained: true, reply_to: "", closure: "", as_of: null, removed: false, traceparent: "" };

/** @type {Record<string, (value: any, form: Form) => boolean>} */
const CHECKS = {
  int: (value) => Number.isSafeInteger(value),
  text: (value) => typeof value === "string",
  bool: (value) => typeof value === "boolean",
  any: () => true,
  texts: (value) => Array.isArray(value) && value.every((item) => typeof item === "string"),
  servers: (value) => Array.isArray(value) && value.every((item) => Array.isArray(item) && item.length === 2
    && typeof item[0] === "string" && Number.isSafeInteger(item[1])),
  ints: (value) => Array.isArray(value) && value.every(Number.isSafeInteger),
  positions: (value) => isMap(value) && Object.values(value).every(
    (item) => Array.isArray(item) && item.length === 2 && item.every(Number.isSafeInteger)),
};

/**
 * @param {any} frame a command, answer or message
 * @param {Form} form
 * @returns {string | Uint8Array} text in the form json, bytes in the form msgpack
 */
export function encode(frame, form) {
  const wire = frame.op === "message" ? row(frame, form) : { op: frame.op, ...ordered(frame, shape(frame.op), form) };
  return form === "json" ? JSON.stringify(wire) : pack(wire);
}

/**
 * @param {string | Uint8Array} data one WebSocket message
 * @param {Form} form
 * @returns {any} a command, answer or message; one whose `op` is not known is returned as it came. Throws BadFrame.
 */
export function decode(data, form) {
  if ((typeof data === "string") !== (form === "json")) throw new BadFrame(`a frame of the wrong kind for ${form}`);
  let raw;
  try {
    raw = form === "json" ? JSON.parse(/** @type {string} */ (data)) : unpack(/** @type {Uint8Array} */ (data));
  } catch (error) {
    throw new BadFrame(`not ${form}: ${/** @type {Error} */ (error).message}`);
  }
  if (Array.isArray(raw)) return message(raw, form);
  if (!isMap(raw) || typeof raw.op !== "string") throw new BadFrame("a command or answer is a map with the key op");
  if (!Object.hasOwn(SHAPES, raw.op)) return raw;
  return { op: raw.op, ...checked(raw, SHAPES[raw.op], raw.op, form) };
}

const utf8 = new TextEncoder();

/** How many bytes a frame takes. @param {string | Uint8Array} data */
export function sizeOf(data) {
  return typeof data === "string" ? utf8.encode(data).length : data.length;
}

/** Whether a text has no half of a character: JSON would escape it, which no server takes, and MessagePack lose it. @param {string} text */
export function isWhole(text) {
  return !/\p{Surrogate}/u.test(text);
}

/** @param {string} op */
function shape(op) {
  if (!Object.hasOwn(SHAPES, op)) throw new TypeError(`unknown op ${JSON.stringify(op)}`);
  return SHAPES[op];
}

/** @param {any} frame @param {Record<string, string>} keys @param {Form} form */
function ordered(frame, keys, form) {
  /** @type {Record<string, any>} */
  const wire = {};
  const defaults = keys === RESULT ? DEFAULTS.result : keys === META ? META_DEFAULTS
    : /** @type {any} */ (DEFAULTS)[frame.op] ?? {};
  for (const [key, type] of Object.entries(keys)) {
    const value = frame[key];
    if (value === undefined || (Object.hasOwn(defaults, key) && value === defaults[key])) continue;
    if (type.startsWith("value")) wire[key] = toWire(value, form);
    else if (type === "fields?") { if (!isEmpty(value)) wire[key] = fieldsToWire(value, form); }
    else if (type === "positions?") { if (!isEmpty(value)) wire[key] = value; }
    else if (LISTS[type]) wire[key] = value.map((/** @type {any} */ item) => ordered(item, LISTS[type], form));
    else wire[key] = value;
  }
  return wire;
}

/** @param {any} raw @param {Record<string, string>} keys @param {string} what @param {Form} form */
function checked(raw, keys, what, form) {
  /** @type {Record<string, any>} */
  const value = {};
  for (const [key, declared] of Object.entries(keys)) {
    const found = raw[key];
    const optional = declared.endsWith("?");
    const type = optional ? declared.slice(0, -1) : declared;
    if (found === undefined) {
      if (!optional) throw new BadFrame(`${what} without ${key}`);
    } else if (type === "value") value[key] = fromWire(found, form);
    else if (type === "fields") value[key] = fieldsFromWire(found, form);
    else if (LISTS[type]) {
      if (!Array.isArray(found) || !found.every(isMap)) throw new BadFrame(`${what}: ${key} is a list of maps`);
      value[key] = found.map((item) => checked(item, LISTS[type], `an item of ${key}`, form));
    } else if (CHECKS[type](found, form)) value[key] = found;
    else throw new BadFrame(`${what}: ${key} is no ${type}`);
  }
  return value;
}

/** A message as its array (5.1). @param {any} frame @param {Form} form */
function row(frame, form) {
  const wire = [frame.sid, frame.seq, frame.t, toWire(frame.content, form)];
  const meta = ordered(frame.meta ?? {}, META, form);
  const fields = isEmpty(frame.fields) ? null : fieldsToWire(frame.fields, form);
  if (!isEmpty(meta)) wire.push(fields, meta);
  else if (fields) wire.push(fields);
  return wire;
}

/** @param {any[]} raw @param {Form} form */
function message(raw, form) {
  if (raw.length < 4 || raw.length > 6 || !raw.slice(0, 3).every(Number.isSafeInteger)) {
    throw new BadFrame("a message is [sid, seq, t, content, fields, meta]");
  }
  const [sid, seq, t, content, fields, meta] = raw;
  if (meta !== undefined && !isMap(meta)) throw new BadFrame("the meta of a message is a map");
  return {
    op: "message", sid, seq, t, content: fromWire(content, form),
    fields: fields === undefined || fields === null ? {} : fieldsFromWire(fields, form),
    meta: meta === undefined ? {} : checked(meta, META, "meta", form),
  };
}

/** @param {Value} value @param {Form} form @returns {any} */
function toWire(value, form) {
  if (typeof value === "string") return wholeText(value);
  if (!(value instanceof Uint8Array)) throw new TypeError("content and field values are strings or Uint8Arrays");
  return form === "json" ? { b: toBase64(value) } : value;
}

/** @param {any} raw @param {Form} form @returns {Value} */
function fromWire(raw, form) {
  if (typeof raw === "string") return raw;
  if (form === "msgpack" && raw instanceof Uint8Array) return raw;
  if (form === "json" && isMap(raw) && typeof raw.b === "string" && Object.keys(raw).length === 1) {
    return fromBase64(raw.b);
  }
  throw new BadFrame("content and field values are text or binary");
}

/** @param {Record<string, Value>} fields @param {Form} form */
function fieldsToWire(fields, form) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [wholeText(name), toWire(value, form)]));
}

/** @param {string} text @returns {string} */
function wholeText(text) {
  if (isWhole(text)) return text;
  throw new TypeError("content, field names and values: half a character (a surrogate without its other half) is no text");
}

/** @param {any} raw @param {Form} form @returns {Record<string, Value>} */
function fieldsFromWire(raw, form) {
  if (!isMap(raw)) throw new BadFrame("fields is a map of names to values");
  for (const name of Object.keys(raw)) {
    if (typeof raw[name] !== "string") raw[name] = fromWire(raw[name], form);
  }
  return raw;
}

/** @param {Uint8Array} bytes */
export function toBase64(bytes) {
  let binary = "";
  // In pieces: a call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}

/** @param {string} base64 padded, RFC 4648 section 4 */
export function fromBase64(base64) {
  let binary;
  try {
    binary = atob(base64);
  } catch {
    throw new BadFrame("a binary value is {\"b\": base64}, padded");
  }
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  // atob also takes white space, missing padding and loose bits: only one text stands for these bytes.
  if (toBase64(bytes) !== base64) throw new BadFrame("a binary value is {\"b\": base64}, padded");
  return bytes;
}

/** @param {any} value */
function isMap(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
}

/** @param {any} map */
function isEmpty(map) {
  return map === undefined || map === null || Object.keys(map).length === 0;
}
