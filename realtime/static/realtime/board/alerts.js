/** The board's feed of alerts: the newest first, of the instruments that the reader may see. */

import { asOfDetails, clockOf } from "../pages/asof.js";
import { symbolButton } from "./movers.js";
import { element } from "../pages/page.js";

const HISTORY = 20; // of each instrument
const SHOWN = 50;
const FRESH_MS = 2000;
const TOLD_MS = 5000; // a screen reader hears one alert in so long at most
const LEVELS = ["critical", "warning"];
const MS_MOST = 8.64e15; // the last moment that a Date can be

/** @typedef {{key: string, subject: string, symbol: string, text: string, level: string, kind: string, at: number, details: string}} Alert */

/** A message's alert. @param {any} message @returns {Alert} */
export function alertOf({ subject, content, fields, epoch, seq, time, asOf }) {
  const told = Number(fields.time);
  const at = told > 0 && told <= MS_MOST ? told : time;
  const level = String(fields.level ?? "");
  return {
    key: seq ? `${subject} ${epoch}/${seq}` : `${subject} at ${at}`, subject, symbol: String(fields.symbol ?? subject.slice(subject.lastIndexOf("/") + 1)), text: String(content),
    level: LEVELS.includes(level) ? level : "notice", kind: String(fields.kind ?? ""), at,
    details: [["price", fields.price], ["value", fields.value], ["limit", fields.limit], ["data as of", asOfDetails(asOf)]]
      .filter(([, value]) => value !== undefined && value !== "").map(([name, value]) => `${name} ${value}`).join(", "),
  };
}

export class Alerts {
  /** @type {{alert: Alert, row: HTMLElement}[]} the newest first */
  #shown = [];
  #keys = new Set();
  #choose;
  #symbols;
  #toldAt = 0;

  /** @param {any} client @param {any} config @param {(symbol: string) => void} choose asked for by a symbol's button */
  constructor(client, config, choose) {
    this.#choose = choose;
    this.#symbols = new Set(config.instruments.map((/** @type {any} */ { symbol }) => symbol));
    this.list = element("alert-list");
    for (const event of ["denied", "revoked"]) {
      client.on(event, (/** @type {any} */ { subject }) => this.#drop((alert) => alert.subject === subject));
    }
    client.subscribe(config.market.alerts, (/** @type {any} */ message) => this.#message(message), { history: HISTORY });
    this.#count();
  }

  /** What was shown is taken away. */
  signOut() {
    this.#drop(() => true);
    element("alerts-note").textContent = "Signed out.";
  }

  /** @param {any} message */
  #message(message) {
    const alert = alertOf(message);
    if (this.#keys.has(alert.key) || !alert.text) return;
    const place = this.#shown.findIndex((other) => other.alert.at <= alert.at);
    const index = place < 0 ? this.#shown.length : place;
    if (index >= SHOWN) return;
    const isNew = message.kind === "update";
    const row = this.#row(alert);
    this.list.insertBefore(row, this.#shown[index]?.row ?? null);
    this.#shown.splice(index, 0, { alert, row });
    this.#keys.add(alert.key);
    for (const { alert: old, row: last } of this.#shown.splice(SHOWN)) {
      last.remove();
      this.#keys.delete(old.key);
    }
    this.#count();
    if (isNew) this.#announce(alert, row);
  }

  /** @param {Alert} alert @param {HTMLElement} row */
  #announce({ level, symbol, text }, row) {
    row.classList.add("fresh");
    setTimeout(() => row.classList.remove("fresh"), FRESH_MS);
    const now = Date.now();
    if (now - this.#toldAt < TOLD_MS) return;
    this.#toldAt = now;
    element("alert-announcement").textContent = `${level}, ${symbol}: ${text}`;
  }

  /** @param {(alert: Alert) => boolean} which */
  #drop(which) {
    for (const { alert, row } of this.#shown.filter((each) => which(each.alert))) {
      row.remove();
      this.#keys.delete(alert.key);
    }
    this.#shown = this.#shown.filter((each) => !which(each.alert));
    this.#count();
  }

  /** @param {Alert} alert */
  #row({ symbol, text, level, kind, at, details }) {
    const row = document.createElement("li");
    row.dataset.level = level;
    const head = document.createElement("div");
    const badge = document.createElement("span");
    badge.className = "level";
    badge.textContent = level;
    const button = symbolButton((chosen) => this.#choose(chosen));
    button.textContent = symbol;
    button.disabled = !this.#symbols.has(symbol);
    const time = document.createElement("time");
    time.dateTime = new Date(at).toISOString();
    time.textContent = clockOf(at);
    head.append(badge, button, ...(kind ? [Object.assign(document.createElement("span"), { className: "kind", textContent: kind })] : []), time);
    const words = document.createElement("p");
    words.textContent = text;
    words.title = details;
    row.append(head, words);
    return row;
  }

  #count() {
    const count = this.#shown.length;
    element("alerts-note").textContent = count ? "" : "None so far.";
    for (const id of ["alert-count", "alert-jump-count"]) element(id).textContent = count === SHOWN ? `${SHOWN}+` : String(count);
    element("alert-jump").hidden = count === 0;
  }
}
