/** The overview: live figures over our own client, their history from Django, and the lists that an operator looks at. */

import { Corner, element, openClient, readConfig } from "../pages/page.js";
import { duration, fetchJson, known, poll, say } from "./common.js";
import { hasCharts } from "./charts.js";
import { Charts } from "./history.js";
import { Cache, Limits, Lost, Nodes, Statistics } from "./panels.js";
import { Attention } from "./attention.js";
import { away, banner, SILENT_MS } from "./banner.js";
import { fill, gettext } from "../pages/words.js";

const ATTENTION_MS = 3000;
const STATISTICS_MS = 5000;
const COLLECTING_MS = 1500;
const COLLECTED_MS = 5000; // the collector saves every 2 s, what is complete

const config = readConfig();
const charts = new Charts(config, element("choice"), (series, window) => lost.show(series, window));
const lost = new Lost();
const limits = new Limits();
const cache = new Cache();
const nodes = new Nodes();
const statistics = new Statistics();
const attention = new Attention(config);

const client = openClient(config);
new Corner(client);
let lastAt = 0; // when figures came live, by this machine's clock
let denied = "";
const openedAt = Date.now();
/** @type {import("./banner.js").Asked | null} */
let asked = null;
let lastTime = 0; // of these figures, by the server's clock
/** Whether the history goes on though no figures come; null while that is not known. @type {boolean | null} */
let collecting = null;
let isSilent = true;

client.on("denied", (status) => { denied = status.reason ?? gettext("no rule allows it"); tick(); });
client.on("revoked", (status) => { denied = status.reason ?? gettext("no rule allows it"); lastAt = 0; tick(); });
client.on("subscribed", () => { denied = ""; });
client.subscribe(config.cluster, (message) => {
  // A snapshot is what was; that something arrives now is what tells that the figures are live.
  if (message.kind !== "update") return;
  lastAt = Date.now();
  lastTime = message.time;
  const sums = Object.fromEntries(Object.entries(message.fields).map(([name, value]) => [name, Number(value)]));
  show(message.time, sums, JSON.parse(String(message.content)).nodes);
  tick();
});

/** Figures of a moment: over all nodes, and each node's. @param {number} at @param {Record<string, number>} sums @param {any[]} each */
function show(at, sums, each) {
  charts.add(at, sums, each);
  limits.show(each);
  cache.show(sums);
  nodes.show(sums, each);
  name(each);
  if (sums.uptime_s) say(element("uptime"), fill(gettext("running for %(time)s"), { time: duration(sums.uptime_s) }));
}

/** Name the nodes that are away, on top. @param {any[]} each */
function name(each) {
  const words = away(each);
  element("nodes-problem").hidden = !words;
  say(element("nodes-problem"), words);
}

const isLive = () => Date.now() - lastAt < SILENT_MS;

const askAttention = poll(async () => {
  const answer = await attention.ask();
  // Who has no right to the live figures sees these: the same, every few seconds.
  nodes.states(answer.nodes);
  if (!isLive()) show(Date.now(), answer.sums, answer.nodes);
  asked = { at: Date.now(), error: "", nodes: answer.nodes };
  tick();
}, ATTENTION_MS, (error) => {
  attention.problem(error);
  if (error) asked = { at: Date.now(), error: error.message, nodes: [] };
});
poll(async () => {
  const told = await fetchJson(`${config.statistics_url}?indicators=${charts.names.join(",")}`);
  statistics.show(told);
  charts.tell(told);
}, STATISTICS_MS);

/** The end of the history, and since when it has not moved. @type {{end: number, at: number} | null} */
let saved = null;
poll(async () => {
  if (isLive() || denied) return;
  const { t, connections } = await fetchJson(`${config.series_url}?indicator=connections&window=1min`);
  const end = t[connections.average.findLastIndex(known)] ?? 0;
  const moved = saved !== null && end > saved.end;
  if (moved || (lastTime && end > lastTime + 1000)) collecting = true;
  else if (saved && Date.now() - saved.at >= COLLECTED_MS) collecting = false;
  if (moved || !saved) saved = { end, at: Date.now() };
}, COLLECTING_MS);

element("by").addEventListener("change", askAttention);

/** What the page says about itself. */
function tick() {
  const { connection = "" } = document.documentElement.dataset;
  const [state, words] = banner({ now: Date.now(), connection, denied, cluster: config.cluster, openedAt, lastAt, asked, collecting, hasCharts });
  const silent = !isLive();
  if (silent && !isSilent) {
    collecting = null;
    saved = null;
    askAttention();
  }
  isSilent = silent;
  const place = element("banner");
  place.dataset.state = document.documentElement.dataset.monitoring = state || "live";
  place.hidden = !state;
  element("add-rule").hidden = !(state === "denied" && config.add_rule_url);
  // The seconds are for the eye; a screen reader hears the state once.
  say(element("banner-text"), words);
}

if (config.add_rule_url) element("add-rule").href = config.add_rule_url;
setInterval(tick, 1000);
tick();

// For the browser's console and the tests.
Object.assign(globalThis, { monitoring: { charts, client } });
