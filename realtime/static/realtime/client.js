/**
 * The JavaScript client: `connect()` and what it returns; for browsers, and for Node from 22 on.
 *
 * This file does the I/O: WebSocket, timers, tokens, the order of addresses. What the frames mean is in protocol.js.
 * docs/javascript.md is its guide.
 */

import { SUBPROTOCOLS } from "./codec.js";
import { Connector } from "./connector.js";
import { RealtimeError } from "./errors.js";
import { Listeners, guarded } from "./listeners.js";
import { BAD_TOKEN, CLOSE_NAMES, ClientState, TOKEN_EXPIRED, isFinal } from "./protocol.js";
import { Subscription } from "./subscription.js";

const PING_MS = 5000;
const SILENCE_MS = 12_000; // two pings without any answer
const BACKOFF_MS_MIN = 200;
const BACKOFF_MS_MAX = 10_000;
const STEADY_MS = 5000; // a connection that stood this long was a good one
const PUBLISH_MS = 10_000;

export { RealtimeError };

/** Connect, and stay connected until `close()`. @param {any} options @returns {Client} */
export function connect(options) {
  return new Client(options);
}

class Client {
  /** "connecting", "connected", "disconnected" (for good), "paused" or "closed" */
  state = "connecting";
  /** the address in use, "" without a connection */
  url = "";
  /** "direct" or "relay" */
  via = "";
  /** half of the round trip of the last ping, in ms; null before the first */
  latency = /** @type {number | null} */ (null);

  #options;
  #connector;
  /** @type {ClientState} */
  #protocol;
  /** @type {any} */
  #socket = null;
  #listeners = new Listeners();
  /** @type {Map<number, {resolve: (answer: any) => void, reject: (error: Error) => void}>} */
  #waiting = new Map();
  /** @type {Set<ReturnType<typeof setTimeout>>} of the connection; they end with it */
  #timers = new Set();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #again;
  /** @type {(() => void)[]} */
  #onceConnected = [];
  /** @type {Set<string>} */
  #retries = new Set();
  #attempt = 0; // tells what belongs to an attempt that was given up
  #failures = 0;
  #freshened = false; // one new token was already tried after bad_token
  #token = "";
  #connectedAt = 0;
  #heardAt = 0;
  #closures = 0;

