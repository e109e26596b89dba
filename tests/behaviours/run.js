/** Runs one case of the behaviour table over the JavaScript client's state machine (README.md says how cases read). */

import { complete } from "../../realtime/static/realtime/client/connection/options.js";
import { Session } from "../../realtime/static/realtime/client/session/session.js";

const IGNORED = new Set(["connecting", "latency"]);
const ANSWERS = { subscribed: "subscribe", unsubscribed: "unsubscribe", published: "publish", renewed: "token", connected: "connect", advertised: "advertise", responding: "respond" };
const EXPECTATIONS = ["connect", "sent", "statuses", "messages", "interest", "asked", "over", "results", "wait", "closes", "probes"];

/** @param {any} test @param {string[]} transports where the case does not say @returns {string[]} what was otherwise than the case says */
export function run(test, transports) {
  const conversation = new Conversation(test, transports);
  const problems = [];
  for (const [index, step] of test.steps.entries()) {
    const seen = conversation.step(step);
    seen.sent = seen.sent?.map((/** @type {any} */ { id, client, ...rest }) => rest);
    for (const key of EXPECTATIONS) {
      if (!agrees(key, step[key], seen[key])) {
        problems.push(`step ${index} (${step.do}): ${key} is ${JSON.stringify(seen[key])}, not ${JSON.stringify(step[key])}`);
      }
    }
  }
  return problems;
}

/** One case: `step` does what a step says, and answers what the client did. */
export class Conversation {
  #now = 0;
  #tokens;
  #waiting = false;
  #standing = false;
  /** @type {any[]} all commands on this connection */
  #commands = [];

