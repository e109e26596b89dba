/**
 * What a client is subscribed to, over all its connections: subjects and patterns, and who hears of which. No I/O.
 *
 * A name may have several owners; a subject is heard by its own and by those of the patterns over it.
 */

/** Half of what a server takes; fewer where the command would pass what it takes as one frame. */
const SUBJECTS_PER_COMMAND = 500;
/** Fewer, likewise. */
const POSITIONS_PER_PATTERN = 2000;

/** First segments that a wildcard does not stand for. */
const RESERVED = ["__sys__", "__mqtt__", "user"];

/** Where somebody is who has read nothing of what he was promised. @type {Position} */
export const NOTHING = [0, 0];

/** @typedef {[epoch: number, seq: number]} Position */
/**
 * One subject. While it is `lagging` gaps are no fault (5.3); while it is `refused` it waits for a right, and it was asked
 * for again `retries` times.
 *
 * `owners` are those who are led in, and hear of it when it has `begun`: they subscribed to the subject itself, or joined
 * a pattern (`joined`) that had found it. One after the other: who comes meanwhile is `waiting`, and who is level with
 * all others is `settled`. Without any of them, patterns found it. `held`: the server has it as a subscription of its
 * own, though nobody wants it by its name. `wishes` are the intervals, and what to do while the client does not keep up,
 * of those who subscribed to the subject itself: what serves all of them is asked for.
 *
 * `position` is the last that was read; while `stored` messages are still to come it lags behind `target`, where live
 * messages begin, so that a connection lost between them misses nothing. They are `private` where others follow the
 * subject already: the new owners alone get them, from `since` on. `own` is the last that they read, while it is another
 * than the others': a connection that is lost then is followed by one that goes on from the lower of the two, and each
 * hears what it has not read. Owners who had read nothing are `owed` the beginning: it is asked for when the others have
 * gone on.
 * @typedef {{subject: string, owners: any[], joined: boolean, settled: any[], waiting: Newcomer[], wishes: Map<any, Wish>, history: number, conflation: number, slow: string, since: Position | null,
 *   position: Position | null, held: boolean, begun: boolean, private: boolean, own: Position | null, owed: boolean,
 *   asked: number, live: boolean, lagging: boolean, sid: number, epoch: number, interval: number, stored: number,
 *   target: Position | null, refused: boolean, retries: number, hearers: any[], hearersAt: number}} Wanted
 */
/**
 * A pattern, which has the name `subject` on the wire, and its owners with what each wishes. When it `resumes`, the subjects that the client does not know came
 * to be while it was away (3.8).
 * @typedef {{subject: string, wishes: Map<any, Wish>, history: number, conflation: number, slow: string, resumes: boolean,
 *   order: number, asked: number, live: boolean, retries: number, rights: string}} Pattern
 */
/**
 * Where a pattern has its wildcards: all of one shape that cover a subject are the one with its segments there. `length`
 * is that of the subject, or what it has more than where the end `isOpen`.
 * @typedef {{length: number, isOpen: boolean, literals: number[], patterns: Map<string, Pattern>}} Shape
 */
/** @typedef {{wanted: (Wanted | Pattern)[], history: number, conflation: number, slow: string, since: Record<string, Position>}} Request */
/** @typedef {{history: number, conflation: number, slow: string, since: Record<string, Position>}} Options */
/** @typedef {{byOwner: boolean, byOthers: boolean}} Readers */
/** An interval in ms, and what to do while the client does not keep up. @typedef {{conflation: number, slow: string}} Wish */
/** Those who are led in together; `joined`: by a pattern that had found the subject. @typedef {{owners: any[], history: number, since: Position | null, joined: boolean}} Newcomer */

export class WantedList {
  /** @type {Map<string, Wanted>} that were asked for, and that patterns have found */
  subjects = new Map();
  /** @type {Map<string, Pattern>} */
  patterns = new Map();
  /** @type {Map<string, Shape>} the patterns once more, by how they look */
  #shapes = new Map();
  #changes = 0;

