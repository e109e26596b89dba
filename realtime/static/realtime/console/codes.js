/** What codes and statuses mean, in words for people (docs/reference/protocol.md 4.4, 4.12, 7). */

import { isFinal } from "../client/wire/closing.js";
import { gettext } from "../pages/words.js";

/** @type {[code: number, name: string, meaning: string][]} */
export const CLOSE_CODES = [
  [1002, "", gettext("what came is no frame of the protocol")],
  [1006, "", gettext("the connection was lost, or none came about")],
  [1009, "", gettext("a frame passes the bound on messages")],
  [4000, "drain", gettext("the server is stopping: the client goes elsewhere")],
  [4001, "slow_consumer", gettext("the client did not keep up, and the queue for it passed its bound")],
  [4002, "ping_timeout", gettext("no sign of life came")],
  [4003, "handshake_timeout", gettext("no first command came in time")],
  [4004, "internal_error", gettext("a fault of the server, which closed this client only")],
  [4005, "not_ready", gettext("the rights have not arrived from Django yet")],
  [4006, "overloaded", gettext("too many connections, or too little memory")],
  [4007, "token_expired", gettext("the token has ended, or the password was changed: a new one is needed")],
  [4500, "bad_message", gettext("what was sent is no frame of the protocol")],
  [4501, "bad_token", gettext("the token's signature, audience or form is wrong")],
  [4502, "revoked", gettext("signed out, deactivated, or the token was revoked")],
  [4503, "denied", gettext("may not connect or publish here")],
  [4504, "bad_version", gettext("a version of the protocol that the server does not speak")],
  [4505, "too_many_errors", gettext("more than 100 commands were refused")],
  [4506, "closed_by_operator", gettext("disconnected on purpose")],
  [4507, "idle", gettext("no subscription and no command for long")],
];

/** What the client does after a close code. @param {number} code */
export function thenWhat(code) {
  if (code === 4501) return gettext("one new token is tried");
  if (code === 4007) return gettext("a new token, then reconnects");
  return isFinal(code) ? gettext("stays away") : gettext("reconnects");
}

/** @param {number} code */
export function meaningOf(code) {
  return CLOSE_CODES.find(([known]) => known === code)?.[2] ?? "";
}

/** @type {Record<string, string>} */
const REFUSALS = {
  denied: gettext("no rule allows it, or one denies it"),
  limit: gettext("a limit of the server is reached"),
  too_large: gettext("it passes a bound of the server"),
  failed: gettext("it was not stored"),
  unknown: gettext("it may or may not have been stored: the answer is lost"),
  not_ready: gettext("the rights have not arrived from Django yet"),
  queue_full: gettext("too much waits for an answer already"),
  bad_token: gettext("the server does not take the token"),
  not_connected: gettext("there is no connection"),
};

/** What a refusal's status means; "" for an unknown one. @param {string} status */
export function refusalMeans(status) {
  return REFUSALS[status] ?? "";
}
