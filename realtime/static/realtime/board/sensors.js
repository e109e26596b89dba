/** The board's panel of sensors: the newest value of each, whoever publishes it, as things do over MQTT. */

import { clockOf } from "../pages/asof.js";
import { element } from "../pages/page.js";

const SHOWN = 50;
const CHARS = 40;
// A topic without a slash in front, as most things write theirs, lives below this one.
const THINGS = "/__mqtt__";

/** @typedef {{name: string, text: string, value: number | null, at: number}} Reading */

/** A message's reading; null where nothing is left of it. @param {any} message @returns {Reading | null} */
export function readingOf({ subject, content, fields, time }) {
  if (content === null || content === undefined || content === "") return null;
  const path = subject.startsWith(`${THINGS}/`) ? subject.slice(THINGS.length) : subject;
  const told = typeof content === "string" ? content : "(bytes)";
  const words = told.length > CHARS ? `${told.slice(0, CHARS)}…` : told;
  const value = told.trim() === "" || !Number.isFinite(Number(told)) ? null : Number(told);
  return { name: path.split("/").slice(2).join(" · "), text: fields.unit ? `${words} ${fields.unit}` : words, value, at: time };
}

export class Sensors {
  /** @type {Map<string, {row: HTMLElement, subject: string, reading: Reading}>} by name, in their order on the page */
  #shown = new Map();

  /** @param {any} client @param {any} config */
  constructor(client, config) {
    this.list = element("sensor-list");
    for (const event of ["denied", "revoked"]) {
      client.on(event, (/** @type {any} */ { subject }) => this.#drop((shown) => shown.subject === subject));
    }
    client.subscribe(config.sensors, (/** @type {any} */ message) => this.#message(message));
  }

  /** What was shown is taken away. */
  signOut() {
    this.#drop(() => true);
    element("sensors-note").textContent = "Signed out.";
  }

  /** @param {any} message */
  #message(message) {
    const reading = readingOf(message);
    if (!reading) {
      this.#drop((shown) => shown.subject === message.subject);
      return;
    }
    const before = this.#shown.get(reading.name);
    if (!before && this.#shown.size >= SHOWN) return;
    const row = before?.row ?? this.#row(reading.name);
    const [, value, time] = /** @type {HTMLElement[]} */ ([...row.children]);
    value.textContent = reading.text;
    value.classList.remove("up", "down");
    if (message.kind === "update" && before && before.reading.value !== null && reading.value !== null && reading.value !== before.reading.value) {
      void value.offsetWidth; // so that the flash begins anew
      value.classList.add(reading.value > before.reading.value ? "up" : "down");
    }
    time.textContent = clockOf(reading.at);
    this.#shown.set(reading.name, { row, subject: message.subject, reading });
    element("sensors-note").textContent = "";
  }

  /** @param {(shown: {subject: string}) => boolean} which */
  #drop(which) {
    for (const [name, shown] of [...this.#shown]) {
      if (!which(shown)) continue;
      shown.row.remove();
      this.#shown.delete(name);
    }
    if (!this.#shown.size) element("sensors-note").textContent = "None so far.";
  }

  /** A new row, in its place. @param {string} name */
  #row(name) {
    const row = document.createElement("li");
    for (const [tag, className] of [["span", "sensor"], ["span", "number value"], ["time", ""]]) {
      row.append(Object.assign(document.createElement(tag), { className }));
    }
    row.children[0].textContent = name;
    const next = [...this.#shown].filter(([other]) => other > name).sort(([a], [b]) => (a < b ? -1 : 1))[0];
    this.list.insertBefore(row, next ? next[1].row : null);
    return row;
  }
}
