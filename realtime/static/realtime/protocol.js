/**
 * The protocol as a client sees it, without I/O or clock: frames in, events and frames out (docs/protocol.md 3 to 5, 7).
 *
 * The state outlives connections: `open()` begins one, `lose()` ends it. It knows which subjects are wanted, how far
 * each was read, and how to ask for what is missing. What is to be sent gathers in `out`.
 */

import { decode, encode } from "./codec.js";

export const CLIENT = "js/1";

/** Half of what a server takes, so that a command with positions stays within its frame. */
const SUBJECTS_PER_COMMAND = 500;
const RETRY_MS = 1000;
const RETRY_MS_MAX = 30_000;

const STORED = new Set(["snapshot", "historical", "recovered"]);

/** @typedef {import("./codec.js").Form} Form */
/** @typedef {[epoch: number, seq: number]} Position */
/**
 * One wanted subject. While it is `lagging` gaps are no fault (5.3). `position` is the last that was read; while `stored` messages are still to come it lags behind
 * `target`, where live messages begin, so that a connection lost between them misses nothing. While it is `refused` it
 * waits for a right, and it was asked for again `retries` times.
 * @typedef {{subject: string, owner: any, history: number, conflation: number, slow: string, position: Position | null,
 *   asked: number, live: boolean, lagging: boolean, sid: number, epoch: number, stored: number, target: Position | null,
 *   refused: boolean, retries: number}} Wanted
 */
/** @typedef {{type: "message", owner: any, message: any} | {type: "answer", id: number, answer: any}
 *   | {type: "status", status: any} | {type: "retry", subject: string, ms: number}
 *   | {type: "refused", owner: any, subject: string, code: string, reason: string}} Event */