  /** What stands under a name. @param {string} name @returns {Wanted | Pattern | undefined} */
  get(name) {
    return this.patterns.get(name) ?? this.subjects.get(name);
  }

  /** An owner wants a subject; `asks`: whether the server is to be asked. @param {string} subject @param {any} owner @param {Options} options @returns {{wanted: Wanted, asks: boolean}} */
  put(subject, owner, options) {
    this.#changes += 1;
    const { history, conflation, slow } = options;
    const since = sinceOf(options, subject);
    const old = this.subjects.get(subject);
    if (!old || (isOnly(old, owner) && this.over(subject).length === 0)) {
      const wanted = subscription(subject, [owner], { history, conflation, slow }, since);
      wanted.wishes.set(owner, { conflation, slow });
      this.subjects.set(subject, wanted);
      return { wanted, asks: true };
    }
    // All others go on as they do until the server has answered the new owner.
    leave(old, owner);
    old.wishes.set(owner, { conflation, slow });
    Object.assign(old, served(old.wishes));
    return { wanted: old, asks: leadIn(old, { owners: [owner], history, since, joined: false }) };
  }

  /** One more owner wants a pattern; the subjects to ask for, of what it had found, and whether itself anew. @param {Pattern} pattern @param {any} owner @param {Options} options @returns {{asked: Wanted[], isAnew: boolean}} */
  joinPattern(pattern, owner, options) {
    this.#changes += 1;
    const before = { ...pattern };
    const { history, conflation, slow } = options;
    pattern.wishes.set(owner, { conflation, slow });
    Object.assign(pattern, served(pattern.wishes));
    const found = [...this.subjects.values()].filter((one) => (one.live || one.position) && covers(pattern.subject, one.subject));
    const asked = found.filter((one) => {
      if (one.wishes.size === 0) Object.assign(one, { conflation: Math.min(one.conflation, conflation), slow: pattern.slow });
      if (one.wishes.has(owner)) return false;
      return leadIn(one, { owners: [owner], history, since: sinceOf(options, one.subject), joined: true });
    });
    return { asked, isAnew: pattern.conflation !== before.conflation || pattern.slow !== before.slow };
  }

  /** Let go of one of several owners; false when it is the last, who is let go of by `forget`. @param {Wanted | Pattern} wanted @param {any} owner */
  leave(wanted, owner) {
    const subject = isPattern(wanted.subject) ? null : /** @type {Wanted} */ (wanted);
    const joining = subject !== null && isJoining(subject);
    if (isOnly(wanted, owner) && !joining) return false;
    this.#changes += 1;
    if (wanted.wishes.delete(owner) && wanted.wishes.size > 0) Object.assign(wanted, served(wanted.wishes));
    if (!subject) this.#unjoin(/** @type {Pattern} */ (wanted), owner);
    else {
      subject.held ||= joining;
      leave(subject, owner);
    }
    return true;
  }

