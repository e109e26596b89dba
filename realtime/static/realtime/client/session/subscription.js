/** What `subscribe()` returns. */

export class Subscription {
  #leave;

  /**
   * @param {string[]} subjects
   * @param {(message: any, subscription: Subscription) => void} handler
   * @param {(self: Subscription, subjects: string[]) => Promise<void>} leave
   */
  constructor(subjects, handler, leave) {
    this.subjects = subjects;
    this.handler = handler;
    this.#leave = leave;
  }

  /** @param {string[]} [subjects] some of them, or all @returns {Promise<void>} when nothing more can arrive */
  unsubscribe(subjects = this.subjects) {
    return this.#leave(this, subjects);
  }
}
