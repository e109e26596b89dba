/** One instrument's row. */

import { asOfDetails } from "../pages/asof.js";
import { Sparkline } from "./sparkline.js";

const FLASH_MS = 600;
const NUMERIC = ["price", "change", "change_pct", "volume", "bid", "ask"];
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

export class Row {
  /** "waiting" for the server or the first message, "live", "denied" or "notReady" */
  state = "waiting";
  /** @type {Map<string, HTMLElement>} */
  #cells = new Map();
  /** @type {Map<string, string>} */
  #values = new Map();
  #flashes = new Map();

  /** @param {HTMLElement} root @param {string} symbol @param {(symbol: string) => void} choose asked for by a click or by the symbol's button */
  constructor(root, symbol, choose) {
    this.root = root;
    this.symbol = symbol;
    root.addEventListener("click", () => choose(symbol)); // also of the button inside
    for (const cell of root.querySelectorAll("[data-field]")) {
      const field = /** @type {HTMLElement} */ (cell);
      this.#cells.set(field.dataset.field ?? "", field);
    }
    this.spark = new Sparkline(/** @type {HTMLCanvasElement} */ (root.querySelector("canvas")));
    this.#become("waiting", "");
  }

  /** @param {any} message @param {boolean} flash */
  update(message, flash) {
    if (this.state === "denied") return;
    const values = { ...message.fields, price: message.content };
    const before = Number(this.#values.get("price"));
    const after = Number(values.price);
    for (const name of NUMERIC) if (name in values) this.#set(name, String(values[name]), flash);
    if (values.date) this.#text("date", String(values.date));
    this.#title(asOfDetails(message.asOf));
    if (values.change !== undefined) {
      this.root.dataset.trend = Number(values.change) < 0 ? "down" : Number(values.change) > 0 ? "up" : "flat";
    }
    if (values.simulated !== undefined) markSimulated(String(values.simulated));
    if (Number.isFinite(after)) this.spark.add(after);
    if (flash && Number.isFinite(before) && after !== before) this.#flash("price", after > before);
    this.#become("live", "");
  }

  /** @param {boolean} isChosen its candles are shown */
  choose(isChosen) {
    this.root.classList.toggle("chosen", isChosen);
    this.root.querySelector("button.symbol")?.setAttribute("aria-pressed", String(isChosen));
  }

  grant() {
    if (this.state !== "live") this.#become("waiting", "");
  }

  wait() {
    this.#become("notReady", "not ready yet");
  }

  /** No right: what was shown is taken away. @param {string} reason @param {string} note */
  deny(reason, note = "not entitled") {
    this.#values.clear();
    this.spark.clear();
    for (const [name, cell] of this.#cells) if (name !== "note") cell.textContent = "–";
    delete this.root.dataset.trend;
    this.#title("");
    this.#become("denied", note);
    this.#text("note", note);
    this.root.title = reason;
  }

  /** @param {string} name @param {string} value @param {boolean} flash */
  #set(name, value, flash) {
    const before = this.#values.get(name);
    if (before === value) return;
    this.#values.set(name, value);
    this.#text(name, shown(name, value));
    if (flash && before !== undefined && (name === "bid" || name === "ask")) {
      this.#flash(name, Number(value) > Number(before));
    }
  }

  /** @param {string} name @param {string} text */
  #text(name, text) {
    const cell = this.#cells.get(name);
    if (cell && cell.textContent !== text) cell.textContent = text;
  }

  /** @param {string} asOf as of when the price is */
  #title(asOf) {
    const cell = this.#cells.get("price");
    if (cell) cell.title = asOf && `Data as of ${asOf}`;
  }

  /** @param {string} name @param {boolean} isUp */
  #flash(name, isUp) {
    const cell = this.#cells.get(name);
    if (!cell) return;
    cell.classList.remove("up", "down");
    // Restarts the animation where the cell is still flashing.
    requestAnimationFrame(() => cell.classList.add(isUp ? "up" : "down"));
    clearTimeout(this.#flashes.get(name));
    this.#flashes.set(name, setTimeout(() => cell.classList.remove("up", "down"), FLASH_MS));
  }

  /** @param {string} state @param {string} note */
  #become(state, note) {
    if (this.root.dataset.state === state) return;
    this.state = this.root.dataset.state = state;
    this.root.title = "";
    this.#text("note", note);
  }
}

/** @param {string} name @param {string} value */
function shown(name, value) {
  const number = Number(value);
  if (!Number.isFinite(number)) return value;
  if (name === "volume") return compact.format(number);
  const text = number.toFixed(2);
  if (name === "change") return number > 0 ? `+${text}` : text.replace("-", "−");
  if (name === "change_pct") return (number > 0 ? `+${text}` : text.replace("-", "−")) + " %";
  return text;
}

/** Label the columns that the job says it made up. @param {string} names such as "volume,bid,ask" */
function markSimulated(names) {
  if (document.documentElement.dataset.simulated === names) return;
  document.documentElement.dataset.simulated = names;
  const simulated = new Set(names.split(","));
  for (const header of document.querySelectorAll("th[data-column]")) {
    const mark = header.querySelector(".simulated");
    if (mark) /** @type {HTMLElement} */ (mark).hidden = !simulated.has(/** @type {HTMLElement} */ (header).dataset.column ?? "");
  }
}
