/** What the overview says about itself: whether figures come live, and, where they do not, whose fault that is. */

import { duration } from "./common.js";
import { fill, gettext } from "../pages/words.js";

/** So long nothing comes before that is a fault; figures come once a second. */
export const SILENT_MS = 3000;

/** What was asked for over HTTP, and when. @typedef {{at: number, error: string, nodes: any[]}} Asked */

/**
 * The state of the page, and that in words; both are empty while all is well.
 * @param {{now: number, connection: string, denied: string, cluster: string, openedAt: number, lastAt: number, asked: Asked | null, collecting: boolean | null, hasCharts: boolean}} known
 * times in ms; `lastAt` is when figures came live, 0: never; `collecting` says whether the history goes on, null: not known
 * @returns {[state: string, words: string]}
 */
export function banner({ now, connection, denied, cluster, openedAt, lastAt, asked, collecting, hasCharts }) {
  if (connection === "signed-out") return ["signed-out", gettext("You are signed out. Sign in again to see figures.")];
  if (denied) {
    return ["denied", fill(gettext("Live figures each second are not open to you (%(reason)s): you need a rule that lets you subscribe to %(subject)s. Until then this page asks every few seconds."), { reason: denied, subject: cluster })];
  }
  const since = lastAt || openedAt;
  const age = now - since;
  if (connection === "connecting" || connection === "reconnecting") {
    const full = fullness(asked);
    if (full) return ["full", full];
    return ["waiting", lastAt ? fill(gettext("The connection to the sidecar was lost %(time)s ago; reconnecting…"), { time: duration(age / 1000) }) : gettext("Connecting to the sidecar…")];
  }
  if (age >= SILENT_MS) return silence(Math.floor(age / 1000), asked && asked.at > since ? asked : null, collecting);
  if (!lastAt) return ["waiting", gettext("Waiting for the first figures…")];
  return hasCharts ? ["", ""] : ["incomplete", gettext("The chart library is missing on the web server: run make setup there.")];
}

/** Why nothing comes, from what was asked for since. @param {number} seconds @param {Asked | null} asked @param {boolean | null} collecting @returns {[string, string]} */
function silence(seconds, asked, collecting) {
  const none = fill(gettext("No live figures for %(seconds)s s"), { seconds });
  if (asked?.error) return ["away", fill(gettext("%(none)s, and none when they are asked for: %(error)s."), { none, error: asked.error })];
  if (asked?.nodes.length && asked.nodes.every(({ error }) => error)) {
    return ["away", fill(asked.nodes.length > 1 ? gettext("%(none)s: no node answers (%(error)s).") : gettext("%(none)s: the sidecar does not answer (%(error)s)."), { none, error: asked.nodes[0].error })];
  }
  if (asked && collecting === false) {
    return ["away", fill(gettext("%(none)s: the collector is away. It is started by runrealtime, or by manage.py realtime_collect. The nodes answer, and are asked every few seconds."), { none })];
  }
  if (collecting) {
    return ["silent", fill(gettext("%(none)s: the worker that this page is connected to does not answer. The others and the collector do; the figures here are asked for every few seconds."), { none })];
  }
  return ["waiting", fill(gettext("%(none)s; asking why…"), { none })];
}

/** That no node that answers has room for this page's connection, in words; empty when one has. @param {Asked | null} asked */
function fullness(asked) {
  const there = (asked?.nodes ?? []).filter(({ error }) => !error);
  if (!there.length || !there.every(({ reasons }) => reasons?.full)) return "";
  const full = there.map(({ node, reasons }) => fill(gettext("%(node)s is full (%(reason)s)"), { node, reason: reasons.full })).join(", ");
  return fill(gettext("%(full)s, and this page is not connected. The figures here are asked for every few seconds."), { full });
}

/** Which of several nodes do not answer, in words; empty when all do. @param {any[]} nodes */
export function away(nodes) {
  const gone = nodes.filter(({ error }) => error);
  if (nodes.length < 2 || !gone.length) return "";
  const names = gone.map(({ node, error }) => fill(gettext("%(node)s is away: %(error)s"), { node, error })).join("; ");
  return fill(gettext("%(nodes)s. The others’ figures and lists are shown."), { nodes: names });
}