  /** @param {Pattern} pattern @param {any} owner */
  #unjoin(pattern, owner) {
    for (const one of this.subjects.values()) {
      if (!one.wishes.has(owner) && covers(pattern.subject, one.subject)) leave(one, owner);
    }
  }

  /** Lead in who is waiting, when it is its turn. @param {Wanted} wanted @returns {boolean} whether the server is to be asked */
  next(wanted) {
    if (wanted.waiting.length === 0 || !isLevel(wanted)) return false;
    this.#changes += 1;
    const [first] = wanted.waiting;
    const alike = wanted.waiting.filter((one) => beginsAs(one, first));
    wanted.waiting = wanted.waiting.filter((one) => !alike.includes(one));
    return leadIn(wanted, { ...first, owners: alike.flatMap((one) => one.owners) });
  }

  /** An owner wants a pattern that nobody had; of some subjects it may know where they were read to. @param {string} name @param {any} owner @param {Options} options @returns {Pattern} */
  putPattern(name, owner, { history, conflation, slow, since }) {
    this.#changes += 1;
    const resumes = Object.hasOwn(since, name);
    const order = this.#changes;
    const wishes = new Map([[owner, { conflation, slow }]]);
    const pattern = { subject: name, wishes, history, conflation, slow, resumes, order, asked: 0, live: false, retries: 0, rights: "" };
    this.patterns.set(name, pattern);
    const { id, shape, literals } = shapeOf(name);
    if (!this.#shapes.has(id)) this.#shapes.set(id, shape);
    this.#shapes.get(id)?.patterns.set(literals, pattern);
    for (const [subject, position] of Object.entries(since)) {
      if (!isPattern(subject) && covers(name, subject)) this.find(subject, { position });
    }
    return pattern;
  }

  /** The subject, which a pattern may have found just now; undefined if it is not wanted. @param {string} subject @param {{position?: Position | null, held?: boolean}} [how] */
  find(subject, { position = null, held = false } = {}) {
    const known = this.subjects.get(subject);
    const [by] = known ? [] : this.over(subject);
    if (!by) return known;
    const wanted = subscription(subject, [], { history: 0, conflation: by.conflation, slow: by.slow }, position);
    wanted.held = held;
    this.subjects.set(subject, wanted);
    return wanted;
  }

  /** The patterns that cover a subject, the oldest first; one look for each shape, however many they are. @param {string} subject @returns {Pattern[]} */
  over(subject) {
    const segments = subject.split("/").slice(1);
    /** @type {Pattern[]} */
    const found = [];
    for (const { length, isOpen, literals, patterns } of this.#shapes.values()) {
      if (isOpen ? segments.length <= length : segments.length !== length) continue;
      if (RESERVED.includes(segments[0]) && literals[0] !== 0) continue;
      const pattern = patterns.get(literals.map((at) => segments[at]).join("/"));
      if (pattern) found.push(pattern);
    }
    return found.sort((one, other) => one.order - other.order);
  }

  /** Whether it is still what stands under its name. @param {Wanted | Pattern} wanted */
  has(wanted) {
    return this.get(wanted.subject) === wanted;
  }

  /** None of its owners wants it any more. @param {Wanted | Pattern} wanted @returns {Wanted[]} the subjects of which nobody hears now */
  forget(wanted) {
    this.#changes += 1;
    /** @type {Wanted[]} */
    let left;
    if (isPattern(wanted.subject)) {
      for (const owner of wanted.wishes.keys()) this.#unjoin(/** @type {Pattern} */ (wanted), owner);
      this.patterns.delete(wanted.subject);
      const { id, literals } = shapeOf(wanted.subject);
      const patterns = this.#shapes.get(id)?.patterns;
      patterns?.delete(literals);
      if (patterns?.size === 0) this.#shapes.delete(id);
      left = [...this.subjects.values()].filter((one) => one.wishes.size === 0 && covers(wanted.subject, one.subject));
    } else {
      for (const owner of wanted.wishes.keys()) leave(/** @type {Wanted} */ (wanted), owner);
      wanted.wishes.clear();
      left = [/** @type {Wanted} */ (wanted)];
    }
    const gone = left.filter((one) => !(one.live || one.position) || this.over(one.subject).length === 0);
    for (const one of gone) this.subjects.delete(one.subject);
    return gone;
  }

  /** The connection is gone: nothing is live, and what was not read yet has not been found. */
  lose() {
    for (const pattern of this.patterns.values()) Object.assign(pattern, { live: false, retries: 0, rights: "" });
    for (const wanted of this.subjects.values()) {
      interrupt(wanted);
      Object.assign(wanted, { live: false, lagging: false, held: false, refused: false, retries: 0, sid: -1, hearersAt: -1 });
      join(wanted);
      if (wanted.wishes.size === 0 && !wanted.position) this.subjects.delete(wanted.subject);
    }
  }

  /** Who gets a message of the subject, which the owner or the others or all have not read. @param {Wanted} wanted @param {Readers} by @returns {any[]} */
  hearers(wanted, { byOwner, byOthers }) {
    if (!byOthers) return byOwner && !wanted.owed ? wanted.owners : [];
    if (!byOwner) return this.hearers(wanted, { byOwner: true, byOthers }).filter((owner) => !wanted.owners.includes(owner));
    if (wanted.hearersAt !== this.#changes) {
      wanted.hearers = [...this.#hearers(wanted)];
      wanted.hearersAt = this.#changes;
    }
    return wanted.hearers;
  }

  /** @param {Wanted} wanted @returns {Set<any>} */
  #hearers(wanted) {
    const { settled, owners, begun, joined, waiting } = wanted;
    const all = new Set([...settled, ...(begun && !joined ? owners : [])]);
    for (const pattern of this.over(wanted.subject)) for (const owner of pattern.wishes.keys()) all.add(owner);
    // Who joined a pattern hears of what it had found when he has been led in.
    const later = waiting.filter((one) => one.joined).flatMap((one) => one.owners);
    for (const owner of joined && !begun ? [...later, ...owners] : later) all.delete(owner);
    return all;
  }

  /** How to ask for patterns: each with the subjects that are to be asked for before it by name, because they are too many. @param {Pattern[]} patterns @param {(frame: any) => boolean} fits whether the server takes a command of that size @returns {{request: Request, more: Wanted[]}[]} */
  resumptions(patterns, fits) {
    /** @type {Map<Pattern, Wanted[]>} */
    const found = new Map(patterns.map((pattern) => [pattern, []]));
    for (const wanted of found.size > 0 ? this.subjects.values() : []) {
      if (wanted.position && !isPlain(wanted)) found.get(this.over(wanted.subject)[0])?.push(wanted);
    }
    return [...found].map(([pattern, subjects]) => {
      let count = Math.min(subjects.length, POSITIONS_PER_PATTERN);
      let request = resumption(pattern, subjects.slice(0, count));
      while (count > 0 && !fits(subscribeOf(request))) {
        count = Math.floor(count / 2);
        request = resumption(pattern, subjects.slice(0, count));
      }
      const more = subjects.slice(count);
      for (const wanted of more) wanted.held = true;
      return { request, more };
    });
  }
}

