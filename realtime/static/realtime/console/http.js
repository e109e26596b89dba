/** The page that tries what the sidecar answers over HTTP: a form for each operation of its OpenAPI document. */

import { element, fetchToken, readConfig } from "../pages/page.js";
import { fill, gettext } from "../pages/words.js";

const ANSWER_CHARS_MAX = 200_000;

const config = readConfig();
const base = new URL(config.schema_url, location.href).href.replace(/api\/schema\/$/, "");
/** @type {Map<string, any>} */
const operations = new Map();
/** @type {AbortController | null} */
let running = null;

/** @param {string} text @param {string} [state] */
function say(text, state = "") {
  element("outcome").textContent = text;
  element("outcome").dataset.state = state;
}

/** @param {any} parameter */
function startOf(parameter) {
  const value = parameter.example ?? parameter.schema.example ?? "";
  return parameter.required ? [value].flat().join("\n") : "";
}

/** The body that is sent: the first kind of those that the operation takes. @param {any} operation @returns {[string, any]} */
const bodyOf = (operation) => /** @type {any} */ (Object.entries(operation.requestBody.content)[0]);

/** The form of the chosen operation. */
function show() {
  const chosen = operations.get(element("operation").value);
  element("about").textContent = [chosen.summary, chosen.description].filter(Boolean).join(". ");
  const rows = (chosen.parameters ?? []).map((/** @type {any} */ parameter, /** @type {number} */ at) => {
    const isMany = parameter.schema.type === "array";
    return field(`p${at}`, parameter.name + (isMany ? gettext(", one a line") : ""), isMany ? "textarea" : "input",
      startOf(parameter), parameter.description);
  });
  if (chosen.requestBody) {
    const [kind, body] = bodyOf(chosen);
    const example = body.example ?? /** @type {any} */ (Object.values(body.examples)[0]).value;
    if (typeof example === "string") rows.push(field("body", fill(gettext("Body, %(kind)s"), { kind }), "textarea", example, ""));
    else rows.push(field("body", fill(gettext("Body, %(kind)s"), { kind: "JSON" }), "textarea", JSON.stringify(example, null, 2), ""));
  }
  element("inputs").replaceChildren(...rows);
  say("");
}

/** @param {string} id @param {string} title @param {string} kind @param {string} value @param {string} [help] */
function field(id, title, kind, value, help) {
  const row = document.createElement("div");
  const label = Object.assign(document.createElement("label"), { htmlFor: id, textContent: title });
  const input = Object.assign(document.createElement(kind), { id, value, spellcheck: false, autocomplete: "off" });
  if (kind === "textarea") input.setAttribute("rows", id === "body" ? "8" : "2");
  row.append(label, input);
  if (help) {
    const text = Object.assign(document.createElement("p"), { id: `${id}-help`, className: "help", textContent: help });
    input.setAttribute("aria-describedby", text.id);
    row.append(text);
  }
  return row;
}

/** The request as the form has it. @returns {Promise<{url: string, init: RequestInit & {headers: any}}>} */
async function request() {
  const chosen = operations.get(element("operation").value);
  let path = chosen.path.slice(1);
  for (const [at, parameter] of (chosen.parameters ?? []).entries()) {
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(element(`p${at}`).value));
  }
  const url = new URL(base + path);
  /** @type {Record<string, string>} */
  const headers = {};
  for (const [at, parameter] of (chosen.parameters ?? []).entries()) {
    const text = element(`p${at}`).value;
    if (text === "" || parameter.in === "path") continue;
    if (parameter.in === "header") headers[parameter.name] = text;
    else if (parameter.schema.type === "array") {
      for (const line of text.split("\n").filter(Boolean)) url.searchParams.append(parameter.name, line);
    } else url.searchParams.append(parameter.name, text);
  }
  const as = element("as").value;
  const token = as === "session" ? await fetchToken(config.token_url) : as === "token" ? element("token").value.trim() : "";
  if (token) headers.Authorization = `Bearer ${token}`;
  /** @type {RequestInit & {headers: any}} */
  const init = { method: chosen.method, headers, credentials: "omit", cache: "no-store" };
  if (chosen.requestBody) {
    headers["Content-Type"] = bodyOf(chosen)[0];
    init.body = element("body").value;
  }
  return { url: url.href, init };
}

/** @param {string} text */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** @param {string} url @param {any} init */
function asCurl(url, init) {
  const parts = ["curl -N", ...(init.method === "GET" ? [] : [`-X ${init.method}`])];
  for (const [name, value] of Object.entries(init.headers)) {
    // A token is a key: it is not shown where it may be copied on.
    parts.push(name === "Authorization" ? '-H "Authorization: Bearer $TOKEN"' : `-H ${quoted(`${name}: ${value}`)}`);
  }
  if (init.body) parts.push(`-d ${quoted(init.body)}`);
  return [...parts, quoted(url)].join(" \\\n  ");
}

/** @param {Response} response */
async function read(response) {
  const isJson = /[/+]json/.test(response.headers.get("Content-Type") ?? "");
  const head = `${response.status} ${response.statusText}\n${[...response.headers].map(([name, value]) => `${name}: ${value}`).join("\n")}\n\n`;
  let text = "";
  element("answer").textContent = head;
  const reader = /** @type {any} */ (response.body?.pipeThrough(new TextDecoderStream()))?.getReader();
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done) break;
    text = (text + value).slice(-ANSWER_CHARS_MAX);
    element("answer").textContent = head + text;
  }
  if (isJson) element("answer").textContent = head + JSON.stringify(JSON.parse(text), null, 2);
}

/** @param {Event} event */
async function send(event) {
  event.preventDefault();
  running?.abort();
  const mine = running = new AbortController();
  element("stop").disabled = false;
  say(gettext("Asking…"));
  try {
    const { url, init } = await request();
    element("curl").textContent = asCurl(url, init);
    const response = await fetch(url, { ...init, signal: mine.signal });
    say(`${response.status} ${response.statusText}`, response.ok ? "good" : "bad");
    await read(response);
  } catch (error) {
    if (mine.signal.aborted) say(gettext("Stopped."));
    else say(fill(gettext("No answer: %(error)s"), { error: /** @type {Error} */ (error).message }), "bad");
  }
  if (running === mine) element("stop").disabled = true;
}

async function begin() {
  const response = await fetch(config.schema_url, { signal: AbortSignal.timeout(5000) });
  if (!response.ok) throw new Error(fill(gettext("the web server answers %(status)s"), { status: response.status }));
  const schema = await response.json();
  for (const [path, methods] of Object.entries(schema.paths)) {
    for (const [method, operation] of Object.entries(/** @type {any} */ (methods))) {
      const name = `${method.toUpperCase()} ${path}`;
      operations.set(name, { ...operation, path, method: method.toUpperCase() });
      element("operation").append(new Option(name, name));
    }
  }
  show();
  element("send").disabled = false;
}

element("operation").addEventListener("change", show);
element("as").addEventListener("change", () => { element("token-row").hidden = element("as").value !== "token"; });
element("ask").addEventListener("submit", send);
element("stop").addEventListener("click", () => running?.abort());
begin().catch((error) => say(fill(gettext("The document cannot be read: %(error)s. Is the sidecar running?"), { error: error.message }), "bad"));
