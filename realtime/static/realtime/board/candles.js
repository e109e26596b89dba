/** Candles on a canvas: rising ones hollow, falling ones filled, the volume below; one can be pointed at. */

import { ticksBetween } from "./bars.js";

const SLOT = 8; // pixels from candle to candle at least
const SLOT_MOST = 14;
const RIGHT = 56; // for the prices
const BOTTOM = 18; // for the times
const TOP = 6;
const VOLUME_SHARE = 0.18;
const LABEL_PIXELS = 76; // one time needs as much
const STEP_PIXELS = 26; // one price needs as much
const FONT = "11px system-ui, sans-serif";
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 86_400 * SECOND;
const STEPS = [
  ...[1, 2, 5, 10, 15, 20, 30].map((count) => count * SECOND), ...[1, 2, 5, 10, 15, 20, 30, 60, 120, 240].map((count) => count * MINUTE),
  ...[1, 2, 7, 14, 28, 91, 182, 364].map((count) => count * DAY),
];
const COLOURS = /** @type {const} */ (["up", "down", "line", "soft", "surface"]);

const seconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const dates = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });

/** The time of a bar as it is told in words. @param {number} at @param {number} interval in ms */
export function barTime(at, interval) {
  return (interval >= DAY ? dates : interval >= MINUTE ? minutes : seconds).format(at);
}

