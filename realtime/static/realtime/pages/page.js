/** What the pages have in common: their settings, the client, and the corner that shows the connection. */

import { connect } from "../client.js";
import { fill, gettext } from "./words.js";

/** @param {string} id @returns {any} */
export function element(id) {
  return document.getElementById(id);
}

/** What Django wrote into the page. @returns {any} */
export function readConfig() {
  return JSON.parse(element("realtime-config").textContent);
}

/** Get a token for the signed-in user. @param {string} url @returns {Promise<string>} */
export async function fetchToken(url) {
  const { csrf_cookie: name, csrf_header: header = "X-CSRFToken", csrf_token: own = "" } = readConfig();
  // Signing in, in any tab, makes another one: the cookie has it, where scripts may read that.
  const cookie = name && document.cookie.split("; ").find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1);
  const response = await fetch(url, {
    method: "POST", headers: { [header]: cookie || own }, credentials: "same-origin",
    signal: AbortSignal.timeout(3000),
  });
  if (response.status === 401 || response.status === 403) {
    throw Object.assign(new Error(gettext("you are signed out")), { final: true });
  }
  if (!response.ok) throw new Error(fill(gettext("no token: the web server answers %(status)s"), { status: response.status }));
  return (await response.json()).token;
}

/** @param {any} config @returns {import("../client.js").Client} */
export function openClient(config) {
  return connect({
    urls: config.servers, serversUrl: config.servers_url, token: () => fetchToken(config.token_url),
    // A sidecar that restarts is back within a second or two, and the few who look at this page need not be spread over
    // more than that; a page for a crowd keeps the defaults.
    quickSeconds: 0.5, quickRetries: 10,
  });
}

/** @param {number} ms */
export function milliseconds(ms) {
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 10_000 ? `${Math.round(ms)} ms` : `${Math.round(ms / 1000)} s`;
}

/** The connection in words, kept up to date; also as `data-connection` of the document. */
export class Corner {
  #isDown = false;

  /** @param {any} client */
  constructor(client) {
    this.root = element("connection");
    this.#show("connecting", gettext("Connecting…"));
    client.on("connecting", (/** @type {any} */ status) => {
      if (document.documentElement.dataset.connection !== "reconnecting") this.#show("connecting", gettext("Connecting…"));
      this.#port(status);
    });
    client.on("connected", (/** @type {any} */ status) => {
      this.#isDown = false;
      this.#show("connected", gettext("Live"));
      this.#port(status);
      const shown = document.getElementById("user"); // not in every project's base template
      if (shown) shown.textContent = status.user;
    });
    client.on("disconnected", (/** @type {any} */ status) => this.#disconnected(status));
    client.on("down", () => {
      this.#isDown = true;
      this.#show("reconnecting", gettext("Server away, retrying…"));
    });
    client.on("notice", (/** @type {any} */ { code }) => {
      if (code === "stale") this.#show("stale", gettext("Connected, nothing new arrives"));
      if (code === "fresh") this.#show("connected", gettext("Live"));
    });
    client.on("latency", (/** @type {any} */ status) => {
      element("latency").textContent = milliseconds(status.ms);
    });
  }

  /** @param {any} status */
  #disconnected(status) {
    element("latency").textContent = "–";
    element("port").textContent = "–";
    const isSignedOut = status.codeName === "revoked" || (status.final && status.codeName === "unreachable");
    if (isSignedOut) this.#show("signed-out", gettext("Signed out"));
    else if (status.final) this.#show("stopped", fill(gettext("Stopped: %(reason)s"), { reason: status.reason || status.codeName }));
    else if (status.codeName === "not_ready") this.#show("reconnecting", gettext("Not ready yet, retrying…"));
    else this.#show("reconnecting", this.#isDown ? gettext("Server away, retrying…") : gettext("Reconnecting…"));
  }

  /** @param {any} status */
  #port(status) {
    element("port").textContent = `${status.via} :${portOf(status.url)}`;
    element("port").title = status.url;
    this.root.dataset.via = status.via;
  }

  /** @param {string} state @param {string} words */
  #show(state, words) {
    document.documentElement.dataset.connection = state;
    if (element("state").textContent !== words) element("state").textContent = words;
  }
}

/** @param {string} url */
function portOf(url) {
  const { port, protocol } = new URL(url, location.href);
  return port || (protocol === "wss:" ? "443" : "80");
}
