/** The board's panel of movers: the instruments that rose and fell most, best first, as one message tells them. */

import { asOfDetails, asOfWords, newerAsOf } from "./asof.js";
import { element } from "./page.js";

const SHOWN = 10;
const NOTES = /** @type {Record<string, string>} */ ({
  waiting: "Waiting for the first window…", denied: "You are not entitled to the movers.", notReady: "Not ready yet…", "signed-out": "Signed out.", live: "",
});

/** @typedef {{symbol: string, name: string, price: string, change: number}} Mover */

/** What a message's content says; null if that is no list. @param {unknown} content @returns {Mover[] | null} */
export function moversOf(content) {
  let rows;
  try {
    rows = JSON.parse(String(content));
  } catch {
    return null;
  }
  if (!Array.isArray(rows)) return null;
  return rows.slice(0, SHOWN).filter((row) => row?.symbol && isNumber(row.change_pct)).map((row) => ({
    symbol: String(row.symbol), name: String(row.name ?? ""), change: Number(row.change_pct),
    price: isNumber(row.price) ? Number(row.price).toFixed(2) : String(row.price || "–"),
  }));
}

/** Number() takes null, an empty text and a list of one for 0 or its entry. @param {unknown} value */
function isNumber(value) {
  return (typeof value === "number" || (typeof value === "string" && value.trim() !== "")) && Number.isFinite(Number(value));
}

/** How long a window was: "5 min". @param {any} fields */
export function windowOf({ window_start: start, window_end: end }) {
  const seconds = Math.round((Number(end) - Number(start)) / 1000);
  if (!(seconds > 0)) return "";
  return seconds % 60 ? `${seconds} s` : seconds % 3600 ? `${seconds / 60} min` : `${seconds / 3600} h`;
}

export class Movers {
  /** @type {Map<string, HTMLOListElement>} the list of each subject */
  #lists = new Map();
  /** @type {Map<string, unknown>} */
  #asOf = new Map();
  #names;
  #choose;

  /** @param {any} client @param {any} config @param {(symbol: string) => void} choose asked for by a symbol's button */
  constructor(client, config, choose) {
    this.#names = new Map(config.instruments.map((/** @type {any} */ { symbol, name }) => [symbol, name]));
    this.#choose = choose;
    this.root = element("movers");
    for (const [name, subject] of Object.entries(config.market.movers)) this.#lists.set(String(subject), element(name));
    for (const [event, state] of [["denied", "denied"], ["revoked", "denied"], ["notReady", "notReady"], ["subscribed", "waiting"]]) {
      client.on(event, (/** @type {any} */ { subject }) => { if (this.#lists.has(subject)) this.#become(subject, state); });
    }
    // The snapshot is not enough: it does not say as of when it is.
    client.subscribe([...this.#lists.keys()], (/** @type {any} */ message) => this.#message(message), { history: 1 });
  }

  /** What was shown is taken away. */
  signOut() {
    for (const subject of this.#lists.keys()) this.#become(subject, "signed-out");
  }

  /** @param {any} message */
  #message(message) {
    const movers = moversOf(message.content);
    if (!movers) return;
    const list = /** @type {HTMLOListElement} */ (this.#lists.get(message.subject));
    this.#asOf.set(message.subject, message.asOf ?? Number(message.fields.window_end));
    const rows = movers.map((mover, index) => this.#fill(/** @type {HTMLElement} */ (list.children[index]) ?? this.#row(), mover));
    for (const row of rows) if (!row.parentElement) list.append(row);
    while (list.children.length > rows.length) list.lastElementChild?.remove();
    this.#become(message.subject, "live", rows.length ? "" : "Nothing moved.");
    const span = windowOf(message.fields);
    if (span) element("movers-window").textContent = `of the last ${span}`;
    this.#tell();
  }

  /** @param {string} subject @param {string} state @param {string} [note] */
  #become(subject, state, note = NOTES[state]) {
    const list = /** @type {HTMLOListElement} */ (this.#lists.get(subject));
    if (state === "waiting" && list.dataset.state === "live") return;
    list.dataset.state = state;
    element(`${list.id}-note`).textContent = note;
    if (state === "live") return;
    list.replaceChildren();
    this.#asOf.delete(subject);
    this.#tell();
  }

  /** As of when the newer one of them is. */
  #tell() {
    const newest = [...this.#asOf.values()].reduce(newerAsOf, null);
    const words = asOfWords(newest);
    element("movers-as-of").textContent = words && `Data as of ${words}`;
    element("movers-as-of").title = asOfDetails(newest);
  }

  #row() {
    const row = document.createElement("li");
    const button = symbolButton((symbol) => this.#choose(symbol));
    const cells = ["name", "number", "number trend"].map((name) => {
      const cell = document.createElement("span");
      cell.className = name;
      return cell;
    });
    row.append(button, ...cells);
    return row;
  }

  /** @param {HTMLElement} row @param {Mover} mover */
  #fill(row, { symbol, name, price, change }) {
    const texts = [symbol, name || (this.#names.get(symbol) ?? ""), price, `${change > 0 ? "+" : change < 0 ? "−" : ""}${Math.abs(change).toFixed(2)} %`];
    row.dataset.trend = change < 0 ? "down" : change > 0 ? "up" : "flat";
    texts.forEach((text, index) => { if (row.children[index].textContent !== text) row.children[index].textContent = text; });
    const button = /** @type {HTMLButtonElement} */ (row.children[0]);
    button.disabled = !this.#names.has(symbol);
    return row;
  }
}

/** A symbol that shows its candles. @param {(symbol: string) => void} choose */
export function symbolButton(choose) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "symbol";
  button.title = "Show its candles";
  button.addEventListener("click", () => choose(button.textContent ?? ""));
  return button;
}
