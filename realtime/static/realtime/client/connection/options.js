/** The options of a client with their defaults, checked. */

import { SUBPROTOCOLS } from "../wire/codec.js";
import { serversOf } from "./servers.js";

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
};

/** @param {any} options as given to `connect()` @returns {any} with all defaults, and `servers`. Throws TypeError. */
export function complete(options) {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const all = /** @type {any} */ ({ publisher: newPublisher(), ...DEFAULTS, ...given });
  for (const [name, value] of Object.entries(DEFAULTS)) {
    if (typeof value === "number" && !(all[name] >= 0)) throw new TypeError(`${name} is a number of 0 or more`);
  }
  if (!Object.hasOwn(SUBPROTOCOLS, all.form)) throw new TypeError("form is \"json\" or \"msgpack\"");
  const servers = serversOf(all.urls);
  if (servers.length === 0 && !all.serversUrl) {
    throw new TypeError("connect() needs urls: [\"ws://HOST:8800/ws\"], or a serversUrl");
  }
  return { ...all, servers };
}

/** A name that nobody else has: numbers of publications count within it. */
function newPublisher() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
