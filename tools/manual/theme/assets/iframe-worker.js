// A page that is opened from a disk may start no worker: the search's then runs in a hidden frame of the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #inside;

    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.#inside = new Promise((resolve, reject) => {
        frame.addEventListener("load", () => {
          const inside = frame.contentWindow;
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = inside.document.createElement("script");
          script.addEventListener("load", () => resolve(inside));
          script.addEventListener("error", () => reject(new Error(`${address} does not load`)));
          script.src = address;
          inside.document.head.append(script);
        }, { once: true });
      });
      document.body.append(frame);
    }

    postMessage(data) {
      this.#inside.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
