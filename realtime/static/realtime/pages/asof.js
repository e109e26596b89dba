/** As of when data is, in words: a message's `asOf` is a text, a number, or a map of `time`, `batch`, `job`, `version`. */

import { fill, gettext, timeLanguage } from "./words.js";

const clock = new Intl.DateTimeFormat(timeLanguage, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dated = new Intl.DateTimeFormat(timeLanguage, { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DATE = /^\d{4}-\d\d-\d\d/;
const MS_LEAST = 1e11; // 1973 in ms: a smaller number is not a time, but somebody's own count
const MS_MOST = 8.64e15; // the last moment that a Date can be

/**
 * A moment as people read it: with the day, unless that is today.
 * @param {number} at in ms since 1970 @param {number} [now]
 */
export function clockOf(at, now = Date.now()) {
  const isToday = new Date(at).toDateString() === new Date(now).toDateString();
  return (isToday ? clock : dated).format(at);
}

/** The moment it names, in ms since 1970; null when it names none. @param {unknown} asOf @returns {number | null} */
export function asOfTime(asOf) {
  const value = timeIn(asOf);
  if (typeof value === "number") return value >= MS_LEAST && value <= MS_MOST ? value : null;
  const at = typeof value === "string" && DATE.test(value) ? Date.parse(value) : NaN;
  return Number.isNaN(at) ? null : at;
}

/** As of when, shortly: "10:12:05", "batch 17", or the publisher's own words; "" when the message does not say. @param {unknown} asOf @param {number} [now] */
export function asOfWords(asOf, now = Date.now()) {
  const at = asOfTime(asOf);
  if (at !== null) return clockOf(at, now);
  const value = timeIn(asOf);
  if (value !== undefined && value !== null) return String(value);
  return madeBy(asOf);
}

/** All that it says: "10:12:05, batch 17 of bars, version 3". @param {unknown} asOf @param {number} [now] */
export function asOfDetails(asOf, now = Date.now()) {
  const made = madeBy(asOf);
  const words = asOfWords(asOf, now);
  return words === made ? made : [words, made].filter(Boolean).join(", ");
}

/** The later one of two; what names no moment counts only against what does not either. @param {unknown} before @param {unknown} asOf */
export function newerAsOf(before, asOf) {
  if (asOf === null || asOf === undefined) return before;
  return (asOfTime(asOf) ?? -Infinity) >= (asOfTime(before) ?? -Infinity) ? asOf : before;
}

/** @param {unknown} asOf @returns {unknown} */
function timeIn(asOf) {
  return isMap(asOf) ? asOf.time : asOf;
}

/** @param {unknown} asOf */
function madeBy(asOf) {
  if (!isMap(asOf)) return "";
  const { batch, job, version } = asOf;
  const parts = [];
  if (batch !== undefined) parts.push(fill(job ? gettext("batch %(batch)s of %(job)s") : gettext("batch %(batch)s"), { batch, job }));
  else if (job) parts.push(String(job));
  if (version !== undefined) parts.push(fill(gettext("version %(version)s"), { version }));
  return parts.join(", ");
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isMap(value) {
  return typeof value === "object" && value !== null;
}