export class Candles {
  /** @type {readonly import("./bars.js").Bar[]} */
  #bars = [];
  #interval = SECOND;
  #isDue = false;
  /** @type {number | null} the start of the bar that is pointed at */
  #pointed = null;
  /** @type {Record<string, string>} */
  #colours = {};

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    new ResizeObserver(() => this.changed()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.changed());
  }

  /** @param {readonly import("./bars.js").Bar[]} bars the oldest first @param {number} interval in ms */
  show(bars, interval) {
    this.#bars = bars;
    this.#interval = interval;
    this.changed();
  }

  /** Mark one bar; null for none. @param {number | null} start */
  point(start) {
    this.#pointed = start;
    this.changed();
  }

  /** The bars that there is room for. */
  get visible() {
    const { from } = this.#slots();
    return this.#bars.slice(from);
  }

  /** The bar at a place of the canvas. @param {number} x in pixels from its left side @returns {import("./bars.js").Bar | undefined} */
  at(x) {
    const { from, slot, right } = this.#slots();
    if (x > right) return undefined;
    return this.#bars[Math.max(from, this.#bars.length - 1 - Math.floor((right - x) / slot))];
  }

  /** Draw with the next frame, however often that is asked. */
  changed() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => { this.#isDue = false; this.#draw(); });
  }

  #slots() {
    const right = Math.max(0, this.canvas.clientWidth - RIGHT);
    const room = Math.max(1, Math.floor(right / SLOT));
    const from = Math.max(0, this.#bars.length - room);
    const slot = Math.min(SLOT_MOST, right / Math.max(1, Math.min(room, this.#bars.length)));
    return { from, slot, right };
  }

  #draw() {
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) return;
    const ratio = globalThis.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const bars = this.visible;
    canvas.dataset.candles = String(bars.length);
    if (!bars.length) return;
    const style = getComputedStyle(canvas);
    for (const name of COLOURS) this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
    context.font = FONT;
    context.textBaseline = "middle";
    const { slot, right } = this.#slots();
    const left = right - slot * bars.length;
    const bottom = height - BOTTOM;
    const volumeTop = bottom - (bottom - TOP) * VOLUME_SHARE;
    const least = Math.min(...bars.map(({ low }) => low));
    const greatest = Math.max(...bars.map(({ high }) => high));
    const margin = (greatest - least || greatest * 0.01 || 1) * 0.06;
    const range = { least: least - margin, greatest: greatest + margin };
    const y = (/** @type {number} */ price) => volumeTop - 4 - ((price - range.least) / (range.greatest - range.least)) * (volumeTop - 4 - TOP);
    const x = (/** @type {number} */ index) => left + slot * (index + 0.5);
    this.#prices(context, range, y, { right, last: y(bars[bars.length - 1].close) }, Math.floor((volumeTop - TOP) / STEP_PIXELS));
    this.#times(context, bars, x, slot, { bottom, right });
    this.#volumes(context, bars, x, slot, { volumeTop, bottom });
    const pointed = bars.findIndex(({ start }) => start === this.#pointed);
    if (pointed >= 0) line(context, this.#colours.soft, [x(pointed), TOP, x(pointed), bottom], [2, 3]);
    bars.forEach((bar, index) => this.#candle(context, bar, x(index), y, slot));
    this.#last(context, bars[bars.length - 1], y, right, width);
  }

  /** @param {CanvasRenderingContext2D} context @param {{least: number, greatest: number}} range @param {(price: number) => number} y @param {{right: number, last: number}} places @param {number} most */
  #prices(context, { least, greatest }, y, { right, last }, most) {
    const ticks = ticksBetween(least, greatest, most);
    const digits = ticks.length > 1 && ticks[1] - ticks[0] >= 1 ? 0 : 2;
    for (const price of ticks) {
      const at = Math.round(y(price)) + 0.5;
      line(context, this.#colours.line, [0, at, right, at]);
      if (Math.abs(at - last) < 15) continue; // the last price is written there
      context.fillStyle = this.#colours.soft;
      context.textAlign = "left";
      context.fillText(price.toFixed(digits), right + 7, at);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {readonly import("./bars.js").Bar[]} bars @param {(index: number) => number} x @param {number} slot @param {{bottom: number, right: number}} edges */
  #times(context, bars, x, slot, { bottom, right }) {
    const interval = this.#interval;
    const least = Math.ceil(LABEL_PIXELS / slot) * interval;
    const step = STEPS.find((each) => each >= least) ?? least;
    let after = 30; // half a label from the left side
    context.fillStyle = this.#colours.soft;
    context.textAlign = "center";
    let count = Math.floor(bars[0].start / step);
    bars.forEach(({ start }, index) => {
      const at = x(index);
      const isNext = Math.floor(start / step) > count || start % step === 0;
      count = Math.floor(start / step);
      // Where bars are missing two labels may come too near to each other.
      if (!isNext || at < after || at > right - 24) return;
      after = at + LABEL_PIXELS;
      context.fillText((interval >= DAY ? days : step < MINUTE ? seconds : minutes).format(start), at, bottom + BOTTOM / 2 + 1);
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {readonly import("./bars.js").Bar[]} bars @param {(index: number) => number} x @param {number} slot @param {{volumeTop: number, bottom: number}} edges */
  #volumes(context, bars, x, slot, { volumeTop, bottom }) {
    const most = Math.max(0, ...bars.map(({ volume }) => volume ?? 0));
    if (!most) return;
    context.globalAlpha = 0.35;
    bars.forEach(({ volume, open, close }, index) => {
      const tall = ((volume ?? 0) / most) * (bottom - volumeTop);
      context.fillStyle = close < open ? this.#colours.down : this.#colours.up;
      context.fillRect(x(index) - slot * 0.34, bottom - tall, slot * 0.68, tall);
    });
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./bars.js").Bar} bar @param {number} at @param {(price: number) => number} y @param {number} slot */
  #candle(context, { open, high, low, close }, at, y, slot) {
    const isFalling = close < open;
    const colour = isFalling ? this.#colours.down : this.#colours.up;
    const middle = Math.round(at) + 0.5;
    const half = Math.max(1.5, Math.floor(slot * 0.32));
    const [top, bottom] = [Math.round(y(Math.max(open, close))) + 0.5, Math.round(y(Math.min(open, close))) + 0.5];
    line(context, colour, [middle, y(high), middle, top]);
    line(context, colour, [middle, bottom, middle, y(low)]);
    context.strokeStyle = context.fillStyle = colour;
    const tall = Math.max(bottom - top, 1);
    if (isFalling) context.fillRect(middle - half, top, half * 2, tall);
    context.strokeRect(middle - half, top, half * 2, tall);
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./bars.js").Bar} bar @param {(price: number) => number} y @param {number} right @param {number} width */
  #last(context, { open, close }, y, right, width) {
    const colour = close < open ? this.#colours.down : this.#colours.up;
    const at = Math.round(y(close)) + 0.5;
    line(context, colour, [0, at, right, at], [1, 3]);
    context.fillStyle = colour;
    context.fillRect(right + 2, at - 8, width - right - 2, 16);
    context.fillStyle = this.#colours.surface;
    context.textAlign = "left";
    context.fillText(close.toFixed(2), right + 7, at);
  }
}

/** @param {CanvasRenderingContext2D} context @param {string} colour @param {[number, number, number, number]} ends @param {number[]} [dashes] */
function line(context, colour, [fromX, fromY, toX, toY], dashes = []) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.setLineDash(dashes);
  context.beginPath();
  context.moveTo(fromX, fromY);
  context.lineTo(toX, toY);
  context.stroke();
  context.setLineDash([]);
}