/** The command of a request. @param {Request} request */
export function subscribeOf({ wanted, history, conflation, slow, since }) {
  return { op: "subscribe", subjects: wanted.map((each) => each.subject), history, conflation, slow, since };
}

/** How to ask for a pattern, with where these subjects were read to. @param {Pattern} pattern @param {Wanted[]} subjects @returns {Request} */
function resumption(pattern, subjects) {
  const { history, conflation, slow, resumes } = pattern;
  /** @type {Record<string, Position>} */
  const since = resumes ? { [pattern.subject]: [0, 0] } : {};
  for (const wanted of subjects) since[wanted.subject] = /** @type {Position} */ (wanted.position);
  return { wanted: [pattern], history: resumes ? 0 : history, conflation, slow, since };
}

/** Members in runs, each for one command. @template T @param {T[]} members @param {(some: T[]) => boolean} fits @returns {T[][]} */
export function runs(members, fits) {
  const found = [];
  for (let start = 0; start < members.length;) {
    let count = SUBJECTS_PER_COMMAND;
    while (count > 1 && !fits(members.slice(start, start + count))) count = Math.floor(count / 2);
    found.push(members.slice(start, start + count));
    start += count;
  }
  return found;
}

/** How to ask for subjects: those with the same options share a command. @param {Iterable<Wanted>} subscriptions @param {(frame: any) => boolean} fits whether the server takes a command of that size @returns {Request[]} */
export function requests(subscriptions, fits) {
  /** @type {Map<string, Wanted[]>} */
  const groups = new Map();
  for (const wanted of subscriptions) {
    // Whoever knows a position gets what follows it, not the history before it once more.
    const key = JSON.stringify([after(wanted) ? 0 : wanted.history, wanted.conflation, wanted.slow]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key)?.push(wanted);
  }
  /** @type {Request[]} */
  const found = [];
  for (const [key, members] of groups) {
    const [history, conflation, slow] = JSON.parse(key);
    const request = (/** @type {Wanted[]} */ some) => {
      const since = Object.fromEntries(some.filter(after).map((wanted) => [wanted.subject, after(wanted)]));
      return { wanted: some, history, conflation, slow, since: /** @type {any} */ (since) };
    };
    found.push(...runs(members, (some) => fits(subscribeOf(request(some)))).map(request));
  }
  return found;
}