export class ClientState {
  /** @type {Map<string, Wanted>} */
  subscriptions = new Map();
  /** @type {(string | Uint8Array)[]} */
  out = [];
  user = "";
  #base = 0;
  #id = 0;
  #open = false;
  #hasBeenOpen = false;
  /** @type {Set<Wanted>} that a reconnection has asked for from where they were, and that are not answered yet */
  #behind = new Set();
  #recovered = 0; // how many of them go on with nothing missed; NaN when one does not
  /** @type {Map<number, Wanted>} */
  #sids = new Map();
  /** @type {Map<number, Wanted[]>} */
  #asked = new Map();

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
    this.#open = true;
    this.#send({ op: "connect", id: this.#next(), token, client: CLIENT, publisher: this.publisher });
    const wanted = [...this.subscriptions.values()];
    this.#behind = new Set(this.#hasBeenOpen ? wanted.filter((each) => each.position) : []);
    this.#recovered = 0;
    this.#hasBeenOpen = true;
    this.#ask(wanted);
  }

  /** The connection is gone; ids of subjects and commands mean nothing any more. */
  lose() {
    this.out = [];
    this.#open = false;
    this.#sids.clear();
    this.#asked.clear();
    for (const wanted of this.subscriptions.values()) Object.assign(wanted, { live: false, lagging: false, sid: -1 });
  }

  /** @returns {(string | Uint8Array)[]} what is to be sent now */
  takeOut() {
    const frames = this.out;
    this.out = [];
    return frames;
  }

  // Commands. Those that are answered return their id.

  /**
   * Want subjects for an owner; one that another owner had is taken over (3.2).
   * @param {any} owner @param {string[]} subjects
   * @param {{history: number, conflation: number, slow: string, since: Record<string, Position>}} options
   */
  subscribe(owner, subjects, options) {
    const added = [];
    for (const subject of subjects) {
      const old = this.subscriptions.get(subject);
      if (old) this.#unmap(old);
      if (old) this.#behind.delete(old);
      /** @type {Wanted} */
      const wanted = {
        subject, owner, history: options.history, conflation: options.conflation, slow: options.slow,
        position: Object.hasOwn(options.since, subject) ? options.since[subject] : null,
        asked: 0, live: false, lagging: false, sid: -1, epoch: 0, stored: 0, target: null, refused: false, retries: 0,
      };
      this.subscriptions.set(subject, wanted);
      added.push(wanted);
    }
    this.#ask(added);
  }

  /** Want subjects no more. @param {any} owner @param {string[]} subjects @returns {number[]} ids of the commands */
  unsubscribe(owner, subjects) {
    const gone = subjects.filter((subject) => this.subscriptions.get(subject)?.owner === owner);
    for (const subject of gone) this.#forget(/** @type {Wanted} */ (this.subscriptions.get(subject)));
    const ids = [];
    for (let start = 0; this.#open && start < gone.length; start += SUBJECTS_PER_COMMAND) {
      ids.push(this.#next());
      this.#send({ op: "unsubscribe", id: ids.at(-1), subjects: gone.slice(start, start + SUBJECTS_PER_COMMAND) });
    }
    return ids;
  }

  /** Any other command: publish, token, ping. @param {any} frame without its id @returns {number} its id */
  command(frame) {
    const id = this.#next();
    this.#send({ ...frame, id });
    return id;
  }

  /** Ask again for subjects whose answer was "not yet". @param {string[]} subjects */
  retry(subjects) {
    const wanted = subjects.map((subject) => this.subscriptions.get(subject));
    this.#ask(wanted.filter((each) => each !== undefined && !each.live));
  }

  // What arrives.

  /** Take in one frame. @param {string | Uint8Array} data @returns {Event[]} Throws BadFrame. */
  receive(data) {
    const frame = decode(data, this.form);
    switch (frame.op) {
      case "message": return this.#message(frame);
      case "connected":
        this.user = frame.user ?? "";
        this.#base = frame.base;
        return [{ type: "answer", id: frame.id, answer: frame }];
      case "base":
        this.#base = frame.base;
        return [];
      case "subscribed":
        if (frame.id !== undefined) this.#asked.delete(frame.id);
        return [
          ...frame.results.flatMap((/** @type {any} */ result) => this.#result(frame.id, result)), ...this.#synchronised(),
        ];
      case "epoch":
        return this.#newEpoch(frame);
      case "revoked":
        return frame.subjects.flatMap((/** @type {string} */ subject) => this.#revoked(subject, frame.reason));
      case "lagging":
      case "caught_up":
        return this.#lagging(frame.sids, frame.op === "lagging");
      case "expiring": return [status("expiring", { expires: frame.expires })];
      case "notice": return [status("notice", { code: frame.code, reason: frame.text, servers: serversOf(frame) })];
      case "error": return this.#error(frame);
      default: return typeof frame.id === "number" ? [{ type: "answer", id: frame.id, answer: frame }] : [];
    }
  }

  /** @param {any} frame @returns {Event[]} */
  #message(frame) {
    const wanted = this.#sids.get(frame.sid);
    if (!wanted) return [];
    const kind = frame.meta.kind ?? "update";
    // Until it is answered again, only what has no place in the order may come.
    if (!wanted.live && (frame.seq || STORED.has(kind))) return [];
    if (STORED.has(kind)) {
      if (kind === "recovered" && seen(wanted, frame.seq)) return [];
      if (kind !== "snapshot" && frame.seq) wanted.position = [wanted.epoch, frame.seq];
      wanted.stored -= 1;
      if (wanted.stored <= 0) storedOver(wanted);
    } else if (frame.seq) {
      if (wanted.stored) storedOver(wanted);
      if (seen(wanted, frame.seq)) return [];
      const last = wanted.position;
      const whole = !wanted.conflation && !wanted.lagging;
      if (whole && last && frame.seq > last[1] + 1) return this.#gap(wanted, last, frame.seq);
      wanted.position = [wanted.epoch, frame.seq];
    }
    return [{ type: "message", owner: wanted.owner, message: this.#read(frame, wanted, kind) }];
  }

  /** @param {any} frame @param {Wanted} wanted @param {string} kind */
  #read(frame, wanted, kind) {
    const meta = frame.meta;
    return {
      subject: wanted.subject, content: frame.content, fields: frame.fields, epoch: frame.seq ? wanted.epoch : 0,
      seq: frame.seq, time: this.#base + frame.t, kind, retained: meta.retained ?? true,
      qos: frame.seq ? "guaranteed" : "standard", replyTo: meta.reply_to ?? "", closure: meta.closure ?? "",
      asOf: meta.as_of ?? null,
    };
  }

  /** Messages are missing: ask again from the last that was read (5.3). @param {Wanted} wanted @param {Position} last @param {number} seq @returns {Event[]} */
  #gap(wanted, last, seq) {
    this.#ask([wanted]);
    return [status("gap", { subject: wanted.subject, reason: `${last[1]} was followed by ${seq}` })];
  }

  /** @param {number | undefined} id @param {any} result @returns {Event[]} */
  #result(id, result) {
    const { subject, error, reason = "" } = result;
    const wanted = this.subscriptions.get(subject);
    if (!wanted || (id !== undefined && id !== wanted.asked)) return [];
    if (error === "denied") return this.#denied(wanted, reason);
    if (error && result.retry_ms !== undefined || error === "not_ready") return this.#notReady(wanted, reason, result.retry_ms);
    if (error) {
      this.#forget(wanted);
      return [{ type: "refused", owner: wanted.owner, subject, code: error, reason }];
    }
    if (result.sid === undefined) return [];
    const wasRefused = wanted.refused;
    this.#begin(wanted, result);
    const { recovery = "" } = result;
    if (this.#behind.delete(wanted)) this.#recovered += recovery === "recovered" ? 1 : NaN;
    const told = [status("subscribed", { subject, recovery })];
    if (recovery === "resynchronised") told.push(status("resynchronised", { subject }));
    return id === undefined && wasRefused ? [status("granted", { subject, recovery }), ...told] : told;
  }

  /** A good result: the subject is live. @param {Wanted} wanted @param {any} result */
  #begin(wanted, result) {
    this.#unmap(wanted);
    wanted.sid = result.sid;
    this.#sids.set(result.sid, wanted);
    Object.assign(wanted, { live: true, lagging: false, refused: false, retries: 0 });
    wanted.epoch = result.epoch ?? 0;
    if (wanted.conflation) wanted.conflation = result.conflation ?? 0;
    wanted.target = result.seq === undefined ? null : [wanted.epoch, result.seq];
    wanted.stored = result.messages ?? 0;
    if (!wanted.stored) storedOver(wanted);
  }

  /** It waits for a right, with the server. @param {Wanted} wanted @param {string} reason @returns {Event[]} */
  #denied(wanted, reason) {
    wanted.refused = true;
    this.#behind.delete(wanted);
    return [status("denied", { subject: wanted.subject, reason })];
  }

  /** The server may start it by itself; until then it is asked for again, later and later. @param {Wanted} wanted @param {string} reason @param {number} [retryMs] @returns {Event[]} */
  #notReady(wanted, reason, retryMs = RETRY_MS) {
    const { subject } = wanted;
    wanted.refused = true;
    const ms = Math.min(RETRY_MS_MAX, retryMs * 2 ** wanted.retries++);
    return [status("notReady", { subject, reason, retryMs: ms }), { type: "retry", subject, ms }];
  }

  /** Once, when a reconnection has lost nothing of any subject. @returns {Event[]} */
  #synchronised() {
    if (this.#behind.size > 0 || !(this.#recovered > 0)) return [];
    this.#recovered = 0;
    return [status("synchronised", {})];
  }

  /** The subject goes on in a new epoch (4.8). @param {any} frame @returns {Event[]} */
  #newEpoch(frame) {
    const wanted = this.#sids.get(frame.sid);
    if (!wanted) return [];
    const { subject } = wanted;
    const last = wanted.target ?? wanted.position;
    wanted.epoch = frame.epoch;
    // The number goes on over epochs; what was read above it is void.
    if (wanted.position) wanted.position = [frame.epoch, Math.min(wanted.position[1], frame.seq)];
    if (wanted.target) wanted.target = [frame.epoch, Math.min(wanted.target[1], frame.seq)];
    if (!last || last[1] === frame.seq) return [];
    if (last[1] < frame.seq) return this.#gap(wanted, last, frame.seq + 1);
    return [status("subscribed", { subject, recovery: "resynchronised" }), status("resynchronised", { subject })];
  }

  /** Subscriptions are conflated from here on, or no more (4.13). @param {number[]} sids @param {boolean} lagging @returns {Event[]} */
  #lagging(sids, lagging) {
    return sids.flatMap((sid) => {
      const wanted = this.#sids.get(sid);
      if (!wanted) return [];
      wanted.lagging = lagging;
      return [status(lagging ? "lagging" : "caughtUp", { subject: wanted.subject })];
    });
  }

  /** @param {string} subject @param {string} reason @returns {Event[]} */
  #revoked(subject, reason) {
    const wanted = this.subscriptions.get(subject);
    if (!wanted) return [];
    this.#unmap(wanted);
    this.#behind.delete(wanted);
    Object.assign(wanted, { live: false, lagging: false, position: null, target: null, stored: 0, refused: true });
    return [status("revoked", { subject, reason })];
  }

  /** @param {any} frame @returns {Event[]} */
  #error(frame) {
    const asked = this.#asked.get(frame.id);
    if (!asked) {
      return frame.id === undefined ? [status("error", { code: frame.code, reason: frame.reason })]
        : [{ type: "answer", id: frame.id, answer: frame }];
    }
    this.#asked.delete(frame.id);
    return asked.filter((wanted) => wanted.asked === frame.id).map((wanted) => {
      this.#forget(wanted);
      return { type: "refused", owner: wanted.owner, subject: wanted.subject, code: frame.code, reason: frame.reason };
    });
  }

  // Inside.

  /** Send subscribe commands; subscriptions with the same options share one. @param {Iterable<Wanted | undefined>} subscriptions */
  #ask(subscriptions) {
    if (!this.#open) return;
    /** @type {Map<string, Wanted[]>} */
    const groups = new Map();
    for (const wanted of subscriptions) {
      if (!wanted) continue;
      // Whoever knows a position gets what follows it, not the history before it once more.
      const key = JSON.stringify([wanted.position ? 0 : wanted.history, wanted.conflation, wanted.slow]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key)?.push(wanted);
    }
    for (const [key, members] of groups) {
      const [history, conflation, slow] = JSON.parse(key);
      for (let start = 0; start < members.length; start += SUBJECTS_PER_COMMAND) {
        const some = members.slice(start, start + SUBJECTS_PER_COMMAND);
        const id = this.#next();
        this.#asked.set(id, some);
        /** @type {Record<string, Position>} */
        const since = {};
        for (const wanted of some) {
          Object.assign(wanted, { asked: id, live: false });
          if (wanted.position) since[wanted.subject] = wanted.position;
        }
        this.#send({ op: "subscribe", id, subjects: some.map((each) => each.subject), history, conflation, slow, since });
      }
    }
  }

  /** @param {Wanted} wanted */
  #forget(wanted) {
    this.#unmap(wanted);
    this.#behind.delete(wanted);
    if (this.subscriptions.get(wanted.subject) === wanted) this.subscriptions.delete(wanted.subject);
  }

  /** A subject's id means it no more; by now the id may be another's. @param {Wanted} wanted */
  #unmap(wanted) {
    if (this.#sids.get(wanted.sid) === wanted) this.#sids.delete(wanted.sid);
    wanted.sid = -1;
  }

  /** @param {any} frame */
  #send(frame) {
    this.out.push(encode(frame, this.form));
  }

  #next() {
    return ++this.#id;
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

/** Positions are ordered by epoch, then by number. @param {Wanted} wanted @param {number} seq */
function seen({ position, epoch }, seq) {
  return position !== null && (epoch < position[0] || (epoch === position[0] && seq <= position[1]));
}

/** All stored messages have come: live ones begin. @param {Wanted} wanted */
function storedOver(wanted) {
  wanted.stored = 0;
  if (wanted.target) wanted.position = wanted.target;
  wanted.target = null;
}
