/** The live board: a row for each instrument, candles, movers, alerts and sensors; whether there is a right is the sidecar's decision. */

import { Alerts } from "./alerts.js";
import { asOfDetails, asOfWords, newerAsOf } from "../pages/asof.js";
import { CandlePanel } from "./candlepanel.js";
import { Movers } from "./movers.js";
import { Corner, element, milliseconds, openClient, readConfig } from "../pages/page.js";
import { Row } from "./row.js";
import { Sensors } from "./sensors.js";

const STILL_MS = 3000;
const TICK_MS = 250;
const HISTORY = 60; // so that the small lines are there at once

const config = readConfig();
const client = openClient(config);
const corner = new Corner(client);

/** @type {Map<string, Row>} */
const rows = new Map();
for (const instrument of config.instruments) {
  rows.set(instrument.subject, new Row(element(`row-${instrument.symbol}`), instrument.symbol, choose));
}

const openedAt = Date.now();
let lastAt = 0; // when the last update came, by this machine's clock
let clockOffsetMs = 0; // the server's clock minus ours
let ageMs = /** @type {number | null} */ (null);
let asOf = /** @type {unknown} */ (null); // the newest that a row's message said

client.on("latency", (status) => { clockOffsetMs = status.clockOffsetMs ?? 0; });
client.on("subscribed", ({ subject }) => {
  const row = rows.get(subject ?? "");
  row?.grant();
  // Until the reader has chosen one, the first that is open to them.
  if (row && !candles.symbol) choose(row.symbol);
});
client.on("denied", ({ subject, reason }) => rows.get(subject ?? "")?.deny(reason ?? ""));
client.on("revoked", ({ subject, reason }) => rows.get(subject ?? "")?.deny(reason ?? ""));
client.on("notReady", ({ subject }) => rows.get(subject ?? "")?.wait());
client.on("status", summarise);

client.subscribe([...rows.keys()], (message) => {
  const isUpdate = message.kind === "update";
  rows.get(message.subject)?.update(message, isUpdate);
  asOf = newerAsOf(asOf, message.asOf);
  // A snapshot is what was; that something arrives now is what tells that Spark is there.
  if (!isUpdate) return;
  lastAt = Date.now();
  const sent = Number(message.fields.sent);
  if (sent) ageMs = Math.max(0, lastAt + clockOffsetMs - sent);
}, { history: HISTORY });
const candles = new CandlePanel(client, config, mark);
const movers = new Movers(client, config, choose);
const alerts = new Alerts(client, config, choose);
const sensors = new Sensors(client, config);

/** Show an instrument's candles. @param {string} symbol */
function choose(symbol) {
  candles.show(symbol);
}

/** @param {string} symbol whose candles are shown */
function mark(symbol) {
  for (const row of rows.values()) row.choose(row.symbol === symbol);
}

/** What the board says about itself, four times a second; only words that change are touched. */
function tick() {
  const now = Date.now();
  const { connection } = document.documentElement.dataset;
  const seconds = Math.floor((now - (lastAt || openedAt)) / 1000);
  const isEntitled = [...rows.values()].some((row) => row.state !== "denied");
  let state = "";
  let words = "";
  if (connection === "signed-out") {
    state = "signed-out";
  } else if (connection === "stopped") {
    state = "stopped";
    words = "The server ended this connection and asks not to come back. Reload the page to try again.";
  } else if (connection === "reconnecting") {
    state = "reconnecting";
    words = "The connection was lost. Reconnecting; the board continues where it was.";
  } else if (connection === "stale") {
    state = "stale";
    words = "The sidecar gets nothing new for now. What is shown may be old; it catches up by itself.";
  } else if (connection === "connecting") {
    state = "connecting";
    words = "Connecting to the sidecar…";
  } else if (!isEntitled) {
    state = "denied";
    words = "None of these instruments is open to you. Rows start by themselves when a rule allows it.";
  } else if ([...rows.values()].some((row) => row.state === "notReady")) {
    state = "not-ready";
    words = "The sidecar waits for the access rules from Django…";
  } else if (!lastAt) {
    state = "waiting";
    words = `Waiting for Spark’s first batch… ${seconds} s (usually 15–45 s)`;
  } else if (now - lastAt >= STILL_MS) {
    state = "still";
    words = `Standing still for ${seconds} s: no data from Spark`;
  }
  show(state, words);
  element("age").textContent = ageMs === null || state ? "–" : milliseconds(ageMs);
  const asOfNow = asOfWords(asOf);
  const data = element("as-of");
  if (data.textContent !== (asOfNow && `Data as of ${asOfNow}`)) data.textContent = asOfNow && `Data as of ${asOfNow}`;
  data.title = asOfDetails(asOf);
}

/** @param {string} state @param {string} words */
function show(state, words) {
  const banner = element("banner");
  if (banner.dataset.state !== state) {
    banner.dataset.state = state;
    if (state === "signed-out") signOut();
    banner.hidden = state === "" || state === "signed-out";
    element("signed-out").hidden = state !== "signed-out";
    document.documentElement.dataset.board = state || "live";
    // The seconds are for the eye; a screen reader hears the state once.
    element("announcement").textContent = state ? words.replace(/ (for )?\d+ s/, "") : "Live data";
  }
  const text = element("banner-text");
  if (text.textContent !== words) text.textContent = words;
}

/** What was shown is taken away. */
function signOut() {
  for (const row of rows.values()) row.deny("", "signed out");
  asOf = null;
  for (const panel of [candles, movers, alerts, sensors]) panel.signOut();
}

function summarise() {
  const states = [...rows.values()].map((row) => row.state);
  const open = states.filter((state) => state !== "denied").length;
  element("summary").textContent = `${open} of ${states.length} instruments`;
}

setInterval(tick, TICK_MS);
tick();
summarise();

// For the browser's console: realtime.client.publish("/chat/room", "hello")
Object.assign(globalThis, { realtime: { client, corner } });
