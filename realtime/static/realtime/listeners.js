/** Who hears of which status. */

export class Listeners {
  /** @type {Map<string, Set<(status: any) => void>>} */
  #byName = new Map();

  /** @param {string} name "status" for everything @param {(status: any) => void} listener @returns {() => void} stops it */
  on(name, listener) {
    if (!this.#byName.has(name)) this.#byName.set(name, new Set());
    this.#byName.get(name)?.add(listener);
    return () => { this.#byName.get(name)?.delete(listener); };
  }

  /** @param {string} name @param {Record<string, unknown>} details */
  emit(name, details) {
    const status = { ...details, name };
    for (const key of [name, "status"]) {
      for (const listener of this.#byName.get(key) ?? []) guarded(() => listener(status));
    }
  }
}

/** A fault of a handler is reported and stops nobody else. @param {() => void} action */
export function guarded(action) {
  try {
    action();
  } catch (error) {
    if (globalThis.reportError) globalThis.reportError(error);
    else console.error(error);
  }
}
