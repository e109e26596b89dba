/** Drives the JavaScript client under Node: the protocol of docs/reference/conformance.md, a line in and a line out. */

import { createInterface } from "node:readline";

import { decode, encode } from "../../realtime/static/realtime/client/wire/codec.js";
import { Conversation } from "./run.js";

// Nothing here opens a connection, but the client looks whether it could, and Node has a WebSocket from 22 on.
globalThis.WebSocket ??= /** @type {any} */ (class {});

/** @type {Conversation} */
let conversation;

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(answer(JSON.parse(line))));
}

/** @param {any} asked @returns {any} what the client has done */
function answer(asked) {
  if (asked.do === "recode") return recoded(asked);
  if (asked.do !== "begin") return conversation.step(asked);
  conversation = new Conversation(asked, asked.options.transports);
  return {};
}

/** @param {{ form: "json" | "msgpack", frame: string }} asked */
function recoded({ form, frame }) {
  try {
    const value = decode(form === "json" ? frame : Buffer.from(frame, "hex"), form);
    const bytes = /** @type {Uint8Array} */ (encode(value, "msgpack"));
    return { json: encode(value, "json"), msgpack: Buffer.from(bytes).toString("hex") };
  } catch (error) {
    return { refused: String(error) };
  }
}
