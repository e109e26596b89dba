/** The monitoring page: figures of the sidecar as they come on its own subject. */

import { Chart } from "./chart.js";
import { Corner, element, openClient, readConfig } from "./page.js";

const SUBJECT = "/__sys__/stats";
const STALE_MS = 3000;

const FIGURES = [
  ["connections", "Connections", count],
  ["connections_per_s", "New connections / s", count],
  ["messages_in_per_s", "Messages in / s", count],
  ["messages_out_per_s", "Messages out / s", count],
  ["bytes_in_per_s", "Bytes in / s", bytes],
  ["bytes_out_per_s", "Bytes out / s", bytes],
  ["subjects", "Subjects", count],
  ["subscriptions", "Subscriptions", count],
  ["waiting_subscriptions", "Waiting for a right", count],
  ["publishers", "Publishers", count],
  ["memory_bytes", "Memory", bytes],
  ["cpu_percent", "Processor", (/** @type {number} */ value) => `${value.toFixed(1)} %`],
];

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** @param {number} value */
function count(value) {
  return value < 10_000 ? new Intl.NumberFormat("en", { maximumFractionDigits: 1 }).format(value) : compact.format(value);
}

/** @param {number} value */
function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let index = 0;
  for (; value >= 1024 && index < units.length - 1; index++) value /= 1024;
  return `${value.toFixed(index === 0 || value >= 100 ? 0 : 1)} ${units[index]}`;
}

/** A tile with its figure and its line. @param {any[]} figure */
function tile([name, title, format]) {
  const item = document.createElement("li");
  item.className = "tile";
  item.dataset.figure = name;
  const heading = document.createElement("h2");
  heading.textContent = title;
  const value = document.createElement("p");
  value.className = "value";
  value.dataset.field = name;
  value.textContent = "–";
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  item.append(heading, value, canvas);
  element("tiles").append(item);
  return { name, format, value, chart: new Chart(canvas) };
}

const tiles = FIGURES.map(tile);
const client = openClient(readConfig());
new Corner(client);
let lastAt = 0;
let denied = "";

client.on("denied", (status) => { denied = status.reason ?? ""; });
client.on("revoked", (status) => { denied = status.reason ?? ""; lastAt = 0; });
client.on("subscribed", () => { denied = ""; });
client.subscribe(SUBJECT, (message) => {
  const now = Date.now();
  lastAt = now;
  for (const { name, format, value, chart } of tiles) {
    const number = Number(message.fields[name]);
    if (!Number.isFinite(number)) continue;
    value.textContent = format(number);
    chart.add(now, number);
  }
  const uptime = Number(message.fields.uptime_s);
  if (uptime) element("uptime").textContent = `Running for ${duration(uptime)}.`;
  draw();
  tick();
});

function draw() {
  for (const { chart } of tiles) chart.draw(Date.now());
}

function tick() {
  const age = Date.now() - lastAt;
  let state = "";
  let words = "";
  if (document.documentElement.dataset.connection === "signed-out") {
    state = "signed-out";
    words = "You are signed out. Sign in again to see figures.";
  } else if (denied) {
    state = "denied";
    words = `These figures are not open to you: ${denied}. Ask for a rule on ${SUBJECT}.`;
  } else if (!lastAt) {
    state = "waiting";
    words = "Waiting for the sidecar’s first figures…";
  } else if (age >= STALE_MS) {
    state = "away";
    words = `Sidecar away: no figures for ${Math.floor(age / 1000)} s`;
  }
  const banner = element("banner");
  banner.dataset.state = document.documentElement.dataset.monitoring = state || "live";
  banner.hidden = !state;
  const text = element("banner-text");
  if (text.textContent !== words) text.textContent = words;
}

/** @param {number} seconds */
function duration(seconds) {
  if (seconds < 120) return `${Math.floor(seconds)} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} days`;
}

setInterval(tick, 500);
addEventListener("resize", draw);
