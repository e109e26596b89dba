/** What a session wants done by whoever drives it: types only. */

/**
 * `prepare`: get a token (a new one where the one at hand is bad) and the list of servers, then call `prepared`.
 * `open`: try this address. `drop`: end the attempt or the connection. `lost`: no answer to a command comes any more.
 * `renew`: get a token for the live connection. `answer`: to the command of that id. `ended`: a publication has its
 * result.
 * @typedef {{type: "prepare", isTokenBad: boolean} | {type: "open", url: string} | {type: "drop"} | {type: "lost"}
 *   | {type: "send", data: string | Uint8Array} | {type: "renew"} | {type: "status", status: any}
 *   | {type: "message", owner: any, message: any} | {type: "answer", id: number, answer: any}
 *   | {type: "ended", result: import("./outgoing.js").Result}} Effect
 */

export {};
