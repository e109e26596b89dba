/** What codes and statuses mean, in words for people (docs/reference/protocol.md 4.4, 4.12, 7). */

import { isFinal } from "../client/wire/closing.js";

/** @type {[code: number, name: string, meaning: string][]} */
export const CLOSE_CODES = [
  [1002, "", "what came is no frame of the protocol"],
  [1006, "", "the connection was lost, or none came about"],
  [1009, "", "a frame passes the bound on messages"],
  [4000, "drain", "the server is stopping: the client goes elsewhere"],
  [4001, "slow_consumer", "the client did not keep up, and the queue for it passed its bound"],
  [4002, "ping_timeout", "no sign of life came"],
  [4003, "handshake_timeout", "no first command came in time"],
  [4004, "internal_error", "a fault of the server, which closed this client only"],
  [4005, "not_ready", "the rights have not arrived from Django yet"],
  [4006, "overloaded", "too many connections, or too little memory"],
  [4007, "token_expired", "the token has ended, or the password was changed: a new one is needed"],
  [4500, "bad_message", "what was sent is no frame of the protocol"],
  [4501, "bad_token", "the token's signature, audience or form is wrong"],
  [4502, "revoked", "signed out, deactivated, or the token was revoked"],
  [4503, "denied", "may not connect or publish here"],
  [4504, "bad_version", "a version of the protocol that the server does not speak"],
  [4505, "too_many_errors", "more than 100 commands were refused"],
  [4506, "closed_by_operator", "disconnected on purpose"],
  [4507, "idle", "no subscription and no command for long"],
];

/** What the client does after a close code. @param {number} code */
export function thenWhat(code) {
  if (code === 4501) return "one new token is tried";
  if (code === 4007) return "a new token, then reconnects";
  return isFinal(code) ? "stays away" : "reconnects";
}

/** @param {number} code */
export function meaningOf(code) {
  return CLOSE_CODES.find(([known]) => known === code)?.[2] ?? "";
}

/** @type {Record<string, string>} */
const REFUSALS = {
  denied: "no rule allows it, or one denies it",
  limit: "a limit of the server is reached",
  too_large: "it passes a bound of the server",
  failed: "it was not stored",
  unknown: "it may or may not have been stored: the answer is lost",
  not_ready: "the rights have not arrived from Django yet",
  queue_full: "too much waits for an answer already",
  bad_token: "the server does not take the token",
  not_connected: "there is no connection",
};

/** What a refusal's status means; "" for an unknown one. @param {string} status */
export function refusalMeans(status) {
  return REFUSALS[status] ?? "";
}
