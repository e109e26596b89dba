// Publishes and subscribes over plain HTTP with Node 18 or newer alone.
//
//   node fastpath.mjs subscribe SUBJECT...          prints every event as a line: its name and its JSON
//   node fastpath.mjs publish SUBJECT CONTENT       prints the server's answer
//
// SITE is the address (http://127.0.0.1:8800), TOKEN the token if there is one, SILENCE after how many seconds without
// a byte a stream counts as lost (60; the server sends at least a comment every FASTPATH_PING_SECONDS, 25).

import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

const site = process.env.SITE ?? "http://127.0.0.1:8800";
const silence = Number(process.env.SILENCE ?? 60);
const authorization = process.env.TOKEN ? { Authorization: `Bearer ${process.env.TOKEN}` } : {};

/** To ask again would not help. */
class Refused extends Error {}

/** What the program is for: here it prints. */
function handle(name, data) {
  console.log(`${name} ${data}`);
  // message: const { subject, content, fields, seq } = JSON.parse(data);
  // resynchronised: messages of this subject are missing. Its snapshot follows: begin anew with that.
  // denied, revoked: no right to the subject at present; it begins by itself when the right comes.
}

/** Waits longer after each failure, up to 30 s, and by chance, so that not all clients come back at once. */
class Backoff {
  #failures = 0;

  reset() {
    this.#failures = 0;
  }

  async wait(reason) {
    const seconds = Math.min(30, 2 ** this.#failures) * (0.5 + Math.random() / 2);
    this.#failures += 1;
    console.error(`${reason}; again in ${seconds.toFixed(1)} s`);
    await pause(1000 * seconds);
  }
}

async function ask(path, options) {
  const answer = await fetch(site + path, options);
  if (answer.ok) return answer;
  const reason = `${answer.status} ${await answer.text()}`;
  const isPassing = answer.status >= 500 || answer.status === 408 || answer.status === 429;
  throw isPassing ? new Error(reason) : new Refused(reason);
}

/** The events of one stream, until it ends: https://html.spec.whatwg.org/multipage/server-sent-events.html */
async function* eventsOf(pieces, alive) {
  const decoder = new TextDecoder();
  let rest = "", event = { name: "message", data: "", id: null };
  for await (const piece of pieces) {
    alive();
    const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const [, field, value] = /^([^:\r]*):? ?(.*?)\r?$/.exec(line);
      if (field === "event") event.name = value;
      if (field === "data") event.data += value;
      if (field === "id") event.id = value;
      if (line.trim() !== "") continue;
      if (event.data) yield event;
      event = { name: "message", data: "", id: null };
    }
  }
}

async function subscribe(subjects) {
  const query = subjects.map((subject) => `subject=${encodeURIComponent(subject)}`).join("&");
  const backoff = new Backoff();
  let place = ""; // the id of the last event that was handled
  for (;;) {
    const ending = new AbortController();
    const alarm = setTimeout(() => ending.abort(new Error(`nothing came for ${silence} s`)), 1000 * silence);
    try {
      const headers = { ...authorization, ...(place && { "Last-Event-ID": place }) };
      const answer = await ask(`/events?${query}`, { headers, signal: ending.signal });
      for await (const { name, data, id } of eventsOf(answer.body, () => alarm.refresh())) {
        if (name === "connected") backoff.reset();
        handle(name, data);
        place = id ?? place;
        if (name !== "close") continue;
        if (JSON.parse(data).code >= 4500) throw new Refused(`closed: ${data}`);
        break;
      }
      throw new Error("the stream has ended");
    } catch (error) {
      if (error instanceof Refused) throw error;
      await backoff.wait(error.cause ?? error);
    } finally {
      clearTimeout(alarm);
      ending.abort();
    }
  }
}

async function publish(subject, content) {
  const headers = { ...authorization, "Content-Type": "application/json", "Idempotency-Key": randomUUID() };
  const body = JSON.stringify({ subject, content });
  const backoff = new Backoff();
  for (;;) { // The same key each time: whatever became of an answer, the message is stored once.
    try {
      const signal = AbortSignal.timeout(1000 * silence);
      const answer = await (await ask("/api/publish", { method: "POST", headers, body, signal })).json();
      const [{ status }] = answer.results;
      console.log(JSON.stringify(answer));
      if (status === "ok" || status === "stale") return; // stale: an earlier attempt has stored it, long ago
      if (status !== "unavailable" && status !== "not_ready") throw new Refused(status);
      await backoff.wait(status);
    } catch (error) {
      if (error instanceof Refused) throw error;
      await backoff.wait(error.cause ?? error);
    }
  }
}

const [command, ...rest] = process.argv.slice(2);
try {
  if (command === "subscribe" && rest.length > 0) await subscribe(rest);
  else if (command === "publish" && rest.length === 2) await publish(...rest);
  else throw new Refused("usage: fastpath.mjs subscribe SUBJECT... | publish SUBJECT CONTENT");
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.error(`refused: ${error.message}`);
  process.exitCode = 1;
}
