/** The panels of the overview that are made of figures: limits, losses, cache, statistics, nodes and workers. */

import { bytes, count, duration, known, make, milliseconds, moment, number, percent, Rows, say } from "./common.js";
import { fill, gettext } from "../pages/words.js";

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id);
/** @param {string} id @param {string} [empty] */
const rowsOf = (id, empty = gettext("no figures yet")) => new Rows(element(id).tBodies[0], empty);

/** From which share of a limit on a look is due, and from which on something will be refused soon. */
const HIGH = 0.7;
const FULL = 0.9;

/** The loop is late by that much when it has no time left: clients feel it. */
const LAG_MS_MAX = 100;

/** A worker that waits for a processor for so much of its time is starved (realtime/stats/figures.py). */
const WAITED_PERCENT_MAX = 50;

/** What can be used up: how much is used, and of how much, from a node's figures. @type {[string, (node: any) => [used: number, most: number] | null, (value: number) => string, string?][]} */
const LIMITS = [
  [gettext("Connections"), ({ figures }) => [figures.connections, figures.connections_max], count, "FASTPATH_CONNECTIONS_MAX"],
  [gettext("Open files"), ({ figures }) => [figures.files, figures.files_max], count, "ulimit -n"],
  [gettext("Memory of the sidecar"), ({ figures }) => [figures.memory_bytes, figures.memory_bytes_max], bytes, gettext("FASTPATH_MEMORY_BYTES_MAX, else the machine")],
  [gettext("Memory of the machine"), ({ figures }) => [figures.machine_memory_bytes - figures.machine_memory_available_bytes, figures.machine_memory_bytes], bytes],
  [gettext("Disk of the journal"), ({ figures }) => [figures.journal_disk_bytes - figures.journal_disk_free_bytes, figures.journal_disk_bytes], bytes],
  [gettext("Processor, busiest worker"), ({ figures, workers }) => [Math.max(...(workers.length ? workers : [figures]).map((/** @type {any} */ worker) => worker.cpu_percent)), 100], percent, gettext("one core")],
  [gettext("Processor of the machine"), ({ figures }) => [figures.machine_cpu_percent, 100], percent],
  [gettext("Waiting for a processor, worst worker"), ({ figures }) => [figures.cpu_waited_percent, WAITED_PERCENT_MAX], percent, gettext("from here on it is starved: fewer workers, more processors, a higher quota")],
  [gettext("Loop lag"), ({ figures }) => [figures.loop_lag_ms, LAG_MS_MAX], milliseconds, gettext("from here on clients feel it")],
  [gettext("Subjects"), ({ figures }) => [figures.subjects, figures.subjects_max], count, "FASTPATH_SUBJECTS_MAX"],
  [gettext("Cache"), ({ figures }) => [figures.cached_bytes, figures.cached_bytes_max], bytes, gettext("FASTPATH_CACHE_BYTES; a full cache drops its oldest messages")],
];

/** How near the nodes are to their limits: of each limit the node that is nearest. */
export class Limits {
  #body = element("limits").tBodies[0];

  /** @param {any[]} nodes */
  show(nodes) {
    LIMITS.forEach(([what, of, format, help = ""], index) => {
      let worst = /** @type {{used: number, most: number, node: string} | null} */ (null);
      for (const node of nodes) {
        const [used, most] = of(node) ?? [];
        if (!known(used) || !known(most) || most <= 0) continue;
        if (worst === null || used / most > worst.used / worst.most) worst = { used, most, node: node.node };
      }
      this.#row(index, what, format, help, worst);
    });
    element("limits").classList.toggle("alone", nodes.length < 2);
  }

