/** What a session wants done by whoever drives it, in its order. */

import { nameOf } from "../wire/closing.js";
import { statusOf } from "./outgoing.js";

/**
 * `prepare`: get a token (a new one where the one at hand is bad) and the list of servers, then call `prepared`.
 * `open`: try this address by this transport. `probe`: find out whether this transport would work, and call `probed`. `drop`: end the attempt or the connection. `lost`: no answer to a command comes any more.
 * `renew`: get a token for the live connection. `ask`: find out whether there is one by now, and call `signedIn`. `interest`: what the program has advertised is wanted, or no more. `asked`: a request for a handler.
 * `over`: nobody waits for that reply any more, with null for any of this connection's. `answer`: to the command of that id. `ended`: a publication has its
 * result.
 * @typedef {{type: "prepare", isTokenBad: boolean} | {type: "open" | "probe", url: string, transport: string} | {type: "drop"} | {type: "lost"}
 *   | {type: "send", data: string | Uint8Array} | {type: "renew"} | {type: "ask"} | {type: "status", status: any}
 *   | {type: "interest", subjects: string[], wanted: boolean} | {type: "message", owner: any, message: any} | {type: "answer", id: number, answer: any}
 *   | {type: "asked", asked: any} | {type: "over", to: string | null}
 *   | {type: "ended", result: import("./outgoing.js").Result}} Effect
 */

/** @extends {Array<Effect>} */
export class Effects extends Array {
  /** @param {string} name @param {Record<string, unknown>} details */
  status(name, details) {
    this.push({ type: "status", status: { name, ...details } });
  }

  /** @param {number} code @param {string} reason @param {any} details */
  disconnected(code, reason, details) {
    this.status("disconnected", { code, codeName: nameOf(code, reason), reason, ...details });
  }

  /** Publications have their results. @param {import("./outgoing.js").Result[]} results */
  ended(results) {
    for (const result of results) {
      this.push({ type: "ended", result });
      if (result.ticket.isNamed) this.push({ type: "status", status: statusOf(result) });
    }
  }
}
