/** What `subscribe()` returns. */

export class Subscription {
  /**
   * @param {string[]} subjects
   * @param {(message: any, subscription: Subscription) => void} handler
   * @param {(self: Subscription, subjects: string[]) => Promise<void>} leave
   */
  constructor(subjects, handler, leave) {
    this.subjects = subjects;
    this.handler = handler;
    /** Resolves when nothing more can arrive. Whoever calls it, this is the one that is left: `this` may be a Proxy. @param {string[]} [some] or all @returns {Promise<void>} */
    this.unsubscribe = (some = subjects) => leave(this, some);
  }
}
