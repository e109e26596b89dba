/** The page of a trace: asks twice a second what has happened, and lists it. */

import { bytes, duration, fetchJson, make, milliseconds, Refused, say } from "./common.js";
import { element, readConfig } from "../pages/page.js";
import { fill, gettext, ngettext, timeLanguage } from "../pages/words.js";

const POLL_MS = 500;
const MS_MAX = 60_000; // no trace runs for longer
const AWAY_MS = 10_000; // so long after its end a node that was away can still have events
const KEPT = 20_000;
const SHOWN = 300;
const PLAIN = new Set(["n", "time", "node", "event", "worker", "connection", "user", "subject"]); // they have columns, or say nothing
const BAD = new Set(["denied", "refused", "unpublished", "revoked", "blocked", "lagging", "closed", "dropped"]);
/** @type {Record<string, (value: any) => string>} */
const WORDS = {
  bytes: (value) => bytes(value),
  queue_bytes: (value) => fill(gettext("%(size)s wait"), { size: bytes(value) }),
  latency_ms: (value) => (value ? fill(gettext("after %(time)s"), { time: milliseconds(value) }) : gettext("within 1 ms")),
  ms: (value) => fill(gettext("took %(time)s"), { time: value < 1 ? `${value.toFixed(2)} ms` : milliseconds(value) }),
  seconds: (value) => fill(gettext("connected for %(time)s"), { time: duration(value) }),
  repeated: () => gettext("a repetition"),
  how: (value) => value,
  more: () => gettext("and more, not counted"),
  reason: (value) => value,
  detail: plain,
};
const COMES = new Set(["following", "connected"]); // the address is said once
const GOOD = new Set(["connected", "subscribed", "published", "unblocked", "caught_up"]);

const config = readConfig();
const list = element("events");
const kinds = element("kind");

/** @type {any[]} */
const events = [];
/** Each node's trace, and the number of the newest event of it. @type {Map<number, {trace: string, after: number, ended: string, dropped: number}>} */
const running = new Map(config.traces.map((/** @type {string} */ text) => {
  const [node, trace] = text.split(":");
  return [Number(node), { trace, after: 0, ended: "", dropped: 0 }];
}));
let passed = 0; // events that were let go because there were too many
let drawn = true;
let giveUpAt = performance.now() + MS_MAX + AWAY_MS;

async function poll() {
  const open = [...running].filter(([, { ended }]) => !ended);
  if (!open.length) return;
  const url = new URL(config.data_url, location.href);
  for (const [node, { trace, after }] of open) url.searchParams.append("t", `${node}:${trace}:${after}`);
  try {
    const answer = await fetchJson(url.href);
    if (performance.now() > giveUpAt) for (const { node, error } of answer.errors) answer.ended[node] = error;
    complain(answer.errors.map((/** @type {any} */ { name, error }) => `${name}: ${error}`).join("; "));
    take(answer);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const isFinal = error.status >= 400 && error.status < 500; // signed out, or without the permission
    if (isFinal || performance.now() > giveUpAt) return finish(error.message);
    complain(fill(gettext("%(error)s; trying again"), { error: error.message }));
  }
  // Also while the page is hidden: who traces is often at work in another one.
  window.setTimeout(poll, POLL_MS);
}

/** @param {any} answer */
function take({ events: fresh, dropped, ended, seconds_left: left }) {
  for (const event of fresh) {
    const node = running.get(event.node);
    if (node) node.after = Math.max(node.after, event.n);
    event.words = words(event);
    if (![...kinds.options].some(({ value }) => value === event.event)) kinds.add(new Option(event.event, event.event));
  }
  events.push(...fresh);
  if (events.length > KEPT) passed += events.splice(0, events.length - KEPT).length;
  for (const [node, count] of Object.entries(dropped)) /** @type {any} */ (running.get(Number(node))).dropped = count;
  for (const [node, why] of Object.entries(ended)) /** @type {any} */ (running.get(Number(node))).ended = why;
  if (left) giveUpAt = performance.now() + left * 1000 + AWAY_MS;
  const states = [...running.values()];
  if (states.every((state) => state.ended)) finish([...new Set(states.map((state) => state.ended))].join("; "));
  else element("left").textContent = fill(gettext("%(seconds)s s left"), { seconds: Math.ceil(left) });
  if (fresh.length || states.some((state) => state.dropped)) changed();
}