  /** @param {number} index @param {string} what @param {(value: number) => string} format @param {string} help @param {{used: number, most: number, node: string} | null} worst */
  #row(index, what, format, help, worst) {
    const row = this.#body.rows[index] ?? this.#body.appendChild(make(
      "tr", {}, make("th", { scope: "row", title: help }, what), make("td", { class: "number" }), make("td", { class: "number", title: help }),
      make("td", { class: "share" }, make("meter", { min: "0", max: "1", low: String(HIGH), high: String(FULL), optimum: "0", "aria-label": what }), make("span", {})),
      make("td", { class: "node" }, make("bdi", { dir: "ltr" })),
    ));
    const share = worst === null ? 0 : worst.used / worst.most;
    say(row.cells[1], worst === null ? "–" : format(worst.used));
    say(row.cells[2], worst === null ? "–" : format(worst.most));
    const meter = row.querySelector("meter");
    if (Math.abs(meter.value - share) > 0.001) meter.value = Math.min(1, share);
    say(row.cells[3].lastElementChild, worst === null ? "–" : percent(100 * share));
    say(row.cells[4].firstElementChild, worst?.node ?? "");
    row.cells[4].title = worst?.node ?? "";
    row.dataset.level = share >= FULL ? "full" : share >= HIGH ? "high" : "";
  }
}

/** What counts as lost, in the order of how bad it is. @type {[name: string, words: string, help: string, isBad: boolean][]} */
const LOSSES = [
  ["resynchronisations_per_s", gettext("Subscriptions that missed messages"), gettext("They came back, or fell behind, after what they had missed had left the cache: they got the snapshot instead."), true],
  ["slow_closed_per_s", gettext("Slow clients closed"), gettext("Their queue was over FASTPATH_OUTBOX_BYTES_MAX; they come back and recover what the cache still has."), true],
  ["publications_failed_per_s", gettext("Publications that could not be stored"), gettext("The engine or the journal could not keep them; the publisher was told, and has to send again."), true],
  ["journal_failed_writes_per_s", gettext("Failed writes of the journal"), gettext("The disk did not take them."), true],
  ["evicted_by_memory_per_s", gettext("Cached messages evicted early, for lack of room"), gettext("The cache was full before FASTPATH_CACHE_SECONDS: who comes back late is resynchronised."), true],
  ["audit_dropped_per_s", gettext("Audit events dropped"), gettext("The audit's disk did not keep up."), true],
  ["publications_refused_per_s", gettext("Publications refused"), gettext("Not allowed, not valid, too large, or over a limit; the publisher was told why."), false],
  ["conflated_away_per_s", gettext("Merged into later messages (conflated)"), gettext("On purpose: subscribers that asked for fewer messages got the newest state."), false],
];

/** Their names in the history. */
export const LOST = LOSSES.map(([name]) => name);

/** What is not known of a window when so little of it is missing is not worth a word: a clock that drifts leaves as much out. @param {number} seconds of the window */
const trifle = (seconds) => 2 + seconds / 10_000;

/** What was lost in the chosen window, from the history. */
export class Lost {
  #rows = rowsOf("lost", gettext("no history yet"));

  /** @param {any} series @param {string} window */
  show(series, window) {
    let bad = 0;
    let sampled = 0; // seconds; they are the same of all names, except of one that is new
    this.#rows.show(LOSSES.map(([name, words, help, isBad]) => {
      const { total = null, maximum = [], sampled: own = 0 } = series[name] ?? {};
      sampled = Math.max(sampled, own);
      const happened = Math.round(total ?? 0);
      if (isBad) bad += happened;
      const worst = happened ? maximum.reduce((/** @type {number} */ most, /** @type {number | null} */ value, /** @type {number} */ index) => ((value ?? 0) > (maximum[most] ?? 0) ? index : most), 0) : -1;
      return [
        { text: words, title: help },
        { text: known(total) ? count(happened) : "–", className: `number${isBad && happened ? " bad" : ""}` },
        worst < 0 ? "" : moment(series.t[worst]),
      ];
    }));
    const verdict = element("lost-verdict");
    verdict.dataset.window = window;
    const missing = series.seconds - sampled;
    const isWhole = missing <= trifle(series.seconds);
    verdict.dataset.state = !sampled ? "" : bad ? "bad" : isWhole ? "good" : "partial";
    say(verdict, !sampled ? gettext("There is no history of this window yet.") : this.#words(bad > 0, isWhole, sampled, missing));
  }

  /** @param {boolean} isBad @param {boolean} isWhole @param {number} sampled @param {number} missing both in seconds */
  #words(isBad, isWhole, sampled, missing) {
    if (isWhole) return isBad ? gettext("Something was lost: see below.") : gettext("Nothing was lost.");
    const unknown = fill(gettext("Of %(time)s nothing is known."), { time: duration(missing) });
    return isBad ? `${gettext("Something was lost: see below.")} ${unknown}` : `${fill(gettext("Nothing was lost in the %(time)s that are known."), { time: duration(sampled) })} ${unknown}`;
  }
}

