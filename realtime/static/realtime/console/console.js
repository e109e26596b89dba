/** The debug console: speaks to a sidecar by hand over the client that every page uses, and shows each frame. */

import { program } from "./ascode.js";
import { connect } from "../client.js";
import { fromBase64 } from "../client/wire/codec.js";
import { CLOSE_CODES, meaningOf, refusalMeans, thenWhat } from "./codes.js";
import { Followed } from "./followed.js";
import { Frames } from "./frames.js";
import { element, fetchToken, milliseconds, readConfig } from "../pages/page.js";
import { tapped } from "./tap.js";
import { fill, gettext } from "../pages/words.js";

const config = readConfig();
const frames = new Frames(element("frames"), element("frame-count"));
const followed = new Followed(
  { body: element("subscriptions"), count: element("subscription-count"), more: element("subscriptions-more") }, end);

/** @type {any} */
let client = null;
/** @type {(() => string | Promise<string>) | undefined} whose token the client's server gets, whatever the form says by now */
let token;
let subscriptions = /** @type {any[]} */ ([]); // as they were asked for, for the program
let publication = /** @type {any} */ (null);
let patterns = /** @type {string[]} */ ([]);
let language = "javascript";

// Connecting.

function open() {
  const { server, form, as } = values("connect");
  if (as === "session" && !config.servers.some((/** @type {any} */ { url }) => url === server)) {
    throw new Error(gettext("your own token goes to this site's servers only; for another, choose the bearer of a token"));
  }
  client?.close();
  followed.clear();
  subscriptions = [];
  patterns = [];
  token = { session: () => fetchToken(config.token_url), token: () => element("token").value.trim(), anonymous: undefined }[as];
  say("connect", "", "");
  client = connect({
    urls: server, form, token, WebSocket: tapped(WebSocket, hear), quickSeconds: 0.5, quickRetries: 10,
    onStatus: told,
  });
  state("connecting", gettext("Connecting…"));
}

/** @param {"in" | "out"} way @param {string | Uint8Array} data */
function hear(way, data) {
  const frame = frames.add(way, data);
  if (frame?.op !== "connected" && frame?.op !== "renewed") return;
  const user = frame.user || gettext("anonymous");
  const words = frame.op === "connected" ? gettext("connected as %(user)s") : gettext("renewed as %(user)s");
  const ends = frame.expires ? fill(gettext(", the token ends at %(time)s"), { time: new Date(frame.expires).toLocaleTimeString() }) : "";
  say("connect", "good", fill(words, { user }) + ends);
}

/** @param {any} status */
function told(status) {
  const { name, ...details } = status;
  if (name === "latency") {
    element("latency").textContent = milliseconds(status.ms);
    return;
  }
  followed.status(status);
  const meaning = name === "disconnected" ? `${status.code} ${meaningOf(status.code)}; ` : "";
  frames.tell(name, meaning + JSON.stringify(details), ["denied", "revoked", "refused", "error"].includes(name));
  if (name === "connected") {
    state("connected", gettext("Live"));
    element("port").textContent = new URL(status.url).port || new URL(status.url).protocol;
    element("port").title = status.url;
  }
  if (name === "disconnected") {
    const back = status.final ? "" : fill(gettext("; again in %(time)s"), { time: milliseconds(status.retryMs) });
    const why = status.reason || status.codeName;
    const means = meaningOf(status.code);
    say("connect", "bad", `${status.code} ${why}${means && !why.includes(means) ? ` (${means})` : ""}${back}`);
    state(status.final ? "stopped" : "reconnecting", status.final ? gettext("Stopped") : gettext("Reconnecting…"));
  }
  if (name === "paused") state("paused", gettext("Paused"));
  if (name === "closed") state("closed", gettext("Not connected"));
  if (name === "refused") say("subscribe", "bad", `${status.subject}: ${status.code}, ${status.reason}`);
  if (name === "error") say("connect", "bad", `${status.code}: ${status.reason}`);
}

/** @param {string} name @param {string} words */
function state(name, words) {
  document.documentElement.dataset.connection = name;
  element("state").textContent = words;
  const isOpen = !["idle", "closed", "stopped"].includes(name);
  for (const id of ["disconnect", "pause", "renew"]) element(id).disabled = !isOpen;
  element("renew").disabled = name !== "connected";
  element("pause").textContent = name === "paused" ? gettext("Resume") : gettext("Pause");
  element("connect-button").textContent = isOpen ? gettext("Connect anew") : gettext("Connect");
  if (name !== "connected") element("latency").textContent = element("port").textContent = "–";
  write();
}

