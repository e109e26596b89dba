/** The close codes of a connection (docs/reference/protocol.md 7). */

/** @type {Record<number, string>} */
const NAMES = {
  4000: "drain", 4001: "slow_consumer", 4002: "ping_timeout", 4003: "handshake_timeout", 4004: "internal_error",
  4005: "not_ready", 4006: "overloaded", 4007: "token_expired", 4500: "bad_message", 4501: "bad_token",
  4502: "revoked", 4503: "denied", 4504: "bad_version", 4505: "too_many_errors", 4506: "closed_by_operator",
  4507: "idle",
};

export const NORMAL = 1000;
export const PROTOCOL_ERROR = 1002;
export const ABNORMAL = 1006;
export const TOO_BIG = 1009;
export const DRAIN = 4000;
export const PING_TIMEOUT = 4002;
export const HANDSHAKE_TIMEOUT = 4003;
export const TOKEN_EXPIRED = 4007;
export const BAD_TOKEN = 4501;
const REVOKED = 4502;
const DENIED = 4503;

/** Whether the server asks not to come back. @param {number} code */
export function isFinal(code) {
  return code >= 4500 && code <= 4999;
}

/** Whether it is the token that the server does not take. @param {number} code */
export function isTokens(code) {
  return code === BAD_TOKEN || code === TOKEN_EXPIRED;
}

/** Whether it is for this user, or this token, that the server does not want us: another's may do. @param {number} code */
export function isUsers(code) {
  return code === BAD_TOKEN || code === REVOKED || code === DENIED;
}

/** A word for a code; "unreachable" where no connection came about. @param {number} code @param {string} reason */
export function nameOf(code, reason) {
  if (code === ABNORMAL) return reason ? "unreachable" : "lost";
  return NAMES[code] ?? (reason.split(":")[0] || "lost");
}
