/** The console's table of subscriptions: subjects and patterns, how each stands, and the newest message. */

import { asOfDetails, asOfWords } from "../pages/asof.js";
import { isPattern } from "../client/session/wanted.js";
import { fill, gettext, ngettext } from "../pages/words.js";

const ROWS = 500;

/** How a status of a subject reads, and whether that is good. @type {Record<string, [words: string, state: string]>} */
const STATES = {
  denied: [gettext("denied"), "bad"], revoked: [gettext("revoked"), "bad"], refused: [gettext("refused"), "bad"],
  notReady: [gettext("not ready"), "waiting"], granted: [gettext("granted"), "live"],
  gap: [gettext("gap, asked again"), "waiting"], lagging: [gettext("lagging"), "waiting"], caughtUp: [gettext("live"), "live"],
  limited: [gettext("too many"), "bad"], partial: [gettext("in part"), "waiting"],
};

export class Followed {
  #body;
  #count;
  #more;
  #end;
  /** @type {Map<string, any>} by subject or pattern */
  #rows = new Map();
  /** @type {Set<any>} whose message is not shown yet */
  #changed = new Set();
  #isDue = false;

  /** @param {{body: any, count: any, more: any}} elements @param {(name: string, subscription: any) => void} end asked for by the button of a row */
  constructor({ body, count, more }, end) {
    this.#body = body;
    this.#count = count;
    this.#more = more;
    this.#end = end;
  }

  /** Somebody subscribed to these. @param {string[]} names @param {any} subscription */
  add(names, subscription) {
    for (const name of names) {
      this.remove(name);
      this.#put(name, { subscription, pattern: "" });
    }
  }

  /** It is subscribed to no more, nor what it found. @param {string} name */
  remove(name) {
    for (const row of [...this.#rows.values()]) {
      if (row.name !== name && row.pattern !== name) continue;
      row.root?.remove();
      this.#rows.delete(row.name);
    }
    this.#counted();
  }

  clear() {
    for (const { name } of [...this.#rows.values()]) this.remove(name);
  }

  /** @param {any} status */
  status({ name, subject, pattern, recovery, reason = "" }) {
    if (!subject) return;
    const words = name === "subscribed" ? [recovery || gettext("live"), recovery === "resynchronised" ? "waiting" : "live"] : STATES[name];
    if (!words) return;
    const row = this.#rows.get(subject) ?? (pattern && pattern !== subject ? this.#put(subject, { pattern }) : null);
    if (!row?.root) return;
    [row.state.textContent, row.state.dataset.state] = words;
    row.state.title = reason;
  }

  /** @param {any} message @param {any} subscription that heard it */
  message(message, subscription) {
    const row = this.#rows.get(message.subject);
    // A subject of a pattern that is subscribed to as well is counted once.
    if (!row || (row.subscription && row.subscription !== subscription)) return;
    row.count += 1;
    row.message = message;
    this.#changed.add(row);
    if (!this.#isDue) requestAnimationFrame(() => this.#draw());
    this.#isDue = true;
  }

  #draw() {
    this.#isDue = false;
    for (const { root, number, newest, count, message } of this.#changed) {
      if (!root) continue;
      number.textContent = String(count);
      newest.textContent = preview(message);
      const asOf = asOfDetails(message.asOf);
      newest.title = `${message.kind}, ${message.qos}, ${message.epoch}/${message.seq}, ${new Date(message.time).toISOString()}${asOf && fill(gettext("; data as of %(time)s"), { time: asOf })}`;
    }
    this.#changed.clear();
  }

  /** @param {string} name @param {{subscription?: any, pattern: string}} of */
  #put(name, { subscription = null, pattern }) {
    const row = { name, subscription, pattern, count: 0, message: null, root: null, last: null };
    this.#rows.set(name, row);
    if (this.#body.children.length < ROWS) this.#build(row);
    this.#counted();
    return row;
  }

  /** @param {any} row */
  #build(row) {
    const root = document.createElement("tr");
    row.root = root;
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = row.name;
    const cells = ["state", "number", "newest", ""].map((name) => {
      const cell = document.createElement("td");
      cell.className = name;
      return cell;
    });
    [row.state, row.number, row.newest] = cells;
    row.state.textContent = gettext("asked");
    row.number.textContent = isPattern(row.name) ? "" : "0";
    root.dataset.name = row.name;
    root.append(head, ...cells);
    if (row.subscription) {
      const end = document.createElement("button");
      end.type = "button";
      end.textContent = gettext("End");
      end.setAttribute("aria-label", fill(gettext("End %(name)s"), { name: row.name }));
      end.addEventListener("click", () => this.#end(row.name, row.subscription));
      cells[3].append(end);
      this.#body.append(root);
    } else {
      root.className = "found";
      const above = this.#rows.get(row.pattern);
      (above?.last ?? above?.root)?.after(root);
      if (above) above.last = root;
    }
  }

  #counted() {
    this.#count.textContent = String(this.#rows.size);
    const hidden = [...this.#rows.values()].filter(({ root }) => !root).length;
    this.#more.textContent = hidden ? fill(gettext("and %(count)s more"), { count: hidden }) : "";
  }
}

/** @param {any} message */
function preview({ content, fields, asOf }) {
  const text = (/** @type {any} */ value) => typeof value === "string" ? value : fill(ngettext("%(count)s bytes", "%(count)s bytes", value.length), { count: value.length });
  const all = Object.entries(fields).map(([name, value]) => `${name}=${text(value)}`);
  const asOfNow = asOfWords(asOf);
  const when = asOfNow ? fill(gettext("data as of %(time)s: "), { time: asOfNow }) : ""; // first, so that a long content does not cut it off
  return (when + [text(content), ...all].join("  ")).slice(0, 300);
}
