/** The board's panel of candles: one instrument, one interval, which the reader chooses; each bar can be read. */

import { asOfDetails, asOfWords, newerAsOf } from "../pages/asof.js";
import { barOf, Bars } from "./bars.js";
import { barTime, Candles } from "./candles.js";
import { element } from "../pages/page.js";

const HISTORY = 1000; // as many messages as a subject's cache holds; several may be about one bar
/** @type {Record<string, number>} */
const UNITS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const NOTES = /** @type {Record<string, string>} */ ({
  waiting: "Waiting for the first bar…", denied: "You are not entitled to these bars.", notReady: "Not ready yet…", "signed-out": "Signed out.", live: "",
});
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

export class CandlePanel {
  #client;
  #market;
  #names;
  #bars = new Bars();
  /** @type {import("../client.js").Subscription | null} */
  #subscription = null;
  #subject = "";
  #symbol = "";
  #interval = "";
  #asOf = /** @type {unknown} */ (null);
  /** @type {number | null} the bar that the reader looks at; null: the newest, whichever that is */
  #start = null;
  #isDue = false;
  #chosen;

  /** @param {any} client @param {any} config @param {(symbol: string) => void} chosen told of each symbol that is shown */
  constructor(client, config, chosen) {
    this.#client = client;
    this.#market = config.market;
    this.#names = new Map(config.instruments.map((/** @type {any} */ { symbol, name }) => [symbol, name]));
    this.#chosen = chosen;
    this.root = element("candles");
    this.chart = element("chart");
    this.candles = new Candles(this.chart.querySelector("canvas"));
    for (const [event, state] of [["denied", "denied"], ["revoked", "denied"], ["notReady", "notReady"], ["subscribed", "waiting"]]) {
      client.on(event, (/** @type {any} */ status) => this.#told(state, status));
    }
    for (const input of this.root.querySelectorAll("input[name=interval]")) {
      input.addEventListener("change", () => this.show(this.#symbol, /** @type {HTMLInputElement} */ (input).value));
    }
    this.#listen();
    const [symbol, interval] = decodeURIComponent(location.hash.slice(1)).split("/");
    this.#interval = this.#market.intervals.includes(interval) ? interval : this.#market.intervals[0];
    if (this.#names.has(symbol)) this.show(symbol, this.#interval);
  }

  /** Which instrument is shown; "" as long as none is. */
  get symbol() {
    return this.#symbol;
  }

  /** Show another instrument or interval. @param {string} symbol @param {string} [interval] */
  show(symbol, interval = this.#interval) {
    if (!symbol || (symbol === this.#symbol && interval === this.#interval)) return;
    this.#symbol = symbol;
    this.#interval = interval;
    this.root.querySelector(`input[value="${interval}"]`).checked = true;
    element("candles-symbol").textContent = symbol;
    element("candles-name").textContent = this.#names.get(symbol);
    history.replaceState(null, "", `#${encodeURIComponent(symbol)}/${interval}`);
    this.#chosen(symbol);
    this.#follow(this.#market.bars[symbol][interval]);
  }

  /** What was shown is taken away. */
  signOut() {
    this.#become("signed-out");
  }

  /** @param {string} subject */
  #follow(subject) {
    this.#subscription?.unsubscribe().catch(() => {}); // a lost connection has ended it as well
    this.#subject = subject;
    this.#become("waiting");
    const subscription = this.#client.subscribe(subject, (/** @type {any} */ message) => {
      // What was under way when the reader chose another one.
      if (subscription === this.#subscription) this.#message(message);
    }, { history: HISTORY });
    this.#subscription = subscription;
  }

  /** @param {any} message */
  #message(message) {
    const bar = barOf(message);
    if (!bar) return;
    if (this.root.dataset.state !== "live") this.#become("live");
    this.#bars.put(bar);
    this.#asOf = newerAsOf(this.#asOf, message.asOf); // bars that are final come after those that still move
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => { this.#isDue = false; this.#render(); });
  }

  /** @param {string} state @param {any} status */
  #told(state, { subject, reason = "" }) {
    if (subject !== this.#subject) return;
    if (state === "waiting" && this.root.dataset.state === "live") return;
    this.#become(state, reason);
  }

  /** @param {string} state @param {string} [reason] */
  #become(state, reason = "") {
    this.root.dataset.state = state;
    element("candles-note").textContent = NOTES[state];
    element("candles-note").title = reason;
    if (state === "live") return;
    this.#bars.clear();
    this.#asOf = null;
    this.#start = null;
    this.#render();
  }

  #render() {
    const { all } = this.#bars;
    this.candles.show(all, this.#ms);
    const asOf = element("candles-as-of");
    const words = asOfWords(this.#asOf);
    say(asOf, words && `Data as of ${words}`);
    asOf.title = asOfDetails(this.#asOf);
    this.#read();
  }

  /** The bar that is looked at, in words; the newest if none is. */
  #read() {
    const { visible } = this.candles;
    const index = this.#start === null ? -1 : visible.findIndex(({ start }) => start === this.#start);
    const bar = visible.at(index);
    if (index < 0) this.#start = null;
    this.candles.point(this.#start);
    /** @type {Record<string, string>} */
    const words = bar ? {
      time: barTime(bar.start, this.#ms), open: price(bar.open), high: price(bar.high), low: price(bar.low), close: price(bar.close),
      volume: bar.volume === null ? "–" : compact.format(bar.volume), vwap: price(bar.vwap), ticks: bar.ticks === null ? "–" : String(bar.ticks),
    } : {};
    for (const cell of element("readout").querySelectorAll("[data-bar]")) say(cell, words[cell.dataset.bar] ?? "–");
    element("readout").dataset.trend = bar ? (bar.close < bar.open ? "down" : "up") : "";
    const simulated = new Set((bar?.simulated ?? "").split(","));
    for (const mark of element("readout").querySelectorAll(".simulated")) mark.hidden = !simulated.has(mark.dataset.of);
    say(element("readout-state"), bar ? (this.#start !== null ? "chosen" : bar.isFinal ? "complete" : "so far") : "");
    this.#slider(visible.length, index, words);
  }

  /** @param {number} count @param {number} index @param {Record<string, string>} words */
  #slider(count, index, words) {
    const { chart } = this;
    chart.setAttribute("aria-valuemin", String(Math.min(1, count)));
    chart.setAttribute("aria-valuemax", String(count));
    chart.setAttribute("aria-valuenow", String(index < 0 ? count : index + 1));
    chart.setAttribute("aria-disabled", String(count === 0));
    // The newest one moves all the time: what it says is for the eye, and told when somebody looks at one bar.
    const text = index < 0 ? (count ? "the newest bar" : "no bars")
      : `${words.time}: open ${words.open}, high ${words.high}, low ${words.low}, close ${words.close}, volume ${words.volume}`;
    if (chart.getAttribute("aria-valuetext") !== text) chart.setAttribute("aria-valuetext", text);
  }

  get #ms() {
    const [, count, unit] = /^(\d+)(\w)$/.exec(this.#interval) ?? [];
    return Number(count) * (UNITS[unit] ?? 1000);
  }

  #listen() {
    const { chart } = this;
    /** @param {PointerEvent} event */
    const point = (event) => this.#look(this.candles.at(event.clientX - chart.getBoundingClientRect().left)?.start ?? null);
    chart.addEventListener("pointermove", point);
    chart.addEventListener("pointerdown", point);
    chart.addEventListener("pointerleave", () => this.#look(null));
    chart.addEventListener("blur", () => this.#look(null));
    chart.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const { visible } = this.candles;
      const last = visible.length - 1;
      const index = this.#start === null ? last : visible.findIndex(({ start }) => start === this.#start);
      const moves = /** @type {Record<string, number>} */ ({
        ArrowLeft: index - 1, ArrowDown: index - 1, ArrowRight: index + 1, ArrowUp: index + 1, PageUp: index + 10, PageDown: index - 10, Home: 0, End: last, Escape: last + 1,
      });
      if (!(event.key in moves) || last < 0) return;
      event.preventDefault();
      const to = Math.max(0, moves[event.key]);
      // Beyond the last one the newest is followed again.
      this.#look(to > last ? null : visible[to].start);
    });
  }

  /** @param {number | null} start */
  #look(start) {
    if (start === this.#start) return;
    this.#start = start;
    this.#read();
  }
}

/** @param {number | null} value */
function price(value) {
  return value === null ? "–" : value.toFixed(2);
}

/** Only words that change are touched. @param {Element} cell @param {string} words */
function say(cell, words) {
  if (cell.textContent !== words) cell.textContent = words;
}
