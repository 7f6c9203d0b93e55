"use strict";
// Values of figures on hover and focus, transports and conditions switched off, zoom over time, sorted tables, theme.
// The page is whole without this script.
(() => {
const root = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const element = (name, attributes, within) => {
  const made = document.createElementNS(within.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  within.append(made);
  return made;
};
const isOff = (part) => part.closest(".off") !== null;
const isRussian = root.lang === "ru";
// Formats a number with the minus sign and the decimal separator of the report's language.
const formatted = (value, decimals) => {
  const text = value.toFixed(decimals).replace("-", "\u2212");
  return isRussian ? text.replace(".", ",") : text;
};
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// ---- Theme

const KEY = "regatta-theme";
const themeButton = document.getElementById("theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => root.dataset.theme ?? (prefersDark.matches ? "dark" : "light");
const other = () => (theme() === "dark" ? "light" : "dark");
const nameTheme = () => { themeButton.textContent = themeButton.dataset[other()]; };
// A browser may forbid pages from disk to store anything.
const stored = (use) => { try { return use(localStorage); } catch { return null; } };
const chosen = stored((store) => store.getItem(KEY));
if (chosen === "dark" || chosen === "light") root.dataset.theme = chosen;
themeButton.addEventListener("click", () => {
  root.dataset.theme = other();
  stored((store) => store.setItem(KEY, root.dataset.theme));
  nameTheme();
});
prefersDark.addEventListener("change", nameTheme);
nameTheme();
themeButton.hidden = false;

// ---- Transports and conditions

const controls = document.getElementById("shown");
const off = { s: new Set(), c: new Set() };

function applyFilter() {
  for (const set of all("fieldset", controls)) {
    const boxes = all("input", set);
    off[set.dataset.of] = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
  }
  for (const part of all("[data-s], [data-c]")) {
    part.classList.toggle("off", off.s.has(part.dataset.s) || off.c.has(part.dataset.c));
  }
  for (const figure of all("figure")) {
    const panels = all("svg.panel", figure);
    figure.classList.toggle("off", panels.length > 0 && panels.every((panel) => panel.classList.contains("off")));
  }
  const names = [...off.s, ...off.c];
  document.getElementById("left-out").textContent = names.length ? controls.dataset.without + names.join(", ") : "";
  hideTip();
}

for (const set of all("fieldset", controls)) {
  set.addEventListener("change", applyFilter);
  for (const button of all("button", set)) {
    button.addEventListener("click", () => {
      for (const box of all("input", set)) box.checked = button.dataset.all !== "";
      applyFilter();
    });
  }
}
controls.hidden = false;

// ---- Tables

// Prefixes of units, in English and in Russian.
const PREFIXES = {
  n: 1e-9, "µ": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, "": 1,
  "н": 1e-9, "мк": 1e-6, "м": 1e-3, "к": 1e3, "М": 1e6, "Г": 1e9,
};

// Returns the number at the beginning of a cell in its basic unit, or null.
function numberIn(cell) {
  const text = cell.firstChild?.textContent.trim().replace(/\u2212/g, "-").replace(/(\d),(\d)/g, "$1.$2") ?? "";
  const found = /^[<>]?\s*([-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*(мк|[nµmkMGнмкМГ]?)(s|B|bit\/s|с|Б|бит\/с)?(?![a-zа-я])/.exec(text);
  if (!found) return null;
  const [, number, prefix, unit] = found;
  return Number(number) * (unit ? PREFIXES[prefix] : 1);
}

function compareCells(a, b) {
  const [left, right] = [numberIn(a), numberIn(b)];
  if (left !== null && right !== null) return left - right;
  return a.textContent.localeCompare(b.textContent, undefined, { numeric: true });
}

// Sorts the rows of a table by a column; cells without a figure stay at the end.
function sortTable(table, column, direction) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  table.original ??= [...rows];
  const isEmpty = (row) => row.cells[column].textContent.trim() === "–";
  const order = direction === "none" ? table.original : rows.sort((a, b) => {
    if (isEmpty(a) !== isEmpty(b)) return isEmpty(a) ? 1 : -1;
    const result = compareCells(a.cells[column], b.cells[column]);
    return direction === "ascending" ? result : -result;
  });
  body.append(...order);
}

for (const table of all("table")) {
  const heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
  if (!table.tBodies.length || table.tBodies[0].rows.length < 2) continue;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const next = { none: "ascending", ascending: "descending", descending: "none" };
      const direction = next[head.getAttribute("aria-sort") ?? "none"];
      for (const each of heads) each.removeAttribute("aria-sort");
      if (direction !== "none") head.setAttribute("aria-sort", direction);
      sortTable(table, column, direction);
    });
  });
}

// ---- Values of figures

const tip = element("div", { id: "tip", role: "status", hidden: "" }, document.body);
let current = null;

function hideTip() {
  tip.hidden = true;
  current?.cursor?.remove();
  current = null;
}

// Shows lines of text, each with the colour of its line if it has one, beside a point of a panel.
function showTip(panel, lines, [x, y]) {
  tip.replaceChildren(...lines.map(({ text, colour }) => {
    const line = document.createElement("div");
    if (colour) {
      const key = document.createElement("i");
      key.style.background = colour;
      line.append(key);
    }
    line.append(text);
    return line;
  }));
  tip.hidden = false;
  const at = new DOMPoint(x, y).matrixTransform(panel.svg.getScreenCTM());
  const { width, height } = tip.getBoundingClientRect();
  const [wide, high] = [root.clientWidth, innerHeight];
  tip.style.left = `${clamp(at.x + 14 + width > wide ? at.x - 14 - width : at.x + 14, 2, Math.max(wide - width - 2, 2))}px`;
  tip.style.top = `${clamp(at.y - height - 10 < 0 ? at.y + 14 : at.y - height - 10, 2, Math.max(high - height - 2, 2))}px`;
}

const pairs = (text) => text.trim().split(/\s+/).filter(Boolean).map((pair) => pair.split(",").map(Number));

// Returns a number with the decimals that `step`, the distance of a tenth of a pixel, can distinguish.
const rounded = (value, step) => {
  const decimals = clamp(Math.floor(-Math.log10(Math.abs(step) || 1)), 0, 9);
  return formatted(value, decimals);
};

// Returns the height of a line, drawn as points from left to right, at `x`; null beside the line.
function heightAt(points, x) {
  let last = null;
  for (let n = 1; n < points.length; n++) {
    const [[x0, y0], [x1, y1]] = [points[n - 1], points[n]];
    if (x < x0 - 0.06 || x > x1 + 0.06) continue;
    last = x1 - x0 < 0.05 ? y1 : y0 + (y1 - y0) * clamp((x - x0) / (x1 - x0), 0, 1);
    if (x < x1 - 0.06) break;
  }
  return last ?? (points.length === 1 && Math.abs(points[0][0] - x) < 0.06 ? points[0][1] : null);
}

// Axis of a panel: values at its ends, and their positions.
class Axis {
  constructor(text) {
    const [from, to, start, end, kind] = text.split(" ");
    Object.assign(this, { from: +from, to: +to, start: +start, end: +end, kind });
  }

  value(position) {
    const share = (position - this.start) / (this.end - this.start);
    if (this.kind === "decades") return this.from * (this.to / this.from) ** share;
    const value = this.from + (this.to - this.from) * share;
    return this.kind === "share" ? 100 * 10 ** value : value;
  }

  position(value) {
    return this.start + ((value - this.from) / (this.to - this.from)) * (this.end - this.start);
  }

  // Value at a position as text, with the precision of the drawing; what lies beyond the end is larger than it by an
  // unknown amount.
  text(position) {
    const beyond = (position - this.end) * Math.sign(this.end - this.start) > 1;
    const shown = beyond ? this.end : position;
    return (beyond ? "> " : "") + rounded(this.value(shown), this.value(shown) - this.value(shown - 0.1));
  }
}

class Panel {
  constructor(svg) {
    this.svg = svg;
    this.figure = svg.closest("figure");
    this.shift = (x) => x;
    this.unshift = (x) => x;
    if (svg.dataset.x) {
      this.x = new Axis(svg.dataset.x);
      this.y = new Axis(svg.dataset.y);
    }
    // Titles would be shown by the browser, too.
    const title = svg.querySelector(":scope > title");
    svg.setAttribute("aria-label", title.textContent);
    svg.setAttribute("aria-describedby", svg.querySelector(":scope > desc").id);
    svg.removeAttribute("aria-labelledby");
    title.remove();
    this.values = all("g.value", svg).map((part) => {
      const title = part.querySelector(":scope > title");
      const text = title.textContent;
      title.remove();
      return { part, text };
    });
    if (!this.values.length && !all("g.line, g.points", svg).length) return;
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "application");
    const listen = (name, act) => svg.addEventListener(name, act.bind(this));
    listen("pointermove", this.hover);
    listen("pointerleave", () => { if (!this.drag) hideTip(); });
    listen("pointerdown", this.press);
    listen("pointerup", this.release);
    listen("pointercancel", this.cancel);
    // A drag zooms and selects no labels.
    svg.addEventListener("selectstart", (event) => { if (this.drag) event.preventDefault(); });
    listen("dblclick", () => this.zoom(null));
    svg.addEventListener("wheel", this.wheel.bind(this), { passive: false });
    listen("keydown", this.key);
    listen("focus", () => { if (svg.matches(":focus-visible")) this.step(0); });
    listen("blur", hideTip);
  }

  // Lines with their bands, read when first needed.
  get lines() {
    this.read ??= all("g.line, g.points", this.svg).map((part) => {
      const label = part.dataset.s ?? part.dataset.l;
      const band = all("g.band", this.svg).find((each) => each.dataset.s === label);
      const areas = all("polygon:not(.mark)", band ?? part).map((area) => {
        const corners = pairs(area.getAttribute("points"));
        const half = corners.length / 2;
        return { upper: corners.slice(0, half), lower: corners.slice(half).reverse() };
      });
      const runs = all("polyline", part).map((run) => pairs(run.getAttribute("points")));
      const colour = part.querySelector("polyline")?.getAttribute("stroke");
      return { part, label, areas, runs, colour, n: band?.dataset.n, isPoints: part.classList.contains("points") };
    });
    return this.read;
  }

  get shown() {
    return this.lines.filter((line) => !isOff(line.part));
  }

  get shownValues() {
    return this.values.filter((value) => !isOff(value.part));
  }

  point(event) {
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
  }

  // All points that the arrow keys visit, from left to right.
  stops() {
    if (this.values.length) return this.shownValues.map((value) => ({ value }));
    const seen = new Map();
    for (const line of this.shown) {
      for (const [x, y] of line.runs.flat()) {
        const key = line.isPoints ? `${x} ${y}` : `${x}`;
        const isVisible = this.shift(x) >= this.x.start - 0.1 && this.shift(x) <= this.x.end + 0.1;
        if (isVisible && !seen.has(key)) seen.set(key, { x, y, line });
      }
    }
    return [...seen.values()].sort((a, b) => a.x - b.x);
  }

  show(stop) {
    hideTip();
    if (!stop) return;
    const cursor = element("g", { class: "cursor" }, this.svg);
    current = { panel: this, stop, cursor };
    if (stop.value) this.showValue(stop.value, cursor);
    else this.showLines(stop, cursor);
  }

  showValue({ part, text }, cursor) {
    const box = part.getBBox();
    const frame = { x: box.x - 2, y: box.y - 2, width: box.width + 4, height: box.height + 4 };
    element("rect", { ...frame, rx: 3, fill: "none", stroke: "var(--muted)" }, cursor);
    const marks = all(".mark", part);
    const mark = (marks[marks.length - 1] ?? part).getBBox();
    showTip(this, [{ text }], [mark.x + mark.width / 2, mark.y]);
  }

  // Shows the values of all lines at a place; of points alone, that of the point.
  showLines({ x, y, line }, cursor) {
    const place = this.shift(x);
    const lines = [];
    for (const each of line.isPoints ? [line] : this.shown) {
      const height = each === line && y !== undefined ? y : each.runs.map((run) => heightAt(run, x)).find((h) => h !== null);
      if (height === undefined) continue;
      let text = `${each.label}: ${this.y.text(height)}`;
      const area = each.areas.map((area) => [area.lower, area.upper].map((edge) => heightAt(edge, x))).find(([low]) => low !== null);
      if (area) text += ` [${this.y.text(area[0])}, ${this.y.text(area[1])}]`;
      if (each.n) text += `, n = ${each.n}`;
      lines.push({ text, colour: each.colour, height });
      element("circle", { cx: place, cy: height, r: 4.5, fill: "none", stroke: each.colour, "stroke-width": 1.5 }, cursor);
    }
    if (!lines.length) return;
    element("line", { x1: place, x2: place, y1: this.y.end, y2: this.y.start, stroke: "var(--muted)", "stroke-width": 0.7 }, cursor);
    lines.sort((a, b) => a.height - b.height);
    const title = (name) => this.svg.querySelector(`.${name}`)?.textContent.trim() ?? "";
    const head = `${title("x-title")}: ${this.x.text(x)}`;
    showTip(this, [{ text: head }, { text: title("y-title") }, ...lines], [place, lines[0].height]);
  }

  // Returns what lies nearest to a point of the panel.
  nearest({ x, y }) {
    if (this.values.length) {
      let best = null;
      for (const value of this.shownValues) {
        const box = value.part.getBBox();
        const [dx, dy] = [Math.max(box.x - x, x - box.x - box.width, 0), Math.max(box.y - y, y - box.y - box.height, 0)];
        const inside = Math.hypot(x - box.x - box.width / 2, y - box.y - box.height / 2) / 1e3;
        const distance = Math.hypot(dx, dy) + inside;
        if (distance < 16 && (!best || distance < best.distance)) best = { value, distance };
      }
      return best;
    }
    if (x < this.x.start - 6 || x > this.x.end + 6 || y < this.y.end - 6 || y > this.y.start + 6) return null;
    let best = null;
    for (const stop of this.stops()) {
      const distance = Math.hypot(this.shift(stop.x) - x, stop.line.isPoints ? stop.y - y : 0);
      if (!best || distance < best.distance) best = { ...stop, distance };
    }
    // Lines are shown at all their values at one place.
    return best && !best.line.isPoints ? { x: best.x, line: best.line } : best;
  }

  hover(event) {
    const point = this.point(event);
    if (this.drag) this.select(point);
    else this.show(this.nearest(point));
  }

  step(by) {
    const stops = this.stops();
    if (!stops.length) return;
    const now = current?.panel === this ? current.stop : null;
    const place = now ? stops.findIndex((stop) => (stop.value ? stop.value === now.value : stop.x === now.x && (!stop.line.isPoints || stop.y === now.y))) : -1;
    this.show(stops[place < 0 ? 0 : clamp(place + by, 0, stops.length - 1)]);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    if (event.key in steps) this.step(steps[event.key]);
    else if (event.key === "Escape") hideTip();
    else if (this.x && (event.key === "+" || event.key === "=")) this.scale(0.5, current?.stop.x);
    else if (this.x && event.key === "-") this.scale(2, current?.stop.x);
    else if (this.x && event.key === "0") this.zoom(null);
    else return;
    event.preventDefault();
  }

  // ---- Zoom of all panels of a figure over their horizontal axis

  press(event) {
    if (!this.x || event.button !== 0) return;
    const { x, y } = this.point(event);
    if (x < this.x.start || x > this.x.end || y < this.y.end || y > this.y.start) return;
    this.svg.setPointerCapture(event.pointerId);
    this.drag = { from: x };
  }

  select({ x }) {
    hideTip();
    this.drag.to = clamp(x, this.x.start, this.x.end);
    this.drag.area ??= element("rect", { class: "cursor", fill: "var(--muted)", opacity: 0.2 }, this.svg);
    const [left, right] = [this.drag.from, this.drag.to].sort((a, b) => a - b);
    const area = { x: left, width: right - left, y: this.y.end, height: this.y.start - this.y.end };
    for (const [name, value] of Object.entries(area)) this.drag.area.setAttribute(name, value);
  }

  cancel() {
    this.drag?.area?.remove();
    this.drag = null;
  }

  release() {
    const drag = this.drag;
    this.cancel();
    if (drag?.to === undefined || Math.abs(drag.to - drag.from) < 6) return;
    const ends = [drag.from, drag.to].sort((a, b) => a - b).map((x) => this.x.value(this.unshift(x)));
    this.zoom(ends);
  }

  wheel(event) {
    // A page that is scrolled is not zoomed by chance.
    if (!this.x || !(event.ctrlKey || event.metaKey || document.activeElement === this.svg)) return;
    event.preventDefault();
    this.scale(Math.exp(clamp(event.deltaY, -200, 200) / 300), this.unshift(this.point(event).x));
  }

  // Shows `factor` times as much of the axis, with the place at `x` where it was.
  scale(factor, x) {
    const [from, to] = this.range ?? [this.x.from, this.x.to];
    const fixed = clamp(x === undefined ? (from + to) / 2 : this.x.value(x), from, to);
    this.zoom([fixed - (fixed - from) * factor, fixed + (to - fixed) * factor]);
  }

  // Shows a range of the axis in each panel of the figure; null shows all.
  zoom(range) {
    if (!this.x) return;
    hideTip();
    const group = panels.filter((panel) => panel.x && panel.figure === this.figure);
    for (const panel of group) panel.setRange(range);
    const figure = this.figure;
    const isZoomed = group.some((panel) => panel.range);
    let button = figure.querySelector(".reset");
    if (!isZoomed) button?.remove();
    else if (!button) {
      button = element("button", { type: "button", class: "reset" }, figure);
      button.textContent = controls.dataset.reset;
      button.addEventListener("click", () => { this.zoom(null); this.svg.focus(); });
      figure.querySelector(".panels").after(button);
    }
  }

  setRange(range) {
    const { from, to, start, end } = this.x;
    if (range) {
      const [low, high] = [Math.max(range[0], from), Math.min(range[1], to)];
      range = high <= low || (low <= from && high >= to) ? null : [low, high];
      if (range && high - low < (to - from) / 2000) return;
    }
    this.range = range;
    const [left, right] = range ? range.map((value) => this.x.position(value)) : [start, end];
    this.shift = (x) => start + ((x - left) / (right - left)) * (end - start);
    this.unshift = (x) => left + ((x - start) / (end - start)) * (right - left);
    this.svg.classList.toggle("zoomed", range !== null);
    this.keepOriginal();
    for (const { part, points, x } of this.original) {
      if (x !== undefined) part.setAttribute(part.tagName === "circle" ? "cx" : "x", this.shift(x).toFixed(1));
      else part.setAttribute("points", this.moved(part, points));
    }
    this.drawTicks();
  }

  // Returns the points of a line at their new places; a mark keeps its shape.
  moved(part, points) {
    let place = this.shift;
    if (part.classList.contains("mark")) {
      const xs = points.map(([x]) => x);
      const centre = (Math.min(...xs) + Math.max(...xs)) / 2;
      place = (x) => x + this.shift(centre) - centre;
    }
    return points.map(([x, y]) => `${place(x).toFixed(1)},${y}`).join(" ");
  }

  // Remembers where everything was, and cuts the plot at its edges.
  keepOriginal() {
    if (this.original) return;
    void this.lines;
    const plot = this.svg.querySelector(".plot");
    for (const label of all(".end", plot)) this.svg.append(label);
    const { start, end } = this.x;
    const id = `clip-${panels.indexOf(this)}`;
    const clip = element("clipPath", { id }, this.svg);
    element("rect", { x: start - 1, y: 0, width: end - start + 2, height: this.y.start + 1 }, clip);
    plot.setAttribute("clip-path", `url(#${id})`);
    this.original = all("polyline, polygon, circle, text", plot).map((part) => {
      const points = part.getAttribute("points");
      if (points !== null) return { part, points: pairs(points) };
      return { part, x: Number(part.getAttribute(part.tagName === "circle" ? "cx" : "x")) };
    });
  }

  drawTicks() {
    const group = this.svg.querySelector(".x-ticks");
    this.ticks ??= [...group.childNodes];
    if (!this.range) {
      group.replaceChildren(...this.ticks);
      return;
    }
    const [from, to] = this.range;
    const [line, text] = ["polyline", "text"].map((name) => this.ticks.find((part) => part.nodeName === name));
    const decade = 10 ** Math.floor(Math.log10((to - from) / 6));
    const size = [1, 2, 5, 10].map((factor) => factor * decade).find((size) => (to - from) / size <= 6) ?? 10 * decade;
    group.replaceChildren();
    for (let n = Math.ceil(from / size); n * size <= to; n++) {
      const x = this.shift(this.x.position(n * size)).toFixed(1);
      const bottom = this.y.start;
      const [tick, label] = [line.cloneNode(), text.cloneNode()];
      tick.setAttribute("points", `${x},${bottom} ${x},${bottom + 4}`);
      label.setAttribute("x", x);
      label.textContent = formatted(n * size, Math.max(0, -Math.floor(Math.log10(size) + 1e-9)));
      group.append(tick, label);
    }
  }
}

const panels = all("svg.panel").map((svg) => new Panel(svg));
addEventListener("scroll", () => { if (current && document.activeElement !== current.panel.svg) hideTip(); }, { passive: true });
addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

// Folded tables belong on paper.
addEventListener("beforeprint", () => { for (const folded of all("main details:not(#shown)")) folded.open = true; });
})();
