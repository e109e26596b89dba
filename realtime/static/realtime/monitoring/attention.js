/** The lists of the overview that Django asks the nodes for: busiest subjects, slow clients, publishers, Spark jobs. */

import { ago, bytes, count, duration, fetchJson, known, milliseconds, moment, number, Rows, say } from "./common.js";
import { fill, gettext, ngettext } from "../pages/words.js";

/** @param {string} id @returns {any} */
const element = (id) => document.getElementById(id);

export class Attention {
  #top = new Rows(element("top").tBodies[0], gettext("nothing is published just now"));
  #slow = new Rows(element("slow").tBodies[0], gettext("nobody is slow"));
  #senders = new Rows(element("senders").tBodies[0], gettext("nobody has sent within the last hour"));
  #publishers = new Rows(element("publishers").tBodies[0], gettext("no publisher is connected"));
  #jobs = new Rows(element("jobs").tBodies[0], gettext("no job has reported"));

  /** @param {any} config */
  constructor(config) {
    this.config = config;
    this.problems = element("attention-problem");
    this.alarms = element("alarms");
  }

  /** Ask, and show what the lists say; the whole answer. */
  async ask() {
    const by = element("by").value;
    const answer = await fetchJson(`${this.config.attention_url}?by=${by}`);
    if (by === element("by").value) this.#subjects(answer.top);
    this.#clients(answer.slow);
    this.#publishing(answer.publishers);
    this.#working(answer.jobs);
    this.alarms.hidden = !answer.alarms.length;
    say(this.alarms, answer.alarms.join(" "));
    this.#say(answer.errors.join("; "));
    return answer;
  }

  /** It could not be asked, or, with null, can be again. @param {Error | null} error */
  problem(error) {
    if (error) this.#say(error.message);
  }

  /** @param {string} words */
  #say(words) {
    this.problems.hidden = !words;
    say(this.problems, words ? fill(gettext("Not all of the lists below could be asked for: %(errors)s."), { errors: words }) : "");
  }

  /** @param {any[]} subjects */
  #subjects(subjects) {
    this.#top.show(subjects.map((row) => [
      { text: row.subject, href: `${this.config.subjects_url}?subject=${encodeURIComponent(row.subject)}` },
      number(count(row.messages_per_s)), number(bytes(row.bytes_per_s)), number(count(row.subscribers)), number(count(row.deliveries_per_s)),
    ]));
  }

  /** @param {{clients: any[], total: number}} slow */
  #clients({ clients, total }) {
    say(element("slow-total"), total ? count(total) : "");
    this.#slow.show(clients.map((row) => [
      { text: row.user || gettext("not signed in"), href: row.url, title: row.program ?? "" },
      row.address ?? "",
      number(bytes(row.queue_bytes)),
      number(ago(row.blocked_since)),
      row.subjects?.length ? named(row.subjects, row.subscriptions) : fill(ngettext("%(count)s subscriptions", "%(count)s subscriptions", row.subscriptions), { count: count(row.subscriptions) }),
    ]));
  }

  /** @param {{publishers: any[], senders: any[], total: number}} publishers */
  #publishing({ publishers, senders, total }) {
    this.#senders.show(senders.map((row) => [
      { text: [row.user || gettext("not signed in"), row.name].filter(Boolean).join(" · "), title: fill(gettext("%(kind)s of %(user)s"), { kind: row.kind, user: row.user || gettext("nobody who is signed in") }) },
      row.kind,
      number(count(row.messages)),
      number(count(row.messages_per_s)),
      late(row.unacknowledged, row.oldest_ms),
      { ...late(row.uncommitted, row.uncommitted_ms), title: row.uncommitted ? fill(gettext("rows that are staged, %(size)s"), { size: bytes(row.uncommitted_bytes) }) : "" },
      number(row.last_ms ? fill(gettext("%(time)s ago"), { time: ago(row.last_ms) }) : "–"),
    ]));
    say(element("publishers-total"), total ? count(total) : "");
    this.#publishers.show(publishers.map((row) => [
      { text: row.user || row.publisher || gettext("unnamed"), title: fill(gettext("numbers its messages as %(name)s"), { name: row.publisher || gettext("nobody") }) },
      row.address ?? "",
      number(row.last_ms ? row.transaction ? fill(gettext("stages, %(count)s"), { count: count(row.messages_per_s) }) : count(row.messages_per_s) : gettext("reads or reports")),
      { text: count(row.unacknowledged), className: `number${row.oldest_ms > 1000 ? " bad" : ""}` },
      number(row.oldest_ms ? milliseconds(row.oldest_ms) : "–"),
      number(row.last_ms ? fill(gettext("%(time)s ago"), { time: ago(row.last_ms) }) : "–"),
    ]));
  }

  /** @param {{jobs: any[], total: number}} jobs */
  #working({ jobs, total }) {
    say(element("jobs-total"), total ? count(total) : "");
    this.#jobs.show(jobs.map(({ job, user, age_ms, silent, restarts, fields }) => {
      const of = (/** @type {string} */ name) => (fields[name] ? Number(fields[name]) : undefined);
      const upTo = of("newest") || of("watermark"); // 0 is 1970, which jobs of an earlier version say for none
      const isBad = silent || fields.state === "failed";
      return [
        { text: job, title: ran(user, fields) },
        { text: silent ? fill(gettext("silent, was %(state)s"), { state: fields.state || gettext("unknown") }) : fields.state || gettext("unknown"), className: isBad ? "bad" : "" },
        number(count(of("rows_in_per_s"))), number(count(of("rows_done_per_s"))),
        number(fields.batch || "–"), number(milliseconds(of("batch_ms"))), number(milliseconds(of("lag_ms"))), number(count(of("behind"))),
        number(upTo ? moment(upTo) : "–"), number(count(of("state_rows"))),
        number(count(restarts)), number(fill(gettext("%(time)s ago"), { time: duration(age_ms / 1000) })), fields.error || "",
      ];
    }));
  }
}

/** How many wait, and the age of the oldest. @param {number | undefined} waiting @param {number} age in ms */
function late(waiting, age) {
  return number(waiting ? `${count(waiting)}, ${milliseconds(age)}` : known(waiting) ? "0" : "–");
}

/** Where a job runs, and as whom. @param {string} user @param {Record<string, string>} fields */
function ran(user, { host, pid, run, query }) {
  const place = [
    host && fill(gettext("on %(host)s"), { host }), pid && fill(gettext("process %(pid)s"), { pid }),
    run && fill(gettext("run %(run)s"), { run }), query && fill(gettext("query %(query)s"), { query }),
  ].filter(Boolean);
  return [fill(gettext("reports as %(user)s"), { user: user || gettext("nobody") }), ...place].join(", ");
}

/** @param {string[]} subjects @param {number} total */
function named(subjects, total) {
  const more = total - subjects.length;
  const names = subjects.join(", ");
  return more > 0 ? fill(gettext("%(names)s and %(count)s more"), { names, count: count(more) }) : names;
}
