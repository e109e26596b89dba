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
export function pack(value) {
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
export function unpack(bytes) {
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