/** Where to go on from; null: from the beginning, as it was asked for. @param {Wanted} wanted */
function after(wanted) {
  return wanted.live ? wanted.since : lastOf(wanted);
}

/** What everybody who follows it has read. @param {Wanted} wanted @returns {Position | null} */
export function lastOf({ own, position }) {
  return own && position && isBefore(own, position) ? own : position;
}

/** Positions are ordered by epoch, then by number. @param {Position} one @param {Position} other */
function isBefore(one, other) {
  return one[0] < other[0] || (one[0] === other[0] && one[1] < other[1]);
}

/** @param {Position} one @param {Position} other */
function later(one, other) {
  return isBefore(one, other) ? other : one;
}

/** Where the owner is, if that is another place than the others'. @param {Position | null} own @param {Position | null} others */
function apart(own, others) {
  return own && others && own[0] === others[0] && own[1] === others[1] ? null : own;
}

/** Whether it is asked for by its own name, not by a pattern's. @param {Wanted} wanted */
export function isPlain(wanted) {
  return wanted.owners.length > 0 || wanted.settled.length > 0 || wanted.held;
}

/** Whether nobody is being led in: all who hear of it have read the same. @param {Wanted} wanted */
function isLevel({ owners, begun, own, owed, live, stored }) {
  return owners.length === 0 || (begun && !own && !owed && !(live && stored));
}

/** Whether somebody is led in who joined a pattern: the server is to have it by its name. @param {Wanted} wanted */
function isJoining({ owners, joined, waiting }) {
  return (owners.length > 0 && joined) || waiting.some((one) => one.joined);
}

/** Whether nobody else subscribed to it. @param {Wanted | Pattern} wanted @param {any} owner */
export function isOnly({ wishes }, owner) {
  return wishes.size === 0 || (wishes.size === 1 && wishes.has(owner));
}

/** Where an owner says that a subject was read to. @param {Options} options @param {string} subject */
function sinceOf({ since }, subject) {
  return Object.hasOwn(since, subject) ? since[subject] : null;
}

/** What serves all of them: the shortest interval, and a queue where one of them wants each message. @param {Map<any, Wish>} wishes @returns {Wish} */
function served(wishes) {
  const all = [...wishes.values()];
  const slow = all.some((one) => one.slow === "close") ? "close" : "conflate";
  return { conflation: Math.min(...all.map((one) => one.conflation)), slow };
}

/** Whether both begin with the same. @param {{history: number, since: Position | null, joined: boolean}} one @param {{history: number, since: Position | null, joined: boolean}} other */
function beginsAs(one, other) {
  const isSame = one.since === other.since || (one.since && other.since && apart(one.since, other.since) === null);
  return one.history === other.history && one.joined === other.joined && Boolean(isSame);
}