/** @param {string} why */
function finish(why) {
  element("left").textContent = "";
  element("trace-state").textContent = fill(gettext("ended: %(reason)s"), { reason: why });
  element("trace").dataset.state = "ended";
  const button = element("stop");
  if (document.activeElement === button) element("download").focus();
  button?.remove();
}

/** What the columns do not say. @param {any} event */
function words({ epoch, seq, address, ...event }) {
  const parts = seq === undefined ? [] : [`${epoch}/${seq}`];
  if (COMES.has(event.event)) parts.push(address);
  for (const [name, value] of Object.entries(event)) {
    const isSaid = name === "latency_ms" || ![null, "", false, 0].includes(value);
    if (!PLAIN.has(name) && isSaid) parts.push(WORDS[name]?.(value) ?? `${name} ${plain(value)}`);
  }
  return parts.join(" · ");
}

/** @param {any} value @returns {string} */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain).join(" ");
  return value instanceof Object ? Object.entries(value).map(([name, each]) => `${name} ${plain(each)}`).join(", ") : String(value);
}

/** Draw with the next frame of the screen, however often that is asked. */
function changed() {
  if (!drawn) return;
  drawn = false;
  requestAnimationFrame(() => { drawn = true; draw(); });
}

function draw() {
  const dropped = [...running.values()].reduce((sum, state) => sum + state.dropped, passed);
  const count = fill(ngettext("%(count)s event", "%(count)s events", events.length), { count: events.length });
  element("count").textContent = dropped ? fill(gettext("%(events)s, %(dropped)s older ones were dropped"), { events: count, dropped }) : count;
  element("download").disabled = !events.length;
  element("none").hidden = events.length > 0;
  if (element("hold").checked) return;
  const wanted = element("filter").value.trim().toLowerCase();
  const kind = kinds.value;
  const lines = [];
  for (let index = events.length - 1; index >= 0 && lines.length < SHOWN; index--) {
    const event = events[index];
    if (kind && event.event !== kind) continue;
    if (wanted && !text(event).includes(wanted)) continue;
    lines.push(event.line ??= line(event));
  }
  list.replaceChildren(...lines);
}

/** @param {any} event */
function text(event) {
  return [event.event, event.user, event.connection, event.address, event.subject, event.words].join(" ").toLowerCase();
}

/** @param {any} event */
function line(event) {
  const item = make("li", { "data-event": event.event });
  if (BAD.has(event.event)) item.dataset.state = "bad";
  if (GOOD.has(event.event)) item.dataset.state = "good";
  const who = [event.user, event.connection].filter(Boolean).join(" ") + (running.size > 1 ? ` ${fill(gettext("on %(host)s"), { host: config.nodes[event.node] })}` : "");
  const at = new Date(event.time);
  const time = `${at.toLocaleTimeString(timeLanguage)}.${String(at.getMilliseconds()).padStart(3, "0")}`;
  const parts = { time, kind: event.event.replaceAll("_", " "), who, subject: event.subject ?? "", what: event.words };
  item.append(...Object.entries(parts).map(([name, value]) => make("span", { class: name }, value)));
  return item;
}

/** @param {string} words */
function complain(words) {
  say(element("trace-outcome"), words);
}

async function stop() {
  const body = new FormData();
  for (const [node, { trace }] of running) body.append("t", `${node}:${trace}`);
  body.append("csrfmiddlewaretoken", /** @type {HTMLInputElement} */ (document.querySelector("[name=csrfmiddlewaretoken]")).value);
  element("stop").disabled = true;
  try {
    await fetchJson(config.stop_url, { method: "POST", body });
  } catch (error) {
    element("stop").disabled = false;
    return complain(fill(gettext("not stopped: %(error)s"), { error: /** @type {Error} */ (error).message }));
  }
  giveUpAt = performance.now() + AWAY_MS; // what is left to read comes with the next questions
}

/** Everything that is kept, a JSON object a line. */
function download() {
  const rows = events.map(({ words: _, line: __, node, ...event }) => JSON.stringify({ node: config.nodes[node], ...event }));
  const name = config.name.replaceAll(/[^\w.-]+/g, "_");
  const link = make("a", {
    href: URL.createObjectURL(new Blob([rows.join("\n"), "\n"], { type: "application/x-ndjson" })),
    download: `trace-${config.what}-${name}-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.jsonl`,
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

for (const id of ["filter", "kind", "hold"]) element(id).addEventListener("input", changed);
element("stop")?.addEventListener("click", stop);
element("download").addEventListener("click", download);
poll();