  /** @param {any} test @param {string[]} transports */
  constructor(test, transports) {
    const given = Object.fromEntries(Object.entries(test.options ?? {}).map(([key, value]) => [camel(key), value]));
    this.#tokens = given.tokens ? [...given.tokens] : null;
    const options = /** @type {any} */ ({ urls: ["ws://a/ws"], publisher: "p", transports, ...given, form: "json" });
    const known = new Map(Object.entries(test.remembered ?? {}).map(([url, [transport, seconds]]) =>
      [url, { transport, until: 1000 * seconds, tries: 0 }]));
    const memory = {
      load: (/** @type {string} */ url) => known.get(url) ?? null,
      save: (/** @type {string} */ url, /** @type {any} */ remembered) => remembered ? known.set(url, remembered) : known.delete(url),
    };
    this.pinned = options.transports.length === 1;
    if (this.#tokens) options.token = () => "";
    const draws = (/** @type {number[]} */ list = []) => { const left = [...list]; return () => left.shift() ?? 0.5; };
    this.session = new Session(complete(options), {
      pick: draws(test.picks), wait: draws(test.waits), via: () => "direct", memory,
    });
    this.fixedToken = options.token ?? "";
  }

  /** @param {any} step @returns {any} what the client did */
  step(step) {
    this.seen = /** @type {any} */ ({});
    this.#act(step);
    this.#settle();
    const { seen } = this;
    if (seen.connect?.length === 1) seen.connect = seen.connect[0];
    return seen;
  }

  /** @param {any} step */
  #act(step) {
    const { session } = this;
    switch (step.do) {
      case "start": return session.start();
      case "open": return this.#open();
      case "up":
        this.#open();
        return this.#receive({
          op: "connected", id: "last", server: "s", epoch: 1, user: step.user ?? "", time: 0, base: 0, ping_ms: 25_000,
          expires: step.expires,
        });
      case "refuse": return session.refused(this.#now, "it does not open", step.how ?? "unreachable");
      case "close":
        this.#standing = false;
        return session.closed(this.#now, step.code, step.reason ?? "");
      case "silence":
        this.#standing = false;
        return session.closed(this.#now, 1006, "no answer", "silent");
      case "probed": return session.probed(this.#now, this.session.url, step.transport, step.works);
      case "network": return session.online(this.#now);
      case "frame": return this.#receive(step.frame);
      case "subscribe": {
        const { history = 0, conflation = 0, slow = "close", since = {} } = step;
        return session.subscribe(this.#owner(step), step.subjects, { history, conflation, slow, since });
      }
      case "unsubscribe": return session.unsubscribe(this.#owner(step), step.subjects);
      case "advertise": return session.advertise(step.patterns);
      case "respond": return session.respond(step.patterns);
      case "publish": {
        const { subject, content = "x", fields = {}, retained = true, qos = "guaranteed", closure } = step;
        const { replace = false, removed = false } = step;
        const frame = { op: "publish", subject, content, fields, retained, qos, reply_to: "", closure, replace, removed };
        return session.publish(this.#now, frame, { isNamed: true });
      }
      case "renew": return session.command({ op: "token", token: step.token });
      case "hurry": return session.hurry(this.#now);
      case "return": return session.returned(this.#now);
      case "reconnect": return session.reconnect();
      case "hide": return session.hidden();
      case "show": return session.shown(this.#now);
      case "pause": return session.pause();
      case "resume": return session.resume();
      case "end": return session.close();
      case "servers": return session.replaceServers(step.servers);
      case "pass": return this.#pass(1000 * step.seconds);
      default: throw new Error(`no such step: ${step.do}`);
    }
  }

  #open() {
    this.#standing = true;
    this.#commands = [];
    this.session.opened(this.#now, "json");
    this.#settle();
  }

  /** @param {any} frame */
  #receive(frame) {
    this.session.receive(this.#now, JSON.stringify(Array.isArray(frame) ? frame : this.#addressed(frame)));
  }

  /** The frame with the id of the command that it answers. @param {any} frame */
  #addressed(frame) {
    const op = /** @type {any} */ (ANSWERS)[frame.op];
    if (frame.op === "published") {
      return { ...frame, id: this.#commands.findLast((each) => each.op === op && each.closure === frame.closure).id };
    }
    if (typeof frame.id !== "string") return frame;
    const commands = this.#commands.filter((each) => each.op !== "ping" && (frame.op === "error" || each.op === op));
    return { ...frame, id: commands.at(Number(frame.id.slice("last".length)) - 1).id };
  }

  /** @param {number} ms */
  #pass(ms) {
    const end = this.#now + ms;
    while (this.session.nextAt <= end) {
      this.#now = Math.max(this.#now, this.session.nextAt);
      this.session.tick(this.#now);
      this.#settle();
    }
    this.#now = end;
  }

  /** Carry out what the session wants. */
  #settle() {
    for (const { effects } = this.session; effects.length > 0;) this.#note(/** @type {any} */ (effects.shift()));
  }

  /** @param {any} effect */
  #note(effect) {
    switch (effect.type) {
      case "prepare": return this.session.prepared(this.#now, this.#nextToken());
      case "renew": return this.#renew(this.#nextToken());
      case "ask": return this.#nextToken() ? this.session.signedIn() : undefined;
      case "open": {
        const isPlain = this.pinned || effect.transport === "websocket";
        return this.#see("connect", isPlain ? effect.url : `${effect.transport} ${effect.url}`);
      }
      case "probe": return this.#see("probes", effect.transport);
      case "drop":
        if (this.#standing) this.seen.closes = true;
        this.#standing = false;
        return;
      case "send": return this.#sent(JSON.parse(effect.data));
      case "message": return this.#see("messages", { ...effect.message, to: effect.owner });
      case "interest": return this.#see("interest", { subjects: effect.subjects, wanted: effect.wanted });
      case "asked": return this.#see("asked", effect.asked);
      case "over": return this.#see("over", { to: effect.to });
      case "ended": {
        const { frame, status, epoch, seq } = effect.result;
        return this.#see("results", { closure: frame.closure, status, epoch, seq });
      }
      case "status": return this.#status(effect.status);
    }
  }

  /** A token that is null cannot be had. @param {string | null} token */
  #renew(token) {
    if (token === null) this.session.notRenewed(this.#now);
    else this.session.command({ op: "token", token });
  }

  /** @param {any} step */
  #owner({ to = "owner" }) {
    return to;
  }

  /** @param {any} command */
  #sent(command) {
    this.#commands.push(command);
    if (command.op === "ping") {
      this.#receive({ op: "pong", id: command.id, time: 0 });
      return;
    }
    this.#see("sent", command);
  }

  /** @param {any} status */
  #status({ name, ...details }) {
    if (IGNORED.has(name)) return;
    const { recovery, retryMs, ...rest } = details;
    if (retryMs !== undefined) rest.retry_seconds = retryMs / 1000;
    if (name === "disconnected" && retryMs > 0) this.seen.wait = retryMs / 1000;
    // In the table one name says how a subscription goes on.
    if (name === "subscribed" && recovery === "resynchronised") return;
    this.#see("statuses", { ...rest, name: name === "subscribed" && recovery ? recovery : snake(name) });
  }

  /** @param {string} key @param {any} what */
  #see(key, what) {
    (this.seen[key] ??= []).push(what);
  }

  #nextToken() {
    if (!this.#tokens) return this.fixedToken;
    return this.#tokens.length > 1 ? this.#tokens.shift() : this.#tokens[0];
  }
}

/** @param {string} key @param {any} wanted @param {any} found */
function agrees(key, wanted, found) {
  if (wanted === undefined || found === undefined) return wanted === found;
  if (key === "wait") return Math.abs(wanted - found) <= 0.001;
  if (key === "sent") return same(wanted, found);
  if (!Array.isArray(wanted)) return same(wanted, found);
  return wanted.length === found.length && wanted.every((each, index) => holds(each, found[index]));
}

/** Whether each key of one is in the other. @param {any} part @param {any} whole */
function holds(part, whole) {
  if (typeof part !== "object") return part === whole;
  return Object.entries(part).every(([key, value]) => same(value, whole[key]));
}

/** @param {any} one @param {any} other @returns {boolean} */
function same(one, other) {
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null) return one === other;
  const keys = Object.keys(one);
  return Array.isArray(one) === Array.isArray(other) && keys.length === Object.keys(other).length
    && keys.every((key) => Object.hasOwn(other, key) && same(one[key], other[key]));
}

/** @param {string} name */
function camel(name) {
  return name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
}

/** @param {string} name */
function snake(name) {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