// What the forms ask for.

function subscribe() {
  const { names, history, conflation, slow, since } = values("subscribe");
  const list = lines(names);
  const asked = { names: list, history: Number(history), conflation: Number(conflation), slow, since: parseSince(since) };
  const subscription = client.subscribe(
    list, followed.message.bind(followed),
    { history: asked.history, conflation: asked.conflation, slow, since: asked.since ?? {} });
  followed.add(list, subscription);
  subscriptions = [...subscriptions.map((each) => without(each, list)).filter((each) => each.names.length), asked];
  say("subscribe", "good", fill(gettext("asked for %(names)s"), { names: list.join(", ") }));
}

/** @param {string} name @param {any} subscription */
async function end(name, subscription) {
  followed.remove(name);
  subscriptions = subscriptions.map((each) => without(each, [name])).filter((each) => each.names.length);
  write();
  await subscription.unsubscribe([name]);
}

async function publish() {
  const { subject, content, fields, qos, closure, reply_to: replyTo } = values("publish");
  const isBinary = element("binary").checked;
  const given = { subject, content, isBinary, fields: parseFields(fields), retained: element("retained").checked, qos, closure, replyTo };
  const value = isBinary ? fromBase64(content.trim()) : content;
  publication = given;
  const { epoch, seq } = await client.publish(
    subject, value, { fields: given.fields, retained: given.retained, qos, replyTo, closure: closure || undefined });
  say("publish", "good", seq ? fill(gettext("accepted as %(position)s"), { position: `${epoch}/${seq}` }) : gettext("accepted, with standard quality"));
}

async function presence() {
  const { subject } = values("presence");
  const { users, anonymous, more, stale } = await client.presence(subject.trim());
  const named = users.map((/** @type {any} */ { user, connections }) => connections > 1 ? `${user} (${connections})` : user);
  const all = [...named, ...(more ? [fill(gettext("%(count)s more"), { count: more })] : []), ...(anonymous ? [fill(gettext("%(count)s anonymous"), { count: anonymous })] : [])];
  say("presence", "good", (all.join(", ") || gettext("nobody")) + (stale ? gettext(" — not complete at the moment") : ""));
}

async function advertise() {
  patterns = lines(values("advertise").patterns.replaceAll(",", "\n"));
  const wanted = new Set();
  element("interest").textContent = "";
  const results = await client.advertise(patterns, (/** @type {string[]} */ subjects, /** @type {boolean} */ isWanted) => {
    for (const subject of subjects) isWanted ? wanted.add(subject) : wanted.delete(subject);
    element("interest").textContent = wanted.size ? fill(gettext("wanted: %(subjects)s"), { subjects: [...wanted].slice(0, 50).join(", ") }) : gettext("nothing of it is wanted");
  });
  const refused = results.filter((/** @type {any} */ { error }) => error);
  const words = refused.map((/** @type {any} */ { pattern, error, reason }) => `${pattern}: ${error}, ${reason}`).join("; ");
  say("advertise", refused.length ? "bad" : "good", words || (patterns.length ? fill(gettext("advertised %(patterns)s"), { patterns: patterns.join(", ") }) : gettext("nothing is advertised")));
}

async function renew() {
  if (!token) throw new Error(gettext("an anonymous connection has no token: connect anew with one"));
  await client.renew(await token());
}

/** Do what a form asks for; what goes wrong is said below it. @param {string} id @param {() => any} action @param {boolean} [needsClient] */
async function attempt(id, action, needsClient = true) {
  if (needsClient && !client) return say(id, "bad", gettext("connect first"));
  try {
    await action();
  } catch (error) {
    const { status, message } = /** @type {any} */ (error);
    const means = refusalMeans(status ?? "");
    say(id, "bad", means ? `${message} (${means})` : message);
  }
  write();
}

// Small things.

/** @param {string} id @returns {any} the form's fields by name */
function values(id) {
  return Object.fromEntries(new FormData(element(id)));
}

/** @param {string} id of the form @param {string} mood @param {string} words */
function say(id, mood, words) {
  const outcome = element(`${id}-outcome`);
  outcome.dataset.state = mood;
  outcome.textContent = words;
}

