/** A small line of the last values, drawn on a canvas in the colour of its direction. */

const POINTS_MAX = 60;
const POINTS_LEAST = 20; // fewer do not fill the width
const EDGE = 2;

export class Sparkline {
  /** @type {number[]} */
  #values = [];
  #drawn = true;

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
  }

  /** @param {number} value */
  add(value) {
    this.#values.push(value);
    if (this.#values.length > POINTS_MAX) this.#values.shift();
    this.changed();
  }

  clear() {
    this.#values = [];
    this.changed();
  }

  /** Draw with the next frame, however often that is asked. */
  changed() {
    if (!this.#drawn) return;
    this.#drawn = false;
    requestAnimationFrame(() => { this.#drawn = true; this.#draw(); });
  }

  #draw() {
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    const ratio = globalThis.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const values = this.#values;
    if (values.length < 2) return;
    const least = Math.min(...values);
    const span = Math.max(...values) - least || 1;
    const step = (width - 2 * EDGE) / (Math.max(values.length, POINTS_LEAST) - 1);
    canvas.dataset.trend = values[values.length - 1] < values[0] ? "down" : "up";
    const start = width - EDGE - step * (values.length - 1);
    const y = (/** @type {number} */ value) => height - EDGE - ((value - least) / span) * (height - 2 * EDGE);
    context.beginPath();
    values.forEach((value, index) => context.lineTo(start + index * step, y(value)));
    context.strokeStyle = context.fillStyle = getComputedStyle(canvas).color;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke();
    context.beginPath();
    context.arc(width - EDGE, y(values[values.length - 1]), 2, 0, 2 * Math.PI);
    context.fill();
  }
}
