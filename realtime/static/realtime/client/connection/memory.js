/** What a client remembers of transports from page to page: in `localStorage` where there is one, else in the process. */

const KEY = "fastpath.transports";
const ADDRESSES_MAX = 16;

/** @typedef {import("./ladder.js").Remembered} Remembered */

/** @type {Record<string, Remembered>} */
let here = {};

/** Times of the ladder are those of `performance.now()`, which each page counts from its own beginning. */
export const memory = {
  /** @param {string} url @returns {Remembered | null} */
  load(url) {
    const found = all()[url];
    const isSound = typeof found?.transport === "string" && found.until >= 0 && found.tries >= 0;
    return isSound ? { ...found, until: found.until - Date.now() + performance.now() } : null;
  },

  /** @param {string} url @param {Remembered | null} remembered null forgets it */
  save(url, remembered) {
    const { [url]: _, ...others } = all();
    const kept = Object.entries(others).slice(1 - ADDRESSES_MAX);
    if (remembered) kept.push([url, { ...remembered, until: remembered.until - performance.now() + Date.now() }]);
    here = Object.fromEntries(kept);
    try {
      storage()?.setItem(KEY, JSON.stringify(here));
    } catch {
      // It is full, or forbidden: the page remembers it.
    }
  },
};

/** @returns {Record<string, any>} times of `Date.now()` */
function all() {
  try {
    const text = storage()?.getItem(KEY);
    return text ? { ...JSON.parse(text) } : here;
  } catch {
    return here;
  }
}

/** A page's; Node warns of its own. */
function storage() {
  return globalThis.document ? globalThis.localStorage : null;
}