/** @param {string} text */
function lines(text) {
  return [...new Set(text.split("\n").map((line) => line.trim()).filter(Boolean))];
}

/** @param {any} asked @param {string[]} names */
function without(asked, names) {
  return { ...asked, names: asked.names.filter((/** @type {string} */ name) => !names.includes(name)) };
}

/** Positions: `epoch, seq`, or JSON. @param {string} text @returns {any} Throws Error. */
function parseSince(text) {
  if (!text.trim()) return null;
  const pair = /^\s*(\d+)\s*[,\/: ]\s*(\d+)\s*$/.exec(text);
  if (pair) return [Number(pair[1]), Number(pair[2])];
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(gettext("since is `epoch, seq`, or a JSON map of subjects to [epoch, seq]"));
  }
}

/** @param {string} text a line for each field @returns {Record<string, string>} Throws Error. */
function parseFields(text) {
  return Object.fromEntries(text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(fill(gettext("a field is name=value, not %(line)s"), { line }));
    return [line.slice(0, at).trim(), line.slice(at + 1)];
  }));
}

/** The program that does the same. */
function write() {
  const { server, form, as } = values("connect");
  const clientUrl = new URL("../client.js", import.meta.url).pathname;
  element("code-text").textContent = program(
    { server, form, as, clientUrl, tokenUrl: config.token_url, subscriptions, publication, patterns }, language);
}

// The page.

/** @param {string} id @param {() => any} action @param {boolean} [needsClient] */
function onSubmit(id, action, needsClient) {
  element(id).addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    attempt(id, action, needsClient);
  });
}

onSubmit("connect", open, false);
onSubmit("subscribe", subscribe);
onSubmit("publish", publish);
onSubmit("presence", presence);
onSubmit("advertise", advertise);
for (const area of document.querySelectorAll("form textarea")) {
  area.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey } = /** @type {KeyboardEvent} */ (event);
    if (key === "Enter" && (ctrlKey || metaKey)) /** @type {HTMLTextAreaElement} */ (area).form?.requestSubmit();
  });
}
element("disconnect").addEventListener("click", () => client.close());
element("pause").addEventListener("click", () => client.state === "paused" ? client.resume() : client.pause());
element("renew").addEventListener("click", () => attempt("connect", renew));
element("as").addEventListener("change", () => { element("token-row").hidden = element("as").value !== "token"; });
element("connect").addEventListener("change", write);
element("filter").addEventListener("input", () => frames.show({ filter: element("filter").value }));
element("show-pings").addEventListener("change", () => frames.show({ pings: element("show-pings").checked }));
element("hold").addEventListener("change", () => frames.show({ hold: element("hold").checked }));
element("clear").addEventListener("click", () => frames.clear());
element("copy").addEventListener("click", async () => {
  const copied = element(gettext("copied"));
  // A page that came over plain HTTP from another machine has no clipboard.
  const copy = navigator.clipboard?.writeText(element("code-text").textContent) ?? Promise.reject(new Error());
  await copy.then(() => { copied.textContent = gettext("copied"); }, () => { copied.textContent = gettext("the browser does not allow it: mark the text and copy it"); });
});
for (const button of document.querySelectorAll("[data-language]")) {
  button.addEventListener("click", () => {
    language = /** @type {HTMLElement} */ (button).dataset.language ?? "";
    for (const each of document.querySelectorAll("[data-language]")) each.setAttribute("aria-pressed", String(each === button));
    element(gettext("copied")).textContent = "";
    write();
  });
}

for (const { url } of config.servers) element("servers").append(new Option(url, url));
element("server").value = config.servers[0]?.url ?? "";
element("token-row").hidden = element("as").value !== "token";
for (const [code, name, meaning] of CLOSE_CODES) {
  const row = element("code-table").insertRow();
  for (const text of [String(code), name, meaning, thenWhat(code)]) row.insertCell().textContent = text;
  row.cells[0].className = "number";
}
state("idle", gettext("Not connected"));
// Until here a form would have been sent to the server, for nobody else listened.
for (const button of document.querySelectorAll("form button:not([type=button])")) {
  /** @type {HTMLButtonElement} */ (button).disabled = false;
}

// For the browser's console.
Object.assign(globalThis, { realtime: { get client() { return client; } } });
