"use strict";
// Draws the charts of the page, filters them and the tables, and draws what is chosen to be seen.
(async () => {
  const unpacked = async (id) => {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };
  if (typeof DecompressionStream === "undefined") return;
  const data = JSON.parse(await unpacked("data"));
  const script = document.createElement("script");
  script.type = "module";
  script.textContent = await unpacked("library");
  const ready = new Promise((resolve) => window.addEventListener("library", resolve, { once: true }));
  document.head.append(script);
  await ready;
  document.documentElement.classList.add("scripted");

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const seenWell = (spec) => dark.matches
    ? JSON.parse(JSON.stringify(spec, (_, value) => data.bright[value] ?? value)) : structuredClone(spec);
  const coloured = (config) => {
    const ink = dark.matches ? "#e8e8e8" : "#1b1b1b";
    const text = { labelColor: ink, titleColor: ink };
    return {
      ...config, aria: false, background: "transparent",
      axis: { ...config.axis, ...text }, legend: { ...config.legend, ...text },
      header: text, title: { ...config.title, color: ink }, text: { color: ink }, rule: {},
    };
  };
  const MOST_PANELS = 12; // of more, a reader sees none
  const BARS = new Set(["sure", "doubted", "published"]); // not reference lines
  const filters = {};
  const passes = (key) => {
    const test = data.tests[key];
    return !test || Object.entries(filters).every(([axis, value]) => test.axes[axis] === value);
  };
  const wrapped = (lines, letters) => [lines].flat().flatMap((line) => {
    const made = [""];
    for (const word of line.split(" ")) {
      const longer = made.at(-1) ? `${made.at(-1)} ${word}` : word;
      if (longer.length > letters && made.at(-1)) made.push(word); else made[made.length - 1] = longer;
    }
    return made;
  });
  const draw = (element, spec, filtered) => {
    const room = Math.max(240, Math.min(1080, element.clientWidth - 45));
    const shown = seenWell(spec);
    shown.title.text = wrapped(shown.title.text, room / 8);
    if (shown.title.subtitle) shown.title.subtitle = wrapped(shown.title.subtitle, room / 6);
    if (filtered) shown.data.values = shown.data.values.filter((row) => passes(row.key));
    if (shown.spec && shown.columns) {
      const left = new Set(shown.data.values.map((row) => row.panel));
      const order = shown.facet.sort.filter((panel) => left.has(panel));
      if (order.length > MOST_PANELS) {
        const kept = new Set(order.slice(0, MOST_PANELS));
        shown.data.values = shown.data.values.filter((row) => kept.has(row.panel));
        const note = `${MOST_PANELS} of ${order.length} panels: choose others by the filters`;
        shown.title.subtitle = [...(shown.title.subtitle ?? []), note];
      }
      const panels = new Set(shown.data.values.map((row) => row.panel)).size;
      const rows = Math.ceil(panels / Math.max(1, Math.floor(room / 270)));
      shown.columns = Math.max(1, Math.ceil(panels / Math.max(1, rows)));
      shown.spec.width = Math.floor((room - 60) / shown.columns) - 24;
    } else if (shown.width) {
      shown.width = room;
      shown.autosize = { type: "fit-x", contains: "padding" };
    }
    const inner = shown.spec ?? shown;
    const places = new Set(shown.data.values.filter((row) => BARS.has(row.kind)).map((row) => row.x)).size;
    const beside = inner.layer?.find((layer) => layer.encoding?.xOffset)?.encoding.xOffset.scale.domain.length ?? 1;
    if (places * beside * 40 > (shown.spec?.width ?? room - 60)) // the values do not fit above the bars
      inner.layer = inner.layer.filter((layer) => !layer.name?.startsWith("values"));
    const longest = Math.max(0, ...shown.data.values.map((row) => row.series?.length ?? 0));
    shown.config.legend = { ...shown.config.legend, columns: Math.max(1, Math.floor(room / (30 + 6 * longest))) };
    const words = [...new Set(shown.data.values.map((row) => row.x))].filter((x) => typeof x === "string");
    const letters = words.reduce((sum, word) => sum + word.length + 2, 0);
    const aslant = letters * 6.5 > (shown.spec?.width ?? room - 60);
    shown.config.axisXDiscrete = { ...shown.config.axisXDiscrete, labelAngle: aslant ? -40 : 0 };
    shown.config = coloured(shown.config);
    const options = { renderer: "svg", logLevel: 1, actions: { export: true, source: false, compiled: false, editor: false } };
    return window.switchmarkEmbed(element, shown, options).then(() => {
      element.querySelector("summary")?.setAttribute("aria-label", "save this chart");
      for (const part of element.querySelectorAll("svg.marks, svg.marks [role], svg.marks [aria-label]"))
        for (const name of ["role", "aria-roledescription", "aria-label"]) part.removeAttribute(name);
    });
  };
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const still = new Map(figures.map((figure) => [figure, figure.querySelector(".chart").innerHTML]));
  const drawOne = (figure) => {
    figure.classList.remove("still");
    figure.querySelector(".chart").setAttribute("role", "group"); // what can be pressed is no image
    return draw(figure.querySelector(".chart"), data.charts[Number(figure.dataset.chart)], true);
  };
  for (const figure of figures) {
    const button = figure.querySelector("button.mode");
    button?.addEventListener("click", () => {
      const { chart, other } = figure.dataset;
      [figure.dataset.chart, figure.dataset.other] = [other, chart];
      const words = { "absolute values": "relative values", "relative values": "absolute values" };
      button.textContent = words[button.textContent];
      drawOne(figure);
      const says = data.charts[Number(other)].description;
      figure.querySelector("figcaption").textContent = says;
      figure.querySelector(".chart").setAttribute("aria-label", says);
    });
  }
  const drawn = new Set();
  const drawOnce = (figure) => {
    if (drawn.has(figure)) return null;
    drawn.add(figure);
    return drawOne(figure);
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) drawOnce(entry.target);
  }, { rootMargin: "300px" });
  figures.forEach((figure) => seen.observe(figure));
  // A page is printed as it stands: what nobody has scrolled to is drawn while there is nothing else to do.
  const whenIdle = window.requestIdleCallback ?? ((work) => setTimeout(work, 50));
  const drawRest = async () => {
    const left = figures.find((figure) => !drawn.has(figure));
    if (!left) return;
    await drawOnce(left);
    whenIdle(drawRest);
  };
  whenIdle(drawRest);
  window.addEventListener("beforeprint", () => {
    for (const figure of figures) figure.querySelector(".chart").innerHTML ||= still.get(figure);
  });

  const rows = [...document.querySelectorAll("tr[data-key]")];
  const count = document.getElementById("count");
  const refresh = () => {
    let left = 0;
    for (const row of rows) { row.hidden = !passes(row.dataset.key); left += !row.hidden; }
    if (count) count.textContent = `${left} of ${rows.length} tests`;
    drawn.forEach(drawOne);
    explore();
  };
  const filter = document.getElementById("filter");
  filter?.addEventListener("change", (event) => {
    const select = event.target;
    if (select.value === "") delete filters[select.name]; else filters[select.name] = select.value;
    refresh();
  });
  filter?.addEventListener("reset", () => {
    for (const axis of Object.keys(filters)) delete filters[axis];
    setTimeout(refresh);
  });

  const spread = ([, low, high]) => low === high ? "" : `${+low.toPrecision(4)} to ${+high.toPrecision(4)} (95 % interval)`;
  const chooser = document.getElementById("explore");
  const explore = () => {
    if (!chooser) return;
    const { x, y, by } = Object.fromEntries(new FormData(chooser));
    const values = [];
    for (const [key, test] of Object.entries(data.tests)) {
      const figure = test.figures[y];
      if (!figure || !passes(key)) continue;
      const number = Number(test.axes[x]);
      values.push({
        key, x: data.numeric.includes(x) ? number : test.axes[x], y: figure[0], low: figure[1], high: figure[2],
        series: by ? test.axes[by] : "", panel: "", row: "", note: test.note, spread: spread(figure),
        kind: test.doubted ? "doubted" : "sure", bounded: false,
      });
    }
    const spec = structuredClone(data.template[data.numeric.includes(x) ? "numbers" : "words"]);
    spec.data.values = values;
    spec.title = { text: `${data.metrics[y]} against ${x}`, anchor: "start" };
    const names = [...new Set(values.map((row) => row.series))];
    const titled = (node) => {
      if (!node || typeof node !== "object") return;
      if (node.field === "x" && "title" in node) node.title = x;
      if (node.field === "series" && "title" in node) node.title = by || null;
      if (node.field === "series" && node.legend) node.legend.title = by || null;
      if (node.field === "series" && node.scale) node.scale = { domain: names }; // one legend for colour and shape
      const upright = node.type && ["y", "low", "high"].includes(node.field); // else it is of a tooltip
      if (upright && "title" in node) node.title = wrapped(data.metrics[y], 44);
      else if (node.field === "y" && "title" in node) node.title = data.metrics[y];
      Object.values(node).forEach(titled);
    };
    titled(spec.layer);
    const looked = (node) => { // a switch looks the same in every chart
      if (!node || typeof node !== "object") return;
      for (const [channel, at] of [["color", 0], ["shape", 1]])
        if (node[channel]?.field === "series")
          node[channel].scale = { domain: names, range: names.map((name) => data.switches[name][at]) };
      Object.values(node).forEach(looked);
    };
    if (by === "switch") looked(spec.layer);
    draw(document.getElementById("explored"), spec, false);
  };
  chooser?.addEventListener("change", explore);
  explore();
  dark.addEventListener("change", refresh);
})();
