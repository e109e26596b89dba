/** What the scripts of the monitoring pages share: numbers in words, questions to Django, tables that are kept up to date. */

import { fill, gettext, language, ngettext, timeLanguage } from "../pages/words.js";

const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const grouped = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
const fine = new Intl.NumberFormat(language, { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(timeLanguage, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dated = new Intl.DateTimeFormat(timeLanguage, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** @param {unknown} value whether it is a number that can be shown @returns {value is number} */
export function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** @param {number | null | undefined} value */
export function count(value) {
  if (!known(value)) return "–";
  if (Math.abs(value) < 100) return grouped.format(value);
  return (Math.abs(value) < 10_000 ? whole : compact).format(value);
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (!known(value)) return "–";
  const index = power(value, 1024, SIZES.length);
  value /= 1024 ** index;
  return `${grouped.format(Number(value.toFixed(index === 0 || value >= 100 ? 0 : 1)))} ${SIZES[index]}`;
}

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];
const THOUSANDS = ["", gettext("K"), gettext("M"), gettext("B"), gettext("T")];

/** How often a value can be divided. @param {number} value @param {number} base @param {number} most this is one more than it may */
function power(value, base, most) {
  let index = 0;
  for (let left = Math.abs(value); left >= base && index < most - 1; left /= base) index++;
  return index;
}

/** The numbers along an axis, all in the unit of the largest. @param {(value: number) => string} format @param {number[]} values */
export function axisWords(format, values) {
  const most = Math.max(0, ...values);
  if (format === bytes) {
    const index = power(most, 1024, SIZES.length);
    return values.map((value) => `${fine.format(value / 1024 ** index)} ${SIZES[index]}`);
  }
  if (format === milliseconds) return values.map((value) => (most >= 1000 ? `${fine.format(value / 1000)} s` : `${fine.format(value)} ms`));
  if (format !== count || most < 10_000) return values.map(format);
  const index = power(most, 1000, THOUSANDS.length);
  return values.map((value) => fine.format(value / 1000 ** index) + (value ? THOUSANDS[index] : ""));
}

/** @param {number | null | undefined} value */
export function percent(value) {
  return known(value) ? `${value < 10 ? grouped.format(value) : Math.round(value)} %` : "–";
}

/** @param {number | null | undefined} value in ms */
export function milliseconds(value) {
  if (!known(value)) return "–";
  if (value < 1000) return `${value < 10 ? grouped.format(value) : Math.round(value)} ms`;
  return value < 120_000 ? `${grouped.format(value / 1000)} s` : duration(value / 1000);
}

/** @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds < 120) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : days(Math.floor(seconds / 86_400));
}

/** @param {number} value */
function days(value) {
  return fill(ngettext("%(count)s days", "%(count)s days", value), { count: value });
}

/** How long ago a moment was. @param {number | null | undefined} at in ms since 1970 */
export function ago(at) {
  return at ? duration((Date.now() - at) / 1000) : "–";
}

/** A moment as people read it. @param {number} at in ms since 1970 */
export function moment(at) {
  return (Date.now() - at < 43_200_000 ? clock : dated).format(at);
}

/** Only words that change are touched: a screen reader would read them again. @param {Element} element @param {string} words */
export function say(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

/**
 * An element with its classes, texts and children.
 * @param {string} tag @param {Record<string, string>} [attributes] @param {...(Node | string)} children
 * @returns {any}
 */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** What Django refused, or that it did not answer. */
export class Refused extends Error {
  /** @param {string} detail @param {number} status 0: no answer came */
  constructor(detail, status) {
    super(detail);
    this.status = status;
  }
}

/** The JSON that Django answers; throws Refused. @param {string} url @param {RequestInit} [options] @returns {Promise<any>} */
export async function fetchJson(url, options = {}) {
  let response;
  try {
    response = await fetch(url, { credentials: "same-origin", signal: AbortSignal.timeout(10_000), ...options });
  } catch {
    throw new Refused(gettext("the web server does not answer"), 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  if (response.status === 401) throw new Refused(gettext("you are signed out"), 401);
  throw new Refused(answer.detail ?? fill(gettext("the web server answers %(status)s"), { status: response.status }), response.status);
}

/**
 * Asks again and again: at once, then `ms` after each answer; not while nobody looks at the page. An error that `ask` throws is handed to `failed`.
 * @param {() => Promise<void>} ask @param {number | (() => number)} ms @param {(error: Refused | null) => void} [failed] null: it works
 * @returns {() => void} asks now, also while the last question is still under way
 */
export function poll(ask, ms, failed = () => {}) {
  let timer = 0;
  let asking = false;
  let again = false;
  const once = async () => {
    try {
      await ask();
      failed(null);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      failed(error);
    }
  };
  const run = async () => {
    clearTimeout(timer);
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    try {
      do {
        again = false;
        await once();
      } while (again);
    } finally { // a fault of the page's is told by the browser, and does not end the asking
      asking = false;
      if (!document.hidden) timer = setTimeout(run, typeof ms === "function" ? ms() : ms);
    }
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden) run(); });
  run();
  return run;
}

/**
 * The rows of a table's body: as many as there are things to show, each cell touched only when its words change.
 * A cell is a text, or `{text, href, title, className}`.
 */
export class Rows {
  /** @param {HTMLTableSectionElement} body @param {string} empty what is said when there is nothing */
  constructor(body, empty) {
    this.body = body;
    this.empty = empty;
  }

  /** @param {(string | {text: string, href?: string, title?: string, className?: string})[][]} rows */
  show(rows) {
    const { body } = this;
    if (rows.length === 0) {
      this.#nothing();
      return;
    }
    if (body.dataset.empty) {
      delete body.dataset.empty;
      body.replaceChildren();
    }
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((cells, index) => this.#fill(body.rows[index] ?? body.insertRow(), cells));
  }

  #nothing() {
    const { body } = this;
    if (body.dataset.empty === this.empty) return;
    body.dataset.empty = this.empty;
    const columns = body.closest("table")?.querySelectorAll("thead th").length ?? 1;
    body.replaceChildren(make("tr", {}, make("td", { colspan: String(columns), class: "empty" }, this.empty)));
  }

  /** @param {HTMLTableRowElement} row @param {any[]} cells */
  #fill(row, cells) {
    cells.forEach((cell, index) => {
      const { text, href = "", title = "", className = "" } = typeof cell === "object" ? cell : { text: cell };
      // The first cell names its row.
      const element = row.cells[index] ?? row.appendChild(index ? make("td") : make("th", { scope: "row" }));
      if (element.className !== className) element.className = className;
      if (element.title !== title) element.title = title;
      const link = element.querySelector("a");
      if (!href) {
        if (link) link.remove();
        say(element, text);
        return;
      }
      const target = link ?? make("a");
      if (!link) element.replaceChildren(target);
      if (target.getAttribute("href") !== href) target.href = href;
      say(target, text);
    });
  }
}

/** A number's cell. @param {string} text @param {string} [title] */
export function number(text, title = "") {
  return { text, title, className: "number" };
}
