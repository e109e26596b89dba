/**
 * Publications that are not answered yet, in a bounded queue that outlives connections. No I/O, no clock.
 *
 * A guaranteed publication has a number that rises within this publisher, and goes again under the same number until it
 * is answered: the server stores it once. It gets the number when it is first sent, so that what has to wait again
 * under a new number (the server refused the old one) still comes before what was published after it.
 */

import { checkText, checkValues } from "./arguments.js";
import { RealtimeError } from "./errors.js";

/** How long nothing is sent after the server said "not now". */
const HOLD_MS = 500;

/**
 * `sent` since it was last `refused`, so that it may be stored; `onWire` on this connection; `doubt`: it was sent before
 * and nobody knows what came of that. `until` is the end of its time.
 * @typedef {{frame: any, ticket: any, bytes: number, number: number, sent: boolean, onWire: boolean, refused: boolean,
 *   doubt: boolean, until: number}} Publication
 */
/** @typedef {{ticket: any, frame: any, status: string, reason: string, epoch?: number, seq?: number}} Result */

export class Outgoing {
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
export function statusOf({ frame, status, reason, epoch = 0, seq = 0 }) {
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