  /** @param {any} options */
  constructor(options) {
    const urls = [options.urls ?? []].flat().map(String);
    if (urls.length === 0) throw new TypeError("connect() needs urls: [\"ws://HOST:8800/ws\"]");
    this.#options = { form: "msgpack", WebSocket: globalThis.WebSocket, ...options };
    if (!Object.hasOwn(SUBPROTOCOLS, this.#options.form)) throw new TypeError("form is \"json\" or \"msgpack\"");
    if (!this.#options.WebSocket) {
      throw new TypeError("there is no WebSocket here: use Node 22 or later, or pass one as the option WebSocket");
    }
    this.#protocol = new ClientState(this.#options.form);
    this.#connector = new Connector({ ...this.#options, urls }, {
      trying: (url, via) => this.#listeners.emit("connecting", { url, via }),
      opened: (socket, url, via) => this.#opened(socket, url, via),
      failed: (reason) => this.#failed(new Error(reason)),
    });
    if (options.onStatus) this.on("status", options.onStatus);
    globalThis.addEventListener?.("online", this.#online);
    // After this turn, so that the caller's listeners hear "connecting".
    queueMicrotask(() => { if (this.state === "connecting") this.#start(); });
  }

  /** The user that the server knows us as; "" for anonymous. */
  get user() {
    return this.#protocol.user;
  }

  /** @param {string | string[]} subjects @param {(message: any, subscription: any) => void} handler @param {any} [options] */
  subscribe(subjects, handler, options = {}) {
    const list = [subjects].flat();
    const since = Array.isArray(options.since) ? Object.fromEntries(list.map((subject) => [subject, options.since]))
      : options.since ?? {};
    const subscription = new Subscription(list, handler, (self, subjects) => this.#unsubscribe(self, subjects));
    const { history = 0, conflation = 0, slow = "close" } = options;
    this.#protocol.subscribe(subscription, list, { history, conflation, slow, since });
    this.#flush();
    return subscription;
  }

  /** @param {Subscription} subscription @param {string[]} subjects */
  async #unsubscribe(subscription, subjects) {
    const ids = this.#protocol.unsubscribe(subscription, subjects);
    this.#flush();
    // A connection that is lost meanwhile unsubscribes as well.
    await Promise.allSettled(ids.map((id) => this.#answer(id)));
  }

  /** @param {string} subject @param {string | Uint8Array} content @param {any} [options] */
  async publish(subject, content, options = {}) {
    const { fields = {}, retained = true, qos = "guaranteed", replyTo = "" } = options;
    await this.#whenConnected();
    const closure = options.closure ?? `js-${++this.#closures}`;
    const answer = await this.#ask({
      op: "publish", subject, content, fields, retained, qos, reply_to: replyTo, closure,
    });
    if (answer.status !== "ok") throw new RealtimeError(answer.status, answer.reason ?? "", subject);
    return { epoch: answer.epoch ?? 0, seq: answer.seq ?? 0, closure };
  }

  /** @param {string} token of the same user; also used from now on where `token` was a string */
  async renew(token) {
    this.#token = token;
    if (typeof this.#options.token !== "function") this.#options.token = token;
    if (this.state !== "connected") return { user: this.user };
    const { user, expires } = await this.#ask({ op: "token", token });
    return { user, expires };
  }

  /** Let go of the connection; subscriptions stay, and `resume()` gets what was missed. */
  pause() {
    if (this.state === "closed") return;
    this.#drop();
    this.#become("paused");
  }

  /** Connect again after `pause()`, or after the server refused for good. */
  resume() {
    if (this.state !== "paused" && this.state !== "disconnected") return;
    this.#failures = 0;
    this.#freshened = false;
    this.#start();
  }

  /** End for good. */
  close() {
    this.#drop();
    globalThis.removeEventListener?.("online", this.#online);
    this.#become("closed");
  }

  /** @param {string} name "status" for everything, or the name of a status @param {(status: any) => void} listener */
  on(name, listener) {
    return this.#listeners.on(name, listener);
  }

  // Connecting.

  /** Get a token, then the first address that answers. */
  async #start() {
    const attempt = ++this.#attempt;
    clearTimeout(this.#again);
    this.state = "connecting";
    const error = await this.#fetchToken();
    if (attempt !== this.#attempt) return;
    if (error) this.#failed(error);
    else this.#connector.start();
  }

  /** @param {any} socket @param {string} url @param {string} via */
  #opened(socket, url, via) {
    const attempt = this.#attempt;
    const current = (/** @type {(event: any) => void} */ action) => (/** @type {any} */ event) => {
      if (attempt === this.#attempt) action(event);
    };
    socket.onmessage = current((event) => this.#receive(event.data));
    socket.onclose = current((event) => this.#closed(event.code, event.reason));
    this.#socket = socket;
    this.url = url;
    this.via = via;
    this.#heardAt = Date.now();
    this.#protocol.open(this.#token, socket.protocol === SUBPROTOCOLS.msgpack ? "msgpack" : "json");
    this.#flush();
    this.#timer(SILENCE_MS, () => {
      if (this.state !== "connected") this.#closed(4003, "handshake_timeout: no answer from the server");
    });
  }

  /** No connection came about. @param {any} error */
  #failed(error) {
    this.#drop();
    const final = error.final === true;
    this.state = final ? "disconnected" : "connecting";
    const retryMs = final ? 0 : this.#later();
    this.#listeners.emit("disconnected", { code: 1006, codeName: "unreachable", reason: error.message, final, retryMs });
  }

  /** A connection ended. @param {number} code @param {string} reason */
  #closed(code, reason) {
    if (this.#connectedAt && Date.now() - this.#connectedAt > STEADY_MS) this.#failures = 0;
    this.#drop();
    // A fresh token may be what it takes, once.
    const freshen = code === BAD_TOKEN && typeof this.#options.token === "function" && !this.#freshened;
    if (freshen) this.#freshened = true;
    if (freshen || code === TOKEN_EXPIRED) this.#token = "";
    const final = isFinal(code) && !freshen;
    this.state = final ? "disconnected" : "connecting";
    const retryMs = final ? 0 : this.#later();
    const codeName = CLOSE_NAMES[code] ?? (reason.split(":")[0] || "lost");
    this.#listeners.emit("disconnected", { code, codeName, reason, final, retryMs });
  }

  /** Try again after a while, from the first address; full jitter keeps clients from coming all at once. */
  #later() {
    const most = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** this.#failures++);
    const ms = Math.round(Math.random() * most);
    this.#again = setTimeout(() => this.#start(), ms);
    return ms;
  }

  #online = () => {
    if (this.state === "connecting" && !this.#socket) this.#start();
  };

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

  /** Give up the connection or the attempt. */
  #drop() {
    this.#attempt++;
    this.#connector.stop();
    clearTimeout(this.#again);
    for (const timer of this.#timers) clearTimeout(timer);
    this.#timers.clear();
    this.#retries.clear();
    const socket = this.#socket;
    this.#socket = null;
    this.#protocol.lose();
    this.#connectedAt = 0;
    this.url = this.via = "";
    this.latency = null;
    socket?.close(1000);
    for (const { reject } of this.#waiting.values()) {
      reject(new RealtimeError("unknown", "the connection was lost before the answer came"));
    }
    this.#waiting.clear();
  }

  // A connection.

  /** @param {string | ArrayBuffer} data */
  #receive(data) {
    this.#heardAt = Date.now();
    let events;
    try {
      events = this.#protocol.receive(typeof data === "string" ? data : new Uint8Array(data));
    } catch (error) {
      this.#listeners.emit("error", { code: "bad_message", reason: String(error) });
      this.#closed(1002, "bad_message: the server sent what is no frame of this protocol");
      return;
    }
    this.#flush();
    const attempt = this.#attempt;
    for (const event of events) {
      // A handler may have paused or closed the client.
      if (attempt !== this.#attempt) return;
      this.#happen(event);
    }
  }

  /** @param {import("./protocol.js").Event} event */
  #happen(event) {
    switch (event.type) {
      case "message":
        guarded(() => event.owner.handler(event.message, event.owner));
        break;
      case "answer":
        if (event.answer.op === "connected") this.#connected(event.answer);
        else if (event.answer.op === "error") {
          this.#settle(event.id)?.reject(new RealtimeError(event.answer.code, event.answer.reason));
        } else this.#settle(event.id)?.resolve(event.answer);
        break;
      case "status":
        this.#listeners.emit(event.status.name, event.status);
        if (event.status.name === "expiring") this.#renewExpiring();
        break;
      case "retry":
        this.#retryLater(event.subject, event.ms);
        break;
      case "refused":
        this.#listeners.emit("refused", { subject: event.subject, code: event.code, reason: event.reason });
    }
  }

  /** @param {any} answer */
  #connected(answer) {
    this.state = "connected";
    this.#connectedAt = Date.now();
    this.#freshened = false;
    this.#listeners.emit("connected", { url: this.url, via: this.via, user: answer.user ?? "", server: answer.server });
    for (const go of this.#onceConnected.splice(0)) go();
    this.#ping();
  }

  /** Measure the latency, and notice a connection that is dead. */
  async #ping() {
    this.#timer(PING_MS, () => {
      if (Date.now() - this.#heardAt > SILENCE_MS) this.#closed(4002, "ping_timeout: no sign of life from the server");
      else this.#ping();
    });
    const start = performance.now();
    try {
      const { time } = await this.#ask({ op: "ping" });
      this.latency = (performance.now() - start) / 2;
      // The server's clock was read half a round trip ago.
      this.#listeners.emit("latency", { ms: this.latency, clockOffsetMs: time + this.latency - Date.now() });
    } catch {
      // The connection is gone, and whoever listens has been told.
    }
  }

  async #renewExpiring() {
    const source = this.#options.token;
    if (typeof source !== "function") return;
    try {
      await this.renew((await source()) ?? "");
    } catch (error) {
      this.#listeners.emit("error", { code: "bad_token", reason: String(error) });
    }
  }

  /** Subjects that are answered "not yet" together are asked for together. @param {string} subject @param {number} ms */
  #retryLater(subject, ms) {
    this.#retries.add(subject);
    if (this.#retries.size > 1) return;
    this.#timer(ms, () => {
      const subjects = [...this.#retries];
      this.#retries.clear();
      this.#protocol.retry(subjects);
      this.#flush();
    });
  }

  /** @param {any} frame @returns {Promise<any>} */
  #ask(frame) {
    const id = this.#protocol.command(frame);
    this.#flush();
    return this.#answer(id);
  }

  /** @param {number} id @returns {Promise<any>} */
  #answer(id) {
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  /** @param {number} id */
  #settle(id) {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }

  #whenConnected() {
    if (this.state === "connected") return Promise.resolve();
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new RealtimeError("failed", "not connected")), PUBLISH_MS);
      this.#onceConnected.push(() => { clearTimeout(timer); resolve(undefined); });
    });
  }

  #flush() {
    for (const frame of this.#protocol.takeOut()) this.#socket?.send(frame);
  }

  /** @param {number} ms @param {() => void} action */
  #timer(ms, action) {
    const timer = setTimeout(() => { this.#timers.delete(timer); action(); }, ms);
    this.#timers.add(timer);
  }

  /** @param {string} state */
  #become(state) {
    this.state = state;
    this.#listeners.emit(state, {});
  }
}
