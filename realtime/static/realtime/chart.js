/** A time series on a canvas: the last two minutes, from zero up. */

const SPAN_MS = 120_000;

export class Chart {
  /** @type {{at: number, value: number}[]} */
  #samples = [];

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
  }

  /** @param {number} at in ms @param {number} value */
  add(at, value) {
    this.#samples.push({ at, value });
    while (this.#samples.length > 2 && this.#samples[1].at < at - SPAN_MS) this.#samples.shift();
  }

  /** @param {number} now in ms */
  draw(now) {
    const { canvas } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width) return;
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.scale(ratio, ratio);
    const most = Math.max(...this.#samples.map((sample) => sample.value), 0) * 1.15 || 1;
    const x = (/** @type {number} */ at) => width - ((now - at) / SPAN_MS) * width;
    const y = (/** @type {number} */ value) => height - 1 - (value / most) * (height - 3);
    const style = getComputedStyle(canvas);
    context.strokeStyle = style.getPropertyValue("--line");
    context.strokeRect(-1, height - 0.5, width + 2, 2);
    if (this.#samples.length === 0) return;
    context.beginPath();
    for (const { at, value } of this.#samples) context.lineTo(x(at), y(value));
    context.strokeStyle = context.fillStyle = style.color;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(x(this.#samples[this.#samples.length - 1].at), height);
    context.lineTo(x(this.#samples[0].at), height);
    context.globalAlpha = 0.12;
    context.fill();
  }
}
