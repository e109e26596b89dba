/**
 * The JavaScript client, one file made of the modules in client/: `make client` writes it, edit them.
 * docs/develop/javascript.md is its guide.
 */

const $transports_http = (() => { // client/transports/http.js
/** What both HTTP transports do alike: the session's addresses, what is sent to it, and its end (docs/reference/protocol.md 1). */

const TOO_BIG = 1009;
const ABNORMAL = 1006;
const TOO_LARGE = "the server takes no frame of that size";
const POST_MS = 10_000;
/** After a POST that failed, before the same again. */
const AGAIN_MS = [100, 500, 1500];
/** For the server's goodbye, after an answer that says no more than that the session is gone. */
const GOODBYE_MS = 1000;
const FRAME_BYTES = 65_536; // until the server says

const utf8 = new TextEncoder();

/** @typedef {Hearer} Hearer */
/** @typedef {Failure} Failure */

/** How an answer that is no session's beginning is to be understood. @param {Response} response @returns {string} */
function refusalOf(response) {
  return `it answers ${response.status} to a session over HTTP`;
}

class HttpSession {
  /** set when the transport is over: nothing is told of it any more */
  isOver = false;
  hello = { session: "", poll_ms: 25_000, frame_bytes: FRAME_BYTES };
  #url;
  #hear;
  #sent = 0; // frames that the server has taken
  /** @type {string[]} frames that it has not */
  #waiting = [];
  #isPosting = false;
  #aborter = new AbortController();

  /** @param {string} url of the WebSocket: the session's is beside it @param {Hearer} hear */
  constructor(url, hear) {
    this.#url = new URL(url, globalThis.location?.href);
    this.#url.protocol = this.#url.protocol.replace("ws", "http");
    this.#hear = hear;
    globalThis.addEventListener?.("pagehide", this.#leave);
  }

  /** Ends what is asked of the server. */
  get signal() {
    return this.#aborter.signal;
  }

  /** @param {string} path below the sessions' @param {Record<string, string | number>} [query] by default that of the WebSocket, which may have a token */
  address(path, query) {
    const address = new URL(`session/${path}`, this.#url);
    address.search = query ? "" : this.#url.search;
    for (const [name, value] of Object.entries(query ?? {})) address.searchParams.set(name, String(value));
    return address.href;
  }

  /** The session's first words. @param {string} text JSON */
  begin(text) {
    this.hello = { ...this.hello, ...JSON.parse(text) };
    this.#hear.opened("json");
  }

  /** @param {string} data one frame */
  send(data) {
    this.#waiting.push(data);
    // After this turn: what is sent in one go is one request.
    if (!this.#isPosting) {
      this.#isPosting = true;
      queueMicrotask(() => this.#post());
    }
  }

  /** @param {string} data one frame of the server */
  received(data) {
    if (!this.isOver) this.#hear.received(data);
  }

  /** @param {string} reason @param {Failure} how */
  refused(reason, how) {
    if (this.#end()) this.#hear.refused(reason, how);
  }

  /** @param {number} code @param {string} reason */
  closed(code, reason) {
    if (this.#end()) this.#hear.closed(code, reason);
  }

  /** The client leaves; nothing more is heard. */
  drop() {
    if (this.#end()) this.#leave();
  }

  #end() {
    const isNew = !this.isOver;
    this.isOver = true;
    if (isNew) {
      globalThis.removeEventListener?.("pagehide", this.#leave);
      this.#aborter.abort();
    }
    return isNew;
  }

  /** Tell the server, also while the page goes. */
  #leave = () => {
    if (!this.hello.session) return;
    const address = this.address(`${this.hello.session}/close`, {});
    if (globalThis.navigator?.sendBeacon?.(address)) return;
    fetch(address, { method: "POST", keepalive: true }).catch(() => {});
  };

  /** Send what waits, one request after the other, until nothing does. */
  async #post() {
    for (let failures = 0; this.#waiting.length > 0 && !this.isOver;) {
      const count = this.#count();
      if (count === 0) return this.closed(TOO_BIG, TOO_LARGE);
      const status = await this.#request(this.#waiting.slice(0, count).join("\n"));
      if (this.isOver) return;
      if (status >= 200 && status < 300) {
        this.#waiting.splice(0, count);
        this.#sent += count;
        failures = 0;
      } else if (status === 413) return this.closed(TOO_BIG, TOO_LARGE);
      else if (status >= 400 && status < 500 && status !== 408 && status !== 429) {
        // The goodbye says why, and whether to come back; it comes with what is read.
        await pause(GOODBYE_MS);
        return this.closed(ABNORMAL, `the session is gone: ${status}`);
      } else if (failures === AGAIN_MS.length) return this.closed(ABNORMAL, "what is sent does not arrive");
      // The same numbers again: what the server has taken already it leaves out.
      else await pause(AGAIN_MS[failures++]);
    }
    this.#isPosting = false;
  }

  /** How many frames the next request takes: as many as are together no larger than one may be; 0: the first is too large. */
  #count() {
    let bytes = 0;
    const over = this.#waiting.findIndex((frame) => (bytes += utf8.encode(frame).length + 1) > this.hello.frame_bytes + 1);
    return over === -1 ? this.#waiting.length : over;
  }

  /** @param {string} body @returns {Promise<number>} the status, 0 without an answer */
  async #request(body) {
    try {
      const response = await fetch(this.address(this.hello.session, { n: this.#sent + 1 }), {
        method: "POST", body, cache: "no-store", headers: { "content-type": "text/plain" }, redirect: "error",
        signal: AbortSignal.any([this.signal, AbortSignal.timeout(POST_MS)]),
      });
      await response.arrayBuffer();
      return response.status;
    } catch {
      return 0;
    }
  }
}

/** @param {number} ms @returns {Promise<void>} */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
return { refusalOf, HttpSession, pause };
})();

const $transports_poll = (() => { // client/transports/poll.js
/** The transport `poll`: the server's frames as answers that are asked for one after the other, the client's by POST. */

const { HttpSession, pause, refusalOf } = $transports_http;

/** An answer that fails sooner than this is a failure, */
const HELD_MS = 500;
/** and so many in a row are the end; */
const FAILURES_MAX = 3;
/** one that a proxy cuts later is asked for again, as long as others come. */
const SILENCE_MS = 15_000;
const AGAIN_MS = 200;
/** Beyond the time for which the server holds an answer. */
const LATE_MS = 10_000;

/** @typedef {Hearer} Hearer */

class PollTransport {
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
return { PollTransport };
})();

const $transports_lines = (() => { // client/transports/lines.js
/** Lines of a text that arrives in pieces, and the events of an event stream made of them. No I/O. */

/** Cuts text into lines; what ends with no line end waits for the next piece. */
class Lines {
  #rest = "";

  /** @param {string} text @returns {string[]} the lines that are complete */
  take(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = /** @type {string} */ (lines.pop());
    return lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  }
}

/** The events of `text/event-stream`, with what of it the server uses: names, data of one line, comments. */
class Events {
  #lines = new Lines();
  #name = "";
  /** @type {string[]} */
  #data = [];

  /** @param {string} text @returns {{name: string, data: string}[]} */
  take(text) {
    const events = [];
    for (const line of this.#lines.take(text)) {
      if (line === "") {
        if (this.#data.length > 0) events.push({ name: this.#name, data: this.#data.join("\n") });
        this.#name = "";
        this.#data = [];
      } else if (line.startsWith("data:")) this.#data.push(value(line, 5));
      else if (line.startsWith("event:")) this.#name = value(line, 6);
    }
    return events;
  }
}

/** @param {string} line @param {number} at behind the colon */
function value(line, at) {
  return line.slice(line[at] === " " ? at + 1 : at);
}
return { Lines, Events };
})();

const $transports_stream = (() => { // client/transports/stream.js
/** The transport `stream`: the server's frames as events of one long answer, the client's by POST. */

const { Events } = $transports_lines;
const { HttpSession, refusalOf } = $transports_http;

/** @typedef {Hearer} Hearer */

class StreamTransport {
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
function probeStream(url, { stepDownSeconds }) {
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
return { StreamTransport, probeStream };
})();

const $wire_msgpack = (() => { // client/wire/msgpack.js
/**
 * MessagePack, as much of it as the protocol uses: nil, booleans, numbers, text, binary, arrays, maps with text keys.
 *
 * Integers are written in their shortest form (docs/reference/protocol.md 1.3). Maps become objects without a prototype, so that
 * a field may have any name. Integers beyond 2^53 are rounded, as in JSON: where the protocol has a number of its own the
 * codec refuses them, but a message may bring any as its `as_of`.
 */

const utf8 = new TextEncoder();
const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const DEPTH_MAX = 64;

/** A growing buffer. */
class Writer {
  bytes = new Uint8Array(256);
  view = new DataView(this.bytes.buffer);
  length = 0;

  /** @param {number} count how many bytes will be written @returns {number} where */
  reserve(count) {
    const at = this.length;
    this.length += count;
    if (this.length > this.bytes.length) {
      const larger = new Uint8Array(Math.max(this.length, this.bytes.length * 2));
      larger.set(this.bytes);
      this.bytes = larger;
      this.view = new DataView(larger.buffer);
    }
    return at;
  }

  /** @param {number} byte */
  byte(byte) {
    const at = this.reserve(1);
    this.bytes[at] = byte;
  }

  /** @param {number} mark @param {1|2|4} size @param {number} value */
  sized(mark, size, value) {
    const at = this.reserve(1 + size);
    this.bytes[at] = mark;
    if (size === 1) this.view.setUint8(at + 1, value);
    else if (size === 2) this.view.setUint16(at + 1, value);
    else this.view.setUint32(at + 1, value);
  }

  /** @param {Uint8Array} bytes */
  raw(bytes) {
    const at = this.reserve(bytes.length);
    this.bytes.set(bytes, at);
  }
}

/**
 * @param {unknown} value null, boolean, number, string, Uint8Array, array or plain object
 * @returns {Uint8Array}
 */
function pack(value) {
  const writer = new Writer();
  write(writer, value);
  return writer.bytes.slice(0, writer.length);
}

/** @param {Writer} to @param {any} value */
function write(to, value) {
  if (typeof value === "string") {
    const bytes = utf8.encode(value);
    if (bytes.length < 32) to.byte(0xa0 | bytes.length);
    else header(to, bytes.length, 0xd9, 0xda, 0xdb);
    to.raw(bytes);
  } else if (typeof value === "number") {
    number(to, value);
  } else if (value === null || value === undefined) {
    to.byte(0xc0);
  } else if (typeof value === "boolean") {
    to.byte(value ? 0xc3 : 0xc2);
  } else if (value instanceof Uint8Array) {
    header(to, value.length, 0xc4, 0xc5, 0xc6);
    to.raw(value);
  } else if (Array.isArray(value)) {
    if (value.length < 16) to.byte(0x90 | value.length);
    else header(to, value.length, 0, 0xdc, 0xdd);
    for (const item of value) write(to, item);
  } else if (typeof value === "object") {
    const keys = Object.keys(value).filter((key) => value[key] !== undefined);
    if (keys.length < 16) to.byte(0x80 | keys.length);
    else header(to, keys.length, 0, 0xde, 0xdf);
    for (const key of keys) {
      write(to, key);
      write(to, value[key]);
    }
  } else {
    throw new TypeError(`MessagePack cannot hold a ${typeof value}`);
  }
}

/** @param {Writer} to @param {number} length @param {number} mark8 0 if there is none @param {number} mark16 @param {number} mark32 */
function header(to, length, mark8, mark16, mark32) {
  if (mark8 && length < 0x100) to.sized(mark8, 1, length);
  else if (length < 0x10000) to.sized(mark16, 2, length);
  else to.sized(mark32, 4, length);
}

/** @param {Writer} to @param {number} value */
function number(to, value) {
  if (!Number.isSafeInteger(value) || Object.is(value, -0)) {
    const at = to.reserve(9);
    to.bytes[at] = 0xcb;
    to.view.setFloat64(at + 1, value);
  } else if (value >= 0) {
    if (value < 0x80) to.byte(value);
    else if (value < 0x100) to.sized(0xcc, 1, value);
    else if (value < 0x10000) to.sized(0xcd, 2, value);
    else if (value < 0x100000000) to.sized(0xce, 4, value);
    else {
      const at = to.reserve(9);
      to.bytes[at] = 0xcf;
      to.view.setBigUint64(at + 1, BigInt(value));
    }
  } else if (value >= -32) to.byte(value & 0xff);
  else if (value >= -0x80) to.sized(0xd0, 1, value & 0xff);
  else if (value >= -0x8000) to.sized(0xd1, 2, value & 0xffff);
  else if (value >= -0x80000000) to.sized(0xd2, 4, value >>> 0);
  else {
    const at = to.reserve(9);
    to.bytes[at] = 0xd3;
    to.view.setBigInt64(at + 1, BigInt(value));
  }
}

/**
 * @param {Uint8Array} bytes exactly one value
 * @returns {any} throws RangeError or TypeError when the bytes are no such value
 */
function unpack(bytes) {
  const from = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), at: 0 };
  const value = read(from, 0);
  if (from.at !== bytes.length) throw new RangeError("bytes are left after the value");
  return value;
}

/** @typedef {{bytes: Uint8Array, view: DataView, at: number}} Reader */

/** @param {Reader} from @param {number} depth @returns {any} */
function read(from, depth) {
  const mark = from.view.getUint8(from.at++);
  if (mark < 0x80) return mark;
  if (mark < 0x90) return map(from, mark & 0x0f, depth);
  if (mark < 0xa0) return array(from, mark & 0x0f, depth);
  if (mark < 0xc0) return text.decode(take(from, mark & 0x1f));
  if (mark >= 0xe0) return mark - 0x100;
  switch (mark) {
    case 0xc0: return null;
    case 0xc2: return false;
    case 0xc3: return true;
    case 0xc4: case 0xc5: case 0xc6: return take(from, unsigned(from, 1 << (mark - 0xc4))).slice();
    case 0xca: return from.view.getFloat32((from.at += 4) - 4);
    case 0xcb: return from.view.getFloat64((from.at += 8) - 8);
    case 0xcc: case 0xcd: case 0xce: return unsigned(from, 1 << (mark - 0xcc));
    case 0xcf: return Number(from.view.getBigUint64((from.at += 8) - 8));
    case 0xd0: return from.view.getInt8((from.at += 1) - 1);
    case 0xd1: return from.view.getInt16((from.at += 2) - 2);
    case 0xd2: return from.view.getInt32((from.at += 4) - 4);
    case 0xd3: return Number(from.view.getBigInt64((from.at += 8) - 8));
    case 0xd9: case 0xda: case 0xdb: return text.decode(take(from, unsigned(from, 1 << (mark - 0xd9))));
    case 0xdc: case 0xdd: return array(from, unsigned(from, mark === 0xdc ? 2 : 4), depth);
    case 0xde: case 0xdf: return map(from, unsigned(from, mark === 0xde ? 2 : 4), depth);
    default: throw new TypeError(`0x${mark.toString(16)} begins no value of this protocol`);
  }
}

/** @param {Reader} from @param {number} size in bytes: 1, 2 or 4 @returns {number} */
function unsigned(from, size) {
  from.at += size;
  if (size === 1) return from.view.getUint8(from.at - 1);
  return size === 2 ? from.view.getUint16(from.at - 2) : from.view.getUint32(from.at - 4);
}

/** @param {Reader} from @param {number} length @returns {Uint8Array} */
function take(from, length) {
  if (from.at + length > from.bytes.length) throw new RangeError("the value is cut off");
  from.at += length;
  return from.bytes.subarray(from.at - length, from.at);
}

/** @param {Reader} from @param {number} length @param {number} depth */
function array(from, length, depth) {
  if (depth >= DEPTH_MAX) throw new RangeError("nested too deeply");
  const items = [];
  for (let index = 0; index < length; index++) items.push(read(from, depth + 1));
  return items;
}

/** @param {Reader} from @param {number} length @param {number} depth */
function map(from, length, depth) {
  if (depth >= DEPTH_MAX) throw new RangeError("nested too deeply");
  const entries = Object.create(null);
  for (let index = 0; index < length; index++) {
    const key = read(from, depth + 1);
    if (typeof key !== "string") throw new TypeError("a key of a map is text");
    entries[key] = read(from, depth + 1);
  }
  return entries;
}
return { pack, unpack };
})();

const $wire_codec = (() => { // client/wire/codec.js
/**
 * Frames of the wire protocol as values, and back, in both forms (docs/reference/protocol.md 1.2 to 1.5, 3 to 5).
 *
 * A command or answer is an object whose `op` names it; a message is an object with the op "message". Encoding writes
 * the keys in the protocol's order and leaves out what holds its default, so that it is canonical.
 */

const { pack, unpack } = $wire_msgpack;

/** @typedef {"json" | "msgpack"} Form */
/** @typedef {string | Uint8Array} Value text, or binary */

/** The subprotocol of each form (1.2). */
const SUBPROTOCOLS = { json: "fastpath.v1.json", msgpack: "fastpath.v1.msgpack" };

/** Bytes or text that are no frame of this protocol. */
class BadFrame extends Error {
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
function encode(frame, form) {
  const wire = frame.op === "message" ? row(frame, form) : { op: frame.op, ...ordered(frame, shape(frame.op), form) };
  return form === "json" ? JSON.stringify(wire) : pack(wire);
}

/**
 * @param {string | Uint8Array} data one WebSocket message
 * @param {Form} form
 * @returns {any} a command, answer or message; one whose `op` is not known is returned as it came. Throws BadFrame.
 */
function decode(data, form) {
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
function sizeOf(data) {
  return typeof data === "string" ? utf8.encode(data).length : data.length;
}

/** Whether a text has no half of a character: JSON would escape it, which no server takes, and MessagePack lose it. @param {string} text */
function isWhole(text) {
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
function toBase64(bytes) {
  let binary = "";
  // In pieces: a call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 8192) binary += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(binary);
}

/** @param {string} base64 padded, RFC 4648 section 4 */
function fromBase64(base64) {
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
return { SUBPROTOCOLS, BadFrame, encode, decode, sizeOf, isWhole, toBase64, fromBase64 };
})();

const $transports_websocket = (() => { // client/transports/websocket.js
/** The transport `websocket`: frames as they are, in both forms. */

const { SUBPROTOCOLS } = $wire_codec;

const NORMAL = 1000;

/** @typedef {Hearer} Hearer */

class WebSocketTransport {
  #socket;

  /** @param {string} url @param {Hearer} hear @param {{form: "json" | "msgpack", WebSocket: any}} options */
  constructor(url, hear, { form, WebSocket }) {
    const socket = (this.#socket = new WebSocket(url, subprotocols(form)));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      socket.onerror = ignored;
      socket.onclose = (/** @type {any} */ { code, reason }) => this.#over(() => hear.closed(code, reason));
      hear.opened(socket.protocol === SUBPROTOCOLS.msgpack ? "msgpack" : "json");
    };
    socket.onmessage = (/** @type {any} */ { data }) =>
      hear.received(typeof data === "string" ? data : new Uint8Array(data));
    // A script is told nothing of why: whether anything answers there at all, the transport below finds out.
    socket.onerror = socket.onclose = () => this.#over(() => hear.refused("it does not open", "refused"));
  }

  /** @param {string | Uint8Array} data */
  send(data) {
    this.#socket.send(data);
  }

  /** Nothing more is heard of it. */
  drop() {
    const socket = this.#socket;
    this.#silence();
    socket.close(NORMAL);
  }

  /** @param {() => void} tell */
  #over(tell) {
    this.#silence();
    tell();
  }

  #silence() {
    const socket = this.#socket;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = ignored;
  }
}

/**
 * Whether frames pass in both directions: the server answers a close frame with one of its own.
 * @param {string} url @param {{form: "json" | "msgpack", WebSocket: any, stepDownSeconds: number}} options @returns {Promise<boolean>}
 */
function probeWebSocket(url, { form, WebSocket, stepDownSeconds }) {
  return new Promise((resolve) => {
    const socket = new WebSocket(url, subprotocols(form));
    const timer = setTimeout(() => { resolve(false); socket.close(NORMAL); }, 1000 * stepDownSeconds);
    socket.onopen = () => socket.close(NORMAL);
    socket.onerror = ignored;
    socket.onclose = (/** @type {any} */ { code, wasClean }) => {
      clearTimeout(timer);
      resolve(wasClean && code === NORMAL);
    };
  });
}

/** What follows an error is the close; but in Node, where others' classes serve, an error that nobody hears ends the process. */
function ignored() {}

/** The server chooses; one that does not speak the binary form answers with the other. @param {"json" | "msgpack"} form */
function subprotocols(form) {
  return form === "json" ? [SUBPROTOCOLS.json] : [SUBPROTOCOLS.msgpack, SUBPROTOCOLS.json];
}
return { WebSocketTransport, probeWebSocket };
})();

const $connection_connector = (() => { // client/connection/connector.js
/** Opens connections, one at a time, by the transport that it is told, and tells what becomes of it. */

const { PollTransport } = $transports_poll;
const { StreamTransport, probeStream } = $transports_stream;
const { WebSocketTransport, probeWebSocket } = $transports_websocket;

/** @typedef {Hearer} Hearer */
/** @typedef {Transport} Transport */

const CLASSES = /** @type {Record<string, new (url: string, hear: Hearer, options: any) => Transport>} */ ({
  websocket: WebSocketTransport, stream: StreamTransport, poll: PollTransport,
});

class Connector {
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
function viaOf({ url, weight }) {
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
return { Connector, viaOf };
})();

const $session_errors = (() => { // client/session/errors.js
/** The error that commands of the client end with. */

/** A command that did not work; `status` is one of docs/reference/protocol.md 4.4 or 4.12, or "unknown" when the answer is lost. */
class RealtimeError extends Error {
  name = "RealtimeError";

  /** @param {string} status @param {string} [reason] @param {string} [subject] */
  constructor(status, reason = "", subject = "") {
    super(reason ? `${status}: ${reason}` : status);
    this.status = status;
    this.reason = reason;
    this.subject = subject;
  }
}
return { RealtimeError };
})();

const $session_arguments = (() => { // client/session/arguments.js
/**
 * What a program may pass: a call with anything else fails by itself, before it becomes part of what is sent, and sent
 * again on each connection.
 */

const { isWhole } = $wire_codec;
const { RealtimeError } = $session_errors;

const CLOSURE_CHARS_MAX = 256;
const PATTERNS_MAX = 1000;
const NAME_BYTES_MAX = 512; // of a subject or pattern (docs/reference/protocol.md 2.1)
const TOKEN_CHARS_MAX = 65_536;
const REPLIES_MAX = 1000;
const SLOW = ["close", "conflate"];

const HALF = "half a character (a surrogate without its other half) is no text";
const encoder = new TextEncoder();

/** Why a name can be no subject or pattern, whatever the server says: with what its own words are; "" where it can. @param {string} name */
function unsendable(name) {
  if (!isWhole(name)) return HALF;
  return name.length > NAME_BYTES_MAX || encoder.encode(name).length > NAME_BYTES_MAX ? "too long" : "";
}

/** Throws TypeError for what is no text, RealtimeError for half a character. @param {string} what @param {unknown} value @param {string} [subject] @returns {string} */
function checkText(what, value, subject = "") {
  if (typeof value !== "string") throw new TypeError(`${what} is a string`);
  if (!isWhole(value)) throw new RealtimeError("invalid", `${what}: ${HALF}`, subject && !unsendable(subject) ? subject : "");
  return value;
}

/** What is published or asked. Throws as `checkText`. @param {unknown} content @param {Record<string, unknown>} fields @param {string} subject */
function checkValues(content, fields, subject) {
  for (const [what, value] of [["content", content], ...Object.values(fields).map((value) => ["a field", value])]) {
    if (value instanceof Uint8Array) continue;
    if (typeof value !== "string") throw new TypeError("content and field values are strings or Uint8Arrays");
    checkText(/** @type {string} */ (what), value, subject);
  }
  for (const name of Object.keys(fields)) checkText("the name of a field", name, subject);
}

/** @param {string} what @param {unknown} value @returns {string} */
function checkName(what, value) {
  const name = checkText(what, value);
  if (unsendable(name)) throw new RealtimeError("invalid", `${what}: ${unsendable(name)}`);
  return name;
}

/** @param {string} what @param {unknown} value @param {number} [least] @param {number} [most] @returns {number} */
function checkCount(what, value, least = 0, most = Number.MAX_SAFE_INTEGER) {
  if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) return value;
  throw new TypeError(`${what} is a whole number from ${least} to ${most}`);
}

/** @param {string} token @returns {string} */
function checkToken(token) {
  if (checkText("a token", token).length > TOKEN_CHARS_MAX) throw new RealtimeError("bad_token", `it has over ${TOKEN_CHARS_MAX} characters`);
  return token;
}

/** @param {string} closure @returns {string} */
function checkClosure(closure) {
  if (checkText("closure", closure).length > CLOSURE_CHARS_MAX) throw new RealtimeError("limit", `a closure has at most ${CLOSURE_CHARS_MAX} characters`);
  return closure;
}

/** Names as a list; those that no server takes are told of one by one (`unsendable`). @param {unknown} given @returns {string[]} */
function checkNames(given) {
  const names = [given].flat();
  if (names.every((name) => typeof name === "string")) return /** @type {string[]} */ (names);
  throw new TypeError("subjects are a string or a list of strings");
}

/** What is advertised. @param {unknown} given @returns {string[]} */
function checkPatterns(given) {
  const names = [given].flat().map((name) => checkName("a pattern", name));
  if (names.length > PATTERNS_MAX) throw new RealtimeError("limit", `at most ${PATTERNS_MAX} patterns`);
  return names;
}

/** The options of `subscribe`, complete. @param {string[]} names @param {any} options */
function checkSubscription(names, options) {
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
function checkRequest({ timeout = 5000, replies = 1 }) {
  if (typeof timeout !== "number" || !(timeout > 0)) throw new TypeError("timeout is a number of ms above 0");
  return { timeout, replies: checkCount("replies", replies, 1, REPLIES_MAX) };
}
return { unsendable, checkText, checkValues, checkName, checkCount, checkToken, checkClosure, checkNames, checkPatterns, checkSubscription, checkRequest };
})();

const $session_bound = (() => { // client/session/bound.js
/** Objects that work behind a Proxy, such as Vue's `reactive()` and Alpine's `x-data` make of all that they hold. */

/**
 * Give an object its methods and getters as its own, tied to itself: a Proxy in its place has none of its private members.
 * @param {object} object
 */
function bind(object) {
  const members = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object));
  for (const [name, { value, get }] of Object.entries(members)) {
    if (name === "constructor") continue;
    const tied = get ? { get: get.bind(object) } : { value: value.bind(object), writable: true };
    Object.defineProperty(object, name, { ...tied, configurable: true });
  }
}
return { bind };
})();

const $session_listeners = (() => { // client/session/listeners.js
/** Who hears of which status. */

/** Why a page stays empty: where nobody listens to these, the console is told, once for each subject. */
const MISSING = new Map([
  ["denied", "there is no right to read it, yet"],
  ["notReady", "the server cannot say yet who may read it"],
  ["refused", "the subscription was refused"],
]);

class Listeners {
  /** @type {Set<string>} subjects that the console was told of */
  #told = new Set();
  /** @type {Map<string, Set<(status: any) => void>>} */
  #byName = new Map();

  /** @param {string} name "status" for everything @param {(status: any) => void} listener @returns {() => void} stops it */
  on(name, listener) {
    if (typeof listener !== "function") throw new TypeError("a listener is a function");
    if (!this.#byName.has(name)) this.#byName.set(name, new Set());
    this.#byName.get(name)?.add(listener);
    return () => { this.#byName.get(name)?.delete(listener); };
  }

  /** @param {string} name @param {Record<string, unknown>} details */
  emit(name, details) {
    const status = { ...details, name };
    let isHeard = false;
    for (const key of [name, "status"]) {
      for (const listener of this.#byName.get(key) ?? []) {
        isHeard = true;
        guarded(() => listener(status));
      }
    }
    if (!isHeard && MISSING.has(name)) this.#tell(status);
  }

  /** @param {any} status */
  #tell({ name, subject, reason }) {
    if (this.#told.has(subject)) return;
    this.#told.add(subject);
    console.warn(`realtime: nothing comes of ${subject}: ${MISSING.get(name)} (${reason}). Give connect() an onStatus, or use client.on("${name}", …), to handle this.`);
  }
}

/** A fault of a handler is reported and stops nobody else; that of an asynchronous one as well, which in Node would end the process. @param {() => any} action */
function guarded(action) {
  try {
    const result = action();
    if (typeof result?.then === "function") result.then(undefined, report);
  } catch (error) {
    report(error);
  }
}

/** @param {unknown} error */
function report(error) {
  if (globalThis.reportError) globalThis.reportError(error);
  else console.error(error);
}
return { Listeners, guarded };
})();

const $session_wanted = (() => { // client/session/wanted.js
/**
 * What a client is subscribed to, over all its connections: subjects and patterns, and who hears of which. No I/O.
 *
 * A name may have several owners; a subject is heard by its own and by those of the patterns over it.
 */

/** Half of what a server takes; fewer where the command would pass what it takes as one frame. */
const SUBJECTS_PER_COMMAND = 500;
/** Fewer, likewise. */
const POSITIONS_PER_PATTERN = 2000;

/** First segments that a wildcard does not stand for. */
const RESERVED = ["__sys__", "__mqtt__", "user"];

/** Where somebody is who has read nothing of what he was promised. @type {Position} */
const NOTHING = [0, 0];

/** @typedef {[epoch: number, seq: number]} Position */
/**
 * One subject. While it is `lagging` gaps are no fault (5.3); while it is `refused` it waits for a right, and it was asked
 * for again `retries` times.
 *
 * `owners` are those who are led in, and hear of it when it has `begun`: they subscribed to the subject itself, or joined
 * a pattern (`joined`) that had found it. One after the other: who comes meanwhile is `waiting`, and who is level with
 * all others is `settled`. Without any of them, patterns found it. `held`: the server has it as a subscription of its
 * own, though nobody wants it by its name. `wishes` are the intervals, and what to do while the client does not keep up,
 * of those who subscribed to the subject itself: what serves all of them is asked for.
 *
 * `position` is the last that was read; while `stored` messages are still to come it lags behind `target`, where live
 * messages begin, so that a connection lost between them misses nothing. They are `private` where others follow the
 * subject already: the new owners alone get them, from `since` on. `own` is the last that they read, while it is another
 * than the others': a connection that is lost then is followed by one that goes on from the lower of the two, and each
 * hears what it has not read. Owners who had read nothing are `owed` the beginning: it is asked for when the others have
 * gone on.
 * @typedef {{subject: string, owners: any[], joined: boolean, settled: any[], waiting: Newcomer[], wishes: Map<any, Wish>, history: number, conflation: number, slow: string, since: Position | null,
 *   position: Position | null, held: boolean, begun: boolean, private: boolean, own: Position | null, owed: boolean,
 *   asked: number, live: boolean, lagging: boolean, sid: number, epoch: number, interval: number, stored: number,
 *   target: Position | null, refused: boolean, retries: number, hearers: any[], hearersAt: number}} Wanted
 */
/**
 * A pattern, which has the name `subject` on the wire, and its owners with what each wishes. When it `resumes`, the subjects that the client does not know came
 * to be while it was away (3.8).
 * @typedef {{subject: string, wishes: Map<any, Wish>, history: number, conflation: number, slow: string, resumes: boolean,
 *   order: number, asked: number, live: boolean, retries: number, rights: string}} Pattern
 */
/**
 * Where a pattern has its wildcards: all of one shape that cover a subject are the one with its segments there. `length`
 * is that of the subject, or what it has more than where the end `isOpen`.
 * @typedef {{length: number, isOpen: boolean, literals: number[], patterns: Map<string, Pattern>}} Shape
 */
/** @typedef {{wanted: (Wanted | Pattern)[], history: number, conflation: number, slow: string, since: Record<string, Position>}} Request */
/** @typedef {{history: number, conflation: number, slow: string, since: Record<string, Position>}} Options */
/** @typedef {{byOwner: boolean, byOthers: boolean}} Readers */
/** An interval in ms, and what to do while the client does not keep up. @typedef {{conflation: number, slow: string}} Wish */
/** Those who are led in together; `joined`: by a pattern that had found the subject. @typedef {{owners: any[], history: number, since: Position | null, joined: boolean}} Newcomer */

class WantedList {
  /** @type {Map<string, Wanted>} that were asked for, and that patterns have found */
  subjects = new Map();
  /** @type {Map<string, Pattern>} */
  patterns = new Map();
  /** @type {Map<string, Shape>} the patterns once more, by how they look */
  #shapes = new Map();
  #changes = 0;

  /** What stands under a name. @param {string} name @returns {Wanted | Pattern | undefined} */
  get(name) {
    return this.patterns.get(name) ?? this.subjects.get(name);
  }

  /** An owner wants a subject; `asks`: whether the server is to be asked. @param {string} subject @param {any} owner @param {Options} options @returns {{wanted: Wanted, asks: boolean}} */
  put(subject, owner, options) {
    this.#changes += 1;
    const { history, conflation, slow } = options;
    const since = sinceOf(options, subject);
    const old = this.subjects.get(subject);
    if (!old || (isOnly(old, owner) && this.over(subject).length === 0)) {
      const wanted = subscription(subject, [owner], { history, conflation, slow }, since);
      wanted.wishes.set(owner, { conflation, slow });
      this.subjects.set(subject, wanted);
      return { wanted, asks: true };
    }
    // All others go on as they do until the server has answered the new owner.
    leave(old, owner);
    old.wishes.set(owner, { conflation, slow });
    Object.assign(old, served(old.wishes));
    return { wanted: old, asks: leadIn(old, { owners: [owner], history, since, joined: false }) };
  }

  /** One more owner wants a pattern; the subjects to ask for, of what it had found, and whether itself anew. @param {Pattern} pattern @param {any} owner @param {Options} options @returns {{asked: Wanted[], isAnew: boolean}} */
  joinPattern(pattern, owner, options) {
    this.#changes += 1;
    const before = { ...pattern };
    const { history, conflation, slow } = options;
    pattern.wishes.set(owner, { conflation, slow });
    Object.assign(pattern, served(pattern.wishes));
    const found = [...this.subjects.values()].filter((one) => (one.live || one.position) && covers(pattern.subject, one.subject));
    const asked = found.filter((one) => {
      if (one.wishes.size === 0) Object.assign(one, { conflation: Math.min(one.conflation, conflation), slow: pattern.slow });
      if (one.wishes.has(owner)) return false;
      return leadIn(one, { owners: [owner], history, since: sinceOf(options, one.subject), joined: true });
    });
    return { asked, isAnew: pattern.conflation !== before.conflation || pattern.slow !== before.slow };
  }

  /** Let go of one of several owners; false when it is the last, who is let go of by `forget`. @param {Wanted | Pattern} wanted @param {any} owner */
  leave(wanted, owner) {
    const subject = isPattern(wanted.subject) ? null : /** @type {Wanted} */ (wanted);
    const joining = subject !== null && isJoining(subject);
    if (isOnly(wanted, owner) && !joining) return false;
    this.#changes += 1;
    if (wanted.wishes.delete(owner) && wanted.wishes.size > 0) Object.assign(wanted, served(wanted.wishes));
    if (!subject) this.#unjoin(/** @type {Pattern} */ (wanted), owner);
    else {
      subject.held ||= joining;
      leave(subject, owner);
    }
    return true;
  }

  /** @param {Pattern} pattern @param {any} owner */
  #unjoin(pattern, owner) {
    for (const one of this.subjects.values()) {
      if (!one.wishes.has(owner) && covers(pattern.subject, one.subject)) leave(one, owner);
    }
  }

  /** Lead in who is waiting, when it is its turn. @param {Wanted} wanted @returns {boolean} whether the server is to be asked */
  next(wanted) {
    if (wanted.waiting.length === 0 || !isLevel(wanted)) return false;
    this.#changes += 1;
    const [first] = wanted.waiting;
    const alike = wanted.waiting.filter((one) => beginsAs(one, first));
    wanted.waiting = wanted.waiting.filter((one) => !alike.includes(one));
    return leadIn(wanted, { ...first, owners: alike.flatMap((one) => one.owners) });
  }

  /** An owner wants a pattern that nobody had; of some subjects it may know where they were read to. @param {string} name @param {any} owner @param {Options} options @returns {Pattern} */
  putPattern(name, owner, { history, conflation, slow, since }) {
    this.#changes += 1;
    const resumes = Object.hasOwn(since, name);
    const order = this.#changes;
    const wishes = new Map([[owner, { conflation, slow }]]);
    const pattern = { subject: name, wishes, history, conflation, slow, resumes, order, asked: 0, live: false, retries: 0, rights: "" };
    this.patterns.set(name, pattern);
    const { id, shape, literals } = shapeOf(name);
    if (!this.#shapes.has(id)) this.#shapes.set(id, shape);
    this.#shapes.get(id)?.patterns.set(literals, pattern);
    for (const [subject, position] of Object.entries(since)) {
      if (!isPattern(subject) && covers(name, subject)) this.find(subject, { position });
    }
    return pattern;
  }

  /** The subject, which a pattern may have found just now; undefined if it is not wanted. @param {string} subject @param {{position?: Position | null, held?: boolean}} [how] */
  find(subject, { position = null, held = false } = {}) {
    const known = this.subjects.get(subject);
    const [by] = known ? [] : this.over(subject);
    if (!by) return known;
    const wanted = subscription(subject, [], { history: 0, conflation: by.conflation, slow: by.slow }, position);
    wanted.held = held;
    this.subjects.set(subject, wanted);
    return wanted;
  }

  /** The patterns that cover a subject, the oldest first; one look for each shape, however many they are. @param {string} subject @returns {Pattern[]} */
  over(subject) {
    const segments = subject.split("/").slice(1);
    /** @type {Pattern[]} */
    const found = [];
    for (const { length, isOpen, literals, patterns } of this.#shapes.values()) {
      if (isOpen ? segments.length <= length : segments.length !== length) continue;
      if (RESERVED.includes(segments[0]) && literals[0] !== 0) continue;
      const pattern = patterns.get(literals.map((at) => segments[at]).join("/"));
      if (pattern) found.push(pattern);
    }
    return found.sort((one, other) => one.order - other.order);
  }

  /** Whether it is still what stands under its name. @param {Wanted | Pattern} wanted */
  has(wanted) {
    return this.get(wanted.subject) === wanted;
  }

  /** None of its owners wants it any more. @param {Wanted | Pattern} wanted @returns {Wanted[]} the subjects of which nobody hears now */
  forget(wanted) {
    this.#changes += 1;
    /** @type {Wanted[]} */
    let left;
    if (isPattern(wanted.subject)) {
      for (const owner of wanted.wishes.keys()) this.#unjoin(/** @type {Pattern} */ (wanted), owner);
      this.patterns.delete(wanted.subject);
      const { id, literals } = shapeOf(wanted.subject);
      const patterns = this.#shapes.get(id)?.patterns;
      patterns?.delete(literals);
      if (patterns?.size === 0) this.#shapes.delete(id);
      left = [...this.subjects.values()].filter((one) => one.wishes.size === 0 && covers(wanted.subject, one.subject));
    } else {
      for (const owner of wanted.wishes.keys()) leave(/** @type {Wanted} */ (wanted), owner);
      wanted.wishes.clear();
      left = [/** @type {Wanted} */ (wanted)];
    }
    const gone = left.filter((one) => !(one.live || one.position) || this.over(one.subject).length === 0);
    for (const one of gone) this.subjects.delete(one.subject);
    return gone;
  }

  /** The connection is gone: nothing is live, and what was not read yet has not been found. */
  lose() {
    for (const pattern of this.patterns.values()) Object.assign(pattern, { live: false, retries: 0, rights: "" });
    for (const wanted of this.subjects.values()) {
      interrupt(wanted);
      Object.assign(wanted, { live: false, lagging: false, held: false, refused: false, retries: 0, sid: -1, hearersAt: -1 });
      join(wanted);
      if (wanted.wishes.size === 0 && !wanted.position) this.subjects.delete(wanted.subject);
    }
  }

  /** Who gets a message of the subject, which the owner or the others or all have not read. @param {Wanted} wanted @param {Readers} by @returns {any[]} */
  hearers(wanted, { byOwner, byOthers }) {
    if (!byOthers) return byOwner && !wanted.owed ? wanted.owners : [];
    if (!byOwner) return this.hearers(wanted, { byOwner: true, byOthers }).filter((owner) => !wanted.owners.includes(owner));
    if (wanted.hearersAt !== this.#changes) {
      wanted.hearers = [...this.#hearers(wanted)];
      wanted.hearersAt = this.#changes;
    }
    return wanted.hearers;
  }

  /** @param {Wanted} wanted @returns {Set<any>} */
  #hearers(wanted) {
    const { settled, owners, begun, joined, waiting } = wanted;
    const all = new Set([...settled, ...(begun && !joined ? owners : [])]);
    for (const pattern of this.over(wanted.subject)) for (const owner of pattern.wishes.keys()) all.add(owner);
    // Who joined a pattern hears of what it had found when he has been led in.
    const later = waiting.filter((one) => one.joined).flatMap((one) => one.owners);
    for (const owner of joined && !begun ? [...later, ...owners] : later) all.delete(owner);
    return all;
  }

  /** How to ask for patterns: each with the subjects that are to be asked for before it by name, because they are too many. @param {Pattern[]} patterns @param {(frame: any) => boolean} fits whether the server takes a command of that size @returns {{request: Request, more: Wanted[]}[]} */
  resumptions(patterns, fits) {
    /** @type {Map<Pattern, Wanted[]>} */
    const found = new Map(patterns.map((pattern) => [pattern, []]));
    for (const wanted of found.size > 0 ? this.subjects.values() : []) {
      if (wanted.position && !isPlain(wanted)) found.get(this.over(wanted.subject)[0])?.push(wanted);
    }
    return [...found].map(([pattern, subjects]) => {
      let count = Math.min(subjects.length, POSITIONS_PER_PATTERN);
      let request = resumption(pattern, subjects.slice(0, count));
      while (count > 0 && !fits(subscribeOf(request))) {
        count = Math.floor(count / 2);
        request = resumption(pattern, subjects.slice(0, count));
      }
      const more = subjects.slice(count);
      for (const wanted of more) wanted.held = true;
      return { request, more };
    });
  }
}

/** The command of a request. @param {Request} request */
function subscribeOf({ wanted, history, conflation, slow, since }) {
  return { op: "subscribe", subjects: wanted.map((each) => each.subject), history, conflation, slow, since };
}

/** How to ask for a pattern, with where these subjects were read to. @param {Pattern} pattern @param {Wanted[]} subjects @returns {Request} */
function resumption(pattern, subjects) {
  const { history, conflation, slow, resumes } = pattern;
  /** @type {Record<string, Position>} */
  const since = resumes ? { [pattern.subject]: [0, 0] } : {};
  for (const wanted of subjects) since[wanted.subject] = /** @type {Position} */ (wanted.position);
  return { wanted: [pattern], history: resumes ? 0 : history, conflation, slow, since };
}

/** Members in runs, each for one command. @template T @param {T[]} members @param {(some: T[]) => boolean} fits @returns {T[][]} */
function runs(members, fits) {
  const found = [];
  for (let start = 0; start < members.length;) {
    let count = SUBJECTS_PER_COMMAND;
    while (count > 1 && !fits(members.slice(start, start + count))) count = Math.floor(count / 2);
    found.push(members.slice(start, start + count));
    start += count;
  }
  return found;
}

/** How to ask for subjects: those with the same options share a command. @param {Iterable<Wanted>} subscriptions @param {(frame: any) => boolean} fits whether the server takes a command of that size @returns {Request[]} */
function requests(subscriptions, fits) {
  /** @type {Map<string, Wanted[]>} */
  const groups = new Map();
  for (const wanted of subscriptions) {
    // Whoever knows a position gets what follows it, not the history before it once more.
    const key = JSON.stringify([after(wanted) ? 0 : wanted.history, wanted.conflation, wanted.slow]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key)?.push(wanted);
  }
  /** @type {Request[]} */
  const found = [];
  for (const [key, members] of groups) {
    const [history, conflation, slow] = JSON.parse(key);
    const request = (/** @type {Wanted[]} */ some) => {
      const since = Object.fromEntries(some.filter(after).map((wanted) => [wanted.subject, after(wanted)]));
      return { wanted: some, history, conflation, slow, since: /** @type {any} */ (since) };
    };
    found.push(...runs(members, (some) => fits(subscribeOf(request(some)))).map(request));
  }
  return found;
}

/** Where to go on from; null: from the beginning, as it was asked for. @param {Wanted} wanted */
function after(wanted) {
  return wanted.live ? wanted.since : lastOf(wanted);
}

/** What everybody who follows it has read. @param {Wanted} wanted @returns {Position | null} */
function lastOf({ own, position }) {
  return own && position && isBefore(own, position) ? own : position;
}

/** Positions are ordered by epoch, then by number. @param {Position} one @param {Position} other */
function isBefore(one, other) {
  return one[0] < other[0] || (one[0] === other[0] && one[1] < other[1]);
}

/** @param {Position} one @param {Position} other */
function later(one, other) {
  return isBefore(one, other) ? other : one;
}

/** Where the owner is, if that is another place than the others'. @param {Position | null} own @param {Position | null} others */
function apart(own, others) {
  return own && others && own[0] === others[0] && own[1] === others[1] ? null : own;
}

/** Whether it is asked for by its own name, not by a pattern's. @param {Wanted} wanted */
function isPlain(wanted) {
  return wanted.owners.length > 0 || wanted.settled.length > 0 || wanted.held;
}

/** Whether nobody is being led in: all who hear of it have read the same. @param {Wanted} wanted */
function isLevel({ owners, begun, own, owed, live, stored }) {
  return owners.length === 0 || (begun && !own && !owed && !(live && stored));
}

/** Whether somebody is led in who joined a pattern: the server is to have it by its name. @param {Wanted} wanted */
function isJoining({ owners, joined, waiting }) {
  return (owners.length > 0 && joined) || waiting.some((one) => one.joined);
}

/** Whether nobody else subscribed to it. @param {Wanted | Pattern} wanted @param {any} owner */
function isOnly({ wishes }, owner) {
  return wishes.size === 0 || (wishes.size === 1 && wishes.has(owner));
}

/** Where an owner says that a subject was read to. @param {Options} options @param {string} subject */
function sinceOf({ since }, subject) {
  return Object.hasOwn(since, subject) ? since[subject] : null;
}

/** What serves all of them: the shortest interval, and a queue where one of them wants each message. @param {Map<any, Wish>} wishes @returns {Wish} */
function served(wishes) {
  const all = [...wishes.values()];
  const slow = all.some((one) => one.slow === "close") ? "close" : "conflate";
  return { conflation: Math.min(...all.map((one) => one.conflation)), slow };
}

/** Whether both begin with the same. @param {{history: number, since: Position | null, joined: boolean}} one @param {{history: number, since: Position | null, joined: boolean}} other */
function beginsAs(one, other) {
  const isSame = one.since === other.since || (one.since && other.since && apart(one.since, other.since) === null);
  return one.history === other.history && one.joined === other.joined && Boolean(isSame);
}

/** Lead somebody in, now or in turn. @param {Wanted} wanted @param {Newcomer} newcomer @returns {boolean} whether the server is to be asked */
function leadIn(wanted, newcomer) {
  const { owners, begun, live, position } = wanted;
  const isUnread = !begun && !live && !wanted.private && !position;
  if (owners.length > 0 && isUnread && beginsAs(wanted, newcomer)) {
    owners.push(...newcomer.owners);
    return wanted.refused; // it says again what is missing
  }
  if (!isLevel(wanted)) {
    wanted.waiting.push(newcomer);
    return false;
  }
  settle(wanted);
  // While nothing comes, the others go on first: what the newcomer begins with is asked for when they have.
  const owed = !live && !newcomer.since && position !== null;
  Object.assign(wanted, newcomer, { begun: false, own: null, owed });
  if (!live) join(wanted);
  return true;
}

/** Those who were led in are level with all others. @param {Wanted} wanted */
function settle(wanted) {
  if (wanted.owners.length > 0 && wanted.joined) wanted.held ||= wanted.live;
  else wanted.settled.push(...wanted.owners);
  wanted.owners = [];
}

/** Let go of somebody, wherever he is. @param {Wanted} wanted @param {any} owner */
function leave(wanted, owner) {
  const isLed = wanted.owners.includes(owner);
  const others = (/** @type {any[]} */ all) => all.filter((one) => one !== owner);
  wanted.owners = others(wanted.owners);
  wanted.settled = others(wanted.settled);
  wanted.waiting = wanted.waiting.map((one) => ({ ...one, owners: others(one.owners) })).filter((one) => one.owners.length > 0);
  if (!isLed || wanted.owners.length > 0) return;
  // What was on its way to those alone is nobody's.
  Object.assign(wanted, { held: wanted.held || (wanted.joined && wanted.live), own: null, owed: false });
}

/** The server has begun it. @param {Wanted} wanted @param {any} result @param {{isOwn: boolean, isAsked: boolean}} how as it was asked for by its name; it was asked for just now */
function begin(wanted, result, { isOwn, isAsked }) {
  const isOn = goesOn(wanted, result);
  const isRecovered = result.recovery === "recovered";
  if (isAsked || !isOwn) wanted.private = isAsked && wanted.live;
  wanted.owed &&= !isOwn || isRecovered;
  if (isAsked && wanted.live) wanted.own = wanted.since ?? (isRecovered ? wanted.position : null) ?? NOTHING;
  else if (!isOn && !wanted.private) wanted.own = null;
  if (isRecovered && !wanted.position && !wanted.private && !result.conflation && result.seq !== undefined) {
    // A pattern that came back has found it: all of it follows.
    wanted.position = [result.epoch ?? 0, result.seq - (result.messages ?? 0)];
  }
  const last = isOn ? (wanted.private ? wanted.position : lastOf(wanted)) : null;
  wanted.begun ||= isOwn && !wanted.owed;
  Object.assign(wanted, { sid: result.sid, live: true, lagging: false, refused: false, retries: 0, hearersAt: -1 });
  wanted.epoch = result.epoch ?? 0;
  wanted.interval = result.conflation ?? 0;
  // Longer than what was asked for is what the subject's options want (features.md C7), as long as they do.
  wanted.conflation = Math.min(wanted.conflation, wanted.interval);
  wanted.target = result.seq === undefined ? null : [wanted.epoch, result.seq];
  wanted.stored = result.messages ?? 0;
  if (last && wanted.target) {
    const follow = isRecovered && !wanted.private ? wanted.stored : 0;
    wanted.target[1] = Math.min(wanted.target[1], last[1] + follow);
  }
  if (!wanted.stored) storedOver(wanted);
}

/**
 * Whether somebody follows on from what was read, who is told of what is missing: the answer may stand behind messages
 * that a right took away with its end (4.7).
 * @param {Wanted} wanted @param {any} result
 */
function goesOn({ live, interval, lagging }, { recovery, messages }) {
  if (recovery || !live) return recovery === "recovered";
  return !messages || !(interval || lagging);
}

/** A message with a number is read: by the owner, by the others? @param {Wanted} wanted @param {number} seq @param {{isAnew: boolean}} how whatever they have read before @returns {Readers} */
function read(wanted, seq, { isAnew }) {
  /** @type {Position} */
  const at = [wanted.epoch, seq];
  const others = wanted.position;
  const own = wanted.own ?? others;
  const byOwner = isAnew || !own || isBefore(own, at);
  const byOthers = !wanted.private && (isAnew || !others || isBefore(others, at));
  if (byOthers) wanted.position = at;
  wanted.own = apart(byOwner ? at : own, wanted.position);
  return { byOwner, byOthers };
}

/** All stored messages have come: live ones begin. @param {Wanted} wanted */
function storedOver(wanted) {
  const { own, position, target } = wanted;
  Object.assign(wanted, { stored: 0, private: false, target: null });
  if (!target) return;
  wanted.position = own && position ? later(position, target) : target;
  wanted.own = own && apart(later(own, target), wanted.position);
}

/** What is still to come of stored messages will not. @param {Wanted} wanted */
function interrupt(wanted) {
  const { own, position } = wanted;
  if (own === NOTHING) {
    const owed = position !== null;
    Object.assign(wanted, { own: null, owed, begun: !owed });
  } else if (!position) {
    Object.assign(wanted, { position: own, own: null });
  }
  wanted.private = false;
}

/** A new owner whom the server has not answered goes on from `since`, with the others or apart from them. @param {Wanted} wanted */
function join(wanted) {
  const { owners, begun, since } = wanted;
  if (owners.length === 0 || begun || !since) return;
  wanted.position ??= since;
  wanted.own = apart(since, wanted.position);
}

/** @param {string} subject @param {any[]} owners @param {{history: number, conflation: number, slow: string}} options @param {Position | null} since @returns {Wanted} */
function subscription(subject, owners, { history, conflation, slow }, since) {
  return {
    subject, owners, joined: false, settled: [], waiting: [], wishes: new Map(), history, conflation, slow, since,
    position: since, held: false, begun: false, private: false,
    own: null, owed: false, asked: 0, live: false, lagging: false, sid: -1, epoch: 0, interval: 0, stored: 0, target: null,
    refused: false, retries: 0, hearers: [], hearersAt: -1,
  };
}

/** The shape of a pattern, a name for it, and the segments that are no wildcards. @param {string} pattern @returns {{id: string, shape: Shape, literals: string}} */
function shapeOf(pattern) {
  const segments = pattern.split("/").slice(1);
  const isOpen = segments.at(-1) === "**";
  if (isOpen) segments.pop();
  const literals = [...segments.keys()].filter((at) => segments[at] !== "*");
  const shape = { length: segments.length, isOpen, literals, patterns: new Map() };
  return { id: `${isOpen} ${segments.length} ${literals}`, shape, literals: literals.map((at) => segments[at]).join("/") };
}

/** Whether a text is meant as a pattern: a segment of it is a wildcard. @param {string} text */
function isPattern(text) {
  return text.includes("*") && text.split("/").some((segment) => segment === "*" || segment === "**");
}

/** Whether a pattern covers a subject (2.3, 3.8). @param {string} pattern @param {string} subject */
function covers(pattern, subject) {
  const wanted = pattern.split("/").slice(1);
  let given = subject.split("/").slice(1);
  if (RESERVED.includes(given[0]) && wanted[0] !== given[0]) return false;
  if (wanted.at(-1) === "**") {
    wanted.pop();
    if (given.length <= wanted.length) return false;
    given = given.slice(0, wanted.length);
  }
  return wanted.length === given.length && wanted.every((segment, at) => segment === "*" || segment === given[at]);
}

/** Whether the subject is one of these names, or a pattern among them covers it. @param {string} subject @param {string[]} names */
function isCovered(subject, names) {
  return names.some((name) => name === subject || (isPattern(name) && covers(name, subject)));
}
return { NOTHING, WantedList, subscribeOf, runs, requests, lastOf, isPlain, isOnly, begin, read, storedOver, interrupt, isPattern, covers, isCovered };
})();

const $session_requests = (() => { // client/session/requests.js
/** Requests of the program and their replies; handlers that answer the requests of others (docs/reference/protocol.md 3.11 to 3.13). */

const { checkName } = $session_arguments;
const { RealtimeError } = $session_errors;
const { guarded } = $session_listeners;
const { isCovered } = $session_wanted;

const ERROR_CHARS_MAX = 64;
const REASON_CHARS_MAX = 1024;

/**
 * @typedef {{send: (frame: any) => number, respond: (patterns: string[]) => number | null, reply: (frame: any) => void,
 *   answer: (id: number) => Promise<any>}} Way to the server
 */

class Requests {
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
return { Requests };
})();

const $connection_memory = (() => { // client/connection/memory.js
/** What a client remembers of transports from page to page: in `localStorage` where there is one, else in the process. */

const KEY = "fastpath.transports";
const ADDRESSES_MAX = 16;

/** @typedef {Remembered} Remembered */

/** @type {Record<string, Remembered>} */
let here = {};

/** Times of the ladder are those of `performance.now()`, which each page counts from its own beginning. */
const memory = {
  /** @param {string} url @returns {Remembered | null} */
  load(url) {
    const found = all()[url];
    const isSound = typeof found?.transport === "string" && found.until >= 0 && found.tries >= 0;
    return isSound ? { ...found, until: found.until - Date.now() + performance.now() } : null;
  },

  /** @param {string} url @param {Remembered | null} remembered null forgets it */
  save(url, remembered) {
    const { [url]: _, ...others } = all();
    const kept = Object.entries(others).slice(1 - ADDRESSES_MAX);
    if (remembered) kept.push([url, { ...remembered, until: remembered.until - performance.now() + Date.now() }]);
    here = Object.fromEntries(kept);
    try {
      storage()?.setItem(KEY, JSON.stringify(here));
    } catch {
      // It is full, or forbidden: the page remembers it.
    }
  },
};

/** @returns {Record<string, any>} times of `Date.now()` */
function all() {
  try {
    const text = storage()?.getItem(KEY);
    return text ? { ...JSON.parse(text) } : here;
  } catch {
    return here;
  }
}

/** A page's; Node warns of its own. */
function storage() {
  return globalThis.document ? globalThis.localStorage : null;
}
return { memory };
})();

const $connection_page = (() => { // client/connection/page.js
/** What the page around the client goes through: its user comes back to it, the network is another, it is kept for "Back". */

/** @typedef {{returned: () => void, online: () => void, hidden: () => void, shown: () => void}} Hearer */

class Page {
  /** @type {[EventTarget, string, (event: any) => void][]} */
  #heard;

  /** @param {Hearer} hear `hidden`: the page goes to where "Back" finds it, and no connection may go with it; `shown`: it is back */
  constructor(hear) {
    const { document } = globalThis;
    const isVisible = () => document.visibilityState !== "hidden";
    this.#heard = [
      [globalThis, "online", () => hear.online()],
      [globalThis, "focus", () => hear.returned()],
      [globalThis, "pagehide", ({ persisted }) => { if (persisted) hear.hidden(); }],
      [globalThis, "pageshow", ({ persisted }) => { if (persisted) hear.shown(); }],
      [document, "visibilitychange", () => { if (isVisible()) hear.returned(); }],
      [document, "resume", () => hear.returned()],
    ];
    // Node has neither, and a worker no document.
    this.#heard = this.#heard.filter(([target]) => typeof target?.addEventListener === "function");
    for (const [target, name, listener] of this.#heard) target.addEventListener(name, listener);
  }

  /** Hear nothing more. */
  stop() {
    for (const [target, name, listener] of this.#heard) target.removeEventListener(name, listener);
  }
}
return { Page };
})();

const $connection_ladder = (() => { // client/connection/ladder.js
/**
 * Which transport a client tries at an address: the first that works, from the fastest down. No I/O, no clock: times are in ms.
 *
 * A rung is blamed only when a lower one then works: where nothing answers at all the server is away, and the next round
 * begins where this one did. What worked is remembered for the address, and the rungs above it are tried again later.
 * The Python client has the same rules (fastpath/client/subscriber/transports/ladder.py); tests/behaviours/transports.json
 * holds both to them.
 */

const TRANSPORTS = ["websocket", "stream", "poll"];

const UP_MS_MAX = 3_600_000; // between two tries upwards, whatever came of those before

/** So many abnormal ends in a row, the last before the server's first frame. */
const ENDS_BEFORE = 2;
/** So many abnormal ends in a row, each soon after the connection stood. */
const ENDS_AFTER = 3;

const TOO_BIG = 1009;
const PING_TIMEOUT = 4002;
const HANDSHAKE_TIMEOUT = 4003;

/**
 * How an attempt ended before the server's first frame. `unreachable`: nobody is there. `unanswered`: it did not open in
 * time. `refused`: something answers, but not as this transport asks. `silent`: it opened, and no frame came in time.
 * `closed`: it opened and was closed.
 * @typedef {"unreachable" | "unanswered" | "refused" | "silent" | "closed"} Failure
 *
 * What a transport tells (`Hearer`), and what it is told.
 * @typedef {{opened: (form: "json" | "msgpack") => void, refused: (reason: string, how: Failure) => void,
 *   received: (data: any) => void, closed: (code: number, reason: string) => void}} Hearer
 * @typedef {{send: (data: any) => void, drop: () => void}} Transport
 *
 * @typedef {{transport: string, until: number, tries: number}} Remembered
 * @typedef {{load: (url: string) => Remembered | null, save: (url: string, remembered: Remembered | null) => void}} Memory
 */

class Ladder {
  /** when a rung above is to be tried while the connection stands */
  probeAt = Infinity;
  #transports;
  #memory;
  #upMs;
  #steadyMs;
  #url = "";
  #index = 0;
  #stoodAt = 0;
  #probed = 0; // the rung that is tried from below
  /** @type {{code: number, reason: string} | null} what the first rung of this attempt came to */
  #first = null;
  #ends = { url: "", index: 0, count: 0 };

  /** @param {{transports: string[], stepUpSeconds: number, steadySeconds: number}} options @param {Memory} memory */
  constructor({ transports, stepUpSeconds, steadySeconds }, memory) {
    this.#transports = TRANSPORTS.filter((name) => transports.includes(name));
    this.#memory = memory;
    this.#upMs = 1000 * stepUpSeconds;
    this.#steadyMs = 1000 * steadySeconds;
  }

  /** The transport that is tried, or carries the connection. */
  get transport() {
    return this.#transports[this.#index];
  }

  /** Whether there is one below it. */
  get hasLower() {
    return this.#index + 1 < this.#transports.length;
  }

  /** An address is tried. @param {number} now @param {string} url */
  begin(now, url) {
    const { index, until } = this.#recall(url);
    this.#url = url;
    this.#index = index > 0 && now < until ? index : 0;
    this.#first = null;
    const ends = this.#ends;
    if (ends.url === url && ends.index === this.#index && ends.count >= ENDS_AFTER && this.hasLower) this.#index += 1;
  }

  /** It came to nothing. @param {Failure} how @param {number} code @param {string} reason @param {boolean} hasMore whether another server is left to try @returns {boolean} whether the address is to be tried again at once, by the next transport */
  failed(how, code, reason, hasMore) {
    const isAbnormal = how !== "closed" || isNetworks(code);
    if (isAbnormal) this.#first ??= { code, reason };
    else this.#first = { code, reason };
    if (how === "unreachable" || !isAbnormal) return false;
    // It may be a server that hangs: where there is another this one is passed over.
    if (how === "unanswered" && hasMore) return false;
    if (how === "closed" && this.#ended() < ENDS_BEFORE) return false;
    if (this.hasLower) {
      this.#index += 1;
      return true;
    }
    // Neither what was remembered nor anything below it: the next attempt begins at the top.
    this.#memory.save(this.#url, null);
    this.#ends.count = 0;
    return false;
  }

  /** Why the address has failed: what its first rung came to, or what the server said. */
  get why() {
    return this.#first ?? { code: 1006, reason: "" };
  }

  /** The server has answered. @param {number} now */
  stood(now) {
    this.#stoodAt = now;
    if (this.#ends.url !== this.#url || this.#ends.index !== this.#index) this.#ends = { url: "", index: 0, count: 0 };
    const { index, until, tries } = this.#recall(this.#url);
    if (this.#index === 0) {
      if (index > 0) this.#memory.save(this.#url, null);
      this.probeAt = Infinity;
    } else if (index === this.#index && now < until) this.probeAt = until;
    else this.#remember(now, index > 0 ? tries + 1 : 0);
  }

  /** The connection that stood was lost. @param {number} now @param {number} code */
  lost(now, code) {
    if (isNetworks(code) && code !== TOO_BIG && now - this.#stoodAt < this.#steadyMs) this.#ended();
    else this.#ends.count = 0;
  }

  /** `probeAt` has come. @returns {string} the transport to try beside the connection */
  probe() {
    this.probeAt = Infinity;
    return this.#transports[this.#probed];
  }

  /** What came of it. @param {number} now @param {string} transport @param {boolean} works @returns {boolean} whether to leave the connection for it */
  probed(now, transport, works) {
    const index = this.#transports.indexOf(transport);
    if (index >= this.#index) return false; // it is in use meanwhile
    this.#probed = works || index + 1 >= this.#index ? 0 : index + 1;
    if (works) {
      this.#ends.count = 0;
      this.#memory.save(this.#url, index === 0 ? null
        : { transport: this.#transports[index], until: now + this.#upMs, tries: 0 });
      return true;
    }
    if (this.#probed > 0) this.probeAt = now;
    else this.#remember(now, this.#recall(this.#url).tries + 1);
    return false;
  }

  /** There is no connection any more. */
  stop() {
    this.#probed = 0;
    this.probeAt = Infinity;
  }

  /** The network is another: what was learnt of the last one is void. @param {number} now @param {boolean} stands whether a connection does */
  changed(now, stands) {
    this.#ends.count = 0;
    this.#memory.save(this.#url, null);
    if (stands && this.#index > 0) {
      this.#probed = 0;
      this.probeAt = now;
    }
  }

  /** @param {number} now @param {number} tries upwards, that failed */
  #remember(now, tries) {
    const until = now + Math.min(this.#upMs * 2 ** Math.min(tries, 16), Math.max(this.#upMs, UP_MS_MAX));
    this.probeAt = until;
    this.#memory.save(this.#url, { transport: this.transport, until, tries });
  }

  /** @param {string} url */
  #recall(url) {
    const { transport = "", until = 0, tries = 0 } = this.#memory.load(url) ?? {};
    return { index: this.#transports.indexOf(transport), until, tries };
  }

  /** An abnormal end on this rung. @returns {number} how many in a row */
  #ended() {
    const { url, index, count } = this.#ends;
    const isSame = url === this.#url && index === this.#index;
    this.#ends = { url: this.#url, index: this.#index, count: isSame ? count + 1 : 1 };
    return this.#ends.count;
  }
}

/** Whether the network, and not the server, may have ended a connection with that code. @param {number} code */
function isNetworks(code) {
  return code < 4000 || code === PING_TIMEOUT || code === HANDSHAKE_TIMEOUT;
}
return { TRANSPORTS, Ladder };
})();

const $connection_servers = (() => { // client/connection/servers.js
/** Which server to try next: by chance and weight, away from those that have just failed. No I/O, no clock. */

const WEIGHT = 100;
const WEIGHT_MAX = 100;

/** @typedef {{url: string, weight: number}} Server */

class ServerList {
  /** @type {Server[]} */
  #servers;
  /** @type {Set<string>} did not answer in this round */
  #failed = new Set();
  /** @type {Set<string>} had a connection that ended */
  #avoided = new Set();

  /** @param {Server[]} servers */
  constructor(servers) {
    this.#servers = servers;
  }

  /** The list as it is now. @param {Server[]} servers */
  replace(servers) {
    this.#servers = servers;
  }

  /** Servers that one of them told of: known ones get the weight, others are added. @param {Server[]} servers */
  add(servers) {
    const told = new Map(servers.map((server) => [server.url, server]));
    const known = this.#servers.map((server) => told.get(server.url) ?? server);
    const urls = new Set(known.map((server) => server.url));
    this.#servers = [...known, ...servers.filter((server) => !urls.has(server.url))];
  }

  /** A new round: all count again. */
  begin() {
    this.#failed.clear();
  }

  /** It does not answer; not again in this round. @param {string} url */
  fail(url) {
    this.#failed.add(url);
  }

  /** Its connection ended: others are preferred. @param {string} url @returns {boolean} whether a proper server (of a weight above 0) is left */
  avoid(url) {
    this.#avoided.add(url);
    const isLeft = this.#servers.some((server) => server.weight > 0 && !this.#avoided.has(server.url));
    // Otherwise each has been left once, and the last one is the worst choice still.
    if (!isLeft) this.#avoided = new Set([url]);
    return isLeft;
  }

  /** Whether another one has not failed in this round. @param {string} url */
  hasMore(url) {
    return this.#servers.some((server) => server.url !== url && !this.#failed.has(server.url));
  }

  /** Nothing is held against any server any more. */
  forgive() {
    this.#avoided.clear();
  }

  /** @param {() => number} draw from [0, 1) @returns {Server | null} null when each has failed in this round */
  pick(draw) {
    const left = this.#servers.filter((server) => !this.#failed.has(server.url));
    const avoided = (/** @type {Server} */ server) => this.#avoided.has(server.url);
    const proper = left.filter((server) => server.weight > 0);
    const last = left.filter((server) => server.weight === 0);
    const choices = [proper.filter((each) => !avoided(each)), proper, last.filter((each) => !avoided(each)), last];
    const choice = choices.find((some) => some.length > 0);
    return choice ? weighted(choice, draw) : null;
  }
}

/** @param {Server[]} choice not empty @param {() => number} draw */
function weighted(choice, draw) {
  if (choice.length === 1) return choice[0];
  // Those of weight 0 are alike.
  const weight = (/** @type {Server} */ server) => server.weight || 1;
  let rest = draw() * choice.reduce((sum, server) => sum + weight(server), 0);
  for (const server of choice) {
    rest -= weight(server);
    if (rest < 0) return server;
  }
  return choice[choice.length - 1];
}

/**
 * Addresses as a program gives them: one or several, each a text or `{url, weight}`.
 * @param {any} urls @returns {Server[]} Throws TypeError.
 */
function serversOf(urls) {
  return [urls ?? []].flat().map((each) => {
    const { url, weight = WEIGHT } = typeof each === "string" ? { url: each } : each;
    if (typeof url !== "string" || !(weight >= 0 && weight <= WEIGHT_MAX)) {
      throw new TypeError(`a server is an address or {url, weight: 0 to ${WEIGHT_MAX}}, not ${JSON.stringify(each)}`);
    }
    return { url, weight };
  });
}
return { ServerList, serversOf };
})();

const $connection_options = (() => { // client/connection/options.js
/** The options of a client with their defaults, checked. */

const { SUBPROTOCOLS } = $wire_codec;
const { checkText, checkToken } = $session_arguments;
const { TRANSPORTS } = $connection_ladder;
const { serversOf } = $connection_servers;

const PUBLISHER_CHARS_MAX = 256;

/** What a program may leave out; docs/develop/javascript.md says what each means. */
const DEFAULTS = {
  form: /** @type {"json" | "msgpack"} */ ("msgpack"),
  quickRetries: 3,
  quickSeconds: 5,
  backoffSeconds: 20,
  backoffSecondsMax: 360,
  steadySeconds: 60,
  downAfter: 1,
  reconnectsMax: 15,
  publishQueueMessages: 1000,
  publishQueueBytes: 1_048_576,
  publishSeconds: 60,
  tokenSeconds: 15,
  stepDownSeconds: 4,
  stepUpSeconds: 600,
  transports: TRANSPORTS,
};

/** @param {any} options as given to `connect()` @returns {any} with all defaults, and `servers`. Throws TypeError. */
function complete(options) {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const all = /** @type {any} */ ({ publisher: newPublisher(), WebSocket: globalThis.WebSocket, ...DEFAULTS, ...given });
  for (const [name, value] of Object.entries(DEFAULTS)) {
    if (typeof value === "number" && !(all[name] >= 0)) throw new TypeError(`${name} is a number of 0 or more`);
  }
  if (!Object.hasOwn(SUBPROTOCOLS, all.form)) throw new TypeError("form is \"json\" or \"msgpack\"");
  if (typeof all.token !== "function") checkToken(all.token ?? "");
  if (checkText("publisher", all.publisher).length > PUBLISHER_CHARS_MAX) throw new TypeError(`publisher has at most ${PUBLISHER_CHARS_MAX} characters`);
  const wished = [all.transports].flat();
  if (wished.length === 0 || wished.some((name) => !TRANSPORTS.includes(name))) {
    throw new TypeError(`transports are some of ${TRANSPORTS.join(", ")}`);
  }
  const transports = possible(wished, all.WebSocket);
  if (transports.length === 0) {
    throw new TypeError(`there are no means here for ${wished.join(", ")}: a WebSocket is in Node from 22 on, or pass one as the option WebSocket`);
  }
  const servers = serversOf(all.urls);
  if (servers.length === 0 && !all.serversUrl) {
    throw new TypeError("connect() needs urls: [\"ws://HOST:8800/ws\"], or a serversUrl");
  }
  return { ...all, transports, servers };
}

/** A name that nobody else has: numbers of publications count within it. */
function newPublisher() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Those of the wished transports that there are means for here. @param {string[]} wished @param {any} WebSocket */
function possible(wished, WebSocket) {
  const hasFetch = typeof globalThis.fetch === "function" && typeof globalThis.AbortSignal?.any === "function";
  const means = /** @type {Record<string, boolean>} */ ({
    websocket: Boolean(WebSocket), stream: hasFetch && typeof globalThis.ReadableStream === "function", poll: hasFetch,
  });
  return TRANSPORTS.filter((name) => wished.includes(name) && means[name]);
}
return { DEFAULTS, complete };
})();

const $wire_closing = (() => { // client/wire/closing.js
/** The close codes of a connection (docs/reference/protocol.md 7). */

/** @type {Record<number, string>} */
const NAMES = {
  4000: "drain", 4001: "slow_consumer", 4002: "ping_timeout", 4003: "handshake_timeout", 4004: "internal_error",
  4005: "not_ready", 4006: "overloaded", 4007: "token_expired", 4500: "bad_message", 4501: "bad_token",
  4502: "revoked", 4503: "denied", 4504: "bad_version", 4505: "too_many_errors", 4506: "closed_by_operator",
  4507: "idle",
};

const NORMAL = 1000;
const PROTOCOL_ERROR = 1002;
const ABNORMAL = 1006;
const TOO_BIG = 1009;
const DRAIN = 4000;
const PING_TIMEOUT = 4002;
const HANDSHAKE_TIMEOUT = 4003;
const TOKEN_EXPIRED = 4007;
const BAD_TOKEN = 4501;
const REVOKED = 4502;
const DENIED = 4503;

/** Whether the server asks not to come back. @param {number} code */
function isFinal(code) {
  return code >= 4500 && code <= 4999;
}

/** Whether it is the token that the server does not take. @param {number} code */
function isTokens(code) {
  return code === BAD_TOKEN || code === TOKEN_EXPIRED;
}

/** Whether it is for this user, or this token, that the server does not want us: another's may do. @param {number} code */
function isUsers(code) {
  return code === BAD_TOKEN || code === REVOKED || code === DENIED;
}

/** A word for a code; "unreachable" where no connection came about. @param {number} code @param {string} reason */
function nameOf(code, reason) {
  if (code === ABNORMAL) return reason ? "unreachable" : "lost";
  return NAMES[code] ?? (reason.split(":")[0] || "lost");
}
return { NORMAL, PROTOCOL_ERROR, ABNORMAL, TOO_BIG, DRAIN, PING_TIMEOUT, HANDSHAKE_TIMEOUT, TOKEN_EXPIRED, BAD_TOKEN, isFinal, isTokens, isUsers, nameOf };
})();

const $session_outgoing = (() => { // client/session/outgoing.js
/**
 * Publications that are not answered yet, in a bounded queue that outlives connections. No I/O, no clock.
 *
 * A guaranteed publication has a number that rises within this publisher, and goes again under the same number until it
 * is answered: the server stores it once. It gets the number when it is first sent, so that what has to wait again
 * under a new number (the server refused the old one) still comes before what was published after it.
 */

const { checkText, checkValues } = $session_arguments;
const { RealtimeError } = $session_errors;

/** How long nothing is sent after the server said "not now". */
const HOLD_MS = 500;

/**
 * `sent` since it was last `refused`, so that it may be stored; `onWire` on this connection; `doubt`: it was sent before
 * and nobody knows what came of that. `until` is the end of its time.
 * @typedef {{frame: any, ticket: any, bytes: number, number: number, sent: boolean, onWire: boolean, refused: boolean,
 *   doubt: boolean, until: number}} Publication
 */
/** @typedef {{ticket: any, frame: any, status: string, reason: string, epoch?: number, seq?: number}} Result */

class Outgoing {
  /** @type {Set<Publication>} in the order of the program */
  #queue = new Set();
  /** @type {Map<number, Publication>} by the id of the command, on this connection */
  #asked = new Map();
  #bytes = 0;
  #number = 0;
  #heldUntil = 0; // and until all that is on the wire is answered; 0: nothing is held
  #unsent = false;
  #options;

  /** @param {{publishQueueMessages: number, publishQueueBytes: number, publishSeconds: number}} options */
  constructor(options) {
    this.#options = options;
  }

  /** When something is to be done next, in ms. @param {boolean} connected */
  nextAt(connected) {
    if (this.#queue.size === 0) return Infinity;
    // All have the same time to live, so the first is the first to end.
    const [{ until }] = this.#queue;
    const isDue = connected && this.#unsent && !(this.#heldUntil && this.#asked.size > 0);
    return isDue ? Math.min(until, this.#heldUntil) : until;
  }

  /** @param {any} frame a publish command without id @param {any} ticket comes back in the result @param {number} now @returns {boolean} whether there is room. Throws TypeError, and RealtimeError for half a character. */
  add(frame, ticket, now) {
    const bytes = size(frame);
    const { publishQueueMessages, publishQueueBytes, publishSeconds } = this.#options;
    if (this.#queue.size >= publishQueueMessages || this.#bytes + bytes > publishQueueBytes) return false;
    this.#queue.add({
      frame, ticket, bytes, number: 0, sent: false, onWire: false, refused: false, doubt: false,
      until: now + 1000 * publishSeconds,
    });
    this.#bytes += bytes;
    this.#unsent = true;
    return true;
  }

  /** Send what waits, unless the server asked for patience. @param {number} now @param {(frame: any) => number} send returns the id of the command; throws RealtimeError for what the server takes no frame of @returns {Result[]} those */
  flush(now, send) {
    if (!this.#unsent || now < this.#heldUntil || (this.#heldUntil && this.#asked.size > 0)) return [];
    this.#unsent = false;
    this.#heldUntil = 0;
    const waiting = [...this.#queue].filter((each) => !each.onWire);
    // Those that went before keep their numbers, and go in the order of these.
    const again = waiting.filter((each) => each.number).sort((one, other) => one.number - other.number);
    return [...again, ...waiting.filter((each) => !each.number)].flatMap((each) => this.#send(each, send));
  }

  /** @param {Publication} each @param {(frame: any) => number} send @returns {Result[]} */
  #send(each, send) {
    const guaranteed = each.frame.qos !== "standard";
    if (guaranteed && !each.number) each.number = ++this.#number;
    try {
      this.#asked.set(send(guaranteed ? { ...each.frame, publication: each.number } : each.frame), each);
    } catch (error) {
      if (!(error instanceof RealtimeError)) throw error;
      const { status, reason } = error;
      return [this.#end(each, each.sent ? "unknown" : status, reason)];
    }
    each.sent = each.onWire = true;
    return [];
  }

  /** The answer to a command, `published` or `error` (4.4, 4.12). @param {any} answer @param {number} now @returns {Result[] | null} null: none of ours; empty: it goes again */
  answer(answer, now) {
    const each = this.#asked.get(answer.id);
    if (!each) return null;
    this.#asked.delete(answer.id);
    if (!this.#queue.has(each)) return [];
    const { status = answer.code, reason = "", epoch, seq } = answer;
    if (status === "stale") return [this.#end(each, "unknown", reason)];
    if (!["unavailable", "not_ready", "out_of_order"].includes(status)) return [{ ...this.#end(each, status, reason), epoch, seq }];
    // What was refused comes under a number that is new. A server that is not ready has only not looked whether what is
    // in doubt has been stored.
    each.doubt = status === "unavailable" || (each.doubt && status === "not_ready");
    if (!each.doubt) Object.assign(each, { number: 0, sent: false, refused: status === "not_ready" });
    each.onWire = false;
    this.#unsent = true;
    if (status !== "out_of_order") this.#heldUntil = now + HOLD_MS;
    return [];
  }

  /** The connection is gone. @param {boolean} tooBig because a frame was too big @returns {Result[]} */
  lose(tooBig) {
    const onWire = [...this.#asked.values()].filter((each) => this.#queue.has(each));
    this.#asked.clear();
    this.#heldUntil = 0;
    if (onWire.length === 0) return [];
    this.#unsent = true;
    const results = [];
    if (tooBig) {
      const largest = onWire.reduce((one, other) => other.bytes > one.bytes ? other : one);
      results.push(this.#end(largest, "too_large", "the server closed the connection over a frame of this size"));
    }
    for (const each of onWire) {
      each.onWire = false;
      each.doubt = true;
      const lost = !each.number && this.#queue.has(each);
      if (lost) results.push(this.#end(each, "unknown", "the connection was lost before the answer came"));
    }
    return results;
  }

  /** @param {number} now @returns {Result[]} those whose time is over */
  expire(now) {
    const results = [];
    for (const each of this.#queue) {
      if (each.until > now) break;
      results.push(this.#giveUp(each, "no answer in time"));
    }
    return results;
  }

  /** There will be no connection any more. @param {string} reason @returns {Result[]} */
  end(reason) {
    return [...this.#queue].map((each) => this.#giveUp(each, reason));
  }

  /** @param {Publication} each @param {string} reason */
  #giveUp(each, reason) {
    return this.#end(each, each.sent ? "unknown" : each.refused ? "not_ready" : "failed", reason);
  }

  /** @param {Publication} each @param {string} status @param {string} reason @returns {Result} */
  #end(each, status, reason) {
    this.#queue.delete(each);
    this.#bytes -= each.bytes;
    return { ticket: each.ticket, frame: each.frame, status, reason };
  }
}

/** @type {Record<string, string>} */
const NAMES = { ok: "published", denied: "publishDenied", too_large: "publishTooLarge" };

/** A result as the program hears of it. @param {Result} result */
function statusOf({ frame, status, reason, epoch = 0, seq = 0 }) {
  const { closure, subject } = frame;
  const name = NAMES[status] ?? "publishFailed";
  return status === "ok" ? { name, closure, subject, epoch, seq } : { name, closure, subject, status, reason };
}

const encoder = new TextEncoder();

/** What content and fields take. What cannot be encoded must not wait until it is sent, and then again and again. @param {any} frame */
function size({ content, fields, subject, closure, reply_to, traceparent = "" }) {
  for (const [what, text] of Object.entries({ subject, closure, replyTo: reply_to, traceparent })) checkText(what, text, subject);
  checkValues(content, fields, subject);
  return Object.entries(fields).reduce((sum, [name, value]) => sum + bytes(name) + bytes(value), bytes(content));
}

/** @param {string | Uint8Array} value */
function bytes(value) {
  return typeof value === "string" ? encoder.encode(value).length : value.length;
}
return { Outgoing, statusOf };
})();

const $session_effects = (() => { // client/session/effects.js
/** What a session wants done by whoever drives it, in its order. */

const { nameOf } = $wire_closing;
const { statusOf } = $session_outgoing;

/**
 * `prepare`: get a token (a new one where the one at hand is bad) and the list of servers, then call `prepared`.
 * `open`: try this address by this transport. `probe`: find out whether this transport would work, and call `probed`. `drop`: end the attempt or the connection. `lost`: no answer to a command comes any more.
 * `renew`: get a token for the live connection. `ask`: find out whether there is one by now, and call `signedIn`. `interest`: what the program has advertised is wanted, or no more. `asked`: a request for a handler.
 * `over`: nobody waits for that reply any more, with null for any of this connection's. `answer`: to the command of that id. `ended`: a publication has its
 * result.
 * @typedef {{type: "prepare", isTokenBad: boolean} | {type: "open" | "probe", url: string, transport: string} | {type: "drop"} | {type: "lost"}
 *   | {type: "send", data: string | Uint8Array} | {type: "renew"} | {type: "ask"} | {type: "status", status: any}
 *   | {type: "interest", subjects: string[], wanted: boolean} | {type: "message", owner: any, message: any} | {type: "answer", id: number, answer: any}
 *   | {type: "asked", asked: any} | {type: "over", to: string | null}
 *   | {type: "ended", result: Result}} Effect
 */

/** @extends {Array<Effect>} */
class Effects extends Array {
  /** @param {string} name @param {Record<string, unknown>} details */
  status(name, details) {
    this.push({ type: "status", status: { name, ...details } });
  }

  /** @param {number} code @param {string} reason @param {any} details */
  disconnected(code, reason, details) {
    this.status("disconnected", { code, codeName: nameOf(code, reason), reason, ...details });
  }

  /** Publications have their results. @param {Result[]} results */
  ended(results) {
    for (const result of results) {
      this.push({ type: "ended", result });
      if (result.ticket.isNamed) this.push({ type: "status", status: statusOf(result) });
    }
  }
}
return { Effects };
})();

const $connection_pings = (() => { // client/connection/pings.js
/** Signs of life of a connection, and its latency. No I/O, no clock: times are in ms. */

const PING_MS = 5000;
const SILENCE_MS = 10_000; // two pings without any answer

class Pings {
  /** when the next one is due */
  at = Infinity;
  /** half of the round trip of the last one */
  latency = /** @type {number | null} */ (null);
  #sentAt = 0;
  #unheardSince = Infinity; // when the first ping was sent after which nothing has come
  #id = 0;

  /** Something has come. */
  heard() {
    this.#unheardSince = Infinity;
  }

  /** Only a ping makes silence a fault: the timers of a hidden page are late, by a minute and more. @param {number} now */
  isSilent(now) {
    return now - this.#unheardSince >= SILENCE_MS;
  }

  /** @param {number} now @param {number} id of the command */
  sent(now, id) {
    this.at = now + PING_MS;
    this.#sentAt = now;
    this.#unheardSince = Math.min(this.#unheardSince, now);
    this.#id = id;
  }

  /** @param {number} now @param {number} id @returns {boolean} whether this answers the last ping */
  isAnswer(now, id) {
    if (id !== this.#id) return false;
    this.latency = (now - this.#sentAt) / 2;
    return true;
  }

  /** The connection has ended. */
  stop() {
    this.at = Infinity;
    this.latency = null;
    this.#unheardSince = Infinity;
    this.#id = 0;
  }
}
return { Pings };
})();

const $session_following = (() => { // client/session/following.js
/**
 * The subscriptions of a client: how they are asked for, and what the server's answers and messages mean; without I/O or
 * clock (docs/reference/protocol.md 3.2, 3.3, 3.8, 4.2, 4.7, 4.8, 4.13 and 5). wanted.js holds what is wanted.
 */

const {
  NOTHING, WantedList, begin, interrupt, isPattern, isOnly, isPlain, lastOf, read, requests, runs, storedOver, subscribeOf,
} = $session_wanted;

const RETRY_MS = 1000;
const RETRY_MS_MAX = 30_000;

const STORED = new Set(["snapshot", "historical", "recovered"]);

/** @typedef {Wanted} Wanted */
/** @typedef {Pattern} Pattern */
/** @typedef {Position} Position */
/** @typedef {{type: "message", owner: any, message: any} | {type: "answer", id: number, answer: any}
 *   | {type: "status", status: any} | {type: "retry", subject: string, ms: number}
 *   | {type: "interest", subjects: string[], wanted: boolean}
 *   | {type: "asked", asked: any} | {type: "over", to: string | null}
 *   | {type: "refused", owner: any, subject: string, code: string, reason: string}} Event */

class Following {
  wanted = new WantedList();
  #send;
  #fits;
  #open = false;
  #hasBeenOpen = false;
  /** @type {Set<Wanted>} that a reconnection has asked for from where they were, and that are not answered yet */
  #behind = new Set();
  #recovered = 0; // how many of them go on with nothing missed; NaN when one does not
  /** @type {Map<number, Wanted>} */
  #sids = new Map();
  /** @type {Map<number, (Wanted | Pattern)[]>} */
  #asked = new Map();

  /** @param {(frame: any) => number} send gives a command its number, and sends it @param {(frame: any) => boolean} [fits] whether the server takes one of that size */
  constructor(send, fits = () => true) {
    this.#send = send;
    this.#fits = fits;
  }

  // The connection.

  /** A connection stands: ask for everything from where it was. */
  open() {
    this.#open = true;
    const subjects = [...this.wanted.subjects.values()];
    this.#behind = new Set(this.#hasBeenOpen ? subjects.filter((each) => each.position) : []);
    this.#recovered = 0;
    this.#hasBeenOpen = true;
    this.#ask(subjects.filter(isPlain));
    this.#askPatterns([...this.wanted.patterns.values()]);
  }

  /** The connection is gone; ids of subjects and commands mean nothing any more. */
  lose() {
    this.#open = false;
    this.#sids.clear();
    this.#asked.clear();
    this.wanted.lose();
  }

  // Commands.

  /**
   * Want subjects and patterns for an owner, beside those who want them already.
   * @param {any} owner @param {string[]} names @param {Options} options
   */
  subscribe(owner, names, options) {
    const plain = [];
    const patterns = [];
    for (const name of names) {
      const old = this.wanted.get(name);
      if (old && isPattern(name) && !isOnly(old, owner)) {
        const { asked, isAnew } = this.wanted.joinPattern(/** @type {Pattern} */ (old), owner, options);
        plain.push(...asked);
        if (isAnew) patterns.push(/** @type {Pattern} */ (old));
        continue;
      }
      if (isPattern(name)) {
        if (old) this.#forget(old);
        patterns.push(this.wanted.putPattern(name, owner, options));
        continue;
      }
      if (old && isOnly(old, owner)) this.#behind.delete(/** @type {Wanted} */ (old));
      const { wanted, asks } = this.wanted.put(name, owner, options);
      if (old && old !== wanted) this.#unmap(/** @type {Wanted} */ (old));
      if (asks) plain.push(wanted);
    }
    this.#ask(plain);
    this.#askPatterns(patterns);
  }

  /** Want names no more. @param {any} owner @param {string[]} names @returns {number[]} ids of the commands, none while there is no connection and where others want them still */
  unsubscribe(owner, names) {
    const ended = [];
    for (const name of names) {
      const wanted = this.wanted.get(name);
      if (!wanted?.wishes.has(owner) || this.wanted.leave(wanted, owner)) continue;
      ended.push(name);
      for (const gone of this.#forget(wanted)) if (gone.held && gone !== wanted) ended.push(gone.subject);
      if (!isPattern(name)) /** @type {Wanted} */ (wanted).held = false;
    }
    const ids = [];
    const ending = (/** @type {string[]} */ subjects) => ({ op: "unsubscribe", subjects });
    for (const some of this.#open ? runs(ended, (some) => this.#fits(ending(some))) : []) ids.push(this.#send(ending(some)));
    this.#leadInNext(names);
    return ids;
  }

  /** Ask once more for what the server has not begun, and will not begin by itself. @param {string[]} names */
  retry(names) {
    const left = names.map((name) => this.wanted.get(name)).filter((each) => each && !each.live);
    this.#ask(/** @type {Wanted[]} */ (left.filter((each) => each && !isPattern(each.subject) && isPlain(/** @type {Wanted} */ (each)))));
    this.#askPatterns(/** @type {Pattern[]} */ (left.filter((each) => each && isPattern(each.subject))));
  }

  // What arrives.

  /** A message (5); its time counts from `base`. @param {any} frame @param {number} base @returns {Event[]} */
  message(frame, base) {
    const wanted = this.#sids.get(frame.sid);
    if (!wanted) return [];
    const kind = frame.meta.kind ?? "update";
    const isStored = STORED.has(kind);
    let readers = { byOwner: true, byOthers: true };
    // Until it is answered again, only what has no place in the order may come.
    if (!wanted.live && (frame.seq || isStored)) return [];
    if (isStored) {
      if (kind === "recovered" && !wanted.private && isBeyond(wanted, frame.seq)) return this.#gap(wanted, frame.seq);
      readers = this.#storedCame(wanted, kind, frame.seq);
    } else if (frame.seq) {
      if (wanted.stored) {
        storedOver(wanted);
        this.#pay(wanted);
      }
      if (isBeyond(wanted, frame.seq)) return this.#gap(wanted, frame.seq);
      readers = read(wanted, frame.seq, { isAnew: false });
    }
    const message = messageOf(frame, wanted, kind, base);
    const hearers = this.wanted.hearers(wanted, readers);
    this.#leadIn(wanted);
    return hearers.map((owner) => ({ type: "message", owner, message }));
  }

  /** Ask for those who wait for their turn, when it has come. @param {Wanted} wanted */
  #leadIn(wanted) {
    if (wanted.waiting.length > 0 && this.wanted.next(wanted)) this.#ask([wanted]);
  }

  /** The same where others have left. @param {string[]} names */
  #leadInNext(names) {
    for (const name of names) {
      const one = this.wanted.subjects.get(name);
      for (const wanted of isPattern(name) ? [...this.wanted.subjects.values()] : one ? [one] : []) this.#leadIn(wanted);
    }
  }

  /** Whether the owner and the others get it. @param {Wanted} wanted @param {string} kind @param {number} seq */
  #storedCame(wanted, kind, seq) {
    let readers = { byOwner: true, byOthers: !wanted.private };
    if (kind !== "snapshot" && seq) readers = read(wanted, seq, { isAnew: kind === "historical" });
    if (!readers.byOwner && !readers.byOthers) return readers;
    wanted.stored -= 1;
    if (wanted.stored <= 0) storedOver(wanted);
    this.#pay(wanted);
    return readers;
  }

  /** Ask for what an owner is owed, when nothing is still to come for the others. @param {Wanted} wanted */
  #pay(wanted) {
    if (!wanted.owed || wanted.stored) return;
    wanted.owed = false;
    this.#ask([wanted]);
  }

  /** An answer to `subscribe`, or what begins by itself (4.2). @param {any} frame @returns {Event[]} */
  subscribed(frame) {
    if (frame.id !== undefined) this.#asked.delete(frame.id);
    const events = frame.results.flatMap((/** @type {any} */ result) => this.#result(frame.id, result));
    return [...events, ...this.#synchronised()];
  }

  /** @param {number | undefined} id @param {any} result @returns {Event[]} */
  #result(id, result) {
    const { subject, error, reason = "", pattern } = result;
    const asPattern = this.wanted.patterns.get(subject);
    if (asPattern) return this.#patternResult(id, result, asPattern);
    let wanted = this.wanted.subjects.get(subject);
    if (!wanted && id === undefined && !error) wanted = this.wanted.find(subject, { held: !pattern });
    if (!wanted || (id !== undefined && id !== wanted.asked)) return [];
    if (error === "denied") return this.#denied(wanted, reason, pattern);
    if (error && result.retry_ms !== undefined || error === "not_ready") return this.#notReady(wanted, result);
    if (error) return this.#refused(wanted, error, reason);
    if (result.sid === undefined) return [];
    const wasRefused = wanted.refused;
    // To a client that has read none of it, only what goes back to the first message is recovered.
    const isAnew = !wanted.position && pattern && !result.conflation && result.seq !== (result.messages ?? 0);
    this.#unmap(wanted);
    this.#sids.set(result.sid, wanted);
    begin(wanted, result, { isOwn: id !== undefined || !pattern, isAsked: id !== undefined });
    this.#pay(wanted);
    this.#leadIn(wanted);
    const recovery = isAnew && result.recovery ? "resynchronised" : result.recovery ?? "";
    if (this.#behind.delete(wanted)) this.#recovered += recovery === "recovered" ? 1 : NaN;
    const told = [status("subscribed", { subject, recovery, ...by(pattern) })];
    if (recovery === "resynchronised") told.push(status("resynchronised", { subject }));
    if (id === undefined && wasRefused) told.unshift(status("granted", { subject, recovery }));
    const from = this.wanted.patterns.get(pattern);
    return from && !from.live ? [...this.#patternResult(from.asked, { subject: pattern }, from), ...told] : told;
  }

  /** What it finds follows, by itself (3.8). @param {number | undefined} id @param {any} result @param {Pattern} pattern @returns {Event[]} */
  #patternResult(id, { error, reason = "", retry_ms, rights = "" }, pattern) {
    const { subject } = pattern;
    if (id !== undefined && id !== pattern.asked) return [];
    if (error === "not_ready") return this.#notReady(pattern, { reason, retry_ms });
    if (error && pattern.live && id === undefined) return [status("limited", { subject, reason })];
    if (error) return this.#refused(pattern, error, reason);
    const before = pattern.rights;
    Object.assign(pattern, { live: true, retries: 0, resumes: true, rights });
    if (rights === "denied") return [status("denied", { subject, reason, pattern: subject })];
    const partial = rights ? [status("partial", { subject, reason, pattern: subject })] : [];
    // By itself the server tells only that rights have come or gone.
    if (id === undefined && partial.length > 0 && before !== "denied") return partial;
    const granted = id === undefined && before ? [status("granted", { subject, recovery: "" })] : [];
    return [...granted, status("subscribed", { subject, recovery: "", pattern: subject }), ...partial];
  }

  /** It waits for a right, with the server. @param {Wanted} wanted @param {string} reason @param {string} [pattern] @returns {Event[]} */
  #denied(wanted, reason, pattern) {
    wanted.refused = true;
    this.#behind.delete(wanted);
    if (!isPlain(wanted)) {
      wanted.position = null;
      this.#forget(wanted);
    }
    return [status("denied", { subject: wanted.subject, reason, ...by(pattern) })];
  }

  /** The server may start it by itself; until then it is asked for again, later and later, unless a pattern found it. @param {Wanted | Pattern} wanted @param {any} result @returns {Event[]} */
  #notReady(wanted, { reason = "", retry_ms = RETRY_MS, pattern }) {
    const { subject } = wanted;
    if (!isPattern(subject)) /** @type {Wanted} */ (wanted).refused = true;
    const isAsked = isPattern(subject) || isPlain(/** @type {Wanted} */ (wanted));
    const ms = isAsked ? Math.min(RETRY_MS_MAX, retry_ms * 2 ** wanted.retries++) : 0;
    const told = status("notReady", { subject, reason, retryMs: ms, ...by(pattern) });
    return isAsked ? [told, { type: "retry", subject, ms }] : [told];
  }

  /** It is forgotten; those who had it before go on. @param {Wanted | Pattern} wanted @param {string} code @param {string} reason @returns {Event[]} */
  #refused(wanted, code, reason) {
    const { subject } = wanted;
    let owners = [...wanted.wishes.keys()];
    const one = isPattern(subject) ? null : /** @type {Wanted} */ (wanted);
    if (one?.live && this.wanted.hearers(one, { byOwner: false, byOthers: true }).length > 0) {
      owners = owners.filter((owner) => one.owners.includes(owner));
      for (const owner of one.owners) this.wanted.leave(one, owner);
      this.#leadIn(one);
    } else this.#forget(wanted);
    if (owners.length === 0) return [status("limited", { subject, reason })];
    return owners.map((owner) => ({ type: "refused", owner, subject, code, reason }));
  }

  /** Once, when a reconnection has lost nothing of any subject. @returns {Event[]} */
  #synchronised() {
    if (this.#behind.size > 0 || !(this.#recovered > 0)) return [];
    this.#recovered = 0;
    return [status("synchronised", {})];
  }

  /** Messages are missing: ask again from the last that was read (5.3). @param {Wanted} wanted @param {number} seq @returns {Event[]} */
  #gap(wanted, seq) {
    const last = lastOf(wanted)?.[1] ?? 0;
    interrupt(wanted);
    wanted.live = false;
    // What a pattern found is asked for by its own name: to ask for the pattern again would begin all of it anew.
    if (wanted.wishes.size === 0) wanted.held = true;
    this.#ask([wanted]);
    return [status("gap", { subject: wanted.subject, reason: `${last} was followed by ${seq}` })];
  }

  /** A subject goes on in a new epoch (4.8). @param {any} frame @returns {Event[]} */
  epoch(frame) {
    const wanted = this.#sids.get(frame.sid);
    if (!wanted) return [];
    const { subject } = wanted;
    const last = wanted.target ?? lastOf(wanted);
    const isVoid = [wanted.position, wanted.own].some((old) => old && old[1] > frame.seq);
    wanted.epoch = frame.epoch;
    // The number goes on over epochs; what was read above it is void.
    if (wanted.position) wanted.position = [frame.epoch, Math.min(wanted.position[1], frame.seq)];
    if (wanted.own && wanted.own !== NOTHING) wanted.own = [frame.epoch, Math.min(wanted.own[1], frame.seq)];
    if (wanted.target) wanted.target = [frame.epoch, Math.min(wanted.target[1], frame.seq)];
    if (last && last[1] < frame.seq) return this.#gap(wanted, frame.seq + 1);
    return isVoid ? [status("subscribed", { subject, recovery: "resynchronised" }), status("resynchronised", { subject })] : [];
  }

  /** Subscriptions are conflated from here on, or no more (4.13). @param {number[]} sids @param {boolean} lagging @returns {Event[]} */
  lagging(sids, lagging) {
    return sids.flatMap((sid) => {
      const wanted = this.#sids.get(sid);
      if (!wanted) return [];
      wanted.lagging = lagging;
      return [status(lagging ? "lagging" : "caughtUp", { subject: wanted.subject })];
    });
  }

  /** Rights are gone, or an operator has ended it (4.7). @param {{subjects: string[], reason: string}} frame @returns {Event[]} */
  revoked({ subjects, reason }) {
    return subjects.flatMap((subject) => {
      const pattern = this.wanted.patterns.get(subject);
      if (pattern) {
        Object.assign(pattern, { live: false, rights: "" });
        return [status("revoked", { subject, pattern: subject, reason })];
      }
      const wanted = this.wanted.subjects.get(subject);
      if (!wanted) return [];
      this.#unmap(wanted);
      this.#behind.delete(wanted);
      // The position stays: if the right comes back with another connection, nothing is missed.
      interrupt(wanted);
      Object.assign(wanted, { live: false, lagging: false, target: null, stored: 0, refused: true });
      return [status("revoked", { subject, reason })];
    });
  }

  /** An error (4.12), of a subscribe command or another. @param {any} frame @returns {Event[]} */
  error(frame) {
    const asked = this.#asked.get(frame.id);
    if (!asked) {
      return frame.id === undefined ? [status("error", { code: frame.code, reason: frame.reason })]
        : [{ type: "answer", id: frame.id, answer: frame }];
    }
    this.#asked.delete(frame.id);
    const failed = asked.filter((wanted) => wanted.asked === frame.id && this.wanted.has(wanted));
    return failed.flatMap((wanted) => this.#refused(wanted, frame.code, frame.reason));
  }

  // Inside.

  /** Each with where its subjects were read to; those that are too many for one command are asked for by name. @param {Pattern[]} patterns */
  #askPatterns(patterns) {
    if (!this.#open) return;
    for (const { request, more } of this.wanted.resumptions(patterns, this.#fits)) {
      this.#ask(more);
      this.#subscribe(request);
    }
  }

  /** @param {Wanted[]} subscriptions */
  #ask(subscriptions) {
    if (!this.#open) return;
    for (const request of requests(subscriptions, this.#fits)) this.#subscribe(request);
  }

  /** @param {Request} request */
  #subscribe(request) {
    const { wanted } = request;
    const id = this.#send(subscribeOf(request));
    this.#asked.set(id, wanted);
    for (const each of wanted) each.asked = id;
  }

  /** @param {Wanted | Pattern} wanted */
  #forget(wanted) {
    const gone = this.wanted.forget(wanted);
    for (const each of gone) {
      this.#unmap(each);
      this.#behind.delete(each);
    }
    return gone;
  }

  /** A subject's id means it no more; by now the id may be another's. @param {Wanted} wanted */
  #unmap(wanted) {
    if (this.#sids.get(wanted.sid) === wanted) this.#sids.delete(wanted.sid);
    wanted.sid = -1;
  }
}

/** What every message can do. */
const READING = {
  /**
   * What the content says in JSON, or the field of that name. Throws SyntaxError; undefined without the field.
   * @this {{ content: string | Uint8Array, fields: Record<string, string | Uint8Array> }} @param {string} [field]
   */
  json(field) {
    const value = field === undefined ? this.content : this.fields[field];
    if (value === undefined) return undefined;
    return JSON.parse(typeof value === "string" ? value : new TextDecoder("utf-8", { fatal: true }).decode(value));
  },
};

/** @param {any} frame @param {Wanted} wanted @param {string} kind @param {number} base */
function messageOf(frame, wanted, kind, base) {
  const meta = frame.meta;
  return {
    __proto__: READING,
    subject: wanted.subject, content: frame.content, fields: frame.fields, epoch: frame.seq ? wanted.epoch : 0,
    seq: frame.seq, time: base + frame.t, kind, retained: meta.retained ?? true,
    qos: frame.seq ? "guaranteed" : "standard", replyTo: meta.reply_to ?? "", closure: meta.closure ?? "",
    asOf: meta.as_of ?? null, removed: meta.removed ?? false, traceparent: meta.traceparent ?? "",
  };
}

/** Whether messages are missing before this one, and may not. @param {Wanted} wanted @param {number} seq */
function isBeyond(wanted, seq) {
  const last = lastOf(wanted);
  const isWhole = !wanted.interval && !wanted.lagging;
  return isWhole && last !== null && seq > last[1] + 1 && wanted.epoch >= last[0];
}

/** The pattern that found it, if one did. @param {string} [pattern] */
function by(pattern) {
  return pattern === undefined ? {} : { pattern };
}

/** @param {string} name @param {Record<string, unknown>} details @returns {Event} */
function status(name, details) {
  return { type: "status", status: { name, ...details } };
}
return { Following };
})();

const $session_protocol = (() => { // client/session/protocol.js
/**
 * The protocol as a client sees it, without I/O or clock: frames in, events and frames out (docs/reference/protocol.md 3 to 5, 7).
 *
 * The state outlives connections: `open()` begins one, `lose()` ends it. What is to be sent gathers in `out`. Its
 * subscriptions are `following`.
 */

const { decode, encode, sizeOf } = $wire_codec;
const { RealtimeError } = $session_errors;
const { Following } = $session_following;
const { isCovered } = $session_wanted;

const CLIENT = "js/1";
/** The most that a unit of a string takes in UTF-8. */
const BYTES_PER_UNIT = 3;
/** What every server takes as one frame, whatever it is set to. */
const FRAME_BYTES_LEAST = 65_536;

/** @typedef {Form} Form */
/** @typedef {Event} Event */

class ClientState {
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
return { CLIENT, ClientState };
})();

const $connection_renewal = (() => { // client/connection/renewal.js
/** When a client renews the token of its connection by itself. No I/O, no clock: times are in ms. */

/** So long before the end, and never before half of the time that is left is over. */
const AHEAD_MS = 60_000;
/** After a failure, doubling up to the second. */
const AGAIN_MS = 1000;
const AGAIN_MS_MAX = 15_000;

class Renewal {
  /** when a new token is to be had */
  at = Infinity;
  #isPlanned = false; // by the time that is left
  #againMs = AGAIN_MS;

  /** The server has taken a token. @param {number} now @param {number} [leftMs] until it ends; left out: it never does */
  taken(now, leftMs = Infinity) {
    this.at = now + Math.max(leftMs - AHEAD_MS, leftMs / 2, 0);
    this.#isPlanned = leftMs !== Infinity;
    this.#againMs = AGAIN_MS;
  }

  /** The server says that it ends soon. What is planned already goes by the same time. @param {number} now */
  expiring(now) {
    if (!this.#isPlanned) this.at = now;
  }

  /** It is being had. */
  begun() {
    this.at = Infinity;
  }

  /** It could not be had. @param {number} now */
  failed(now) {
    this.at = now + this.#againMs;
    this.#againMs = Math.min(AGAIN_MS_MAX, 2 * this.#againMs);
  }

  /** The connection has ended. */
  stop() {
    this.at = Infinity;
    this.#isPlanned = false;
  }
}
return { Renewal };
})();

const $connection_retries = (() => { // client/connection/retries.js
/** Subjects that a server was not ready for, and when each is asked for again. No I/O, no clock: times are in ms. */

class Retries {
  /** when the first is due */
  at = Infinity;
  /** @type {Map<string, number>} */
  #due = new Map();

  /** @param {string} subject @param {number} at */
  add(subject, at) {
    this.#due.set(subject, at);
    this.at = Math.min(this.at, at);
  }

  /** @param {number} now @returns {string[]} those whose time has come */
  take(now) {
    const due = [...this.#due].filter(([, at]) => at <= now).map(([subject]) => subject);
    for (const subject of due) this.#due.delete(subject);
    this.at = [...this.#due.values()].reduce((one, other) => Math.min(one, other), Infinity);
    return due;
  }

  /** The connection has ended. */
  clear() {
    this.#due.clear();
    this.at = Infinity;
  }
}
return { Retries };
})();

const $connection_backoff = (() => { // client/connection/backoff.js
/** How long to wait before the next attempt, and whether reconnections come too often. No I/O, no clock. */

const RATE_MS = 180_000;

/** A few quick retries, each a little later than the last, then from some seconds doubling; spread by chance, so that a crowd does not return at once. */
class Backoff {
  #waits = 0;
  #options;

  /** @param {{quickRetries: number, quickSeconds: number, backoffSeconds: number, backoffSecondsMax: number}} options */
  constructor(options) {
    this.#options = options;
  }

  /** @param {number} draw in [0, 1) @returns {number} ms */
  next(draw) {
    const { quickRetries, quickSeconds, backoffSeconds, backoffSecondsMax } = this.#options;
    const number = ++this.#waits;
    if (number <= quickRetries) return 1000 * quickSeconds * (number - draw);
    const bound = Math.min(backoffSecondsMax, backoffSeconds * 2 ** (number - quickRetries - 1));
    return 1000 * bound * (0.5 + draw / 2);
  }

  reset() {
    this.#waits = 0;
  }
}

/** Tells when there were more reconnections than `most` within three minutes: once, until it is fewer again. */
class ReconnectRate {
  /** @type {number[]} */
  #times = [];
  #most;
  #told = false;

  /** @param {number} most */
  constructor(most) {
    this.#most = most;
  }

  /** A reconnection. @param {number} now ms @returns {number} how many there were, if that is to be told now; else 0 */
  note(now) {
    this.#times = this.#times.filter((time) => time > now - RATE_MS);
    this.#times.push(now);
    const count = this.#times.length;
    const tell = count > this.#most && !this.#told;
    this.#told = count > this.#most;
    return tell ? count : 0;
  }
}
return { Backoff, ReconnectRate };
})();

const $connection_rounds = (() => { // client/connection/rounds.js
/** When and where a client connects next, from what became of its attempts and connections so far. No I/O, no clock. */

const { Backoff, ReconnectRate } = $connection_backoff;
const { ServerList } = $connection_servers;

class Rounds {
  #servers;
  #backoff;
  #rate;
  #draw;
  #options;
  #failed = 0; // rounds in a row
  #isDown = false;
  #hasConnected = false;
  #connectedAt = 0;

  /** @param {any} options as options.js completes them @param {{pick: () => number, wait: () => number}} draw each in [0, 1) */
  constructor(options, draw) {
    this.#options = options;
    this.#draw = draw;
    this.#servers = new ServerList(options.servers);
    this.#backoff = new Backoff(options);
    this.#rate = new ReconnectRate(options.reconnectsMax);
  }

  /** The list of servers as it is now. @param {Server[]} servers */
  replace(servers) {
    if (servers.length > 0) this.#servers.replace(servers);
  }

  /** What a server that drains tells of the others. @param {Server[]} servers */
  add(servers) {
    this.#servers.add(servers);
  }

  begin() {
    this.#servers.begin();
  }

  /** The next server of this round; null when each has failed. */
  next() {
    return this.#servers.pick(this.#draw.pick);
  }

  /** Whether another server could be tried in this round. @param {string} url */
  hasMore(url) {
    return this.#servers.hasMore(url);
  }

  /** A server did not answer. @param {string} url */
  fail(url) {
    this.#servers.fail(url);
  }

  /** None has answered. @returns {number} how many rounds in a row that is, if it is to be told now that servers are down; else 0 */
  over() {
    this.#servers.forgive();
    this.#failed += 1;
    if (this.#isDown || this.#failed < this.#options.downAfter) return 0;
    this.#isDown = true;
    return this.#failed;
  }

  /** A server has answered. @param {number} now @returns {number} how many reconnections there were of late, if they are too many and it is to be told now; else 0 */
  connected(now) {
    this.#connectedAt = now;
    this.#failed = 0;
    this.#isDown = false;
    const count = this.#hasConnected ? this.#rate.note(now) : 0;
    this.#hasConnected = true;
    return count;
  }

  /** A connection will end or has ended. @param {number} now @param {string} url @returns {boolean} whether a proper server is left that is not to be avoided as well */
  left(now, url) {
    if (now - this.#connectedAt >= 1000 * this.#options.steadySeconds) {
      this.reset();
      this.#servers.forgive();
    }
    return this.#servers.avoid(url);
  }

  /** How long to wait before the next round, in ms. */
  wait() {
    return this.#backoff.next(this.#draw.wait());
  }

  /** Waits begin with the shortest again. */
  reset() {
    this.#backoff.reset();
  }
}
return { Rounds };
})();

const $session_session = (() => { // client/session/session.js
/**
 * The client as a state machine, without I/O, clock or chance: what happens goes in, with the time; what to do comes out.
 *
 * Whoever drives it tells it what the program asks for, what became of the address it tries, what the server sends, and
 * the time when `nextAt` has come, and then carries out `effects`, in their order. How frames are read is in
 * protocol.js, which server comes next and when in rounds.js, what is to be published in outgoing.js. Times are in ms of one clock that never goes back.
 *
 * A round tries servers without a pause between, each once, until one answers. A connection that ends, or a round in
 * which none has answered, is followed by a wait and the next round.
 */

const { ABNORMAL, DRAIN, NORMAL, HANDSHAKE_TIMEOUT, PING_TIMEOUT, PROTOCOL_ERROR, TOO_BIG, isFinal, isTokens, isUsers } = $wire_closing;
const { unsendable } = $session_arguments;
const { Effects } = $session_effects;
const { Ladder } = $connection_ladder;
const { Outgoing } = $session_outgoing;
const { Pings } = $connection_pings;
const { ClientState } = $session_protocol;
const { Renewal } = $connection_renewal;
const { Retries } = $connection_retries;
const { Rounds } = $connection_rounds;

const OPEN_MS = 2000; // for an address that has another after it
const OPEN_LAST_MS = 10_000;
const ANSWER_MS = 12_000;
const HURRY_MS = 5000; // not more often than that a wait is cut short, however much the program and its user do

/** @typedef {Failure} Failure */

class Session {
  /** "connecting", "connected", "disconnected" (for good), "paused" or "closed" */
  state = "connecting";
  /** the address in use or being tried, "" without one */
  url = "";
  /** "direct" or "relay" */
  via = "";
  /** "websocket", "stream" or "poll": what carries the connection or is tried, "" without one */
  transport = "";
  effects = new Effects();

  #options;
  #viaOf;
  #rounds;
  #ladder;
  /** @type {ClientState} */
  #protocol;
  #outgoing;
  /** what is waited for: "" nothing, "prepared", "open", "connected" (the answer), "again" (the next round) */
  #awaits = "";
  /** the one that is tried @type {Server} */
  #server = { url: "", weight: 0 };
  #dueAt = Infinity; // when that has taken too long, or has come
  #token = "";
  #isTokenBad = false;
  #isFreshened = false; // one new token was already tried
  #hurriedAt = -Infinity; // when a wait was cut short
  #isHidden = false; // paused with its page, not by the program
  #isTokensEnd = false; // ended for good as this user, and another may sign in
  #hadUser = false;
  #pings = new Pings();
  #retries = new Retries();
  #renewal = new Renewal();
  #serverOffset = 0; // the server's clock minus ours

  /**
   * @param {any} options as options.js completes them
   * @param {{pick: () => number, wait: () => number, via: (server: {url: string, weight: number}) => string, memory: Memory}} world draws in [0, 1), what an address is called, and what is remembered of transports
   */
  constructor(options, world) {
    this.#options = options;
    this.#viaOf = world.via;
    this.#rounds = new Rounds(options, world);
    this.#ladder = new Ladder(options, world.memory);
    this.#protocol = new ClientState(options.form, options.publisher);
    this.#outgoing = new Outgoing(options);
  }

  /** When `tick` is wanted. */
  get nextAt() {
    const publicationsAt = this.#outgoing.nextAt(this.state === "connected");
    return Math.min(this.#dueAt, this.#pings.at, this.#retries.at, this.#renewal.at, this.#ladder.probeAt, publicationsAt);
  }

  get user() {
    return this.#protocol.user;
  }

  /** half of the round trip of the last ping, in ms; null before the first */
  get latency() {
    return this.#pings.latency;
  }

  // What the program asks for.

  start() {
    this.state = "connecting";
    this.#rounds.begin();
    this.#await("prepared", Infinity);
    this.effects.push({ type: "prepare", isTokenBad: this.#isTokenBad });
    this.#isTokenBad = false;
  }

  /** @param {any} owner @param {string[]} subjects @param {any} options */
  subscribe(owner, subjects, options) {
    const taken = subjects.filter((subject) => !unsendable(subject));
    this.#protocol.following.subscribe(owner, taken, options);
    for (const subject of subjects) {
      const reason = unsendable(subject);
      if (reason) this.effects.status("refused", { subject, code: "invalid", reason });
    }
    this.#send();
  }

  /** @param {any} owner @param {string[]} subjects @returns {number[]} ids of the commands */
  unsubscribe(owner, subjects) {
    const ids = this.#protocol.following.unsubscribe(owner, subjects);
    this.#send();
    return ids;
  }

  /** What this client can publish, from now on. @param {string[]} patterns @returns {number | null} the id of the command; without a connection it is sent with the next */
  advertise(patterns) {
    const id = this.state === "connected" ? this.#protocol.advertise(patterns) : null; // what passes the server's bound changes nothing
    this.effects.push(.../** @type {any[]} */ (this.#protocol.offer(patterns)));
    if (this.#awaits === "connected") this.#protocol.tellEarly("advertise");
    this.#send();
    return id;
  }

  /** What this client answers, from now on. @param {string[]} patterns @returns {number | null} as of advertise */
  respond(patterns) {
    const id = this.state === "connected" ? this.#protocol.respond(patterns) : null;
    this.#protocol.responds(patterns);
    if (this.#awaits === "connected") this.#protocol.tellEarly("respond");
    this.#send();
    return id;
  }

  /** Answer a request; on another connection than it came on nobody waits for that. @param {any} frame */
  reply(frame) {
    if (this.state === "connected") this.#protocol.reply(frame);
    this.#send();
  }

  /** A new token could not be had. @param {number} now */
  notRenewed(now) {
    if (this.state === "connected") this.#renewal.failed(now);
  }

  /** @param {any} frame a command without id; for the live connection only @returns {number} its id */
  command(frame) {
    const id = this.#protocol.command(frame);
    this.#send();
    return id;
  }

  /** The effect `ended` tells what became of it. @param {number} now @param {any} frame a publish command without id @param {any} ticket comes back in the result */
  publish(now, frame, ticket) {
    const isOver = this.state === "closed" || this.state === "disconnected";
    if (isOver) this.effects.ended([{ frame, ticket, status: "failed", reason: `the client is ${this.state}` }]);
    else if (this.#outgoing.add(frame, ticket, now)) this.#sendPublications(now);
    else this.effects.ended([{ frame, ticket, status: "queue_full", reason: "too much waits for an answer already" }]);
  }

  /** Let go of the connection and keep everything else. */
  pause() {
    this.#isHidden = false;
    if (this.state === "closed" || this.state === "paused") return;
    this.#drop();
    this.state = "paused";
    this.effects.status("paused", {});
  }

  resume() {
    if (this.state !== "paused" && this.state !== "disconnected") return;
    this.#isHidden = false;
    this.#rounds.reset();
    this.#isFreshened = false;
    this.start();
  }

  /** Connect now, whatever it waits for; one that is being tried goes on. */
  reconnect() {
    if (this.#awaits !== "again" && this.#awaits !== "prepared") return this.resume();
    this.#rounds.reset();
    this.start();
  }

  /** Wait no longer for the next round, which somebody needs now: it begins at once, or as soon as it may. @param {number} now */
  hurry(now) {
    const at = Math.max(now, this.#hurriedAt + HURRY_MS);
    if (this.#awaits !== "again" || at >= this.#dueAt) return;
    this.#hurriedAt = at;
    this.#dueAt = at;
    if (at <= now) this.start();
  }

  /** End for good. */
  close() {
    if (this.state === "closed") return;
    this.#drop();
    this.effects.ended(this.#outgoing.end("the client was closed"));
    this.state = "closed";
    this.effects.status("closed", {});
  }

  // What the surroundings tell.

  /** The list of servers as it is now. @param {{url: string, weight: number}[]} servers */
  replaceServers(servers) {
    this.#rounds.replace(servers);
  }

  /** The answer to `prepare`. @param {number} now @param {string} token @param {any} [error] why there is no token; one that is `final` ends the client */
  prepared(now, token, error) {
    if (this.#awaits !== "prepared") return;
    this.#token = token;
    if (!error) this.#tryNext(now, ABNORMAL, "no server is known");
    else if (error.final === true) this.#finish(ABNORMAL, error.message, true);
    else this.#roundFailed(now, ABNORMAL, error.message);
  }

  /** There is a network again, maybe another: no need to wait. @param {number} now */
  online(now) {
    this.#ladder.changed(now, this.state === "connected");
    if (this.#awaits === "again") this.start();
  }

  /** Its user is back: nobody is to look at a page that waits. @param {number} now */
  returned(now) {
    if (this.#awaits === "again") this.#rounds.reset();
    this.hurry(now);
    const isEnded = this.state === "disconnected" && this.#isTokensEnd;
    const isSignedOut = this.state === "connected" && this.#hadUser && this.user === "" && typeof this.#options.token === "function";
    if (!(isEnded || isSignedOut) || now < this.#hurriedAt + HURRY_MS) return;
    this.#hurriedAt = now;
    if (isEnded) this.resume();
    else this.effects.push({ type: "ask" });
  }

  /** The answer to `ask`: there is a token, where there was none. */
  signedIn() {
    if (this.state !== "connected" || this.user !== "") return;
    this.#drop();
    this.#again(NORMAL, "signed_in: there is a user again");
  }

  /** The page goes to where "Back" finds it, without its connection. */
  hidden() {
    if (this.state !== "connecting" && this.state !== "connected") return;
    this.pause();
    this.#isHidden = true;
  }

  /** It is back. @param {number} now */
  shown(now) {
    if (this.#isHidden) this.resume();
    else this.returned(now);
  }

  /** What became of the effect `probe`. @param {number} now @param {string} url @param {string} transport @param {boolean} works */
  probed(now, url, transport, works) {
    if (this.state !== "connected" || this.url !== url || !this.#ladder.probed(now, transport, works)) return;
    this.#drop();
    this.#again(NORMAL, `step_up: the transport ${transport} works here`);
  }

  /** The address that is tried has opened. @param {number} now @param {"json" | "msgpack"} form */
  opened(now, form) {
    this.#await("connected", now + this.#within(ANSWER_MS));
    this.#protocol.open(this.#token, form);
    this.#send();
  }

  /** The address that is tried does not open. @param {number} now @param {string} reason @param {Failure} how */
  refused(now, reason, how) {
    this.#hasFailed(now, ABNORMAL, `${this.url}: ${reason}`, how, this.url);
  }

  /** The connection has ended. @param {number} now @param {number} code @param {string} reason @param {Failure} [how] where no frame came before */
  closed(now, code, reason, how = "closed") {
    const { url, state } = this;
    if (state === "connected") this.#ladder.lost(now, code);
    this.#lose(code === TOO_BIG);
    this.#isTokenBad = isTokens(code);
    if (this.#isTokenBad && typeof this.#options.token === "function" && !this.#isFreshened) {
      // A fresh one may be what it takes, once.
      this.#isFreshened = true;
      this.#again(code, reason);
    } else if (isFinal(code)) this.#finish(code, reason, isUsers(code) && typeof this.#options.token === "function");
    else if (state !== "connected") this.#hasFailed(now, code, reason, how, url);
    else if (this.#rounds.left(now, url) && code === DRAIN) this.#again(code, reason);
    else this.#later(now, code, reason);
  }

  /** One frame has come. @param {number} now @param {string | Uint8Array} data */
  receive(now, data) {
    this.#pings.heard();
    try {
      const events = this.#protocol.receive(data);
      this.#send();
      for (const event of events) this.#happen(now, event);
    } catch (error) {
      this.effects.status("error", { code: "bad_message", reason: String(error) });
      this.effects.push({ type: "drop" });
      this.closed(now, PROTOCOL_ERROR, "bad_message: the server sent what is no frame of this protocol");
    }
  }

  /** `nextAt` has come. @param {number} now */
  tick(now) {
    this.effects.ended(this.#outgoing.expire(now));
    if (now >= this.#dueAt) this.#due(now);
    if (now >= this.#pings.at) this.#sendPing(now);
    if (now >= this.#retries.at) this.#retry(now);
    if (now >= this.#renewal.at) this.#renew();
    if (now >= this.#ladder.probeAt) this.effects.push({ type: "probe", url: this.url, transport: this.#ladder.probe() });
    this.#sendPublications(now);
  }

  // Connecting.

  /** @param {number} now */
  #due(now) {
    if (this.#awaits === "again") return this.start();
    this.effects.push({ type: "drop" });
    if (this.#awaits === "open") this.refused(now, "no answer", "unanswered");
    else this.closed(now, HANDSHAKE_TIMEOUT, "handshake_timeout: no answer from the server", "silent");
  }

  /** Try a server, or give this round up for what the last one said. @param {number} now @param {number} code @param {string} reason */
  #tryNext(now, code, reason) {
    const server = this.#rounds.next();
    if (!server) return this.#roundFailed(now, code, reason);
    this.#server = server;
    this.#ladder.begin(now, server.url);
    this.effects.status("connecting", { url: server.url, via: this.#viaOf(server) });
    this.#try(now);
  }

  /** Try the server by the transport whose turn it is. @param {number} now */
  #try(now) {
    const { url } = this.#server;
    this.url = url;
    this.via = this.#viaOf(this.#server);
    this.transport = this.#ladder.transport;
    const { transport } = this;
    this.#await("open", now + this.#within(this.#rounds.hasMore(url) ? OPEN_MS : OPEN_LAST_MS));
    this.effects.push({ type: "open", url, transport });
  }

  /** The time for an answer, while there is another transport to try. @param {number} ms without one */
  #within(ms) {
    return this.#ladder.hasLower ? Math.min(ms, 1000 * this.#options.stepDownSeconds) : ms;
  }

  /** A transport has failed, and with the last one the server, in this round. @param {number} now @param {number} code @param {string} reason @param {Failure} how @param {string} url */
  #hasFailed(now, code, reason, how, url) {
    if (this.#ladder.failed(how, code, reason, this.#rounds.hasMore(url))) return this.#try(now);
    this.#rounds.fail(url);
    this.url = this.via = this.transport = "";
    this.#tryNext(now, this.#ladder.why.code, this.#ladder.why.reason);
  }

  /** @param {number} now @param {number} code @param {string} reason */
  #roundFailed(now, code, reason) {
    this.#later(now, code, reason);
    const attempts = this.#rounds.over();
    if (attempts) this.effects.status("down", { attempts });
  }

  /** The next round begins after a wait. @param {number} now @param {number} code @param {string} reason */
  #later(now, code, reason) {
    const ms = this.#rounds.wait();
    this.state = "connecting";
    this.#await("again", now + ms);
    this.effects.disconnected(code, reason, { final: false, retryMs: Math.round(ms) });
  }

  /** The next round begins at once. @param {number} code @param {string} reason */
  #again(code, reason) {
    this.effects.disconnected(code, reason, { final: false, retryMs: 0 });
    this.start();
  }

  /** The server does not want us back, or there is no token for us. @param {number} code @param {string} reason @param {boolean} isTokensEnd */
  #finish(code, reason, isTokensEnd) {
    this.#isTokensEnd = isTokensEnd;
    this.#await("", Infinity);
    this.state = "disconnected";
    this.effects.ended(this.#outgoing.end(reason));
    this.effects.disconnected(code, reason, { final: true, retryMs: 0 });
  }

  /** Everything that belongs to the connection ends with it. @param {boolean} [tooBig] */
  #lose(tooBig = false) {
    this.#await("", Infinity);
    this.#pings.stop();
    this.#retries.clear();
    this.#renewal.stop();
    this.#ladder.stop();
    this.url = this.via = this.transport = "";
    this.effects.push(.../** @type {any[]} */ (this.#protocol.lose()));
    this.effects.push({ type: "lost" });
    this.effects.ended(this.#outgoing.lose(tooBig));
  }

  #drop() {
    this.effects.push({ type: "drop" });
    this.#lose();
  }

  // A connection.

  /** @param {number} now @param {Event} event */
  #happen(now, event) {
    switch (event.type) {
      case "answer": return this.#answered(now, event);
      case "message":
      case "asked":
      case "over":
      case "interest": return void this.effects.push(event);
      case "status":
        this.effects.push(event);
        if (event.status.name === "expiring") this.#renewal.expiring(now);
        if (now >= this.#renewal.at) this.#renew();
        if (event.status.name === "notice" && event.status.code === "drain") this.#drain(now, event.status);
        break;
      case "retry": return this.#retries.add(event.subject, now + event.ms);
      case "refused":
        this.effects.status("refused", { subject: event.subject, code: event.code, reason: event.reason });
    }
  }

  /** @param {number} now @param {{type: "answer", id: number, answer: any}} event */
  #answered(now, event) {
    const { id, answer } = event;
    if (answer.op === "connected") return this.#connected(now, answer);
    if (answer.op === "renewed") this.#tokenTaken(now, answer);
    if (this.#pings.isAnswer(now, id)) {
      // The server's clock was read half a round trip ago.
      return this.effects.status("latency", { ms: this.latency, serverTime: answer.time + (this.latency ?? 0) });
    }
    const results = this.#outgoing.answer(answer, now);
    if (!results) return void this.effects.push(event);
    this.effects.ended(results);
    this.#sendPublications(now);
  }

  /** @param {number} now @param {any} answer */
  #connected(now, answer) {
    this.#await("", Infinity);
    this.state = "connected";
    this.#hadUser ||= this.user !== "";
    this.#isFreshened = false;
    this.#serverOffset = answer.time - now;
    this.#tokenTaken(now, answer);
    const count = this.#rounds.connected(now);
    this.#ladder.stood(now);
    const { url, via, transport } = this;
    this.effects.status("connected", { url, via, transport, user: answer.user ?? "", server: answer.server });
    if (count) this.effects.status("reconnectRateExceeded", { count });
    this.#sendPublications(now);
    this.#sendPing(now);
  }

  /** The server is about to stop: go elsewhere, if there is an elsewhere. @param {number} now @param {any} notice */
  #drain(now, notice) {
    this.#rounds.add(notice.servers);
    if (!this.#rounds.left(now, this.url)) return;
    this.#drop();
    this.#again(DRAIN, notice.reason);
  }

  /** Measure the latency, and notice a connection that is dead. @param {number} now */
  #sendPing(now) {
    if (this.#pings.isSilent(now)) {
      this.effects.push({ type: "drop" });
      this.closed(now, PING_TIMEOUT, "ping_timeout: no sign of life from the server");
      return;
    }
    this.#pings.sent(now, this.command({ op: "ping" }));
  }

  /** Ask again for the subjects whose time has come. @param {number} now */
  #retry(now) {
    this.#protocol.following.retry(this.#retries.take(now));
    this.#send();
  }

  /** The server has taken a token. @param {number} now @param {{expires?: number}} answer */
  #tokenTaken(now, { expires }) {
    this.#renewal.taken(now, expires === undefined ? Infinity : expires - (now + this.#serverOffset));
  }

  #renew() {
    this.#renewal.begun();
    if (typeof this.#options.token === "function") this.effects.push({ type: "renew" });
  }

  /** @param {number} now */
  #sendPublications(now) {
    if (this.state !== "connected") return;
    this.effects.ended(this.#outgoing.flush(now, (frame) => this.#protocol.command(frame)));
    this.#send();
  }

  #send() {
    for (const data of this.#protocol.takeOut()) this.effects.push({ type: "send", data });
  }

  // Inside.

  /** @param {string} what @param {number} dueAt */
  #await(what, dueAt) {
    this.#awaits = what;
    this.#dueAt = dueAt;
  }
}
return { Session };
})();

const $session_subscription = (() => { // client/session/subscription.js
/** What `subscribe()` returns. */

class Subscription {
  /**
   * @param {string[]} subjects
   * @param {(message: any, subscription: Subscription) => void} handler
   * @param {(self: Subscription, subjects: string[]) => Promise<void>} leave
   */
  constructor(subjects, handler, leave) {
    this.subjects = subjects;
    this.handler = handler;
    /** Resolves when nothing more can arrive. Whoever calls it, this is the one that is left: `this` may be a Proxy. @param {string[]} [some] or all @returns {Promise<void>} */
    this.unsubscribe = (some = subjects) => leave(this, some);
  }
}
return { Subscription };
})();

const { connect, RealtimeError } = (() => { // client/client.js
/**
 * The JavaScript client: `connect()` and what it returns; for browsers, and for Node.
 *
 * This file does the I/O: connections (connector.js), a timer, tokens, promises. What to do when is session.js's to say.
 * docs/develop/javascript.md is its guide.
 */

const { Connector, viaOf } = $connection_connector;
const {
  checkClosure, checkName, checkNames, checkPatterns, checkRequest, checkSubscription, checkToken, checkValues,
} = $session_arguments;
const { bind } = $session_bound;
const { RealtimeError } = $session_errors;
const { Requests } = $session_requests;
const { Listeners, guarded } = $session_listeners;
const { memory } = $connection_memory;
const { Page } = $connection_page;
const { complete } = $connection_options;
const { serversOf } = $connection_servers;
const { Session } = $session_session;
const { Subscription } = $session_subscription;

const SERVERS_MS = 3000; // for the list of servers to come
const TIMER_MS_MAX = 2 ** 31 - 1;



/** Connect, and stay connected until `close()`. @param {any} options @returns {Client} */
function connect(options) {
  return new Client(options);
}

class Client {
  #options;
  #session;
  #connector;
  #listeners = new Listeners();
  /** @type {Map<number, {resolve: (answer: any) => void, reject: (error: Error) => void}>} */
  #waiting = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #timerAt = Infinity;
  #isCarryingOut = false;
  #page;
  #rounds = 0;
  #token = "";
  #closures = 0;
  #requests = new Requests({
    send: (frame) => this.#do((session) => session.command(frame)),
    respond: (patterns) => this.#do((session) => session.respond(patterns)),
    reply: (frame) => this.#do((session) => session.reply(frame)),
    answer: (id) => this.#answer(id),
  });
  #onInterest = (/** @type {string[]} */ _subjects, /** @type {boolean} */ _wanted) => {};

  /** @param {any} options */
  constructor(options) {
    bind(this);
    this.#options = complete(options);
    this.#session = new Session(this.#options, { pick: Math.random, wait: Math.random, via: viaOf, memory });
    this.#connector = new Connector(this.#options, {
      opened: (form) => this.#do((session, now) => session.opened(now, form)),
      refused: (reason, how) => this.#do((session, now) => session.refused(now, reason, how)),
      received: (data) => this.#do((session, now) => session.receive(now, data)),
      closed: (code, reason) => this.#do((session, now) => session.closed(now, code, reason)),
    });
    if (options.onStatus) this.on("status", options.onStatus);
    this.#page = new Page({
      online: () => this.#do((session, now) => session.online(now)),
      returned: () => this.#do((session, now) => session.returned(now)),
      hidden: () => this.#do((session) => session.hidden()),
      shown: () => this.#do((session, now) => session.shown(now)),
    });
    // After this turn, so that the caller's listeners hear "connecting".
    queueMicrotask(() => { if (this.state === "connecting") this.#do((session) => session.start()); });
  }

  /** "connecting", "connected", "disconnected" (for good), "paused" or "closed" */
  get state() {
    return this.#session.state;
  }

  /** The address in use, "" without one. */
  get url() {
    return this.#session.url;
  }

  /** "direct" or "relay" */
  get via() {
    return this.#session.via;
  }

  /** "websocket", "stream" or "poll": what carries the connection or is tried, "" without one. */
  get transport() {
    return this.#session.transport;
  }

  /** The user that the server knows us as; "" for anonymous. */
  get user() {
    return this.#session.user;
  }

  /** Half of the round trip of the last ping, in ms; null before the first. */
  get latency() {
    return this.#session.latency;
  }

  /** @param {string | string[]} subjects @param {(message: any, subscription: any) => void} handler @param {any} [options] */
  subscribe(subjects, handler, options = {}) {
    const list = checkNames(subjects);
    const wanted = checkSubscription(list, options);
    const subscription = new Subscription(list, handler, (self, subjects) => this.#unsubscribe(self, subjects));
    this.#do((session, now) => {
      session.subscribe(subscription, list, wanted);
      session.hurry(now);
    });
    return subscription;
  }

  /** @param {Subscription} subscription @param {string[]} subjects */
  async #unsubscribe(subscription, subjects) {
    const names = checkNames(subjects);
    const ids = this.#do((session) => session.unsubscribe(subscription, names));
    // A connection that is lost meanwhile unsubscribes as well.
    await Promise.allSettled(ids.map((id) => this.#answer(id)));
  }

  /** @param {string} subject @param {string | Uint8Array} content @param {any} [options] @returns {Promise<{epoch: number, seq: number, closure: string}>} */
  async publish(subject, content, options = {}) {
    const { fields = {}, retained = true, qos = "guaranteed", replyTo = "", replace = false, traceparent = "" } = options;
    if (qos !== "guaranteed" && qos !== "standard") throw new TypeError("qos is \"guaranteed\" or \"standard\"");
    const closure = checkClosure(options.closure ?? "") || `js-${++this.#closures}`;
    // It may wait, and go again: what the program does with its buffers meanwhile is no part of it.
    const own = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, copied(value)]));
    const frame = {
      op: "publish", subject, content: copied(content), fields: own, retained: Boolean(retained), qos, reply_to: replyTo,
      closure, replace: Boolean(replace), traceparent,
    };
    return this.#publish(frame, Boolean(options.closure));
  }

  /** @param {string} subject @param {any} [options] @returns {Promise<{epoch: number, seq: number, closure: string}>} */
  async remove(subject, options = {}) {
    const { qos = "guaranteed" } = options;
    if (qos !== "guaranteed" && qos !== "standard") throw new TypeError("qos is \"guaranteed\" or \"standard\"");
    const closure = checkClosure(options.closure ?? "") || `js-${++this.#closures}`;
    const frame = { op: "publish", subject, content: "", fields: {}, retained: true, qos, reply_to: "", closure, removed: true };
    return this.#publish(frame, Boolean(options.closure));
  }

  /** @param {any} frame @param {boolean} isNamed @returns {Promise<{epoch: number, seq: number, closure: string}>} */
  #publish(frame, isNamed) {
    return new Promise((resolve, reject) => {
      const ticket = { resolve, reject, isNamed };
      this.#do((session, now) => {
        session.publish(now, frame, ticket);
        session.hurry(now);
      });
    });
  }

  /**
   * Who is subscribed to a subject; without one: who is online.
   * @param {string} [subject] @returns {Promise<{users: {user: string, connections: number}[], anonymous: number, more: number, stale: boolean}>}
   */
  async presence(subject = "") {
    if (subject !== "") checkName("subject", subject);
    const { users, anonymous = 0, more = 0, stale = false } = await this.#ask({ op: "presence", subject });
    return { users, anonymous, more, stale };
  }

  /**
   * Hear which subjects of these patterns, which this client can publish, anybody is subscribed to.
   * @param {string | string[]} patterns none ends it @param {(subjects: string[], wanted: boolean) => void} [onInterest]
   * @returns {Promise<{pattern: string, error: string, reason: string}[]>} what the server says of each
   */
  async advertise(patterns, onInterest) {
    const list = checkPatterns(patterns);
    if (onInterest) this.#onInterest = onInterest;
    const id = this.#do((session) => session.advertise(list));
    if (id === null) return [];
    const { results } = await this.#answer(id);
    return results.map((/** @type {any} */ { pattern, error = "", reason = "" }) => ({ pattern, error, reason }));
  }

  /**
   * Ask whoever responds to a subject. `timeout` is in ms and counts from now on, also while there is no connection.
   * @param {string} subject @param {string | Uint8Array} content @param {any} [options]
   * @returns {Promise<any>} the reply, or with `replies` above 1 a list of up to so many
   */
  async request(subject, content, options = {}) {
    const { fields = {} } = options;
    const { timeout, replies } = checkRequest(options);
    checkName("subject", subject);
    checkValues(content, fields, subject);
    const began = performance.now();
    await this.#untilConnected(timeout);
    this.#checkConnected(); // by now it may be gone again, and nobody would ever answer
    const left = Math.max(1, Math.floor(timeout - (performance.now() - began)));
    return this.#requests.ask({ op: "request", subject, content, fields, timeout: left, replies });
  }

  /**
   * Answer requests to the subjects of a pattern, as one of all who do.
   * @param {string} pattern @param {(request: any) => any} handler its result is the reply
   * @returns {Promise<{pattern: string, close: () => Promise<void>}>}
   */
  respond(pattern, handler) {
    return this.#requests.respond(pattern, handler);
  }

  /** @param {number} ms */
  async #untilConnected(ms) {
    if (this.state === "connected") return;
    this.#do((session, now) => session.hurry(now));
    let stop = () => {};
    const ended = () => this.state === "disconnected" || this.state === "closed";
    if (!ended()) await new Promise((resolve) => {
      const timer = setTimeout(resolve, Math.min(TIMER_MS_MAX, ms));
      const off = this.on("status", () => { if (this.state === "connected" || ended()) resolve(undefined); });
      stop = () => { clearTimeout(timer); off(); };
    });
    stop();
  }

  /** @param {string} token of the same user; also used from now on where `token` was a string */
  async renew(token) {
    this.#token = checkToken(token);
    if (typeof this.#options.token !== "function") this.#options.token = token;
    if (this.state !== "connected") return { user: this.user };
    const { user, expires } = await this.#ask({ op: "token", token });
    return { user, expires };
  }

  /** Let go of the connection; subscriptions and publications stay, and `resume()` gets what was missed. */
  pause() {
    this.#do((session) => session.pause());
  }

  /** Connect again after `pause()`, or after the server refused for good. */
  resume() {
    this.#do((session) => session.resume());
  }

  /** Do not wait any longer: try now, unless it is connected. Also after `pause()`, or after the server refused for good. */
  reconnect() {
    this.#do((session) => session.reconnect());
  }

  /** End for good. */
  close() {
    this.#page.stop();
    this.#do((session) => session.close());
  }

  /** @param {string} name "status" for everything, or the name of a status @param {(status: any) => void} listener */
  on(name, listener) {
    return this.#listeners.on(name, listener);
  }

  // What the session wants done.

  /**
   * Tell the session something, and carry out what follows from it.
   * @template T @param {(session: Session, now: number) => T} tell @returns {T}
   */
  #do(tell) {
    const result = tell(this.#session, performance.now());
    // A handler that calls the client only adds to what is being carried out.
    if (!this.#isCarryingOut) {
      this.#isCarryingOut = true;
      try {
        for (const { effects } = this.#session; effects.length > 0;) {
          this.#carryOut(/** @type {Effect} */ (effects.shift()));
        }
      } finally {
        this.#isCarryingOut = false;
      }
    }
    this.#arm();
    return result;
  }

  /** @param {Effect} effect */
  #carryOut(effect) {
    switch (effect.type) {
      case "message":
        guarded(() => effect.owner.handler(effect.message, effect.owner));
        break;
      case "send":
        this.#connector.send(effect.data);
        break;
      case "interest":
        guarded(() => this.#onInterest(effect.subjects, effect.wanted));
        break;
      case "asked":
        this.#requests.asked(effect.asked);
        break;
      case "over":
        this.#requests.over(effect.to);
        break;
      case "status":
        this.#emit(effect.status);
        break;
      case "ended":
        this.#ended(effect.result);
        break;
      case "answer":
        this.#settle(effect.id, effect.answer);
        break;
      case "open":
        this.#connector.open(effect.url, effect.transport);
        break;
      case "probe":
        this.#probe(effect);
        break;
      case "drop":
        this.#connector.drop();
        break;
      case "lost":
        this.#lost();
        break;
      case "prepare":
        if (effect.isTokenBad) this.#token = "";
        this.#prepare();
        break;
      case "renew":
        this.#renewExpiring();
        break;
      case "ask":
        this.#lookForUser();
    }
  }

  /** One timer, for what comes first; it may come too early, never too late. */
  #arm() {
    const at = this.#session.nextAt;
    if (at >= this.#timerAt && at !== Infinity) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    if (at === Infinity) return;
    this.#timer = setTimeout(() => {
      this.#timerAt = Infinity;
      this.#do((session, now) => session.tick(now));
    }, Math.min(TIMER_MS_MAX, Math.max(0, Math.ceil(at - performance.now()))));
  }

  /** @param {any} status */
  #emit({ name, ...details }) {
    if (name === "latency") {
      const { ms, serverTime } = details;
      this.#listeners.emit(name, { ms, clockOffsetMs: serverTime - Date.now() });
    } else this.#listeners.emit(name, details);
  }

  /** A publication has its answer, or never gets one. @param {Result} result */
  #ended({ ticket, frame, status, reason, epoch = 0, seq = 0 }) {
    if (status === "ok") ticket.resolve({ epoch, seq, closure: frame.closure });
    else ticket.reject(new RealtimeError(status, reason, frame.subject));
  }

  /** @param {{url: string, transport: string}} effect */
  async #probe({ url, transport }) {
    const works = await this.#connector.probe(url, transport);
    this.#do((session, now) => session.probed(now, url, transport, works));
  }

  // Before each round: the token, and the servers.

  async #prepare() {
    const round = ++this.#rounds;
    const [error] = await Promise.all([this.#fetchToken(), this.#fetchServers(round)]);
    if (round === this.#rounds) this.#do((session, now) => session.prepared(now, this.#token, error));
  }

  /** @returns {Promise<any>} the error, if there is no token to be had */
  async #fetchToken() {
    const source = this.#options.token;
    if (typeof source !== "function") {
      this.#token = source ?? "";
      return null;
    }
    try {
      this.#token = checkToken((await this.#asked("the token", source)) ?? "");
      return null;
    } catch (thrown) {
      const error = errorOf(thrown);
      // Where the web application is away the token at hand still serves; the sidecar says if it does not.
      return this.#token && error.final !== true ? null : error;
    }
  }

  /** The list may have changed since the last round; if it cannot be had, the one at hand serves. @param {number} round */
  async #fetchServers(round) {
    const { serversUrl, servers } = this.#options;
    if (!serversUrl || (round === 1 && servers.length > 0)) return;
    try {
      const found = await (typeof serversUrl === "function" ? this.#asked("the list of servers", serversUrl) : download(serversUrl));
      this.#session.replaceServers(serversOf(found?.servers ?? found));
    } catch (error) {
      this.#listeners.emit("error", { code: "servers", reason: String(error) });
    }
  }

  /** What a function of the program answers, in time: a fetch of before a sleep may never end. @param {string} what @param {() => any} source @returns {Promise<any>} */
  #asked(what, source) {
    return within(1000 * this.#options.tokenSeconds, source(), what);
  }

  /** Whoever was signed out may have signed in, in another tab. */
  async #lookForUser() {
    const token = await this.#asked("the token", async () => this.#options.token()).catch(() => "");
    if (token) this.#do((session) => session.signedIn());
  }

  async #renewExpiring() {
    try {
      await this.renew((await this.#asked("the token", this.#options.token)) ?? "");
    } catch (thrown) {
      const error = errorOf(thrown);
      this.#listeners.emit("error", { code: "bad_token", reason: String(error) });
      // As one who is signed out the client gets none later either.
      if (error.final !== true) this.#do((session, now) => session.notRenewed(now));
    }
  }

  // Answers to commands.

  /** @param {any} frame a command of the live connection @returns {Promise<any>} its answer */
  async #ask(frame) {
    this.#checkConnected();
    return this.#answer(this.#do((session) => session.command(frame)));
  }

  #checkConnected() {
    if (this.state !== "connected") throw new RealtimeError("not_connected", `the client is ${this.state}`);
  }

  /** @param {number} id @returns {Promise<any>} */
  #answer(id) {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** @param {number} id @param {any} answer */
  #settle(id, answer) {
    if (answer.more) return this.#requests.part(id, answer);
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (answer.op === "error") waiting?.reject(new RealtimeError(answer.code, answer.reason));
    else waiting?.resolve(answer);
  }

  #lost() {
    for (const { reject } of this.#waiting.values()) {
      reject(new RealtimeError("unknown", "the connection was lost before the answer came"));
    }
    this.#waiting.clear();
  }
}

/** @template T @param {number} ms @param {T | Promise<T>} value @param {string} what @returns {Promise<T>} */
async function within(ms, value, what) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: no answer within ${ms / 1000} s`)), Math.min(TIMER_MS_MAX, ms));
  });
  try {
    return await Promise.race([value, /** @type {Promise<never>} */ (late)]);
  } finally {
    clearTimeout(timer);
  }
}

/** What was thrown, which may be anything, as an error. @param {any} thrown @returns {Error & {final?: boolean}} */
function errorOf(thrown) {
  if (thrown instanceof Error) return thrown;
  return Object.assign(new Error(String(thrown?.message ?? thrown)), { final: thrown?.final });
}

/** @template T @param {T} value @returns {T} */
function copied(value) {
  return value instanceof Uint8Array ? /** @type {T} */ (/** @type {unknown} */ (new Uint8Array(value))) : value;
}

/** @param {string} url of `/api/servers/` */
async function download(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(SERVERS_MS) });
  if (!response.ok) throw new Error(`${url} answers ${response.status}`);
  return response.json();
}
return { connect, RealtimeError };
})();

export { connect, RealtimeError };
//# sourceMappingURL=client.js.map
