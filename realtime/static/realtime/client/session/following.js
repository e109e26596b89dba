/**
 * The subscriptions of a client: how they are asked for, and what the server's answers and messages mean; without I/O or
 * clock (docs/reference/protocol.md 3.2, 3.3, 3.8, 4.2, 4.7, 4.8, 4.13 and 5). wanted.js holds what is wanted.
 */

import {
  NOTHING, WantedList, begin, interrupt, isPattern, isOnly, isPlain, lastOf, read, requests, runs, storedOver, subscribeOf,
} from "./wanted.js";

const RETRY_MS = 1000;
const RETRY_MS_MAX = 30_000;

const STORED = new Set(["snapshot", "historical", "recovered"]);

/** @typedef {import("./wanted.js").Wanted} Wanted */
/** @typedef {import("./wanted.js").Pattern} Pattern */
/** @typedef {import("./wanted.js").Position} Position */
/** @typedef {{type: "message", owner: any, message: any} | {type: "answer", id: number, answer: any}
 *   | {type: "status", status: any} | {type: "retry", subject: string, ms: number}
 *   | {type: "interest", subjects: string[], wanted: boolean}
 *   | {type: "asked", asked: any} | {type: "over", to: string | null}
 *   | {type: "refused", owner: any, subject: string, code: string, reason: string}} Event */

export class Following {
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
   * @param {any} owner @param {string[]} names @param {import("./wanted.js").Options} options
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

  /** @param {import("./wanted.js").Request} request */
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
