/** Who hears of which status. */

/** Why a page stays empty: where nobody listens to these, the console is told, once for each subject. */
const MISSING = new Map([
  ["denied", "there is no right to read it, yet"],
  ["notReady", "the server cannot say yet who may read it"],
  ["refused", "the subscription was refused"],
]);

export class Listeners {
  /** @type {Set<string>} subjects that the console was told of */
  #told = new Set();
  /** @type {Map<string, Set<(status: any) => void>>} */
  #byName = new Map();

  /** @param {string} name "status" for everything @param {(status: any) => void} listener @returns {() => void} stops it */
  on(name, listener) {
    if (typeof listener !== "function") throw new TypeError("a listener is a function");
    if (!this.#byName.has(name)) this.#byName.set(name, new Set());
    this.#byName.get(name)?.add(listener);
    return () => { this.#byName.get(name)?.delete(listener); };
  }

  /** @param {string} name @param {Record<string, unknown>} details */
  emit(name, details) {
    const status = { ...details, name };
    let isHeard = false;
    for (const key of [name, "status"]) {
      for (const listener of this.#byName.get(key) ?? []) {
        isHeard = true;
        guarded(() => listener(status));
      }
    }
    if (!isHeard && MISSING.has(name)) this.#tell(status);
  }

  /** @param {any} status */
  #tell({ name, subject, reason }) {
    if (this.#told.has(subject)) return;
    this.#told.add(subject);
    console.warn(`realtime: nothing comes of ${subject}: ${MISSING.get(name)} (${reason}). Give connect() an onStatus, or use client.on("${name}", …), to handle this.`);
  }
}

/** A fault of a handler is reported and stops nobody else; that of an asynchronous one as well, which in Node would end the process. @param {() => any} action */
export function guarded(action) {
  try {
    const result = action();
    if (typeof result?.then === "function") result.then(undefined, report);
  } catch (error) {
    report(error);
  }
}

/** @param {unknown} error */
function report(error) {
  if (globalThis.reportError) globalThis.reportError(error);
  else console.error(error);
}
