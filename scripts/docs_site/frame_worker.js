// Pages that were opened from a disk may not start workers: there, the search runs in a hidden frame.
if (location.protocol === "file:") {
  /** @type {any} */ (window).Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;
    /** @type {((event: MessageEvent) => void) | null} */
    onmessage = null;
    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.body.appendChild(this.#frame);
      const inside = /** @type {any} */ (this.#frame.contentWindow);
      // Later and as copies, as messages of workers come.
      inside.postMessage = (data) => setTimeout(() => this.#tell(structuredClone(data)));
      inside.importScripts = () => undefined;
      this.#ready = new Promise((done, failed) => {
        const script = inside.document.createElement("script");
        script.src = address;
        script.onload = done;
        script.onerror = failed;
        inside.document.body.appendChild(script);
      });
    }
    #tell(data) {
      const event = new MessageEvent("message", { data });
      this.onmessage?.(event);
      this.dispatchEvent(event);
    }
    postMessage(data) {
      this.#ready.then(() => {
        const event = new MessageEvent("message", { data: structuredClone(data) });
        setTimeout(() => this.#frame.contentWindow.dispatchEvent(event));
      });
    }
    terminate() {
      this.#frame.remove();
    }
  };
}
