/** The charts of the overview: history from Django, to which what comes live is added; of all nodes, one node or one worker. */

import { Chart } from "./charts.js";
import { bytes, count, fetchJson, known, make, milliseconds, percent, poll, say } from "./common.js";
import { LOST } from "./panels.js";
import { fill, gettext } from "../pages/words.js";

/** @typedef {[name: string, title: string, format: (value: number | null | undefined) => string]} Charted */

/** @type {Charted[]} */
const MAIN = [
  ["connections", gettext("Connections"), count],
  ["connections_per_s", gettext("New connections / s"), count],
  ["disconnections_per_s", gettext("Disconnections / s"), count],
  ["latency_p99_ms", gettext("Delivery latency, p99"), milliseconds],
  ["messages_in_per_s", gettext("Messages in / s"), count],
  ["messages_out_per_s", gettext("Messages out / s"), count],
  ["bytes_in_per_s", gettext("Bytes in / s"), bytes],
  ["bytes_out_per_s", gettext("Bytes out / s"), bytes],
];

/** @type {Charted[]} */
const MORE = [
  ["cpu_percent", gettext("Processor, of one core"), percent],
  ["memory_bytes", gettext("Memory"), bytes],
  ["loop_lag_ms", gettext("Loop lag"), milliseconds],
  ["slow_clients", gettext("Slow clients"), count],
  ["queued_bytes", gettext("Waiting for slow clients"), bytes],
  ["cached_bytes", gettext("Cache"), bytes],
  ["subjects", gettext("Subjects"), count],
  ["subscriptions", gettext("Subscriptions"), count],
];

const LIVE_WINDOWS = { "1min": 60_000, "5min": 300_000, "15min": 900_000 };
const REFRESH_MS = 15_000;
const SCOPE_SAMPLES = 300;

/** When figures come so much before those that came last, the clock was set back. */
const BACK_MS = 2000;

/** What came live is not further ahead of the history than that, or it is of a time that the clock has left again. */
const AHEAD_MS = 60_000;

export class Charts {
  /** @type {Chart[]} */
  #charts = [];
  /** Of all nodes: what Django told, and what came live since. @type {number[]} */
  #times = [];
  /** @type {Map<string, [average: (number | null)[], maximum: (number | null)[]]>} */
  #values = new Map();
  /** Of each node and worker: the last minutes, as they came. @type {Map<string, Ring>} */
  #rings = new Map();
  #scope = "";
  /** Of each figure and window, as the statistics have it: unlike the points it counts each second the same. @type {any} */
  #statistics = {};
  /** The time of the figures that came last. */
  #at = -Infinity;

