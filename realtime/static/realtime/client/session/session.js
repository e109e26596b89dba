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

import { ABNORMAL, DRAIN, NORMAL, HANDSHAKE_TIMEOUT, PING_TIMEOUT, PROTOCOL_ERROR, TOO_BIG, isFinal, isTokens, isUsers } from "../wire/closing.js";
import { unsendable } from "./arguments.js";
import { Effects } from "./effects.js";
import { Ladder } from "../connection/ladder.js";
import { Outgoing } from "./outgoing.js";
import { Pings } from "../connection/pings.js";
import { ClientState } from "./protocol.js";
import { Renewal } from "../connection/renewal.js";
import { Retries } from "../connection/retries.js";
import { Rounds } from "../connection/rounds.js";

const OPEN_MS = 2000; // for an address that has another after it
const OPEN_LAST_MS = 10_000;
const ANSWER_MS = 12_000;
const HURRY_MS = 5000; // not more often than that a wait is cut short, however much the program and its user do

/** @typedef {import("../connection/ladder.js").Failure} Failure */

export class Session {
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
  /** the one that is tried @type {import("../connection/servers.js").Server} */
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
   * @param {{pick: () => number, wait: () => number, via: (server: {url: string, weight: number}) => string, memory: import("../connection/ladder.js").Memory}} world draws in [0, 1), what an address is called, and what is remembered of transports
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

  /** @param {number} now @param {import("./protocol.js").Event} event */
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
