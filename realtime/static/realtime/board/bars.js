/** The bars of one instrument and interval as they come: in the order of their times, each as it was told last. */

/**
 * @typedef {object} Bar
 * @property {number} start in ms since 1970
 * @property {number} end
 * @property {number} open
 * @property {number} high
 * @property {number} low
 * @property {number} close
 * @property {number | null} volume
 * @property {number | null} vwap
 * @property {number | null} ticks
 * @property {boolean} isFinal false while more may come
 * @property {string} simulated which of these somebody made up, such as "volume,vwap"
 */

const KEPT = 500;
const MS_MOST = 8.64e15; // the last moment that a Date can be
const NEEDED = /** @type {const} */ (["start", "open", "high", "low", "close"]);

/** A message's bar; null for what is none. @param {any} message @returns {Bar | null} */
export function barOf({ content, fields }) {
  const told = { ...fields, close: fields.close ?? content };
  if (NEEDED.some((name) => number(told[name]) === null)) return null;
  const [start, open, high, low, close] = NEEDED.map((name) => Number(told[name]));
  if (Math.abs(start) > MS_MOST) return null;
  return {
    start, end: number(told.end) ?? start, open, high, low, close,
    volume: number(told.volume), vwap: number(told.vwap), ticks: number(told.ticks),
    isFinal: told.final === "1", simulated: String(told.simulated ?? ""),
  };
}

export class Bars {
  /** @type {Bar[]} the oldest first */
  #bars = [];

  /** @returns {readonly Bar[]} */
  get all() {
    return this.#bars;
  }

  clear() {
    this.#bars = [];
  }

  /** Whether it changed anything: a bar that is final stays as it is, unless it is told as final again. @param {Bar} bar */
  put(bar) {
    const bars = this.#bars;
    let at = bars.length;
    while (at > 0 && bars[at - 1].start >= bar.start) at -= 1; // nearly always the last one
    const known = bars[at];
    if (known?.start === bar.start) {
      if (known.isFinal && !bar.isFinal) return false;
      bars[at] = bar;
      return true;
    }
    if (at === 0 && bars.length >= KEPT) return false;
    bars.splice(at, 0, bar);
    if (bars.length > KEPT) bars.shift();
    return true;
  }
}

/** Round values between two: at most `most` of them, a step of 1, 2 or 5 times a power of ten apart. @param {number} least @param {number} greatest @param {number} most @returns {number[]} */
export function ticksBetween(least, greatest, most) {
  const rough = (greatest - least) / Math.max(most, 1);
  if (!(rough > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = /** @type {number} */ ([1, 2, 5, 10].find((factor) => factor * power >= rough)) * power;
  const first = Math.ceil(least / step);
  return Array.from({ length: Math.max(0, Math.floor(greatest / step) - first + 1) }, (_, index) => (first + index) * step);
}

/** @param {unknown} text @returns {number | null} */
function number(text) {
  const value = typeof text === "string" && text.trim() !== "" ? Number(text) : NaN;
  return Number.isFinite(value) ? value : null;
}