/** The cache of messages, over all nodes. */
export class Cache {
  #rows = rowsOf("cache");

  /** @param {Record<string, number>} figures */
  show(figures) {
    const { cache_hits: hits = 0, cache_misses: misses = 0 } = figures;
    const share = hits + misses ? fill(gettext("%(share)s of %(all)s"), { share: percent((100 * hits) / (hits + misses)), all: count(hits + misses) }) : gettext("none asked yet");
    this.#rows.show([
      [gettext("Bytes"), number(fill(gettext("%(share)s of %(all)s"), { share: bytes(figures.cached_bytes), all: bytes(figures.cached_bytes_max) })), gettext("of what it may hold")],
      [gettext("Messages"), number(count(figures.cached_messages)), ""],
      [gettext("Hits"), number(share), gettext("of those who asked for what they missed, or for history")],
      [gettext("Misses"), number(count(misses)), gettext("resynchronised, or there was no history")],
      [gettext("Evicted by age"), number(count(figures.evicted_by_age)), gettext("older than FASTPATH_CACHE_SECONDS: as it should be")],
      [gettext("Evicted by number"), number(count(figures.evicted_by_count)), gettext("more than FASTPATH_CACHE_MESSAGES of a subject")],
      [gettext("Evicted for lack of room"), number(count(figures.evicted_by_memory)), gettext("if it rises, raise FASTPATH_CACHE_BYTES")],
    ]);
  }
}

/** @type {[string, string, (value: number) => string][]} */
const INDICATORS = [
  ["connections", gettext("Connections"), count],
  ["connections_per_s", gettext("New connections / s"), count],
  ["disconnections_per_s", gettext("Disconnections / s"), count],
  ["messages_in_per_s", gettext("Messages in / s"), count],
  ["messages_out_per_s", gettext("Messages out / s"), count],
  ["bytes_in_per_s", gettext("Bytes in / s"), bytes],
  ["bytes_out_per_s", gettext("Bytes out / s"), bytes],
];

/** Maximum, average and standard deviation of the indicators over the twelve windows. */
export class Statistics {
  #rows = rowsOf("statistics");
  #last = /** @type {any} */ (null);

  constructor() {
    this.windows = [...document.querySelectorAll("#statistics thead [data-window]")].map((cell) => /** @type {HTMLElement} */ (cell).dataset.window ?? "");
    element("measure").addEventListener("change", () => { if (this.#last) this.show(this.#last); });
  }

  /** @param {any} statistics */
  show(statistics) {
    this.#last = statistics;
    const measure = String(new FormData(element("measure")).get("measure"));
    this.#rows.show(INDICATORS.map(([name, title, format]) => [
      title,
      ...this.windows.map((window) => number(format(statistics[name]?.[window]?.[measure]))),
    ]));
  }
}

/** @type {Record<string, (value: number) => string>} */
const CELLS = {
  connections: count, publishers: count, subscriptions: count, messages_in_per_s: count, messages_out_per_s: count, cpu_percent: percent,
  memory_bytes: bytes, loop_lag_ms: milliseconds, latency_p99_ms: milliseconds, slow_clients: count,
};

