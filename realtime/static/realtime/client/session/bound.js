/** Objects that work behind a Proxy, such as Vue's `reactive()` and Alpine's `x-data` make of all that they hold. */

/**
 * Give an object its methods and getters as its own, tied to itself: a Proxy in its place has none of its private members.
 * @param {object} object
 */
export function bind(object) {
  const members = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object));
  for (const [name, { value, get }] of Object.entries(members)) {
    if (name === "constructor") continue;
    const tied = get ? { get: get.bind(object) } : { value: value.bind(object), writable: true };
    Object.defineProperty(object, name, { ...tied, configurable: true });
  }
}
