/** What the page around the client goes through: its user comes back to it, the network is another, it is kept for "Back". */

/** @typedef {{returned: () => void, online: () => void, hidden: () => void, shown: () => void}} Hearer */

export class Page {
  /** @type {[EventTarget, string, (event: any) => void][]} */
  #heard;

  /** @param {Hearer} hear `hidden`: the page goes to where "Back" finds it, and no connection may go with it; `shown`: it is back */
  constructor(hear) {
    const { document } = globalThis;
    const isVisible = () => document.visibilityState !== "hidden";
    this.#heard = [
      [globalThis, "online", () => hear.online()],
      [globalThis, "focus", () => hear.returned()],
      [globalThis, "pagehide", ({ persisted }) => { if (persisted) hear.hidden(); }],
      [globalThis, "pageshow", ({ persisted }) => { if (persisted) hear.shown(); }],
      [document, "visibilitychange", () => { if (isVisible()) hear.returned(); }],
      [document, "resume", () => hear.returned()],
    ];
    // Node has neither, and a worker no document.
    this.#heard = this.#heard.filter(([target]) => typeof target?.addEventListener === "function");
    for (const [target, name, listener] of this.#heard) target.addEventListener(name, listener);
  }

  /** Hear nothing more. */
  stop() {
    for (const [target, name, listener] of this.#heard) target.removeEventListener(name, listener);
  }
}
