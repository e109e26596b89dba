/**
 * The JavaScript client: `connect()` and what it returns; for browsers, and for Node.
 *
 * This file does the I/O: connections (connector.js), a timer, tokens, promises. What to do when is session.js's to say.
 * docs/develop/javascript.md is its guide.
 */

import { Connector, viaOf } from "./connection/connector.js";
import {
  checkClosure, checkName, checkNames, checkPatterns, checkRequest, checkSubscription, checkToken, checkValues,
} from "./session/arguments.js";
import { bind } from "./session/bound.js";
import { RealtimeError } from "./session/errors.js";
import { Requests } from "./session/requests.js";
import { Listeners, guarded } from "./session/listeners.js";
import { memory } from "./connection/memory.js";
import { Page } from "./connection/page.js";
import { complete } from "./connection/options.js";
import { serversOf } from "./connection/servers.js";
import { Session } from "./session/session.js";
import { Subscription } from "./session/subscription.js";

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
          this.#carryOut(/** @type {import("./session/effects.js").Effect} */ (effects.shift()));
        }
      } finally {
        this.#isCarryingOut = false;
      }
    }
    this.#arm();
    return result;
  }

  /** @param {import("./session/effects.js").Effect} effect */
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

  /** A publication has its answer, or never gets one. @param {import("./session/outgoing.js").Result} result */
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
