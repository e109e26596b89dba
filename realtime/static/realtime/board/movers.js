/** The board's panel of movers: it ranks the moves that it is given, which are those of the instruments that the reader may see. */

import { asOfDetails, asOfWords } from "../pages/asof.js";
import { element } from "../pages/page.js";

const SHOWN = 10;
const LISTS = ["gainers", "losers"];

/** @typedef {{symbol: string, name: string, price: string, change: number, start: number, end: number, asOf: unknown}} Move */

/** A message's move; null if it is none. @param {any} message @returns {Move | null} */
export function moveOf({ subject, content, fields, asOf }) {
  const { symbol, name = "", price = "", window_start: start, window_end: end } = fields;
  if (![content, start, end].every(isNumber) || !(Number(start) < Number(end))) return null;
  return {
    symbol: String(symbol ?? subject.slice(subject.lastIndexOf("/") + 1)), name: String(name), change: Number(content),
    price: isNumber(price) ? Number(price).toFixed(2) : String(price || "–"), start: Number(start), end: Number(end), asOf: asOf ?? Number(end),
  };
}

/** Number() takes an empty text for 0, and bytes for their digits. @param {unknown} value */
function isNumber(value) {
  return typeof value === "string" && value.trim() !== "" && Number.isFinite(Number(value));
}

/**
 * The best of those whose window reaches into the newest: one that had no price since then is not ranked with the others.
 * @param {Iterable<Move>} moves @returns {{gainers: Move[], losers: Move[], newest: Move | null}}
 */
export function rank(moves) {
  const all = [...moves];
  const newest = all.reduce((/** @type {Move | null} */ best, move) => (best && best.end >= move.end ? best : move), null);
  const current = all.filter((move) => newest && move.end > newest.start);
  const best = (/** @type {number} */ sign) => current.filter(({ change }) => change * sign > 0)
    .sort((a, b) => (b.change - a.change) * sign || (a.symbol < b.symbol ? -1 : 1)).slice(0, SHOWN);
  return { gainers: best(1), losers: best(-1), newest };
}

/** How long a window was: "5 min". @param {{start: number, end: number}} window in ms since 1970 */
export function windowOf({ start, end }) {
  const seconds = Math.round((end - start) / 1000);
  if (!(seconds > 0)) return "";
  return seconds % 60 ? `${seconds} s` : seconds % 3600 ? `${seconds / 60} min` : `${seconds / 3600} h`;
}

export class Movers {
  /** @type {Map<string, Move>} the newest of each subject */
  #moves = new Map();
  #names;
  #choose;
  #isDue = false;
  #waiting = "Waiting for the first window…";

  /** @param {any} client @param {any} config @param {(symbol: string) => void} choose asked for by a symbol's button */
  constructor(client, config, choose) {
    this.#names = new Map(config.instruments.map((/** @type {any} */ { symbol, name }) => [symbol, name]));
    this.#choose = choose;
    for (const event of ["denied", "revoked"]) {
      client.on(event, (/** @type {any} */ { subject }) => { if (this.#moves.delete(subject)) this.#render(); });
    }
    // The snapshot is not enough: it does not say as of when it is.
    client.subscribe(config.market.movers, (/** @type {any} */ message) => this.#message(message), { history: 1 });
  }

  /** What was shown is taken away. */
  signOut() {
    this.#moves.clear();
    this.#waiting = "Signed out.";
    this.#render();
  }

  /** @param {any} message */
  #message(message) {
    const move = moveOf(message);
    if (!move) return;
    this.#moves.set(message.subject, move);
    if (this.#isDue) return;
    this.#isDue = true;
    // Those of a window come together: they are ranked once.
    requestAnimationFrame(() => { this.#isDue = false; this.#render(); });
  }

  #render() {
    const { newest, ...ranked } = rank(this.#moves.values());
    const note = newest ? "Nothing moved." : this.#waiting;
    for (const name of LISTS) this.#show(element(name), ranked[/** @type {"gainers" | "losers"} */ (name)], note);
    element("movers-window").textContent = newest ? `of the last ${windowOf(newest)}` : "";
    const words = asOfWords(newest?.asOf);
    element("movers-as-of").textContent = words && `Data as of ${words}`;
    element("movers-as-of").title = asOfDetails(newest?.asOf);
  }

  /** @param {HTMLElement} list @param {Move[]} moves @param {string} note what it says when it is empty */
  #show(list, moves, note) {
    const rows = moves.map((move, index) => this.#fill(/** @type {HTMLElement} */ (list.children[index]) ?? this.#row(), move));
    for (const row of rows) if (!row.parentElement) list.append(row);
    while (list.children.length > rows.length) list.lastElementChild?.remove();
    element(`${list.id}-note`).textContent = rows.length ? "" : note;
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

  /** @param {HTMLElement} row @param {Move} move */
  #fill(row, { symbol, name, price, change }) {
    const texts = [symbol, name || (this.#names.get(symbol) ?? ""), price, `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(2)} %`];
    row.dataset.trend = change < 0 ? "down" : "up";
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
