/** Time series drawn by uPlot: the average as a line, up to the maximum as a band. */

import { axisWords, bytes, known, make, moment, say } from "./common.js";
import { fill, gettext, timeLanguage } from "../pages/words.js";

/** uPlot is a script of its own (the set-up brings it); without it there are figures and tables, and no charts. */
const uPlot = /** @type {any} */ (globalThis).uPlot;

const HEIGHT = 132;
const MINUTE = 60_000;
const DAY = 86_400_000;

const hours = new Intl.DateTimeFormat(timeLanguage, { hour: "2-digit", minute: "2-digit" });
const seconds = new Intl.DateTimeFormat(timeLanguage, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const days = new Intl.DateTimeFormat(timeLanguage, { day: "numeric", month: "short" });

export const hasCharts = Boolean(uPlot);

/** Steps of an axis in bytes: powers of two, so that it says 2 MiB and not 1.9. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, index) => 2 ** index);

/** The colours of the page, read again when the scheme changes. @type {Record<string, string>} */
const colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["accent", "line", "soft"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

/** @type {Set<Chart>} */
const charts = new Set();

readColours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColours();
  for (const chart of charts) chart.redraw();
});

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = [...charts].find((one) => one.root === entry.target);
    chart?.look(entry.isIntersecting);
  }
}, { rootMargin: "100px" });

const sized = new ResizeObserver((entries) => {
  for (const entry of entries) [...charts].find((one) => one.plotRoot === entry.target)?.resize(entry.contentRect.width);
});

/** Times below the chart: seconds, minutes or days, as there is room. @param {any} _ @param {number[]} splits @param {number} __ @param {number} ___ @param {number} step */
function times(_, splits, __, ___, step) {
  if (step >= DAY) return splits.map((at) => days.format(at));
  if (step < MINUTE) return splits.map((at) => seconds.format(at));
  return splits.map((at) => (new Date(at).getHours() + new Date(at).getMinutes() === 0 ? days.format(at) : hours.format(at)));
}

export class Chart {
  /** @type {any} */
  #plot = null;
  /** @type {(number | null)[][]} */
  #data = [[], [], []];
  #visible = false;
  #stale = true;
  #summary = "";

  /** @param {string} name @param {string} title @param {(value: number | null | undefined) => string} format */
  constructor(name, title, format) {
    this.name = name;
    this.format = format;
    this.value = make("p", { class: "value", "data-field": name }, "–");
    this.detail = make("p", { class: "detail" });
    this.plotRoot = make("div", { class: "plot", "aria-hidden": "true" });
    this.root = make(
      "li", { class: "chart", "data-figure": name },
      make("div", { class: "chart-head" }, make("h3", {}, title), this.value), this.detail, this.plotRoot,
    );
    charts.add(this);
    seen.observe(this.root);
    sized.observe(this.plotRoot);
  }

  /** What it is now, beside the title. @param {number | null | undefined} value */
  now(value) {
    say(this.value, this.format(value));
  }

  /**
   * @param {(number | null)[]} at in ms @param {(number | null)[]} average @param {(number | null)[]} maximum
   * @param {number | null} [whole] the average of the whole window; without it that of the points, as if each counted the same
   */
  set(at, average, maximum, whole = null) {
    this.#data = [at, average, maximum];
    const values = average.filter((value) => value !== null);
    const most = maximum.reduce((/** @type {number | null} */ left, right) => (right !== null && (left === null || right > left) ? right : left), null);
    const mean = whole ?? values.reduce((/** @type {number} */ sum, value) => sum + /** @type {number} */ (value), 0) / values.length;
    this.#summary = values.length ? fill(gettext("average %(average)s, maximum %(maximum)s"), { average: this.format(mean), maximum: this.format(most) }) : gettext("no figures in this window");
    if (!this.#isPointed()) say(this.detail, this.#summary);
    this.#changed();
  }

  /** The averages that it shows. */
  get averages() {
    return this.#data[1];
  }

  /** @param {boolean} isVisible */
  look(isVisible) {
    this.#visible = isVisible;
    if (isVisible && this.#stale) this.#draw();
  }

  /** @param {number} width */
  resize(width) {
    if (this.#plot && width > 0 && Math.abs(this.#plot.width - width) >= 1) this.#plot.setSize({ width, height: HEIGHT });
  }

  redraw() {
    this.#plot?.redraw(false);
  }

  #changed() {
    this.#stale = true;
    if (this.#visible) this.#draw();
  }

  #draw() {
    this.#stale = false;
    if (!hasCharts) return;
    if (this.#plot) this.#plot.setData(this.#data);
    else this.#plot = new uPlot(this.#options(), this.#data, this.plotRoot);
  }

  #isPointed() {
    return this.#plot !== null && this.#plot.cursor.left >= 0;
  }

  /** What it was where the pointer is, which is the same place in all charts. @param {any} plot */
  #point(plot) {
    const { idx } = plot.cursor;
    const [at, average, maximum] = this.#data;
    const pointed = plot.cursor.left >= 0 && known(idx) && known(at[idx]);
    say(this.detail, pointed ? `${moment(at[idx])}: ${words(this.format, average[idx], maximum[idx])}` : this.#summary);
  }

  #options() {
    const axis = { stroke: () => colours.soft, font: "11px system-ui, sans-serif", grid: { stroke: () => colours.line, width: 1 }, ticks: { show: false } };
    return {
      width: this.plotRoot.clientWidth || 300,
      height: HEIGHT,
      ms: 1,
      legend: { show: false },
      padding: [6, 18, 0, 0],
      cursor: { sync: { key: "monitoring" }, drag: { x: false, y: false }, points: { size: 5 } },
      scales: { x: { time: true }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, most > 0 ? most * 1.08 : 1] } },
      axes: [
        { ...axis, values: times, size: 26, gap: 4, space: 56 },
        { ...axis, values: (/** @type {any} */ _, /** @type {number[]} */ splits) => axisWords(this.format, splits), size: 58, gap: 4, space: 28, ...(this.format === bytes ? { incrs: BYTE_STEPS } : {}) },
      ],
      series: [
        {},
        { stroke: () => colours.accent, width: 1.5, points: { show: false } },
        { stroke: () => `${colours.accent}66`, width: 1, points: { show: false } },
      ],
      bands: [{ series: [2, 1], fill: () => `${colours.accent}22` }],
      hooks: { setCursor: [(/** @type {any} */ plot) => this.#point(plot)] },
    };
  }
}

/** @param {(value: number | null) => string} format @param {number | null} average @param {number | null} maximum */
function words(format, average, maximum) {
  if (average === null) return gettext("no figures");
  return maximum === null || maximum === average ? format(average) : fill(gettext("%(average)s, up to %(maximum)s"), { average: format(average), maximum: format(maximum) });
}