  /** @param {any} config @param {HTMLFormElement} form @param {(series: any, window: string) => void} told */
  constructor(config, form, told) {
    this.form = form;
    this.scopes = /** @type {HTMLSelectElement} */ (form.elements.namedItem("scope"));
    for (const [list, wanted] of /** @type {[string, Charted[]][]} */ ([["charts", MAIN], ["more-charts", MORE]])) {
      for (const [name, title, format] of wanted) {
        const chart = new Chart(name, title, format);
        this.#charts.push(chart);
        document.getElementById(list)?.append(chart.root);
      }
    }
    this.#choose(new URLSearchParams(location.search).get("window") ?? "15min");
    const names = [...this.#charts.map((chart) => chart.name), ...LOST].join(",");
    this.problem = /** @type {HTMLElement} */ (document.getElementById("history-problem"));
    this.ask = poll(async () => {
      const { window } = this;
      const series = await fetchJson(`${config.series_url}?indicator=${names}&window=${window}`);
      if (window !== this.window) return; // another one was chosen meanwhile, and is asked for next
      this.#history(series);
      told(series, window);
    }, REFRESH_MS, (error) => {
      this.problem.hidden = error === null;
      if (error) say(this.problem, fill(gettext("There is no history: %(error)s."), { error: error.message }));
    });
    form.addEventListener("change", (event) => {
      if (event.target === this.scopes) this.#rescope();
      else this.#rewindow();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** The chosen window. */
  get window() {
    return String(new FormData(this.form).get("window"));
  }

  /** What is charted. */
  get names() {
    return this.#charts.map((chart) => chart.name);
  }

  /** What the statistics say of the names: the averages of whole windows. @param {any} statistics */
  tell(statistics) {
    this.#statistics = statistics;
    this.#draw();
  }

  /** What the chart of that name shows. @param {string} name */
  drawn(name) {
    return this.#charts.find((chart) => chart.name === name)?.averages ?? [];
  }

  /** Figures of a moment. @param {number} at @param {Record<string, number>} sums @param {any[]} nodes */
  add(at, sums, nodes) {
    if (at < this.#at - BACK_MS) this.#goBack(at);
    this.#at = at;
    this.#append(at, sums);
    const here = new Map([["", sums]]);
    for (const node of nodes) {
      here.set(node.node, node.figures);
      const workers = node.workers.length > 1 ? node.workers : [];
      for (const worker of workers) here.set(fill(gettext("%(node)s worker %(worker)s"), { node: node.node, worker: worker.worker }), worker);
    }
    for (const [scope, figures] of here) if (scope) this.#ring(scope).add(at, figures);
    for (const scope of this.#rings.keys()) if (!here.has(scope) && scope !== this.#scope) this.#forget(scope);
    const shown = here.get(this.#scope);
    for (const chart of this.#charts) chart.now(shown?.[chart.name]);
    this.#draw();
  }

  /** @param {string} window */
  #choose(window) {
    const options = /** @type {HTMLInputElement[]} */ ([...this.form.querySelectorAll("input[name=window]")]);
    const chosen = options.find((option) => option.value === window) ?? options.find((option) => option.value === "15min");
    if (chosen) chosen.checked = true;
    this.#name();
  }

  #name() {
    const words = this.form.querySelector("input[name=window]:checked + span")?.textContent ?? "";
    for (const place of document.querySelectorAll("[data-window='']")) say(place, words);
  }

  #rewindow() {
    const url = new URL(location.href);
    url.searchParams.set("window", this.window);
    history.replaceState(null, "", url);
    this.#name();
    this.ask();
  }

  #rescope() {
    this.#scope = this.scopes.value;
    const words = this.#scope
      ? fill(gettext("%(scope)s: what came since this page was opened, the last five minutes at most."), { scope: this.#scope })
      : gettext("The line is the average, the band reaches up to the maximum.");
    say(/** @type {Element} */ (document.getElementById("chart-legend")), words);
    this.#draw();
  }

  /** @param {string} scope */
  #ring(scope) {
    let ring = this.#rings.get(scope);
    if (!ring) {
      this.#rings.set(scope, ring = new Ring(this.#charts.map((chart) => chart.name)));
      this.scopes.append(make("option", { value: scope }, scope));
    }
    return ring;
  }

  /** @param {string} scope */
  #forget(scope) {
    this.#rings.delete(scope);
    for (const option of [...this.scopes.options]) if (option.value === scope) option.remove();
  }

  /** The clock was set back: the history goes with it, and is asked for anew. @param {number} at */
  #goBack(at) {
    const ahead = this.#times.findIndex((time) => time >= at);
    if (ahead >= 0) {
      this.#times = this.#times.slice(0, ahead);
      for (const [name, [average, maximum]] of this.#values) this.#values.set(name, [average.slice(0, ahead), maximum.slice(0, ahead)]);
    }
    for (const scope of this.#rings.keys()) this.#rings.set(scope, new Ring(this.#charts.map((chart) => chart.name)));
    this.ask();
  }

  /** @param {any} series */
  #history(series) {
    const last = series.t.at(-1) ?? 0;
    // What came live after the newest that Django tells is kept.
    const later = this.window in LIVE_WINDOWS && !((this.#times.at(-1) ?? 0) > last + AHEAD_MS) ? this.#times.findIndex((at) => at > last + 1500) : -1;
    const times = later < 0 ? [] : this.#times.slice(later);
    for (const { name } of this.#charts) {
      const [average, maximum] = this.#values.get(name) ?? [[], []];
      const told = series[name] ?? { average: series.t.map(() => null), maximum: series.t.map(() => null) };
      this.#values.set(name, [
        [...told.average, ...(later < 0 ? [] : average.slice(later))],
        [...told.maximum, ...(later < 0 ? [] : maximum.slice(later))],
      ]);
    }
    this.#times = [...series.t, ...times];
    this.#draw();
  }

  /** @param {number} at @param {Record<string, number>} sums */
  #append(at, sums) {
    const span = LIVE_WINDOWS[/** @type {keyof typeof LIVE_WINDOWS} */ (this.window)];
    const last = this.#times.at(-1);
    if (!span || last === undefined || at < last + 500) return;
    const first = this.#times.findIndex((time) => time >= at - span);
    const old = first < 0 ? this.#times.length : first; // all are older when the clock was set forward
    this.#times = [...this.#times.slice(old), at];
    for (const { name } of this.#charts) {
      const value = known(sums[name]) ? sums[name] : null;
      const [average, maximum] = this.#values.get(name) ?? [[], []];
      this.#values.set(name, [[...average.slice(old), value], [...maximum.slice(old), value]]);
    }
  }

  #draw() {
    for (const chart of this.#charts) {
      if (this.#scope) {
        const [at, values] = this.#rings.get(this.#scope)?.series(chart.name) ?? [[], []];
        chart.set(at, values, values);
      } else {
        const [average, maximum] = this.#values.get(chart.name) ?? [[], []];
        chart.set(this.#times, average, maximum, this.#statistics[chart.name]?.[this.window]?.average);
      }
    }
  }
}

/** The last samples of some figures. */
class Ring {
  #next = 0;
  #filled = 0;
  #at = new Float64Array(SCOPE_SAMPLES);

  /** @param {string[]} names */
  constructor(names) {
    this.values = new Map(names.map((name) => [name, new Float32Array(SCOPE_SAMPLES)]));
  }

  /** @param {number} at @param {Record<string, number>} figures */
  add(at, figures) {
    this.#at[this.#next] = at;
    for (const [name, values] of this.values) values[this.#next] = known(figures[name]) ? figures[name] : NaN;
    this.#next = (this.#next + 1) % SCOPE_SAMPLES;
    this.#filled = Math.min(this.#filled + 1, SCOPE_SAMPLES);
  }

  /** In the order of time. @param {string} name @returns {[number[], (number | null)[]]} */
  series(name) {
    const values = /** @type {Float32Array} */ (this.values.get(name));
    const order = Array.from({ length: this.#filled }, (_, index) => (this.#next - this.#filled + index + SCOPE_SAMPLES) % SCOPE_SAMPLES);
    return [order.map((index) => this.#at[index]), order.map((index) => (Number.isNaN(values[index]) ? null : values[index]))];
  }
}