/** Lead somebody in, now or in turn. @param {Wanted} wanted @param {Newcomer} newcomer @returns {boolean} whether the server is to be asked */
function leadIn(wanted, newcomer) {
  const { owners, begun, live, position } = wanted;
  const isUnread = !begun && !live && !wanted.private && !position;
  if (owners.length > 0 && isUnread && beginsAs(wanted, newcomer)) {
    owners.push(...newcomer.owners);
    return wanted.refused; // it says again what is missing
  }
  if (!isLevel(wanted)) {
    wanted.waiting.push(newcomer);
    return false;
  }
  settle(wanted);
  // While nothing comes, the others go on first: what the newcomer begins with is asked for when they have.
  const owed = !live && !newcomer.since && position !== null;
  Object.assign(wanted, newcomer, { begun: false, own: null, owed });
  if (!live) join(wanted);
  return true;
}

/** Those who were led in are level with all others. @param {Wanted} wanted */
function settle(wanted) {
  if (wanted.owners.length > 0 && wanted.joined) wanted.held ||= wanted.live;
  else wanted.settled.push(...wanted.owners);
  wanted.owners = [];
}

/** Let go of somebody, wherever he is. @param {Wanted} wanted @param {any} owner */
function leave(wanted, owner) {
  const isLed = wanted.owners.includes(owner);
  const others = (/** @type {any[]} */ all) => all.filter((one) => one !== owner);
  wanted.owners = others(wanted.owners);
  wanted.settled = others(wanted.settled);
  wanted.waiting = wanted.waiting.map((one) => ({ ...one, owners: others(one.owners) })).filter((one) => one.owners.length > 0);
  if (!isLed || wanted.owners.length > 0) return;
  // What was on its way to those alone is nobody's.
  Object.assign(wanted, { held: wanted.held || (wanted.joined && wanted.live), own: null, owed: false });
}

/** The server has begun it. @param {Wanted} wanted @param {any} result @param {{isOwn: boolean, isAsked: boolean}} how as it was asked for by its name; it was asked for just now */
export function begin(wanted, result, { isOwn, isAsked }) {
  const isOn = goesOn(wanted, result);
  const isRecovered = result.recovery === "recovered";
  if (isAsked || !isOwn) wanted.private = isAsked && wanted.live;
  wanted.owed &&= !isOwn || isRecovered;
  if (isAsked && wanted.live) wanted.own = wanted.since ?? (isRecovered ? wanted.position : null) ?? NOTHING;
  else if (!isOn && !wanted.private) wanted.own = null;
  if (isRecovered && !wanted.position && !wanted.private && !result.conflation && result.seq !== undefined) {
    // A pattern that came back has found it: all of it follows.
    wanted.position = [result.epoch ?? 0, result.seq - (result.messages ?? 0)];
  }
  const last = isOn ? (wanted.private ? wanted.position : lastOf(wanted)) : null;
  wanted.begun ||= isOwn && !wanted.owed;
  Object.assign(wanted, { sid: result.sid, live: true, lagging: false, refused: false, retries: 0, hearersAt: -1 });
  wanted.epoch = result.epoch ?? 0;
  wanted.interval = result.conflation ?? 0;
  // Longer than what was asked for is what the subject's options want (features.md C7), as long as they do.
  wanted.conflation = Math.min(wanted.conflation, wanted.interval);
  wanted.target = result.seq === undefined ? null : [wanted.epoch, result.seq];
  wanted.stored = result.messages ?? 0;
  if (last && wanted.target) {
    const follow = isRecovered && !wanted.private ? wanted.stored : 0;
    wanted.target[1] = Math.min(wanted.target[1], last[1] + follow);
  }
  if (!wanted.stored) storedOver(wanted);
}

/**
 * Whether somebody follows on from what was read, who is told of what is missing: the answer may stand behind messages
 * that a right took away with its end (4.7).
 * @param {Wanted} wanted @param {any} result
 */
function goesOn({ live, interval, lagging }, { recovery, messages }) {
  if (recovery || !live) return recovery === "recovered";
  return !messages || !(interval || lagging);
}

