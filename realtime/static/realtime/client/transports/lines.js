/** Lines of a text that arrives in pieces, and the events of an event stream made of them. No I/O. */

/** Cuts text into lines; what ends with no line end waits for the next piece. */
export class Lines {
  #rest = "";

  /** @param {string} text @returns {string[]} the lines that are complete */
  take(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = /** @type {string} */ (lines.pop());
    return lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
  }
}

/** The events of `text/event-stream`, with what of it the server uses: names, data of one line, comments. */
export class Events {
  #lines = new Lines();
  #name = "";
  /** @type {string[]} */
  #data = [];

  /** @param {string} text @returns {{name: string, data: string}[]} */
  take(text) {
    const events = [];
    for (const line of this.#lines.take(text)) {
      if (line === "") {
        if (this.#data.length > 0) events.push({ name: this.#name, data: this.#data.join("\n") });
        this.#name = "";
        this.#data = [];
      } else if (line.startsWith("data:")) this.#data.push(value(line, 5));
      else if (line.startsWith("event:")) this.#name = value(line, 6);
    }
    return events;
  }
}

/** @param {string} line @param {number} at behind the colon */
function value(line, at) {
  return line.slice(line[at] === " " ? at + 1 : at);
}
