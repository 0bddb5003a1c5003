"use strict";
// Draws the comparison in #data. All texts are set as text, never as markup: they come from traces.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const color = (index) => `var(--c${index % 8})`;
  const SVG = "http://www.w3.org/2000/svg";

  function element(parent, tag, attributes = {}, text = null) {
    const node = parent instanceof SVGElement || tag === "svg" ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== null) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  function formatBytes(bytes) {
    for (const [unit, decimals] of [["B", 0], ["kB", 1], ["MB", 1]]) {
      if (Math.abs(bytes) < 999.95) return `${bytes.toFixed(decimals)} ${unit}`;
      bytes /= 1000;
    }
    return `${bytes.toFixed(2)} GB`;
  }
  const formatMs = (us) => `${(us / 1000).toFixed(2)} ms`;

  // Round numbers from 0 (or low) to at least high.
  function ticks(low, high, count) {
    const raw = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw);
    const values = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) values.push(value);
    return values;
  }

  const tip = byId("tip");
  function showTip(event, lines) {
    tip.replaceChildren();
    for (const [text, shade] of lines) {
      const line = element(tip, "div");
      if (shade) element(line, "span", { class: "swatch", style: `background:${shade}` });
      element(line, "span", {}, text);
    }
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6))}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 6))}px`;
  }

  // Drawn again for every width of the window.
  function chart(parent, label, height, draw) {
    const svg = element(parent, "svg", { height, role: "img", "aria-label": label });
    const render = () => {
      const width = Math.max(240, svg.clientWidth || parent.clientWidth);
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      draw(svg, width);
    };
    new ResizeObserver(render).observe(parent);
    render();
    return render;
  }

  // Axes and scales; `x` and `y` have low, high and format.
  function plot(svg, width, height, x, y) {
    const box = { left: 64, right: width - 30, top: 10, bottom: height - 24 };
    const scaleX = (value) => box.left + ((value - x.low) / (x.high - x.low || 1)) * (box.right - box.left);
    const scaleY = (value) => box.bottom - ((value - y.low) / (y.high - y.low || 1)) * (box.bottom - box.top);
    for (const value of ticks(y.low, y.high, 4)) {
      element(svg, "line", { class: "axis", x1: box.left, x2: box.right, y1: scaleY(value), y2: scaleY(value) });
      element(svg, "text", { x: box.left - 6, y: scaleY(value) + 4, "text-anchor": "end" }, y.format(value));
    }
    for (const value of ticks(x.low, x.high, Math.max(2, Math.floor(width / 130)))) {
      element(svg, "text", { x: scaleX(value), y: height - 6, "text-anchor": "middle" }, x.format(value));
    }
    return { box, scaleX, scaleY };
  }

  // A line under the pointer, and a tip with the [text, color] lines that `read` gives for its place on the x axis.
  function follow(svg, frame, x, read) {
    const { box } = frame;
    const cursor = element(svg, "line", { class: "cursor", y1: box.top, y2: box.bottom, visibility: "hidden" });
    const hit = element(svg, "rect", {
      x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, fill: "transparent",
    });
    hit.addEventListener("pointermove", (event) => {
      const place = svg.getBoundingClientRect();
      const at = x.low + ((event.clientX - place.left - box.left) / (box.right - box.left)) * (x.high - x.low);
      const lines = read(Math.min(x.high, Math.max(x.low, at)));
      cursor.setAttribute("x1", event.clientX - place.left);
      cursor.setAttribute("x2", event.clientX - place.left);
      cursor.setAttribute("visibility", "visible");
      showTip(event, lines);
    });
    hit.addEventListener("pointerleave", () => {
      cursor.setAttribute("visibility", "hidden");
      tip.hidden = true;
    });
  }

  // Buttons that hide and show; returns the set of those hidden.
  function legend(parent, entries, onChange) {
    const hidden = new Set();
    const box = element(parent, "div", { class: "legend" });
    for (const [name, shade] of entries) {
      const button = element(box, "button", { type: "button", "aria-pressed": "true" });
      element(button, "span", { class: "swatch", style: `background:${shade}` });
      element(button, "span", {}, name);
      button.addEventListener("click", () => {
        hidden.has(name) ? hidden.delete(name) : hidden.add(name);
        button.setAttribute("aria-pressed", String(!hidden.has(name)));
        onChange();
      });
    }
    return hidden;
  }

  function drawFigures() {
    const table = byId("figures");
    const head = element(element(table, "thead"), "tr");
    element(head, "th", { scope: "col" }, "");
    for (const trace of data.traces) element(head, "th", { scope: "col" }, trace.name);
    const body = element(table, "tbody");
    for (const metric of data.metrics) {
      const row = element(body, "tr");
      element(row, "td", {}, metric.label);
      metric.texts.forEach((text, index) => {
        const cell = element(row, "td", {}, text);
        const ratio = metric.ratios[index];
        if (typeof ratio === "number") {
          const kind = ratio < 0.995 ? "better" : ratio > 1.005 ? "worse" : "";
          element(cell, "span", { class: `ratio ${kind}` }, `${ratio < 10 ? ratio.toFixed(2) : ratio.toFixed(0)}x`);
        }
      });
    }
    const notes = byId("notes");
    for (const trace of data.traces) {
      if (!trace.complete) element(notes, "li", {}, `${trace.name} is ${trace.condition}`);
    }
    for (const difference of data.differences) element(notes, "li", {}, `different ${difference}`);
  }

  // [name, level at a time] from the bottom of the stack to its top.
  function partsOf(timeline) {
    const flat = Object.entries(timeline.flat).map(([name, bytes]) => [name, () => bytes]);
    const stored = (t) => {
      let level = 0;
      for (const [at, bytes] of timeline.stored) {
        if (at > t) break;
        level = bytes;
      }
      return level;
    };
    return [...flat, ["stored activations", stored], ["rest of pool", (t) => Math.max(0, timeline.pool_bytes - stored(t))]];
  }

  function drawMemory() {
    const parent = byId("memory");
    const traces = data.traces.filter((trace) => trace.timeline);
    if (!traces.length) {
      element(parent, "p", { class: "hint" }, "No trace has a step.");
      return;
    }
    const names = partsOf(traces[0].timeline).map(([name]) => name);
    const shade = (name) => color(names.indexOf(name));
    const renders = [];
    const hidden = legend(parent, names.map((name) => [name, shade(name)]), () => renders.forEach((render) => render()));
    const shown = (timeline) => partsOf(timeline).filter(([name]) => !hidden.has(name));
    const timesOf = (timeline) => {
      const times = new Set([0, timeline.duration_us]);
      for (const [at] of timeline.stored) times.add(at).add(Math.max(0, at - 1e-3));
      return [...times].sort((a, b) => a - b);
    };
    const total = (timeline, t) => shown(timeline).reduce((sum, [, level]) => sum + level(t), 0);
    const highest = () => Math.max(1, ...traces.map(({ timeline }) => 1.12 * Math.max(...timesOf(timeline).map((t) => total(timeline, t)))));

    for (const trace of traces) {
      const { timeline } = trace;
      element(parent, "h3", {}, `${trace.name}, step ${timeline.step}`);
      renders.push(chart(parent, `memory over a step of ${trace.name}`, 200, (svg, width) => {
        const x = { low: 0, high: timeline.duration_us || 1, format: formatMs };
        const frame = plot(svg, width, 200, x, { low: 0, high: highest(), format: formatBytes });
        const times = timesOf(timeline);
        const base = times.map(() => 0);
        for (const [name, level] of shown(timeline)) {
          const lower = base.slice();
          times.forEach((t, i) => { base[i] += level(t); });
          const points = [
            ...times.map((t, i) => `${frame.scaleX(t)},${frame.scaleY(base[i])}`),
            ...times.map((t, i) => `${frame.scaleX(t)},${frame.scaleY(lower[i])}`).reverse(),
          ];
          element(svg, "polygon", { points: points.join(" "), fill: shade(name), "data-part": name });
        }
        for (const [phase, start] of timeline.phases) {
          const at = frame.scaleX(start);
          element(svg, "line", { class: "cursor", x1: at, x2: at, y1: frame.box.top, y2: frame.box.bottom });
          if (timeline.duration_us * 0.08 < timeline.phases.find(([name]) => name === phase)[2]) {
            element(svg, "text", { x: at + 4, y: frame.box.top + 4 }, phase);
          }
        }
        follow(svg, frame, x, (t) => [
          [`${formatMs(t)}: ${formatBytes(total(timeline, t))}`],
          ...shown(timeline).reverse().map(([name, level]) => [`${name} ${formatBytes(level(t))}`, shade(name)]),
        ]);
      }));
    }
  }

  // Lines over steps, one per trace: `points(trace)` gives [[step, value]...]. False when there is no line to draw.
  function drawCurves(parent, label, points, format) {
    const curves = data.traces
      .map((trace, index) => ({ name: trace.name, shade: color(index), points: points(trace).filter(([, y]) => typeof y === "number") }))
      .filter((curve) => curve.points.length > 1);
    if (!curves.length) return false;
    let render = () => {};
    const hidden = legend(parent, curves.map(({ name, shade }) => [name, shade]), () => render());
    render = chart(parent, label, 260, (svg, width) => {
      const shown = curves.filter(({ name }) => !hidden.has(name));
      const all = (shown.length ? shown : curves).flatMap((curve) => curve.points);
      const range = (axis) => all.reduce(([low, high], p) => [Math.min(low, p[axis]), Math.max(high, p[axis])], [Infinity, -Infinity]);
      const [firstStep, lastStep] = range(0);
      const [lowest, highest] = range(1);
      const x = { low: firstStep, high: lastStep, format: (value) => String(Math.round(value)) };
      const frame = plot(svg, width, 260, x, { low: Math.min(0, lowest), high: highest || 1, format });
      for (const { name, shade, points: line } of shown) {
        const path = line.map(([step, value], i) => `${i ? "L" : "M"}${frame.scaleX(step)},${frame.scaleY(value)}`).join("");
        element(svg, "path", { class: "curve", d: path, style: `stroke:${shade}`, "data-trace": name });
      }
      follow(svg, frame, x, (at) => [
        [`step ${Math.round(at)}`],
        ...shown.map(({ name, shade, points: line }) => {
          const nearest = line.reduce((best, p) => (Math.abs(p[0] - at) < Math.abs(best[0] - at) ? p : best));
          return [`${name} ${format(nearest[1])}`, shade];
        }),
      ]);
    });
    return true;
  }

  function drawActivations() {
    const parent = byId("activations");
    const rows = new Map();
    data.traces.forEach((trace, index) => {
      for (const item of trace.activations) {
        const row = rows.get(item.name) || { name: item.name, module: "", raw: 0, held: [] };
        row.raw = Math.max(row.raw, item.raw_bytes);
        row.module = row.module || item.module || "";
        row.held.push({ index, bytes: item.stored_bytes, bits: item.bits });
        rows.set(item.name, row);
      }
    });
    const sorted = [...rows.values()].sort((a, b) => b.raw - a.raw).slice(0, 25);
    if (!sorted.length) {
      element(parent, "p", { class: "hint" }, "The traces do not list activations.");
      return;
    }
    const box = element(parent, "div");
    const draw = () => {
      box.replaceChildren();
      const grid = element(box, "div", { class: "bars" });
      const largest = Math.max(1, ...sorted.map((row) => row.raw));
      for (const row of sorted) {
        element(grid, "div", { class: "name" }, row.module ? `${row.module} (${row.name})` : row.name);
        const group = element(grid, "div", { class: "group" });
        const bar = (bytes, shade, text) => {
          const line = element(group, "div", { class: "bar" });
          element(line, "span", { style: `width:calc((100% - 10rem) * ${bytes / largest});background:${shade}` });
          element(line, "span", {}, text);
        };
        bar(row.raw, "var(--line)", `${formatBytes(row.raw)} as computed`);
        for (const { index, bytes, bits } of row.held) {
          const name = data.traces[index].name;
          if (!hidden.has(name)) bar(bytes, color(index), formatBytes(bytes) + (bits ? `, ${bits} bits` : ""));
        }
      }
    };
    const hidden = legend(parent, data.traces.map((trace, index) => [trace.name, color(index)]), draw);
    parent.appendChild(box);
    draw();
  }

  const models = [...new Set(data.traces.map((trace) => trace.model))].join(", ");
  byId("title").textContent = `${models}: ${data.traces.length} ${data.traces.length === 1 ? "trace" : "traces"} compared`;
  byId("subtitle").textContent = data.traces
    .map((trace) => `${trace.name}: ${trace.steps} steps on ${trace.device.model || trace.device.kind || "a device"}`)
    .join("; ");
  drawFigures();
  drawMemory();
  const number = (value) => (Math.abs(value) < 10 ? value.toPrecision(3) : value.toFixed(1));
  if (!drawCurves(byId("loss"), "loss over steps", (trace) => trace.loss, number)) {
    element(byId("loss"), "p", { class: "hint" }, "No trace has steps with a finite loss.");
  }
  drawActivations();
  const bits = (trace) => trace.bits.map((point) => [point.step, point.mean_bits]);
  byId("bits-section").hidden = !drawCurves(byId("bits"), "bits over steps", bits, number);
})();