/** A message with a number is read: by the owner, by the others? @param {Wanted} wanted @param {number} seq @param {{isAnew: boolean}} how whatever they have read before @returns {Readers} */
export function read(wanted, seq, { isAnew }) {
  /** @type {Position} */
  const at = [wanted.epoch, seq];
  const others = wanted.position;
  const own = wanted.own ?? others;
  const byOwner = isAnew || !own || isBefore(own, at);
  const byOthers = !wanted.private && (isAnew || !others || isBefore(others, at));
  if (byOthers) wanted.position = at;
  wanted.own = apart(byOwner ? at : own, wanted.position);
  return { byOwner, byOthers };
}

/** All stored messages have come: live ones begin. @param {Wanted} wanted */
export function storedOver(wanted) {
  const { own, position, target } = wanted;
  Object.assign(wanted, { stored: 0, private: false, target: null });
  if (!target) return;
  wanted.position = own && position ? later(position, target) : target;
  wanted.own = own && apart(later(own, target), wanted.position);
}

/** What is still to come of stored messages will not. @param {Wanted} wanted */
export function interrupt(wanted) {
  const { own, position } = wanted;
  if (own === NOTHING) {
    const owed = position !== null;
    Object.assign(wanted, { own: null, owed, begun: !owed });
  } else if (!position) {
    Object.assign(wanted, { position: own, own: null });
  }
  wanted.private = false;
}

/** A new owner whom the server has not answered goes on from `since`, with the others or apart from them. @param {Wanted} wanted */
function join(wanted) {
  const { owners, begun, since } = wanted;
  if (owners.length === 0 || begun || !since) return;
  wanted.position ??= since;
  wanted.own = apart(since, wanted.position);
}

/** @param {string} subject @param {any[]} owners @param {{history: number, conflation: number, slow: string}} options @param {Position | null} since @returns {Wanted} */
function subscription(subject, owners, { history, conflation, slow }, since) {
  return {
    subject, owners, joined: false, settled: [], waiting: [], wishes: new Map(), history, conflation, slow, since,
    position: since, held: false, begun: false, private: false,
    own: null, owed: false, asked: 0, live: false, lagging: false, sid: -1, epoch: 0, interval: 0, stored: 0, target: null,
    refused: false, retries: 0, hearers: [], hearersAt: -1,
  };
}

/** The shape of a pattern, a name for it, and the segments that are no wildcards. @param {string} pattern @returns {{id: string, shape: Shape, literals: string}} */
function shapeOf(pattern) {
  const segments = pattern.split("/").slice(1);
  const isOpen = segments.at(-1) === "**";
  if (isOpen) segments.pop();
  const literals = [...segments.keys()].filter((at) => segments[at] !== "*");
  const shape = { length: segments.length, isOpen, literals, patterns: new Map() };
  return { id: `${isOpen} ${segments.length} ${literals}`, shape, literals: literals.map((at) => segments[at]).join("/") };
}

/** Whether a text is meant as a pattern: a segment of it is a wildcard. @param {string} text */
export function isPattern(text) {
  return text.includes("*") && text.split("/").some((segment) => segment === "*" || segment === "**");
}

/** Whether a pattern covers a subject (2.3, 3.8). @param {string} pattern @param {string} subject */
export function covers(pattern, subject) {
  const wanted = pattern.split("/").slice(1);
  let given = subject.split("/").slice(1);
  if (RESERVED.includes(given[0]) && wanted[0] !== given[0]) return false;
  if (wanted.at(-1) === "**") {
    wanted.pop();
    if (given.length <= wanted.length) return false;
    given = given.slice(0, wanted.length);
  }
  return wanted.length === given.length && wanted.every((segment, at) => segment === "*" || segment === given[at]);
}

/** Whether the subject is one of these names, or a pattern among them covers it. @param {string} subject @param {string[]} names */
export function isCovered(subject, names) {
  return names.some((name) => name === subject || (isPattern(name) && covers(name, subject)));
}