/** The table of nodes, which Django wrote: figures as they come, and below each node its workers. */
export class Nodes {
  #table = element("nodes");
  /** What each node says of itself when Django asks. @type {Map<string, {error: string, draining?: boolean, reasons?: Record<string, string>, starved?: number[]}>} */
  #asked = new Map();

  /** @param {Record<string, number>} sums @param {any[]} nodes */
  show(sums, nodes) {
    if (this.#table.tFoot) this.#fill(this.#table.tFoot.rows[0], sums);
    for (const node of nodes) {
      const body = this.#body(node.node);
      if (!body) continue;
      // The collector may reach a node that Django does not, and the other way round.
      const error = node.error || this.#asked.get(node.node)?.error;
      this.#state(body, error);
      // What an away node said last is not what it is.
      if (error) this.#blank(body.rows[0]);
      else this.#fill(body.rows[0], node.figures);
      const workers = !error && node.workers.length > 1 ? node.workers : [];
      while (body.rows.length > workers.length + 1) body.deleteRow(-1);
      workers.forEach((/** @type {any} */ worker, /** @type {number} */ index) => {
        const row = body.rows[index + 1] ?? this.#worker(body);
        say(row.cells[0], fill(gettext("worker %(worker)s, process %(pid)s"), worker));
        this.#fill(row, worker);
        row.classList.toggle("silent", worker.silent_s > 0);
        say(row.cells[1], worker.silent_s > 0 ? fill(gettext("silent %(time)s"), { time: duration(worker.silent_s) }) : "");
      });
    }
  }

  /** Which nodes are up, drain, are not ready or away, as Django was told. @param {any[]} nodes */
  states(nodes) {
    for (const node of nodes) {
      this.#asked.set(node.node, node);
      const body = this.#body(node.node);
      if (!body) continue;
      this.#state(body, node.error);
      if (node.error) this.#blank(body.rows[0]);
    }
  }

  /** @param {HTMLTableSectionElement} body @param {string} error of a node that does not answer, as is known now */
  #state(body, error) {
    const { draining, reasons = {}, starved = [] } = this.#asked.get(body.dataset.node ?? "") ?? {};
    const why = Object.values(reasons).join("; ");
    const cell = body.querySelector("[data-state]");
    if (cell) say(cell, error ? fill(gettext("away: %(error)s"), { error }) : draining ? gettext("draining") : why ? fill(gettext("not ready: %(reasons)s"), { reasons: why }) : starved.length ? fill(gettext("starved of CPU: worker %(workers)s"), { workers: starved.join(", ") }) : gettext("up"));
    body.classList.toggle("away", Boolean(error));
  }

  /** @param {HTMLTableRowElement} row */
  #blank(row) {
    for (const cell of row.querySelectorAll("[data-cell]")) say(cell, "–");
  }

  /** @param {string} name @returns {HTMLTableSectionElement | undefined} */
  #body(name) {
    return [...this.#table.tBodies].find((body) => body.dataset.node === name);
  }

  /** An empty row like the node's own. @param {HTMLTableSectionElement} body */
  #worker(body) {
    const row = make("tr", { class: "worker" });
    for (const cell of body.rows[0].cells) {
      const copy = make(row.cells.length ? "td" : "th", row.cells.length ? {} : { scope: "row" });
      copy.className = cell.className;
      if (cell.dataset.cell) copy.dataset.cell = cell.dataset.cell;
      row.append(copy);
    }
    return body.appendChild(row);
  }

  /** @param {HTMLTableRowElement} row @param {Record<string, number>} figures */
  #fill(row, figures) {
    for (const [name, format] of Object.entries(CELLS)) {
      const cell = row.querySelector(`[data-cell="${name}"]`);
      if (cell && known(figures[name])) say(cell, format(figures[name]));
    }
  }
}
