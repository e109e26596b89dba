/** The options of a client with their defaults, checked. */

import { SUBPROTOCOLS } from "../wire/codec.js";
import { checkText, checkToken } from "../session/arguments.js";
import { TRANSPORTS } from "./ladder.js";
import { serversOf } from "./servers.js";

const PUBLISHER_CHARS_MAX = 256;

/** What a program may leave out; docs/develop/javascript.md says what each means. */
export const DEFAULTS = {
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
export function complete(options) {
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
