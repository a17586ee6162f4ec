// A browser starts no worker for a page that it opened from a folder, and the search of the site
// is one. Here the script of such a worker runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(script) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<!doctype html>";
      this.frame.addEventListener("load", () => this.start(script), { once: true });
      document.body.append(this.frame);
    }

    start(script) {
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) =>
        setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })));
      const element = inside.document.createElement("script");
      element.src = script;
      element.addEventListener("load", () => {
        const { waiting } = this;
        this.waiting = undefined;
        for (const data of waiting) this.postMessage(data);
      });
      element.addEventListener("error", (event) => this.onerror?.(event));
      inside.document.body.append(element);
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
