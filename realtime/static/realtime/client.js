/**
 * The JavaScript client: `connect()` and what it returns; for browsers, and for Node from 22 on.
 *
 * This file does the I/O: sockets (connector.js), a timer, tokens, promises. What to do when is session.js's to say.
 * docs/develop/javascript.md is its guide.
 */

import { Connector, viaOf } from "./client/connection/connector.js";
import { RealtimeError } from "./client/session/errors.js";
import { Listeners, guarded } from "./client/session/listeners.js";
import { complete } from "./client/connection/options.js";
import { serversOf } from "./client/connection/servers.js";
import { Session } from "./client/session/session.js";
import { Subscription } from "./client/session/subscription.js";

const SERVERS_MS = 3000; // for the list of servers to come
const TIMER_MS_MAX = 2 ** 31 - 1;

export { RealtimeError };

/** Connect, and stay connected until `close()`. @param {any} options @returns {Client} */
export function connect(options) {
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
  #rounds = 0;
  #token = "";
  #closures = 0;
  #onInterest = (/** @type {string[]} */ _subjects, /** @type {boolean} */ _wanted) => {};

  /** @param {any} options */
  constructor(options) {
    this.#options = complete({ WebSocket: globalThis.WebSocket, ...options });
    if (!this.#options.WebSocket) {
      throw new TypeError("there is no WebSocket here: use Node 22 or later, or pass one as the option WebSocket");
    }
    this.#session = new Session(this.#options, { pick: Math.random, wait: Math.random, via: viaOf });
    this.#connector = new Connector(this.#options.form, this.#options.WebSocket, {
      opened: (form) => this.#do((session, now) => session.opened(now, form)),
      refused: (reason) => this.#do((session, now) => session.refused(now, reason)),
      received: (data) => this.#do((session, now) => session.receive(now, data)),
      closed: (code, reason) => this.#do((session, now) => session.closed(now, code, reason)),
    });
    if (options.onStatus) this.on("status", options.onStatus);
    globalThis.addEventListener?.("online", this.#online);
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
    const list = [subjects].flat();
    const since = Array.isArray(options.since) ? Object.fromEntries(list.map((subject) => [subject, options.since]))
      : options.since ?? {};
    const subscription = new Subscription(list, handler, (self, subjects) => this.#unsubscribe(self, subjects));
    const { history = 0, conflation = 0, slow = "close" } = options;
    this.#do((session) => session.subscribe(subscription, list, { history, conflation, slow, since }));
    return subscription;
  }

  /** @param {Subscription} subscription @param {string[]} subjects */
  async #unsubscribe(subscription, subjects) {
    const ids = this.#do((session) => session.unsubscribe(subscription, subjects));
    // A connection that is lost meanwhile unsubscribes as well.
    await Promise.allSettled(ids.map((id) => this.#answer(id)));
  }

  /** @param {string} subject @param {string | Uint8Array} content @param {any} [options] @returns {Promise<{epoch: number, seq: number, closure: string}>} */
  async publish(subject, content, options = {}) {
    const { fields = {}, retained = true, qos = "guaranteed", replyTo = "" } = options;
    if (qos !== "guaranteed" && qos !== "standard") throw new TypeError("qos is \"guaranteed\" or \"standard\"");
    const closure = options.closure ?? `js-${++this.#closures}`;
    const frame = { op: "publish", subject, content, fields, retained: Boolean(retained), qos, reply_to: replyTo, closure };
    return new Promise((resolve, reject) => {
      const ticket = { resolve, reject, isNamed: options.closure !== undefined };
      this.#do((session, now) => session.publish(now, frame, ticket));
    });
  }

  /**
   * Who is subscribed to a subject; without one: who is online.
   * @param {string} [subject] @returns {Promise<{users: {user: string, connections: number}[], anonymous: number, more: number, stale: boolean}>}
   */
  async presence(subject = "") {
    const { users, anonymous = 0, more = 0, stale = false } = await this.#ask({ op: "presence", subject });
    return { users, anonymous, more, stale };
  }

  /**
   * Hear which subjects of these patterns, which this client can publish, anybody is subscribed to.
   * @param {string | string[]} patterns none ends it @param {(subjects: string[], wanted: boolean) => void} [onInterest]
   * @returns {Promise<{pattern: string, error: string, reason: string}[]>} what the server says of each
   */
  async advertise(patterns, onInterest) {
    const list = [patterns].flat();
    if (onInterest) this.#onInterest = onInterest;
    const id = this.#do((session) => session.advertise(list));
    if (id === null) return [];
    const { results } = await this.#answer(id);
    return results.map((/** @type {any} */ { pattern, error = "", reason = "" }) => ({ pattern, error, reason }));
  }

  /** @param {string} token of the same user; also used from now on where `token` was a string */
  async renew(token) {
    this.#token = token;
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

  /** End for good. */
  close() {
    globalThis.removeEventListener?.("online", this.#online);
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
          this.#carryOut(/** @type {import("./client/session/effects.js").Effect} */ (effects.shift()));
        }
      } finally {
        this.#isCarryingOut = false;
      }
    }
    this.#arm();
    return result;
  }

  /** @param {import("./client/session/effects.js").Effect} effect */
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
        this.#connector.open(effect.url);
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

  /** A publication has its answer, or never gets one. @param {import("./client/session/outgoing.js").Result} result */
  #ended({ ticket, frame, status, reason, epoch = 0, seq = 0 }) {
    if (status === "ok") ticket.resolve({ epoch, seq, closure: frame.closure });
    else ticket.reject(new RealtimeError(status, reason, frame.subject));
  }

  #online = () => this.#do((session) => session.online());

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
      this.#token = (await source()) ?? "";
      return null;
    } catch (error) {
      // Where the web application is away the token at hand still serves; the sidecar says if it does not.
      return this.#token && /** @type {any} */ (error).final !== true ? null : error;
    }
  }

  /** The list may have changed since the last round; if it cannot be had, the one at hand serves. @param {number} round */
  async #fetchServers(round) {
    const { serversUrl, servers } = this.#options;
    if (!serversUrl || (round === 1 && servers.length > 0)) return;
    try {
      const found = await (typeof serversUrl === "function" ? serversUrl() : download(serversUrl));
      this.#session.replaceServers(serversOf(found?.servers ?? found));
    } catch (error) {
      this.#listeners.emit("error", { code: "servers", reason: String(error) });
    }
  }

  async #renewExpiring() {
    try {
      await this.renew((await this.#options.token()) ?? "");
    } catch (error) {
      this.#listeners.emit("error", { code: "bad_token", reason: String(error) });
      // As one who is signed out the client gets none later either.
      if (/** @type {any} */ (error).final !== true) this.#do((session, now) => session.notRenewed(now));
    }
  }

  // Answers to commands.

  /** @param {any} frame a command of the live connection @returns {Promise<any>} its answer */
  async #ask(frame) {
    if (this.state !== "connected") throw new RealtimeError("not_connected", `the client is ${this.state}`);
    return this.#answer(this.#do((session) => session.command(frame)));
  }

  /** @param {number} id @returns {Promise<any>} */
  #answer(id) {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** @param {number} id @param {any} answer */
  #settle(id, answer) {
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

/** @param {string} url of `/api/servers/` */
async function download(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(SERVERS_MS) });
  if (!response.ok) throw new Error(`${url} answers ${response.status}`);
  return response.json();
}
