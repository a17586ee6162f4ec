// A reader without a mouse scrolls wide tables and commands too.
addEventListener("load", () => {
  for (const each of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, article table"))
    if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
});

// The search needs a worker. Browsers start none for a page that was opened from a folder, so the
// script of the worker runs in a hidden frame there. Messages are copied, as a worker's are.
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
      inside.postMessage = (answer) => {
        const data = structuredClone(answer);
        setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })));
      };
      const element = inside.document.createElement("script");
      element.src = script;
      element.addEventListener("load", () => {
        const { waiting } = this;
        this.waiting = undefined;
        for (const data of waiting) this.deliver(data);
      });
      element.addEventListener("error", (event) => this.onerror?.(event));
      inside.document.body.append(element);
    }

    postMessage(order) {
      const data = structuredClone(order);
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }

    deliver(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
